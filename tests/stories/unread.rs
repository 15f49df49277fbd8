//! A boot that was lost: the server was powered on, and nobody served what it was to boot from.

use std::time::Duration;

use crate::client::assert_says;
use crate::site::Site;
use crate::wait;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_found_nobody_to_boot_from_is_booted_once_more_and_deployed() {
    // Its self-test leaves time to kill the conductor in.
    let site = Site::with(1, |config| config.timing.post = Duration::from_secs(2)).await;
    let mut settings = site.settings("alpha");
    settings["conductor"]["fetch-alarm-s"] = 3.into();
    let mut alpha = site.start_with(&settings).await;
    let node = site.available(&alpha.api, 0, "agent_ilo", "alpha").await;
    alpha.api.want(&node, "active").await;
    wait::until("the server is powered on", async || site.is_on(0).then_some(())).await;
    alpha.kill();
    let lost = wait::until("its boot has come to an end", async || site.booted(0)).await;
    assert_ne!(lost, sim::BootOutcome::Agent, "it booted in spite of all");

    let alpha = site.start_with(&settings).await;
    let api = &alpha.api;
    wait::until("the warning", async || {
        let record = api.node(&node).await;
        let said = record["last_error"].as_str().unwrap_or_default();
        said.contains("its boot was repeated").then_some(())
    })
    .await;
    let record = api.reaches(&node, "active").await;
    assert!(record["last_error"].is_null(), "{record}");
    site.assert_deployed(0);
    let events = api.events(&node).await;
    let alarms: Vec<_> = events.iter().filter(|event| event["kind"] == "media-unread").collect();
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    let alarm = alarms[0]["message"].as_str().unwrap_or_default();
    assert_says(alarm, &["nothing of its boot ISO was read within 3 s"]);
    let done = site.done_to(0);
    let count = |what: &str| done.iter().filter(|change| *change == what).count();
    // The lost boot, the repeated one, and the instance's; the agent powers off by itself.
    assert_eq!((count("power On"), count("power ForceOff")), (3, 1), "{done:?}");
    let journal = api.journal(&node).await;
    assert!(journal.iter().any(|effect| effect == "power.off done"), "{journal:?}");
}
