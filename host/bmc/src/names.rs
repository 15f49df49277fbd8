//! What each verb is called in errors: "10.0.0.1 refused to …". One wording for all transports.

use model::{Device, PowerAction};

pub(crate) const IDENTITY: &str = "tell who it is";
pub(crate) const POWER_STATE: &str = "tell its power state";
pub(crate) const SET_BOOT_DEVICE: &str = "set the boot device";
pub(crate) const BOOT_MODE: &str = "tell its boot mode";
pub(crate) const SET_BOOT_MODE: &str = "set the boot mode";
pub(crate) const SECURE_BOOT: &str = "tell whether secure boot is on";
pub(crate) const SET_SECURE_BOOT: &str = "switch secure boot";
pub(crate) const SET_HTTP_BOOT: &str = "set the UEFI HTTP boot URL";
pub(crate) const BOOT_SETTINGS: &str = "tell its boot settings";
pub(crate) const PRESENCE: &str = "say what it speaks";
pub(crate) const RAW: &str = "answer a raw request";

/// Begins the reason of an error that means the whole protocol, and not merely what was asked for.
pub(crate) const NO_SERVICE: &str = "no service of this kind answers at";

pub(crate) fn set_power(action: PowerAction) -> &'static str {
    match action {
        PowerAction::On => "power on",
        PowerAction::Off => "power off",
        PowerAction::SoftOff => "shut down",
        PowerAction::ForceRestart | PowerAction::SoftRestart => "restart",
    }
}

pub(crate) fn media(device: Device) -> &'static str {
    match device {
        Device::Cdrom => "tell what its virtual CD holds",
        Device::Floppy => "tell what its virtual floppy holds",
    }
}

pub(crate) fn insert(device: Device) -> &'static str {
    match device {
        Device::Cdrom => "insert the virtual CD",
        Device::Floppy => "insert the virtual floppy",
    }
}

pub(crate) fn eject(device: Device) -> &'static str {
    match device {
        Device::Cdrom => "eject the virtual CD",
        Device::Floppy => "eject the virtual floppy",
    }
}
