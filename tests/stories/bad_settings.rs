//! Site files that cannot work, and places that are taken: the conductor says what, where and what to do, and ends.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::client::assert_says;
use crate::conductor::Ended;
use crate::site::Site;

async fn refusal(site: &Site, toml: &str) -> String {
    match site.try_start_toml("alpha", toml, &[]).await {
        Ok(_) => panic!("it started with\n{toml}"),
        Err(Ended { status, log }) => {
            assert_eq!(status.code(), Some(1), "{status}: {log}");
            log
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mistake_in_a_site_file_is_named_with_its_line_and_what_to_do() {
    let site = Site::new(1).await;
    let file = site.path("alpha.toml");
    let place = |line: usize| format!("{}:{line}", file.display());

    let said = refusal(&site, "[api]\nlisten = \"127.0.0.1:0\"\nlissten = 1\n").await;
    assert_says(&said, &[&place(3), "lissten", "listen"]);

    let said = refusal(&site, "data-dir = \"/x\"\n[conductor]\nlease-s = \"soon\"\n").await;
    assert_says(&said, &[&place(3), "lease-s"]);

    let twins = "[[backend]]\nid = \"a\"\nkind = \"embedded\"\n[[backend]]\nid = \"a\"\nkind = \"embedded\"\n";
    let said = refusal(&site, twins).await;
    assert_says(&said, &[&place(5), "id = \"a\"", "ids must differ"]);

    let said = refusal(&site, "[api\nlisten = 1\n").await;
    assert_says(&said, &[&place(1)]);

    // All at once, not one a run.
    let said = refusal(&site, "sppeed = 1\n[conductor]\nlease-s = 0\n").await;
    assert_says(&said, &[&place(1), "sppeed", &place(3), "lease-s"]);

    let mut settings = site.settings("alpha");
    settings["images"]["deploy-kernel"] = site.file("no-such-kernel").into();
    let said = site.refuses_to_start(&settings).await;
    assert_says(&said, &["deploy-kernel", "no-such-kernel", "correct the path"]);

    settings = site.settings("alpha");
    settings["api"]["listen"] = "0.0.0.0:6385".into();
    let toml = toml::to_string(&settings).expect("TOML");
    let said = refusal(&site, &toml).await;
    assert_says(&said, &["[api] listen", "http_basic"]);

    let data: Vec<_> = std::fs::read_dir(site.data()).expect("the folder").flatten().collect();
    assert!(data.is_empty(), "something was begun: {data:?}");
    let missing = site.path("missing.toml");
    let output = crate::conductor::farrier(&["serve", "--config", &missing.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1));
    assert_says(&String::from_utf8_lossy(&output.stderr), &["missing.toml"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_is_named_with_its_setting() {
    let site = Site::new(1).await;
    let settings = site.settings("alpha");
    for section in ["api", "agent", "images"] {
        let address = settings[section]["listen"].as_str().expect("an address");
        let taken = std::net::TcpListener::bind(address).expect("it is free");
        // Nobody answers there, so that the story does not take it for the conductor.
        let said = site.refuses_to_start(&settings).await;
        assert_says(&said, &[address, &format!("[{section}] listen"), "another"]);
        drop(taken);
    }
    site.start_with(&settings).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_key_that_others_can_read_or_that_is_none_is_refused_and_the_right_one_serves_again() {
    let site = Site::new(1).await;
    let mut alpha = site.start("alpha").await;
    let node = site.enrol(&alpha.api, 0, &site.node(0, "agent_ilo", "alpha")).await;
    alpha.stop().await;
    let key = site.path("secret.key");
    let right = std::fs::read(&key).expect("made at the first start");
    let mode = |mode| std::fs::set_permissions(&key, Permissions::from_mode(mode)).expect("its owner");
    assert_eq!(key.metadata().expect("the key").permissions().mode() & 0o777, 0o600);

    let named = key.to_string_lossy().into_owned();
    mode(0o644);
    let said = site.refuses_to_start(&site.settings("alpha")).await;
    assert_says(&said, &[&named, "chmod 600"]);
    mode(0o600);

    std::fs::write(&key, "short").expect("the key");
    let said = site.refuses_to_start(&site.settings("alpha")).await;
    assert_says(&said, &[&named]);

    let other: Vec<u8> = right.iter().map(|byte| byte ^ 1).collect();
    std::fs::write(&key, other).expect("the key");
    let said = site.refuses_to_start(&site.settings("alpha")).await;
    assert_says(&said, &[&named, "another key"]);

    std::fs::write(&key, right).expect("the key");
    let alpha = site.start("alpha").await;
    alpha.api.bring(&node, "manage", "manageable").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_root_that_cannot_be_used_is_named() {
    let site = Site::new(1).await;
    let mut settings = site.settings("alpha");
    let missing = site.path("no-such-root");
    settings["backend"] =
        json!([{ "id": "httpd", "kind": "web-root", "root": missing.to_string_lossy(), "url": "http://127.0.0.1/b" }]);
    let said = site.refuses_to_start(&settings).await;
    assert_says(&said, &["httpd", "no-such-root"]);
}
