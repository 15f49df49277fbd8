//! `farrier config` as its users see it: exit codes, tables, JSON, files of secrets.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

fn farrier(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farrier"));
    command
        .arg("config")
        .args(args)
        .current_dir(folder)
        .env_remove("FARRIER_CONFIG");
    command.output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

const SWIFT: &str = "[DEFAULT]\nhost = rack-7\nenabled_hardware_types = ilo\n[swift]\nauth_url = http://10.0.0.2:5000\nusername = ironic\npassword = hunter2\nproject_name = service\n";

#[test]
fn check_tells_everything_and_fails_where_something_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    file(here, "ironic.conf", &format!("{SWIFT}[ilo]\npower_wait = 1\n"));
    let good = farrier(&["check", "--ironic-conf", "ironic.conf"], here);
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    let said = stdout(&good);
    assert!(
        said.contains("ironic.conf:10: [ilo] power_wait has no effect"),
        "{said}"
    );
    assert!(said.trim_end().ends_with("warnings)"), "{said}");

    file(
        here,
        "bad.conf",
        "[ilo]\nclient_port = hunter2\n[conductor]\nautomated_clean = x\n",
    );
    file(here, "farrier.toml", "[api]\nlisten = 1\n");
    let args = [
        "check",
        "--config",
        "farrier.toml",
        "--ironic-conf",
        "ironic.conf",
        "--ironic-conf",
        "bad.conf",
    ];
    let bad = farrier(&args, here);
    assert_eq!(bad.status.code(), Some(1));
    let said = stdout(&bad);
    for part in [
        "bad.conf:2:",
        "bad.conf:4:",
        "farrier.toml:2:",
        "warning: ",
        "ironic.conf:10:",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(
        stderr(&bad).contains("these settings cannot be used (3 errors)"),
        "{}",
        stderr(&bad)
    );
    assert!(!said.contains("hunter2"));

    let json_args = [&args[..], &["-o", "json"]].concat();
    let bad = farrier(&json_args, here);
    assert_eq!(bad.status.code(), Some(1));
    let told: Value = serde_json::from_str(&stdout(&bad)).unwrap();
    assert_eq!(told["problems"].as_array().unwrap().len(), 3);
    assert_eq!(told["problems"][0]["origin"]["option"], "[ilo] client_port");
    assert_eq!(told["problems"][0]["origin"]["line"], 2);
}

#[test]
fn show_tells_what_each_setting_is_and_where_it_came_from() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    file(here, "ironic.conf", SWIFT);
    let args = ["show", "--ironic-conf", "ironic.conf"];
    let plain = stdout(&farrier(&args, here));
    assert!(plain.contains("conductor.name") && plain.contains("rack-7"), "{plain}");
    assert!(plain.contains("***") && !plain.contains("hunter2"), "{plain}");
    assert!(!plain.contains("ironic.conf"), "{plain}");
    let origins = stdout(&farrier(&[&args[..], &["--origin"]].concat(), here));
    assert!(origins.contains("ironic.conf:2 [DEFAULT] host"), "{origins}");

    let shown = stdout(&farrier(&[&args[..], &["-o", "json"]].concat(), here));
    let shown: Vec<Value> = serde_json::from_str(&shown).unwrap();
    let entry = |name: &str| shown.iter().find(|entry| entry["name"] == name).unwrap();
    assert_eq!(entry("backend.1.password")["value"], "***");
    assert_eq!(
        entry("conductor.name")["origin"],
        json!({"file": here.join("ironic.conf"), "line": 2, "option": "[DEFAULT] host"})
    );
    assert_eq!(entry("api.auth")["origin"], Value::Null);
    assert_eq!(entry("images.esp")["value"], Value::Null);
}

#[test]
fn migrate_prints_a_site_file_that_says_the_same_and_keeps_secrets_to_their_owner() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    file(here, "ironic.conf", SWIFT);
    let args = ["migrate", "--ironic-conf", "ironic.conf"];
    let refused = farrier(&args, here);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("backend.1.password would stand in the site file itself"));
    assert_eq!(stdout(&refused), "");

    let migrated = farrier(&[&args[..], &["--secrets", "secrets"]].concat(), here);
    assert_eq!(migrated.status.code(), Some(0), "{}", stderr(&migrated));
    assert!(!stdout(&migrated).contains("hunter2"));
    let secret = here.join("secrets/backend.1.password");
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "hunter2\n");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&secret), mode(&here.join("secrets"))), (0o600, 0o700));
    file(here, "farrier.toml", &stdout(&migrated));
    // Twice is once.
    let again = farrier(&[&args[..], &["--secrets", "secrets"]].concat(), here);
    assert_eq!(stdout(&again), stdout(&migrated));
    std::fs::write(&secret, "another").unwrap();
    let other = farrier(&[&args[..], &["--secrets", "secrets"]].concat(), here);
    assert_eq!(other.status.code(), Some(1));
    assert!(stderr(&other).contains("another one is there"), "{}", stderr(&other));
    std::fs::write(&secret, "hunter2\n").unwrap();

    let inline = farrier(&[&args[..], &["--inline-secrets"]].concat(), here);
    assert!(stdout(&inline).contains("password = \"hunter2\""));
    file(here, "inline.toml", &stdout(&inline));
    let values = |args: &[&str]| {
        let shown = farrier(&[&["show", "-o", "json"], args].concat(), here);
        let shown: Vec<Value> = serde_json::from_str(&stdout(&shown)).unwrap();
        let pair = |entry: &Value| (entry["name"].clone(), entry["value"].clone());
        shown.iter().map(pair).collect::<Vec<_>>()
    };
    let before = values(&["--ironic-conf", "ironic.conf"]);
    assert_eq!(values(&["--config", "farrier.toml"]), before);
    assert_eq!(values(&["--config", "inline.toml"]), before);
}
