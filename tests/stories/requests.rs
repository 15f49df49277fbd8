//! Requests that cannot be taken: refused at once, with what is wrong and what to do, and nothing is changed.

use serde_json::json;

use crate::client::{Refusal, assert_says};
use crate::site::Site;

#[track_caller]
fn assert_refused(refusal: &Refusal, status: u16, parts: &[&str]) {
    assert_eq!(refusal.status, status, "{}", refusal.text);
    assert_says(&refusal.text, parts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_node_with_the_name_the_uuid_or_the_mac_of_another_is_refused_and_leaves_nothing_behind() {
    let site = Site::new(2).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let first = site.node(0, "agent_ilo", "alpha");
    site.enrol(api, 0, &first).await;
    let mac = site.sim.server(0).expect("a server").mac.clone();

    let mut same_name = site.node(1, "agent_ilo", "alpha");
    same_name["name"] = first["name"].clone();
    let refusal = api.post("/v1/nodes", &same_name).await.expect_err("refused");
    assert_refused(&refusal, 409, &["`n0`", "taken already"]);

    let mut same_uuid = site.node(1, "agent_ilo", "alpha");
    same_uuid["uuid"] = first["uuid"].clone();
    let refusal = api.post("/v1/nodes", &same_uuid).await.expect_err("refused");
    assert_refused(
        &refusal,
        409,
        &[first["uuid"].as_str().expect("a UUID"), "taken already"],
    );

    let listed = api.get("/v1/nodes").await;
    assert_eq!(listed["nodes"].as_array().map(Vec::len), Some(1), "{listed}");

    let second = api
        .post("/v1/nodes", &site.node(1, "agent_ilo", "alpha"))
        .await
        .expect("a node");
    let port = json!({ "node_uuid": second["uuid"], "address": mac.to_uppercase() });
    let refusal = api.post("/v1/ports", &port).await.expect_err("refused");
    assert_refused(&refusal, 409, &[&mac, "taken already"]);
    let ports = api.get("/v1/ports").await;
    assert_eq!(ports["ports"].as_array().map(Vec::len), Some(1), "{ports}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_what_a_bmc_can_fetch_is_booted_into_and_the_bmc_is_not_asked_otherwise() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let node = site.enrol(api, 0, &site.node(0, "agent_ilo", "alpha")).await;
    api.bring(&node, "manage", "manageable").await;
    let seen = site.trace(0).iter().filter(|exchange| exchange.method != "GET").count();
    let path = format!("/v1/nodes/{node}/vendor_passthru?method=boot_into_iso");
    let long = format!("http://192.0.2.1/{}.iso", "x".repeat(255));
    for (href, parts) in [
        ("file:///srv/rescue.iso", ["boot_iso_href", "http:// or https://"]),
        ("ftp://192.0.2.1/rescue.iso", ["boot_iso_href", "http:// or https://"]),
        ("rescue.iso", ["boot_iso_href", "no URL"]),
        ("http://192.0.2.1/a,b.iso", ["boot_iso_href", "comma"]),
        (&long, ["boot_iso_href", "255"]),
    ] {
        let refusal = api
            .post(&path, &json!({ "boot_iso_href": href }))
            .await
            .expect_err(href);
        assert_refused(&refusal, 400, &parts);
    }
    let now = site.trace(0).iter().filter(|exchange| exchange.method != "GET").count();
    assert_eq!(now, seen, "the BMC was asked for a change");

    // And what it can fetch is booted.
    let iso = site.images.put("rescue.iso", &[0; 4096]);
    api.post(&path, &json!({ "boot_iso_href": iso })).await.expect("taken");
    crate::wait::until("the ISO is in and the server on", async || {
        let record = api.node(&node).await;
        let error = record["last_error"].clone();
        assert!(error.is_null(), "{error}");
        (site.inserted(0, sim::Device::Cd).as_ref() == Some(&iso) && site.is_on(0)).then_some(())
    })
    .await;
    let done = site.done_to(0);
    assert!(done.first().is_some_and(|first| first == "insert cd"), "{done:?}");
    assert_eq!(done.last().map(String::as_str), Some("power On"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_that_cannot_work_is_refused_before_anything_is_touched() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let node = site.available(api, 0, "agent_ilo", "alpha").await;
    let good = api.node(&node).await["instance_info"].clone();
    let path = format!("/v1/nodes/{node}");
    for (field, value, parts) in [
        (
            "image_source",
            json!("ftp://192.0.2.1/disk.img"),
            ["instance_info/image_source", "http(s)"],
        ),
        (
            "image_os_hash_value",
            json!("abc"),
            ["instance_info/image_os_hash_value", "64 hexadecimal digits"],
        ),
        (
            "image_os_hash_algo",
            json!("crc32"),
            ["instance_info/image_os_hash_algo", "sha256"],
        ),
        (
            "image_disk_format",
            json!("vmdk"),
            ["instance_info/image_disk_format", "qemu-img convert"],
        ),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        let replace = json!([{ "op": "replace", "path": "/instance_info", "value": bad }]);
        api.patch(&path, &replace).await.expect("a patch");
        let refusal = api.ask_for(&node, "active").await.expect_err(field);
        assert_refused(&refusal, 400, &parts);
    }
    let record = api.node(&node).await;
    assert_eq!(record["provision_state"], "available", "{record}");
    assert_eq!(site.done_to(0), [""; 0]);
    let replace = json!([{ "op": "replace", "path": "/instance_info", "value": good }]);
    api.patch(&path, &replace).await.expect("a patch");
    api.bring(&node, "active", "active").await;
    site.assert_deployed(0);

    let refusal = api.ask_for(&node, "provide").await.expect_err("an active node");
    assert_refused(&refusal, 400, &["provide", "active"]);
    let refusal = api.ask_for(&node, "fly").await.expect_err("no verb");
    assert_refused(&refusal, 400, &["target", "fly"]);
    let refusal = api.delete(&path).await.expect_err("an active node");
    assert_refused(&refusal, 409, &["active", "undeploy it first"]);
}
