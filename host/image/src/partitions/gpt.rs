//! The bytes of an MBR with its protective entry, and of a GPT with its backup.

use super::Guid;

/// Bytes of a sector, in which partition tables count.
pub(crate) const SECTOR: u64 = 512;
/// Entries of a table, and bytes of one.
const ENTRIES: u32 = 128;
const ENTRY: u32 = 128;
const TABLE: usize = (ENTRIES * ENTRY) as usize;
const HEADER: usize = 92;
/// Bytes of a header's sector and of the table.
pub(crate) const GPT_BYTES: u64 = SECTOR + TABLE as u64;
/// The first sector of a table, after the MBR and the header.
const FIRST_ENTRY: u64 = 2;

/// A GPT to write.
#[derive(Clone, Debug)]
pub(crate) struct Gpt {
    pub(crate) disk: Guid,
    /// Sectors of the disk, the backup's included.
    pub(crate) sectors: u64,
    /// First sector that a partition may have.
    pub(crate) first_usable: u64,
    pub(crate) partitions: Vec<GptPartition>,
}

#[derive(Clone, Debug)]
pub(crate) struct GptPartition {
    pub(crate) kind: Guid,
    pub(crate) id: Guid,
    pub(crate) first: u64,
    /// The last sector that belongs to it.
    pub(crate) last: u64,
    pub(crate) attributes: u64,
    /// At most 36 ASCII characters.
    pub(crate) name: &'static str,
}

impl Gpt {
    /// Header and table, for sector 1.
    pub(crate) fn primary(&self) -> Vec<u8> {
        let table = self.table();
        let mut out = self.header(&table, 1, self.sectors - 1, FIRST_ENTRY);
        out.extend(table);
        out
    }

    /// Table and header, for the last sectors.
    pub(crate) fn backup(&self) -> Vec<u8> {
        let mut out = self.table();
        let first = self.sectors - GPT_BYTES / SECTOR;
        let header = self.header(&out, self.sectors - 1, 1, first);
        out.extend(header);
        out
    }

    fn header(&self, table: &[u8], here: u64, other: u64, first_entry: u64) -> Vec<u8> {
        let mut out = b"EFI PART\0\0\x01\0".to_vec();
        out.extend(u32::try_from(HEADER).unwrap_or_default().to_le_bytes());
        // The checksum, and a reserved field.
        out.extend([0; 8]);
        let last_usable = self.sectors - GPT_BYTES / SECTOR - 1;
        for number in [here, other, self.first_usable, last_usable] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.disk.0);
        out.extend(first_entry.to_le_bytes());
        for number in [ENTRIES, ENTRY, crc32fast::hash(table)] {
            out.extend(number.to_le_bytes());
        }
        let checksum = crc32fast::hash(&out);
        out[16..20].copy_from_slice(&checksum.to_le_bytes());
        out.resize(usize::try_from(SECTOR).unwrap_or(HEADER), 0);
        out
    }

    fn table(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TABLE);
        for partition in &self.partitions {
            out.extend(partition.kind.0);
            out.extend(partition.id.0);
            for number in [partition.first, partition.last, partition.attributes] {
                out.extend(number.to_le_bytes());
            }
            let name = partition.name.encode_utf16().chain(std::iter::repeat(0)).take(36);
            out.extend(name.flat_map(u16::to_le_bytes));
        }
        out.resize(TABLE, 0);
        out
    }
}
