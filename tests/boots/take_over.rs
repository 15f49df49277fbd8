//! A real machine that has not read its floppy yet, and whose conductor dies.

use sim::{BootMode, Device};

use crate::lab;
use crate::site::{Modes, Site, fetch, wait};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_whose_conductor_is_killed_before_it_reads_its_floppy_is_deployed_by_the_successor() {
    let _one = lab::machine().await;
    let modes = Modes {
        factory: BootMode::LegacyBios,
        asked: "bios",
    };
    let site = Site::new(1, modes).await;
    let alpha = site.conductor("alpha", false).await;
    let beta = site.conductor("beta", false).await;
    let node = site.available(&alpha, 0, "agent_ilo", site.disk_image()).await;

    site.sim.hold_agent(0, true).unwrap();
    alpha.bring(&node, "active", "wait call-back").await;
    let floppy_url = site.inserted(0, Device::Floppy).unwrap();
    let floppy = fetch(&floppy_url).await;
    alpha.kill().await;
    assert!(
        reqwest::get(&floppy_url).await.is_err(),
        "nobody serves {floppy_url} now"
    );

    wait(
        "beta takes the node over",
        || beta.log(),
        async || {
            let events = beta
                .get(&format!("/farrier/v1/events?node={node}&newest=true&limit=100"))
                .await;
            let mut events = events["events"].as_array().unwrap().iter();
            events
                .any(|event| event["kind"] == "take-over" && event["conductor"] == "beta")
                .then_some(())
        },
    )
    .await;
    let url = wait(
        "the floppy is inserted again",
        || beta.log(),
        async || site.inserted(0, Device::Floppy).filter(|url| *url != floppy_url),
    )
    .await;
    // The same token with it: a ramdisk that had read the first one would go on.
    assert!(fetch(&url).await == floppy, "the floppy is not the same, byte for byte");
    assert_eq!(site.console(0), "", "the machine is still held before its firmware");

    site.sim.hold_agent(0, false).unwrap();
    beta.reaches(&node, "active").await;
    site.assert_deployed(0);
    site.says(0, "FARRIER-DISK-BOOTED bios").await;
    let console = site.console(0);
    assert_eq!(console.matches("FARRIER-RAMDISK up").count(), 1, "{console}");
    assert_eq!(site.inserted(0, Device::Floppy), None);
    drop(beta);
    site.sim.stop().await;
}
