//! One simulated server: what its BMC knows, shared by the Redfish service and the machine behind it.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::config::{BootKind, BootMode, SimConfig};
use crate::media::{Medium, ReadRecord};
use crate::profile::{BootTarget, Device, Profile};
use crate::trace::{Trace, TraceFile};

/// Tasks remembered per server.
const TASKS_KEPT: usize = 64;
/// Inserted images remembered per server for [`crate::Running::media_reads`].
const READS_KEPT: usize = 256;

/// Whether a server has power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PowerState {
    /// It runs.
    On,
    /// It does not.
    Off,
}

/// How far the firmware is; HPE's `PostState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum PostState {
    PowerOff,
    InPost,
    InPostDiscoveryComplete,
    FinishedPost,
}

impl PostState {
    pub(crate) fn in_post(self) -> bool {
        matches!(self, Self::InPost | Self::InPostDiscoveryComplete)
    }
}

/// What became of the latest boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LastBoot {
    /// Counts boots from 1.
    pub number: u64,
    /// What the firmware booted from; with QEMU the first device in boot order that could boot.
    pub device: Option<BootTarget>,
    /// What it led to.
    pub outcome: BootOutcome,
}

/// What a boot led to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BootOutcome {
    /// A deploy agent runs.
    Agent,
    /// An ordinary system from the CD runs.
    BootedFromCd,
    /// The system on the disk runs.
    BootedFromDisk,
    /// An ordinary system from the network runs.
    BootedFromNetwork,
    /// A real machine was started; what runs there is its own business.
    Started,
    /// Nothing could be booted, or what was booted gave up.
    Failed {
        /// Why, for each device that was tried.
        reason: String,
    },
}

/// A verb for the machine behind the BMC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PowerCommand {
    On,
    ForceOff,
    GracefulShutdown,
    ForceRestart,
    GracefulRestart,
    /// What runs in boot number `.0` switched the machine off.
    OffFromInside(u64),
}

/// `BootSourceOverrideEnabled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum OverrideEnabled {
    Once,
    Continuous,
    Disabled,
}

#[derive(Clone, Debug)]
pub(crate) struct BootOverride {
    pub(crate) target: String,
    pub(crate) enabled: OverrideEnabled,
    pub(crate) uefi_target: Option<String>,
    /// `HttpBootUri`.
    pub(crate) http_uri: Option<String>,
}

/// A virtual media slot.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) inserted: Option<Inserted>,
    /// After an eject: the image that the slot still claims to hold, and until when.
    pub(crate) stale: Option<(String, Instant)>,
    /// After an eject: the image that it still shows without claiming to hold it.
    pub(crate) left: Option<String>,
}

#[derive(Clone)]
pub(crate) struct Inserted {
    /// What the slot is to the machine while it holds this.
    pub(crate) device: Device,
    pub(crate) image: String,
    pub(crate) write_protected: bool,
    pub(crate) boot_on_reset: BootOnReset,
    /// None if the insert was a lie, and while it is not connected.
    pub(crate) medium: Option<Arc<Medium>>,
    /// What RIBCL's insert noted and nothing has connected yet.
    pub(crate) waiting: Option<Arc<Medium>>,
}

impl Inserted {
    /// The machine sees it from now on.
    pub(crate) fn connect(&mut self) {
        if let Some(medium) = self.waiting.take() {
            self.medium = Some(medium);
        }
    }

    /// The machine sees it no more.
    pub(crate) fn disconnect(&mut self) {
        if let Some(medium) = self.medium.take() {
            self.waiting = Some(medium);
        }
    }
}

/// HPE's `BootOnNextServerReset`: boots the image at the next reset and ejects it at the one after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BootOnReset {
    No,
    Next,
    EjectAtNext,
    /// RIBCL's `BOOT_ALWAYS`: at every reset.
    Always,
}

pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) user: String,
    pub(crate) created: String,
    pub(crate) used: Instant,
}

/// A change that was accepted and carried out as a task.
pub(crate) struct Task {
    pub(crate) id: u64,
    pub(crate) made: String,
    /// How often it is still missing when it is looked for.
    pub(crate) missing: u32,
}

pub(crate) struct State {
    pub(crate) power: PowerState,
    pub(crate) post: PostState,
    pub(crate) boot_override: BootOverride,
    pub(crate) boot_order: Vec<BootTarget>,
    /// Firmware mode, and the one of the next boot if that is another.
    pub(crate) mode: BootMode,
    pub(crate) mode_pending: Option<BootMode>,
    /// Further firmware settings, likewise.
    pub(crate) bios: BTreeMap<String, Value>,
    pub(crate) bios_pending: BTreeMap<String, Value>,
    /// Dell's first boot device, and whether for one boot only.
    pub(crate) first_device: Option<(String, bool)>,
    pub(crate) secure_boot: bool,
    pub(crate) secure_boot_now: bool,
    pub(crate) slots: Vec<Slot>,
    pub(crate) ribcl: crate::ribcl::Settings,
    pub(crate) reads: VecDeque<Arc<ReadRecord>>,
    pub(crate) tasks: VecDeque<Task>,
    pub(crate) task_count: u64,
    pub(crate) sessions: Vec<Session>,
    pub(crate) session_count: u64,
    pub(crate) wrong_logins: u32,
    pub(crate) login_refused_until: Option<Instant>,
    pub(crate) deaf_until: Option<Instant>,
    pub(crate) boots: u64,
    pub(crate) last_boot: Option<LastBoot>,
    pub(crate) agent_written: u64,
    pub(crate) agent_url: Option<String>,
}

/// Where a server's files are.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) folder: PathBuf,
    pub(crate) disk: PathBuf,
    pub(crate) serial: PathBuf,
}

pub(crate) struct Server {
    pub(crate) index: usize,
    pub(crate) config: Arc<SimConfig>,
    pub(crate) boot: BootKind,
    pub(crate) mac: String,
    pub(crate) uuid: String,
    pub(crate) serial_number: String,
    pub(crate) files: Files,
    pub(crate) trace: Trace,
    pub(crate) trace_file: Arc<TraceFile>,
    pub(crate) power: mpsc::Sender<PowerCommand>,
    pub(crate) agent_held: watch::Sender<bool>,
    /// Told whenever a slot changes, so that a running machine sees it.
    pub(crate) media_changed: Notify,
    pub(crate) stop: CancellationToken,
    pub(crate) media_tls: Arc<ClientConfig>,
    pub(crate) media_tls_strict: Arc<ClientConfig>,
    state: Mutex<State>,
}

/// What [`Server::new`] is made of.
pub(crate) struct ServerParts {
    pub(crate) index: usize,
    pub(crate) config: Arc<SimConfig>,
    pub(crate) trace_file: Arc<TraceFile>,
    pub(crate) power: mpsc::Sender<PowerCommand>,
    pub(crate) stop: CancellationToken,
    pub(crate) media_tls: Arc<ClientConfig>,
    pub(crate) media_tls_strict: Arc<ClientConfig>,
}

impl Server {
    pub(crate) fn new(parts: ServerParts) -> Self {
        let ServerParts {
            index,
            config,
            trace_file,
            power,
            stop,
            media_tls,
            media_tls_strict,
        } = parts;
        let folder = config.data.join(format!("server-{index}"));
        let mode = config.boot_mode.unwrap_or(config.profile.boot_mode);
        Self {
            index,
            boot: config.boot_of(index),
            mac: format!("52:54:00:{:02x}:{:02x}:{:02x}", 0x10, (index >> 8) & 0xff, index & 0xff),
            uuid: format!(
                "30363150-3730-584d-5131-{:012x}",
                0x5254_0010_0000_u64 + u64::try_from(index).unwrap_or(0)
            ),
            serial_number: format!("MXQ10{index:05}"),
            files: Files {
                disk: folder.join("disk.raw"),
                serial: folder.join("serial.log"),
                folder,
            },
            trace: Trace::new(),
            trace_file,
            power,
            agent_held: watch::Sender::new(false),
            media_changed: Notify::new(),
            stop,
            media_tls,
            media_tls_strict,
            state: Mutex::new(State {
                power: PowerState::Off,
                post: PostState::PowerOff,
                boot_override: BootOverride {
                    target: "None".into(),
                    enabled: OverrideEnabled::Disabled,
                    uefi_target: None,
                    http_uri: None,
                },
                boot_order: config.profile.boot_order.to_vec(),
                mode,
                mode_pending: None,
                bios: factory_settings(config.profile),
                bios_pending: BTreeMap::new(),
                first_device: None,
                secure_boot: false,
                secure_boot_now: false,
                slots: config.profile.slots.iter().map(|_| Slot::default()).collect(),
                ribcl: crate::ribcl::Settings::default(),
                reads: VecDeque::new(),
                tasks: VecDeque::new(),
                task_count: 0,
                sessions: Vec::new(),
                session_count: 0,
                wrong_logins: 0,
                login_refused_until: None,
                deaf_until: None,
                boots: 0,
                last_boot: None,
                agent_written: 0,
                agent_url: None,
            }),
            config,
        }
    }

    /// The BMC's state. Held for moments only, never across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is really mounted in the slot of `device`.
    pub(crate) fn medium(&self, device: Device) -> Option<Arc<Medium>> {
        let state = self.state();
        let mut inserted = state.slots.iter().filter_map(|slot| slot.inserted.as_ref());
        inserted.find(|inserted| inserted.device == device)?.medium.clone()
    }

    /// The licence as it is shown.
    pub(crate) fn licence(&self) -> &'static str {
        let licence = &self.config.profile.licence;
        if self.config.unlicensed {
            &licence.without
        } else {
            &licence.text
        }
    }

    /// Whether media by URL are covered by the licence.
    pub(crate) fn media_licensed(&self) -> bool {
        !(self.config.unlicensed && self.config.profile.licence.media)
    }

    /// Records what a boot led to.
    pub(crate) fn booted(&self, boot: LastBoot) {
        #[derive(Serialize)]
        struct Entry<'a> {
            time: String,
            server: usize,
            #[serde(flatten)]
            boot: &'a LastBoot,
        }
        self.trace_file.write(
            "boot",
            &Entry {
                time: crate::trace::now(),
                server: self.index,
                boot: &boot,
            },
        );
        self.state().last_boot = Some(boot);
    }
}

impl State {
    pub(crate) fn boot_mode(&self) -> BootMode {
        self.mode
    }

    /// The mode that the next boot will use.
    pub(crate) fn next_boot_mode(&self) -> BootMode {
        self.mode_pending.unwrap_or(self.mode)
    }

    /// Changes the mode at the next boot.
    pub(crate) fn set_next_boot_mode(&mut self, mode: BootMode) {
        self.mode_pending = (mode != self.mode).then_some(mode);
    }

    /// Remembers a task that is done, and returns its number.
    pub(crate) fn add_task(&mut self, missing: u32) -> u64 {
        if self.tasks.len() == TASKS_KEPT {
            self.tasks.pop_front();
        }
        self.task_count += 1;
        self.tasks.push_back(Task {
            id: self.task_count,
            made: crate::trace::now(),
            missing,
        });
        self.task_count
    }

    /// A clock that jumps so many seconds ahead ends the sessions that have then been idle for too long.
    pub(crate) fn skew_sessions(&mut self, expiry: Duration, seconds: i64) {
        let ahead = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        self.sessions
            .retain(|session| session.used.elapsed().saturating_add(ahead) < expiry);
    }

    pub(crate) fn remember_reads(&mut self, record: Arc<ReadRecord>) {
        if self.reads.len() == READS_KEPT {
            self.reads.pop_front();
        }
        self.reads.push_back(record);
    }

    pub(crate) fn eject(&mut self, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.inserted = None;
        }
    }

    /// What a reset of the server does to the BMC's settings, and what the firmware will try, best first.
    ///
    /// Pending BIOS settings become current, a one-time override is used up, and images that were inserted for one
    /// boot boot now or are ejected.
    pub(crate) fn begin_boot(&mut self, profile: &Profile) -> Vec<BootTarget> {
        self.boots += 1;
        self.agent_written = 0;
        self.agent_url = None;
        let pending = std::mem::take(&mut self.bios_pending);
        self.bios.extend(pending);
        if let Some(mode) = self.mode_pending.take() {
            self.mode = mode;
        }
        self.secure_boot_now = self.secure_boot && self.boot_mode() == BootMode::Uefi;
        let mut order = Vec::new();
        for slot in &mut self.slots {
            let Some(inserted) = &mut slot.inserted else {
                continue;
            };
            match inserted.boot_on_reset {
                BootOnReset::No => {}
                BootOnReset::Next | BootOnReset::Always => {
                    inserted.connect();
                    if inserted.boot_on_reset == BootOnReset::Next {
                        inserted.boot_on_reset = BootOnReset::EjectAtNext;
                    }
                    order.push(match inserted.device {
                        Device::Cd => BootTarget::Cd,
                        Device::Floppy => BootTarget::Usb,
                    });
                }
                BootOnReset::EjectAtNext => {
                    self.ribcl.spent(inserted.device);
                    slot.inserted = None;
                }
            }
        }
        if self.boot_override.enabled != OverrideEnabled::Disabled {
            let meaning = profile.boot_targets.get(&self.boot_override.target);
            order.extend(meaning.and_then(|meaning| meaning.target()));
        }
        if let (Some((value, once)), Some(names)) = (&self.first_device, &profile.redfish.boot.first_device) {
            order.extend(first_device(names, value));
            if *once {
                self.first_device = None;
            }
        }
        if self.boot_override.enabled == OverrideEnabled::Once {
            self.boot_override.enabled = OverrideEnabled::Disabled;
            self.boot_override.target = "None".into();
        }
        order.extend(&self.boot_order);
        let mut seen = Vec::new();
        order.retain(|target| {
            let new = !seen.contains(target);
            seen.push(*target);
            new
        });
        order
    }
}

/// The first value of each attribute; any text begins empty.
fn factory_settings(profile: &Profile) -> BTreeMap<String, Value> {
    let attributes = &profile.redfish.bios.attributes;
    attributes
        .iter()
        .map(|(name, values)| (name.clone(), values.first().cloned().unwrap_or_default().into()))
        .collect()
}

fn first_device(names: &crate::profile::FirstBootDevice, value: &str) -> Option<BootTarget> {
    match value {
        value if value == names.cd => Some(BootTarget::Cd),
        value if value == names.floppy => Some(BootTarget::Usb),
        "HDD" => Some(BootTarget::Hdd),
        "PXE" => Some(BootTarget::Pxe),
        "BIOS" | "F10" | "F11" => Some(BootTarget::Setup),
        _ => None,
    }
}
