//! El Torito 1.0: the boot record, the boot catalog, and isolinux's boot information table.

use bytes::Bytes;

use super::records::SECTOR;
use super::{BootIsoSpec, IsoError};
use crate::content::{BootFile, Content};

/// Bytes of the catalog: one sector.
pub(super) const CATALOG_BYTES: usize = SECTOR;
/// Sectors of 512 bytes that a BIOS loads; isolinux loads the rest itself.
const BIOS_LOAD_SECTORS: u16 = 4;
pub(super) const PLATFORM_X86: u8 = 0;
pub(super) const PLATFORM_EFI: u8 = 0xEF;
/// First byte of a section header with more sections after it, of the last one, and of an entry's extension.
pub(super) const HEADER_MORE: u8 = 0x90;
pub(super) const HEADER_LAST: u8 = 0x91;
pub(super) const EXTENSION: u8 = 0x44;
const BOOTABLE: u8 = 0x88;
/// The patched part of isolinux: after the first 8 bytes, up to its 64th.
const INFO_TABLE: std::ops::Range<usize> = 8..64;
/// Far past any isolinux; what is larger is something else.
const MAX_LOADER: usize = 4 << 20;

/// A boot image: its first sector and its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct BootImage {
    pub(super) sector: u32,
    pub(super) len: u32,
}

/// The isolinux of a spec, checked.
pub(super) fn bios_loader(spec: &BootIsoSpec) -> Result<&BootFile, IsoError> {
    let missing = |what| IsoError::BootLoaderMissing { firmware: "BIOS", what };
    let isolinux = spec.isolinux.as_ref().ok_or(missing("isolinux.bin"))?;
    let refuse = |reason| IsoError::BootFile {
        what: "isolinux.bin",
        reason,
    };
    if isolinux.bytes.len() < usize::from(BIOS_LOAD_SECTORS) * 512 || isolinux.bytes.len() > MAX_LOADER {
        return Err(refuse("is not between 2 KiB and 4 MiB long, so it is no isolinux"));
    }
    let holds = |text: &[u8]| isolinux.bytes.windows(text.len()).any(|window| window == text);
    if !holds(b"ISOLINUX") && !holds(b"isolinux") {
        return Err(refuse(
            "does not name itself isolinux; take the file from the syslinux project's isolinux package",
        ));
    }
    if spec.ldlinux.is_none() && holds(b"ldlinux.c32") {
        return Err(missing("ldlinux.c32 beside this isolinux.bin"));
    }
    Ok(isolinux)
}

/// The ESP of a spec, checked as far as it can be without reading a source.
pub(super) fn esp(spec: &BootIsoSpec) -> Result<&Content, IsoError> {
    let esp = spec.esp.as_ref().ok_or(IsoError::BootLoaderMissing {
        firmware: "UEFI",
        what: "an EFI system partition image",
    })?;
    let refuse = |reason| IsoError::BootFile {
        what: "the EFI system partition image",
        reason,
    };
    if esp.is_empty() || !esp.len().is_multiple_of(512) {
        return Err(refuse("is empty or no multiple of 512 bytes long"));
    }
    if let Content::Literal(bytes) = esp
        && bytes.get(510..512) != Some(&[0x55, 0xAA])
    {
        return Err(refuse("has no boot sector, so it is no FAT image"));
    }
    Ok(esp)
}

/// isolinux with its boot information table filled in, as the layout of the file: a literal start, and the rest as it came.
pub(super) fn patched(file: &BootFile, volume_descriptor: u32, sector: u32) -> (Bytes, Bytes) {
    let words = file.bytes[INFO_TABLE.end..].chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    });
    let checksum = words.fold(0u32, u32::wrapping_add);
    let len = u32::try_from(file.bytes.len()).expect("checked to be at most 4 MiB");
    let mut head = [0; INFO_TABLE.end];
    head[..INFO_TABLE.start].copy_from_slice(&file.bytes[..INFO_TABLE.start]);
    for (place, number) in head[INFO_TABLE]
        .chunks_exact_mut(4)
        .zip([volume_descriptor, sector, len, checksum])
    {
        place.copy_from_slice(&number.to_le_bytes());
    }
    (Bytes::copy_from_slice(&head), file.bytes.slice(INFO_TABLE.end..))
}

/// The boot record volume descriptor: where the catalog is.
pub(super) fn boot_record(catalog: u32) -> Vec<u8> {
    let mut sector = vec![0; SECTOR];
    sector[..7].copy_from_slice(b"\0CD001\x01");
    sector[7..30].copy_from_slice(b"EL TORITO SPECIFICATION");
    sector[71..75].copy_from_slice(&catalog.to_le_bytes());
    sector
}

/// The boot catalog. With both, BIOS is the default entry and UEFI a section; alone, either is the default entry.
pub(super) fn catalog(bios: Option<BootImage>, uefi: Option<BootImage>) -> Vec<u8> {
    let mut out = Vec::with_capacity(CATALOG_BYTES);
    let platform = if bios.is_some() { PLATFORM_X86 } else { PLATFORM_EFI };
    out.extend(validation(platform));
    if let Some(image) = bios {
        out.extend(entry(image, BIOS_LOAD_SECTORS));
        if uefi.is_some() {
            let mut header = [0; 32];
            // Last section header, with one entry.
            header[..4].copy_from_slice(&[HEADER_LAST, PLATFORM_EFI, 1, 0]);
            out.extend(header);
        }
    }
    if let Some(image) = uefi {
        // Larger than the field can say: 0 is "up to the end of the disc" (UEFI 2.10, 13.3.2.1).
        let sectors = u16::try_from(image.len / 512).unwrap_or(0);
        out.extend(entry(image, sectors));
    }
    out.resize(CATALOG_BYTES, 0);
    out
}

fn validation(platform: u8) -> [u8; 32] {
    let mut entry = [0; 32];
    entry[0] = 1;
    entry[1] = platform;
    entry[4..11].copy_from_slice(b"FARRIER");
    entry[30..].copy_from_slice(&[0x55, 0xAA]);
    let sum = sum(&entry);
    entry[28..30].copy_from_slice(&0u16.wrapping_sub(sum).to_le_bytes());
    entry
}

/// Whether this is the entry that a catalog starts with.
pub(super) fn is_validation(entry: &[u8]) -> bool {
    entry[0] == 1 && entry[30..32] == [0x55, 0xAA] && sum(&entry[..32]) == 0
}

fn sum(entry: &[u8]) -> u16 {
    entry
        .chunks_exact(2)
        .map(|word| u16::from_le_bytes([word[0], word[1]]))
        .fold(0, u16::wrapping_add)
}

/// A bootable entry without emulation.
fn entry(image: BootImage, sectors: u16) -> [u8; 32] {
    let mut entry = [0; 32];
    entry[0] = BOOTABLE;
    entry[6..8].copy_from_slice(&sectors.to_le_bytes());
    entry[8..12].copy_from_slice(&image.sector.to_le_bytes());
    entry
}
