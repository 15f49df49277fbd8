//! Reading partition tables that anybody wrote.

use super::{Guid, Partition, PartitionError, PartitionKind, Partitions, SECTOR};
use crate::source::Source;

/// Entries of a GPT that are read; 128 is usual.
const MAX_ENTRIES: u32 = 1024;
/// Longest entry; 128 bytes is usual.
const MAX_ENTRY: u32 = 4096;
const MBR_TABLE: usize = 446;

/// Reads the partition tables of an image, which may have none. What lies in sector 0 is taken for an MBR only if every
/// entry of it could be one.
pub fn partitions(image: &dyn Source) -> Result<Partitions, PartitionError> {
    Ok(Partitions {
        mbr: mbr_entries(image)?,
        gpt: gpt_entries(image)?,
    })
}

/// The used entries of the MBR.
pub(crate) fn mbr_entries(image: &dyn Source) -> Result<Vec<Partition>, PartitionError> {
    let Some(sector) = sector(image, 0)? else {
        return Ok(Vec::new());
    };
    let entries: Vec<&[u8]> = sector[MBR_TABLE..510].chunks_exact(16).collect();
    let could_be = sector[510..] == [0x55, 0xAA] && entries.iter().all(|entry| matches!(entry[0], 0 | 0x80));
    if !could_be {
        return Ok(Vec::new());
    }
    let used = (1..).zip(entries).filter_map(|(number, entry)| {
        let word = |at: usize| {
            u64::from(u32::from_le_bytes([
                entry[at],
                entry[at + 1],
                entry[at + 2],
                entry[at + 3],
            ]))
        };
        let (first, count) = (word(8), word(12));
        (count > 0).then(|| Partition {
            number,
            kind: PartitionKind::Mbr(entry[4]),
            at: first * SECTOR,
            len: count * SECTOR,
            bootable: entry[0] == 0x80,
            name: String::new(),
        })
    });
    Ok(used.collect())
}

/// A GPT's header, checked.
#[derive(Clone)]
pub(crate) struct GptHeader {
    /// Its sector, to be written back changed.
    pub(crate) bytes: [u8; 512],
    pub(crate) table_at: u64,
    pub(crate) table_bytes: u64,
    entry_bytes: usize,
}

/// The primary header, if there is one.
pub(crate) fn gpt_header(image: &dyn Source) -> Result<Option<GptHeader>, PartitionError> {
    let damaged = PartitionError::Damaged;
    let Some(bytes) = sector(image, SECTOR)?.filter(|sector| sector.starts_with(b"EFI PART")) else {
        return Ok(None);
    };
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let header_bytes = usize::try_from(word(12)).unwrap_or(usize::MAX);
    if !(92..=512).contains(&header_bytes) {
        return Err(damaged("its header has no length that there is"));
    }
    if checksum(&bytes, header_bytes) != word(16) {
        return Err(damaged("the checksum of its header is wrong"));
    }
    let (entries, entry_bytes) = (word(80), word(84));
    if entries > MAX_ENTRIES || !(128..=MAX_ENTRY).contains(&entry_bytes) {
        return Err(damaged("its table has more or longer entries than are read"));
    }
    let first = u64::from(word(72)) | u64::from(word(76)) << 32;
    let table_bytes = u64::from(entries) * u64::from(entry_bytes);
    let table_at = first.checked_mul(SECTOR);
    let table_at = table_at.filter(|at| at.checked_add(table_bytes).is_some_and(|end| end <= image.len()));
    Ok(Some(GptHeader {
        bytes,
        table_at: table_at.ok_or(damaged("its table lies outside the image"))?,
        table_bytes,
        entry_bytes: usize::try_from(entry_bytes).unwrap_or(128),
    }))
}

/// The checksum that a header of this length should have.
fn checksum(sector: &[u8; 512], header_bytes: usize) -> u32 {
    let mut header = sector[..header_bytes].to_vec();
    header[16..20].fill(0);
    crc32fast::hash(&header)
}

impl GptHeader {
    /// Writes the checksum anew, after a change.
    pub(crate) fn seal(&mut self) {
        let header_bytes = u32::from_le_bytes([self.bytes[12], self.bytes[13], self.bytes[14], self.bytes[15]]);
        let sum = checksum(&self.bytes, usize::try_from(header_bytes).unwrap_or(92).min(512));
        self.bytes[16..20].copy_from_slice(&sum.to_le_bytes());
    }
}

fn gpt_entries(image: &dyn Source) -> Result<Vec<Partition>, PartitionError> {
    let Some(header) = gpt_header(image)? else {
        return Ok(Vec::new());
    };
    let mut table = vec![0; usize::try_from(header.table_bytes).expect("at most 4 MiB")];
    image.read_at(header.table_at, &mut table).map_err(PartitionError::Io)?;
    let sum = &header.bytes[88..92];
    if crc32fast::hash(&table).to_le_bytes() != *sum {
        return Err(PartitionError::Damaged("the checksum of its table is wrong"));
    }
    let used = (1..).zip(table.chunks_exact(header.entry_bytes));
    let used = used.filter(|(_, entry)| entry[..16] != [0; 16]);
    used.map(|(number, entry)| {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| entry[at + index]));
        let (first, last) = (long(32), long(40));
        let count = last.checked_sub(first).and_then(|count| count.checked_add(1));
        let place = first
            .checked_mul(SECTOR)
            .zip(count.and_then(|count| count.checked_mul(SECTOR)));
        let (at, len) = place.ok_or(PartitionError::Damaged("a partition ends before it starts"))?;
        let units = entry[56..128]
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
        Ok(Partition {
            number,
            kind: PartitionKind::Gpt(Guid(std::array::from_fn(|index| entry[index]))),
            at,
            len,
            bootable: long(48) & 4 != 0,
            name: String::from_utf16_lossy(&units),
        })
    })
    .collect()
}

fn sector(image: &dyn Source, at: u64) -> Result<Option<[u8; 512]>, PartitionError> {
    let mut bytes = [0; 512];
    if image.len() < at + SECTOR {
        return Ok(None);
    }
    image.read_at(at, &mut bytes).map_err(PartitionError::Io)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partitions::{Gpt, GptPartition};
    use crate::source::MemorySource;
    use proptest::prelude::*;

    const SECTORS: u64 = 400;

    fn disk() -> Vec<u8> {
        let partition = |number: u8, first, last, name| GptPartition {
            kind: Guid::ESP,
            id: Guid::custom([number; 16]),
            first,
            last,
            attributes: 0,
            name,
        };
        let gpt = Gpt {
            disk: Guid::custom([9; 16]),
            sectors: SECTORS,
            first_usable: 34,
            partitions: vec![partition(1, 64, 99, "first"), partition(2, 100, 100, "")],
        };
        let mut bytes = vec![0; 512];
        bytes[446 + 4] = 0xEE;
        bytes[446 + 8..446 + 12].copy_from_slice(&1u32.to_le_bytes());
        bytes[446 + 12..446 + 16].copy_from_slice(&399u32.to_le_bytes());
        bytes[510..].copy_from_slice(&[0x55, 0xAA]);
        bytes.extend(gpt.primary());
        let backup = gpt.backup();
        bytes.resize(usize::try_from(SECTORS * SECTOR).unwrap() - backup.len(), 0);
        bytes.extend(backup);
        bytes
    }

    fn read(bytes: Vec<u8>) -> Result<Partitions, PartitionError> {
        partitions(&MemorySource(bytes.into()))
    }

    #[test]
    fn what_was_written_is_read_back() {
        let found = read(disk()).unwrap();
        assert_eq!((found.mbr.len(), found.gpt.len()), (1, 2));
        assert_eq!(found.mbr[0].kind.to_string(), "GPT protective");
        assert_eq!((found.mbr[0].at, found.mbr[0].len), (512, 399 * 512));
        assert!(found.gpt[0].kind.is_esp() && found.gpt[0].name == "first");
        assert_eq!(
            (found.gpt[1].number, found.gpt[1].at, found.gpt[1].len),
            (2, 51_200, 512)
        );
        assert_eq!(Guid::ESP.to_string(), "C12A7328-F81F-11D2-BA4B-00A0C93EC93B");
        assert_eq!(Guid::BASIC_DATA.to_string(), "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7");
    }

    #[test]
    fn an_image_without_a_table_has_no_partitions() {
        for bytes in [vec![], vec![0; 100], vec![0; 4096], vec![0xFF; 4096]] {
            assert_eq!(read(bytes).unwrap(), Partitions::default());
        }
    }

    #[test]
    fn a_changed_table_is_refused() {
        for at in [512 + 50, 1024 + 3] {
            let mut bytes = disk();
            bytes[at] ^= 1;
            assert!(matches!(read(bytes), Err(PartitionError::Damaged(_))), "{at}");
        }
    }

    proptest! {
        #[test]
        fn hostile_tables_never_panic(damage in prop::collection::vec((0..20_000usize, any::<u8>()), 1..20), seal in any::<bool>()) {
            let mut bytes = disk();
            for (at, with) in damage {
                bytes[at] = with;
            }
            if seal {
                // With a right checksum, so that what stands behind it is looked at.
                let sum = checksum(&std::array::from_fn(|at| bytes[512 + at]), 92);
                bytes[512 + 12..512 + 16].copy_from_slice(&92u32.to_le_bytes());
                bytes[512 + 16..512 + 20].copy_from_slice(&sum.to_le_bytes());
            }
            let _ = read(bytes);
        }
    }
}
