//! Walking the directories of one hierarchy.

use std::collections::BTreeSet;

use super::{Extent, IsoEntry, IsoKind, IsoNames, IsoReadError, IsoSection, IsoVolume, Record, SystemUse, records};

/// Entries of a whole volume that are listed; more is refused.
const MAX_ENTRIES: usize = 200_000;
/// Deepest directory that is followed.
const MAX_DEPTH: usize = 64;
/// Bytes of one directory.
pub(in crate::iso9660) const MAX_DIRECTORY: u64 = 64 << 20;
/// Bytes of all directories together.
const MAX_DIRECTORIES: u64 = 256 << 20;
/// Continuations of all records together.
const MAX_CONTINUATIONS: usize = 2 * MAX_ENTRIES;
/// Bytes of all paths together: names of hostile length in hostile depth add up.
const MAX_PATHS: usize = 64 << 20;

/// What a walk over all directories has met.
#[derive(Default)]
pub(in crate::iso9660) struct Listing {
    pub(super) entries: Vec<IsoEntry>,
    /// Where directories start.
    seen: BTreeSet<u64>,
    directory_bytes: u64,
    path_bytes: usize,
    continuations: usize,
}

impl Listing {
    pub(super) fn count_continuation(&mut self, path: &str) -> Result<(), IsoReadError> {
        self.continuations += 1;
        if self.continuations > MAX_CONTINUATIONS {
            return Err(damaged(
                path,
                "its directory records have more continuations than are read",
            ));
        }
        Ok(())
    }

    /// Counts a directory that is about to be read.
    fn enter(&mut self, extent: Extent, path: &str) -> Result<(), IsoReadError> {
        if !self.seen.insert(extent.at) {
            return Err(damaged(path, "two directories share their place"));
        }
        self.directory_bytes = self.directory_bytes.saturating_add(extent.len);
        if self.directory_bytes > MAX_DIRECTORIES {
            return Err(damaged(path, "the directories are longer than are read"));
        }
        Ok(())
    }
}

/// An entry, and where its directory is if it is one.
pub(in crate::iso9660) struct Found {
    pub(in crate::iso9660) entry: IsoEntry,
    pub(in crate::iso9660) directory: Option<Extent>,
}

impl IsoVolume<'_> {
    pub(super) fn listing(&self, names: IsoNames) -> Result<Listing, IsoReadError> {
        let mut listing = Listing::default();
        if let Some(descriptor) = self.descriptor(names) {
            self.walk(names, descriptor.root, "", 0, &mut listing)?;
        }
        Ok(listing)
    }

    fn walk(
        &self,
        names: IsoNames,
        directory: Extent,
        path: &str,
        depth: usize,
        listing: &mut Listing,
    ) -> Result<(), IsoReadError> {
        if depth > MAX_DEPTH {
            return Err(damaged(path, "directories lie too deep"));
        }
        listing.enter(directory, path)?;
        for found in self.read_directory(names, directory, path, listing)? {
            listing.path_bytes += found.entry.path.len();
            if listing.entries.len() == MAX_ENTRIES || listing.path_bytes > MAX_PATHS {
                return Err(damaged(path, "the volume holds more files than are read"));
            }
            let below = found.directory.map(|directory| (directory, found.entry.path.clone()));
            listing.entries.push(found.entry);
            if let Some((directory, path)) = below {
                self.walk(names, directory, &path, depth + 1, listing)?;
            }
        }
        Ok(())
    }

    /// As [`IsoVolume::find`], by these names.
    pub fn find_by(&self, names: IsoNames, path: &str) -> Result<Option<IsoEntry>, IsoReadError> {
        let Some(descriptor) = self.descriptor(names) else {
            return Ok(None);
        };
        let mut listing = Listing::default();
        let mut here = Found {
            entry: root(),
            directory: Some(descriptor.root),
        };
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let Some(directory) = here.directory else {
                return Ok(None);
            };
            listing.enter(directory, &here.entry.path)?;
            let start = match here.entry.path.len() {
                0 => 0,
                len => len + 1,
            };
            let mut found = self.read_directory(names, directory, &here.entry.path, &mut listing)?;
            let is = |found: &Found, in_either_case: bool| {
                let other = found.entry.path.get(start..).unwrap_or_default();
                other == name || in_either_case && other.eq_ignore_ascii_case(name)
            };
            let exact = found.iter().position(|found| is(found, false));
            let position = match exact {
                None if names == IsoNames::Plain => found.iter().position(|found| is(found, true)),
                exact => exact,
            };
            match position {
                Some(index) => here = found.swap_remove(index),
                None => return Ok(None),
            }
        }
        Ok(Some(here.entry))
    }

    /// What lies in a directory, without the directory itself and its parent.
    pub(in crate::iso9660) fn read_directory(
        &self,
        names: IsoNames,
        directory: Extent,
        path: &str,
        listing: &mut Listing,
    ) -> Result<Vec<Found>, IsoReadError> {
        let bytes = self.directory_bytes(directory, path)?;
        let mut found: Vec<Found> = Vec::new();
        let mut last_goes_on = false;
        let mut last_identifier: &[u8] = &[];
        for record in records(&bytes) {
            let (start, record) = record.map_err(|reason| damaged(path, reason))?;
            if record.is_dot() || record.raw().is_associated() {
                continue;
            }
            let at = directory.at + start as u64;
            if last_goes_on {
                if record.identifier() != last_identifier {
                    return Err(damaged(path, "a file of several sections ends in the middle"));
                }
                let last = found.last_mut().expect("a record that goes on was kept");
                self.add_section(&mut last.entry, record, at);
            } else {
                if found.len() == MAX_ENTRIES {
                    return Err(damaged(path, "the directory holds more files than are read"));
                }
                match self.entry(names, record, at, path, listing)? {
                    Some(entry) => found.push(entry),
                    None => continue,
                }
            }
            last_goes_on = record.raw().has_more() && found.last().is_some_and(|found| found.directory.is_none());
            last_identifier = record.identifier();
        }
        if last_goes_on {
            return Err(damaged(path, "a file of several sections ends in the middle"));
        }
        Ok(found)
    }

    /// The entry that starts with this record; none for a directory that belongs elsewhere.
    fn entry(
        &self,
        names: IsoNames,
        record: Record<'_>,
        at: u64,
        parent: &str,
        listing: &mut Listing,
    ) -> Result<Option<Found>, IsoReadError> {
        let fields = match (names, self.rock_ridge_skip()) {
            (IsoNames::RockRidge, Some(skip)) => {
                let area = record.system_use().get(skip..).unwrap_or_default();
                SystemUse::read(self, area, listing, parent)?
            }
            _ => SystemUse::default(),
        };
        if fields.is_moved {
            return Ok(None);
        }
        let name = match (names, &fields.name) {
            (IsoNames::RockRidge, Some(name)) if !name.is_empty() => String::from_utf8_lossy(name).into_owned(),
            (IsoNames::Joliet, _) => joliet_name(record.identifier()),
            _ => plain_name(record.identifier()),
        };
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
            return Err(damaged(parent, "it holds a name that is none"));
        }
        let path = if parent.is_empty() {
            name
        } else {
            format!("{parent}/{name}")
        };
        let directory = match fields.child {
            Some(block) => Some(self.moved_directory(block, &path)?),
            None => record.raw().is_dir().then(|| record.raw().extent(self.block())),
        };
        let kind = match (directory, fields.link, fields.mode.map(|mode| mode & 0o170_000)) {
            (Some(_), ..) => IsoKind::Directory,
            (None, Some(target), _) => IsoKind::Link(target),
            (None, None, Some(0o010_000 | 0o020_000 | 0o060_000 | 0o140_000)) => IsoKind::Special,
            _ => IsoKind::File,
        };
        let mut entry = IsoEntry {
            path,
            kind,
            len: 0,
            sections: Vec::new(),
            mode: fields.mode,
            recorded: record.time(),
            unreadable: fields
                .is_compressed
                .then_some("it is compressed (zisofs), which is not read"),
            records: Vec::new(),
        };
        if entry.is_file() {
            self.add_section(&mut entry, record, at);
        } else {
            entry.records.push(at);
        }
        Ok(Some(Found { entry, directory }))
    }

    fn add_section(&self, entry: &mut IsoEntry, record: Record<'_>, at: u64) {
        let raw = record.raw();
        if raw.is_interleaved() {
            entry.unreadable = Some("other files' blocks lie between its own, which is not read");
        }
        let Extent { at: start, len } = raw.extent(self.block());
        if len > 0 {
            entry.sections.push(IsoSection { at: start, len });
        }
        // At most MAX_DIRECTORY / 34 sections of 4 GiB.
        entry.len += len;
        entry.records.push(at);
    }

    /// A directory that lay too deep for ISO 9660 and was put elsewhere (RRIP 1.12, 4.1.5.1): only its place is told, its
    /// length stands in its own first record.
    fn moved_directory(&self, block: u32, path: &str) -> Result<Extent, IsoReadError> {
        let at = u64::from(block) * self.block();
        let first = self.directory_bytes(Extent { at, len: 34 }, path)?;
        let record = Record::parse(&first).filter(|record| record.identifier() == [0]);
        let record = record.ok_or_else(|| damaged(path, "the place of a moved directory holds none"))?;
        Ok(Extent {
            at,
            len: u64::from(record.raw().len),
        })
    }
}

fn root() -> IsoEntry {
    IsoEntry {
        path: String::new(),
        kind: IsoKind::Directory,
        len: 0,
        sections: Vec::new(),
        mode: None,
        recorded: None,
        unreadable: None,
        records: Vec::new(),
    }
}

fn joliet_name(identifier: &[u8]) -> String {
    let units = identifier
        .chunks_exact(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let name: String = char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    without_version(&name).to_owned()
}

fn plain_name(identifier: &[u8]) -> String {
    let name: String = identifier.iter().map(|byte| char::from(*byte)).collect();
    let name = without_version(&name);
    name.strip_suffix('.').unwrap_or(name).to_owned()
}

fn without_version(name: &str) -> &str {
    match name.rsplit_once(';') {
        Some((name, version)) if !name.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => name,
    }
}

fn damaged(path: &str, reason: &'static str) -> IsoReadError {
    IsoReadError::Damaged {
        path: path.to_owned(),
        reason,
    }
}
