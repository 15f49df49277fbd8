//! A conductor dies, another goes on.

use std::time::Duration;

use conductor::ErrorClass;
use model::take_over::PlanStep;
use model::{ArtefactKind, Driver, Fault, NodeId, PowerAction, PowerState, ProvisionState as S, Verb};
use tokio::task::JoinSet;

use crate::site::Site;
use crate::world::Published;

/// Kills conductor a before and after each effect of a deployment, lets b finish, and looks at what was done twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_goes_on_wherever_its_conductor_dies() {
    let mut cases = JoinSet::new();
    for effect in [
        "prepare-ramdisk",
        "power-on",
        "agent deploy.get_deploy_steps",
        "agent standby.prepare_image",
        "agent standby.sync",
        "agent standby.power_off",
        "clean-up-ramdisk",
        "prepare-instance",
    ] {
        for after in [false, true] {
            cases.spawn(die_at(effect, after));
        }
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

async fn die_at(effect: &str, after: bool) {
    let case = format!("killed {} {effect}", if after { "after" } else { "before" });
    let site = Site::new();
    let a = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.hang_at(effect, after);
    site.ask(&id, Verb::Active).await;
    let reached = tokio::time::timeout(Duration::from_secs(20), site.world.reached.notified());
    reached.await.unwrap_or_else(|_| panic!("{case}: never got there"));
    let token = site.token(&id).await;
    site.kill("a", a);

    let _b = site.start(Site::config("b")).await;
    site.reach(&id, S::Active).await;
    // The agent remembers: what it was told is not told again, and what never reached it is.
    assert_eq!(site.world.count(&id, "image"), 1, "{case}");
    let floppy = site.world.lock(&id).floppy_token.clone();
    assert!(token.is_some() && floppy == token, "{case}: the token changed");
    assert_eq!(site.world.count(&id, "heartbeat refused"), 0, "{case}");
    let told = site.told(&id, "take-over").await;
    assert!(
        told.iter().any(|message| message.contains("b took over from a")),
        "{case}: {told:?}"
    );
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn cleaning_goes_on_and_no_clean_step_runs_twice() {
    let mut cases = JoinSet::new();
    for after in [false, true] {
        cases.spawn(async move {
            let site = Site::new();
            let config = |name| {
                let mut config = Site::config(name);
                config.automated_clean = true;
                config
            };
            let a = site.start(config("a")).await;
            let id = site.node(S::Manageable, Driver::AgentIlo).await;
            site.world.hang_at("agent clean.execute_clean_step", after);
            site.ask(&id, Verb::Provide).await;
            site.world.reached.notified().await;
            site.kill("a", a);
            let _b = site.start(config("b")).await;
            let record = site.reach(&id, S::Available).await;
            assert_eq!(record.node.last_error, None);
            assert_eq!(site.world.count(&id, "clean step wipe"), 1);
            assert_eq!(site.world.count(&id, "clean step erase"), 1);
            site.world.assert_no_violations();
        });
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_teardown_goes_on() {
    let site = Site::new();
    let a = site.start(Site::config("a")).await;
    let id = site.node(S::Active, Driver::IscsiIlo).await;
    site.world.hang_at("clean-up-instance", true);
    site.ask(&id, Verb::Deleted).await;
    site.world.reached.notified().await;
    site.kill("a", a);
    let _b = site.start(Site::config("b")).await;
    site.reach(&id, S::Available).await;
    assert!(site.world.lock(&id).published.is_empty());
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_node_gets_its_floppy_back_with_the_same_token() {
    let site = Site::new();
    let a = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.lock(&id).mute = true;
    site.ask(&id, Verb::Active).await;
    let before = site.reach(&id, S::DeployWait).await;
    site.kill("a", a);
    let done = site.world.notes(&id).len();

    let _b = site.start(Site::config("b")).await;
    let told = site.hear(&id, "take-over", "b took over from a").await;
    assert!(
        told.contains("regenerate floppy") && told.contains("wait for the agent"),
        "{told}"
    );
    let record = site.record(&id).await;
    assert_eq!(record.node.agent.token, before.node.agent.token);
    assert_eq!(record.node.provision_state, S::DeployWait);
    assert!(record.term > before.term && record.owner.unwrap().as_str() == "b");
    let notes = site.world.notes(&id);
    let expected = [
        "regenerate",
        "regenerated floppy",
        "regenerate",
        "regenerated boot-iso",
        "reinsert floppy",
        "reinsert boot-iso",
    ];
    assert_eq!(notes[done..], expected);
    let floppy = site.world.lock(&id).published["floppy"].clone();
    assert!(floppy.in_slot && !floppy.dead && floppy.by == "b");
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_conductor_published_and_never_recorded_is_taken_back_whatever_becomes_of_the_plan() {
    let site = Site::new();
    let a = site.start(Site::config("a")).await;
    let mut ids = Vec::new();
    for (state, driver) in [(S::Available, Driver::AgentIlo), (S::Active, Driver::IscsiIlo)] {
        let id = site.node(state, driver).await;
        ids.push(id);
    }
    let waiting = site.node(S::Available, Driver::AgentIlo).await;
    site.world.lock(&waiting).mute = true;
    site.ask(&waiting, Verb::Active).await;
    site.reach(&waiting, S::DeployWait).await;
    ids.push(waiting);
    for id in &ids {
        site.see(id, "an owner", |_| true).await;
        site.world.lock(id).unrecorded.push("an orphan".to_owned());
    }
    site.world.fail("plan", ErrorClass::Fail, 9);
    site.kill("a", a);
    let _b = site.start(Site::config("b")).await;
    for id in &ids {
        let gone = || async { site.world.lock(id).unrecorded.is_empty().then_some(()) };
        crate::world::until("the orphan is gone", gone).await;
    }
    site.world.assert_no_violations();
}

/// An active node of a, whose boot ISO dies with it.
async fn active_node(site: &Site, in_slot: bool) -> (NodeId, conductor::Running) {
    let a = site.start(Site::config("a")).await;
    let id = site.node(S::Active, Driver::IscsiIlo).await;
    {
        let mut server = site.world.lock(&id);
        server.power = PowerState::On;
        let by = "a".to_owned();
        server.published.insert(
            "boot-iso",
            Published {
                by,
                in_slot,
                dead: false,
            },
        );
    }
    crate::world::until("a has it", || async { site.record(&id).await.owner }).await;
    (id, a)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_node_is_served_again_and_otherwise_left_alone() {
    let site = Site::new();
    let (id, a) = active_node(&site, true).await;
    site.kill("a", a);
    let _b = site.start(Site::config("b")).await;
    site.hear(&id, "take-over", "b took over from a: regenerate boot-iso")
        .await;
    // No power, no eject, no insert: the bytes are back and that is all.
    assert_eq!(site.world.notes(&id), ["regenerate", "regenerated boot-iso"]);
    let record = site.record(&id).await;
    assert_eq!((record.node.provision_state, record.node.last_error), (S::Active, None));
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_media_of_an_active_node_are_put_back_at_its_next_reset() {
    let site = Site::new();
    let (id, a) = active_node(&site, true).await;
    site.kill("a", a);
    *site.world.plan.lock().unwrap() = Some(vec![PlanStep::DeferReinsert(ArtefactKind::BootIso)]);
    let _b = site.start(Site::config("b")).await;
    site.hear(&id, "take-over", "at the next reset").await;
    site.hear(&id, "media-stale", "boot-iso").await;
    let record = site.record(&id).await;
    assert_eq!(record.node.fault, Some(Fault::MediaStale));
    assert!(!record.node.maintenance && site.world.notes(&id).is_empty());

    site.ask_power(&id, PowerAction::ForceRestart).await;
    let record = site.see(&id, "the reset", |node| node.wish.is_none()).await;
    assert_eq!((record.node.fault, record.node.last_error), (None, None));
    assert_eq!(site.world.notes(&id), ["power-off", "reinsert boot-iso", "power-on"]);
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_would_touch_an_active_node_is_refused_whole() {
    let site = Site::new();
    let (id, a) = active_node(&site, true).await;
    site.kill("a", a);
    let plan = vec![
        PlanStep::Regenerate(ArtefactKind::BootIso),
        PlanStep::Reinsert(ArtefactKind::BootIso),
    ];
    *site.world.plan.lock().unwrap() = Some(plan);
    let _b = site.start(Site::config("b")).await;
    let told = site.hear(&id, "take-over", "refused").await;
    assert!(
        told.contains("the node is active and the slot holds something"),
        "{told}"
    );
    let record = site.see(&id, "the reason", |node| node.last_error.is_some()).await;
    assert_eq!(record.node.provision_state, S::Active);
    assert!(site.world.notes(&id).is_empty());
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_slot_of_an_active_node_may_be_filled() {
    let site = Site::new();
    let (id, a) = active_node(&site, false).await;
    site.kill("a", a);
    *site.world.plan.lock().unwrap() = Some(vec![PlanStep::Reinsert(ArtefactKind::BootIso)]);
    let _b = site.start(Site::config("b")).await;
    site.hear(&id, "take-over", "re-insert boot-iso").await;
    assert_eq!(site.world.notes(&id), ["reinsert boot-iso"]);
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_take_over_plugin_that_fails_leaves_active_nodes_alone_and_fails_half_done_work() {
    let site = Site::new();
    let (active, a) = active_node(&site, true).await;
    let busy = site.node(S::Available, Driver::AgentIlo).await;
    site.world.hang_at("prepare-ramdisk", true);
    site.ask(&busy, Verb::Active).await;
    site.world.reached.notified().await;
    site.kill("a", a);
    site.world.fail("plan", ErrorClass::Fail, 2);
    let _b = site.start(Site::config("b")).await;
    site.hear(&active, "take-over", "did not work out: plan went wrong")
        .await;
    let record = site.reach(&busy, S::DeployFailed).await;
    assert!(record.node.last_error.unwrap().contains("plan went wrong"));
    assert_eq!(site.record(&active).await.node.provision_state, S::Active);
    assert!(site.world.notes(&active).is_empty());
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_power_request_is_dropped_not_repeated() {
    let site = Site::new();
    let a = site.start(Site::config("a")).await;
    let id = site.node(S::Active, Driver::AgentIlo).await;
    site.world.lock(&id).power = PowerState::On;
    site.world.hang_at("power-off", true);
    site.ask_power(&id, PowerAction::ForceRestart).await;
    site.world.reached.notified().await;
    site.kill("a", a);
    let _b = site.start(Site::config("b")).await;
    let record = site
        .see(&id, "the request is dropped", |node| node.wish.is_none())
        .await;
    assert!(record.node.last_error.unwrap().contains("`power` was interrupted"));
    assert_eq!((record.node.step, record.node.target_power_state), (None, None));
    assert_eq!(site.world.notes(&id), ["power-off"]);
    site.world.assert_no_violations();
}
