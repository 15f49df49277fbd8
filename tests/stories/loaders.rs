//! Servers whose firmware the site has no boot loader for.

use serde_json::{Value, json};
use sim::BootMode;

use crate::client::assert_says;
use crate::site::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_boots_uefi_is_refused_before_it_is_touched_where_the_site_has_no_esp() {
    let site = Site::with(1, |config| config.boot_mode = Some(BootMode::Uefi)).await;
    let mut settings = site.settings("alpha");
    settings["conductor"]["automated-clean"] = true.into();
    let mut alpha = site.start_with(&settings).await;
    let api = alpha.api.clone();
    let mut node = site.node(0, "agent_ilo", "alpha");
    // Nobody says how it boots but its BMC.
    node["properties"] = json!({});
    let node = site.enrol(&api, 0, &node).await;
    api.bring(&node, "manage", "manageable").await;

    let remedy = ["[images] esp is not set", "farrier image esp"];
    let answer = api.get(&format!("/v1/nodes/{node}/validate")).await;
    assert_eq!(answer["boot"]["result"], false, "{answer}");
    let reason = answer["boot"]["reason"].as_str().unwrap_or_default();
    assert_says(reason, &["boots UEFI (boot_mode on the node's record"]);
    assert_says(reason, &remedy);

    // Cleaning boots a ramdisk as well.
    api.want(&node, "provide").await;
    let said = api.fails(&node, "manageable").await;
    assert_says(&said, &["boots UEFI (its BMC says so)"]);
    assert_says(&said, &remedy);
    let asked = json!([{ "op": "add", "path": "/properties/capabilities", "value": "boot_mode:uefi" }]);
    api.patch(&format!("/v1/nodes/{node}"), &asked).await.expect("a patch");
    let answer = api.get(&format!("/v1/nodes/{node}/validate")).await;
    assert_says(
        answer["boot"]["reason"].as_str().unwrap_or_default(),
        &["boots UEFI (capability boot_mode)"],
    );
    assert_eq!(site.done_to(0), [""; 0], "a server that cannot be booted was touched");
    assert_eq!(api.artefacts(&node).await, [""; 0]);

    // Without cleaning it becomes available, and its deployment is refused at once.
    alpha.stop().await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    api.bring(&node, "provide", "available").await;
    let refusal = api.ask_for(&node, "active").await.expect_err("it cannot boot");
    assert_eq!(refusal.status, 400);
    assert_says(&refusal.text, &[&node, "boots UEFI", "farrier image esp"]);
    assert_eq!(api.node(&node).await["last_error"], Value::Null);
    assert_eq!(site.done_to(0), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_boots_bios_is_refused_where_isolinux_has_gone() {
    let site = Site::new(1).await;
    let mut settings = site.settings("alpha");
    let isolinux = site.file("short-lived-isolinux.bin");
    std::fs::copy(site.file("isolinux.bin"), &isolinux).expect("a copy");
    settings["images"]["isolinux"] = isolinux.as_str().into();
    let alpha = site.start_with(&settings).await;
    let api = &alpha.api;
    let node = site.available(api, 0, "agent_ilo", "alpha").await;
    std::fs::remove_file(&isolinux).expect("it was there");
    let refusal = api.ask_for(&node, "active").await.expect_err("it cannot boot");
    assert_says(
        &refusal.text,
        &["boots BIOS (capability boot_mode)", "short-lived-isolinux.bin"],
    );
    assert_eq!(site.done_to(0), [""; 0]);

    // A site file that names what is not there is refused as a whole.
    drop(alpha);
    let said = site.refuses_to_start(&settings).await;
    assert_says(&said, &["[images] isolinux", "short-lived-isolinux.bin"]);
}
