//! A conductor dies while somebody's instance runs: its boot ISO is served again, and the server is not touched.

use serde_json::{Value, json};
use sim::{BootOutcome, Device};

use crate::client::{Api, assert_says};
use crate::conductor::Conductor;
use crate::site::{BMC_PASSWORD, BMC_USER, Site, fetch, last_part, text};
use crate::wait;

/// Two conductors and an active node that boots from an ISO which alpha serves.
struct Running {
    site: Site,
    alpha: Conductor,
    beta: Conductor,
    node: String,
    url: String,
    iso: Vec<u8>,
}

impl Running {
    async fn new(edit: impl Fn(&Site, &mut Value)) -> Self {
        let site = Site::new(1).await;
        let settings = ["alpha", "beta"].map(|name| {
            let mut settings = site.settings(name);
            edit(&site, &mut settings);
            settings
        });
        let alpha = site.start_with(&settings[0]).await;
        let beta = site.start_with(&settings[1]).await;
        let node = site.active(&beta.api, 0, "iscsi_ilo", "alpha").await;
        wait::until("the instance runs", async || {
            (site.booted(0) == Some(BootOutcome::BootedFromCd)).then_some(())
        })
        .await;
        let url = site.inserted(0, Device::Cd).expect("the boot ISO");
        let iso = fetch(&url).await;
        Self {
            site,
            alpha,
            beta,
            node,
            url,
            iso,
        }
    }

    fn api(&self) -> &Api {
        &self.beta.api
    }

    /// Kills alpha, and returns what beta says that it did, what it changed on the server, and the paths of all that it sent.
    async fn killed(&mut self) -> (String, Vec<String>, Vec<String>) {
        let (changes, requests) = (self.site.done_to(0).len(), self.site.trace(0).len());
        self.alpha.kill();
        let plan = self.beta.api.taken_over(&self.node, "beta").await;
        let trace = self.site.trace(0);
        let sent = trace[requests..].iter();
        let sent = sent.filter(|exchange| exchange.method != "GET");
        let paths = sent
            .map(|exchange| format!("{} {}", exchange.method, exchange.path))
            .collect();
        (plan, self.site.done_to(0).split_off(changes), paths)
    }

    /// The server still runs what it ran, and the record says so.
    async fn assert_undisturbed(&self) -> Value {
        let record = self.beta.api.node(&self.node).await;
        assert_eq!(record["provision_state"], "active", "{record}");
        assert_eq!(record["conductor"], "beta", "{record}");
        assert!(self.site.is_on(0));
        record
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_active_nodes_iso_is_made_again_from_its_recipe_and_nothing_on_its_server_is_changed() {
    let mut running = Running::new(|_, _| ()).await;
    let published = running.api().artefacts(&running.node).await;
    // What it was made of is not what these files hold now.
    for name in ["instance-vmlinuz", "instance-initrd", "isolinux.bin"] {
        std::fs::write(running.site.file(name), "something else").expect("a file");
    }

    let (plan, changes, sent) = running.killed().await;
    assert_eq!(changes, [""; 0], "an active server was changed by the take-over");
    assert!(
        sent.iter().all(|request| request.contains("/SessionService/Sessions")),
        "{sent:?}"
    );
    let ended = sent.iter().filter(|request| request.starts_with("DELETE "));
    assert_eq!(ended.count(), 1, "the predecessor's session is ended: {sent:?}");
    assert_says(
        &plan,
        &[
            "from alpha",
            "regenerate boot-iso",
            "re-insert boot-iso at the next reset",
        ],
    );
    let record = running.assert_undisturbed().await;
    assert_eq!(record["fault"], "media-stale");
    assert_eq!(
        running.site.inserted(0, Device::Cd).as_ref(),
        Some(&running.url),
        "it stays in the slot"
    );
    assert_eq!(running.api().artefacts(&running.node).await, published);
    let name = last_part(&running.url);
    let served = format!("{}/{name}", running.site.images_url("beta"));
    assert!(fetch(&served).await == running.iso, "the boot ISO has other bytes");

    // At the operator's next reset it is inserted again, while the server is off.
    let before = running.site.done_to(0).len();
    let power = format!("/v1/nodes/{}/states/power", running.node);
    running
        .api()
        .put(&power, &json!({ "target": "rebooting" }))
        .await
        .expect("taken");
    wait::until("the instance runs from the ISO that beta serves", async || {
        let reads = running.site.sim.media_reads(0, Device::Cd).expect("such a server");
        let last = reads.last().filter(|reads| reads.url == served && reads.bytes > 0);
        (last.is_some() && running.site.booted(0) == Some(BootOutcome::BootedFromCd)).then_some(())
    })
    .await;
    let reset = running.site.done_to(0).split_off(before);
    assert_eq!(reset, ["power ForceOff", "eject cd", "insert cd", "power On"]);
    wait::until("the alarm is over", async || {
        let record = running.api().node(&running.node).await;
        record["fault"].is_null().then_some(())
    })
    .await;
    assert_eq!(running.site.inserted(0, Device::Cd), Some(served));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_active_nodes_empty_slot_gets_its_iso_back() {
    let mut running = Running::new(|_, _| ()).await;
    eject_by_hand(&running.site).await;
    assert_eq!(running.site.inserted(0, Device::Cd), None);

    let (plan, changes, _) = running.killed().await;
    assert_says(&plan, &["regenerate boot-iso", "re-insert boot-iso"]);
    assert_eq!(changes, ["insert cd"], "and nothing else");
    let record = running.assert_undisturbed().await;
    assert!(record["fault"].is_null(), "{record}");
    let now = running.site.inserted(0, Device::Cd).expect("the boot ISO");
    assert_eq!(last_part(&now), last_part(&running.url));
    assert!(now.starts_with(&running.site.images_url("beta")), "{now}");
    assert!(fetch(&now).await == running.iso, "the boot ISO has other bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_put_into_an_active_nodes_slot_stays_there() {
    let mut running = Running::new(|_, _| ()).await;
    let theirs = running.site.images.put("theirs.iso", b"an operator's own");
    eject_by_hand(&running.site).await;
    by_hand(&running.site, "VirtualMedia.InsertMedia", &json!({ "Image": theirs })).await;

    let (_, changes, _) = running.killed().await;
    assert_eq!(changes, [""; 0]);
    assert_eq!(running.site.inserted(0, Device::Cd), Some(theirs));
    running.assert_undisturbed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_active_nodes_iso_in_a_shared_web_root_needs_no_alarm() {
    let mut running = Running::new(|site, settings| {
        let root = site.path("web-root");
        std::fs::create_dir_all(&root).expect("a folder");
        let url = site.images.serve_folder(&root);
        settings["backend"] = json!([{ "id": "httpd", "kind": "web-root", "root": text(&root), "url": url }]);
    })
    .await;
    let (plan, changes, _) = running.killed().await;
    assert_says(&plan, &["regenerate boot-iso"]);
    assert_eq!(changes, [""; 0]);
    let record = running.assert_undisturbed().await;
    assert!(record["fault"].is_null(), "{record}");
    assert_eq!(running.site.inserted(0, Device::Cd).as_ref(), Some(&running.url));
    assert!(fetch(&running.url).await == running.iso);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_site_may_choose_to_have_dead_media_of_active_nodes_inserted_again_at_once() {
    let mut running = Running::new(|_, settings| settings["take-over"] = json!({ "reinsert-active": "now" })).await;
    let (_, changes, _) = running.killed().await;
    assert_eq!(changes, ["eject cd", "insert cd"]);
    let record = running.assert_undisturbed().await;
    assert!(record["fault"].is_null(), "{record}");
    let now = running.site.inserted(0, Device::Cd).expect("the boot ISO");
    assert!(now.starts_with(&running.site.images_url("beta")), "{now}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conductor_that_is_told_to_stop_leaves_an_active_node_to_one_that_looks_after_its_iso() {
    let mut running = Running::new(|_, _| ()).await;
    let changes = running.site.done_to(0).len();
    running.alpha.stop().await;
    let plan = running.beta.api.taken_over(&running.node, "beta").await;
    assert_says(&plan, &["from alpha", "re-insert boot-iso at the next reset"]);
    assert_eq!(running.site.done_to(0).split_off(changes), [""; 0]);
    let record = running.assert_undisturbed().await;
    assert_eq!(record["fault"], "media-stale");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_active_nodes_iso_is_looked_after_when_the_conductor_that_serves_it_dies_though_the_node_belongs_to_another()
{
    let site = Site::new(2).await;
    let mut alpha = site.start("alpha").await;
    // Both are beta's by rights, but beta is not there yet.
    let node = site.active(&alpha.api, 0, "iscsi_ilo", "beta").await;
    let url = site.inserted(0, Device::Cd).expect("the boot ISO");
    let bare = site.enrol(&alpha.api, 1, &site.node(1, "agent_ilo", "beta")).await;
    alpha.api.bring(&bare, "manage", "manageable").await;
    let beta = site.start("beta").await;
    wait::until("beta gets what belongs to it", async || {
        (beta.api.node(&bare).await["conductor"] == "beta").then_some(())
    })
    .await;
    let changes = site.done_to(0).len();
    alpha.kill();
    wait::until(
        "beta has the node and knows that its ISO is not served where the slot has it from",
        async || {
            let record = beta.api.node(&node).await;
            (record["conductor"] == "beta" && record["fault"] == "media-stale").then_some(())
        },
    )
    .await;
    assert_eq!(site.done_to(0).split_off(changes), [""; 0]);
    fetch(&format!("{}/{}", site.images_url("beta"), last_part(&url))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_active_nodes_iso_is_served_again_even_while_its_bmc_does_not_answer() {
    let mut running = Running::new(|_, _| ()).await;
    let faults = running.site.sim.faults();
    faults.add("[[rule]]\nserver = 0\ndrop = true").expect("a rule");
    let (plan, changes, _) = running.killed().await;
    assert_says(&plan, &["regenerate boot-iso"]);
    assert!(
        changes.iter().all(|change| change.ends_with("(refused)")),
        "{changes:?}"
    );
    let served = format!("{}/{}", running.site.images_url("beta"), last_part(&running.url));
    assert!(fetch(&served).await == running.iso, "the boot ISO has other bytes");
    let record = running.assert_undisturbed().await;
    assert_eq!(
        record["fault"], "media-stale",
        "what the slot holds is not known: {record}"
    );

    running.site.sim.faults().clear();
    let before = running.site.done_to(0).len();
    let power = format!("/v1/nodes/{}/states/power", running.node);
    let reset = json!({ "target": "rebooting" });
    wait::until("a reset is taken", async || {
        running.api().put(&power, &reset).await.ok()
    })
    .await;
    wait::until("the alarm is over", async || {
        let record = running.api().node(&running.node).await;
        record["fault"].is_null().then_some(())
    })
    .await;
    let done = running.site.done_to(0).split_off(before);
    assert_eq!(done, ["power ForceOff", "eject cd", "insert cd", "power On"]);
    assert_eq!(running.site.inserted(0, Device::Cd), Some(served));
}

async fn eject_by_hand(site: &Site) {
    by_hand(site, "VirtualMedia.EjectMedia", &json!({})).await;
}

/// Somebody does something to the CD slot at the BMC itself.
async fn by_hand(site: &Site, action: &str, body: &Value) {
    let server = site.sim.server(0).expect("such a server");
    let ca = std::fs::read(&server.ca_pem).expect("the CA");
    let http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(&ca).expect("a certificate")])
        .build()
        .expect("an HTTP client");
    let url = format!("{}/redfish/v1/Managers/1/VirtualMedia/2/Actions/{action}", server.url);
    let reply = http
        .post(url)
        .basic_auth(BMC_USER, Some(BMC_PASSWORD))
        .json(body)
        .send()
        .await;
    let status = reply.expect("an answer").status();
    assert!(status.is_success(), "{action}: {status}");
}
