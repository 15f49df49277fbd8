//! An EFI system partition for boot ISOs: the site's EFI binaries, and a small GRUB configuration that finds the ISO.
//!
//! The binaries are either a distribution's signed shim and GRUB (`EFI/BOOT/BOOTX64.EFI` = shim, `EFI/BOOT/grubx64.efi` =
//! GRUB) or one `grub-mkimage` binary. One ESP serves every boot ISO: which kernel line is booted stands on the ISO.

use bytes::Bytes;

use crate::content::Content;
use crate::fat::{FatError, FatShape, FatSpec, volume};
use crate::iso9660::MARKER_PATH;
use crate::layout::{Kind, Layout};

/// Where the small configuration is put: the places that signed GRUBs of the distributions, a plain `grub-mkimage -p
/// /EFI/BOOT` and Debian's CD GRUB look at on the volume that they were started from.
pub const GRUB_CONFIG_PATHS: [&str; 9] = [
    "EFI/BOOT/grub.cfg",
    "EFI/almalinux/grub.cfg",
    "EFI/centos/grub.cfg",
    "EFI/debian/grub.cfg",
    "EFI/fedora/grub.cfg",
    "EFI/redhat/grub.cfg",
    "EFI/rocky/grub.cfg",
    "EFI/ubuntu/grub.cfg",
    "boot/grub/grub.cfg",
];

/// An ESP to make.
#[derive(Clone, Debug)]
pub struct EspSpec {
    /// Path in the ESP (`EFI/BOOT/BOOTX64.EFI`, say) and what is there. A file at one of [`GRUB_CONFIG_PATHS`] replaces the
    /// configuration that would be put there.
    pub files: Vec<(String, Content)>,
}

/// Why an ESP cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EspError {
    /// Firmware would find nothing to start.
    #[error("the ESP has no EFI/BOOT/BOOT<arch>.EFI, which is what firmware starts from removable media")]
    NoBootFile,
    /// The volume cannot be made.
    #[error(transparent)]
    Fat(#[from] FatError),
}

/// Makes an ESP.
pub fn esp(spec: &EspSpec) -> Result<Layout, EspError> {
    if !spec.files.iter().any(|(path, _)| is_boot_file(path)) {
        return Err(EspError::NoBootFile);
    }
    let config = Content::from(Bytes::from(grub_config()));
    let is_given = |path: &str| {
        let given = |(other, _): &(String, Content)| other.trim_start_matches('/').eq_ignore_ascii_case(path);
        spec.files.iter().any(given)
    };
    let mut files = spec.files.clone();
    let configs = GRUB_CONFIG_PATHS.iter().filter(|path| !is_given(path));
    files.extend(configs.map(|path| ((*path).to_owned(), config.clone())));
    let fat = FatSpec {
        label: "ESP".to_owned(),
        files,
        size: None,
        shape: FatShape::Disk,
    };
    Ok(volume(&fat, Kind::Esp)?)
}

/// Whether firmware starts this file by itself (UEFI 2.10, 3.5.1.1).
fn is_boot_file(path: &str) -> bool {
    let path = path.trim_start_matches('/').to_ascii_lowercase();
    path.strip_prefix("efi/boot/boot")
        .is_some_and(|rest| !rest.contains('/') && rest.ends_with(".efi"))
}

/// Looks for the file that only our ISOs have, so that a kernel on a local disk is never taken for the ramdisk's.
fn grub_config() -> String {
    format!("search --no-floppy --set=root --hint cd0 --file {MARKER_PATH}\nconfigfile ($root)/boot/grub/grub.cfg\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[&str]) -> Result<Layout, EspError> {
        let files = paths
            .iter()
            .map(|path| ((*path).to_owned(), Bytes::from_static(b"MZ").into()));
        esp(&EspSpec { files: files.collect() })
    }

    #[test]
    fn an_esp_needs_a_file_that_firmware_starts() {
        for good in [
            "EFI/BOOT/BOOTX64.EFI",
            "/efi/boot/bootaa64.efi",
            "EFI/Boot/BootIA32.efi",
        ] {
            assert!(check(&[good]).is_ok(), "{good}");
        }
        for bad in [
            &[][..],
            &["BOOTX64.EFI"],
            &["EFI/BOOT/grubx64.efi"],
            &["EFI/BOOT/bootx64.efi/x.efi"],
        ] {
            assert!(matches!(check(bad), Err(EspError::NoBootFile)), "{bad:?}");
        }
    }

    #[test]
    fn a_configuration_of_the_site_takes_the_place_of_ours() {
        assert!(check(&["EFI/BOOT/BOOTX64.EFI", "efi/debian/GRUB.CFG"]).is_ok());
    }
}
