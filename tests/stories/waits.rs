//! Waits that end: in time, by an operator, or not at all while a node is in maintenance.

use serde_json::json;
use sim::Device;

use crate::client::assert_says;
use crate::site::Site;
use crate::wait;

fn assert_left_clean(site: &Site, index: usize) {
    assert_eq!(
        [site.inserted(index, Device::Floppy), site.inserted(index, Device::Cd)],
        [None, None]
    );
    assert!(!site.is_on(index), "the server was left running");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_never_calls_in_fails_the_deployment_with_the_power_off_before_the_media_go() {
    let site = Site::new(1).await;
    let mut settings = site.settings("alpha");
    settings["conductor"]["deploy-callback-timeout-s"] = 4.into();
    let alpha = site.start_with(&settings).await;
    let api = &alpha.api;
    let node = site.waiting(api, 0, "alpha").await;
    let before = site.done_to(0).len();
    let said = api.fails(&node, "deploy failed").await;
    assert_says(
        &said,
        &["did not call back in time", "of its boot ISO was read", "[agent] urls"],
    );
    assert_eq!(
        site.done_to(0).split_off(before),
        ["power ForceOff", "eject cd", "eject floppy"]
    );
    assert_left_clean(&site, 0);
    assert_eq!(api.artefacts(&node).await, [""; 0]);
    let record = api.node(&node).await;
    assert_eq!(
        (record["maintenance"].clone(), record["target_provision_state"].clone()),
        (false.into(), "active".into())
    );

    site.sim.hold_agent(0, false).expect("such a server");
    api.bring(&node, "active", "active").await;
    site.assert_deployed(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cleaning_ramdisk_has_a_time_of_its_own_to_call_in() {
    let site = Site::new(1).await;
    let mut settings = site.settings("alpha");
    settings["conductor"]["clean-callback-timeout-s"] = 4.into();
    settings["conductor"]["automated-clean"] = true.into();
    let alpha = site.start_with(&settings).await;
    let api = &alpha.api;
    let node = site.enrol(api, 0, &site.node(0, "agent_ilo", "alpha")).await;
    api.bring(&node, "manage", "manageable").await;
    site.sim.hold_agent(0, true).expect("such a server");
    api.want(&node, "provide").await;
    let said = api.fails(&node, "clean failed").await;
    assert_says(&said, &["did not call back in time"]);
    assert_left_clean(&site, 0);
    let record = api.node(&node).await;
    assert_eq!(
        (record["maintenance"].clone(), record["fault"].clone()),
        (true.into(), "clean failure".into())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abort_ends_a_wait_at_once_and_cleans_up() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let node = site.waiting(api, 0, "alpha").await;
    let before = site.done_to(0).len();
    api.want(&node, "abort").await;
    let said = api.fails(&node, "deploy failed").await;
    assert_says(&said, &["aborted"]);
    assert_eq!(
        site.done_to(0).split_off(before),
        ["power ForceOff", "eject cd", "eject floppy"]
    );
    assert_left_clean(&site, 0);
    assert_eq!(api.artefacts(&node).await, [""; 0]);
    assert_eq!(site.images.gets("disk.img"), 0);

    site.sim.hold_agent(0, false).expect("such a server");
    api.bring(&node, "active", "active").await;
    site.assert_deployed(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_done_to_a_node_in_maintenance_until_that_ends() {
    let site = Site::new(2).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let node = site.waiting(api, 0, "alpha").await;
    let maintenance = format!("/v1/nodes/{node}/maintenance");
    api.put(&maintenance, &json!({ "reason": "a new fan" }))
        .await
        .expect("taken");
    wait::until("the node is in maintenance", async || {
        (api.node(&node).await["maintenance"] == true).then_some(())
    })
    .await;
    let requests = site.trace(0).len();
    site.sim.hold_agent(0, false).expect("such a server");
    wait::until("its agent has called in", async || {
        let progress = api.get(&format!("/farrier/v1/nodes/{node}/progress")).await;
        (!progress["agent_seen_at"].is_null()).then_some(())
    })
    .await;
    // As long as it takes to deploy another node, nothing happens to this one.
    site.active(api, 1, "agent_ilo", "alpha").await;
    assert_eq!(site.trace(0).len(), requests, "its BMC was asked for something");
    let record = api.node(&node).await;
    assert_eq!(record["provision_state"], "wait call-back", "{record}");
    assert_eq!(record["maintenance_reason"], "a new fan");
    assert!(!site.is_deployed(0));

    api.delete(&maintenance).await.expect("taken");
    api.reaches(&node, "active").await;
    site.assert_deployed(0);
}
