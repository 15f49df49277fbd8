//! Nodes whose servers boot over the network: what is served where, when it goes, and that it comes back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sim::{BootOutcome, Device};

use crate::client::{Api, assert_says};
use crate::conductor::farrier;
use crate::site::{BMC_PASSWORD, Site, fetch, text};
use crate::wait;

/// What preparing a ramdisk's boot does to a server.
const RAMDISK: [&str; 2] = ["boot Pxe Once", "power On"];

/// A site whose DHCP server names the entry script of this conductor's image listener.
async fn served_by(conductor: usize) -> Site {
    Site::booting(1, |config, places| {
        config.bootfile = Some(format!("{}/boot.ipxe", places.conductors[conductor]));
    })
    .await
}

/// A site whose DHCP server names the entry script of a web server; its folder, and settings that name both.
async fn served_by_a_web_server() -> (Site, PathBuf, impl Fn(&Site, &str) -> Value) {
    let site = Site::booting(1, |config, places| {
        config.bootfile = Some(places.images.url("boot/boot.ipxe"));
    })
    .await;
    let root = site.path("httpboot");
    std::fs::create_dir(&root).expect("a folder");
    let url = site.images.serve_folder(&root);
    let netboot = json!({ "root": text(&root), "url": url });
    let settings = move |site: &Site, conductor: &str| {
        let mut settings = site.settings(conductor);
        settings["netboot"] = netboot.clone();
        settings
    };
    (site, root, settings)
}

fn node(site: &Site, driver: &str, owner: &str) -> Value {
    let mut node = site.node(0, driver, owner);
    node["boot_interface"] = "ilo-ipxe".into();
    node
}

async fn available(site: &Site, api: &Api, driver: &str, owner: &str) -> String {
    let node = site.enrol(api, 0, &node(site, driver, owner)).await;
    api.bring(&node, "manage", "manageable").await;
    api.bring(&node, "provide", "available").await;
    node
}

fn card(site: &Site) -> String {
    let mac = &site.sim.server(0).expect("such a server").mac;
    format!("pxelinux.cfg/{}", mac.replace(':', "-"))
}

async fn script(url: &str) -> String {
    String::from_utf8(fetch(url).await).expect("text")
}

async fn status(url: &str) -> u16 {
    reqwest::get(url).await.expect("an answer").status().as_u16()
}

async fn boots(site: &Site, outcome: BootOutcome) {
    wait::until("the server boots", async || {
        (site.booted(0).as_ref() == Some(&outcome)).then_some(())
    })
    .await;
}

/// Every file below, in order.
fn files(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(text(path.strip_prefix(root).expect("below"))),
            }
        }
    }
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_ilo_node_is_cleaned_and_deployed_over_the_network_without_media_and_without_its_plugin() {
    let site = served_by(0).await;
    let mut settings = site.settings("alpha");
    settings["conductor"]["automated-clean"] = true.into();
    let mut alpha = site.start_with(&settings).await;
    let api = alpha.api.clone();
    let node = available(&site, &api, "agent_ilo", "alpha").await;
    // The agent powers the server off by itself.
    assert_eq!(site.done_to(0), RAMDISK);
    let url = |path: &str| format!("{}/{path}", site.images_url("alpha"));
    assert_eq!(
        status(&url(&card(&site))).await,
        404,
        "cleaned, and nothing is left to be booted"
    );

    site.sim.hold_agent(0, true).expect("such a server");
    api.bring(&node, "active", "wait call-back").await;
    site.ramdisk_runs(0).await;
    let uuid = api.node(&node).await["uuid"].as_str().expect("a UUID").to_owned();
    let deploy = script(&url(&card(&site))).await;
    assert_says(
        &deploy,
        &[
            "#!ipxe\n",
            "initrd=deploy_ramdisk",
            &site.agent_url("alpha"),
            &site.agent_url("beta"),
        ],
    );
    for secret in [BMC_PASSWORD, "ipa-agent-token", "boot_method"] {
        assert!(!deploy.contains(secret), "{secret} can be fetched by anybody: {deploy}");
    }
    assert_eq!(script(&url(&format!("{uuid}/config"))).await, deploy);
    let kernel = fetch(&url(&format!("{uuid}/deploy_kernel"))).await;
    assert!(kernel == std::fs::read(site.file("vmlinuz")).expect("the kernel"));
    let entry = script(&url("boot.ipxe")).await;
    assert_says(
        &entry,
        &[&format!(
            "chain --autofree {}/pxelinux.cfg/${{mac:hexhyp}}",
            site.images_url("alpha")
        )],
    );
    let published = api.artefacts(&node).await;
    assert!(
        published.len() == 1 && published[0].starts_with("netboot netboot/conductor "),
        "{published:?}"
    );
    site.sim.hold_agent(0, false).expect("such a server");
    api.reaches(&node, "active").await;
    site.assert_deployed(0);
    boots(&site, BootOutcome::BootedFromDisk).await;
    let done = site.done_to(0);
    let into_the_disk = ["boot Hdd Continuous", "power On"];
    assert_eq!(done, [&RAMDISK[..], &RAMDISK, &into_the_disk].concat());
    assert_says(&script(&url(&card(&site))).await, &["sanboot"]);
    assert_eq!(status(&url(&format!("{uuid}/deploy_kernel"))).await, 404);

    for device in [Device::Floppy, Device::Cd] {
        let reads = site.sim.media_reads(0, device).expect("such a server");
        assert!(reads.is_empty(), "{reads:?}");
    }
    let journal = api.journal(&node).await;
    assert!(
        journal
            .iter()
            .all(|effect| effect.ends_with(" done") && !effect.starts_with("bmc.insert")),
        "{journal:?}"
    );
    let calls = api.get("/farrier/v1/plugins/calls?limit=1000").await;
    assert_eq!(calls["calls"], json!([]), "the host itself carries it out");

    api.bring(&node, "deleted", "available").await;
    assert_eq!(
        site.done_to(0).split_off(done.len()),
        [&["power ForceOff"], &RAMDISK[..]].concat()
    );
    assert!(!site.is_deployed(0), "cleaning erases the disk");
    assert_eq!(api.artefacts(&node).await, [""; 0]);
    for gone in [card(&site), format!("{uuid}/config")] {
        assert_eq!(status(&url(&gone)).await, 404, "{gone}");
    }
    assert_eq!(status(&url("boot.ipxe")).await, 200, "it is every server's");
    alpha.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_conductor_serves_what_a_server_boots_and_a_successor_goes_on_waiting_for_its_ramdisk() {
    let site = served_by(1).await;
    let mut alpha = site.start("alpha").await;
    let beta = site.start("beta").await;
    let api = &beta.api;
    let node = available(&site, api, "agent_ilo", "alpha").await;
    site.sim.hold_agent(0, true).expect("such a server");
    api.bring(&node, "active", "wait call-back").await;
    site.ramdisk_runs(0).await;
    let uuid = api.node(&node).await["uuid"].as_str().expect("a UUID").to_owned();
    let url = |path: &str| format!("{}/{path}", site.images_url("beta"));
    let paths = [
        card(&site),
        format!("{uuid}/deploy_kernel"),
        format!("{uuid}/deploy_ramdisk"),
    ];
    let mut before = Vec::new();
    for path in &paths {
        before.push(fetch(&url(path)).await);
    }
    let published = api.artefacts(&node).await;
    let done = site.done_to(0);

    alpha.kill();
    let plan = api.taken_over(&node, "beta").await;
    assert_says(&plan, &["from alpha", "regenerate netboot", "wait for the agent"]);
    assert_eq!(site.done_to(0), done, "served again, and nothing else");
    assert_eq!(api.artefacts(&node).await, published, "the same bytes by their digests");
    for (path, before) in paths.iter().zip(&before) {
        assert!(fetch(&url(path)).await == *before, "{path} has other bytes");
    }
    site.sim.hold_agent(0, false).expect("such a server");
    api.reaches(&node, "active").await;
    site.assert_deployed(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_boots_from_a_web_servers_folder_whose_files_a_successor_puts_back() {
    let (site, root, settings) = served_by_a_web_server().await;
    let mut alpha = site.start_with(&settings(&site, "alpha")).await;
    let beta = site.start_with(&settings(&site, "beta")).await;
    let api = &beta.api;
    let node = available(&site, api, "iscsi_ilo", "alpha").await;
    api.bring(&node, "active", "active").await;
    site.assert_deployed(0);
    boots(&site, BootOutcome::BootedFromNetwork).await;
    let for_good = ["boot Pxe Continuous", "power On"];
    let done = site.done_to(0);
    assert_eq!(done, [&RAMDISK[..], &for_good].concat());
    let uuid = api.node(&node).await["uuid"].as_str().expect("a UUID").to_owned();
    let mut expected = vec!["boot.ipxe".to_owned(), card(&site)];
    expected.extend(["config", "kernel", "ramdisk"].map(|name| format!("{uuid}/{name}")));
    expected.sort();
    assert_eq!(files(&root), expected);
    let read = |path: &str| std::fs::read(root.join(path)).expect("a file");
    assert!(read(&format!("{uuid}/kernel")) == std::fs::read(site.file("instance-vmlinuz")).expect("the kernel"));
    for path in &expected {
        let mode = std::fs::metadata(root.join(path)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o644, "{path}");
    }
    let entry = script(&site.images.url("boot/boot.ipxe")).await;
    assert_says(&entry, &[&format!("{}/pxelinux.cfg/", site.images.url("boot"))]);
    let before: Vec<_> = expected.iter().map(|path| read(path)).collect();

    alpha.kill();
    for lost in [card(&site), format!("{uuid}/ramdisk"), "boot.ipxe".to_owned()] {
        std::fs::remove_file(root.join(lost)).expect("it was there");
    }
    let plan = api.taken_over(&node, "beta").await;
    assert_says(&plan, &["from alpha", "regenerate netboot"]);
    assert_eq!(site.done_to(0), done, "a running server is left alone");
    let after: Vec<_> = expected.iter().map(|path| read(path)).collect();
    assert!(after == before, "other bytes");
    assert!(site.is_on(0));

    let path = format!("/v1/nodes/{node}/states/power");
    api.put(&path, &json!({ "target": "rebooting" })).await.expect("taken");
    wait::until("the server was restarted", async || {
        let powered = site.done_to(0).iter().filter(|change| *change == "power On").count();
        (powered == 3 && site.booted(0) == Some(BootOutcome::BootedFromNetwork)).then_some(())
    })
    .await;
    wait::until("the request is done", async || {
        api.node(&node).await["target_power_state"].is_null().then_some(())
    })
    .await;

    api.bring(&node, "deleted", "available").await;
    assert_eq!(files(&root), ["boot.ipxe"]);
    assert!(!root.join(&uuid).exists(), "an empty folder is left behind");
    assert_eq!(api.artefacts(&node).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_half_written_when_a_conductor_dies_is_finished_or_taken_away_by_the_next() {
    let (site, root, settings) = served_by_a_web_server().await;
    let mut alpha = site.start_with(&settings(&site, "alpha")).await;
    let node = available(&site, &alpha.api, "agent_ilo", "alpha").await;
    // A file where the node's folder should be: nothing of it can be written.
    let uuid = alpha.api.node(&node).await["uuid"].as_str().expect("a UUID").to_owned();
    std::fs::write(root.join(&uuid), "in the way").expect("a file");
    alpha.api.want(&node, "active").await;
    wait::until("it is being tried", async || {
        let artefacts = alpha.api.artefacts(&node).await;
        (artefacts.len() == 1).then_some(())
    })
    .await;
    alpha.kill();
    std::fs::remove_file(root.join(&uuid)).expect("it was there");
    let alpha = site.start_with(&settings(&site, "alpha")).await;
    alpha.api.reaches(&node, "active").await;
    site.assert_deployed(0);
    alpha.api.bring(&node, "deleted", "available").await;
    assert_eq!(files(&root), ["boot.ipxe"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_booted_over_the_network_is_refused_before_the_server_is_touched() {
    let site = served_by(0).await;
    let mut settings = site.settings("alpha");
    settings["netboot"] = json!({ "root": text(&site.path("nowhere")), "url": "http://192.0.2.1/boot" });
    let images = settings["images"].as_object_mut().expect("a table");
    images.remove("deploy-kernel");
    images.remove("deploy-ramdisk");
    let alpha = site.start_with(&settings).await;
    let api = &alpha.api;
    let mut wanted = node(&site, "iscsi_ilo", "alpha");
    wanted["boot_interface"] = "ilo-pxe".into();
    let refused = api.post("/v1/nodes", &wanted).await.expect_err("refused");
    assert_eq!(refused.status, 400);
    assert_says(
        &refused.text,
        &["`ilo-pxe` is not offered here; these are: ilo-virtual-media, ilo-ipxe"],
    );

    wanted["boot_interface"] = "ilo-ipxe".into();
    wanted["driver_info"]["deploy_iso"] = site.file("vmlinuz").into();
    wanted["instance_info"]["boot_iso"] = "http://192.0.2.1/i.iso".into();
    let ramdisk = wanted["instance_info"]
        .as_object_mut()
        .expect("an object")
        .remove("ramdisk")
        .expect("one");
    // No port yet.
    wanted["boot_interface"] = "ilo-virtual-media".into();
    let made = api.post("/v1/nodes", &wanted).await.expect("a node");
    let name = made["name"].as_str().expect("a name");
    let command = [
        "node",
        "set",
        name,
        "--boot-interface",
        "ilo-ipxe",
        "--api",
        &site.api_url("alpha"),
        "-o",
        "json",
    ];
    let command = command.map(str::to_owned);
    let ran = tokio::task::spawn_blocking(move || farrier(&command.each_ref().map(String::as_str)));
    let ran = ran.await.expect("it ran");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && said.contains("\"boot_interface\": \"ilo-ipxe\""),
        "{said}"
    );
    api.bring(name, "manage", "manageable").await;
    api.bring(name, "provide", "available").await;
    let path = format!("/v1/nodes/{name}");
    let patch = async |operations: Value| api.patch(&path, &operations).await.expect("taken");
    let refuses = async |says: &str| {
        let refused = api.ask_for(name, "active").await.expect_err("refused");
        assert_eq!(refused.status, 400, "{refused:?}");
        assert_says(&refused.text, &[says]);
    };
    refuses("there is no kernel to boot: set driver_info/deploy_kernel").await;
    let validity = api.get(&format!("{path}/validate")).await;
    assert_eq!(validity["boot"]["result"], false, "{validity}");
    patch(json!([
        { "op": "add", "path": "/driver_info/deploy_kernel", "value": site.file("vmlinuz") },
        { "op": "add", "path": "/driver_info/deploy_ramdisk", "value": site.file("initrd") },
        { "op": "add", "path": "/driver_info/kernel_append_params", "value": "%default% x=${mac}" },
    ]))
    .await;
    refuses("driver_info/kernel_append_params: kernel parameter \"x\" holds `${`").await;
    patch(json!([{ "op": "remove", "path": "/driver_info/kernel_append_params" }])).await;
    refuses("nowhere is not usable: it does not exist; create it").await;
    std::fs::create_dir(site.path("nowhere")).expect("a folder");
    refuses("with the boot interface ilo-ipxe an instance boots from kernel and ramdisk").await;
    patch(json!([{ "op": "add", "path": "/instance_info/ramdisk", "value": ramdisk }])).await;
    api.want(name, "active").await;
    let failed = api.fails(name, "deploy failed").await;
    assert_says(&failed, &["add a port"]);
    assert_eq!(site.done_to(0), [""; 0]);
    assert!(files(&site.path("nowhere")).is_empty());
}
