//! What operators ask for directly, and reading the power.

use std::time::Duration;

use conductor::ErrorClass;
use model::{Driver, Fault, PowerAction, PowerState, ProvisionState as S, Wish};

use crate::site::Site;

#[tokio::test(flavor = "multi_thread")]
async fn power_is_changed_as_asked_also_on_an_active_node() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Active, Driver::AgentIlo).await;
    for (action, ends, done) in [
        (PowerAction::On, PowerState::On, &["power-on"][..]),
        (PowerAction::On, PowerState::On, &[]),
        (PowerAction::ForceRestart, PowerState::On, &["power-off", "power-on"]),
        (PowerAction::SoftRestart, PowerState::On, &["power-off", "power-on"]),
        (PowerAction::SoftOff, PowerState::Off, &["power-off"]),
        (PowerAction::Off, PowerState::Off, &[]),
        (PowerAction::ForceRestart, PowerState::On, &["power-on"]),
    ] {
        let before = site.world.notes(&id).len();
        site.ask_power(&id, action).await;
        let record = site.see(&id, "the request is done", |node| node.wish.is_none()).await;
        assert_eq!(record.node.power_state, Some(ends), "{action:?}");
        assert_eq!(
            (record.node.step, record.node.target_power_state, record.node.last_error),
            (None, None, None)
        );
        assert_eq!(site.world.notes(&id)[before..], *done, "{action:?}");
    }
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_request_that_fails_says_why_and_a_busy_bmc_is_asked_again() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Manageable, Driver::AgentIlo).await;
    site.world.fail("power-on", ErrorClass::Retry(None), 2);
    site.ask_power(&id, PowerAction::On).await;
    let record = site.see(&id, "the request is done", |node| node.wish.is_none()).await;
    assert_eq!(
        (record.node.power_state, record.node.last_error),
        (Some(PowerState::On), None)
    );
    site.world.fail("power-off", ErrorClass::Fail, 1);
    site.ask_power(&id, PowerAction::Off).await;
    let record = site.see(&id, "the request is done", |node| node.wish.is_none()).await;
    assert_eq!(record.node.last_error.as_deref(), Some("power-off went wrong"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_iso_is_booted_from_power_off() {
    let site = Site::new();
    let _running = site.start(Site::config("a")).await;
    let id = site.node(S::Manageable, Driver::AgentIlo).await;
    site.world.lock(&id).power = PowerState::On;
    site.edit(&id, |node| {
        let url = "http://h/i.iso".to_owned();
        node.wish = Some(Wish::BootIntoIso { url });
    })
    .await;
    let record = site.see(&id, "the ISO boots", |node| node.wish.is_none()).await;
    assert_eq!(record.node.last_error, None);
    assert_eq!(
        site.world.notes(&id),
        ["power-off", "boot-into-iso", "iso http://h/i.iso", "power-on"]
    );
    site.world.assert_no_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn power_is_adopted_and_never_forced() {
    let site = Site::new();
    let mut config = Site::config("a");
    config.power_sync = Duration::from_millis(50);
    let _running = site.start(config).await;
    let id = site.node(S::Active, Driver::AgentIlo).await;
    site.see(&id, "off is seen", |node| node.power_state == Some(PowerState::Off))
        .await;
    site.world.lock(&id).power = PowerState::On;
    site.see(&id, "on is seen", |node| node.power_state == Some(PowerState::On))
        .await;
    assert!(site.world.notes(&id).is_empty());

    site.world.fail("power-state", ErrorClass::Retry(None), 3);
    let record = site
        .see(&id, "the fault", |node| node.fault == Some(Fault::PowerFailure))
        .await;
    assert!(
        record.node.maintenance
            && record
                .node
                .maintenance_reason
                .unwrap()
                .contains("power-state went wrong")
    );
    site.see(&id, "its end", |node| node.fault.is_none() && !node.maintenance)
        .await;
    site.world.assert_no_violations();
}
