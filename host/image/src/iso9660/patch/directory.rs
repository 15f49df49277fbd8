//! Changing the records of a directory, and moving it to the end of the image if it outgrows its place.

use crate::iso9660::reader::{Extent, IsoNames, IsoVolume, Listing, Record, SECTOR, SystemUse, records};
use crate::iso9660::records::{FLAG_DIRECTORY, push};

use super::PatchError;
use super::editor::{Editor, sector_of};
use super::insert::sections_of;

/// A directory in one hierarchy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory {
    pub(super) names: IsoNames,
    pub(super) extent: Extent,
    /// Where the record that leads to it starts; only its descriptor leads to the root.
    pub(super) record: Option<u64>,
}

impl Editor<'_> {
    /// The directories on the way to a path, the root first, as far as there are any.
    pub(super) fn directories(&self, names: IsoNames, path: &[String]) -> Result<Vec<Directory>, PatchError> {
        let source = self.source();
        let volume = IsoVolume::open(&source)?;
        let descriptor = volume
            .descriptor(names)
            .ok_or(PatchError::unsupported("a hierarchy is gone"))?;
        let mut here = Directory {
            names,
            extent: descriptor.root,
            record: None,
        };
        let mut on_the_way = vec![here];
        let mut so_far = String::new();
        let mut listing = Listing::default();
        for name in path {
            let found = volume.read_directory(names, here.extent, &so_far, &mut listing)?;
            if !so_far.is_empty() {
                so_far.push('/');
            }
            so_far.push_str(name);
            let is = |other: &str| match names {
                IsoNames::Plain => other.eq_ignore_ascii_case(&so_far),
                _ => other == so_far,
            };
            let Some(found) = found.into_iter().find(|found| is(&found.entry.path)) else {
                break;
            };
            let Some(extent) = found.directory else {
                return Err(PatchError::NotAFile { path: so_far });
            };
            let record = found.entry.records.first().copied();
            here = Directory { names, extent, record };
            on_the_way.push(here);
        }
        Ok(on_the_way)
    }

    /// The directory that holds the record at `at`.
    fn directory_of_record(&self, names: IsoNames, at: u64) -> Result<Option<Directory>, PatchError> {
        let source = self.source();
        let volume = IsoVolume::open(&source)?;
        let Some(descriptor) = volume.descriptor(names) else {
            return Ok(None);
        };
        let root = Directory {
            names,
            extent: descriptor.root,
            record: None,
        };
        let mut queue = vec![root];
        let mut listing = Listing::default();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(directory) = queue.pop() {
            let Extent { at: start, len } = directory.extent;
            if (start..start + len).contains(&at) {
                return Ok(Some(directory));
            }
            if !seen.insert(start) {
                continue;
            }
            for found in volume.read_directory(names, directory.extent, "", &mut listing)? {
                queue.extend(found.directory.map(|extent| Directory {
                    names,
                    extent,
                    record: found.entry.records.first().copied(),
                }));
            }
        }
        Ok(None)
    }

    /// Gives a file as many records as its new length needs, wherever it is listed.
    pub(super) fn replace_records(&mut self, files: &[Vec<u64>], place: (u32, u64)) -> Result<(), PatchError> {
        for old in files {
            let Some(first) = old.first() else { continue };
            let mut directory = None;
            for names in [IsoNames::Plain, IsoNames::Joliet] {
                directory = directory.or(self.directory_of_record(names, *first)?);
            }
            let directory = directory.ok_or(PatchError::unsupported("a file's directory cannot be found again"))?;
            let from = directory.extent.at;
            let mut all = self.records_of(directory)?;
            let at = all.iter().position(|(start, _)| from + start == *first);
            let at = at.ok_or(PatchError::unsupported("a file's record cannot be found again"))?;
            let template = all[at].1.clone();
            let new = sections_of(&template, place).into_iter().map(|record| (0, record));
            all.splice(at..at + old.len(), new);
            self.set_records(directory, all.into_iter().map(|(_, record)| record).collect())?;
        }
        Ok(())
    }

    /// The records of a directory with their places in it.
    pub(super) fn records_of(&self, directory: Directory) -> Result<Vec<(u64, Vec<u8>)>, PatchError> {
        let source = self.source();
        let volume = IsoVolume::open(&source)?;
        let bytes = volume.directory_bytes(directory.extent, "")?;
        let damaged = PatchError::unsupported("a directory of it is damaged");
        let all: Result<Vec<_>, _> = records(&bytes)
            .map(|record| record.map(|(at, record)| (at as u64, record.bytes().to_vec())))
            .collect();
        all.map_err(|_| damaged)
    }

    /// Makes these the records of a directory, in its place if they fit, else at the end of the image.
    pub(super) fn set_records(&mut self, directory: Directory, records: Vec<Vec<u8>>) -> Result<(), PatchError> {
        let mut bytes = Vec::new();
        for record in &records {
            push(&mut bytes, record);
        }
        bytes.resize(bytes.len().next_multiple_of(2048), 0);
        let room = directory.extent.len.next_multiple_of(SECTOR);
        if bytes.len() as u64 <= room {
            // A directory may end with empty sectors, so its length stays.
            bytes.resize(usize::try_from(room).map_err(|_| PatchError::TooLarge)?, 0);
            if room == directory.extent.len {
                self.write(directory.extent.at, &bytes);
                return Ok(());
            }
        }
        self.move_directory(directory, &records, bytes)
    }

    fn move_directory(&mut self, directory: Directory, records: &[Vec<u8>], bytes: Vec<u8>) -> Result<(), PatchError> {
        self.refuse_moved_directories(directory, records)?;
        let len = u32::try_from(bytes.len()).map_err(|_| PatchError::TooLarge)?;
        let at = self.append_bytes(bytes)?;
        let place = (sector_of(at)?, len);
        // Its own record and, in the root, its parent's are the first two.
        let own = at;
        let parent = at + u64::from(records.first().and_then(|record| record.first()).copied().unwrap_or(34));
        self.point(own, place);
        match directory.record {
            Some(record) => self.point(record, place),
            None => {
                self.point(parent, place);
                let descriptor = {
                    let source = self.source();
                    IsoVolume::open(&source)?.descriptor(directory.names)
                };
                let descriptor = descriptor.ok_or(PatchError::unsupported("a hierarchy is gone"))?;
                self.point(descriptor.at + 156, place);
            }
        }
        for record in records {
            let Some(child) = Record::parse(record).filter(|record| record.raw().is_dir() && !record.is_dot()) else {
                continue;
            };
            let child = child.raw().extent(SECTOR);
            let first = self.read(child.at, 1)?;
            self.point(child.at + u64::from(first[0]), place);
        }
        self.rewrite_path_tables(directory.names)
    }

    /// Directories that lie too deep for ISO 9660 and were put elsewhere are pointed to in more ways than are followed here.
    fn refuse_moved_directories(&self, directory: Directory, records: &[Vec<u8>]) -> Result<(), PatchError> {
        const REASON: &str = "a directory that would have to move holds or is one that was put elsewhere for its depth";
        let source = self.source();
        let volume = IsoVolume::open(&source)?;
        if let Some(record) = directory.record {
            let bytes = self.read(record, 34)?;
            if bytes[25] & FLAG_DIRECTORY == 0 {
                return Err(PatchError::unsupported(REASON));
            }
        }
        let Some(skip) = volume.rock_ridge_skip().filter(|_| directory.names != IsoNames::Joliet) else {
            return Ok(());
        };
        let mut listing = Listing::default();
        for record in records {
            let record = Record::parse(record).ok_or(PatchError::unsupported("a directory of it is damaged"))?;
            let area = record.system_use().get(skip..).unwrap_or_default();
            let fields = SystemUse::read(&volume, area, &mut listing, "")?;
            if fields.child.is_some() || fields.is_moved {
                return Err(PatchError::unsupported(REASON));
            }
        }
        Ok(())
    }
}
