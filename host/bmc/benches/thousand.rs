//! A thousand simulated servers in one process, and a client of each: how many probes and media cycles they get through, and how
//! much memory that takes. Not part of `cargo test`.
//!
//! `cargo bench -p bmc --bench thousand`

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints what it measures and may panic"
)]

#[path = "../tests/faults/images.rs"]
mod images;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bmc::{Bmc, BmcConfig, Ca, Deadlines, InsertMedia, ProbedBmc, Tls};
use model::{BmcAddress, BootDevice, Device, PowerAction, Secret};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sim::{Running, SimConfig};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const SERVERS: usize = 1000;
/// Servers that are talked to at once.
const AT_ONCE: usize = 64;

fn main() {
    // Two sockets for each connection and one for each listener.
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, wanted).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(bench());
}

async fn bench() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = tempfile::tempdir().unwrap();
    let mut config = SimConfig::new(folder.path(), "admin", "password");
    config.servers = SERVERS;
    config.disk_bytes = 4096;
    config.timing.post = Duration::from_millis(50);
    let before = resident();
    let start = Instant::now();
    let running = Arc::new(sim::start(config).await.unwrap());
    println!(
        "{SERVERS} servers started in {:.1?}; {} KiB each",
        start.elapsed(),
        (resident() - before) / SERVERS
    );
    let images = images::serve().await;
    let clients: Vec<Arc<ProbedBmc>> = (0..SERVERS).map(|server| Arc::new(client(&running, server))).collect();

    each("probes (transport, identity, login)", &clients, |_, bmc| async move {
        bmc.identity().await.unwrap();
    })
    .await;
    each("power reads", &clients, |_, bmc| async move {
        bmc.power_state().await.unwrap();
    })
    .await;
    let of = Arc::clone(&running);
    each(
        "media cycles (insert, boot, ranged reads, off, eject)",
        &clients,
        move |server, bmc| {
            let (running, url) = (Arc::clone(&of), format!("{images}/{server}.iso"));
            async move { cycle(&running, server, &bmc, &url).await }
        },
    )
    .await;
    each("closes", &clients, |_, bmc| async move { bmc.close().await }).await;
    let open: usize = (0..SERVERS).map(|server| running.sessions(server).unwrap()).sum();
    assert_eq!(open, 0, "sessions are left open");
}

fn client(running: &Running, server: usize) -> ProbedBmc {
    let config = BmcConfig {
        tls: Tls::Verify {
            ca: Some(Ca::File(running.ca_pem().to_owned())),
        },
        deadlines: Deadlines {
            poll: Duration::from_millis(20),
            ..Deadlines::default()
        },
        ..BmcConfig::new(
            BmcAddress(running.server(server).unwrap().url.clone()),
            "admin",
            Secret::new("password"),
        )
    };
    ProbedBmc::new(config, None).unwrap()
}

async fn cycle(running: &Running, server: usize, bmc: &ProbedBmc, url: &str) {
    let image = InsertMedia {
        url: Secret::new(url),
        boot_once: false,
        server_certificate: None,
    };
    bmc.insert_media(Device::Cdrom, &image).await.unwrap();
    bmc.set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    bmc.set_power(PowerAction::On).await.unwrap();
    let start = Instant::now();
    while running
        .media_reads(server, sim::Device::Cd)
        .unwrap()
        .iter()
        .all(|reads| reads.requests == 0)
    {
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "server {server} never read its image"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bmc.set_power(PowerAction::Off).await.unwrap();
    bmc.eject_media(Device::Cdrom).await.unwrap();
}

/// Does something with every server and prints how fast that went.
async fn each<F>(what: &str, clients: &[Arc<ProbedBmc>], act: impl Fn(usize, Arc<ProbedBmc>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let start = Instant::now();
    let mut running = JoinSet::new();
    for (server, bmc) in clients.iter().enumerate() {
        let (turns, act) = (Arc::clone(&turns), act(server, Arc::clone(bmc)));
        running.spawn(async move {
            let _turn = turns.acquire_owned().await.unwrap();
            act.await;
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    let took = start.elapsed();
    let rate = clients.len() as f64 / took.as_secs_f64();
    println!("{what}: {rate:.0}/s ({took:.1?}); resident {} MiB", resident() >> 10);
}

/// Memory of this process in KiB: the servers' and the clients'.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
