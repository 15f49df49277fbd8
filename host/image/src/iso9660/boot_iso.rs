//! Putting a boot ISO together: which files it boots by, and the others beside them.

use bytes::Bytes;

use super::IsoError;
use super::boot_config;
use super::el_torito::{self, BiosLoader};
use super::hybrid::check_mbr;
use super::spec::{BootIsoSpec, KERNEL_PATH, MARKER_PATH, RAMDISK_PATH};
use super::volume::{self, Boot, Volume};
use crate::content::Content;
use crate::layout::{Kind, Layout};
use crate::parameters::Loaders;

const GRUB_CONFIG: &str = "/boot/grub/grub.cfg";
const GRUB_BIOS_PATH: &str = "/boot/grub/i386-pc/eltorito.img";
const ESP_PATH: &str = "/boot/grub/efiboot.img";
const CATALOG_PATH: &str = "/boot/boot.cat";
const ISOLINUX_PATH: &str = "/isolinux/isolinux.bin";
const LDLINUX_PATH: &str = "/isolinux/ldlinux.c32";
const ISOLINUX_CONFIG: &str = "/isolinux/isolinux.cfg";

/// Makes a boot ISO.
pub fn boot_iso(spec: &BootIsoSpec) -> Result<Layout, IsoError> {
    let bios = if spec.firmware.bios() {
        Some(el_torito::bios_loader(spec)?)
    } else {
        None
    };
    let loaders = Loaders {
        isolinux: matches!(bios, Some(BiosLoader::Isolinux(_))),
        grub: spec.firmware.uefi() || matches!(bios, Some(BiosLoader::Grub(_))),
    };
    let line = boot_config::kernel_line(&spec.parameters, &spec.kernel_arguments, loaders)?;
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
    let mbr = match &spec.hybrid {
        Some(hybrid) => Some(check_mbr(hybrid, bios)?),
        None => None,
    };
    let literal = |text: String| Content::from(Bytes::from(text));
    let marker = literal("A boot ISO made by Farrier.\n".to_owned());
    let catalog = Content::from(Bytes::from_static(&[0; el_torito::CATALOG_BYTES]));
    let isolinux_config = literal(boot_config::isolinux(&line));
    let grub_config = literal(boot_config::grub(&line));
    let bios_path = match bios {
        Some(BiosLoader::Grub(_)) => GRUB_BIOS_PATH,
        _ => ISOLINUX_PATH,
    };
    let bios_content = bios.map(|loader| Content::from(loader.file().bytes.clone()));
    let mut files = vec![
        (KERNEL_PATH, &kernel),
        (RAMDISK_PATH, &ramdisk),
        (MARKER_PATH, &marker),
        (CATALOG_PATH, &catalog),
    ];
    files.extend(bios_content.as_ref().map(|content| (bios_path, content)));
    if loaders.isolinux {
        files.push((ISOLINUX_CONFIG, &isolinux_config));
        files.extend(spec.ldlinux.as_ref().map(|content| (LDLINUX_PATH, content)));
    }
    if spec.firmware.uefi() {
        files.push((ESP_PATH, el_torito::esp(spec)?));
    }
    if loaders.grub {
        files.push((GRUB_CONFIG, &grub_config));
        let other = spec.grub_config_path.as_str();
        if other.trim_start_matches('/') != GRUB_CONFIG.trim_start_matches('/') {
            refuse_collision(other, &files)?;
            files.push((other, &grub_config));
        }
    }
    for (path, _) in &spec.files {
        refuse_collision(path, &files)?;
    }
    files.extend(spec.files.iter().map(|(path, content)| (path.as_str(), content)));
    volume::write(&Volume {
        kind: Kind::BootIso,
        label: &spec.label,
        files,
        boot: Some(Boot {
            catalog: CATALOG_PATH,
            bios: bios.map(|loader| (bios_path, loader)),
            uefi: spec.firmware.uefi().then_some(ESP_PATH),
            mbr,
        }),
    })
}

/// Refuses a path that is a boot file's, that lies below one, or that a reader without regard to case takes for one (BIOS
/// loaders read plain ISO 9660 names): then one of the two would get another name there.
fn refuse_collision(path: &str, boot_files: &[(&str, &Content)]) -> Result<(), IsoError> {
    for (boot_file, _) in boot_files {
        let mut own = path.strip_prefix('/').unwrap_or(path).split('/');
        let mut theirs = boot_file.trim_start_matches('/').split('/').peekable();
        // Ends where one lies below the other, too: that is refused when the tree is made.
        while let (Some(name), Some(their_name)) = (own.next(), theirs.next()) {
            if name == their_name && theirs.peek().is_some() {
                continue;
            }
            if !name.eq_ignore_ascii_case(their_name) {
                break;
            }
            return Err(IsoError::BootFileTaken {
                path: path.chars().take(255).collect(),
                boot_file: (*boot_file).to_owned(),
            });
        }
    }
    Ok(())
}
