//! Work that does not get on: told of, and stopped by whoever asks for it.

use std::time::Duration;

use conductor::ErrorClass;
use model::{Driver, PowerState, ProvisionState as S, Verb};

use crate::failures::assert_cleaned_up;
use crate::site::Site;

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_that_stays_busy_is_told_of_on_the_record_until_it_takes_the_call() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.fail("prepare-ramdisk", ErrorClass::Retry(None), 5);
    site.world
        .fail("power-on", ErrorClass::Retry(Some(Duration::from_millis(300))), 1);
    site.ask(&id, Verb::Active).await;
    for reason in [
        "prepare-ramdisk: prepare-ramdisk went wrong",
        "boot-ramdisk: power-on went wrong",
    ] {
        let reason = format!("trying again: {reason}");
        site.see(&id, &reason, |node| node.last_error.as_ref() == Some(&reason))
            .await;
    }
    let record = site.reach(&id, S::DeployWait).await;
    assert_eq!(record.node.last_error, None);
    site.reach(&id, S::Active).await;
    let told = site.told(&id, "retry").await;
    let tries: Vec<_> = told.iter().filter_map(|message| message.split(':').next()).collect();
    let expected = [
        "prepare-ramdisk, try 1",
        "prepare-ramdisk, try 2",
        "prepare-ramdisk, try 4",
        "boot-ramdisk, try 1",
    ];
    assert_eq!(tries, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_tried_again_and_again_is_stopped_within_seconds_by_whoever_asks_for_it() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.automated_clean = true;
    config.retry = Duration::from_secs(30);
    let _running = site.start(config).await;
    for (first, asked, failing, stopped, end) in [
        (
            S::Available,
            Verb::Active,
            "prepare-ramdisk",
            Verb::Abort,
            S::DeployFailed,
        ),
        (
            S::Manageable,
            Verb::Provide,
            "prepare-ramdisk",
            Verb::Abort,
            S::CleanFailed,
        ),
        (S::Enroll, Verb::Manage, "identity", Verb::Abort, S::Enroll),
        (S::Active, Verb::Deleted, "clean-up-instance", Verb::Abort, S::Error),
        (
            S::Available,
            Verb::Active,
            "prepare-ramdisk",
            Verb::Deleted,
            S::Available,
        ),
    ] {
        let id = site.node(first, Driver::AgentIlo).await;
        site.world.fail(failing, ErrorClass::Retry(None), 1);
        site.ask(&id, asked).await;
        site.see(&id, "the reason", |node| {
            let error = node.last_error.as_ref();
            error.is_some_and(|error| error.starts_with("trying again: ") && error.contains(failing))
        })
        .await;
        let began = std::time::Instant::now();
        site.ask(&id, stopped).await;
        let record = site
            .see(&id, "its end", |node| {
                node.provision_state == end && node.wish.is_none()
            })
            .await;
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{asked} was stopped after {:?}",
            began.elapsed()
        );
        if stopped == Verb::Abort {
            let error = record.node.last_error.unwrap();
            assert_eq!(
                error,
                format!("aborted by an operator; last: {failing} went wrong"),
                "{asked}"
            );
        }
        assert!(!record.node.maintenance);
    }
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_hangs_is_dropped_when_it_is_called_off_and_its_floppy_withdrawn() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    for (effect, after) in [
        ("prepare-ramdisk", false),
        ("prepare-ramdisk", true),
        ("power-on", true),
    ] {
        let id = site.node(S::Available, Driver::AgentIlo).await;
        site.world.hang_at(effect, after);
        site.ask(&id, Verb::Active).await;
        site.world.reached.notified().await;
        site.ask(&id, Verb::Abort).await;
        site.reach(&id, S::DeployFailed).await;
        assert_cleaned_up(&site, &id, "aborted by an operator").await;
    }
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_cleaned_up_either_does_not_hold_up_an_abort() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.retry = Duration::from_secs(30);
    let _running = site.start(config).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.lock(&id).power = PowerState::On;
    site.world.fail("power-off", ErrorClass::Retry(None), 100);
    site.ask(&id, Verb::Active).await;
    site.see(&id, "the reason", |node| node.last_error.is_some()).await;
    site.ask(&id, Verb::Abort).await;
    let record = site.reach(&id, S::DeployFailed).await;
    let error = record.node.last_error.unwrap();
    assert_eq!(
        error,
        "aborted by an operator; last: power-off went wrong; moreover power-off went wrong"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_step_that_the_ramdisk_is_in_the_middle_of_ends_before_the_cleaning_does() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.automated_clean = true;
    let _running = site.start(config).await;
    let id = site.node(S::Manageable, Driver::AgentIlo).await;
    site.ask(&id, Verb::Provide).await;
    site.see(&id, "a clean step", |node| node.agent_command.is_some()).await;
    site.ask(&id, Verb::Abort).await;
    site.reach(&id, S::CleanFailed).await;
    assert_cleaned_up(&site, &id, "aborted by an operator").await;
    let notes = site.world.notes(&id);
    assert_eq!(site.world.count(&id, "clean step"), 1, "{notes:?}");
    site.world.assert_no_violations();
}
