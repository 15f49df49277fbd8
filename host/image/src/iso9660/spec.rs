//! What an ISO is made of.

use std::fmt;

use bytes::Bytes;

use crate::content::{BootFile, Content, SourceFile};

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

/// Which firmware can boot an ISO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Firmware {
    /// BIOS, through isolinux or GRUB.
    Bios,
    /// UEFI, through an ESP image.
    Uefi,
    /// Either.
    Both,
}

impl Firmware {
    pub(super) fn bios(self) -> bool {
        self != Self::Uefi
    }

    pub(super) fn uefi(self) -> bool {
        self != Self::Bios
    }
}

/// What makes an ISO boot from a USB stick or a disk too: a GPT with its protective MBR in the system area, and the GPT's
/// backup at the end of the image. As a CD it boots as before.
///
/// UEFI firmware finds the ESP in the GPT. A BIOS runs [`Hybrid::mbr`].
#[derive(Clone, Default)]
pub struct Hybrid {
    /// Code for the first sector, for a BIOS: `isohdpfx.bin` with isolinux, `boot_hybrid.img` with GRUB, of the release that
    /// the loader has. Without it, a BIOS that boots the stick goes on with the next device.
    pub mbr: Option<Bytes>,
}

impl fmt::Debug for Hybrid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hybrid({:?} bytes)", self.mbr.as_ref().map(Bytes::len))
    }
}

/// A boot ISO to make. The kernel line is `boot_method=vmedia`, then the parameters, then the kernel arguments.
///
/// UEFI firmware starts the ESP; a GRUB in it either finds [`MARKER_PATH`] and loads `/boot/grub/grub.cfg` from the ISO (the
/// configuration that [`crate::esp()`] writes), or, built by `grub-mkimage` with a configuration of its own, finds
/// [`KERNEL_PATH`] and does what it likes.
///
/// For BIOS there is either isolinux or GRUB; giving both is an error.
#[derive(Clone)]
pub struct BootIsoSpec {
    /// Volume label: [`BOOT_ISO_LABEL`], or `config-2` if files under `openstack/` are to be found by it.
    pub label: String,
    /// Kernel, put at [`KERNEL_PATH`].
    pub kernel: SourceFile,
    /// Ramdisk, put at [`RAMDISK_PATH`].
    pub ramdisk: SourceFile,
    /// `isolinux.bin`, for BIOS.
    pub isolinux: Option<BootFile>,
    /// `ldlinux.c32` of the same release; needed from isolinux 5 on.
    pub ldlinux: Option<Content>,
    /// GRUB for BIOS, instead of isolinux: what `grub-mkimage -O i386-pc-eltorito -p /boot/grub` makes, with at least the
    /// modules biosdisk, iso9660, normal, configfile, search, search_fs_file and linux.
    pub grub_bios: Option<BootFile>,
    /// Image of an EFI system partition; needed for UEFI. It may start several architectures.
    pub esp: Option<Content>,
    /// Where GRUB reads its configuration; it is always at `/boot/grub/grub.cfg` too.
    pub grub_config_path: String,
    /// More words for the kernel line, separated by spaces.
    pub kernel_arguments: String,
    /// Parameters for the kernel line. Values may be secret.
    pub parameters: Vec<(String, String)>,
    /// Other files, by path. None may take the place of a boot file.
    pub files: Vec<(String, Content)>,
    /// Which firmware can boot it.
    pub firmware: Firmware,
    /// Whether it boots from a USB stick too.
    pub hybrid: Option<Hybrid>,
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
            grub_bios: None,
            esp: None,
            grub_config_path: GRUB_CONFIG_PATH.to_owned(),
            kernel_arguments: String::new(),
            parameters: Vec::new(),
            files: Vec::new(),
            firmware,
            hybrid: None,
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
            .field("grub_bios", &self.grub_bios)
            .field("esp", &self.esp)
            .field("grub_config_path", &self.grub_config_path)
            .field("parameters", &keys)
            .field("files", &self.files)
            .field("hybrid", &self.hybrid)
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
