//! A site's own plugins: swapped by the site file alone, stopped when they misbehave, refused when they want too much.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use sim::Device;

use crate::client::assert_says;
use crate::site::{Site, text};

/// What the example's README tells an author to type.
const COMMAND: &str = r#"RUSTFLAGS="-C linker=wasm-component-ld" cargo build -p vmedia-boot-once --profile guest --target wasm32-unknown-unknown"#;

fn workspace() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace")
}

/// Builds guests by that command, once; returns where they are.
pub(crate) fn guests() -> PathBuf {
    static GUESTS: OnceLock<PathBuf> = OnceLock::new();
    GUESTS
        .get_or_init(|| {
            let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../guests");
            // A target folder apart, so that nothing waits for the lock of the outer build.
            let command = format!("{COMMAND} -p hostile --quiet --target-dir {}", target.display());
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(command).current_dir(workspace());
            for (name, _) in std::env::vars() {
                let kept = [
                    "CARGO_HOME",
                    "CARGO_HTTP_",
                    "CARGO_NET_",
                    "CARGO_REGISTRIES_",
                    "CARGO_SOURCE_",
                ];
                if name.starts_with("CARGO") && !kept.iter().any(|prefix| name.starts_with(prefix)) {
                    shell.env_remove(name);
                }
            }
            for name in ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
                shell.env_remove(name);
            }
            assert!(shell.status().expect("a shell").success(), "the guests do not compile");
            target.join("wasm32-unknown-unknown/guest")
        })
        .clone()
}

/// The hostile guest, told what to do, for the nodes with that policy.
fn hostile(what: &str) -> Value {
    json!({
        "role": "vmedia",
        "component": text(&guests().join("hostile.wasm")),
        "match": { "capability.policy": "odd" },
        "settings": { "do": what },
    })
}

fn odd(mut node: Value) -> Value {
    node["properties"]["capabilities"] = "boot_mode:bios,policy:odd".into();
    node
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_vmedia_plugin_in_the_site_file_makes_servers_see_other_requests_without_a_rebuild() {
    let site = Site::new(3).await;
    let mut alpha = site.start("alpha").await;
    site.active(&alpha.api, 0, "agent_ilo", "alpha").await;
    let built_in = site.done_to(0);
    alpha.stop().await;

    let readme = std::fs::read_to_string(workspace().join("examples/vmedia-boot-once/README.md")).expect("it is there");
    assert!(readme.contains(COMMAND), "the README tells another command");
    let entry = readme
        .split("```toml")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("an entry");
    let mut entry: Value = toml::from_str(entry).expect("TOML");
    let component = entry["plugin"][0]["component"].as_str().expect("a path").to_owned();
    let component = guests().join(component.rsplit('/').next().expect("a file"));
    entry["plugin"][0]["component"] = text(&component).into();
    let mut settings = site.settings("alpha");
    settings["plugin"] = entry["plugin"].clone();
    let mut alpha = site.start_with(&settings).await;
    let plugins = alpha.api.get("/farrier/v1/plugins").await;
    let plugins = plugins["plugins"].as_array().cloned().unwrap_or_default();
    let vmedia: Vec<_> = plugins
        .iter()
        .filter(|plugin| plugin["role"] == "vmedia")
        .map(|plugin| &plugin["id"])
        .collect();
    assert_eq!(vmedia, ["vmedia_boot_once", "built-in:vmedia"]);
    site.active(&alpha.api, 1, "agent_ilo", "alpha").await;
    site.assert_deployed(1);
    let swapped = site.done_to(1);

    assert_eq!(
        built_in[..4],
        ["insert floppy", "insert cd", "boot Cd Once", "power On"]
    );
    assert_eq!(
        swapped[..4],
        ["insert cd", "boot cd at next reset", "insert floppy", "power On"]
    );
    // All else went down the chain to the built-in.
    assert_eq!(swapped[4..], built_in[4..]);
    alpha.stop().await;

    let alpha = site.start("alpha").await;
    site.active(&alpha.api, 2, "agent_ilo", "alpha").await;
    assert_eq!(
        site.done_to(2),
        built_in,
        "without the entry the built-in decides again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_loops_for_ever_is_stopped_while_other_nodes_go_on_deploying() {
    let site = Site::new(2).await;
    let mut settings = site.settings("alpha");
    settings["plugin"] = json!([hostile("spin")]);
    let mut alpha = site.start_with(&settings).await;
    let api = alpha.api.clone();
    let spinning = site.enrol(&api, 0, &odd(site.node(0, "agent_ilo", "alpha"))).await;
    api.bring(&spinning, "manage", "manageable").await;
    api.bring(&spinning, "provide", "available").await;
    let other = site.available(&api, 1, "agent_ilo", "alpha").await;
    let before = site.done_to(0);

    api.want(&spinning, "active").await;
    api.want(&other, "active").await;
    let said = api.fails(&spinning, "deploy failed").await;
    assert_says(
        &said,
        &[
            "plugin `hostile` was stopped in `prepare-ramdisk`",
            "CPU time",
            "`cpu-ms`",
        ],
    );
    api.reaches(&other, "active").await;
    site.assert_deployed(1);
    assert_eq!(site.done_to(0), before, "nothing was done by it");
    let calls = api.get("/farrier/v1/plugins/calls?limit=1000").await;
    let calls = calls["calls"].as_array().expect("a list");
    let spun = calls
        .iter()
        .find(|call| call["plugin"] == "hostile" && call["function"] == "prepare-ramdisk");
    let spun = spun.expect("the call is told of");
    assert_eq!(spun["outcome"], "cpu-budget", "{spun}");
    alpha.assert_alive();
    alpha.stop().await;

    // Without it the node deploys.
    let alpha = site.start("alpha").await;
    alpha.api.bring(&spinning, "active", "active").await;
    site.assert_deployed(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugins_that_trap_hoard_or_steal_fail_their_own_call_and_nothing_else() {
    for (what, parts) in [
        ("panic", ["was stopped in `prepare-ramdisk`", "it trapped"]),
        ("allocate", ["was stopped in `prepare-ramdisk`", "`memory`"]),
        ("storm", ["was stopped in `prepare-ramdisk`", "`host-calls`"]),
        (
            "steal-secret",
            ["plugin `hostile` was denied `secrets: ilo_password`", "`grant`"],
        ),
        (
            "nothing-granted",
            [
                "plugin `hostile` was denied `image.build-floppy`",
                "`grant` in farrier.toml",
            ],
        ),
    ] {
        let site = Site::new(1).await;
        let mut settings = site.settings("alpha");
        settings["plugin"] = json!([hostile(what)]);
        if what == "nothing-granted" {
            settings["plugin"][0]["settings"]["do"] = "pass-on".into();
            settings["plugin"][0]["grant"] = json!({});
        }
        let mut alpha = site.start_with(&settings).await;
        let api = &alpha.api;
        let node = site.enrol(api, 0, &odd(site.node(0, "agent_ilo", "alpha"))).await;
        api.bring(&node, "manage", "manageable").await;
        api.bring(&node, "provide", "available").await;
        api.want(&node, "active").await;
        let said = api.fails(&node, "deploy failed").await;
        assert_says(&said, &parts);
        assert_eq!(
            [site.inserted(0, Device::Floppy), site.inserted(0, Device::Cd)],
            [None, None],
            "{what}"
        );
        assert_eq!(api.artefacts(&node).await, [""; 0], "{what}");
        assert!(!site.is_on(0), "{what}");
        alpha.assert_alive();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_component_that_imports_wasi_is_refused_at_the_start_with_the_remedy() {
    let site = Site::new(1).await;
    let text = r#"(component
        (import "wasi:cli/environment@0.2.0" (instance (export "get-environment" (func))))
        (import "wasi:io/streams@0.2.0" (instance)))"#;
    let component = site.path("with-wasi.wasm");
    std::fs::write(&component, wat::parse_str(text).expect("a component")).expect("a file");
    let mut settings = site.settings("alpha");
    settings["plugin"] = json!([{ "role": "vmedia", "component": component.to_string_lossy() }]);
    let said = site.refuses_to_start(&settings).await;
    let parts = [
        "with-wasi.wasm",
        "wasi:cli/environment",
        "wasm32-unknown-unknown",
        "--stub-wasi",
    ];
    assert_says(&said, &parts);

    settings["plugin"][0]["component"] = site.file("vmlinuz").into();
    let said = site.refuses_to_start(&settings).await;
    assert_says(&said, &["vmlinuz", "not a valid component"]);
}
