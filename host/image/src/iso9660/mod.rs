//! ISO 9660 (ECMA-119) images with Rock Ridge and Joliet, and boot ISOs: El Torito for BIOS, UEFI or both.
//!
//! Kernel and ramdisk stay sources: no byte of them is read or copied here, and big files start on 4 KiB boundaries so
//! that materialising an image can reflink them. Every date is the same constant, so the same input gives the same bytes.

mod boot_config;
mod el_torito;
mod names;
mod reader;
mod records;
mod tree;
mod volume;

use std::fmt;

use bytes::Bytes;

use crate::content::{BootFile, Content, SourceFile};
use crate::layout::{Kind, Layout, LayoutError};
use crate::parameters::ParameterError;
use crate::path::PathError;
use volume::{Boot, Volume};

pub use reader::{
    IsoBootEntry, IsoEntry, IsoFile, IsoKind, IsoNames, IsoPlatform, IsoReadError, IsoSection, IsoTime, IsoVolume,
};

/// Volume label of a boot ISO; agents copy configuration from a volume of this name.
pub const BOOT_ISO_LABEL: &str = "VMEDIA_BOOT_ISO";
/// Where a boot ISO holds its kernel.
pub const KERNEL_PATH: &str = "/boot/vmlinuz";
/// Where a boot ISO holds its ramdisk.
pub const RAMDISK_PATH: &str = "/boot/initrd";
/// A file that every boot ISO has and no installed system does: a boot loader searches for it.
pub const MARKER_PATH: &str = "/boot/farrier-boot-iso";
/// Where the GRUB configuration is put besides `/boot/grub/grub.cfg`, unless asked otherwise.
pub const GRUB_CONFIG_PATH: &str = "/EFI/debian/grub.cfg";

const GRUB_CONFIG: &str = "/boot/grub/grub.cfg";
const ESP_PATH: &str = "/boot/grub/efiboot.img";
const CATALOG_PATH: &str = "/boot/boot.cat";
const ISOLINUX_PATH: &str = "/isolinux/isolinux.bin";
const LDLINUX_PATH: &str = "/isolinux/ldlinux.c32";
const ISOLINUX_CONFIG: &str = "/isolinux/isolinux.cfg";

/// Which firmware can boot an ISO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Firmware {
    /// BIOS, through isolinux.
    Bios,
    /// UEFI, through an ESP image.
    Uefi,
    /// Either.
    Both,
}

impl Firmware {
    fn bios(self) -> bool {
        self != Self::Uefi
    }

    fn uefi(self) -> bool {
        self != Self::Bios
    }
}

/// A boot ISO to make. The kernel line is `boot_method=vmedia`, then the parameters, then the kernel arguments.
///
/// UEFI firmware starts the ESP; a GRUB in it either finds [`MARKER_PATH`] and loads `/boot/grub/grub.cfg` from the ISO (the
/// configuration that [`crate::esp()`] writes), or, built by `grub-mkimage` with a configuration of its own, finds
/// [`KERNEL_PATH`] and does what it likes.
#[derive(Clone)]
pub struct BootIsoSpec {
    /// Volume label: [`BOOT_ISO_LABEL`], or `config-2` if files under `openstack/` are to be found by it.
    pub label: String,
    /// Kernel, put at [`KERNEL_PATH`].
    pub kernel: SourceFile,
    /// Ramdisk, put at [`RAMDISK_PATH`].
    pub ramdisk: SourceFile,
    /// `isolinux.bin`; needed for BIOS.
    pub isolinux: Option<BootFile>,
    /// `ldlinux.c32` of the same release; needed from isolinux 5 on.
    pub ldlinux: Option<Content>,
    /// Image of an EFI system partition; needed for UEFI.
    pub esp: Option<Content>,
    /// Where GRUB reads its configuration; it is always at `/boot/grub/grub.cfg` too.
    pub grub_config_path: String,
    /// More words for the kernel line, separated by spaces.
    pub kernel_arguments: String,
    /// Parameters for the kernel line. Values may be secret.
    pub parameters: Vec<(String, String)>,
    /// Other files, by path.
    pub files: Vec<(String, Content)>,
    /// Which firmware can boot it.
    pub firmware: Firmware,
}

impl BootIsoSpec {
    /// A boot ISO of this kernel and ramdisk, without boot loaders yet.
    pub fn new(kernel: SourceFile, ramdisk: SourceFile, firmware: Firmware) -> Self {
        Self {
            label: BOOT_ISO_LABEL.to_owned(),
            kernel,
            ramdisk,
            isolinux: None,
            ldlinux: None,
            esp: None,
            grub_config_path: GRUB_CONFIG_PATH.to_owned(),
            kernel_arguments: String::new(),
            parameters: Vec::new(),
            files: Vec::new(),
            firmware,
        }
    }
}

impl fmt::Debug for BootIsoSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.parameters.iter().map(|(key, _)| key).collect();
        f.debug_struct("BootIsoSpec")
            .field("label", &self.label)
            .field("firmware", &self.firmware)
            .field("kernel", &self.kernel)
            .field("ramdisk", &self.ramdisk)
            .field("isolinux", &self.isolinux)
            .field("ldlinux", &self.ldlinux)
            .field("esp", &self.esp)
            .field("grub_config_path", &self.grub_config_path)
            .field("parameters", &keys)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// An ISO without boot loaders to make (a config drive).
#[derive(Clone, Debug)]
pub struct IsoSpec {
    /// Volume label: at most 32 printable ASCII characters.
    pub label: String,
    /// Path and what is there. Directories are made as needed; the order does not matter.
    pub files: Vec<(String, Content)>,
}

/// Why an ISO cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsoError {
    /// A label that a volume cannot have.
    #[error("{label:?} is no ISO volume label: 1 to 32 printable ASCII characters")]
    Label {
        /// The label.
        label: String,
    },
    /// A boot loader is not there.
    #[error("a boot ISO for {firmware} needs {what}; give one, or choose other firmware")]
    BootLoaderMissing {
        /// `BIOS` or `UEFI`.
        firmware: &'static str,
        /// Which file.
        what: &'static str,
    },
    /// A file is not what its name says.
    #[error("{what} {reason}")]
    BootFile {
        /// Which file.
        what: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A parameter that the ramdisk would misread.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A word of the kernel arguments that a boot loader or the kernel would misread.
    #[error("kernel argument {argument:?} {reason}")]
    KernelArgument {
        /// The word up to its first `=`, shortened.
        argument: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More than a kernel takes.
    #[error("the kernel line has {len} characters and a kernel takes {max}; move parameters to a floppy")]
    KernelLineTooLong {
        /// Its length.
        len: usize,
        /// What fits.
        max: usize,
    },
    /// More than a kernel survives.
    #[error("the kernel line has {count} parameters, and a kernel panics over more than {max}; move some to a floppy")]
    TooManyParameters {
        /// How many there are.
        count: usize,
        /// How many may be.
        max: usize,
    },
    /// The paths do not fit together.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file of 4 GiB or more.
    #[error(
        "{path:?} has {len} bytes, and one ISO 9660 extent ends at 4294965248: files this large are not written yet"
    )]
    FileTooLarge {
        /// Its path.
        path: String,
        /// Its length.
        len: u64,
    },
    /// More sectors or directories than their numbers can count.
    #[error("the ISO would be larger than 8 TiB or have more than 65535 directories")]
    TooLarge,
    /// The extents do not add up to an image.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

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

/// Makes a boot ISO.
pub fn boot_iso(spec: &BootIsoSpec) -> Result<Layout, IsoError> {
    let line = boot_config::kernel_line(&spec.parameters, &spec.kernel_arguments)?;
    let kernel = Content::from(spec.kernel);
    let ramdisk = Content::from(spec.ramdisk);
    for (what, content) in [("the kernel", &kernel), ("the ramdisk", &ramdisk)] {
        if content.is_empty() {
            return Err(IsoError::BootFile {
                what,
                reason: "is empty",
            });
        }
    }
    let literal = |text: String| Content::from(Bytes::from(text));
    let marker = literal("A boot ISO made by Farrier.\n".to_owned());
    let catalog = Content::from(Bytes::from_static(&[0; el_torito::CATALOG_BYTES]));
    let isolinux_config = literal(boot_config::isolinux(&line));
    let grub_config = literal(boot_config::grub(&line));
    let bios = if spec.firmware.bios() {
        Some(el_torito::bios_loader(spec)?)
    } else {
        None
    };
    let bios_content = bios.map(|file| Content::from(file.bytes.clone()));
    let mut files = vec![
        (KERNEL_PATH, &kernel),
        (RAMDISK_PATH, &ramdisk),
        (MARKER_PATH, &marker),
        (CATALOG_PATH, &catalog),
    ];
    if let Some(content) = &bios_content {
        files.push((ISOLINUX_PATH, content));
        files.push((ISOLINUX_CONFIG, &isolinux_config));
        files.extend(spec.ldlinux.as_ref().map(|content| (LDLINUX_PATH, content)));
    }
    if spec.firmware.uefi() {
        files.push((ESP_PATH, el_torito::esp(spec)?));
        files.push((GRUB_CONFIG, &grub_config));
        let other = spec.grub_config_path.trim_start_matches('/');
        if other != GRUB_CONFIG.trim_start_matches('/') {
            files.push((other, &grub_config));
        }
    }
    files.extend(spec.files.iter().map(|(path, content)| (path.as_str(), content)));
    volume::write(&Volume {
        kind: Kind::BootIso,
        label: &spec.label,
        files,
        boot: Some(Boot {
            catalog: CATALOG_PATH,
            bios: bios.map(|file| (ISOLINUX_PATH, file)),
            uefi: spec.firmware.uefi().then_some(ESP_PATH),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Sha256;
    use proptest::prelude::*;

    fn source(byte: u8, len: u64) -> SourceFile {
        SourceFile {
            sha256: Sha256([byte; 32]),
            len,
        }
    }

    fn spec(firmware: Firmware) -> BootIsoSpec {
        let mut isolinux = vec![0x90; 4096];
        isolinux[200..208].copy_from_slice(b"ISOLINUX");
        let mut spec = BootIsoSpec::new(source(1, 12_000_001), source(2, 512 << 20), firmware);
        spec.isolinux = Some(Bytes::from(isolinux).into());
        spec.esp = Some(source(3, 4 << 20).into());
        spec
    }

    #[test]
    fn a_missing_boot_loader_is_named() {
        let check = |firmware, change: fn(&mut BootIsoSpec), expected: &str| {
            let mut spec = spec(firmware);
            change(&mut spec);
            let text = boot_iso(&spec).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        };
        check(Firmware::Both, |spec| spec.isolinux = None, "BIOS needs isolinux.bin");
        check(
            Firmware::Both,
            |spec| spec.esp = None,
            "UEFI needs an EFI system partition image",
        );
        check(Firmware::Bios, |spec| spec.isolinux = None, "BIOS needs isolinux.bin");
        check(
            Firmware::Uefi,
            |spec| spec.esp = None,
            "UEFI needs an EFI system partition image",
        );
        let needs_ldlinux: fn(&mut BootIsoSpec) = |spec| {
            let mut bytes = spec.isolinux.take().unwrap().bytes.to_vec();
            bytes[300..311].copy_from_slice(b"ldlinux.c32");
            spec.isolinux = Some(Bytes::from(bytes).into());
        };
        check(Firmware::Bios, needs_ldlinux, "ldlinux.c32");
        check(
            Firmware::Bios,
            |spec| spec.isolinux = Some(Bytes::from_static(&[0; 4096]).into()),
            "isolinux.bin does not name",
        );
        check(
            Firmware::Uefi,
            |spec| spec.esp = Some(Bytes::from_static(&[0; 4096]).into()),
            "no boot sector",
        );
        check(Firmware::Uefi, |spec| spec.kernel.len = 0, "the kernel is empty");
    }

    #[test]
    fn one_firmware_does_without_the_boot_loader_of_the_other() {
        let mut bios = spec(Firmware::Bios);
        bios.esp = None;
        assert!(boot_iso(&bios).is_ok());
        let mut uefi = spec(Firmware::Uefi);
        uefi.isolinux = None;
        assert!(boot_iso(&uefi).is_ok());
    }

    #[test]
    fn no_byte_of_kernel_or_ramdisk_is_a_literal_and_both_start_at_4k() {
        let layout = boot_iso(&spec(Firmware::Both)).unwrap();
        let mut at = 0;
        let mut whole = Vec::new();
        let mut literal = 0;
        for extent in layout.extents() {
            match extent {
                crate::Extent::Source { sha256, offset: 0, len } => {
                    assert_eq!(at % 4096, 0, "{extent:?} at {at}");
                    whole.push((sha256.0[0], *len));
                }
                crate::Extent::Literal(bytes) => literal += bytes.len(),
                _ => {}
            }
            at += extent.len();
        }
        whole.sort_unstable();
        assert_eq!(whole, [(1, 12_000_001), (2, 512 << 20), (3, 4 << 20)]);
        assert!(literal < 20_000, "{literal}");
    }

    #[test]
    fn what_iso_9660_cannot_hold_is_refused() {
        let mut large = spec(Firmware::Uefi);
        large.ramdisk.len = 5 << 30;
        assert!(matches!(boot_iso(&large), Err(IsoError::FileTooLarge { len, .. }) if len == 5 << 30));
        for label in ["", "ü", &"x".repeat(33), "a\n"] {
            let mut labelled = spec(Firmware::Uefi);
            labelled.label = label.to_owned();
            assert!(matches!(boot_iso(&labelled), Err(IsoError::Label { .. })), "{label}");
        }
        for path in [
            "boot/vmlinuz",
            "/boot/vmlinuz",
            "boot/vmlinuz/x",
            "isolinux/isolinux.cfg",
            "../x",
        ] {
            let mut taken = spec(Firmware::Both);
            taken.files = vec![(path.to_owned(), Bytes::new().into())];
            assert!(matches!(boot_iso(&taken), Err(IsoError::Path(_))), "{path}");
        }
    }

    #[test]
    fn debug_shows_no_value() {
        let mut secret = spec(Firmware::Both);
        secret.parameters = vec![("ipa-agent-token".into(), "hunter2".into())];
        secret.kernel_arguments = "token=hunter2".into();
        let text = format!("{secret:?}");
        assert!(text.contains("ipa-agent-token") && !text.contains("hunter2"), "{text}");
    }

    proptest! {
        #[test]
        fn same_input_same_image_in_whatever_order_files_come(
            names in prop::collection::btree_map("[a-zA-Z.ü ]{1,80}x", 0..200_000u64, 0..20),
            parameter in "[!#-&(-\\[\\]-~]{0,60}",
        ) {
            let mut spec = spec(Firmware::Both);
            spec.files = names.into_iter().map(|(name, len)| (format!("d/{name}"), source(9, len).into())).collect();
            spec.parameters = vec![("key".to_owned(), parameter)];
            let first = boot_iso(&spec).unwrap();
            spec.files.reverse();
            prop_assert_eq!(boot_iso(&spec).unwrap(), first.clone());
            spec.parameters[0].1.push('x');
            prop_assert_ne!(boot_iso(&spec).unwrap().digest(), first.digest());
        }
    }
}
