//! What a caller decides about the simulated servers. Facts about a BMC model live in [`crate::Profile`].

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::SimError;
use crate::faults::Faults;
use crate::profile::Profile;

/// Everything [`crate::start`] needs.
#[derive(Clone)]
pub struct SimConfig {
    /// How many servers; 1 to 10 000.
    pub servers: usize,
    /// Server `i` listens on port + `i`; with port 0 each takes a free port.
    pub listen: SocketAddr,
    /// Name of the one BMC account.
    pub user: String,
    /// Its password.
    pub password: String,
    /// How server `i` boots: entry `i`, or the last entry for all servers past the end.
    pub boot: Vec<BootKind>,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// Where to append one JSON line per BMC request and per boot.
    pub trace: Option<PathBuf>,
    /// Folder for disks, serial logs and the CA certificate; one sub-folder per server.
    pub data: PathBuf,
    /// Which BMC is simulated.
    pub profile: &'static Profile,
    /// Firmware mode at first power-on; `None` takes the profile's factory setting.
    pub boot_mode: Option<BootMode>,
    /// Whether the licence that media by URL need is missing.
    pub unlicensed: bool,
    /// Check an https image server's certificate even when the client sent none with the insert.
    pub verify_media_tls: bool,
    /// Whether a protocol agent serves https with a certificate of its own and sends that as `agent_verify_ca`.
    pub agent_tls: bool,
    /// Whether the servers are switched on at the start.
    pub powered_on: bool,
    /// URL of the script that DHCP names to network cards, all of which have iPXE; guests of QEMU see this host as 10.0.2.2. At
    /// most 127 characters. `None`: nothing answers on the network.
    pub bootfile: Option<String>,
    /// Capacity of each system disk in bytes.
    pub disk_bytes: u64,
    /// How long things take.
    pub timing: Timing,
}

/// How long the simulated machines take.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Length of POST of a protocol server.
    pub post: Duration,
    /// How long an operating system takes to shut down when asked to.
    pub shutdown: Duration,
    /// How long a booted agent waits before it first calls in.
    pub agent_delay: Duration,
    /// Longest wait between heartbeats of the agent, whatever the conductor says.
    pub heartbeat_cap: Duration,
    /// Idle time after which a Redfish session ends.
    pub session_expiry: Duration,
    /// How long a BMC is deaf after it resets itself.
    pub bmc_reset: Duration,
    /// How long one ranged read of an image may take.
    pub media_read: Duration,
    /// How long further logins are refused after the third wrong password.
    pub login_delay: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            post: Duration::from_millis(300),
            shutdown: Duration::from_millis(100),
            agent_delay: Duration::ZERO,
            heartbeat_cap: Duration::from_secs(1),
            session_expiry: Duration::from_secs(1800),
            bmc_reset: Duration::from_millis(500),
            media_read: Duration::from_secs(20),
            login_delay: Duration::from_secs(5),
        }
    }
}

/// What stands behind a simulated BMC.
#[derive(Clone, Debug)]
pub enum BootKind {
    /// No CPU: the firmware's reads and the deploy agent's traffic are made by the simulator.
    Protocol,
    /// A real `qemu-system-x86_64`.
    Qemu(QemuConfig),
}

/// How to run QEMU.
#[derive(Clone, Debug)]
pub struct QemuConfig {
    /// The `qemu-system-x86_64` binary.
    pub binary: PathBuf,
    /// Folders for `-L`: firmware and ROM files.
    pub firmware_dirs: Vec<PathBuf>,
    /// Extra environment for QEMU, e.g. `LD_LIBRARY_PATH` of an unpacked package.
    pub environment: Vec<(String, String)>,
    /// OVMF code image; without it UEFI boots fail.
    pub ovmf_code: Option<PathBuf>,
    /// OVMF variable store template, copied for each server.
    pub ovmf_vars: Option<PathBuf>,
    /// Use KVM. Off unless asked for: on some hosts `/dev/kvm` answers and does not work.
    pub kvm: bool,
    /// Memory of the guest in MiB.
    pub memory_mib: u32,
    /// What the floppy slot becomes.
    pub floppy: FloppyDevice,
}

/// What an image in the floppy slot is to a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloppyDevice {
    /// A USB disk, as an iLO shows it; the guest needs xHCI and usb-storage.
    Usb,
    /// A virtio disk, for kernels without USB.
    VirtioBlk,
}

/// Firmware mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootMode {
    /// UEFI.
    Uefi,
    /// Legacy BIOS.
    LegacyBios,
}

impl SimConfig {
    /// One protocol iLO 5 on a free loopback port, switched off, with nothing going wrong.
    pub fn new(data: impl Into<PathBuf>, user: &str, password: &str) -> Self {
        Self {
            servers: 1,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            user: user.to_owned(),
            password: password.to_owned(),
            boot: vec![BootKind::Protocol],
            faults: Faults::none(),
            trace: None,
            data: data.into(),
            profile: Profile::ilo5(),
            boot_mode: None,
            unlicensed: false,
            verify_media_tls: false,
            agent_tls: false,
            powered_on: false,
            bootfile: None,
            disk_bytes: 4 << 30,
            timing: Timing::default(),
        }
    }

    pub(crate) fn boot_of(&self, server: usize) -> BootKind {
        self.boot
            .get(server)
            .or(self.boot.last())
            .cloned()
            .unwrap_or(BootKind::Protocol)
    }

    pub(crate) fn check(&self) -> Result<(), SimError> {
        if self.servers == 0 || self.servers > 10_000 {
            return Err(SimError::Config(format!(
                "{} servers asked for; between 1 and 10000 are possible",
                self.servers
            )));
        }
        if self.user.is_empty() || self.password.is_empty() {
            return Err(SimError::Config(
                "the BMC account needs a user name and a password".into(),
            ));
        }
        let last = self.servers - 1;
        if self.listen.port() != 0 && usize::from(u16::MAX - self.listen.port()) < last {
            return Err(SimError::Config(format!(
                "{} servers from port {} on run past port 65535",
                self.servers,
                self.listen.port()
            )));
        }
        // The field of a BOOTP reply (RFC 951) has 128 bytes with the zero at its end.
        if let Some(bootfile) = &self.bootfile
            && (bootfile.len() > 127 || bootfile.contains(','))
        {
            return Err(SimError::Config(
                "the boot file's URL must have at most 127 characters and no comma, or no DHCP reply carries it".into(),
            ));
        }
        if self.disk_bytes < 512 {
            return Err(SimError::Config(
                "a system disk needs at least one sector of 512 bytes".into(),
            ));
        }
        Ok(())
    }
}

impl QemuConfig {
    /// QEMU at `binary` with firmware from `firmware_dirs`, TCG, 512 MiB and a USB floppy.
    pub fn new(binary: impl Into<PathBuf>, firmware_dirs: Vec<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            firmware_dirs,
            environment: Vec::new(),
            ovmf_code: None,
            ovmf_vars: None,
            kvm: false,
            memory_mib: 512,
            floppy: FloppyDevice::Usb,
        }
    }
}

impl fmt::Debug for SimConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimConfig")
            .field("servers", &self.servers)
            .field("listen", &self.listen)
            .field("user", &self.user)
            .field("profile", &self.profile.name)
            .field("data", &self.data)
            .finish_non_exhaustive()
    }
}
