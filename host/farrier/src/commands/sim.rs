//! `farrier sim`: simulated servers, or a recorded BMC, until interrupted.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sim::{BootKind, Faults, FloppyDevice, Profile, Recording, ReplayConfig, SimConfig};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::lab::{Boot, LabArgs};
use crate::output;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which BMC to simulate: a name, or the path of a profile file of your own (*.toml)
    #[arg(long, default_value = "ilo5")]
    profile: String,
    /// How many servers
    #[arg(long, default_value_t = 1)]
    servers: usize,
    /// Server i listens on port + i; port 0: any free ports
    #[arg(long, default_value = "127.0.0.1:8443")]
    listen: SocketAddr,
    /// What stands behind the BMCs
    #[arg(long, value_enum, default_value = "protocol")]
    boot: Boot,
    /// Let QEMU use KVM; never tried unless asked for, since on some hosts it answers and does not work
    #[arg(long)]
    kvm: bool,
    /// TOML file that says what goes wrong on purpose (docs/simulator.md)
    #[arg(long)]
    faults: Option<PathBuf>,
    /// Recording (of `farrier bmc record`) to play back instead of simulating a profile
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "boot", "kvm", "faults", "bootfile", "unlicensed"])]
    replay: Option<PathBuf>,
    /// The BMCs lack the licence that media by URL need
    #[arg(long)]
    unlicensed: bool,
    /// Script that DHCP names to network cards (http://…/boot.ipxe); machines under QEMU see this host as 10.0.2.2
    #[arg(long, value_name = "URL")]
    bootfile: Option<String>,
    /// File to append a JSON line per BMC request, read of media and boot to, without secrets
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Name of the BMC account
    #[arg(long, default_value = "admin")]
    user: String,
    /// Its password (of a simulated BMC: nothing worth keeping)
    #[arg(long, default_value = "password")]
    password: String,
    /// Folder for disks, serial logs and the CA certificate
    #[arg(long, default_value = "farrier-sim")]
    data: PathBuf,
    #[command(flatten)]
    lab: LabArgs,
}

pub(super) async fn run(args: Args) -> Result<()> {
    // Before the servers start: whatever stops this process must also stop the machines behind them.
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    if let Some(file) = &args.replay {
        let replaying = sim::replay(ReplayConfig {
            recording: Recording::load(file)?,
            servers: args.servers,
            listen: args.listen,
            trace: args.trace.clone(),
            data: args.data.clone(),
        })
        .await?;
        introduce_replay(file, &replaying);
        let stopped = interrupted(&mut terminate).await;
        replaying.stop().await;
        return stopped;
    }
    let mut config = SimConfig::new(&args.data, &args.user, &args.password);
    config.profile = profile(&args.profile)?;
    config.servers = args.servers;
    config.listen = args.listen;
    config.trace = args.trace.clone();
    config.bootfile = args.bootfile.clone();
    config.unlicensed = args.unlicensed;
    if let Some(path) = &args.faults {
        config.faults = Faults::load(path)?;
    }
    if args.boot == Boot::Qemu {
        config.boot = vec![BootKind::Qemu(args.lab.lab()?.qemu(FloppyDevice::Usb)?)];
    }
    let running = sim::start(config).await?;
    introduce(&args, &running);
    let stopped = interrupted(&mut terminate).await;
    running.stop().await;
    stopped
}

async fn interrupted(terminate: &mut Signal) -> Result<()> {
    tokio::select! {
        stopped = tokio::signal::ctrl_c() => stopped.context("could not wait for the interrupt"),
        _ = terminate.recv() => Ok(()),
    }
}

fn profile(name: &str) -> Result<&'static Profile> {
    if name.ends_with(".toml") {
        return Ok(Profile::load(name.as_ref())?);
    }
    match Profile::by_name(name) {
        Some(profile) => Ok(profile),
        None => bail!(
            "there is no profile `{name}`; known are {}, or give a file that ends in .toml",
            Profile::names().join(", ")
        ),
    }
}

/// Where the replayed BMCs are.
fn introduce_replay(file: &Path, replaying: &sim::Replaying) {
    let ca = std::path::absolute(replaying.ca_pem()).unwrap_or_else(|_| replaying.ca_pem().to_owned());
    let ca = ca.display();
    output::say(format_args!("{} is played back at", file.display()));
    output::table(["BMC"], replaying.urls().into_iter().map(|url| [url]));
    output::say(format_args!(
        "It takes any account; its certificate is signed by {ca}. What it does not hold is answered 501.\n\
         end it: Ctrl-C"
    ));
}

/// Where the servers are, and what to type to reach them.
fn introduce(args: &Args, running: &sim::Running) {
    // A conductor reads it from wherever it was started.
    let ca = std::path::absolute(running.ca_pem()).unwrap_or_else(|_| running.ca_pem().to_owned());
    let ca = ca.display();
    let kind = match args.boot {
        Boot::Qemu => "real machines under QEMU",
        Boot::Protocol => "boots are played by the simulator",
    };
    output::say(format_args!("{} simulated servers ({kind})", running.servers().len()));
    let rows = running.servers().iter().map(|server| {
        [
            server.url.clone(),
            server.mac.clone(),
            server.serial_log.display().to_string(),
        ]
    });
    output::table(["BMC", "MAC", "serial console"], rows);
    let Some(first) = running.servers().first() else {
        return;
    };
    let (url, mac, user) = (&first.url, &first.mac, &args.user);
    output::say(format_args!(
        "Each BMC takes user `{user}` and the password of --password; their certificate is signed by {ca}\n\
         look at one:   curl --cacert {ca} --user {user} {url}/redfish/v1/Systems/1/\n\
         enrol it:      farrier node create --name sim-1 --driver agent_ilo --mac {mac} --driver-info ilo_address={url} \\\n               \
         --driver-info ilo_username={user} --driver-info ilo_verify_ca={ca} --bmc-password-file FILE\n\
         end them all:  Ctrl-C"
    ));
}
