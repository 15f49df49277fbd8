//! The main job from the command line, and how it ends for scripts: 0 done, 1 failed, 2 usage.

use std::process::Output;

use serde_json::Value;
use sim::Device;

use crate::client::assert_says;
use crate::conductor::farrier;
use crate::site::{BMC_PASSWORD, BMC_USER, Site, sha256, text};

/// Runs `farrier node …` against that API.
async fn node(api: &str, arguments: &[&str]) -> (i32, String, String) {
    let mut all = vec!["node".to_owned(), "--api".to_owned(), api.to_owned()];
    all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    let run = tokio::task::spawn_blocking(move || {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        farrier(&all)
    });
    let Output { status, stdout, stderr } = run.await.expect("a task");
    let read = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().expect("it ends by itself"), read(stdout), read(stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_does_the_main_job_from_the_command_line() {
    let site = Site::new(1).await;
    let _alpha = site.start("alpha").await;
    let api = site.api_url("alpha");
    let server = site.sim.server(0).expect("a server");
    let password = site.path("ilo.password");
    std::fs::write(&password, format!("{BMC_PASSWORD}\n")).expect("a file");
    let address = format!("ilo_address={}", server.url);
    let user = format!("ilo_username={BMC_USER}");
    let ca = format!("ilo_verify_ca={}", text(site.sim.ca_pem()));
    let source = format!("image_source={}", site.images.url("disk.img"));
    let hash = format!("image_os_hash_value={}", sha256(&site.disk));
    let password = text(&password);
    let create = [
        "create",
        "--name",
        "n1",
        "--driver",
        "agent_ilo",
        "--mac",
        &server.mac,
        "--driver-info",
        &address,
        "--driver-info",
        &user,
        "--driver-info",
        &ca,
        "--bmc-password-file",
        &password,
        "--property",
        "capabilities=boot_mode:bios",
        "--instance-info",
        &source,
        "--instance-info",
        "image_disk_format=raw",
        "--instance-info",
        "image_os_hash_algo=sha256",
        "--instance-info",
        &hash,
    ];
    let (code, _, said) = node(&api, &create).await;
    assert_eq!(code, 0, "{said}");
    let (code, _, said) = node(&api, &create).await;
    assert_eq!(code, 1, "a second of that name: {said}");
    assert_says(&said, &["`n1`", "taken already"]);

    for (verb, lines) in [
        (
            "manage",
            ["node n1: enroll → verifying: manage", "node n1 is manageable"],
        ),
        (
            "provide",
            ["node n1: manageable → cleaning: provide", "node n1 is available"],
        ),
        (
            "deploy",
            [
                "node n1: deploying → wait call-back: the server boots its ramdisk",
                "node n1 is active",
            ],
        ),
    ] {
        let (code, _, said) = node(&api, &[verb, "n1"]).await;
        assert_eq!(code, 0, "{verb}: {said}");
        // It writes to a pipe, so each thing that happens is a plain line.
        for line in lines {
            assert!(said.lines().any(|said| said == line), "{line:?} is not in: {said}");
        }
        assert!(!said.contains('\u{1b}') && !said.contains('\r'), "{said:?}");
    }
    site.assert_deployed(0);
    let (code, shown, _) = node(&api, &["show", "n1", "-o", "json"]).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(
        (code, &shown["provision_state"]),
        (0, &Value::from("active")),
        "{shown}"
    );
    assert!(!shown.to_string().contains(BMC_PASSWORD));
    let (code, table, _) = node(&api, &["list"]).await;
    assert_eq!(code, 0);
    assert_says(&table, &["n1", "active", "power on"]);
    let (code, history, _) = node(&api, &["history", "n1"]).await;
    assert_eq!(code, 0);
    assert_says(&history, &["enroll → verifying", "deploying → active"]);

    // What cannot be is said at once, and is a failure to a script.
    for name in ["n1", shown["uuid"].as_str().unwrap_or_default()] {
        let (code, _, said) = node(&api, &["provide", name]).await;
        assert_eq!(code, 1, "{said}");
        assert_says(&said, &[&format!("node {name}: "), "provide", "active"]);
    }
    let (code, _, said) = node(&api, &["deploy", "nobody"]).await;
    assert_eq!(code, 1, "{said}");
    assert_says(&said, &["nobody"]);
    let (code, _, _) = node(&api, &["deploy"]).await;
    assert_eq!(code, 2, "no node named");
    let (code, _, said) = node("http://127.0.0.1:9", &["list"]).await;
    assert_eq!(code, 1, "{said}");
    assert_says(&said, &["http://127.0.0.1:9", "farrier serve"]);

    let (code, _, said) = node(&api, &["undeploy", "n1"]).await;
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        [site.inserted(0, Device::Floppy), site.inserted(0, Device::Cd)],
        [None, None]
    );
    let (code, _, said) = node(&api, &["delete", "n1"]).await;
    assert_eq!(code, 0, "{said}");
    let (_, listed, _) = node(&api, &["list", "-o", "json"]).await;
    assert!(!listed.contains("n1"), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_refused_twice_for_the_same_reason_ends_both_times() {
    let site = Site::with(1, |config| config.boot_mode = Some(sim::BootMode::Uefi)).await;
    let mut settings = site.settings("alpha");
    settings["conductor"]["automated-clean"] = true.into();
    let alpha = site.start_with(&settings).await;
    let api = site.api_url("alpha");
    let mut made = site.node(0, "agent_ilo", "alpha");
    made["properties"] = serde_json::json!({});
    let name = site.enrol(&alpha.api, 0, &made).await;
    alpha.api.bring(&name, "manage", "manageable").await;
    for _ in 0..2 {
        let (code, _, said) = node(&api, &["provide", &name]).await;
        assert_eq!(code, 1, "{said}");
        assert_says(&said, &["[images] esp", "ended in `manageable`"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_that_fails_fails_the_command_with_the_reason() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let api = site.api_url("alpha");
    site.available(&alpha.api, 0, "agent_ilo", "alpha").await;
    let wrong = format!("image_os_hash_value={}", sha256(b"something else"));
    let (code, _, said) = node(&api, &["set", "n0", "--instance-info", &wrong]).await;
    assert_eq!(code, 0, "{said}");
    for _ in 0..2 {
        // The second time it starts from the failure of the first.
        let (code, _, said) = node(&api, &["deploy", "n0"]).await;
        assert_eq!(code, 1, "{said}");
        assert_says(&said, &["n0", "deploy failed", "checksum"]);
    }
    assert_eq!(site.images.gets("disk.img"), 2, "each command tried once");
    let right = format!("image_os_hash_value={}", sha256(&site.disk));
    node(&api, &["set", "n0", "--instance-info", &right]).await;
    let (code, _, said) = node(&api, &["deploy", "n0"]).await;
    assert_eq!(code, 0, "{said}");
    site.assert_deployed(0);
}
