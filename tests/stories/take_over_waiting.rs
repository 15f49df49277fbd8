//! A conductor dies while a server waits for its ramdisk: the floppy is there again, the same bytes with the same token.

use std::time::Duration;

use serde_json::json;
use sim::Device;

use crate::client::{Api, assert_says};
use crate::site::{Site, fetch, last_part, text, token_in};

/// Lets the agent call in, and waits until its node is deployed.
async fn let_call_in(site: &Site, api: &Api, index: usize, node: &str) {
    site.sim.hold_agent(index, false).expect("such a server");
    api.reaches(node, "active").await;
    site.assert_deployed(index);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_successor_of_a_killed_conductor_serves_the_same_floppy_and_the_waiting_agent_calls_in_to_it() {
    let site = Site::new(1).await;
    let mut alpha = site.start("alpha").await;
    let beta = site.start("beta").await;
    let api = &beta.api;
    let node = site.waiting(api, 0, "alpha").await;
    assert_eq!(api.node(&node).await["conductor"], "alpha");

    let urls = [Device::Floppy, Device::Cd].map(|device| site.inserted(0, device).expect("a medium"));
    assert!(
        urls.iter().all(|url| url.starts_with(&site.images_url("alpha"))),
        "{urls:?}"
    );
    let [floppy, iso] = [fetch(&urls[0]).await, fetch(&urls[1]).await];
    let token = token_in(&floppy);
    let published = api.artefacts(&node).await;
    let before = site.done_to(0).len();

    alpha.kill();
    let plan = api.taken_over(&node, "beta").await;
    assert_says(
        &plan,
        &[
            "from alpha",
            "regenerate floppy",
            "regenerate boot-iso",
            "wait for the agent",
        ],
    );
    let moved = ["eject floppy", "insert floppy", "eject cd", "insert cd"];
    assert_eq!(
        site.done_to(0).split_off(before),
        moved,
        "nothing but the media that nobody serves"
    );
    assert_eq!(api.artefacts(&node).await, published, "the same bytes by their digests");
    let now = [Device::Floppy, Device::Cd].map(|device| site.inserted(0, device).expect("a medium"));
    for (now, then) in now.iter().zip(&urls) {
        assert!(now.starts_with(&site.images_url("beta")), "{now}");
        assert_eq!(last_part(now), last_part(then), "under the same name");
    }
    let again = fetch(&now[0]).await;
    assert!(again == floppy, "the floppy has other bytes");
    assert_eq!(token_in(&again), token);
    assert!(fetch(&now[1]).await == iso, "the boot ISO has other bytes");
    assert_eq!(api.node(&node).await["provision_state"], "wait call-back");

    // It still has the token that it read from the floppy that alpha served.
    let floppies = site.sim.media_reads(0, Device::Floppy).expect("such a server");
    assert_eq!(
        floppies.iter().filter(|reads| reads.bytes > 0).count(),
        1,
        "{floppies:?}"
    );
    let_call_in(&site, api, 0, &node).await;
    assert_eq!(site.images.gets("disk.img"), 1);
    assert_eq!(api.artefacts(&node).await, [""; 0]);
    assert_eq!(
        [site.inserted(0, Device::Floppy), site.inserted(0, Device::Cd)],
        [None, None]
    );
    let conductors: Vec<_> = api.events(&node).await;
    let last = conductors.last().expect("events");
    assert_eq!(last["conductor"], "beta", "{last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_shared_web_root_serves_stays_where_it_is_and_what_was_lost_there_comes_back_under_the_same_url() {
    let site = Site::new(2).await;
    let root = site.path("web-root");
    std::fs::create_dir(&root).expect("a folder");
    let url = site.images.serve_folder(&root);
    let with_web_root = |name: &str| {
        let mut settings = site.settings(name);
        settings["backend"] = json!([{ "id": "httpd", "kind": "web-root", "root": text(&root), "url": url }]);
        settings
    };
    let mut alpha = site.start_with(&with_web_root("alpha")).await;
    let beta = site.start_with(&with_web_root("beta")).await;
    let api = &beta.api;
    let nodes = [site.waiting(api, 0, "alpha").await, site.waiting(api, 1, "alpha").await];
    let urls = [0, 1].map(|index| site.inserted(index, Device::Floppy).expect("a floppy"));
    assert!(
        urls.iter().all(|floppy| floppy.starts_with(&format!("{url}/"))),
        "{urls:?}"
    );
    let floppies = [fetch(&urls[0]).await, fetch(&urls[1]).await];
    let before = [site.done_to(0).len(), site.done_to(1).len()];

    alpha.kill();
    std::fs::remove_file(root.join(last_part(&urls[1]))).expect("the floppy of the second");
    for node in &nodes {
        api.taken_over(node, "beta").await;
    }
    assert_eq!(site.done_to(0).split_off(before[0]), [""; 0], "all is well there");
    assert_eq!(site.done_to(1).split_off(before[1]), ["eject floppy", "insert floppy"]);
    for index in [0, 1] {
        assert_eq!(
            site.inserted(index, Device::Floppy).as_ref(),
            Some(&urls[index]),
            "the same URL"
        );
        assert!(
            fetch(&urls[index]).await == floppies[index],
            "floppy {index} has other bytes"
        );
        let_call_in(&site, api, index, &nodes[index]).await;
    }
    let left: Vec<_> = std::fs::read_dir(&root).expect("the folder").flatten().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_has_not_read_its_floppy_when_its_conductor_dies_reads_it_from_the_successor() {
    // Longer in POST than the take-over takes.
    let site = Site::with(1, |config| config.timing.post = Duration::from_secs(9)).await;
    let mut alpha = site.start("alpha").await;
    let beta = site.start("beta").await;
    let api = &beta.api;
    let node = site.available(api, 0, "agent_ilo", "alpha").await;
    api.bring(&node, "active", "wait call-back").await;
    alpha.kill();
    api.taken_over(&node, "beta").await;
    assert!(
        site.booted(0).is_none(),
        "it was too slow for this story: the server has booted already"
    );
    api.reaches(&node, "active").await;
    site.assert_deployed(0);
    for device in [Device::Floppy, Device::Cd] {
        let reads = site.sim.media_reads(0, device).expect("such a server");
        let read: Vec<_> = reads
            .iter()
            .filter(|reads| reads.bytes > 0)
            .map(|reads| &reads.url)
            .collect();
        assert_eq!(read.len(), 1, "{reads:?}");
        assert!(read[0].starts_with(&site.images_url("beta")), "{reads:?}");
    }
}
