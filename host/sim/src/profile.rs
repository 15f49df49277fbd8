//! What is particular to one BMC model, as data: one file under `profiles/` a model, read by code that knows no model.
//!
//! A profile may say `like = "NAME"` and then holds only what differs from that one. What no file mentions is a plain
//! implementation that keeps to the schema. Sources are vendors' documentation, public mock-ups and recorded exchanges; a
//! comment in the file marks what is unproven.

mod embedded;
mod media;
mod redfish;
mod ribcl;

use serde::{Deserialize, Serialize};

use crate::config::BootMode;

pub(crate) use media::{FirstRead, MediaClient, RangeForm};
pub(crate) use redfish::{
    BootPlace, EtagKind, FirstBootDevice, IfMatch, InsertWay, Meaning, MediaPlace, Oem, RedfishFacts, Slash, Success,
};
pub(crate) use ribcl::{BootForm, BootModes, RibclFacts, SyntaxForm};

/// A BMC model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    /// Name on the command line.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// What it speaks. What is not here answers as if it had never been.
    pub protocols: Vec<Protocol>,
    /// Which TLS it offers.
    #[serde(default)]
    pub tls: TlsFacts,
    /// Who made it.
    pub vendor: String,
    /// Server model.
    pub model: String,
    /// What the BMC is called.
    pub bmc_model: String,
    /// Firmware version of the BMC as it is shown.
    pub firmware: String,
    /// System ROM version.
    pub bios_version: String,
    /// The licence.
    #[serde(default)]
    pub licence: Licence,
    /// Virtual media slots in order.
    pub slots: Vec<SlotProfile>,
    /// Which image URLs it takes.
    #[serde(default)]
    pub url: UrlRules,
    /// How it reads an image.
    #[serde(default)]
    pub media_client: MediaClient,
    /// Values that a reset takes.
    pub reset_types: Vec<String>,
    /// Values of the boot override target, and what the firmware does for each.
    pub boot_targets: std::collections::BTreeMap<String, BootMeaning>,
    /// Order that the firmware tries when no override is set.
    #[serde(default = "boot_order")]
    pub boot_order: Vec<BootTarget>,
    /// Factory firmware mode.
    #[serde(default = "uefi")]
    pub boot_mode: BootMode,
    /// How many sessions may exist at once.
    #[serde(default = "sessions")]
    pub session_cap: usize,
    /// How it speaks Redfish, and RIS as far as the two are alike.
    #[serde(default)]
    pub redfish: RedfishFacts,
    /// How it speaks RIBCL.
    #[serde(default)]
    pub ribcl: RibclFacts,
}

/// A protocol that a BMC is spoken to by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Redfish at `/redfish/v1`.
    Redfish,
    /// HPE's forerunner of it at `/rest/v1`.
    Ris,
    /// HPE's XML over HTTPS POST to `/ribcl`.
    Ribcl,
    /// The same XML straight on the TLS connection.
    RibclRaw,
}

/// Which TLS a BMC offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TlsFacts {
    /// Protocol versions and ciphers.
    #[serde(default)]
    pub offer: TlsOffer,
}

/// Protocol versions and ciphers of a BMC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsOffer {
    /// TLS 1.2 and 1.3 with forward secrecy.
    #[default]
    Modern,
    /// TLS 1.0 and 1.1 with RSA key exchange and the ciphers of that time.
    Legacy,
    /// TLS 1.0 alone, and a key of 1024 bits.
    Oldest,
}

/// The licence of a BMC.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Licence {
    /// As it is shown; empty where BMCs have none.
    pub text: String,
    /// What is shown when it is missing.
    pub without: String,
    /// Whether media by URL need it.
    pub media: bool,
}

/// One virtual media slot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SlotProfile {
    /// Last part of its path.
    pub id: String,
    /// `MediaTypes`.
    pub media_types: Vec<String>,
    /// File name endings that the slot accepts, in lower case; empty: any.
    #[serde(default)]
    pub endings: Vec<String>,
    /// Whether it takes an image by URL at all, or a remote console's only.
    #[serde(default = "yes")]
    pub by_url: bool,
}

/// Which image URLs a BMC takes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct UrlRules {
    /// Longest in characters.
    pub longest: usize,
    /// In lower case.
    pub schemes: Vec<String>,
    /// Characters that may not occur in it.
    pub forbidden: String,
    /// Whether it may hold a user and a password.
    pub credentials: bool,
}

impl Default for UrlRules {
    fn default() -> Self {
        Self {
            longest: 2048,
            schemes: vec!["http".into(), "https".into()],
            forbidden: String::new(),
            credentials: true,
        }
    }
}

/// A virtual media device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// Floppy or USB stick.
    Floppy,
    /// CD or DVD.
    Cd,
}

/// What firmware can boot from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootTarget {
    /// The virtual CD.
    Cd,
    /// The virtual floppy or USB stick.
    Usb,
    /// The system disk.
    Hdd,
    /// The network, if [`crate::SimConfig::bootfile`] is there to be booted.
    Pxe,
    /// Firmware set-up or shell: boots nothing.
    Setup,
}

/// What the firmware does for a value of the boot override target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BootMeaning {
    /// Boots the virtual CD.
    Cd,
    /// Boots the virtual floppy or USB stick.
    Usb,
    /// Boots the system disk.
    Hdd,
    /// Boots the network.
    Pxe,
    /// Enters set-up or a shell.
    Setup,
    /// Looks for something that these servers do not have, such as a drive in the chassis, and goes on by its order.
    Absent,
    /// No override.
    None,
}

impl BootMeaning {
    /// What is booted first.
    pub fn target(self) -> Option<BootTarget> {
        match self {
            Self::Cd => Some(BootTarget::Cd),
            Self::Usb => Some(BootTarget::Usb),
            Self::Hdd => Some(BootTarget::Hdd),
            Self::Pxe => Some(BootTarget::Pxe),
            Self::Setup => Some(BootTarget::Setup),
            Self::Absent | Self::None => None,
        }
    }
}

impl Profile {
    /// Whether it is spoken to by this.
    pub fn speaks(&self, protocol: Protocol) -> bool {
        self.protocols.contains(&protocol)
    }

    /// The first slot that takes images for a device.
    pub fn slot_for(&self, device: Device) -> Option<usize> {
        self.slots.iter().position(|slot| slot.by_url && slot.takes(device))
    }
}

impl SlotProfile {
    /// Whether it can be this device.
    pub fn takes(&self, device: Device) -> bool {
        let kinds: &[&str] = match device {
            Device::Cd => &["CD", "DVD"],
            Device::Floppy => &["Floppy", "USBStick"],
        };
        self.media_types.iter().any(|kind| kinds.contains(&kind.as_str()))
    }

    /// Which device an image makes of it: what it is, or what the image's name says where it can be both.
    pub fn device_for(&self, image: &str) -> Device {
        match (self.takes(Device::Cd), self.takes(Device::Floppy)) {
            (true, true) if !image.to_ascii_lowercase().ends_with(".iso") => Device::Floppy,
            (false, _) => Device::Floppy,
            (true, _) => Device::Cd,
        }
    }
}

fn boot_order() -> Vec<BootTarget> {
    vec![BootTarget::Cd, BootTarget::Usb, BootTarget::Hdd]
}

fn uefi() -> BootMode {
    BootMode::Uefi
}

fn sessions() -> usize {
    16
}

fn yes() -> bool {
    true
}
