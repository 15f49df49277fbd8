//! Path tables (ECMA-119 §9.4): every directory of a hierarchy, by level, with its place and its parent.

use std::collections::BTreeSet;

use crate::iso9660::reader::{Extent, IsoNames, IsoVolume, SECTOR, le32, records};
use crate::iso9660::records::both32;

use super::PatchError;
use super::editor::{Editor, sector_of};

/// Directories that a table can number.
const MAX_DIRECTORIES: usize = 65_535;

/// A directory as a table has it.
struct Entry {
    extent: Extent,
    /// Number of its parent, from 1.
    parent: u16,
    identifier: Vec<u8>,
}

impl Editor<'_> {
    /// Writes a hierarchy's path tables anew: in their place if they fit, else at the end of the image.
    pub(super) fn rewrite_path_tables(&mut self, names: IsoNames) -> Result<(), PatchError> {
        let (descriptor, entries) = {
            let source = self.source();
            let volume = IsoVolume::open(&source)?;
            let descriptor = volume
                .descriptor(names)
                .ok_or(PatchError::unsupported("a hierarchy is gone"))?;
            let entries = entries(&volume, descriptor.root)?;
            (descriptor.at, entries)
        };
        let sector = self.read(descriptor, 2048)?;
        let room = u64::from(le32(&sector, 132)).next_multiple_of(SECTOR);
        let little = table(&entries, u32::to_le_bytes, u16::to_le_bytes)?;
        let big = table(&entries, u32::to_be_bytes, u16::to_be_bytes)?;
        let len = u32::try_from(little.len()).map_err(|_| PatchError::TooLarge)?;
        let big_at = u32::from_be_bytes([sector[148], sector[149], sector[150], sector[151]]);
        let mut places = [u64::from(le32(&sector, 140)) * SECTOR, u64::from(big_at) * SECTOR];
        let fits = u64::from(len) <= room;
        for (place, table) in places.iter_mut().zip([little, big]) {
            let is_inside = *place >= 16 * SECTOR && place.saturating_add(room) <= self.size_before;
            if fits && is_inside {
                self.write(*place, &table);
            } else {
                *place = self.append_bytes(table)?;
            }
        }
        self.write(descriptor + 132, &both32(len));
        // A second copy of each may be there, and may be missing.
        let [little, big] = places;
        self.write(descriptor + 140, &[sector_of(little)?.to_le_bytes(), [0; 4]].concat());
        self.write(descriptor + 148, &[sector_of(big)?.to_be_bytes(), [0; 4]].concat());
        Ok(())
    }
}

/// All directories as they lie: those that were put elsewhere for their depth are where they were put.
fn entries(volume: &IsoVolume<'_>, root: Extent) -> Result<Vec<Entry>, PatchError> {
    let mut entries = vec![Entry {
        extent: root,
        parent: 1,
        identifier: vec![0],
    }];
    let mut seen = BTreeSet::from([root.at]);
    let mut next = 0;
    // A level's directories come in the order of their parents, then of their names, which is how directories are sorted.
    while let Some(entry) = entries.get(next) {
        next += 1;
        let number = u16::try_from(next).map_err(|_| PatchError::TooLarge)?;
        let bytes = volume.directory_bytes(entry.extent, "")?;
        for record in records(&bytes) {
            let (_, record) = record.map_err(|_| PatchError::unsupported("a directory of it is damaged"))?;
            if !record.raw().is_dir() || record.is_dot() {
                continue;
            }
            let extent = record.raw().extent(SECTOR);
            if !seen.insert(extent.at) {
                return Err(PatchError::unsupported("two directories of it share their place"));
            }
            if entries.len() == MAX_DIRECTORIES {
                return Err(PatchError::TooLarge);
            }
            entries.push(Entry {
                extent,
                parent: number,
                identifier: record.identifier().to_vec(),
            });
        }
    }
    Ok(entries)
}

fn table(entries: &[Entry], bytes32: fn(u32) -> [u8; 4], bytes16: fn(u16) -> [u8; 2]) -> Result<Vec<u8>, PatchError> {
    let mut out = Vec::new();
    for entry in entries {
        out.push(u8::try_from(entry.identifier.len()).map_err(|_| PatchError::TooLarge)?);
        out.push(0);
        out.extend(bytes32(sector_of(entry.extent.at)?));
        out.extend(bytes16(entry.parent));
        out.extend_from_slice(&entry.identifier);
        out.resize(out.len().next_multiple_of(2), 0);
    }
    Ok(out)
}
