//! `farrier image esp`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use image::{EspSpec, Layout};

use super::inputs::Inputs;
use super::{Build, Built};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// An EFI binary, or several: the loader that firmware is to start comes first
    ///
    /// The first becomes EFI/BOOT/BOOTX64.EFI unless it is called BOOT….EFI already; the others keep their names in
    /// EFI/BOOT, without the `.signed` that Debian appends. FILE:PATH puts a file at any other path. So a signed shim
    /// and its GRUB are given as
    ///
    ///     --efi shimx64.efi.signed grubx64.efi.signed
    ///
    /// and a loader made by grub-mkimage alone. What makes GRUB find a boot ISO is added.
    #[arg(long = "efi", value_name = "FILE[:PATH]", required = true, num_args = 1.., verbatim_doc_comment)]
    efi: Vec<String>,
}

impl Build for Args {
    fn build(&self, inputs: &mut Inputs) -> Result<Built> {
        Ok(of_binaries(&self.efi, inputs)?.into())
    }
}

/// An EFI system partition of binaries as `--efi` takes them.
pub(super) fn of_binaries(binaries: &[String], inputs: &mut Inputs) -> Result<Layout> {
    let mut files = Vec::new();
    for (index, efi) in binaries.iter().enumerate() {
        let (from, to) = placed(efi, index == 0)?;
        files.push((to, inputs.small_file("--efi", &from)?.into()));
    }
    Ok(image::esp(&EspSpec { files })?)
}

/// A file and its path in the ESP.
fn placed(efi: &str, is_first: bool) -> Result<(PathBuf, String)> {
    if let Some((from, to)) = efi
        .rsplit_once(':')
        .filter(|(from, to)| !from.is_empty() && !to.is_empty())
    {
        return Ok((from.into(), to.to_owned()));
    }
    let name = Path::new(efi)
        .file_name()
        .with_context(|| format!("`{efi}` (--efi) ends in no file name"))?
        .to_string_lossy();
    let name = name.strip_suffix(".signed").unwrap_or(&name);
    let lower = name.to_ascii_lowercase();
    let name = if is_first && !(lower.starts_with("boot") && lower.ends_with(".efi")) {
        "BOOTX64.EFI"
    } else {
        name
    };
    Ok((efi.into(), format!("EFI/BOOT/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_binary_is_what_firmware_starts_and_the_others_keep_their_names() {
        let check = |efi: &str, is_first, from: &str, to: &str| {
            assert_eq!(placed(efi, is_first).unwrap(), (from.into(), to.to_owned()), "{efi}");
        };
        check("/l/grub.efi", true, "/l/grub.efi", "EFI/BOOT/BOOTX64.EFI");
        check("shimx64.efi.signed", true, "shimx64.efi.signed", "EFI/BOOT/BOOTX64.EFI");
        check("bootaa64.efi", true, "bootaa64.efi", "EFI/BOOT/bootaa64.efi");
        check(
            "l/grubx64.efi.signed",
            false,
            "l/grubx64.efi.signed",
            "EFI/BOOT/grubx64.efi",
        );
        check("a:EFI/BOOT/BOOTIA32.EFI", true, "a", "EFI/BOOT/BOOTIA32.EFI");
        check("a:b:EFI/x.efi", false, "a:b", "EFI/x.efi");
        assert!(placed("", true).is_err() && placed("..", false).is_err());
    }
}
