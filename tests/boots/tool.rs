//! Running the binary, and tools that read what it wrote.

use std::path::{Path, PathBuf};

use crate::lab::Lab;
pub(crate) use crate::run::{Folder, Ran, farrier, make, tool, words};

/// An ESP that boots the lab's GRUB.
pub(crate) fn esp(lab: &Lab, folder: &Folder) -> PathBuf {
    let out = folder.at("esp.img");
    make(&format!("image esp --efi {} -o {out}", lab.text("GRUB_EFI")));
    out.into()
}

/// A command line for a boot ISO of both firmwares; kernel and ramdisk are keys of the lab.
pub(crate) fn iso_line(lab: &Lab, esp: &Path, kernel: &str, ramdisk: &str) -> String {
    format!(
        "image iso --kernel {} --ramdisk {} --isolinux {} --ldlinux {} --esp {}",
        lab.text(kernel),
        lab.text(ramdisk),
        lab.text("ISOLINUX"),
        lab.text("LDLINUX"),
        esp.display()
    )
}
