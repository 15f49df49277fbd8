//! El Torito 1.0: the boot record, the boot catalog, and what loaders for BIOS have patched into them.

use super::records::SECTOR;
use super::{BootIsoSpec, IsoError};
use crate::builder::LayoutBuilder;
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
/// The boot information table of isolinux and of GRUB's first sector: after the first 8 bytes, up to the 64th.
const INFO_TABLE: std::ops::Range<usize> = 8..64;
/// Where the first sector after GRUB's own (`diskboot.img`) says, in sectors of 512 bytes, where the rest is. It is read
/// when GRUB was started from a disk (`boot_hybrid.img`), not from a CD.
const GRUB_BLOCK_LIST: std::ops::Range<usize> = 2548..2556;
/// Sectors of 512 bytes from GRUB's start to what that entry names.
const GRUB_BLOCK_LIST_SKIPS: u64 = 5;
/// What GRUB's first sector says if it was not patched.
const GRUB_MARK: &[u8] = b"no boot info";
/// Far past any isolinux or GRUB; what is larger is something else.
const MAX_LOADER: usize = 4 << 20;

/// A boot image: its first sector and its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct BootImage {
    pub(super) sector: u32,
    pub(super) len: u64,
}

/// What a BIOS starts.
#[derive(Clone, Copy)]
pub(super) enum BiosLoader<'a> {
    Isolinux(&'a BootFile),
    Grub(&'a BootFile),
}

impl<'a> BiosLoader<'a> {
    pub(super) fn file(self) -> &'a BootFile {
        match self {
            Self::Isolinux(file) | Self::Grub(file) => file,
        }
    }
}

/// The loader of a spec, checked.
pub(super) fn bios_loader(spec: &BootIsoSpec) -> Result<BiosLoader<'_>, IsoError> {
    match (&spec.isolinux, &spec.grub_bios) {
        (Some(_), Some(_)) => Err(IsoError::BootFile {
            what: "the GRUB image for BIOS",
            reason: "is given beside isolinux.bin, and a BIOS starts one of them; leave one out",
        }),
        (None, Some(grub)) => grub_loader(grub),
        (Some(isolinux), None) => isolinux_loader(spec, isolinux),
        (None, None) => Err(IsoError::BootLoaderMissing {
            firmware: "BIOS",
            what: "isolinux.bin or a GRUB image for BIOS",
        }),
    }
}

fn isolinux_loader<'a>(spec: &BootIsoSpec, isolinux: &'a BootFile) -> Result<BiosLoader<'a>, IsoError> {
    let refuse = |reason| IsoError::BootFile {
        what: "isolinux.bin",
        reason,
    };
    if isolinux.bytes.len() < usize::from(BIOS_LOAD_SECTORS) * 512 || isolinux.bytes.len() > MAX_LOADER {
        return Err(refuse("is not between 2 KiB and 4 MiB long, so it is no isolinux"));
    }
    if !holds(&isolinux.bytes, b"ISOLINUX") && !holds(&isolinux.bytes, b"isolinux") {
        return Err(refuse(
            "does not name itself isolinux; take the file from the syslinux project's isolinux package",
        ));
    }
    if spec.ldlinux.is_none() && holds(&isolinux.bytes, b"ldlinux.c32") {
        return Err(IsoError::BootLoaderMissing {
            firmware: "BIOS",
            what: "ldlinux.c32 beside this isolinux.bin",
        });
    }
    Ok(BiosLoader::Isolinux(isolinux))
}

fn grub_loader(grub: &BootFile) -> Result<BiosLoader<'_>, IsoError> {
    let refuse = |reason| {
        Err(IsoError::BootFile {
            what: "the GRUB image for BIOS",
            reason,
        })
    };
    if grub.bytes.len() < GRUB_BLOCK_LIST.end || grub.bytes.len() > MAX_LOADER {
        return refuse("is not between 2.5 KiB and 4 MiB long, so it is no El Torito image of GRUB");
    }
    if !holds(&grub.bytes[..SECTOR], GRUB_MARK) {
        return refuse(
            "does not start as GRUB's El Torito image does; make one with `grub-mkimage -O i386-pc-eltorito`",
        );
    }
    Ok(BiosLoader::Grub(grub))
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
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

/// Appends a loader that starts at `sector`, with what it is told about its place: a literal where it is patched, and the
/// rest as it came.
pub(super) fn append_loader(out: &mut LayoutBuilder, loader: BiosLoader<'_>, volume_descriptor: u32, sector: u32) {
    let file = loader.file();
    let mut patches: Vec<(usize, Vec<u8>)> = Vec::new();
    if let BiosLoader::Grub(_) = loader {
        let place = u64::from(sector) * 4 + GRUB_BLOCK_LIST_SKIPS;
        patches.push((GRUB_BLOCK_LIST.start, place.to_le_bytes().to_vec()));
    }
    let table = info_table(&file.bytes, &patches, volume_descriptor, sector);
    patches.insert(0, (INFO_TABLE.start, table));
    let mut done = 0;
    for (start, patch) in patches {
        append_range(out, file, done..start);
        done = start + patch.len();
        out.literal(patch);
    }
    append_range(out, file, done..file.bytes.len());
}

/// A part of a loader: of the source that it is, or literal.
fn append_range(out: &mut LayoutBuilder, file: &BootFile, range: std::ops::Range<usize>) {
    match file.kept_as {
        // A few bytes are shorter as such than as a reference.
        Some(sha256) if range.len() > 64 => out.source(sha256, range.start as u64, range.len() as u64),
        _ => out.literal(file.bytes.slice(range)),
    }
}

/// Where the volume descriptor is, where the file is, its length and the sum of all after the table, zeros behind it.
fn info_table(file: &[u8], patches: &[(usize, Vec<u8>)], volume_descriptor: u32, sector: u32) -> Vec<u8> {
    let words = |bytes: &[u8]| -> u32 {
        let words = bytes.chunks(4).map(|chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_le_bytes(word)
        });
        words.fold(0, u32::wrapping_add)
    };
    let mut checksum = words(&file[INFO_TABLE.end..]);
    for (start, patch) in patches {
        // Patches start and end on words.
        checksum = checksum.wrapping_sub(words(&file[*start..start + patch.len()]));
        checksum = checksum.wrapping_add(words(patch));
    }
    let len = u32::try_from(file.len()).expect("checked to be at most 4 MiB");
    let mut table: Vec<u8> = [volume_descriptor, sector, len, checksum]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    table.resize(INFO_TABLE.len(), 0);
    table
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
