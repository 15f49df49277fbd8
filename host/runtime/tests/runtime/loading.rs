//! What is refused when plugins are loaded, and what the refusal says.

use std::sync::Arc;

use runtime::{ComponentSource, Limits, LoadError, PluginConfig, Role};

use crate::support::{built_in, guests, hostile, with_plugins, world};

async fn refusal(plugin: PluginConfig) -> String {
    match with_plugins(&world(), vec![plugin]).await {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error.to_string(),
    }
}

fn from_text(text: &str) -> PluginConfig {
    let bytes: Arc<[u8]> = wat::parse_str(text).unwrap().into();
    PluginConfig {
        component: ComponentSource::Bytes {
            name: "test.wasm".into(),
            bytes,
        },
        ..hostile("nothing")
    }
}

#[track_caller]
fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is not in: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_built_in_plugins_import_no_wasi_and_stand_last() {
    let world = world();
    // A component that imports WASI is refused, the built-in ones included: that they load shows that they import none.
    let runtime = built_in(&world).await;
    let ids: Vec<String> = runtime.plugins().into_iter().map(|plugin| plugin.id).collect();
    assert_eq!(
        ids,
        ["built-in:backend-selection", "built-in:vmedia", "built-in:take-over"]
    );
    let runtime = with_plugins(&world, vec![hostile("nothing")]).await.unwrap();
    let vmedia: Vec<_> = runtime
        .plugins()
        .into_iter()
        .filter(|plugin| plugin.role == Role::Vmedia)
        .collect();
    assert_eq!(
        vmedia.iter().map(|plugin| plugin.built_in).collect::<Vec<_>>(),
        [false, true]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wasi_is_refused_with_the_flags_that_remove_it() {
    let text = r#"(component
        (import "wasi:cli/environment@0.2.0" (instance (export "get-environment" (func))))
        (import "wasi:io/streams@0.2.0" (instance)))"#;
    says(
        &refusal(from_text(text)).await,
        &[
            "test.wasm",
            "wasi:cli/environment@0.2.0",
            "wasi:io/streams",
            "wasm32-unknown-unknown",
            "--stub-wasi",
            "--disable all",
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_of_the_contract_is_refused_with_both() {
    let import = r#"(component (import "farrier:driver/log@0.3.0" (instance)))"#;
    says(
        &refusal(from_text(import)).await,
        &["needs farrier:driver@0.3, this host offers 0.1"],
    );
    let export = r#"(component (instance $i) (export "farrier:driver/vmedia@0.2.1" (instance $i)))"#;
    says(
        &refusal(from_text(export)).await,
        &["needs farrier:driver@0.2, this host offers 0.1"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_of_another_role_or_kind_is_refused() {
    says(
        &refusal(PluginConfig {
            role: Role::TakeOver,
            ..hostile("nothing")
        })
        .await,
        &[
            "take-over",
            "imports farrier:driver/",
            "it has types, log, config, inventory",
        ],
    );
    says(
        &refusal(from_text(r#"(component (import "acme:x/y" (instance)))"#)).await,
        &["acme:x/y", "farrier:driver"],
    );
    says(
        &refusal(from_text("(component)")).await,
        &["does not export farrier:driver/vmedia@0.1.0", "vmedia-plugin"],
    );
    says(
        &refusal(from_text("(module)")).await,
        &["core module", "wasm-component-ld"],
    );
    let other = r#"(component (import "farrier:driver/log@0.1.0" (instance (export "event" (func (param "x" u32)))))
        (instance $i) (export "farrier:driver/vmedia@0.1.0" (instance $i)))"#;
    says(&refusal(from_text(other)).await, &["does not fit the contract"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_whose_exports_have_other_types_is_refused() {
    let functions = [
        "prepare-ramdisk",
        "clean-up-ramdisk",
        "prepare-instance",
        "clean-up-instance",
        "attach",
        "detach",
        "boot-into-iso",
    ];
    let exports: String = functions
        .iter()
        .map(|name| format!("(export \"{name}\" (func $f))"))
        .collect();
    let text = format!(
        r#"(component
            (core module $m (func (export "f")))
            (core instance $c (instantiate $m))
            (func $f (canon lift (core func $c "f")))
            (instance $i {exports})
            (export "farrier:driver/vmedia@0.1.0" (instance $i)))"#
    );
    says(&refusal(from_text(&text)).await, &["does not fit the contract"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_component_are_refused() {
    for bytes in [&b""[..], b"\x7fELF", b"\0asm\x0d\0\x01\0garbage", b"(component)"] {
        let component = ComponentSource::Bytes {
            name: "test.wasm".into(),
            bytes: bytes.into(),
        };
        says(
            &refusal(PluginConfig {
                component,
                ..hostile("nothing")
            })
            .await,
            &["test.wasm is not a valid component"],
        );
    }
    let component = ComponentSource::File(guests().join("missing.wasm"));
    says(
        &refusal(PluginConfig {
            component,
            ..hostile("nothing")
        })
        .await,
        &["missing.wasm", "`component`"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_digest_is_kept_to() {
    let wanted = format!("sha256:{}", "0".repeat(64)).parse().unwrap();
    let plugin = PluginConfig {
        digest: Some(wanted),
        ..hostile("nothing")
    };
    says(
        &refusal(plugin).await,
        &["hostile.wasm", "farrier.toml wants sha256:000"],
    );
    let world = world();
    let loaded = with_plugins(&world, vec![hostile("nothing")]).await.unwrap();
    let digest = loaded
        .plugins()
        .into_iter()
        .find(|plugin| plugin.id == "hostile")
        .unwrap()
        .digest;
    let plugin = PluginConfig {
        digest: Some(digest),
        ..hostile("nothing")
    };
    assert!(with_plugins(&world, vec![plugin]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_could_never_start_is_refused_with_the_figure() {
    let limits = Limits {
        memory: 64 << 10,
        ..Limits::default()
    };
    let plugin = PluginConfig {
        limits,
        ..hostile("nothing")
    };
    match with_plugins(&world(), vec![plugin]).await.err().unwrap() {
        LoadError::TooBig { figure, most, .. } => {
            assert!(
                figure.contains("bytes of memory") && most.contains("65536"),
                "{figure}, {most}"
            );
        }
        other => panic!("{other}"),
    }
    let limits = Limits {
        memory: 1 << 30,
        ..Limits::default()
    };
    says(
        &refusal(PluginConfig {
            limits,
            ..hostile("nothing")
        })
        .await,
        &["1073741824", "lower `limits.memory`"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_are_no_table_are_refused() {
    let plugin = PluginConfig {
        settings: serde_json::json!(7),
        ..hostile("nothing")
    };
    says(&refusal(plugin).await, &["`settings`", "table"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_too_big_for_the_pool_is_refused_with_the_figure() {
    let instances = "(core instance (instantiate $m))".repeat(65);
    let text = format!("(component (core module $m) {instances})");
    says(
        &refusal(from_text(&text)).await,
        &[
            "65 core module instances",
            "64 core instances",
            "leave parts of its runtime out",
        ],
    );
}
