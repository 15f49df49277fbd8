//! Every hand fails once: the right failed state, the reason on the record, media out, server off.

use std::time::Duration;

use conductor::ErrorClass;
use model::{Driver, Fault, NodeId, PowerState, ProvisionState as S, Verb, Wish};

use crate::site::Site;

pub(crate) async fn assert_cleaned_up(site: &Site, id: &NodeId, reason: &str) {
    let node = site.record(id).await.node;
    let error = node.last_error.unwrap();
    assert!(error.contains(reason), "{error}");
    assert_eq!((node.step, node.deadline, node.agent), (None, None, Default::default()));
    let server = site.world.lock(id);
    assert_eq!(server.power, PowerState::Off);
    assert!(
        !server.published.contains_key("floppy"),
        "the floppy is still published"
    );
    assert!(
        server.published.values().all(|published| !published.in_slot),
        "media are still in"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_fails_at_any_step_is_cleaned_up_after() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    for (call, times) in [("prepare-ramdisk", 1), ("power-on", 1), ("prepare-instance", 1)] {
        let id = site.node(S::Available, Driver::AgentIlo).await;
        site.world.fail(call, ErrorClass::Fail, times);
        site.ask(&id, Verb::Active).await;
        let record = site.reach(&id, S::DeployFailed).await;
        assert_eq!(record.node.target_provision_state, Some(S::Active));
        assert!(!record.node.maintenance);
        assert_cleaned_up(&site, &id, &format!("{call} went wrong")).await;
    }
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_hand_is_asked_again_until_it_takes_the_call() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    for call in [
        "prepare-ramdisk",
        "power-on",
        "clean-up-ramdisk",
        "prepare-instance",
        "power-state",
    ] {
        site.world.fail(call, ErrorClass::Retry(None), 3);
    }
    site.ask(&id, Verb::Active).await;
    site.reach(&id, S::Active).await;
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_that_stays_busy_fails_the_deployment_at_its_deadline_with_the_last_problem() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.timeouts.prepare = Duration::from_secs(2);
    let _running = site.start(config).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.fail("prepare-ramdisk", ErrorClass::Retry(None), 1000);
    site.ask(&id, Verb::Active).await;
    site.reach(&id, S::DeployFailed).await;
    assert_cleaned_up(
        &site,
        &id,
        "`prepare-ramdisk` was not done in time; last: prepare-ramdisk went wrong",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_cleaned_up_is_named_and_does_not_keep_the_rest_from_being_so() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.fail("prepare-instance", ErrorClass::Fail, 1);
    site.world.fail("clean-up-ramdisk", ErrorClass::Retry(None), 3);
    site.ask(&id, Verb::Active).await;
    site.reach(&id, S::DeployFailed).await;
    assert_cleaned_up(&site, &id, "prepare-instance went wrong").await;

    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.fail("prepare-ramdisk", ErrorClass::Fail, 1);
    site.world.fail("clean-up-ramdisk", ErrorClass::Fail, 1);
    site.ask(&id, Verb::Active).await;
    let record = site.reach(&id, S::DeployFailed).await;
    let error = record.node.last_error.unwrap();
    assert_eq!(
        error,
        "prepare-ramdisk went wrong; moreover clean-up-ramdisk went wrong"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_that_cannot_work_fails_before_anything_is_touched() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.edit(&id, |node| node.instance_info.clear()).await;
    site.ask(&id, Verb::Active).await;
    let record = site.reach(&id, S::DeployFailed).await;
    let error = record.node.last_error.unwrap();
    assert!(error.contains("instance_info/image_source is not set"), "{error}");
    assert!(site.world.notes(&id).is_empty());

    // An active node keeps its instance.
    let id = site.node(S::Active, Driver::AgentIlo).await;
    site.edit(&id, |node| node.instance_info.clear()).await;
    site.ask(&id, Verb::Rebuild).await;
    let record = site.see(&id, "the wish is gone", |node| node.wish.is_none()).await;
    assert_eq!(record.node.provision_state, S::Active);
    assert!(record.node.last_error.is_some() && site.world.notes(&id).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_its_firmware_could_not_boot_is_refused_before_anything_is_touched() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.automated_clean = true;
    let _running = site.start(config).await;
    for (state, driver, verb, image, end) in [
        (S::Manageable, Driver::AgentIlo, Verb::Provide, "Ramdisk", S::Manageable),
        (S::Available, Driver::AgentIlo, Verb::Active, "Ramdisk", S::DeployFailed),
        (
            S::Available,
            Driver::IscsiIlo,
            Verb::Active,
            "Instance",
            S::DeployFailed,
        ),
        (S::Active, Driver::AgentIlo, Verb::Rebuild, "Ramdisk", S::Active),
    ] {
        let id = site.node(state, driver).await;
        let call = format!("check-boot {image}");
        site.world.fail(&call, ErrorClass::Fail, 1);
        site.ask(&id, verb).await;
        let record = site
            .see(&id, "the refusal", |node| {
                node.wish.is_none() && node.last_error.is_some()
            })
            .await;
        assert_eq!(record.node.provision_state, end, "{verb}");
        assert!(record.node.last_error.unwrap().contains(&call));
        assert_eq!(site.world.notes(&id), [""; 0], "{verb}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_the_ramdisk_refuses_fails_the_deployment_in_the_ramdisks_words() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.lock(&id).image_fails = true;
    site.ask(&id, Verb::Active).await;
    site.reach(&id, S::DeployFailed).await;
    assert_cleaned_up(&site, &id, "ImageChecksumError: the digest is another one").await;
    site.world.assert_no_violations();

    // And after the cause is mended it works, from the failed state.
    site.world.lock(&id).image_fails = false;
    site.ask(&id, Verb::Active).await;
    let record = site.reach(&id, S::Active).await;
    assert_eq!(record.node.last_error, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ramdisk_that_never_calls_back_fails_the_wait() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.timeouts.callback = Duration::from_millis(300);
    config.timeouts.clean_callback = Duration::from_millis(300);
    config.automated_clean = true;
    let _running = site.start(config).await;

    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.lock(&id).mute = true;
    site.ask(&id, Verb::Active).await;
    let waiting = site.reach(&id, S::DeployWait).await;
    assert!(waiting.node.deadline.is_some());
    site.reach(&id, S::DeployFailed).await;
    // How far it read its boot ISO tells where to look.
    assert_cleaned_up(&site, &id, "did not call back in time (30 % of its boot ISO was read)").await;

    let id = site.node(S::Manageable, Driver::AgentIlo).await;
    site.world.lock(&id).mute = true;
    site.ask(&id, Verb::Provide).await;
    let record = site.reach(&id, S::CleanFailed).await;
    assert!(record.node.maintenance);
    assert_eq!(record.node.fault, Some(Fault::CleanFailure));
    assert_cleaned_up(&site, &id, "did not call back in time").await;
    site.ask(&id, Verb::Manage).await;
    let record = site.reach(&id, S::Manageable).await;
    assert_eq!((record.node.fault, record.node.last_error), (None, None));
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_falls_silent_fails_the_deployment() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.timeouts.agent_silence = Duration::from_millis(600);
    let _running = site.start(config).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    // The ramdisk dies while it takes the image.
    site.world.hang_at("agent standby.prepare_image", false);
    site.ask(&id, Verb::Active).await;
    site.world.reached.notified().await;
    site.world.lose_ramdisk(&id);
    site.reach(&id, S::DeployFailed).await;
    assert_cleaned_up(&site, &id, "has not been heard for").await;
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ramdisk_that_does_not_power_off_is_powered_off() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.lock(&id).ignores_power_off = true;
    site.ask(&id, Verb::Active).await;
    site.reach(&id, S::Active).await;
    let notes = site.world.notes(&id);
    let asked = notes.iter().position(|note| note == "agent standby.power_off").unwrap();
    assert_eq!(notes[asked + 1], "power-off");
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_can_be_aborted_and_torn_down() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.automated_clean = true;
    let _running = site.start(config).await;
    for (first, verb, wait, asked, end) in [
        (S::Available, Verb::Active, S::DeployWait, Verb::Abort, S::DeployFailed),
        (S::Manageable, Verb::Provide, S::CleanWait, Verb::Abort, S::CleanFailed),
    ] {
        let id = site.node(first, Driver::AgentIlo).await;
        site.world.lock(&id).mute = true;
        site.ask(&id, verb).await;
        site.reach(&id, wait).await;
        site.ask(&id, asked).await;
        let record = site.reach(&id, end).await;
        assert!(!record.node.maintenance, "an abort is no fault");
        assert_cleaned_up(&site, &id, "aborted by an operator").await;
    }
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.lock(&id).mute = true;
    site.ask(&id, Verb::Active).await;
    site.reach(&id, S::DeployWait).await;
    site.world.lock(&id).mute = false;
    site.ask(&id, Verb::Deleted).await;
    site.reach(&id, S::Available).await;
    assert_eq!(site.world.count(&id, "image"), 0);
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_teardown_or_a_check_that_fails_says_so_and_can_be_asked_again() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Active, Driver::AgentIlo).await;
    site.world.fail("clean-up-instance", ErrorClass::Fail, 1);
    site.ask(&id, Verb::Deleted).await;
    let record = site.reach(&id, S::Error).await;
    assert!(record.node.last_error.unwrap().contains("clean-up-instance went wrong"));
    assert!(!record.node.instance_info.is_empty());
    site.ask(&id, Verb::Deleted).await;
    site.reach(&id, S::Available).await;

    let id = site.node(S::Enroll, Driver::AgentIlo).await;
    site.world.fail("identity", ErrorClass::Fail, 1);
    site.ask(&id, Verb::Manage).await;
    site.see(&id, "the failure", |node| node.last_error.is_some()).await;
    let record = site.reach(&id, S::Enroll).await;
    assert!(record.node.last_error.unwrap().contains("identity went wrong"));
    site.ask(&id, Verb::Manage).await;
    site.reach(&id, S::Manageable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wishes_that_do_not_fit_are_refused_with_what_would() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.edit(&id, |node| {
        node.wish = Some(Wish::BootIntoIso {
            url: "http://h/i.iso".to_owned(),
        });
    })
    .await;
    let record = site.see(&id, "the refusal", |node| node.wish.is_none()).await;
    assert!(record.node.last_error.unwrap().contains("must be manageable"));
    site.ask(&id, Verb::Deleted).await;
    let record = site.see(&id, "the refusal", |node| node.wish.is_none()).await;
    assert!(record.node.last_error.unwrap().contains("possible are: manage, active"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_in_maintenance_and_the_wait_goes_on_after_it() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.edit(&id, |node| node.maintenance = true).await;
    site.ask(&id, Verb::Active).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(site.world.notes(&id).is_empty());
    site.edit(&id, |node| node.maintenance = false).await;
    site.reach(&id, S::Active).await;
}
