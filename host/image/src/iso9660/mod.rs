//! ISO 9660 (ECMA-119) images with Rock Ridge and Joliet, and boot ISOs: El Torito for BIOS, UEFI or both, and where asked a
//! partition table, so that a USB stick with the image boots too.
//!
//! Kernel and ramdisk stay sources: no byte of them is read or copied here, and big files start on 4 KiB boundaries so
//! that materialising an image can reflink them. Every date is the same constant, so the same input gives the same bytes.

mod boot_config;
mod boot_iso;
mod el_torito;
mod error;
mod hybrid;
mod names;
mod patch;
mod reader;
mod records;
mod spec;
mod tree;
mod volume;

#[cfg(test)]
mod tests;

use crate::layout::{Kind, Layout};
use volume::Volume;

pub use boot_iso::boot_iso;
pub use error::IsoError;
pub use patch::{IsoPatch, PatchError, PatchedFile, PatchedHow, PatchedIso, patch_iso};
pub use reader::{
    IsoBootEntry, IsoEntry, IsoFile, IsoKind, IsoNames, IsoPlatform, IsoReadError, IsoSection, IsoTime, IsoVolume,
};
pub use spec::{
    BOOT_ISO_LABEL, BootIsoSpec, Firmware, GRUB_CONFIG_PATH, Hybrid, IsoSpec, KERNEL_PATH, MARKER_PATH, RAMDISK_PATH,
};

/// Makes an ISO without boot loaders.
pub fn iso(spec: &IsoSpec) -> Result<Layout, IsoError> {
    volume::write(&Volume {
        kind: Kind::Iso,
        label: &spec.label,
        files: spec
            .files
            .iter()
            .map(|(path, content)| (path.as_str(), content))
            .collect(),
        boot: None,
    })
}
