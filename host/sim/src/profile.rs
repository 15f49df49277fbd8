//! What is particular to one BMC model, as data.
//!
//! Only facts that differ between models are here; behaviour that every Redfish service shares is code in
//! `redfish`. Values follow HPE's Redfish reference for iLO 5 and its public mockups.

use crate::config::BootMode;

/// A BMC model.
#[derive(Debug)]
pub struct Profile {
    /// Name on the command line.
    pub name: &'static str,
    /// Server model in `Systems/1`.
    pub model: &'static str,
    /// Firmware version string in `Managers/1`.
    pub firmware: &'static str,
    /// System ROM version.
    pub bios_version: &'static str,
    /// Licence text in the service root and manager.
    pub licence: &'static str,
    /// Key of the OEM sections.
    pub oem: &'static str,
    /// `Vendor` of the service root.
    pub vendor: &'static str,
    /// Prefix of the generic messages.
    pub base_registry: &'static str,
    /// Prefix of the vendor's messages.
    pub vendor_registry: &'static str,
    /// `Server` header.
    pub server_header: &'static str,
    /// Virtual media slots in order.
    pub slots: &'static [SlotProfile],
    /// Values that `ComputerSystem.Reset` allows.
    pub reset_types: &'static [&'static str],
    /// Values of the boot override target.
    pub boot_targets: &'static [&'static str],
    /// How many sessions may exist at once.
    pub session_cap: usize,
    /// Longest image URL in characters.
    pub url_cap: usize,
    /// Order that the firmware tries when no override is set.
    pub boot_order: &'static [BootTarget],
    /// Factory firmware mode.
    pub boot_mode: BootMode,
    /// Largest single ranged read of an image in bytes.
    pub media_read: u64,
}

/// One virtual media slot.
#[derive(Debug)]
pub struct SlotProfile {
    /// Last part of its path.
    pub id: &'static str,
    /// Which device it is.
    pub device: Device,
    /// `MediaTypes`.
    pub media_types: &'static [&'static str],
    /// File name endings that the slot accepts, in lower case.
    pub endings: &'static [&'static str],
    /// Size of the first read, which learns the image's length.
    pub sector: u64,
}

/// A virtual media device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// Floppy or USB stick.
    Floppy,
    /// CD or DVD.
    Cd,
}

/// What firmware can boot from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
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

/// HPE iLO 5.
pub static ILO5: Profile = Profile {
    name: "ilo5",
    model: "ProLiant DL360 Gen10",
    firmware: "iLO 5 v2.72",
    bios_version: "U32 v2.62 (03/08/2022)",
    licence: "iLO Advanced",
    oem: "Hpe",
    vendor: "HPE",
    base_registry: "Base.1.4",
    vendor_registry: "iLO.2.14",
    server_header: "HPE-iLO-Server/1.30",
    slots: &[
        SlotProfile {
            id: "1",
            device: Device::Floppy,
            media_types: &["Floppy", "USBStick"],
            endings: &[".img", ".bin"],
            sector: 512,
        },
        SlotProfile {
            id: "2",
            device: Device::Cd,
            media_types: &["CD", "DVD"],
            endings: &[".iso"],
            sector: 2048,
        },
    ],
    reset_types: &[
        "On",
        "ForceOff",
        "GracefulShutdown",
        "ForceRestart",
        "Nmi",
        "PushPowerButton",
        "GracefulRestart",
    ],
    boot_targets: &[
        "None",
        "Cd",
        "Hdd",
        "Usb",
        "SDCard",
        "Utilities",
        "Diags",
        "BiosSetup",
        "Pxe",
        "UefiShell",
        "UefiHttp",
        "UefiTarget",
    ],
    session_cap: 16,
    url_cap: 255,
    boot_order: &[BootTarget::Cd, BootTarget::Usb, BootTarget::Hdd],
    boot_mode: BootMode::Uefi,
    media_read: 65_536,
};

impl Profile {
    /// The profile of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        [&ILO5].into_iter().find(|profile| profile.name == name)
    }
}
