//! A real machine behind the BMC: one QEMU process per period between two resets.
//!
//! A reset, by the BMC or by the guest, ends the process and starts the next, so that firmware mode and boot order
//! are always those that the BMC holds at that moment. Images reach the guest through [`crate::nbd`].

mod launch;
mod qmp;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, UnixListener};
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep, timeout};

use crate::config::{BootMode, FloppyDevice, QemuConfig};
use crate::machine::{Ask, Power};
use crate::media::Medium;
use crate::nbd::{self, Exports};
use crate::profile::{BootTarget, Device};
use crate::server::{BootOutcome, LastBoot, PostState, PowerCommand, Server};

use launch::Launch;
use qmp::Qmp;

/// How long a guest may take to let go of a device.
const UNPLUG: Duration = Duration::from_secs(5);
/// How often an image that could not be read is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// What follows a QEMU process.
enum Next {
    Restart,
    Off,
}

/// Runs one period of power.
pub(crate) async fn run(mut power: Power, config: QemuConfig) {
    loop {
        power.asks.mark_unchanged();
        let server = Arc::clone(&power.server);
        let (number, order, mode) = {
            let mut state = server.state();
            state.post = PostState::InPost;
            let order = state.begin_boot(server.config.profile);
            (state.boots, order, state.boot_mode())
        };
        let off = power.off.clone();
        let result = tokio::select! {
            () = off.cancelled() => return,
            result = machine(&mut power, &config, number, &order, mode) => result,
        };
        match result {
            Ok(Next::Restart) => {}
            Ok(Next::Off) => return turn_off(&server, number).await,
            Err(reason) => {
                tracing::warn!(server = server.index, %reason, "QEMU failed");
                server.booted(LastBoot {
                    number,
                    device: None,
                    outcome: BootOutcome::Failed { reason },
                });
                return turn_off(&server, number).await;
            }
        }
    }
}

async fn turn_off(server: &Server, number: u64) {
    // The receiver lives as long as the machine; if it is gone, so is the power.
    let _ = server.power.send(PowerCommand::OffFromInside(number)).await;
}

/// One QEMU process from start to end. Dropping this future kills it.
async fn machine(
    power: &mut Power,
    config: &QemuConfig,
    number: u64,
    order: &[BootTarget],
    mode: BootMode,
) -> Result<Next, String> {
    let server = Arc::clone(&power.server);
    // The agent cannot be held inside a guest, so the machine is held in front of its firmware.
    let mut held = server.agent_held.subscribe();
    let _ = held.wait_for(|held| !held).await;
    let sockets = tempfile::Builder::new()
        .prefix("farrier-sim-")
        .tempdir()
        .map_err(|error| format!("no folder for sockets: {error}"))?;
    let mut serving = JoinSet::new();
    let exports = Exports::default();
    let listener =
        UnixListener::bind(sockets.path().join("nbd")).map_err(|error| format!("no socket for images: {error}"))?;
    serving.spawn(serve_images(listener, exports.clone()));
    let port = free_port().await?;
    let callback = format!("http://127.0.0.1:{port}");
    server.state().agent_url = Some(callback.clone());
    let launch = Launch {
        server: &server,
        config,
        order,
        mode,
        sockets: &sockets,
        port,
        callback: &callback,
    };
    let mut child = launch.spawn()?;
    let control = sockets.path().join("qmp");
    let connected = tokio::select! {
        status = child.wait() => {
            return Err(format!("it ended at once ({status:?}); see {}", server.files.folder.join("qemu.log").display()));
        }
        connected = Qmp::connect(&control) => connected,
    };
    let mut machine = Machine {
        qmp: connected?,
        exports,
        socket: sockets.path().join("nbd").display().to_string(),
        floppy: config.floppy,
        floppy_index: position(order, BootTarget::Usb),
        cd: None,
        usb: None,
        count: 0,
    };
    machine.sync_media(&server).await;
    // A guess, since only the firmware knows: parameter floppies hold no boot loader.
    let device = order.iter().copied().find(|target| match target {
        BootTarget::Cd => machine.cd.is_some(),
        BootTarget::Hdd => true,
        BootTarget::Pxe => server.config.bootfile.is_some(),
        BootTarget::Usb | BootTarget::Setup => false,
    });
    machine.qmp.execute("cont", json!({})).await?;
    server.booted(LastBoot {
        number,
        device,
        outcome: BootOutcome::Started,
    });
    let next = watch(power, &server, &mut machine, &mut child).await;
    // Killed and reaped here so that the next process finds disk and port free.
    let _ = child.kill().await;
    serving.shutdown().await;
    next
}

async fn watch(
    power: &mut Power,
    server: &Arc<Server>,
    machine: &mut Machine,
    child: &mut Child,
) -> Result<Next, String> {
    let mut retry = interval(RETRY);
    let mut next = Next::Off;
    let post = sleep(server.config.timing.post);
    tokio::pin!(post);
    let mut in_post = true;
    loop {
        tokio::select! {
            status = child.wait() => {
                // The reason may still be on its way when the process is already gone.
                while let Ok(event) = machine.qmp.events.try_recv() {
                    note(&event, &mut next);
                }
                tracing::debug!(server = server.index, ?status, "QEMU ended");
                return Ok(next);
            }
            event = machine.qmp.events.recv() => match event {
                Some(event) => note(&event, &mut next),
                None => {
                    let ended = timeout(UNPLUG, child.wait()).await;
                    return ended.map(|_| next).map_err(|_| "QEMU closed its control socket and did not end".into());
                }
            },
            changed = power.asks.changed() => {
                if changed.is_err() {
                    return Ok(Next::Off);
                }
                let asked = *power.asks.borrow_and_update();
                match asked {
                    Ask::Nothing => {}
                    Ask::Reset(_) => return Ok(Next::Restart),
                    Ask::Shutdown(_) | Ask::Restart(_) => {
                        if matches!(asked, Ask::Restart(_)) {
                            next = Next::Restart;
                        }
                        machine.qmp.execute("system_powerdown", json!({})).await?;
                    }
                }
            },
            () = server.media_changed.notified() => machine.sync_media(server).await,
            _ = retry.tick() => machine.sync_media(server).await,
            () = &mut post, if in_post => {
                in_post = false;
                server.state().post = PostState::FinishedPost;
            }
        }
    }
}

/// A guest's reset ends QEMU too, because it runs with `-no-reboot`.
fn note(event: &qmp::Event, next: &mut Next) {
    if event.name == "SHUTDOWN" && event.data.get("reason") == Some(&Value::from("guest-reset")) {
        *next = Next::Restart;
    }
}

async fn serve_images(listener: UnixListener, exports: Exports) {
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let exports = exports.clone();
                    clients.spawn(async move {
                        if let Err(error) = nbd::serve(stream, exports).await {
                            tracing::debug!(%error, "image connection ended");
                        }
                    });
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = clients.join_next() => {}
        }
    }
}

async fn free_port() -> Result<u16, String> {
    let wrong = |error: std::io::Error| format!("no free port for the agent: {error}");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(wrong)?;
    Ok(listener.local_addr().map_err(wrong)?.port())
}

fn position(order: &[BootTarget], target: BootTarget) -> Option<usize> {
    order.iter().position(|other| *other == target).map(|index| index + 1)
}

/// A running QEMU and what is in its drives.
struct Machine {
    qmp: Qmp,
    exports: Exports,
    socket: String,
    floppy: FloppyDevice,
    floppy_index: Option<usize>,
    cd: Option<(Arc<Medium>, String)>,
    usb: Option<(Arc<Medium>, String)>,
    count: u64,
}

impl Machine {
    /// Makes the guest's drives hold what the BMC's slots hold. An image that cannot be read leaves its drive
    /// empty; the read error is on the image's record.
    async fn sync_media(&mut self, server: &Server) {
        for device in [Device::Floppy, Device::Cd] {
            let wanted = server.medium(device);
            let current = match device {
                Device::Cd => &self.cd,
                Device::Floppy => &self.usb,
            };
            let same = match (current, &wanted) {
                (None, None) => true,
                (Some((current, _)), Some(wanted)) => Arc::ptr_eq(current, wanted),
                _ => false,
            };
            if same {
                continue;
            }
            let changed = match device {
                Device::Cd => self.change_cd(wanted).await,
                Device::Floppy => self.change_floppy(wanted).await,
            };
            if let Err(reason) = changed {
                tracing::debug!(server = server.index, %reason, "media change");
            }
        }
    }

    fn export(&mut self, kind: &str, medium: &Arc<Medium>) -> (String, Value) {
        self.count += 1;
        let name = format!("{kind}-{}", self.count);
        self.exports.set(&name, Arc::clone(medium));
        let file = json!({
            "driver": "nbd",
            "server": {"type": "unix", "path": self.socket},
            "export": name,
        });
        (name, file)
    }

    async fn change_cd(&mut self, wanted: Option<Arc<Medium>>) -> Result<(), String> {
        if let Some((_, node)) = self.cd.take() {
            // A BMC pulls a medium out whether or not the guest has locked the tray.
            let _ = self
                .qmp
                .execute("blockdev-open-tray", json!({"id": "cd", "force": true}))
                .await;
            self.qmp.execute("blockdev-remove-medium", json!({"id": "cd"})).await?;
            self.exports.remove(&node);
            self.qmp.execute("blockdev-del", json!({"node-name": node})).await?;
        }
        if let Some(medium) = wanted {
            let (node, file) = self.export("cd", &medium);
            let add = json!({"driver": "raw", "node-name": node, "read-only": true, "file": file});
            if let Err(reason) = self.qmp.execute("blockdev-add", add).await {
                self.exports.remove(&node);
                return Err(reason);
            }
            let _ = self
                .qmp
                .execute("blockdev-open-tray", json!({"id": "cd", "force": true}))
                .await;
            self.qmp
                .execute("blockdev-insert-medium", json!({"id": "cd", "node-name": node}))
                .await?;
            self.cd = Some((medium, node));
        }
        self.qmp.execute("blockdev-close-tray", json!({"id": "cd"})).await?;
        Ok(())
    }

    async fn change_floppy(&mut self, wanted: Option<Arc<Medium>>) -> Result<(), String> {
        if let Some((medium, node)) = self.usb.take() {
            let id = format!("dev-{node}");
            self.qmp.execute("device_del", json!({"id": id})).await?;
            if let Err(reason) = self.wait_for_unplug(&id).await {
                self.usb = Some((medium, node));
                return Err(reason);
            }
            self.exports.remove(&node);
            self.qmp.execute("blockdev-del", json!({"node-name": node})).await?;
        }
        if let Some(medium) = wanted {
            let (node, file) = self.export("floppy", &medium);
            let add = json!({"driver": "raw", "node-name": node, "read-only": true, "file": file});
            if let Err(reason) = self.qmp.execute("blockdev-add", add).await {
                self.exports.remove(&node);
                return Err(reason);
            }
            let mut device = match self.floppy {
                FloppyDevice::Usb => {
                    json!({"driver": "usb-storage", "bus": "xhci.0", "removable": true})
                }
                FloppyDevice::VirtioBlk => json!({"driver": "virtio-blk-pci"}),
            };
            device["id"] = format!("dev-{node}").into();
            device["drive"] = node.clone().into();
            if let Some(index) = self.floppy_index {
                device["bootindex"] = index.into();
            }
            self.qmp.execute("device_add", device).await?;
            self.usb = Some((medium, node));
        }
        Ok(())
    }

    async fn wait_for_unplug(&mut self, id: &str) -> Result<(), String> {
        let gone = timeout(UNPLUG, async {
            while let Some(event) = self.qmp.events.recv().await {
                if event.name == "DEVICE_DELETED" && event.data.get("device") == Some(&Value::from(id)) {
                    return Ok(());
                }
            }
            Err("QEMU is gone".to_owned())
        });
        gone.await.map_err(|_| format!("the guest does not let go of {id}"))?
    }
}
