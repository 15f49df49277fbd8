//! Directory records (ECMA-119 §9.1) with their system use fields (SUSP 1.12, Rock Ridge 1.09).

use super::tree::{Child, MAX_SECTION, Tree, View};

pub(super) const SECTOR: usize = 2048;
/// 2000-01-01 00:00:00 UTC, as records hold it: every image is as old as every other one.
pub(super) const RECORD_DATE: [u8; 7] = [100, 1, 1, 0, 0, 0, 0];

pub(super) const MAX_RECORD: usize = 254;
pub(super) const FLAG_DIRECTORY: u8 = 2;
/// The next record goes on with the same file.
pub(super) const FLAG_MORE: u8 = 0x80;
const CE_BYTES: usize = 28;
const NM_HEADER: usize = 5;
const NM_CONTINUE: u8 = 1;
pub(super) const FILE_MODE: u32 = 0o100_444;
pub(super) const DIR_MODE: u32 = 0o040_555;

/// Where extents are: first sector and length in bytes.
pub(super) trait Place {
    fn place(&self, view: View, child: Child) -> (u32, u64);
}

/// The sectors that hold system use fields for which records have no room.
pub(super) struct Continuations {
    pub(super) first_sector: u32,
    pub(super) bytes: Vec<u8>,
}

impl Continuations {
    /// Adds fields, none across a sector boundary, and returns the `CE` field that points to them.
    fn add(&mut self, fields: &[u8]) -> Vec<u8> {
        if self.bytes.len() % SECTOR + fields.len() > SECTOR {
            self.bytes.resize(self.bytes.len().next_multiple_of(SECTOR), 0);
        }
        let at = self.bytes.len();
        self.bytes.extend_from_slice(fields);
        let sector = u32::try_from(at / SECTOR).unwrap_or(u32::MAX);
        let offset = u32::try_from(at % SECTOR).unwrap_or(u32::MAX);
        let len = u32::try_from(fields.len()).unwrap_or(u32::MAX);
        let mut field = b"CE\x1c\x01".to_vec();
        for number in [self.first_sector.saturating_add(sector), offset, len] {
            field.extend(both32(number));
        }
        field
    }
}

/// All records of a directory, in whole sectors.
pub(super) fn directory(
    tree: &Tree<'_>,
    view: View,
    index: usize,
    places: &impl Place,
    continuations: &mut Continuations,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(SECTOR);
    let parent = tree.dirs[index].parent;
    for (identifier, dir) in [(0u8, index), (1, parent)] {
        let fields = match view {
            View::Joliet => Vec::new(),
            View::Iso => {
                let mut fields = Vec::new();
                let is_first = index == 0 && identifier == 0;
                if is_first {
                    fields.extend_from_slice(b"SP\x07\x01\xBE\xEF\0");
                }
                fields.extend(posix(DIR_MODE, 2 + tree.dirs[dir].subdirectories));
                if is_first {
                    fields.extend(continuations.add(&extension_reference()));
                }
                fields
            }
        };
        push(
            &mut out,
            &record(
                &[identifier],
                section(places.place(view, Child::Dir(dir)), 0),
                FLAG_DIRECTORY,
                &fields,
            ),
        );
    }
    for child in tree.children(view, index) {
        let identifier = tree.identifier(view, child);
        let (flags, mode, links) = match child {
            Child::Dir(dir) => (FLAG_DIRECTORY, DIR_MODE, 2 + tree.dirs[dir].subdirectories),
            Child::File(_) => (0, FILE_MODE, 1),
        };
        let fields = match view {
            View::Joliet => Vec::new(),
            View::Iso => {
                let mut fields = posix(mode, links);
                let room = MAX_RECORD - record_bytes(identifier.len()) - fields.len();
                fields.extend(name(tree.real_name(child).as_bytes(), room, continuations));
                fields
            }
        };
        let place = places.place(view, child);
        let sections = place.1.div_ceil(MAX_SECTION).max(1);
        for index in 0..sections {
            let more = if index + 1 < sections { FLAG_MORE } else { 0 };
            push(
                &mut out,
                &record(&identifier, section(place, index), flags | more, &fields),
            );
        }
    }
    out.resize(out.len().next_multiple_of(SECTOR), 0);
    out
}

/// First sector and length of one section of what lies at `place`.
pub(super) fn section((sector, len): (u32, u64), index: u64) -> (u32, u32) {
    let start = index * MAX_SECTION;
    let sector = u64::from(sector) + start / SECTOR as u64;
    let len = (len - start).min(MAX_SECTION);
    // Places are handed out so that every sector has a number of 32 bits.
    (
        u32::try_from(sector).unwrap_or(u32::MAX),
        u32::try_from(len).unwrap_or(u32::MAX),
    )
}

/// Appends a record; none crosses a sector boundary.
pub(super) fn push(out: &mut Vec<u8>, record: &[u8]) {
    if out.len() % SECTOR + record.len() > SECTOR {
        out.resize(out.len().next_multiple_of(SECTOR), 0);
    }
    out.extend_from_slice(record);
}

/// Bytes of a record without system use fields.
pub(super) fn record_bytes(identifier: usize) -> usize {
    (33 + identifier).next_multiple_of(2)
}

/// One directory record.
pub(super) fn record(identifier: &[u8], (sector, len): (u32, u32), flags: u8, fields: &[u8]) -> Vec<u8> {
    let bytes = (record_bytes(identifier.len()) + fields.len()).next_multiple_of(2);
    let mut out = Vec::with_capacity(bytes);
    out.push(u8::try_from(bytes).expect("identifiers and fields are cut to fit a record"));
    out.push(0);
    out.extend(both32(sector));
    out.extend(both32(len));
    out.extend(RECORD_DATE);
    out.extend([flags, 0, 0]);
    out.extend(both16(1));
    out.push(u8::try_from(identifier.len()).expect("identifiers are cut to fit a record"));
    out.extend_from_slice(identifier);
    out.resize(record_bytes(identifier.len()), 0);
    out.extend_from_slice(fields);
    out.resize(bytes, 0);
    out
}

/// `PX` (mode, links, user, group) and `TF` (modified, read, changed).
pub(super) fn posix(mode: u32, links: u32) -> Vec<u8> {
    let mut fields = b"PX\x24\x01".to_vec();
    for number in [mode, links, 0, 0] {
        fields.extend(both32(number));
    }
    fields.extend_from_slice(b"TF\x1a\x01\x0e");
    for _ in 0..3 {
        fields.extend(RECORD_DATE);
    }
    fields
}

/// The real name in `NM` fields: in the record if there is room, else its end in a continuation.
pub(super) fn name(name: &[u8], room: usize, continuations: &mut Continuations) -> Vec<u8> {
    if NM_HEADER + name.len() <= room {
        return name_field(name, 0);
    }
    let (head, tail) = name.split_at(room - CE_BYTES - NM_HEADER);
    let mut fields = name_field(head, NM_CONTINUE);
    fields.extend(continuations.add(&name_field(tail, 0)));
    fields
}

fn name_field(part: &[u8], flags: u8) -> Vec<u8> {
    let len = u8::try_from(NM_HEADER + part.len()).expect("a name has at most 255 bytes, of which a record takes some");
    let mut field = vec![b'N', b'M', len, 1, flags];
    field.extend_from_slice(part);
    field
}

/// `ER`: says that the fields are Rock Ridge (RRIP 1.09, section 4.3).
fn extension_reference() -> Vec<u8> {
    const ID: &[u8] = b"RRIP_1991A";
    const DESCRIPTION: &[u8] = b"THE ROCK RIDGE INTERCHANGE PROTOCOL PROVIDES SUPPORT FOR POSIX FILE SYSTEM SEMANTICS";
    const SOURCE: &[u8] = b"SEE THE ROCK RIDGE INTERCHANGE PROTOCOL, VERSION 1.09";
    let mut field = b"ER".to_vec();
    let len = 8 + ID.len() + DESCRIPTION.len() + SOURCE.len();
    for number in [len, 1, ID.len(), DESCRIPTION.len(), SOURCE.len(), 1] {
        field.push(u8::try_from(number).expect("constants shorter than 256 bytes"));
    }
    for text in [ID, DESCRIPTION, SOURCE] {
        field.extend_from_slice(text);
    }
    field
}

/// Both byte orders of a 32-bit number (ECMA-119 §7.3.3).
pub(super) fn both32(number: u32) -> [u8; 8] {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&number.to_le_bytes());
    both[4..].copy_from_slice(&number.to_be_bytes());
    both
}

/// Both byte orders of a 16-bit number (ECMA-119 §7.2.3).
pub(super) fn both16(number: u16) -> [u8; 4] {
    let [low, high] = number.to_le_bytes();
    [low, high, high, low]
}
