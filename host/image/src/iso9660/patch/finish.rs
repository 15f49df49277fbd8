//! What says how long an image is: volume descriptors, and the partition tables of a hybrid.

use crate::iso9660::IsoReadError;
use crate::iso9660::reader::SECTOR;
use crate::iso9660::records::both32;
use crate::layout::{Kind, Layout};
use crate::partitions::{self, PartitionError, PartitionKind, gpt_header, mbr_entries};

use super::PatchError;
use super::editor::{Editor, sector_of};

/// Bytes in which partition tables count.
const DISK_SECTOR: u64 = partitions::SECTOR;
/// Where a primary descriptor has room for its maker's own use, and what Red Hat's tools put there.
const APPLICATION_USE: std::ops::Range<usize> = 883..1395;
const MEDIA_CHECK: &[u8] = b"ISO MD5SUM";

impl Editor<'_> {
    /// The image, after all changes.
    pub(super) fn finish(mut self, kind: Kind) -> Result<Layout, PatchError> {
        if self.splice.size() > self.size_before {
            self.move_backup_gpt()?;
            self.stretch_mbr()?;
        }
        self.stretch_volume()?;
        Ok(self.splice.layout(kind)?)
    }

    /// Says in every descriptor how long the volume is now, and takes away a sum that the image no longer has: a medium
    /// without one is not checked, one with another is refused.
    fn stretch_volume(&mut self) -> Result<(), PatchError> {
        let is_longer = self.splice.size() > self.size_before;
        let sectors = sector_of(self.splice.size().next_multiple_of(SECTOR))?;
        for index in 16..80 {
            let at = index * SECTOR;
            let sector = self.read(at, 2048)?;
            if &sector[1..6] != b"CD001" || sector[0] == 255 {
                break;
            }
            if matches!(sector[0], 1 | 2) && is_longer {
                self.write(at + 80, &both32(sectors));
            }
            let use_field = &sector[APPLICATION_USE];
            if sector[0] == 1 && use_field.windows(MEDIA_CHECK.len()).any(|window| window == MEDIA_CHECK) {
                self.write(
                    at + APPLICATION_USE.start as u64,
                    &[b' '; APPLICATION_USE.end - APPLICATION_USE.start],
                );
            }
        }
        Ok(())
    }

    /// Puts the backup of a GPT to the new end. What follows the old one is no part of any partition.
    fn move_backup_gpt(&mut self) -> Result<(), PatchError> {
        let header = match gpt_header(&self.source()) {
            Ok(Some(header)) => header,
            // A damaged table is none, to whoever reads it.
            Ok(None) | Err(PartitionError::Damaged(_)) => return Ok(()),
            Err(PartitionError::Io(error)) => return Err(PatchError::Read(IsoReadError::Io(error))),
        };
        let mut primary = header;
        let table = self.read(
            primary.table_at,
            usize::try_from(primary.table_bytes).map_err(|_| PatchError::TooLarge)?,
        )?;
        let table_room = primary.table_bytes.next_multiple_of(DISK_SECTOR);
        // The header is in the last sector of all, which are whole sectors of the ISO too.
        let end = (self.splice.size().next_multiple_of(SECTOR) + table_room + DISK_SECTOR).next_multiple_of(SECTOR);
        let (last, table_at) = (end / DISK_SECTOR - 1, (end - DISK_SECTOR - table_room) / DISK_SECTOR);
        let mut backup = primary.clone();
        let put = |bytes: &mut [u8; 512], at: usize, number: u64| {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        };
        put(&mut primary.bytes, 32, last);
        put(&mut backup.bytes, 24, last);
        put(&mut backup.bytes, 32, 1);
        put(&mut backup.bytes, 72, table_at);
        for header in [&mut primary, &mut backup] {
            put(&mut header.bytes, 48, table_at - 1);
            header.seal();
        }
        self.write(DISK_SECTOR, &primary.bytes);
        self.write(table_at * DISK_SECTOR, &table);
        self.write(last * DISK_SECTOR, &backup.bytes);
        Ok(())
    }

    /// Makes the entry of the MBR that ended with the image end with it again, and the one that protects a GPT.
    fn stretch_mbr(&mut self) -> Result<(), PatchError> {
        for entry in mbr_entries(&self.source())? {
            // The one that is the ISO itself, from its start or after its system area.
            let is_iso = entry.at <= 16 * SECTOR && entry.at + entry.len >= self.size_before && !entry.kind.is_esp();
            if is_iso || entry.kind == PartitionKind::Mbr(0xEE) {
                let sectors = (self.splice.size() - entry.at.min(self.splice.size())) / DISK_SECTOR;
                let sectors = u32::try_from(sectors).unwrap_or(u32::MAX);
                let at = 446 + u64::from(entry.number - 1) * 16;
                self.write(at + 12, &sectors.to_le_bytes());
            }
        }
        Ok(())
    }
}
