//! A full disk under the store, the source cache or a web root. The conductor runs in a mount namespace of its own with a small
//! file system in the place of the folder; the story fills it and frees it again from outside, through `/proc`.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sim::Device;

use crate::client::assert_says;
use crate::conductor::Conductor;
use crate::site::{Site, text};
use crate::wait;

/// A conductor whose folder is a small file system.
struct Cramped {
    conductor: Conductor,
    filler: PathBuf,
}

impl Cramped {
    async fn start(site: &Site, settings: &Value, folder: &Path, size: &str) -> Self {
        let wrapper = format!(
            "mount -t tmpfs -o size={size} none '{}' && exec \"$0\" \"$@\"",
            folder.display()
        );
        let toml = toml::to_string(settings).expect("TOML");
        let started = site.try_start_in_namespace("alpha", &toml, &wrapper).await;
        let conductor = started.unwrap_or_else(|ended| {
            panic!(
                "it did not start; the story needs `unshare --mount` and tmpfs:\n{}",
                ended.log
            )
        });
        let inside = format!("/proc/{}/root{}", conductor.pid(), folder.display());
        Self {
            conductor,
            filler: Path::new(&inside).join("filler"),
        }
    }

    /// Leaves no room for even one byte.
    fn fill(&self) {
        let mut file = std::fs::File::create(&self.filler).expect("a file inside");
        for size in [1 << 20, 1 << 12, 1] {
            let chunk = vec![0x66; size];
            while file.write_all(&chunk).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(&self.filler).expect("the filler");
    }
}

/// The node's work runs into the full disk, with these words; it changes nothing; with room it goes on.
async fn runs_into_it(site: &Site, cramped: &Cramped, node: &str, parts: &[&str]) {
    let api = &cramped.conductor.api;
    cramped.fill();
    api.want(node, "active").await;
    let told = wait::until("the full disk is told of", async || {
        let record = api.get(&format!("/farrier/v1/nodes/{node}/progress")).await;
        let mut told = vec![record["last_error"].as_str().unwrap_or_default().to_owned()];
        let events = api.events(node).await;
        told.extend(
            events
                .iter()
                .map(|event| event["message"].as_str().unwrap_or_default().to_owned()),
        );
        told.into_iter().find(|text| text.contains("no room"))
    })
    .await;
    assert_says(&told, parts);
    assert_eq!(
        [site.inserted(0, Device::Floppy), site.inserted(0, Device::Cd)],
        [None, None]
    );
    cramped.free();
    // Some troubles are waited out; after others somebody has to ask again.
    let ended = wait::until("it goes on or has failed", async || {
        let record = api.node(node).await;
        let state = record["provision_state"].as_str().unwrap_or_default().to_owned();
        matches!(state.as_str(), "deploy failed" | "wait call-back" | "active").then_some(state)
    })
    .await;
    if ended == "deploy failed" {
        api.want(node, "active").await;
    }
    api.reaches(node, "active").await;
    site.assert_deployed(0);
    assert_eq!(api.artefacts(node).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_web_root_is_named_leaves_no_half_written_file_and_the_node_goes_on_once_there_is_room() {
    let site = Site::new(1).await;
    let root = site.path("web-root");
    std::fs::create_dir(&root).expect("a folder");
    let mut settings = site.settings("alpha");
    let url = site.images.url("boot");
    settings["backend"] = json!([{ "id": "httpd", "kind": "web-root", "root": text(&root), "url": url }]);
    let cramped = Cramped::start(&site, &settings, &root, "8m").await;
    let inside = cramped.filler.parent().expect("a folder").to_owned();
    site.images.serve_folder(&inside);
    let node = site.available(&cramped.conductor.api, 0, "agent_ilo", "alpha").await;
    runs_into_it(&site, &cramped, &node, &["no room left", &text(&root), "free"]).await;
    let left: Vec<_> = std::fs::read_dir(&inside).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_source_cache_is_named_and_the_node_goes_on_once_there_is_room() {
    let site = Site::new(1).await;
    let cache = site.data().join("cache");
    std::fs::create_dir(&cache).expect("a folder");
    let cramped = Cramped::start(&site, &site.settings("alpha"), &cache, "8m").await;
    let node = site.available(&cramped.conductor.api, 0, "agent_ilo", "alpha").await;
    runs_into_it(
        &site,
        &cramped,
        &node,
        &["no room", "vmlinuz", &text(&cache), "free some space"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_under_the_store_stops_changes_with_a_clear_answer_and_loses_nothing() {
    let site = Site::new(1).await;
    let data = site.data();
    let mut cramped = Cramped::start(&site, &site.settings("alpha"), &data, "12m").await;
    let api = cramped.conductor.api.clone();
    let kept = api
        .post("/v1/nodes", &site.node(0, "agent_ilo", "alpha"))
        .await
        .expect("a node");
    cramped.fill();
    let mut late = site.node(0, "agent_ilo", "alpha");
    late["name"] = "late".into();
    // What still fits into the log's last page may be taken; then it is full.
    let refusal = wait::until("a change is refused", async || {
        late["uuid"] = crate::site::uuid_at_home_with("alpha").into();
        late["name"] = format!("late-{}", late["uuid"].as_str().unwrap_or_default()).into();
        late["extra"] = json!({ "padding": "x".repeat(100_000) });
        api.post("/v1/nodes", &late).await.err()
    })
    .await;
    assert_eq!(refusal.status, 503, "{}", refusal.text);
    assert_says(&refusal.text, &["store", "log"]);
    let log = cramped.conductor.log();
    assert_says(&log, &["farrier.db", "full"]);
    let listed = api.get("/v1/nodes").await;
    assert!(
        !listed.to_string().contains(late["uuid"].as_str().unwrap_or_default()),
        "half of it is there"
    );

    cramped.free();
    let name = kept["name"].as_str().expect("a name");
    wait::until("changes are taken again", async || {
        api.ask_for(name, "manage").await.ok()
    })
    .await;
    api.reaches(name, "manageable").await;
    cramped.conductor.assert_alive();
}
