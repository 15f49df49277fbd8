//! `farrier cache` as its users see it, beside a conductor that runs and without one.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use image::{Extent, Kind, Layout, Recipe};
use model::{ArtefactKind, ArtefactName, Driver, Node, NodeId, Secret, Sha256, Tenure};
use nodes::{ArtefactRecord, Conductor, Sealer, SqliteStore, Store};
use serde_json::Value;
use sources::{Fetched, Sources, SourcesConfig};
use tempfile::TempDir;

/// A site with three files in its cache, one of which the boot ISO of node n1 needs.
struct Site {
    folder: TempDir,
    pinned: Sha256,
    loose: Sha256,
    young: Sha256,
}

impl Site {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("files")).unwrap();
        let config =
            "[api]\nlisten = \"127.0.0.1:0\"\n[agent]\nlisten = \"127.0.0.1:0\"\n[images]\nlisten = \"127.0.0.1:0\"\n";
        std::fs::write(folder.path().join("farrier.toml"), config).unwrap();
        let sources = Sources::new(SourcesConfig {
            allowed_file_paths: vec![folder.path().join("files")],
            ..SourcesConfig::new(folder.path().join("data/cache"))
        });
        let sources = sources.unwrap();
        // A file is noted once its times can tell a change.
        let files = ["pinned", "loose", "young"].map(|name| {
            let path = folder.path().join("files").join(name);
            std::fs::write(&path, format!("content of {name}")).unwrap();
            path.to_str().unwrap().to_owned()
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut fetched = Vec::new();
        for path in &files {
            fetched.push(sources.fetch(path, None).await.unwrap());
        }
        let site = Self {
            pinned: fetched[0].sha256,
            loose: fetched[1].sha256,
            young: fetched[2].sha256,
            folder,
        };
        record(&site.data(), &fetched[0]).await;
        drop(fetched);
        for sha256 in [&site.pinned, &site.loose] {
            let hour = SystemTime::now() - Duration::from_secs(3600);
            let file = std::fs::File::open(site.object(sha256)).unwrap();
            file.set_times(std::fs::FileTimes::new().set_accessed(hour)).unwrap();
        }
        site
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn object(&self, sha256: &Sha256) -> PathBuf {
        let name = sha256.to_string();
        self.data().join("cache").join(&name[..2]).join(name)
    }

    fn command(&self, verbs: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farrier"));
        command
            .args(verbs)
            .arg("--config")
            .arg(self.folder.path().join("farrier.toml"));
        command.arg("--data").arg(self.data());
        command
    }

    fn cache(&self, arguments: &[&str]) -> Output {
        let mut verbs = vec!["cache"];
        verbs.extend(arguments);
        self.command(&verbs).output().expect("the binary starts")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.extend(["-o", "json"]);
        let output = self.cache(&all);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Has the store say that the boot ISO of a node was made of a source.
async fn record(data: &Path, source: &Fetched) {
    let (key, path) = (data.join("secret.key"), data.join("farrier.db"));
    let store = SqliteStore::open(&path, Sealer::for_store(&key, &path).unwrap()).unwrap();
    let mut node = Node::new(NodeId::random(), Driver::AgentIlo, SystemTime::now());
    node.name = Some("n1".parse().unwrap());
    store.create_node(&node, &[]).await.unwrap();
    let me = Conductor {
        name: "dead".parse().unwrap(),
        group: String::new(),
        api_url: "http://127.0.0.1:1".into(),
        images_url: "http://127.0.0.1:1".into(),
        agent_urls: Vec::new(),
        alive: true,
        seen_at: SystemTime::now(),
    };
    store.join(&me, Duration::from_secs(60)).await.unwrap();
    let claim = store.claim(&node.id, &me.name).await.unwrap().unwrap();
    let extent = Extent::Source {
        sha256: source.sha256,
        offset: 0,
        len: source.len,
    };
    let layout = Layout::from_extents(Kind::BootIso, vec![extent]).unwrap();
    let references = BTreeMap::from([(source.sha256, source.reference.clone())]);
    let artefact = ArtefactRecord {
        node: node.id,
        kind: ArtefactKind::BootIso,
        backend: "embedded".into(),
        name: ArtefactName::parse(&format!("{}.iso", "a".repeat(32))).unwrap(),
        url: Secret::new("http://127.0.0.1:1/x.iso"),
        digest: layout.digest(),
        size: layout.size(),
        recipe: Secret::new(String::from_utf8(Recipe::of(&layout, &references).unwrap().to_json().unwrap()).unwrap()),
        published_by: me.name.clone(),
        published_at: SystemTime::now(),
        expires: None,
    };
    let tenure = Tenure {
        conductor: me.name.clone(),
        term: claim.record.term,
    };
    store.put_artefact(&artefact, &tenure).await.unwrap();
    store.leave(&me.name).await.unwrap();
    store.close().await;
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A conductor; ends with this.
struct Serving {
    process: Child,
    /// Kept open: it goes on logging.
    _log: Option<BufReader<ChildStderr>>,
}

impl Serving {
    fn start(site: &Site) -> Self {
        let process = site.command(&["serve"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut serving = Self { process, _log: None };
        let mut log = BufReader::new(serving.process.stderr.take().unwrap());
        let mut seen = String::new();
        while !seen.lines().last().is_some_and(|line| line.contains("ready")) {
            let read = log.read_line(&mut seen).unwrap();
            assert!(read > 0, "it ended before it was ready: {seen}");
        }
        serving._log = Some(log);
        serving
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

#[tokio::test]
async fn beside_a_conductor_the_cache_is_listed_and_what_nobody_needs_is_pruned() {
    let site = Site::new().await;
    let _serving = Serving::start(&site);
    let list = site.json(&["ls", "--verify"]);
    let entry = |sha256: &Sha256| {
        let mut entries = list.as_array().unwrap().iter();
        entries
            .find(|entry| entry["sha256"] == sha256.to_string())
            .unwrap()
            .clone()
    };
    assert_eq!(list.as_array().unwrap().len(), 3);
    let pinned = entry(&site.pinned);
    assert_eq!(pinned["pinned_by"], serde_json::json!(["boot-iso of n1"]));
    assert_eq!(
        (pinned["bytes"].as_u64(), pinned["whole"].as_bool()),
        (Some(17), Some(true))
    );
    assert!(pinned["origins"][0].as_str().unwrap().ends_with("/files/pinned"));
    assert_eq!(entry(&site.loose)["pinned_by"], serde_json::json!([]));
    let table = text(&site.cache(&["ls"]).stdout);
    assert!(
        table.contains(&site.loose.to_string()) && table.contains("boot-iso of n1"),
        "{table}"
    );

    // Nothing is past the bounds; all that may go is what is neither pinned nor young.
    assert_eq!(site.json(&["prune"])["files"], 0);
    let plan = site.json(&["prune", "--all", "--dry-run"]);
    assert_eq!(plan["removed"], serde_json::json!([site.loose.to_string()]));
    assert!(site.object(&site.loose).exists());
    let done = site.json(&["prune", "--all"]);
    assert_eq!(done["removed"], plan["removed"]);
    assert!(!site.object(&site.loose).exists());
    assert!(site.object(&site.pinned).exists() && site.object(&site.young).exists());
}

#[tokio::test]
async fn damaged_content_is_found_told_with_an_exit_code_and_removed_on_request() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new().await;
    let object = site.object(&site.pinned);
    std::fs::set_permissions(&object, std::fs::Permissions::from_mode(0o600)).unwrap();
    let before = std::fs::metadata(&object).unwrap().modified().unwrap();
    std::fs::write(&object, "content of pinneD").unwrap();
    let file = std::fs::File::options().write(true).open(&object).unwrap();
    file.set_times(std::fs::FileTimes::new().set_modified(before)).unwrap();
    drop(file);
    let output = site.cache(&["ls", "--verify"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("DAMAGED"), "{}", text(&output.stdout));
    assert!(
        text(&output.stderr).contains("prune --damaged"),
        "{}",
        text(&output.stderr)
    );
    let plan = site.json(&["prune", "--damaged", "--dry-run"]);
    assert_eq!(plan["removed"], serde_json::json!([site.pinned.to_string()]));
    assert!(object.exists());
    assert_eq!(site.json(&["prune", "--damaged"])["files"], 1);
    assert!(!object.exists());
    assert!(site.cache(&["ls", "--verify"]).status.success());
}

#[tokio::test]
async fn a_cache_that_is_not_there_or_whose_pins_cannot_be_told_is_left_alone() {
    let site = Site::new().await;
    let output = Command::new(env!("CARGO_BIN_EXE_farrier"))
        .args(["cache", "ls", "--data"])
        .arg(site.folder.path().join("elsewhere"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no cache at"), "{}", text(&output.stderr));
    assert!(!site.folder.path().join("elsewhere").exists());
    std::fs::write(site.data().join("secret.key"), "another key").unwrap();
    let output = site.cache(&["prune", "--all"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(site.object(&site.loose).exists());
}
