//! Kernels, ISOs and disk images that are missing, forbidden or not what they should be.

use serde_json::{Value, json};
use sim::Device;

use crate::client::{Api, assert_says};
use crate::site::{Site, sha256, text};

/// The deployment fails with a message that says these things; nothing is left behind; with the cause removed it succeeds.
async fn fails_then_deploys(
    site: &Site,
    api: &Api,
    node: &str,
    patch: Value,
    parts: &[&str],
    remedy: impl FnOnce() -> Option<Value>,
) {
    let path = format!("/v1/nodes/{node}");
    api.patch(&path, &patch).await.expect("a patch");
    api.want(node, "active").await;
    let said = api.fails(node, "deploy failed").await;
    assert_says(&said, parts);
    assert_eq!(api.artefacts(node).await, [""; 0]);
    assert_eq!(
        [site.inserted(0, Device::Floppy), site.inserted(0, Device::Cd)],
        [None, None]
    );
    assert!(!site.is_on(0), "the server was left running");
    if let Some(patch) = remedy() {
        api.patch(&path, &patch).await.expect("a patch");
    }
    let record = api.bring(node, "active", "active").await;
    assert!(record["last_error"].is_null(), "{record}");
    site.assert_deployed(0);
}

async fn ready() -> (Site, crate::conductor::Conductor, String) {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let node = site.available(&alpha.api, 0, "agent_ilo", "alpha").await;
    (site, alpha, node)
}

fn set(place: &str, value: &str) -> Value {
    json!([{ "op": "add", "path": place, "value": value }])
}

fn own_kernel(kernel: &str, ramdisk: &str) -> Value {
    json!([
        { "op": "add", "path": "/driver_info/deploy_kernel", "value": kernel },
        { "op": "add", "path": "/driver_info/deploy_ramdisk", "value": ramdisk },
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kernel_that_is_missing_is_named_and_the_deployment_works_once_it_is_there() {
    let (site, alpha, node) = ready().await;
    let kernel = site.file("late-vmlinuz");
    let patch = own_kernel(&kernel, &site.file("initrd"));
    fails_then_deploys(&site, &alpha.api, &node, patch, &[&kernel, "does not exist"], || {
        std::fs::write(&kernel, [7; 50_000]).expect("a file");
        None
    })
    .await;
    let before = site.done_to(0);
    assert_eq!(
        before.iter().filter(|change| *change == "insert cd").count(),
        1,
        "{before:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kernel_outside_the_allowed_folders_is_refused_also_through_a_link() {
    let (site, alpha, node) = ready().await;
    let outside = site.path("outside");
    std::fs::write(&outside, "root:x:0:0").expect("a file");
    let link = site.path("files").join("link");
    std::os::unix::fs::symlink(&outside, &link).expect("a link");
    let allowed = text(&site.path("files"));
    for reference in [format!("file://{}", outside.display()), text(&outside), text(&link)] {
        let patch = own_kernel(&reference, &site.file("initrd"));
        let inside = own_kernel(&site.file("vmlinuz"), &site.file("initrd"));
        let parts = ["may not be read", "file-url-allowed-paths", &allowed];
        fails_then_deploys(&site, &alpha.api, &node, patch, &parts, || Some(inside)).await;
        alpha.api.bring(&node, "deleted", "available").await;
        let instance = site.node(0, "agent_ilo", "alpha")["instance_info"].clone();
        let again = json!([{ "op": "replace", "path": "/instance_info", "value": instance }]);
        alpha
            .api
            .patch(&format!("/v1/nodes/{node}"), &again)
            .await
            .expect("a patch");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_iso_that_cannot_be_read_is_named() {
    let (site, alpha, node) = ready().await;
    let folder = site.path("files").join("folder.iso");
    std::fs::create_dir(&folder).expect("a folder");
    let remove = json!([{ "op": "remove", "path": "/driver_info/deploy_iso" }]);
    let patch = set("/driver_info/deploy_iso", &text(&folder));
    fails_then_deploys(&site, &alpha.api, &node, patch, &["folder.iso"], || Some(remove)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_iso_that_its_server_does_not_have_is_named() {
    let (site, alpha, node) = ready().await;
    let url = site.images.url("deploy.iso");
    let remove = json!([{ "op": "remove", "path": "/driver_info/deploy_iso" }]);
    let patch = set("/driver_info/deploy_iso", &url);
    fails_then_deploys(&site, &alpha.api, &node, patch, &[&url, "404"], || Some(remove)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_with_another_checksum_fails_the_deployment_and_the_right_checksum_helps() {
    let (site, alpha, node) = ready().await;
    let wrong = set("/instance_info/image_os_hash_value", &sha256(b"something else"));
    let right = set("/instance_info/image_os_hash_value", &sha256(&site.disk));
    let parts = ["could not write the image", "checksum", "instance_info/image_source"];
    fails_then_deploys(&site, &alpha.api, &node, wrong, &parts, || Some(right)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_its_server_does_not_have_fails_the_deployment() {
    let (site, alpha, node) = ready().await;
    let patch = set("/instance_info/image_source", &site.images.url("late.img"));
    let parts = ["could not write the image", "404", "instance_info/image_source"];
    fails_then_deploys(&site, &alpha.api, &node, patch, &parts, || {
        site.images.put("late.img", &site.disk);
        None
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_kernel_that_is_missing_fails_an_iscsi_ilo_deployment_with_the_image_already_written() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let node = site.available(&alpha.api, 0, "iscsi_ilo", "alpha").await;
    let kernel = site.file("late-vmlinuz");
    let patch = set("/instance_info/kernel", &kernel);
    let parts = [kernel.as_str(), "does not exist"];
    fails_then_deploys_iscsi(&site, &alpha.api, &node, &patch, &parts, &kernel).await;
}

async fn fails_then_deploys_iscsi(site: &Site, api: &Api, node: &str, patch: &Value, parts: &[&str], kernel: &str) {
    api.patch(&format!("/v1/nodes/{node}"), patch).await.expect("a patch");
    api.want(node, "active").await;
    let said = api.fails(node, "deploy failed").await;
    assert_says(&said, parts);
    assert_eq!(api.artefacts(node).await, [""; 0]);
    assert_eq!(site.inserted(0, Device::Cd), None);
    assert!(!site.is_on(0));
    std::fs::write(kernel, [7; 50_000]).expect("a file");
    api.bring(node, "active", "active").await;
    assert!(site.inserted(0, Device::Cd).is_some());
}
