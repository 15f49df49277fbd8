//! `farrier demo`: the main job from nothing. Simulated servers are enrolled, cleaned and deployed by two conductors; one
//! conductor is killed while a server waits for its ramdisk; the other takes over; everything is torn down again.

mod conductor;
mod files;
mod report;
mod watch;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use model::NodeId;
use serde_json::json;
use sim::{BootKind, BootMode, Device, FloppyDevice, Running, SimConfig, Timing};

use self::conductor::{Conductor, Ports};
use self::files::{DiskServer, Files};
use self::report::Report;
use self::watch::Watch;
use crate::client::Client;
use crate::lab::{Boot, LabArgs};
use crate::output;

/// Account of the simulated BMCs.
const BMC_USER: &str = "admin";
const BMC_PASSWORD: &str = "demo-password";
/// Nothing in the demo takes longer than this, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(240);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many servers; the last one is held in `wait call-back` while a conductor is killed
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(2..=64))]
    servers: u64,
    /// What stands behind the first server's BMC; the others are always protocol-only
    #[arg(long, value_enum, default_value = "protocol")]
    boot: Boot,
    /// Keep the folder with disks, logs and traces
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    lab: LabArgs,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let mut folder = tempfile::Builder::new().prefix("farrier-demo-").tempdir()?;
    folder.disable_cleanup(args.keep);
    let result = demo(&args, folder.path()).await;
    match &result {
        Err(_) => {
            folder.disable_cleanup(true);
            output::note(format_args!(
                "logs, disks and traces are in {}",
                folder.path().display()
            ));
        }
        Ok(()) if args.keep => output::say(format_args!("kept: {}", folder.path().display())),
        Ok(()) => {}
    }
    result
}

async fn demo(args: &Args, data: &Path) -> Result<()> {
    let began = Instant::now();
    let count = usize::try_from(args.servers)?;
    let files = Files::prepare(args.boot, &args.lab, data)?;
    let disk = DiskServer::start(&files.disk_image).await?;
    let sim = start_simulator(args, count, data, &files).await?;
    let qemu = if args.boot == Boot::Qemu {
        ", the first one a real QEMU machine"
    } else {
        ""
    };
    output::say(format_args!("{count} simulated servers with an iLO 5{qemu}"));

    let site = [Ports::free()?, Ports::free()?];
    let mut alpha = Conductor::start("alpha", site[0], &site, data, &files.boot).await?;
    let beta = Conductor::start("beta", site[1], &site, data, &files.boot).await?;
    output::say("two conductors, alpha and beta, on one store");

    let mut demo = Demo {
        names: Vec::new(),
        sim: &sim,
        watch: Watch::new(beta.client.clone(), alpha.client.clone(), began),
        report: Report::default(),
    };
    demo.enrol(&beta.client, &disk, count).await?;
    demo.step(
        "under management and cleaned",
        |_| true,
        &[("manage", "manageable"), ("provide", "available")],
    )
    .await?;
    let held = count - 1;
    sim.hold_agent(held, true)?;
    demo.ask(held, "active").await?;
    demo.step("deployed", |index| index != held, &[("active", "active")])
        .await?;
    demo.check_disks(&files, held).await?;
    demo.wait(held, "wait call-back").await?;

    output::say(format_args!(
        "\nkilling conductor alpha while {} waits for its ramdisk",
        demo.names[held]
    ));
    let killed = Instant::now();
    demo.remember_plugin_calls(&alpha.client).await?;
    let requests = demo.requests()?;
    demo.watch.other = None;
    alpha.kill().await.context("could not kill alpha")?;
    demo.taken_over(held).await?;
    demo.report.note("take-over after kill -9", killed.elapsed());
    sim.hold_agent(held, false)?;
    demo.wait(held, "active").await?;
    demo.report
        .note("… until the waiting server was active", killed.elapsed());
    demo.still_untouched(held, &requests)?;

    demo.step("torn down and cleaned", |_| true, &[("deleted", "available")])
        .await?;
    demo.remember_plugin_calls(&beta.client).await?;
    demo.count_reads(&sim)?;
    demo.report.note("whole demo", began.elapsed());
    demo.report.print();
    drop(beta);
    sim.stop().await;
    Ok(())
}

async fn start_simulator(args: &Args, count: usize, data: &Path, files: &Files) -> Result<Running> {
    let mut config = SimConfig::new(data.join("sim"), BMC_USER, BMC_PASSWORD);
    config.servers = count;
    config.trace = Some(data.join("bmc-trace.jsonl"));
    config.boot_mode = Some(BootMode::LegacyBios);
    config.disk_bytes = 64 << 20;
    config.timing = Timing {
        post: Duration::from_millis(500),
        ..Timing::default()
    };
    if args.boot == Boot::Qemu {
        // The small kernel boots in half the time and knows no USB.
        let qemu = args.lab.lab()?.qemu(FloppyDevice::VirtioBlk)?;
        config.boot = vec![BootKind::Qemu(qemu), BootKind::Protocol];
    }
    ensure!(files.boot.isolinux.exists(), "isolinux.bin is not there");
    Ok(sim::start(config).await?)
}

struct Demo<'a> {
    names: Vec<String>,
    sim: &'a Running,
    watch: Watch,
    report: Report,
}

impl Demo<'_> {
    /// Enrols every server. Its UUID decides which conductor has it: the first and the last belong to alpha.
    async fn enrol(&mut self, client: &Client, disk: &DiskServer, count: usize) -> Result<()> {
        for index in 0..count {
            let server = self.sim.server(index)?;
            let name = format!("server-{}", index + 1);
            let owner = if index == 0 || index + 1 == count {
                "alpha"
            } else {
                "beta"
            };
            let body = json!({
                "uuid": uuid_at_home_with(owner), "name": name, "driver": "agent_ilo",
                "driver_info": {
                    "ilo_address": server.url, "ilo_username": BMC_USER, "ilo_password": BMC_PASSWORD,
                    "ilo_verify_ca": self.sim.ca_pem(),
                },
                "instance_info": {
                    "image_source": disk.url(), "image_os_hash_algo": "sha256", "image_os_hash_value": disk.sha256(),
                    "image_disk_format": "raw", "image_type": "whole-disk",
                },
                "properties": { "capabilities": "boot_mode:bios" },
            });
            let node = client.post("/v1/nodes", &body).await?;
            client
                .post(
                    "/v1/ports",
                    &json!({ "node_uuid": node["uuid"], "address": server.mac }),
                )
                .await?;
            self.watch.name(node["uuid"].as_str().unwrap_or_default(), &name);
            self.names.push(name);
        }
        Ok(())
    }

    async fn ask(&self, index: usize, target: &str) -> Result<()> {
        let path = format!("/v1/nodes/{}/states/provision", self.names[index]);
        self.watch
            .client
            .put(&path, &json!({ "target": target }))
            .await
            .map(drop)
    }

    async fn wait(&mut self, index: usize, state: &str) -> Result<()> {
        self.watch.until(&[self.names[index].as_str()], state, PATIENCE).await
    }

    /// Asks the servers that `which` picks for each verb in turn, and waits until all are where it leads.
    async fn step(&mut self, what: &str, which: impl Fn(usize) -> bool, moves: &[(&str, &str)]) -> Result<()> {
        let start = Instant::now();
        let picked: Vec<usize> = (0..self.names.len()).filter(|index| which(*index)).collect();
        for (verb, state) in moves {
            for index in &picked {
                self.ask(*index, verb).await?;
            }
            let names: Vec<&str> = picked.iter().map(|index| self.names[*index].as_str()).collect();
            self.watch.until(&names, state, PATIENCE).await?;
        }
        self.report
            .note(&format!("{} servers {what}", picked.len()), start.elapsed());
        Ok(())
    }

    /// The image is really on each disk, and the real machine really boots from it.
    async fn check_disks(&mut self, files: &Files, held: usize) -> Result<()> {
        for index in (0..self.names.len()).filter(|index| *index != held) {
            let server = self.sim.server(index)?;
            files.check_disk(&server.disk)?;
            if self.sim.is_qemu(index)? {
                files.wait_for_disk_boot(&server.serial_log, PATIENCE).await?;
                output::say(format_args!(
                    "{} booted from the disk that was written to it",
                    self.names[index]
                ));
            }
        }
        output::say("every deployed disk holds the image, byte for byte");
        Ok(())
    }

    /// Waits until beta has taken the held node over, and says what it did.
    async fn taken_over(&mut self, held: usize) -> Result<()> {
        self.watch.until_taken_over(&self.names[held], "beta", PATIENCE).await?;
        let floppy = self.sim.inserted(held, Device::Floppy)?;
        ensure!(
            floppy.is_some(),
            "the waiting server's floppy is not inserted after the take-over"
        );
        Ok(())
    }

    /// How many requests each server's BMC has answered.
    fn requests(&self) -> Result<Vec<usize>> {
        (0..self.names.len())
            .map(|index| Ok(self.sim.trace(index)?.len()))
            .collect()
    }

    /// No active server was asked for a change since then: power, media, boot device and boot mode are all changed by POST
    /// or PATCH. Sessions are the BMC's own.
    fn still_untouched(&self, held: usize, since: &[usize]) -> Result<()> {
        for index in (0..self.names.len()).filter(|index| *index != held) {
            for exchange in self.sim.trace(index)?.into_iter().skip(since[index]) {
                let changes = matches!(exchange.method.as_str(), "POST" | "PATCH" | "PUT");
                if changes && !exchange.path.contains("SessionService") {
                    bail!(
                        "{} is active and got {} {}",
                        self.names[index],
                        exchange.method,
                        exchange.path
                    );
                }
            }
        }
        output::say("no active server was touched by the take-over");
        Ok(())
    }

    async fn remember_plugin_calls(&mut self, client: &Client) -> Result<()> {
        let calls = client.get("/farrier/v1/plugins/calls?limit=1000").await?;
        self.report.add_plugin_calls(&calls);
        Ok(())
    }

    fn count_reads(&mut self, sim: &Running) -> Result<()> {
        for (index, name) in self.names.iter().enumerate() {
            for device in [Device::Floppy, Device::Cd] {
                let reads = sim.media_reads(index, device)?;
                let bytes = reads.iter().map(|read| read.bytes).sum();
                let requests = reads.iter().map(|read| read.requests).sum();
                self.report.add_reads(name, device, bytes, requests);
            }
        }
        Ok(())
    }
}

/// A UUID whose node belongs to this conductor while both are alive.
fn uuid_at_home_with(owner: &str) -> String {
    let both: Vec<model::ConductorName> = ["alpha", "beta"].iter().filter_map(|name| name.parse().ok()).collect();
    loop {
        let id = NodeId::random();
        if ::conductor::home(&id, &both).is_some_and(|name| name.as_str() == owner) {
            return id.to_string();
        }
    }
}
