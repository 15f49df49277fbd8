//! The El Torito boot catalog (El Torito 1.0, section 2).

use std::fmt;

use super::{IsoReadError, IsoVolume, SECTOR, le16, le32};
use crate::iso9660::el_torito::{EXTENSION, HEADER_LAST, HEADER_MORE, PLATFORM_EFI, PLATFORM_X86, is_validation};

/// Sectors of a catalog that are looked at.
const MAX_CATALOG: u64 = 4;

/// What starts a boot image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IsoPlatform {
    /// A BIOS.
    Bios,
    /// UEFI firmware.
    Uefi,
    /// Something else, by its number in the catalog.
    Other(u8),
}

impl fmt::Display for IsoPlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bios => f.write_str("BIOS"),
            Self::Uefi => f.write_str("UEFI"),
            Self::Other(number) => write!(f, "platform {number:#04x}"),
        }
    }
}

/// A boot image of an ISO.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IsoBootEntry {
    /// What starts it.
    pub platform: IsoPlatform,
    /// Whether it is marked as bootable.
    pub bootable: bool,
    /// 0 = none; otherwise the image is that of a floppy (1 to 3) or of a hard disk (4).
    pub emulation: u8,
    /// Where it starts in the image.
    pub at: u64,
    /// Bytes that firmware loads of it, as the catalog says; 0 may stand for all.
    pub load_bytes: u32,
    /// The file that it is, if it is one.
    pub path: Option<String>,
    /// Where its entry of the catalog starts in the image.
    pub(in crate::iso9660) record: u64,
}

impl IsoVolume<'_> {
    /// The boot images, in the order of the catalog; none if there is no catalog.
    pub fn boot_entries(&self) -> Result<Vec<IsoBootEntry>, IsoReadError> {
        let mut entries = self.catalog()?;
        if entries.is_empty() {
            return Ok(entries);
        }
        for file in self.entries()? {
            let starts = file
                .sections
                .first()
                .filter(|_| file.is_file())
                .map(|section| section.at);
            for entry in &mut entries {
                if entry.path.is_none() && starts == Some(entry.at) {
                    entry.path = Some(file.path.clone());
                }
            }
        }
        Ok(entries)
    }

    /// The boot images without the files that they are.
    pub(in crate::iso9660) fn catalog(&self) -> Result<Vec<IsoBootEntry>, IsoReadError> {
        let Some(start) = self.catalog else {
            return Ok(Vec::new());
        };
        let damaged = |reason| IsoReadError::Damaged {
            path: "boot catalog".to_owned(),
            reason,
        };
        let len = self.image().len().saturating_sub(start).min(MAX_CATALOG * SECTOR);
        if len < SECTOR {
            return Err(damaged("it lies outside the image"));
        }
        let mut bytes = vec![0; usize::try_from(len).expect("a few sectors")];
        self.image().read_at(start, &mut bytes).map_err(IsoReadError::Io)?;
        if !is_validation(&bytes[..32]) {
            return Err(damaged("its validation entry is not valid"));
        }
        let mut entries = Vec::new();
        let mut platform = bytes[1];
        // The default entry follows without a header.
        let mut left = 1u16;
        let mut is_last = false;
        for (index, record) in bytes.chunks_exact(32).enumerate().skip(1) {
            if left == 0 {
                if is_last || !matches!(record[0], HEADER_MORE | HEADER_LAST) {
                    break;
                }
                is_last = record[0] == HEADER_LAST;
                platform = record[1];
                left = le16(record, 2);
                continue;
            }
            if record[0] == EXTENSION {
                continue;
            }
            left -= 1;
            entries.push(IsoBootEntry {
                platform: match platform {
                    PLATFORM_X86 => IsoPlatform::Bios,
                    PLATFORM_EFI => IsoPlatform::Uefi,
                    other => IsoPlatform::Other(other),
                },
                bootable: record[0] == 0x88,
                emulation: record[1] & 0x0F,
                at: u64::from(le32(record, 8)) * self.block(),
                load_bytes: u32::from(le16(record, 6)) * 512,
                path: None,
                record: start + index as u64 * 32,
            });
        }
        Ok(entries)
    }
}
