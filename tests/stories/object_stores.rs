//! Images that lie in an object store: Swift and S3, by signed URL and through the conductors.

use serde_json::{Value, json};
use sim::{BootOutcome, Device};

use crate::client::assert_says;
use crate::peers::{Swift, lab};
use crate::site::{Site, fetch, last_part, token_in};
use crate::wait;

/// The user's password at Swift, and the secret of its key at S3.
const PASSWORD: &str = "testing";

async fn swift() -> Swift {
    tokio::task::spawn_blocking(|| Swift::start(&[])).await.expect("Swift")
}

fn swift_backend(swift: &Swift, delivery: &str) -> Value {
    json!({
        "id": "swift",
        "kind": "swift",
        "auth-type": "v1",
        "auth-url": swift.auth_url(),
        "username": "t00:tester",
        "password": PASSWORD,
        "delivery": delivery,
    })
}

/// What Swift's own client says; nothing if it is refused, as for a container that is not there.
async fn client(swift: &Swift, arguments: &[&str]) -> Vec<String> {
    let program = lab("OPENSTACK_PYTHON").with_file_name("swift");
    let output = tokio::process::Command::new(program)
        .args(["-A", &swift.auth_url(), "-U", "t00:tester", "-K", PASSWORD])
        .args(arguments)
        .output()
        .await
        .expect("Swift's client");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(str::to_owned).collect()
}

async fn objects(swift: &Swift) -> Vec<String> {
    client(swift, &["list", "ironic_ilo_container"]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_floppy_is_read_from_swift_itself_a_lasting_boot_iso_through_us_and_undeploying_leaves_nothing() {
    let (site, swift) = (Site::new(1).await, swift().await);
    let mut settings = site.settings("alpha");
    settings["backend"] = json!([swift_backend(&swift, "auto")]);
    let alpha = site.start_with(&settings).await;
    let api = &alpha.api;
    let node = site.available(api, 0, "iscsi_ilo", "alpha").await;
    site.sim.hold_agent(0, true).expect("such a server");
    api.bring(&node, "active", "wait call-back").await;
    site.ramdisk_runs(0).await;
    let floppy = site.inserted(0, Device::Floppy).expect("a floppy");
    assert!(
        floppy.starts_with(&swift.root()) && floppy.contains("temp_url_sig="),
        "the floppy is at Swift"
    );
    assert!(!token_in(&fetch(&floppy).await).is_empty());
    site.sim.hold_agent(0, false).expect("such a server");
    api.reaches(&node, "active").await;
    wait::until("the instance runs", async || {
        (site.booted(0) == Some(BootOutcome::BootedFromCd)).then_some(())
    })
    .await;
    let iso = site.inserted(0, Device::Cd).expect("the boot ISO");
    assert!(
        iso.starts_with(&site.images_url("alpha")) && iso.ends_with(".iso") && !iso.contains('?'),
        "{iso}"
    );
    // The floppy's wait is over.
    assert_eq!(objects(&swift).await, [last_part(&iso)]);
    let progress = api.get(&format!("/farrier/v1/nodes/{node}/progress")).await;
    assert!(progress.to_string().contains("bytes"), "{progress}");
    api.bring(&node, "deleted", "available").await;
    assert_eq!(objects(&swift).await, [""; 0]);
    assert_eq!(api.artefacts(&node).await, [""; 0]);
    let log = alpha.log();
    let query = floppy.split_once("temp_url_sig=").expect("a signature").1;
    for secret in [PASSWORD, last_part(&iso), &query[..64]] {
        assert!(!log.contains(secret), "a secret stands in the log");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relayed_boot_iso_is_served_by_the_successor_from_the_same_object() {
    let (site, swift) = (Site::new(1).await, swift().await);
    let start = async |name| {
        let mut settings = site.settings(name);
        settings["backend"] = json!([swift_backend(&swift, "relay")]);
        site.start_with(&settings).await
    };
    let (mut alpha, beta) = (start("alpha").await, start("beta").await);
    let node = site.active(&beta.api, 0, "iscsi_ilo", "alpha").await;
    let url = site.inserted(0, Device::Cd).expect("the boot ISO");
    let iso = fetch(&url).await;
    let stored = objects(&swift).await;
    assert_eq!(stored, [last_part(&url)]);
    // Any conductor serves any recorded artefact.
    let at_beta = format!("{}/{}", site.images_url("beta"), last_part(&url));
    assert!(fetch(&at_beta).await == iso);
    alpha.kill();
    let plan = beta.api.taken_over(&node, "beta").await;
    assert_says(&plan, &["regenerate boot-iso"]);
    assert!(fetch(&at_beta).await == iso);
    assert_eq!(
        objects(&swift).await,
        stored,
        "nothing was stored again under another name"
    );
    beta.api.bring(&node, "deleted", "available").await;
    assert_eq!(objects(&swift).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_drivers_deploy_through_s3() {
    let (site, swift) = (Site::new(2).await, swift().await);
    client(&swift, &["post", "farrier"]).await;
    let mut settings = site.settings("alpha");
    settings["backend"] = json!([{
        "id": "s3",
        "kind": "s3",
        "endpoint": swift.root(),
        "bucket": "farrier",
        "access-key": format!("t00:tester:{PASSWORD}"),
    }]);
    let alpha = site.start_with(&settings).await;
    for (index, driver) in ["agent_ilo", "iscsi_ilo"].into_iter().enumerate() {
        let node = site.active(&alpha.api, index, driver, "alpha").await;
        site.assert_deployed(index);
        let stored = client(&swift, &["list", "farrier"]).await;
        assert_eq!(stored.len(), index, "{driver}");
        alpha.api.bring(&node, "deleted", "available").await;
        assert_eq!(client(&swift, &["list", "farrier"]).await, [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_swift_is_away_images_go_to_the_next_backend_of_the_site() {
    let (site, swift) = (Site::new(1).await, swift().await);
    let mut settings = site.settings("alpha");
    let mut away = swift_backend(&swift, "auto");
    away["auth-url"] = "http://127.0.0.1:1/auth/v1.0".into();
    away["attempts"] = 1.into();
    settings["backend"] = json!([away, { "id": "local", "kind": "embedded" }]);
    let alpha = site.start_with(&settings).await;
    let node = site.available(&alpha.api, 0, "agent_ilo", "alpha").await;
    site.sim.hold_agent(0, true).expect("such a server");
    alpha.api.bring(&node, "active", "wait call-back").await;
    site.ramdisk_runs(0).await;
    let floppy = site.inserted(0, Device::Floppy).expect("a floppy");
    assert!(floppy.starts_with(&site.images_url("alpha")), "{floppy}");
    site.sim.hold_agent(0, false).expect("such a server");
    alpha.api.reaches(&node, "active").await;
    assert!(alpha.log().contains("could not be reached"), "{}", alpha.log());
}
