//! `farrier image iso`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ArgGroup;
use image::{
    BOOT_ISO_LABEL, BootFile, BootIsoSpec, FatVolume, Firmware, GRUB_CONFIG_PATH, Hybrid, SourceFile, SourceSet as _,
};

use super::inputs::{Inputs, Placed, parameter};
use super::{Build, Built, esp};

#[derive(Clone, Copy, clap::ValueEnum)]
enum Mode {
    Bios,
    Uefi,
    Both,
}

#[derive(clap::Args)]
#[command(group(ArgGroup::new("boot loader").args(["isolinux", "grub_bios", "esp", "efi"]).required(true).multiple(true)))]
#[command(group(ArgGroup::new("BIOS loader").args(["isolinux", "grub_bios"])))]
#[command(group(ArgGroup::new("UEFI loader").args(["esp", "efi"])))]
pub(crate) struct Args {
    /// Linux kernel
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// Its initial ramdisk
    #[arg(long, value_name = "FILE")]
    ramdisk: PathBuf,
    /// isolinux.bin, for BIOS (Debian: /usr/lib/ISOLINUX/isolinux.bin)
    #[arg(long, value_name = "FILE")]
    isolinux: Option<PathBuf>,
    /// ldlinux.c32 of the same release; default: beside isolinux.bin, or where distributions put it
    #[arg(long, value_name = "FILE", requires = "isolinux")]
    ldlinux: Option<PathBuf>,
    /// GRUB for BIOS, instead of isolinux: made by `grub-mkimage -O i386-pc-eltorito -p /boot/grub`
    #[arg(long, value_name = "FILE")]
    grub_bios: Option<PathBuf>,
    /// Image of an EFI system partition, for UEFI (`farrier image esp` makes one)
    #[arg(long, value_name = "FILE")]
    esp: Option<PathBuf>,
    /// EFI binaries, to make the EFI system partition of: as `farrier image esp --efi` takes them
    ///
    /// For several architectures, one loader for each: BOOTX64.EFI, BOOTAA64.EFI and so on.
    #[arg(long, value_name = "FILE[:PATH]", num_args = 1..)]
    efi: Vec<String>,
    /// Boots from a USB stick and from a disk too
    #[arg(long)]
    hybrid: bool,
    /// What a BIOS runs from the stick (isohdpfx.bin, GRUB's boot_hybrid.img); default: that of the loader, where
    /// distributions put it
    #[arg(long, value_name = "FILE", requires = "BIOS loader")]
    mbr: Option<PathBuf>,
    /// Where GRUB looks for its configuration, besides /boot/grub/grub.cfg
    #[arg(long, value_name = "PATH", default_value = GRUB_CONFIG_PATH)]
    grub_config: String,
    /// A parameter on the kernel line; may be repeated
    #[arg(long = "param", value_name = "K=V", value_parser = parameter)]
    params: Vec<(String, String)>,
    /// More words for the kernel line, as in "console=ttyS0 quiet"
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    append: String,
    /// Volume label, at most 32 characters
    #[arg(long, default_value = BOOT_ISO_LABEL)]
    label: String,
    /// Which firmware can boot it; default: what the boot loaders given allow
    #[arg(long, value_enum, requires_ifs = [
        ("bios", "BIOS loader"), ("uefi", "UEFI loader"), ("both", "BIOS loader"), ("both", "UEFI loader"),
    ])]
    firmware: Option<Mode>,
    /// Another file or folder and its path in the ISO; may be repeated
    #[arg(long = "file", value_name = "SRC:DST")]
    files: Vec<Placed>,
}

impl Build for Args {
    fn build(&self, inputs: &mut Inputs) -> Result<Built> {
        let bios = self.isolinux.is_some() || self.grub_bios.is_some();
        let uefi = self.esp.is_some() || !self.efi.is_empty();
        let firmware = match (self.firmware, bios, uefi) {
            (Some(Mode::Both), ..) | (None, true, true) => Firmware::Both,
            (Some(Mode::Uefi), ..) | (None, false, _) => Firmware::Uefi,
            (Some(Mode::Bios), ..) | (None, true, false) => Firmware::Bios,
        };
        let kernel = inputs.source("--kernel", &self.kernel)?;
        let ramdisk = inputs.source("--ramdisk", &self.ramdisk)?;
        let mut spec = BootIsoSpec::new(kernel, ramdisk, firmware);
        spec.label.clone_from(&self.label);
        spec.kernel_arguments.clone_from(&self.append);
        spec.parameters.clone_from(&self.params);
        spec.files = inputs.placed(&self.files)?;
        if let Some(isolinux) = &self.isolinux {
            spec.isolinux = Some(BootFile::from(inputs.small_file("--isolinux", isolinux)?));
            if let Some(ldlinux) = self.ldlinux.clone().or_else(|| find_ldlinux(isolinux)) {
                spec.ldlinux = Some(inputs.small_file("--ldlinux", &ldlinux)?.into());
            }
        }
        if let Some(grub) = &self.grub_bios {
            spec.grub_bios = Some(BootFile::from(inputs.small_file("--grub-bios", grub)?));
        }
        spec.grub_config_path.clone_from(&self.grub_config);
        if !self.efi.is_empty() {
            spec.esp = Some(esp::of_binaries(&self.efi, inputs)?.into());
        }
        if self.hybrid || self.mbr.is_some() {
            let mbr = self.mbr.clone().or_else(|| self.find_mbr());
            let mbr = mbr.map(|mbr| inputs.small_file("--mbr", &mbr)).transpose()?;
            spec.hybrid = Some(Hybrid { mbr });
        }
        if let Some(path) = &self.esp {
            let esp = inputs.source("--esp", path)?;
            check_esp(inputs, &esp, path)?;
            spec.esp = Some(esp.into());
        }
        Ok(image::boot_iso(&spec)?.into())
    }
}

impl Args {
    /// The code that the loader's own release has for the first sector of a stick.
    fn find_mbr(&self) -> Option<PathBuf> {
        let places = match (&self.isolinux, &self.grub_bios) {
            (Some(isolinux), _) => vec![
                isolinux.with_file_name("isohdpfx.bin"),
                // Fedora, RHEL and SUSE; Arch.
                "/usr/share/syslinux/isohdpfx.bin".into(),
                "/usr/lib/syslinux/bios/isohdpfx.bin".into(),
            ],
            (None, Some(grub)) => vec![
                grub.with_file_name("boot_hybrid.img"),
                "/usr/lib/grub/i386-pc/boot_hybrid.img".into(),
                "/usr/share/grub2/i386-pc/boot_hybrid.img".into(),
            ],
            (None, None) => Vec::new(),
        };
        places.into_iter().find(|place| place.exists())
    }
}

fn find_ldlinux(isolinux: &Path) -> Option<PathBuf> {
    settings::ldlinux_for(isolinux).into_iter().find(|place| place.exists())
}

/// An EFI binary is easily taken for the image of a partition that holds it.
fn check_esp(inputs: &Inputs, esp: &SourceFile, path: &Path) -> Result<()> {
    let shown = path.display();
    let source = inputs.sources.open(&esp.sha256)?;
    let entries = FatVolume::open(&*source).and_then(|volume| volume.entries());
    let entries = entries.with_context(|| {
        format!(
            "{shown} (--esp) is no image of an EFI system partition; `farrier image esp --efi {shown} -o esp.img` \
             makes one if it is an EFI binary"
        )
    })?;
    let starts = |path: &str| {
        let path = path.to_ascii_lowercase();
        path.strip_prefix("efi/boot/boot")
            .is_some_and(|rest| rest.ends_with(".efi"))
    };
    if !entries.iter().any(|entry| !entry.is_dir && starts(&entry.path)) {
        bail!(
            "{shown} (--esp) holds no EFI/BOOT/BOOT<arch>.EFI, so firmware would start nothing; make one with `farrier image esp`"
        );
    }
    Ok(())
}
