//! Many servers in one process. The bench `thousand` does the same with a thousand and prints what it took.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bmc::{Bmc, ProbedBmc};
use model::{BootDevice, Device, PowerAction};
use tokio::task::JoinSet;

use crate::images;
use crate::support::*;

const SERVERS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_servers_answer_probes_and_media_cycles_and_read_what_is_theirs() {
    let lab = Arc::new(lab("ilo5", |config| config.servers = SERVERS).await);
    let images = images::serve().await;
    let mut running = JoinSet::new();
    for server in 0..SERVERS {
        let lab = Arc::clone(&lab);
        let url = format!("{images}/{server}.iso");
        running.spawn(async move {
            let bmc = ProbedBmc::new(lab.config(server), None).unwrap();
            let serial = bmc.identity().await.unwrap().serial.unwrap();
            bmc.insert_media(Device::Cdrom, &image(&url)).await.unwrap();
            assert_eq!(
                lab.running.inserted(server, sim::Device::Cd).unwrap().as_deref(),
                Some(url.as_str())
            );
            assert_eq!(
                reads(&lab, server),
                (url.clone(), 0),
                "nothing is fetched before something reads"
            );
            bmc.set_boot_device(BootDevice::Cdrom, false).await.unwrap();
            bmc.set_power(PowerAction::On).await.unwrap();
            let start = Instant::now();
            while reads(&lab, server).1 == 0 {
                assert!(start.elapsed() < PATIENCE, "server {server} never read its image");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            bmc.set_power(PowerAction::Off).await.unwrap();
            bmc.eject_media(Device::Cdrom).await.unwrap();
            assert_eq!(lab.running.inserted(server, sim::Device::Cd).unwrap(), None);
            bmc.close().await;
            lab.no_session(server, "").await;
            serial
        });
    }
    let mut serials = std::collections::BTreeSet::new();
    while let Some(serial) = running.join_next().await {
        serials.insert(serial.unwrap());
    }
    assert_eq!(serials.len(), SERVERS, "each is a server of its own");
}

/// Which image is in the drive of a server, and how many answers it has had of it.
fn reads(lab: &Lab, server: usize) -> (String, u64) {
    let reads = lab.running.media_reads(server, sim::Device::Cd).unwrap().pop().unwrap();
    (reads.url, reads.requests)
}
