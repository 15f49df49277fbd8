//! The commands against a simulated iLO 5, in this process.

use std::path::PathBuf;

use clap::Parser;
use tempfile::TempDir;

use super::{Args, run};

const USER: &str = "operator-7";
const PASSWORD: &str = "Hunter2-and-more";

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

struct Lab {
    sim: sim::Running,
    folder: TempDir,
}

impl Lab {
    async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let config = sim::SimConfig::new(folder.path().join("sim"), USER, PASSWORD);
        let sim = sim::start(config).await.unwrap();
        std::fs::write(folder.path().join("password"), format!("{PASSWORD}\n")).unwrap();
        Self { sim, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `farrier bmc` with these words; `@` stands for the BMC and how it is reached.
    async fn bmc(&self, words: &[&str]) -> Result<(), String> {
        let url = self.sim.server(0).unwrap().url.clone();
        let (password, ca) = (self.path("password"), self.sim.ca_pem().to_owned());
        let reached = [
            url.as_str(),
            "--user",
            USER,
            "--password-file",
            password.to_str().unwrap(),
            "--ca",
            ca.to_str().unwrap(),
        ];
        let mut line = vec!["bmc"];
        for word in words {
            match *word {
                "@" => line.extend(reached),
                word => line.push(word),
            }
        }
        let cli = Cli::try_parse_from(line).map_err(|error| error.to_string())?;
        let result = run(cli.args).await.map_err(|error| format!("{error:#}"));
        assert_eq!(self.sim.sessions(0).unwrap(), 0, "{words:?} left a session");
        if let Err(error) = &result {
            assert!(!error.contains(PASSWORD), "{error}");
        }
        result
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_does_its_work_and_leaves_no_session() {
    let lab = Lab::new().await;
    for words in [
        &["probe", "@"][..],
        &["status", "@", "-o", "json"],
        &["media", "status", "@"],
        &["media", "eject", "@", "--device", "floppy"],
        &["boot-device", "@", "cdrom"],
        &["boot-device", "@"],
        &["boot-mode", "@", "bios"],
        &["boot-mode", "@"],
        &["raw", "@", "/redfish/v1/Systems/1/"],
        &[
            "raw",
            "@",
            "/redfish/v1/Systems/1/",
            "--method",
            "patch",
            "--body",
            r#"{"Boot":{"BootSourceOverrideTarget":"Cd","BootSourceOverrideEnabled":"Once"}}"#,
        ],
        // Last: a server in POST refuses changes, and what is sent raw is not sent again.
        &["power", "@", "on"],
        &["power", "@", "-o", "json"],
    ] {
        lab.bmc(words)
            .await
            .unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_something_is_sent_only_when_it_is_said_so() {
    let lab = Lab::new().await;
    for (words, part) in [
        (
            &["raw", "@", "/redfish/v1/Systems/1/", "--method", "PATCH"][..],
            "--body",
        ),
        (&["raw", "@", "/redfish/v1/Systems/1/", "--body", "{}"], "--method"),
        (&["raw", "@", "RESET_SERVER"], "--method WRITE"),
        (&["raw", "@", "/redfish/v1/../../etc/passwd"], "not a path under"),
        (&["raw", "@", "GET_VM_STATUS", "--argument", "DEVICE"], "NAME=VALUE"),
        (&["media", "insert", "@", "file:///srv/x.iso"], "http and https only"),
        (&["boot-device", "@", "cdrom", "--url", "http://h/x"], "uefi-http"),
        (&["boot-device", "@", "--persistent"], "required"),
    ] {
        let error = lab.bmc(words).await.unwrap_err();
        assert!(error.contains(part), "{words:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_an_unknown_certificate_are_told_apart() {
    let lab = Lab::new().await;
    let url = lab.sim.server(0).unwrap().url.clone();
    let password = lab.path("password");
    let bare = [
        "power",
        &url,
        "--user",
        USER,
        "--password-file",
        password.to_str().unwrap(),
    ];
    let error = lab.bmc(&bare).await.unwrap_err();
    assert!(error.contains("--ca"), "{error}");
    let insecure: Vec<&str> = bare.iter().copied().chain(["--insecure"]).collect();
    lab.bmc(&insecure).await.unwrap();
    std::fs::write(&password, "wrong\n").unwrap();
    let error = lab.bmc(&["power", "@"]).await.unwrap_err();
    assert!(error.contains("user name, password"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_scrubbed_and_never_written_over() {
    let lab = Lab::new().await;
    let out = lab.path("trace.jsonl");
    let words = ["record", "@", "--out", out.to_str().unwrap()];
    lab.bmc(&words).await.unwrap();
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.lines().count() > 20, "{text}");
    assert!(text.starts_with("{\"farrier-bmc-trace\":1}\n"));
    let server = lab.sim.server(0).unwrap();
    for secret in [PASSWORD, USER, server.mac.as_str()] {
        assert!(
            !text.to_lowercase().contains(&secret.to_lowercase()),
            "{secret} is still there"
        );
    }
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    let error = lab.bmc(&words).await.unwrap_err();
    assert!(error.contains("could not make"), "{error}");
}
