//! Directory records (ECMA-119 §9.1).

use super::{Extent, IsoTime, SECTOR_BYTES, le32};

/// Bytes of a record with an identifier of one byte.
const MIN_RECORD: usize = 34;

const FLAG_DIRECTORY: u8 = 2;
const FLAG_ASSOCIATED: u8 = 4;
const FLAG_MORE: u8 = 0x80;

/// One record, checked to hold its identifier.
#[derive(Clone, Copy)]
pub(in crate::iso9660) struct Record<'a>(&'a [u8]);

/// The numbers of a record.
#[derive(Clone, Copy)]
pub(in crate::iso9660) struct RawRecord {
    pub(in crate::iso9660) block: u32,
    pub(in crate::iso9660) len: u32,
    /// Blocks of an extended attribute record before the data.
    pub(in crate::iso9660) attributes: u8,
    flags: u8,
    unit: u8,
    gap: u8,
}

impl RawRecord {
    pub(in crate::iso9660) fn is_dir(self) -> bool {
        self.flags & FLAG_DIRECTORY != 0
    }

    /// A file of another system's attributes, beside the one of the same name.
    pub(in crate::iso9660) fn is_associated(self) -> bool {
        self.flags & FLAG_ASSOCIATED != 0
    }

    /// Whether the next record goes on with the same file.
    pub(in crate::iso9660) fn has_more(self) -> bool {
        self.flags & FLAG_MORE != 0
    }

    /// Whether other files' blocks lie between its own.
    pub(in crate::iso9660) fn is_interleaved(self) -> bool {
        self.unit != 0 || self.gap != 0
    }

    pub(in crate::iso9660) fn extent(self, block: u64) -> Extent {
        Extent {
            at: (u64::from(self.block) + u64::from(self.attributes)) * block,
            len: u64::from(self.len),
        }
    }
}

impl<'a> Record<'a> {
    /// Takes the bytes of one whole record.
    pub(in crate::iso9660) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let holds = bytes.len() >= MIN_RECORD && 33 + usize::from(bytes[32]) <= bytes.len() && bytes[32] > 0;
        holds.then_some(Self(bytes))
    }

    pub(in crate::iso9660) fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub(in crate::iso9660) fn raw(self) -> RawRecord {
        RawRecord {
            block: le32(self.0, 2),
            len: le32(self.0, 10),
            attributes: self.0[1],
            flags: self.0[25],
            unit: self.0[26],
            gap: self.0[27],
        }
    }

    pub(in crate::iso9660) fn identifier(self) -> &'a [u8] {
        &self.0[33..33 + usize::from(self.0[32])]
    }

    /// Whether it is the directory's own record, or its parent's.
    pub(in crate::iso9660) fn is_dot(self) -> bool {
        matches!(self.identifier(), [0 | 1])
    }

    /// What follows the identifier and its padding.
    pub(in crate::iso9660) fn system_use(self) -> &'a [u8] {
        let start = (33 + usize::from(self.0[32])).next_multiple_of(2);
        self.0.get(start..).unwrap_or_default()
    }

    pub(in crate::iso9660) fn time(self) -> Option<IsoTime> {
        IsoTime::of_record(&self.0[18..25])
    }
}

/// The records of a directory with their places in it. None crosses a sector; a length of 0 ends a sector. The first damaged
/// one ends the directory.
pub(in crate::iso9660) fn records(directory: &[u8]) -> impl Iterator<Item = Result<(usize, Record<'_>), &'static str>> {
    let mut at = 0;
    let mut is_over = false;
    std::iter::from_fn(move || {
        loop {
            let len = usize::from(*directory.get(at).filter(|_| !is_over)?);
            if len == 0 {
                at = (at + 1).next_multiple_of(SECTOR_BYTES);
                continue;
            }
            let room = SECTOR_BYTES - at % SECTOR_BYTES;
            let record = directory
                .get(at..at + len)
                .filter(|_| len <= room)
                .and_then(Record::parse);
            let start = at;
            at += len;
            is_over = record.is_none();
            return Some(
                record
                    .map(|record| (start, record))
                    .ok_or("a directory record is cut short"),
            );
        }
    })
}
