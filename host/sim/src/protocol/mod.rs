//! A server without a CPU: it makes the reads that firmware and boot loader make, and speaks as the deploy agent does.

mod agent;
mod agent_api;
mod commands;
mod disk;
mod floppy;
mod ipxe;
mod iso;
mod logs;

use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::machine::{Ask, Power};
use crate::profile::{BootTarget, Device};
use crate::server::{BootOutcome, LastBoot, PostState, PowerCommand, Server};

use floppy::Parameters;

/// Label of the parameters floppy.
const FLOPPY_LABEL: &str = "ir-vfd-dev";

/// What was booted and now runs.
enum Booted {
    Agent(Parameters),
    Cd,
    Network,
    Disk,
    /// Nothing; the machine waits in front of an error message.
    Nothing,
}

/// Runs one period of power.
pub(crate) async fn run(mut power: Power) {
    let off = power.off.clone();
    loop {
        // What was asked before this boot is past.
        power.asks.mark_unchanged();
        let restart = tokio::select! {
            () = off.cancelled() => return,
            restart = boot(&mut power) => restart,
        };
        if !restart {
            return;
        }
    }
}

/// One boot, from reset to the next; false when the machine went off.
async fn boot(power: &mut Power) -> bool {
    let server = Arc::clone(&power.server);
    let (number, order) = {
        let mut state = server.state();
        state.post = PostState::InPost;
        let order = state.begin_boot(server.config.profile);
        (state.boots, order)
    };
    let inside = CancellationToken::new();
    let _end_with_boot = inside.clone().drop_guard();
    let (running, mut os_runs) = watch::channel(false);
    let work = tokio::spawn(life(Arc::clone(&server), number, order, inside, running));
    let _abort_with_boot = AbortOnDrop(work.abort_handle());
    loop {
        if power.asks.changed().await.is_err() {
            return false;
        }
        let asked = *power.asks.borrow_and_update();
        // Nobody listens to the power button before an operating system runs.
        let listens = *os_runs.borrow_and_update();
        match asked {
            Ask::Reset(_) => return true,
            Ask::Shutdown(_) if listens => {
                tokio::time::sleep(server.config.timing.shutdown).await;
                work.abort();
                turn_off(&server, number).await;
            }
            Ask::Restart(_) if listens => {
                tokio::time::sleep(server.config.timing.shutdown).await;
                return true;
            }
            Ask::Nothing | Ask::Shutdown(_) | Ask::Restart(_) => {}
        }
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks the machine's owner to cut the power, as firmware does for an operating system.
async fn turn_off(server: &Server, number: u64) {
    // The receiver lives as long as the machine; if it is gone, so is the power.
    let _ = server.power.send(PowerCommand::OffFromInside(number)).await;
}

async fn life(
    server: Arc<Server>,
    number: u64,
    order: Vec<BootTarget>,
    inside: CancellationToken,
    running: watch::Sender<bool>,
) {
    let post = server.config.timing.post;
    tokio::time::sleep(post / 2).await;
    server.state().post = PostState::InPostDiscoveryComplete;
    tokio::time::sleep(post / 2).await;
    server.state().post = PostState::FinishedPost;
    let mut failures = Vec::new();
    let (device, booted) = try_in_order(&server, &order, &mut failures).await;
    let outcome = match &booted {
        Booted::Agent(_) => BootOutcome::Agent,
        Booted::Cd => BootOutcome::BootedFromCd,
        Booted::Network => BootOutcome::BootedFromNetwork,
        Booted::Disk => BootOutcome::BootedFromDisk,
        Booted::Nothing => BootOutcome::Failed {
            reason: failures.join("; "),
        },
    };
    running.send_replace(!matches!(booted, Booted::Nothing));
    server.booted(LastBoot {
        number,
        device,
        outcome,
    });
    if let Booted::Agent(parameters) = booted {
        match agent::run(&server, number, &parameters, inside).await {
            agent::End::PoweredOff => turn_off(&server, number).await,
            agent::End::GaveUp(reason) => {
                tracing::info!(server = server.index, %reason, "the agent gave up");
                server.booted(LastBoot {
                    number,
                    device,
                    outcome: BootOutcome::Failed { reason },
                });
            }
        }
    }
}

/// Tries each target as firmware does: what is missing or unreadable is passed over. What was loaded and then
/// failed is not: control does not come back to the firmware.
async fn try_in_order(
    server: &Arc<Server>,
    order: &[BootTarget],
    failures: &mut Vec<String>,
) -> (Option<BootTarget>, Booted) {
    for target in order {
        let booted = match target {
            BootTarget::Cd => boot_cd(server).await,
            BootTarget::Hdd => boot_disk(&server.files.disk).await,
            BootTarget::Usb => match server.medium(Device::Floppy) {
                None => Err(Failure::Passed("usb: no medium".into())),
                Some(_) => Err(Failure::Passed("usb: the image holds no boot loader".into())),
            },
            BootTarget::Pxe => boot_network(server).await,
            BootTarget::Setup => Err(Failure::Stuck("the firmware's set-up was entered".into())),
        };
        match booted {
            Ok(booted) => return (Some(*target), booted),
            Err(Failure::Passed(reason)) => failures.push(reason),
            Err(Failure::Stuck(reason)) => {
                failures.push(reason);
                return (Some(*target), Booted::Nothing);
            }
        }
    }
    (None, Booted::Nothing)
}

/// How a boot attempt failed.
enum Failure {
    /// The firmware goes on with the next device.
    Passed(String),
    /// What was loaded failed; nothing else is tried.
    Stuck(String),
}

async fn boot_cd(server: &Arc<Server>) -> Result<Booted, Failure> {
    let medium = server
        .medium(Device::Cd)
        .ok_or_else(|| Failure::Passed("cd: no medium".into()))?;
    let mode = server.state().boot_mode();
    let loader = iso::find_loader(&medium, mode)
        .await
        .map_err(|error| Failure::Passed(format!("cd: {error}")))?;
    let stuck = |error: iso::IsoError| Failure::Stuck(format!("cd: {error}"));
    let line = iso::kernel_line(&medium, &loader).await.map_err(stuck)?;
    iso::read_kernel(&medium, &line).await.map_err(stuck)?;
    let parameters = parameters(server, &line.append).await?;
    Ok(if parameters.get("ipa-api-url").is_some() {
        Booted::Agent(parameters)
    } else {
        Booted::Cd
    })
}

async fn boot_network(server: &Arc<Server>) -> Result<Booted, Failure> {
    let Some(bootfile) = &server.config.bootfile else {
        return Err(Failure::Passed("pxe: no answer".into()));
    };
    let loaded = ipxe::boot(server, bootfile).await;
    match loaded.map_err(|reason| Failure::Passed(format!("pxe: {reason}")))? {
        ipxe::Loaded::Disk => Ok(Booted::Disk),
        ipxe::Loaded::Kernel(line) => {
            let parameters = parameters(server, &line).await?;
            Ok(match parameters.get("ipa-api-url") {
                Some(_) => Booted::Agent(parameters),
                None => Booted::Network,
            })
        }
    }
}

/// What a ramdisk reads of its kernel line, and of its floppy if the line says so.
async fn parameters(server: &Arc<Server>, line: &str) -> Result<Parameters, Failure> {
    let mut parameters = Parameters::from_text(line);
    if parameters.get("boot_method") == Some("vmedia") {
        match server.medium(Device::Floppy) {
            Some(medium) => {
                let text = floppy::read(medium, FLOPPY_LABEL)
                    .await
                    .map_err(|error| Failure::Stuck(format!("floppy: {error}")))?;
                parameters.extend(Parameters::from_text(&text));
            }
            None if parameters.get("ipa-api-url").is_some() => {
                return Err(Failure::Stuck(
                    "the agent found no virtual floppy although boot_method=vmedia".into(),
                ));
            }
            None => {}
        }
    }
    Ok(parameters)
}

async fn boot_disk(path: &Path) -> Result<Booted, Failure> {
    use tokio::io::AsyncReadExt;
    let passed = |reason: String| Failure::Passed(format!("hdd: {reason}"));
    let mut file = tokio::fs::File::open(path)
        .await
        .map_err(|error| passed(error.to_string()))?;
    let mut sector = [0; 512];
    file.read_exact(&mut sector)
        .await
        .map_err(|error| passed(error.to_string()))?;
    match sector {
        [.., 0x55, 0xaa] => Ok(Booted::Disk),
        _ => Err(passed("the first sector has no boot signature".into())),
    }
}
