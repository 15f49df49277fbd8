//! The main job without trouble: both drivers to `active` and back.

use sim::{BootOutcome, Device};

use crate::site::{Site, last_part};
use crate::wait;

/// What preparing a ramdisk's boot does to a server whose slots are empty.
const RAMDISK_IN: [&str; 4] = ["insert floppy", "insert cd", "boot Cd Once", "power On"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_ilo_node_is_cleaned_deployed_boots_from_its_disk_and_goes_back_without_a_trace() {
    let site = Site::new(1).await;
    let mut settings = site.settings("alpha");
    settings["conductor"]["automated-clean"] = true.into();
    let mut alpha = site.start_with(&settings).await;
    let api = alpha.api.clone();

    let node = site.enrol(&api, 0, &site.node(0, "agent_ilo", "alpha")).await;
    api.bring(&node, "manage", "manageable").await;
    assert_eq!(site.done_to(0), [""; 0], "looking at a server changes nothing");
    api.bring(&node, "provide", "available").await;
    let cleaned = site.done_to(0);
    // The agent powers the server off by itself.
    let ejected = ["eject cd", "eject floppy"];
    assert_eq!(cleaned, [&RAMDISK_IN[..], &ejected].concat());

    let active = api.bring(&node, "active", "active").await;
    assert!(active["last_error"].is_null(), "{active}");
    let deployed = site.done_to(0).split_off(cleaned.len());
    let into_the_disk = ["boot Hdd Continuous", "power On"];
    assert_eq!(deployed, [&RAMDISK_IN[..], &ejected, &into_the_disk].concat());
    site.assert_deployed(0);
    wait::until("the server boots from its disk", async || {
        (site.booted(0) == Some(BootOutcome::BootedFromDisk)).then_some(())
    })
    .await;
    assert_eq!(api.artefacts(&node).await, [""; 0]);
    assert_eq!(
        [site.inserted(0, Device::Floppy), site.inserted(0, Device::Cd)],
        [None, None]
    );
    assert_eq!(site.images.gets("disk.img"), 1, "the image was fetched once");
    let journal = api.journal(&node).await;
    assert!(journal.iter().all(|effect| effect.ends_with(" done")), "{journal:?}");
    let order = [
        "storage.publish",
        "bmc.insert",
        "power.on",
        "step.write-image",
        "step.boot-instance",
    ];
    let mut rest = journal.iter();
    for action in order {
        assert!(
            rest.any(|effect| *effect == format!("{action} done")),
            "{action} is not where it belongs in the journal: {journal:?}"
        );
    }

    api.bring(&node, "deleted", "available").await;
    let torn_down = site.done_to(0).split_off(cleaned.len() + deployed.len());
    assert_eq!(torn_down, [&["power ForceOff"], &RAMDISK_IN[..], &ejected].concat());
    assert!(!site.is_deployed(0), "cleaning erases the disk");
    assert!(!site.is_on(0));
    assert_eq!(api.artefacts(&node).await, [""; 0]);
    assert_eq!(
        [site.inserted(0, Device::Floppy), site.inserted(0, Device::Cd)],
        [None, None]
    );
    let bare = api.node(&node).await;
    assert!(
        bare["instance_info"].as_object().is_some_and(|info| info.is_empty()),
        "{bare}"
    );

    assert_eq!(site.sessions(0).await, 1, "one session is used again and again");
    alpha.stop().await;
    assert_eq!(site.sessions(0).await, 0, "it logs out when it stops");
    let store = std::fs::read_dir(site.data()).expect("the data folder");
    let store = store.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    let store: Vec<_> = store.filter(|name| name.starts_with("farrier.db")).collect();
    assert_eq!(store, ["farrier.db"], "the journal is written back when it stops");
    let log = alpha.log();
    let ready = log.lines().find(|line| line.contains(" ready ")).expect("it says so");
    let address = site.api_url("alpha").replace("http://", "").replace(":6385", "");
    for listener in [
        format!("api={address}:6385"),
        format!("images={address}:6386"),
        format!("agent={address}:6387"),
    ] {
        assert!(ready.contains(&listener), "{listener} is not in: {ready}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_drive_is_made_of_json_and_reaches_the_disk_of_the_server() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    let api = &alpha.api;
    let node = site.available(api, 0, "agent_ilo", "alpha").await;
    let drive = serde_json::json!({ "meta_data": { "role": "web" }, "user_data": "#cloud-config\nhostname: web-1\n" });
    let ask = serde_json::json!({ "target": "active", "configdrive": drive });
    let path = format!("/v1/nodes/{node}/states/provision");
    api.put(&path, &ask).await.expect("taken");
    let record = api.reaches(&node, "active").await;
    let server = site.sim.server(0).expect("such a server");
    let packed = std::fs::read(server.disk.with_file_name("configdrive.gz")).expect("it reached the agent");
    let mut drive = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut drive).expect("gzip");
    assert_eq!(&drive[0x8028..0x8030], b"config-2", "an ISO with that label");
    let holds = |text: &str| drive.windows(text.len()).any(|window| window == text.as_bytes());
    let uuid = record["uuid"].as_str().expect("a UUID");
    for text in ["hostname: web-1", "\"role\":\"web\"", uuid] {
        assert!(holds(text), "{text} is not in it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_iscsi_ilo_node_keeps_its_instance_boot_iso_in_the_slot_and_boots_from_it_for_good() {
    let site = Site::new(1).await;
    let mut alpha = site.start("alpha").await;
    let api = alpha.api.clone();
    let node = site.active(&api, 0, "iscsi_ilo", "alpha").await;

    let done = site.done_to(0);
    let instance = [
        "eject cd",
        "eject floppy",
        "insert cd",
        "boot Cd Continuous",
        "power On",
    ];
    assert_eq!(done, [&RAMDISK_IN[..], &instance].concat());
    site.assert_deployed(0);
    assert_eq!(site.inserted(0, Device::Floppy), None);
    let iso = site.inserted(0, Device::Cd).expect("the instance's boot ISO");
    assert!(iso.starts_with(&site.images_url("alpha")), "{iso}");
    let artefacts = api.artefacts(&node).await;
    assert_eq!(artefacts.len(), 1, "{artefacts:?}");
    assert!(artefacts[0].starts_with("boot-iso "), "{artefacts:?}");
    wait::until("the instance runs from its boot ISO", async || {
        (site.booted(0) == Some(BootOutcome::BootedFromCd)).then_some(())
    })
    .await;
    let reads = site.sim.media_reads(0, Device::Cd).expect("such a server");
    let last = reads.last().expect("an image was read");
    assert_eq!((last_part(&last.url), last.errors), (last_part(&iso), 0));
    let floppies = site.sim.media_reads(0, Device::Floppy).expect("such a server");
    assert_eq!(floppies.len(), 1, "only the ramdisk had a floppy");

    // Power that an operator asks for leaves the medium where it is.
    api.put(
        &format!("/v1/nodes/{node}/states/power"),
        &serde_json::json!({ "target": "rebooting" }),
    )
    .await
    .expect("taken");
    wait::until("the server was restarted", async || {
        let done = site.done_to(0);
        let boots = done.iter().filter(|change| *change == "power On").count();
        (boots == 3 && site.booted(0) == Some(BootOutcome::BootedFromCd)).then_some(())
    })
    .await;
    assert_eq!(site.inserted(0, Device::Cd).as_ref(), Some(&iso));
    wait::until("the request is done", async || {
        api.node(&node).await["target_power_state"].is_null().then_some(())
    })
    .await;

    let before = site.done_to(0).len();
    api.bring(&node, "deleted", "available").await;
    assert_eq!(site.done_to(0).split_off(before), ["power ForceOff", "eject cd"]);
    assert_eq!(site.inserted(0, Device::Cd), None);
    assert_eq!(api.artefacts(&node).await, [""; 0]);
    let gone = reqwest::get(&iso).await.expect("an answer").status();
    assert_eq!(gone, 404, "what was withdrawn is no longer served");
    alpha.stop().await;
    assert_eq!(site.sessions(0).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_called_back_over_https_only_unless_the_site_says_otherwise() {
    for agent_tls in [true, false] {
        let site = Site::with(1, |config| config.agent_tls = agent_tls).await;
        let mut settings = site.settings("alpha");
        settings["agent"]
            .as_object_mut()
            .expect("a table")
            .remove("require-tls");
        settings["conductor"]["deploy-callback-timeout-s"] = if agent_tls { 60 } else { 4 }.into();
        let alpha = site.start_with(&settings).await;
        let node = site.available(&alpha.api, 0, "agent_ilo", "alpha").await;
        if agent_tls {
            alpha.api.bring(&node, "active", "active").await;
            site.assert_deployed(0);
            continue;
        }
        alpha.api.want(&node, "active").await;
        alpha.api.fails(&node, "deploy failed").await;
        assert!(!site.is_deployed(0));
        assert_eq!(site.images.gets("disk.img"), 0, "it was told something over http");
        assert!(!site.is_on(0));
    }
}
