//! Membership: who has which node, what a lost lease stops, how a conductor leaves.

use std::time::{Duration, Instant};

use conductor::{Conductor, Hands, LeaseClock, StartError};
use model::{Driver, ProvisionState as S, Verb};

use crate::agent_sim;
use crate::site::Site;
use crate::world::until;

fn hands(site: &Site, store: std::sync::Arc<dyn nodes::Store>) -> Hands {
    Hands {
        store,
        policies: site.world.clone(),
        power: site.world.clone(),
        publications: site.world.clone(),
        agents: agent_sim::policy(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_gets_its_share_of_the_settled_nodes_and_gives_it_back_when_it_leaves() {
    let site = Site::new();
    let _a = site.start(Site::config("a")).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(site.node(S::Available, Driver::AgentIlo).await);
    }
    let owners = || async {
        let mut owners = Vec::new();
        for id in &ids {
            owners.push(site.record(id).await.owner?.to_string());
        }
        Some(owners)
    };
    let all_of_a = || async { owners().await.filter(|owners| owners.iter().all(|owner| owner == "a")) };
    until("a has all", all_of_a).await;
    let mut b = site.start(Site::config("b")).await;
    let names = ["a".parse().unwrap(), "b".parse().unwrap()];
    until("each has its own", || async {
        let owners = owners().await?;
        let home = |id| conductor::home(id, &names).unwrap().to_string();
        let homes: Vec<_> = ids.iter().map(home).collect();
        (owners == homes).then_some(())
    })
    .await;
    b.drain(Duration::from_secs(5)).await;
    until("a has all again", all_of_a).await;
    // Given back in order: nothing to take over.
    for id in &ids {
        assert!(site.told(id, "take-over").await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drained_conductor_ends_its_step_and_another_goes_on_without_a_take_over() {
    let site = Site::new();
    let mut a = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.ask(&id, Verb::Active).await;
    site.see(&id, "the image is being written", |node| {
        node.step.as_deref() == Some("write-image")
    })
    .await;
    a.drain(Duration::from_secs(5)).await;
    let _b = site.start(Site::config("b")).await;
    site.reach(&id, S::Active).await;
    assert_eq!(site.world.count(&id, "image"), 1);
    assert!(site.told(&id, "take-over").await.is_empty());
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_stops_everything_and_the_conductor_joins_again() {
    let site = Site::new();
    let store = site.store();
    let lease = LeaseClock::new();
    let _a = Conductor::start(Site::config("a"), hands(&site, store.clone()), lease.clone())
        .await
        .unwrap();
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.hang_at("prepare-ramdisk", true);
    site.ask(&id, Verb::Active).await;
    site.world.reached.notified().await;
    assert!(lease.window().is_some());
    let before = site.record(&id).await.term;
    // As if the store had ended the lease.
    store.leave(&"a".parse().unwrap()).await.unwrap();
    // The hanging call is cut off, and the work goes on under a new term.
    let record = site.reach(&id, S::Active).await;
    assert!(record.term > before && lease.window().is_some());
    assert_eq!(site.world.count(&id, "image"), 1);
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_past_the_lease_closes_the_window_and_stops_the_work() {
    let site = Site::new();
    let lease = LeaseClock::new();
    let _a = Conductor::start(Site::config("a"), hands(&site, site.store()), lease.clone())
        .await
        .unwrap();
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.hang_at("prepare-ramdisk", true);
    site.ask(&id, Verb::Active).await;
    site.world.reached.notified().await;

    // Somebody holds the write lock of the file, as a backup that went wrong does.
    let lock = site.lock_store();
    let began = Instant::now();
    until("the window closes", || async { lease.window().is_none().then_some(()) }).await;
    assert!(began.elapsed() < Site::config("a").lease + Duration::from_millis(500));
    let notes = site.world.notes(&id);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(site.world.notes(&id), notes, "something was done without a lease");
    assert_eq!(lease.window(), None);
    drop(lock);
    site.reach(&id, S::Active).await;
    assert!(lease.window().is_some());
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conductor_that_dies_in_the_middle_of_a_keep_alive_keeps_no_lease() {
    let site = Site::new();
    let a = site.start(Site::config("a")).await;
    let lock = site.lock_store();
    // By now a keep-alive is under way.
    tokio::time::sleep(Site::config("a").lease / 2).await;
    site.kill("a", a);
    drop(lock);
    until("its lease runs out", || async {
        let conductors = site.world.store.conductors().await.unwrap();
        conductors.iter().all(|conductor| !conductor.alive).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_another_group_are_left_alone() {
    let site = Site::new();
    let _a = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    let other = site.node(S::Available, Driver::AgentIlo).await;
    site.edit(&other, |node| node.conductor_group = "rack-7".to_owned())
        .await;
    let mut config = Site::config("c");
    config.group = "rack-7".to_owned();
    let _c = site.start(config).await;
    let owner = |id| {
        let site = &site;
        move || async move { site.record(&id).await.owner.map(|owner| owner.to_string()) }
    };
    assert_eq!(until("an owner", owner(id)).await, "a");
    until("its own group's", || async {
        (owner(other)().await? == "c").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conductor_that_could_not_work_does_not_start() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.longest_request = config.lease;
    let started = Conductor::start(config, hands(&site, site.store()), LeaseClock::new()).await;
    assert!(matches!(
        started.err(),
        Some(StartError::Setting { setting: "lease-s", .. })
    ));
    let _a = site.start(Site::config("a")).await;
    let mut config = Site::config("b");
    config.agent_urls = vec!["http://elsewhere".to_owned()];
    let started = Conductor::start(config, hands(&site, site.store()), LeaseClock::new()).await;
    let error = started.err().unwrap();
    assert!(matches!(error, StartError::Join { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_is_faster_than_the_poll_of_the_store() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.store_poll = Duration::from_secs(20);
    let a = site.start(config).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    a.wake(&id);
    until("the node is claimed", || async { site.record(&id).await.owner }).await;
    site.ask(&id, Verb::Manage).await;
    a.waker().wake(&id);
    let began = Instant::now();
    site.reach(&id, S::Manageable).await;
    assert!(began.elapsed() < Duration::from_secs(10));
}
