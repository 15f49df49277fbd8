//! The partition table of an ISO that boots from a USB stick too.
//!
//! The MBR holds code for a BIOS and the entry that protects a GPT; the GPT has one partition with the ISO's files and one
//! that is the ESP. Both lie in the system area, where nothing of an ISO is, and the GPT's backup at the end of the image.

use sha2::Digest as _;

use super::el_torito::{BiosLoader, BootImage};
use super::tree::File;
use super::{Hybrid, IsoError};
use crate::partitions::{GPT_BYTES, Gpt, GptPartition, Guid, SECTOR};

/// Bytes of the backup, which is the last of an image.
pub(super) const END_BYTES: u64 = GPT_BYTES;
/// Bytes of code for a BIOS before the number of the sector that it goes on at. `isohdpfx.bin` and `boot_hybrid.img` agree.
const CODE: usize = 432;
const DISK_SIGNATURE: usize = 440;
const TABLE: usize = 446;
/// What a BIOS runs if there is no code for it: `int 18h` tells it to go on with the next device, `int 19h` starts again on
/// one that comes back from that, and a halt follows.
const NO_CODE: [u8; 7] = [0xCD, 0x18, 0xCD, 0x19, 0xF4, 0xEB, 0xFD];
/// What isolinux has at its byte 64 if it can be started from a disk.
const ISOLINUX_HYBRID: [u8; 4] = [0xFB, 0xC0, 0x78, 0x70];
/// Where partitions may start: after the system area.
const FIRST_USABLE: u64 = 64;
/// Read-only, and not to be deleted.
const ISO_ATTRIBUTES: u64 = 1 << 60 | 1;
/// Sectors of 512 bytes in one of the ISO.
const PER_SECTOR: u64 = 4;

/// The first sector of an image that boots as a disk.
#[derive(Clone, Copy)]
pub(super) struct Mbr<'a> {
    /// Checked code for a BIOS.
    code: Option<&'a [u8]>,
}

/// An image as a disk.
pub(super) struct HybridDisk<'a> {
    pub(super) mbr: Mbr<'a>,
    /// What the code goes on with, and its sector.
    pub(super) loader: Option<(BiosLoader<'a>, u32)>,
    pub(super) esp: Option<BootImage>,
    /// Sectors of the ISO, the backup's included.
    pub(super) sectors: u32,
    pub(super) seed: [u8; 32],
}

/// Checks that the code for the first sector goes with the loader.
pub(super) fn check_mbr<'a>(hybrid: &'a Hybrid, loader: Option<BiosLoader<'_>>) -> Result<Mbr<'a>, IsoError> {
    let Some(mbr) = &hybrid.mbr else {
        return Ok(Mbr { code: None });
    };
    let refuse = |reason| {
        Err(IsoError::BootFile {
            what: "the MBR code",
            reason,
        })
    };
    if mbr.len() < CODE || mbr.len() > 512 {
        return refuse(
            "is not between 432 and 512 bytes long; take isohdpfx.bin for isolinux, boot_hybrid.img for GRUB",
        );
    }
    // GRUB's says what it is; the other's code is told by what it is not.
    let is_grub = mbr[..CODE].windows(4).any(|window| window == b"GRUB");
    match loader {
        None => refuse("is for a BIOS, and the ISO boots UEFI firmware alone; leave it out"),
        Some(BiosLoader::Isolinux(_)) if is_grub => {
            refuse("is GRUB's, and the ISO boots a BIOS by isolinux; take isohdpfx.bin")
        }
        Some(BiosLoader::Grub(_)) if !is_grub => {
            refuse("is not GRUB's, and the ISO boots a BIOS by GRUB; take boot_hybrid.img")
        }
        Some(BiosLoader::Isolinux(file)) if file.bytes[64..68] != ISOLINUX_HYBRID => Err(IsoError::BootFile {
            what: "isolinux.bin",
            reason: "cannot be started from a disk; take one of release 3.72 or later for a hybrid ISO",
        }),
        Some(_) => Ok(Mbr {
            code: Some(&mbr[..CODE]),
        }),
    }
}

/// What identifiers are derived from, so that the same input gives the same ones, and other input others.
pub(super) fn seed(label: &str, files: &[File<'_>]) -> [u8; 32] {
    let mut hash = sha2::Sha256::new();
    hash.update(b"farrier hybrid 1\0");
    hash.update(label);
    for file in files {
        hash.update((file.path.len() as u64).to_le_bytes());
        hash.update(&file.path);
        file.content.add_to_hash(&mut hash);
    }
    hash.finalize().into()
}

impl HybridDisk<'_> {
    /// The first bytes of the image: MBR, header, table.
    pub(super) fn start(&self) -> Vec<u8> {
        let mut out = vec![0; 512];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, self.mbr.code.unwrap_or(&NO_CODE));
        let sectors = u64::from(self.sectors) * PER_SECTOR;
        let protected = u32::try_from(sectors - 1).unwrap_or(u32::MAX);
        put(TABLE, &mbr_entry(0, 0xEE, 1, protected));
        if let (Some(_), Some((loader, sector))) = (self.mbr.code, self.loader) {
            // GRUB's code starts what follows its own first sector of the ISO, isolinux' the whole.
            let skip = match loader {
                BiosLoader::Isolinux(_) => 0,
                BiosLoader::Grub(_) => PER_SECTOR,
            };
            put(CODE, &(u64::from(sector) * PER_SECTOR + skip).to_le_bytes());
            // Some BIOSes boot no disk without an active partition. This one is of no type and holds the MBR itself.
            put(TABLE + 16, &mbr_entry(0x80, 0, 0, 1));
        }
        put(DISK_SIGNATURE, &self.identifier(b"mbr")[..4]);
        put(510, &[0x55, 0xAA]);
        out.extend(self.gpt().primary());
        out
    }

    /// The last bytes of the image.
    pub(super) fn end(&self) -> Vec<u8> {
        self.gpt().backup()
    }

    fn gpt(&self) -> Gpt {
        let sectors = u64::from(self.sectors) * PER_SECTOR;
        let last_usable = sectors - END_BYTES / SECTOR - 1;
        let esp = self.esp.map(|esp| {
            let first = u64::from(esp.sector) * PER_SECTOR;
            (first, first + esp.len.div_ceil(SECTOR) - 1)
        });
        let iso = GptPartition {
            kind: Guid::BASIC_DATA,
            id: Guid::custom(self.identifier(b"iso")),
            first: FIRST_USABLE,
            last: esp.map_or(last_usable, |(first, _)| first - 1),
            attributes: ISO_ATTRIBUTES,
            name: "ISO9660",
        };
        let esp = esp.map(|(first, last)| GptPartition {
            kind: Guid::ESP,
            id: Guid::custom(self.identifier(b"esp")),
            first,
            last,
            attributes: 0,
            name: "ESP",
        });
        Gpt {
            disk: Guid::custom(self.identifier(b"gpt")),
            sectors,
            first_usable: FIRST_USABLE,
            partitions: std::iter::once(iso).chain(esp).collect(),
        }
    }

    fn identifier(&self, of: &[u8]) -> [u8; 16] {
        let mut hash = sha2::Sha256::new();
        hash.update(self.seed);
        hash.update(of);
        let hash: [u8; 32] = hash.finalize().into();
        std::array::from_fn(|index| hash[index])
    }
}

/// An entry of the MBR. Its old-style addresses are those of a disk too large for them, which firmware reads past.
fn mbr_entry(status: u8, kind: u8, first: u32, count: u32) -> [u8; 16] {
    let mut entry = [0; 16];
    entry[0] = status;
    // Head, sector and cylinder of sectors 0 and 1 are the same in any geometry.
    entry[1..4].copy_from_slice(&[0, if first == 0 { 1 } else { 2 }, 0]);
    entry[4] = kind;
    entry[5..8].copy_from_slice(if count == 1 { &[0, 1, 0] } else { &[0xFE, 0xFF, 0xFF] });
    entry[8..12].copy_from_slice(&first.to_le_bytes());
    entry[12..].copy_from_slice(&count.to_le_bytes());
    entry
}
