//! `farrier image iso`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ArgGroup;
use image::{BOOT_ISO_LABEL, BootFile, BootIsoSpec, FatVolume, Firmware, Layout, SourceFile, SourceSet as _};

use super::Build;
use super::inputs::{Inputs, Placed, parameter};

#[derive(Clone, Copy, clap::ValueEnum)]
enum Mode {
    Bios,
    Uefi,
    Both,
}

#[derive(clap::Args)]
#[command(group(ArgGroup::new("boot loader").args(["isolinux", "esp"]).required(true).multiple(true)))]
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
    /// Image of an EFI system partition, for UEFI (`farrier image esp` makes one)
    #[arg(long, value_name = "FILE")]
    esp: Option<PathBuf>,
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
        ("bios", "isolinux"), ("uefi", "esp"), ("both", "isolinux"), ("both", "esp"),
    ])]
    firmware: Option<Mode>,
    /// Another file or folder and its path in the ISO; may be repeated
    #[arg(long = "file", value_name = "SRC:DST")]
    files: Vec<Placed>,
}

impl Build for Args {
    fn build(&self, inputs: &mut Inputs) -> Result<Layout> {
        let firmware = match (self.firmware, &self.isolinux, &self.esp) {
            (Some(Mode::Bios), ..) | (None, _, None) => Firmware::Bios,
            (Some(Mode::Uefi), ..) | (None, None, Some(_)) => Firmware::Uefi,
            (Some(Mode::Both), ..) | (None, Some(_), Some(_)) => Firmware::Both,
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
        if let Some(path) = &self.esp {
            let esp = inputs.source("--esp", path)?;
            check_esp(inputs, &esp, path)?;
            spec.esp = Some(esp.into());
        }
        Ok(image::boot_iso(&spec)?)
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
