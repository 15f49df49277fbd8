//! Servers that read nothing of what they were given to boot.

use std::time::Duration;

use model::{Driver, NodeId, ProvisionState as S, Verb};

use crate::failures::assert_cleaned_up;
use crate::site::Site;

/// Waits for the alarm in `wait call-back`, on a server whose firmware skips its virtual media at so many boots.
async fn blind(boots: u32, patience: Option<Duration>) -> (Site, conductor::Running, NodeId) {
    let site = Site::new();
    let mut config = Site::config("a");
    config.images_url = "http://10.1.0.1:6386".to_owned();
    config.timeouts.fetch_alarm = patience;
    config.timeouts.callback = Duration::from_secs(3);
    let running = site.start(config).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.lock(&id).blind = boots;
    site.ask(&id, Verb::Active).await;
    (site, running, id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_of_which_nothing_was_read_is_repeated_with_the_media_put_in_anew() {
    let (site, _running, id) = blind(1, Some(Duration::from_millis(200))).await;
    let told = site.hear(&id, "media-unread", "nothing of its boot ISO was read").await;
    assert!(told.contains("booted once more"), "{told}");
    site.see(&id, "the warning", |node| {
        let warned = node
            .last_error
            .as_ref()
            .is_some_and(|error| error.contains("boot was repeated"));
        warned && node.provision_state == S::DeployWait
    })
    .await;
    let record = site.reach(&id, S::Active).await;
    assert_eq!((record.node.last_error, record.node.boot_repeated), (None, false));
    let notes = site.world.notes(&id);
    let boots: Vec<_> = notes
        .iter()
        .filter(|note| !note.starts_with("agent") && !note.starts_with("image"))
        .collect();
    let expected = [
        "prepare-ramdisk",
        "power-on",
        "power-off",
        "prepare-ramdisk",
        "power-on",
        "clean-up-ramdisk",
        "prepare-instance",
        "power-on",
    ];
    assert_eq!(boots, expected, "{notes:#?}");
    let effects = site.world.store.effects(&id, 100).await.unwrap();
    let repeated = effects
        .iter()
        .filter(|effect| effect.action == "step.boot-ramdisk")
        .count();
    assert_eq!(repeated, 2, "both boots are journalled");
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_skips_its_media_again_is_not_booted_a_third_time_and_fails_with_the_wait() {
    let (site, _running, id) = blind(9, Some(Duration::from_millis(200))).await;
    site.reach(&id, S::DeployFailed).await;
    assert_cleaned_up(
        &site,
        &id,
        "did not call back in time (nothing of its boot ISO was read)",
    )
    .await;
    assert_eq!(site.world.count(&id, "power-on"), 2);
    assert_eq!(site.told(&id, "media-unread").await.len(), 1);
    assert!(!site.record(&id).await.node.boot_repeated);
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_repeated_where_the_site_does_not_want_it_or_where_another_conductor_may_have_been_read_from() {
    let (site, _running, id) = blind(9, None).await;
    site.reach(&id, S::DeployFailed).await;
    assert_eq!(site.world.count(&id, "power-on"), 1);

    let site = Site::new();
    let with_alarm = |name| {
        let mut config = Site::config(name);
        config.images_url = "http://virtual.example".to_owned();
        config.timeouts.fetch_alarm = Some(Duration::from_millis(100));
        config.timeouts.callback = Duration::from_secs(1);
        config
    };
    let _a = site.start(with_alarm("a")).await;
    let _b = site.start(with_alarm("b")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    site.world.lock(&id).blind = 9;
    site.ask(&id, Verb::Active).await;
    site.reach(&id, S::DeployFailed).await;
    assert_eq!(site.world.count(&id, "power-on"), 1);
    assert_eq!(site.told(&id, "media-unread").await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_boot_that_was_lost_because_no_conductor_lived_is_repeated_by_the_next_one() {
    let site = Site::new();
    let a = site.start(Site::config("a")).await;
    let id = site.node(S::Available, Driver::AgentIlo).await;
    // The server is powered on, and there is nobody that it could boot from.
    site.world.lock(&id).blind = 1;
    site.world.hang_at("power-on", true);
    site.ask(&id, Verb::Active).await;
    site.world.reached.notified().await;
    site.kill("a", a);
    let mut config = Site::config("b");
    config.images_url = "http://10.1.0.2:6386".to_owned();
    config.timeouts.fetch_alarm = Some(Duration::from_millis(300));
    let _b = site.start(config).await;
    site.reach(&id, S::Active).await;
    assert_eq!(site.told(&id, "media-unread").await.len(), 1);
    // The boot that was lost, the one that was repeated, and the instance's.
    assert_eq!(site.world.count(&id, "power-on"), 3);
    site.world.assert_no_violations();
}
