//! A conductor dies in the middle of its agent's work: its successor asks first, and nothing is told twice.

use reqwest::Method;
use serde_json::Value;
use sim::{BootOutcome, Device};

use crate::client::{Api, assert_says};
use crate::site::{Site, fetch, token_in};
use crate::wait;

/// Names of the commands that the agent of a server was told since its boot.
async fn commands(site: &Site, index: usize, token: &str) -> Vec<String> {
    let url = site.sim.agent_url(index).expect("such a server").expect("an agent");
    let agent = Api::new(url);
    let answer = agent
        .send(Method::GET, &format!("/v1/commands?agent_token={token}"), None)
        .await;
    let answer = answer.expect("an answer").expect("a list");
    let name = |command: &Value| command["command_name"].as_str().unwrap_or_default().to_owned();
    answer["commands"]
        .as_array()
        .expect("a list")
        .iter()
        .map(name)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_that_was_being_written_when_the_conductor_died_is_not_written_twice() {
    let site = Site::new(1).await;
    let mut alpha = site.start("alpha").await;
    let beta = site.start("beta").await;
    let api = &beta.api;
    let node = site.waiting(api, 0, "alpha").await;
    let floppy = fetch(&site.inserted(0, Device::Floppy).expect("a floppy")).await;
    let token = token_in(&floppy);
    site.images.hold(true);
    site.sim.hold_agent(0, false).expect("such a server");
    wait::until("half of the image is written", async || {
        let record = api.node(&node).await;
        let writing = record["deploy_step"]["step"] == "write-image";
        (writing && site.sim.written(0).expect("such a server") > 0).then_some(())
    })
    .await;
    let told = commands(&site, 0, &token).await;
    assert_eq!(
        told.iter().filter(|name| *name == "standby.prepare_image").count(),
        1,
        "{told:?}"
    );
    let before = site.done_to(0).len();

    alpha.kill();
    let plan = api.taken_over(&node, "beta").await;
    assert_says(&plan, &["continue the interrupted step"]);
    // Beta has asked the agent by now or will; what it then knows must not be told again.
    wait::until("beta asks how far the agent is", async || {
        let agent_heard = api.journal(&node).await;
        let record = api.node(&node).await;
        assert_eq!(record["provision_state"], "deploying", "{record} {agent_heard:?}");
        (record["conductor"] == "beta").then_some(())
    })
    .await;
    assert_eq!(commands(&site, 0, &token).await, told, "no new command");
    assert_eq!(
        site.done_to(0).len(),
        before,
        "its media are not touched while it writes"
    );

    site.images.hold(false);
    api.reaches(&node, "active").await;
    site.assert_deployed(0);
    assert_eq!(site.images.gets("disk.img"), 1, "the image was fetched once");
    let journal = api.journal(&node).await;
    let writes = journal.iter().filter(|effect| effect.starts_with("step.write-image "));
    assert_eq!(writes.count(), 1, "{journal:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_in_clean_wait_is_cleaned_by_the_successor_each_step_once() {
    let site = Site::new(1).await;
    let settings = ["alpha", "beta"].map(|name| {
        let mut settings = site.settings(name);
        settings["conductor"]["automated-clean"] = true.into();
        settings
    });
    let mut alpha = site.start_with(&settings[0]).await;
    let beta = site.start_with(&settings[1]).await;
    let api = &beta.api;
    let node = site.enrol(api, 0, &site.node(0, "agent_ilo", "alpha")).await;
    api.bring(&node, "manage", "manageable").await;
    site.sim.hold_agent(0, true).expect("such a server");
    api.bring(&node, "provide", "clean wait").await;
    site.ramdisk_runs(0).await;
    let floppy = fetch(&site.inserted(0, Device::Floppy).expect("a floppy")).await;
    let before = site.done_to(0).len();

    alpha.kill();
    let plan = api.taken_over(&node, "beta").await;
    assert_says(&plan, &["regenerate floppy", "wait for the agent"]);
    let now = fetch(&site.inserted(0, Device::Floppy).expect("a floppy")).await;
    assert!(now == floppy, "the floppy has other bytes");
    site.sim.hold_agent(0, false).expect("such a server");
    api.reaches(&node, "available").await;

    let events = api.events(&node).await;
    let steps: Vec<_> = events
        .iter()
        .filter(|event| event["kind"] == "clean-step")
        .map(|event| event["message"].as_str().unwrap_or_default())
        .collect();
    let each = ["deploy.erase_devices_metadata begins", "deploy.erase_devices begins"];
    assert_eq!(steps, each);
    let done = site.done_to(0).split_off(before);
    assert!(
        !done.iter().any(|change| change.starts_with("power")),
        "the agent powers off by itself: {done:?}"
    );
    assert_eq!(api.artefacts(&node).await, [""; 0]);
    assert_eq!(
        [site.inserted(0, Device::Floppy), site.inserted(0, Device::Cd)],
        [None, None]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conductor_that_is_told_to_stop_hands_a_waiting_node_over_with_its_media() {
    let site = Site::new(1).await;
    let mut alpha = site.start("alpha").await;
    let beta = site.start("beta").await;
    let api = &beta.api;
    let node = site.waiting(api, 0, "alpha").await;
    assert_eq!(api.node(&node).await["conductor"], "alpha");
    assert_eq!(site.sessions(0).await, 1);
    let floppy = fetch(&site.inserted(0, Device::Floppy).expect("a floppy")).await;
    alpha.stop().await;
    api.taken_over(&node, "beta").await;
    let again = site.inserted(0, Device::Floppy).expect("a floppy");
    assert!(again.starts_with(&site.images_url("beta")), "nobody serves {again}");
    assert!(fetch(&again).await == floppy, "the floppy has other bytes");
    site.sim.hold_agent(0, false).expect("such a server");
    api.reaches(&node, "active").await;
    site.assert_deployed(0);
    assert_eq!(site.sessions(0).await, 1, "alpha's session is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wherever_in_a_deployment_the_conductor_dies_the_successor_brings_it_to_its_end() {
    // Server by server the request that its BMC does not answer, so that alpha stands before each of them when it is killed.
    const INSERT: &str = "VirtualMedia.InsertMedia";
    const EJECT: &str = "VirtualMedia.EjectMedia";
    let slot = |slot: u8, action: &str| format!("/redfish/v1/Managers/1/VirtualMedia/{slot}/Actions/{action}");
    let (boot, reset) = (
        "/redfish/v1/Systems/1",
        "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
    );
    let places = [
        ("POST", slot(1, INSERT), 0),
        ("POST", slot(2, INSERT), 0),
        ("PATCH", boot.to_owned(), 0),
        ("POST", reset.to_owned(), 0),
        ("POST", slot(2, EJECT), 0),
        ("POST", slot(1, EJECT), 0),
        ("PATCH", boot.to_owned(), 1),
        ("POST", reset.to_owned(), 1),
        // From here on iscsi_ilo: the instance's boot ISO goes in.
        ("POST", slot(2, INSERT), 1),
        ("PATCH", boot.to_owned(), 1),
        ("POST", reset.to_owned(), 1),
    ];
    let driver = |index| if index < 8 { "agent_ilo" } else { "iscsi_ilo" };
    let site = Site::new(places.len()).await;
    let mut alpha = site.start("alpha").await;
    let beta = site.start("beta").await;
    let api = &beta.api;
    let mut nodes = Vec::new();
    for index in 0..places.len() {
        nodes.push(site.available(api, index, driver(index), "alpha").await);
    }
    for (server, (method, path, skip)) in places.iter().enumerate() {
        let rule = format!(
            "[[rule]]\nserver = {server}\nmethod = \"{method}\"\npath = \"{path}\"\nskip = {skip}\nhang = true"
        );
        site.sim.faults().add(&rule).expect("a rule");
    }
    for node in &nodes {
        api.want(node, "active").await;
    }
    wait::until("each deployment stands before its request", async || {
        let applied = site.sim.faults().applied();
        applied.iter().all(|(_, times)| *times > 0).then_some(())
    })
    .await;

    alpha.kill();
    site.sim.faults().clear();
    for (index, node) in nodes.iter().enumerate() {
        let record = api.reaches(node, "active").await;
        assert_eq!(record["conductor"], "beta", "{record}");
        site.assert_deployed(index);
        assert!(site.is_on(index), "{node}");
        assert!(record["fault"].is_null(), "{record}");
        assert_eq!(site.inserted(index, Device::Floppy), None, "{node}");
        let iso = site.inserted(index, Device::Cd);
        if driver(index) == "agent_ilo" {
            assert_eq!(api.artefacts(node).await, [""; 0], "{node}");
            assert_eq!(iso, None, "{node}");
        } else {
            assert!(
                iso.is_some_and(|iso| iso.starts_with(&site.images_url("beta"))),
                "{node}"
            );
            wait::until(&format!("{node} boots its instance"), async || {
                (site.booted(index) == Some(BootOutcome::BootedFromCd)).then_some(())
            })
            .await;
        }
    }
    assert_eq!(
        site.images.gets("disk.img"),
        places.len(),
        "each image was written once"
    );
}
