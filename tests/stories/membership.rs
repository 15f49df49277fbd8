//! Several conductors on one store: each takes wishes for all nodes; names are unique; a crash does not keep a name.

use std::time::Instant;

use sim::Device;

use crate::client::assert_says;
use crate::site::{Site, fetch};
use crate::wait;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_conductor_takes_wishes_for_the_nodes_of_the_other() {
    let site = Site::new(2).await;
    let alpha = site.start("alpha").await;
    let beta = site.start("beta").await;
    for (index, owner, api) in [(0, "alpha", &beta.api), (1, "beta", &alpha.api)] {
        let node = site.active(api, index, "agent_ilo", owner).await;
        site.assert_deployed(index);
        assert_eq!(api.node(&node).await["conductor"], owner);
        let events = api.events(&node).await;
        let moves = events.iter().filter(|event| event["kind"] == "provision-state");
        for event in moves {
            assert_eq!(event["conductor"], owner, "{event}");
        }
    }
    // Both say the same of both.
    for node in ["n0", "n1"] {
        let [a, b] = [alpha.api.node(node).await, beta.api.node(node).await];
        assert_eq!(a["provision_updated_at"], b["provision_updated_at"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conductor_that_was_killed_joins_again_under_its_name_at_once_and_serves_what_it_served() {
    const LEASE_S: u64 = 60;
    let site = Site::new(1).await;
    let mut settings = site.settings("alpha");
    settings["conductor"]["lease-s"] = LEASE_S.into();
    let mut alpha = site.start_with(&settings).await;
    site.waiting(&alpha.api, 0, "alpha").await;
    let url = site.inserted(0, Device::Floppy).expect("a floppy");
    let floppy = fetch(&url).await;

    let killed = Instant::now();
    alpha.kill();
    let again = site.start_with(&settings).await;
    assert!(fetch(&url).await == floppy, "the floppy has other bytes");
    assert!(
        killed.elapsed().as_secs() < LEASE_S / 2,
        "it waited for the lease of the dead"
    );
    let log = again.log();
    assert!(log.contains("ready"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conductor_that_was_killed_alone_goes_on_with_its_node_when_it_is_back() {
    let site = Site::new(1).await;
    let mut alpha = site.start("alpha").await;
    let node = site.waiting(&alpha.api, 0, "alpha").await;
    let before = site.done_to(0).len();
    alpha.kill();
    let alpha = site.start("alpha").await;
    alpha.api.taken_over(&node, "alpha").await;
    assert_eq!(
        site.done_to(0).split_off(before),
        [""; 0],
        "its URLs live again, so nothing has to change"
    );
    site.sim.hold_agent(0, false).expect("such a server");
    alpha.api.reaches(&node, "active").await;
    site.assert_deployed(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_lives_and_a_site_that_differs_are_refused_with_what_to_do() {
    let site = Site::new(1).await;
    let mut alpha = site.start("alpha").await;

    let mut twin = site.settings("beta");
    twin["conductor"]["name"] = "alpha".into();
    let said = site.refuses_to_start(&twin).await;
    assert_says(&said, &["alpha", "[conductor] name"]);

    let mut stranger = site.settings("beta");
    stranger["agent"]["urls"] = serde_json::json!(["http://127.0.0.1:9999"]);
    let said = site.refuses_to_start(&stranger).await;
    assert_says(&said, &["urls", "http://127.0.0.1:9999", &site.agent_url("alpha")]);

    // Neither has done any harm.
    alpha.assert_alive();
    let node = site.active(&alpha.api, 0, "agent_ilo", "alpha").await;
    assert_eq!(alpha.api.node(&node).await["conductor"], "alpha");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conductor_that_was_frozen_past_its_lease_touches_nothing_when_it_thaws_and_joins_again() {
    let site = Site::new(1).await;
    let mut alpha = site.start("alpha").await;
    let beta = site.start("beta").await;
    let api = &beta.api;
    let node = site.waiting(api, 0, "alpha").await;
    alpha.freeze();
    api.taken_over(&node, "beta").await;
    let media = site.inserted(0, Device::Floppy).expect("a floppy");
    let before = site.done_to(0).len();
    // The agent calls in to alpha's address too, once it lives again.
    alpha.thaw();
    site.sim.hold_agent(0, false).expect("such a server");
    api.reaches(&node, "active").await;
    site.assert_deployed(0);
    assert!(media.starts_with(&site.images_url("beta")), "{media}");
    let done = site.done_to(0).split_off(before);
    assert_eq!(
        done,
        ["eject cd", "eject floppy", "boot Hdd Continuous", "power On"],
        "each once"
    );
    assert_eq!(site.images.gets("disk.img"), 1);
    wait::until("alpha has joined again", async || {
        let conductors = api.get("/farrier/v1/conductors").await;
        let alive = conductors["conductors"]
            .as_array()?
            .iter()
            .filter(|conductor| conductor["alive"] == true);
        (alive.count() == 2).then_some(())
    })
    .await;
    alpha.assert_alive();
    let events = api.events(&node).await;
    let late = events
        .iter()
        .skip_while(|event| event["kind"] != "take-over")
        .filter(|event| event["conductor"] == "alpha");
    let moves: Vec<_> = late.filter(|event| event["kind"] == "provision-state").collect();
    assert!(moves.is_empty(), "{moves:?}");
}
