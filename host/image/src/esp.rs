//! An EFI system partition for boot ISOs: the site's EFI binaries, and a small GRUB configuration that finds the ISO.
//!
//! The binaries are either a distribution's signed shim and GRUB (`EFI/BOOT/BOOTX64.EFI` = shim, `EFI/BOOT/grubx64.efi` =
//! GRUB) or one `grub-mkimage` binary, of one architecture or of several. One ESP serves every boot ISO: which kernel line is
//! booted stands on the ISO.

use std::collections::BTreeSet;
use std::fmt;

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
    /// configuration that would be put there; [`esp_grub_config`] is what would be, for a file at another path.
    pub files: Vec<(String, Content)>,
}

/// Why an ESP cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EspError {
    /// Firmware would find nothing to start.
    #[error("the ESP has no EFI/BOOT/BOOT<arch>.EFI, which is what firmware starts from removable media")]
    NoBootFile,
    /// A file is not what UEFI firmware can start.
    #[error("{name:?} is no EFI binary of an architecture that is known; give the .efi file itself")]
    NotEfi {
        /// Its name.
        name: String,
    },
    /// Firmware of one architecture would find a binary of another.
    #[error("{path:?} holds a binary for {found}; put it at EFI/BOOT/{} instead", found.boot_file())]
    OtherArchitecture {
        /// The path.
        path: String,
        /// What it is for.
        found: EfiArchitecture,
    },
    /// The volume cannot be made.
    #[error(transparent)]
    Fat(#[from] FatError),
}

/// A processor architecture, as UEFI names its boot file (UEFI 2.10, 3.5.1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EfiArchitecture {
    /// 32-bit x86.
    Ia32,
    /// x86-64.
    X64,
    /// 32-bit ARM.
    Arm,
    /// 64-bit ARM.
    Aa64,
    /// 64-bit RISC-V.
    RiscV64,
    /// 64-bit LoongArch.
    LoongArch64,
}

impl EfiArchitecture {
    const ALL: [Self; 6] = [
        Self::Ia32,
        Self::X64,
        Self::Arm,
        Self::Aa64,
        Self::RiscV64,
        Self::LoongArch64,
    ];

    /// What an EFI binary is for, by its PE header (Microsoft's PE format, "COFF File Header"); `None` if it has none or one of
    /// another machine.
    pub fn of(binary: &[u8]) -> Option<Self> {
        if !binary.starts_with(b"MZ") {
            return None;
        }
        let at = u32::from_le_bytes(binary.get(60..64)?.try_into().ok()?);
        let at = usize::try_from(at).ok()?;
        let header = binary.get(at..at.checked_add(6)?)?;
        match (&header[..4], u16::from_le_bytes([header[4], header[5]])) {
            (b"PE\0\0", 0x014C) => Some(Self::Ia32),
            (b"PE\0\0", 0x8664) => Some(Self::X64),
            (b"PE\0\0", 0x01C0 | 0x01C2 | 0x01C4) => Some(Self::Arm),
            (b"PE\0\0", 0xAA64) => Some(Self::Aa64),
            (b"PE\0\0", 0x5064) => Some(Self::RiscV64),
            (b"PE\0\0", 0x6264) => Some(Self::LoongArch64),
            _ => None,
        }
    }

    /// The file in `EFI/BOOT` that firmware starts from removable media.
    pub fn boot_file(self) -> &'static str {
        match self {
            Self::Ia32 => "BOOTIA32.EFI",
            Self::X64 => "BOOTX64.EFI",
            Self::Arm => "BOOTARM.EFI",
            Self::Aa64 => "BOOTAA64.EFI",
            Self::RiscV64 => "BOOTRISCV64.EFI",
            Self::LoongArch64 => "BOOTLOONGARCH64.EFI",
        }
    }
}

impl fmt::Display for EfiArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ia32 => "32-bit x86",
            Self::X64 => "x86-64",
            Self::Arm => "32-bit ARM",
            Self::Aa64 => "64-bit ARM",
            Self::RiscV64 => "64-bit RISC-V",
            Self::LoongArch64 => "64-bit LoongArch",
        })
    }
}

/// Where these binaries belong in an ESP, by file name and content, in the order given. Of each architecture the first is what
/// firmware starts (a shim, or a loader alone), unless one is called `BOOT….EFI` already; the others keep their names beside it
/// (`grubx64.efi`, which a shim starts), without the `.signed` that Debian appends.
pub fn efi_places(binaries: &[(String, Bytes)]) -> Result<Vec<String>, EspError> {
    let mut named = Vec::new();
    for (name, bytes) in binaries {
        let architecture = EfiArchitecture::of(bytes).ok_or_else(|| EspError::NotEfi { name: name.clone() })?;
        named.push((name.strip_suffix(".signed").unwrap_or(name), architecture));
    }
    let is_boot_name = |name: &str| is_boot_file(&format!("EFI/BOOT/{name}"));
    let started = named.iter().filter(|(name, _)| is_boot_name(name));
    let mut started: BTreeSet<EfiArchitecture> = started.map(|(_, architecture)| *architecture).collect();
    let place = |(name, architecture): (&str, EfiArchitecture)| {
        let is_first = !is_boot_name(name) && started.insert(architecture);
        format!("EFI/BOOT/{}", if is_first { architecture.boot_file() } else { name })
    };
    Ok(named.into_iter().map(place).collect())
}

/// The configuration that an ESP's GRUB is given: it finds the boot ISO and goes on with the configuration there.
pub fn esp_grub_config() -> Bytes {
    grub_config().into()
}

/// Makes an ESP.
pub fn esp(spec: &EspSpec) -> Result<Layout, EspError> {
    if !spec.files.iter().any(|(path, _)| is_boot_file(path)) {
        return Err(EspError::NoBootFile);
    }
    refuse_other_architectures(spec)?;
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

/// Refuses a boot file that its firmware could not start; only what is at hand is looked at.
fn refuse_other_architectures(spec: &EspSpec) -> Result<(), EspError> {
    for (path, content) in &spec.files {
        let name = path.rsplit('/').next().unwrap_or_default();
        let named = EfiArchitecture::ALL
            .into_iter()
            .find(|architecture| is_boot_file(path) && name.eq_ignore_ascii_case(architecture.boot_file()));
        let found = match content {
            Content::Literal(bytes) => EfiArchitecture::of(bytes),
            _ => None,
        };
        if let (Some(named), Some(found)) = (named, found)
            && named != found
        {
            let path = path.clone();
            return Err(EspError::OtherArchitecture { path, found });
        }
    }
    Ok(())
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

    fn binary(machine: u16) -> Bytes {
        let mut bytes = vec![0; 200];
        bytes[..2].copy_from_slice(b"MZ");
        bytes[60] = 128;
        bytes[128..132].copy_from_slice(b"PE\0\0");
        bytes[132..134].copy_from_slice(&machine.to_le_bytes());
        bytes.into()
    }

    #[test]
    fn binaries_of_several_architectures_find_their_places() {
        let check = |binaries: &[(&str, u16)], expected: &[&str]| {
            let binaries: Vec<_> = binaries
                .iter()
                .map(|(name, machine)| ((*name).to_owned(), binary(*machine)))
                .collect();
            let places = efi_places(&binaries).unwrap();
            assert_eq!(
                places,
                expected
                    .iter()
                    .map(|place| format!("EFI/BOOT/{place}"))
                    .collect::<Vec<_>>()
            );
            let files = places
                .into_iter()
                .zip(binaries)
                .map(|(place, (_, bytes))| (place, bytes.into()));
            assert!(esp(&EspSpec { files: files.collect() }).is_ok());
        };
        check(
            &[
                ("shimx64.efi.signed", 0x8664),
                ("grubx64.efi.signed", 0x8664),
                ("shimaa64.efi", 0xAA64),
                ("grubaa64.efi", 0xAA64),
                ("grub32.efi", 0x014C),
            ],
            &[
                "BOOTX64.EFI",
                "grubx64.efi",
                "BOOTAA64.EFI",
                "grubaa64.efi",
                "BOOTIA32.EFI",
            ],
        );
        // A name that says it already wins over the order.
        check(
            &[("mmx64.efi", 0x8664), ("bootx64.efi", 0x8664)],
            &["mmx64.efi", "bootx64.efi"],
        );
        let image = ("esp.img".to_owned(), Bytes::from_static(&[0; 512]));
        assert_eq!(
            efi_places(&[image]),
            Err(EspError::NotEfi {
                name: "esp.img".to_owned()
            })
        );
    }

    #[test]
    fn a_boot_file_of_another_architecture_is_refused() {
        let files = vec![("EFI/BOOT/BOOTAA64.EFI".to_owned(), binary(0x8664).into())];
        let text = esp(&EspSpec { files }).unwrap_err().to_string();
        assert!(
            text.contains("x86-64") && text.contains("EFI/BOOT/BOOTX64.EFI"),
            "{text}"
        );
    }

    #[test]
    fn hostile_headers_are_no_binaries() {
        for bytes in [
            &b"MZ"[..],
            &[0x4D, 0x5A].repeat(40),
            &[&b"MZ"[..], &[0xFF; 100]].concat(),
        ] {
            assert_eq!(EfiArchitecture::of(bytes), None);
        }
    }

    #[test]
    fn a_configuration_of_the_site_takes_the_place_of_ours() {
        assert!(check(&["EFI/BOOT/BOOTX64.EFI", "efi/debian/GRUB.CFG"]).is_ok());
    }
}
