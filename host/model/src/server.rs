//! A physical server as its BMC shows it.

use std::fmt;

/// Where a BMC is reached: an origin (`https://10.1.2.3` or with a port), never with credentials in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BmcAddress(pub String);

impl fmt::Display for BmcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Power as the BMC reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerState {
    /// Running.
    On,
    /// Off.
    Off,
    /// In between, or the BMC does not say.
    Unknown,
}

/// An absolute power request; a reset is `Off`, then `On`, where it must be repeatable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerAction {
    /// Power on; already on is a success.
    On,
    /// Power off at once; already off is a success.
    Off,
    /// Ask the operating system to shut down.
    SoftOff,
    /// Reset at once.
    ForceRestart,
    /// Ask the operating system to restart.
    SoftRestart,
}

/// Firmware mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BootMode {
    /// Legacy BIOS.
    Bios,
    /// UEFI.
    Uefi,
}

impl BootMode {
    /// Ironic's spelling (`boot_mode` capability).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bios => "bios",
            Self::Uefi => "uefi",
        }
    }
}

/// What a server can be told to boot from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BootDevice {
    /// The virtual CD.
    Cdrom,
    /// The virtual floppy or USB stick.
    Floppy,
    /// The first disk.
    Disk,
    /// PXE.
    Network,
    /// UEFI HTTP boot.
    UefiHttp,
}

/// A virtual media device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Device {
    /// Virtual floppy or USB stick.
    Floppy,
    /// Virtual CD.
    Cdrom,
}

impl Device {
    /// `floppy` or `cdrom`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Floppy => "floppy",
            Self::Cdrom => "cdrom",
        }
    }
}

/// What a virtual media device holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Media {
    /// Something is in the slot.
    pub inserted: bool,
    /// The server sees it (Redfish `ConnectedVia` other than `NotConnected`).
    pub connected: bool,
    /// The server cannot write to it.
    pub write_protected: bool,
    /// What the BMC says it holds.
    pub url: Option<String>,
}

/// What a BMC says of itself and its server. Every text is as the BMC gave it, cut to a sane length.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerIdentity {
    /// "HPE".
    pub vendor: Option<String>,
    /// "ProLiant DL360 Gen10".
    pub model: Option<String>,
    /// Serial number of the server.
    pub serial: Option<String>,
    /// "iLO 5".
    pub bmc_model: Option<String>,
    /// Generation of the iLO, where it is one.
    pub bmc_generation: Option<u32>,
    /// Firmware version of the BMC.
    pub bmc_firmware: Option<String>,
    /// Licence of the BMC ("iLO Advanced").
    pub bmc_license: Option<String>,
    /// MAC addresses of the server's network ports.
    pub macs: Vec<crate::MacAddress>,
}
