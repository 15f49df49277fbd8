//! `farrier backend` over real backends: this process, a folder behind nginx, Swift, S3.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

#[path = "../../../tests/support/peers.rs"]
mod peers;

use peers::{Keystone, Nginx, Swift};

const STEPS: [&str; 12] = [
    "usable",
    "publish",
    "URL",
    "HEAD",
    "small ranges",
    "large ranges",
    "whole",
    "past the end",
    "renew",
    "withdraw",
    "expire",
    "nothing left",
];

fn farrier(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_farrier"))
        .arg("backend")
        .args(arguments)
        .arg("--config")
        .arg(folder.join("farrier.toml"))
        .output()
        .unwrap()
}

fn site(backends: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("data-dir = \"data\"\n[images]\nlisten = \"127.0.0.1:0\"\n{backends}");
    std::fs::write(folder.path().join("farrier.toml"), text).unwrap();
    std::fs::write(folder.path().join("password"), "testing\n").unwrap();
    folder
}

/// The states of a check's steps, by their names, and what the whole printed.
fn states(output: &Output) -> (Vec<(String, String)>, String) {
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let reports: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let steps = reports[0]["steps"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let states = steps.iter().map(|step| (text(&step["step"]), text(&step["state"])));
    (states.collect(), printed)
}

/// Every step happened, and only these are doubtful.
fn check(folder: &Path, name: &str, doubtful: &[&str]) {
    let output = farrier(folder, &["check", name, "--expire", "-o", "json"]);
    let (states, printed) = states(&output);
    let names: Vec<&str> = states.iter().map(|(step, _)| step.as_str()).collect();
    assert_eq!(names, STEPS, "{printed}");
    for (step, state) in &states {
        let expected = if doubtful.contains(&step.as_str()) {
            "warning"
        } else {
            "ok"
        };
        assert_eq!(state, expected, "{step}: {printed}");
    }
    assert_eq!(output.status.code(), Some(0));
    let all = printed + &String::from_utf8_lossy(&output.stderr);
    for secret in ["testing", "temp_url_sig", "Signature="] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
}

fn swift_backend(id: &str, swift: &Swift, account: usize, delivery: &str) -> String {
    format!(
        "[[backend]]\nid = \"{id}\"\nkind = \"swift\"\nauth-type = \"v1\"\nauth-url = \"{}\"\nusername = \"t{account:02}:tester\"\npassword-file = \"password\"\ndelivery = \"{delivery}\"\n",
        swift.auth_url()
    )
}

#[test]
fn the_conductors_own_listener_passes_every_step() {
    let folder = site("[[backend]]\nid = \"local\"\nkind = \"embedded\"\n");
    check(folder.path(), "local", &[]);
}

#[test]
fn a_folder_behind_nginx_passes_though_its_urls_never_expire() {
    let root = tempfile::tempdir().unwrap();
    let nginx = Nginx::start(root.path());
    let folder = site(&format!(
        "[[backend]]\nid = \"httpd\"\nkind = \"web-root\"\nroot = \"{}\"\nurl = \"http://127.0.0.1:{}/images\"\n",
        root.path().display(),
        nginx.port
    ));
    check(folder.path(), "httpd", &["expire"]);
    assert_eq!(
        std::fs::read_dir(root.path()).unwrap().count(),
        0,
        "something is left behind"
    );
}

#[test]
fn swift_passes_by_signed_urls_and_by_relay() {
    let swift = Swift::start(&[]);
    let backends: String = ["auto", "direct", "relay"]
        .iter()
        .enumerate()
        .map(|(account, delivery)| swift_backend(delivery, &swift, account, delivery))
        .collect();
    let folder = site(&backends);
    // A signed URL has a query, which is told.
    check(folder.path(), "auto", &["URL"]);
    check(folder.path(), "direct", &["URL"]);
    check(folder.path(), "relay", &[]);
    let listed = farrier(folder.path(), &["list", "-o", "json"]);
    let rows: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let usable: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["usable"]).collect();
    assert_eq!(usable, [true, true, true]);
}

#[test]
fn swift_behind_keystone_passes() {
    let keystone = Keystone::start();
    let folder = site(&format!(
        "[[backend]]\nid = \"swift\"\nkind = \"swift\"\nauth-url = \"{}\"\nusername = \"ironic\"\npassword = \"ironic-password\"\nproject = \"service\"\ndelivery = \"relay\"\n",
        keystone.auth_url
    ));
    check(folder.path(), "swift", &[]);
}

#[test]
fn s3_passes_by_relay_and_tells_what_bmcs_cannot_do_with_presigned_urls() {
    let swift = Swift::start(&[]);
    let backend = |id: &str| {
        format!(
            "[[backend]]\nid = \"{id}\"\nkind = \"s3\"\nendpoint = \"{}\"\nbucket = \"farrier\"\naccess-key = \"t00:tester:testing\"\ndelivery = \"{id}\"\n",
            swift.root()
        )
    };
    let folder = site(&(backend("relay") + &backend("direct")));
    let output = farrier(folder.path(), &["check", "relay", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let (states, printed) = states(&output);
    assert_eq!(states, [("usable".to_owned(), "failed".to_owned())]);
    assert!(printed.contains("make it"), "{printed}");
    make_bucket(&swift);
    check(folder.path(), "relay", &[]);
    check(folder.path(), "direct", &["URL", "HEAD"]);
}

/// By Swift's own client.
fn make_bucket(swift: &Swift) {
    let client = peers::lab("OPENSTACK_PYTHON").with_file_name("swift");
    let (auth, key) = (swift.auth_url(), "testing");
    let made = Command::new(client)
        .args(["-A", &auth, "-U", "t00:tester", "-K", key, "post", "farrier"])
        .status()
        .unwrap();
    assert!(made.success(), "the bucket cannot be made");
}

#[test]
fn a_backend_that_is_away_fails_with_its_reason_and_an_unknown_one_is_a_usage_error() {
    let folder = site(
        "[[backend]]\nid = \"swift\"\nkind = \"swift\"\nauth-type = \"v1\"\nauth-url = \"http://127.0.0.1:1/auth/v1.0\"\nusername = \"a:b\"\npassword-file = \"password\"\nattempts = 1\n[[backend]]\nid = \"local\"\nkind = \"embedded\"\n",
    );
    let output = farrier(folder.path(), &["check", "swift"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("FAILED") && printed.contains("could not be reached"),
        "{printed}"
    );
    let output = farrier(folder.path(), &["list"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        printed.contains("NOT USABLE") && printed.contains("usable"),
        "{printed}"
    );
    let output = farrier(folder.path(), &["check", "nowhere"]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains("swift, local"), "{complaint}");
}

#[test]
fn beside_a_running_listener_it_looks_whether_that_answers_and_tries_its_own() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap();
    // Somebody who knows no image, as a conductor answers for a name that it does not have.
    std::thread::spawn(move || {
        for stream in held.incoming() {
            use std::io::{Read as _, Write as _};
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let folder = site("[[backend]]\nid = \"local\"\nkind = \"embedded\"\n");
    let file = folder.path().join("farrier.toml");
    let text = std::fs::read_to_string(&file)
        .unwrap()
        .replace("127.0.0.1:0", &address.to_string());
    std::fs::write(&file, text).unwrap();
    let output = farrier(folder.path(), &["check", "local", "-o", "json"]);
    let (states, printed) = states(&output);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert_eq!(states[1], ("conductor".to_owned(), "ok".to_owned()));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is taken"));
}
