//! Adding a file, and the directories on its way, to every hierarchy of an image.

use crate::content::Content;
use crate::iso9660::names;
use crate::iso9660::reader::{IsoNames, IsoVolume, Record, SECTOR};
use crate::iso9660::records::{
    Continuations, DIR_MODE, FILE_MODE, FLAG_DIRECTORY, FLAG_MORE, MAX_RECORD, both32, name, posix, record,
    record_bytes, section,
};
use crate::iso9660::tree::{MAX_FILE, MAX_SECTION};
use crate::path;
use crate::unique::Taken;

use super::PatchError;
use super::directory::Directory;
use super::editor::{Editor, sector_of};

/// What a record is for.
struct New<'a> {
    name: &'a str,
    is_dir: bool,
    /// Links that it has (Rock Ridge): of a directory, two and its subdirectories.
    links: u32,
    place: (u32, u64),
}

impl Editor<'_> {
    /// Adds a file at a path where nothing is.
    pub(super) fn insert(&mut self, path: &str, content: &Content) -> Result<(), PatchError> {
        path::tree([(path, content)])?;
        if content.len() > MAX_FILE {
            return Err(PatchError::TooLarge);
        }
        let components: Vec<String> = path.trim_start_matches('/').split('/').map(str::to_owned).collect();
        let (file, dirs) = components.split_last().expect("a checked path has a name");
        let (primary, joliet) = {
            let source = self.source();
            Self::hierarchies(&IsoVolume::open(&source)?)
        };
        let at = self.append(content)?;
        let place = (sector_of(at)?, content.len());
        let existing = self.insert_into(primary, dirs, file, place)?;
        if let Some(joliet) = joliet {
            let dirs: Vec<String> = dirs.iter().map(|dir| joliet_name(dir)).collect();
            if self.insert_into(joliet, &dirs, file, place)? != existing {
                return Err(PatchError::unsupported(
                    "a directory on the way has another name in Joliet, or is not there",
                ));
            }
        }
        Ok(())
    }

    /// Adds a file to one hierarchy; how many directories on its way were there.
    fn insert_into(
        &mut self,
        names: IsoNames,
        dirs: &[String],
        file: &str,
        place: (u32, u64),
    ) -> Result<usize, PatchError> {
        let on_the_way = self.directories(names, dirs)?;
        let existing = on_the_way.len();
        let parent = on_the_way[existing - 1];
        let missing = &dirs[existing - 1..];
        let file = New {
            name: file,
            is_dir: false,
            links: 1,
            place,
        };
        let Some((outermost, _)) = missing.split_first() else {
            self.insert_record(parent, &file)?;
            return Ok(existing);
        };
        // New directories are put together from the inside out; each needs its own place and its parent's.
        let sectors: Vec<u64> = missing
            .iter()
            .map(|_| self.append_bytes(vec![0; 2048]))
            .collect::<Result<_, _>>()?;
        let extent = |at: &u64| -> Result<(u32, u64), PatchError> { Ok((sector_of(*at)?, SECTOR)) };
        for (index, at) in sectors.iter().enumerate() {
            let above = match index {
                0 => (sector_of(parent.extent.at)?, parent.extent.len),
                _ => extent(&sectors[index - 1])?,
            };
            let is_innermost = index + 1 == missing.len();
            let mut bytes = self.dots(names, extent(at)?, above, 2 + u32::from(!is_innermost))?;
            let child = match missing.get(index + 1) {
                Some(name) => New {
                    name,
                    is_dir: true,
                    links: 2 + u32::from(index + 2 < missing.len()),
                    place: extent(&sectors[index + 1])?,
                },
                None => New {
                    name: file.name,
                    ..file
                },
            };
            let mut none = Siblings::default();
            for record in self.new_records(names, &child, &mut none)? {
                bytes.extend(record);
            }
            bytes.resize(2048, 0);
            self.write(*at, &bytes);
        }
        let outermost = New {
            name: outermost,
            is_dir: true,
            links: 2 + u32::from(missing.len() > 1),
            place: extent(&sectors[0])?,
        };
        self.count_subdirectory(parent)?;
        self.insert_record(parent, &outermost)?;
        self.rewrite_path_tables(names)?;
        Ok(existing)
    }

    /// Adds records to a directory, where they belong in its order (ECMA-119 §9.3).
    fn insert_record(&mut self, directory: Directory, new: &New<'_>) -> Result<(), PatchError> {
        let names = directory.names;
        let old: Vec<Vec<u8>> = self
            .records_of(directory)?
            .into_iter()
            .map(|(_, record)| record)
            .collect();
        let mut siblings = Siblings::default();
        for record in &old {
            siblings.take(names, identifier(record));
        }
        let new = self.new_records(names, new, &mut siblings)?;
        let key = new.first().map(|record| order(names, identifier(record)));
        let is_after = |record: &Vec<u8>| {
            let is_dot = Record::parse(record).is_some_and(Record::is_dot);
            !is_dot && Some(order(names, identifier(record))) > key
        };
        let at = old.iter().position(is_after).unwrap_or(old.len());
        let mut all = old;
        all.splice(at..at, new);
        self.set_records(directory, all)
    }

    fn new_records(
        &mut self,
        names: IsoNames,
        new: &New<'_>,
        siblings: &mut Siblings,
    ) -> Result<Vec<Vec<u8>>, PatchError> {
        let identifier = siblings.new_identifier(names, new.name, new.is_dir);
        let fields = match self.rock_ridge(names)? {
            None => Vec::new(),
            Some(skip) => {
                let mut fields = vec![0; skip];
                fields.extend(posix(if new.is_dir { DIR_MODE } else { FILE_MODE }, new.links));
                let mut continuations = Continuations {
                    first_sector: sector_of(self.next_append())?,
                    bytes: Vec::new(),
                };
                let room = MAX_RECORD - record_bytes(identifier.len()) - fields.len();
                fields.extend(name(new.name.as_bytes(), room, &mut continuations));
                if !continuations.bytes.is_empty() {
                    self.append_bytes(continuations.bytes)?;
                }
                fields
            }
        };
        let flags = if new.is_dir { FLAG_DIRECTORY } else { 0 };
        let template = record(&identifier, (0, 0), flags, &fields);
        Ok(sections_of(&template, new.place))
    }

    /// The two records that a directory starts with.
    fn dots(&self, names: IsoNames, own: (u32, u64), parent: (u32, u64), links: u32) -> Result<Vec<u8>, PatchError> {
        let fields = match self.rock_ridge(names)? {
            None => Vec::new(),
            Some(skip) => [vec![0; skip], posix(DIR_MODE, links)].concat(),
        };
        let dot = |identifier: u8, place| record(&[identifier], section(place, 0), FLAG_DIRECTORY, &fields);
        Ok([dot(0, own), dot(1, parent)].concat())
    }

    /// Says in a directory's own record and in the one that leads to it that it has one more subdirectory. What is not where
    /// it usually is stays as it is: the count is a hint.
    fn count_subdirectory(&mut self, directory: Directory) -> Result<(), PatchError> {
        let Some(skip) = self.rock_ridge(directory.names)? else {
            return Ok(());
        };
        for at in directory.record.into_iter().chain([directory.extent.at]) {
            let len = usize::from(self.read(at, 1)?[0]);
            let bytes = self.read(at, len)?;
            let Some(record) = Record::parse(&bytes) else { continue };
            let area = record.system_use();
            let start = bytes.len() - area.len();
            let mut field = skip;
            while let Some([a, b, len, _]) = area
                .get(field..field + 4)
                .and_then(|four| <[u8; 4]>::try_from(four).ok())
            {
                if (a, b) == (b'P', b'X') && area.len() >= field + 20 {
                    let place = start + field + 12;
                    let links =
                        u32::from_le_bytes([bytes[place], bytes[place + 1], bytes[place + 2], bytes[place + 3]]);
                    self.write(at + place as u64, &both32(links.saturating_add(1)));
                    break;
                }
                if len < 4 {
                    break;
                }
                field += usize::from(len);
            }
        }
        Ok(())
    }

    /// How many bytes come before the fields of Rock Ridge, if this hierarchy has them.
    fn rock_ridge(&self, names: IsoNames) -> Result<Option<usize>, PatchError> {
        if names != IsoNames::RockRidge {
            return Ok(None);
        }
        let source = self.source();
        Ok(IsoVolume::open(&source)?.rock_ridge_skip())
    }
}

/// The records of a file or directory that lies at `place`, after the example of one.
pub(super) fn sections_of(template: &[u8], place: (u32, u64)) -> Vec<Vec<u8>> {
    let sections = place.1.div_ceil(MAX_SECTION).max(1);
    let one = |index: u64| {
        let (sector, len) = section(place, index);
        let mut record = template.to_vec();
        record[1] = 0;
        record[2..10].copy_from_slice(&both32(sector));
        record[10..18].copy_from_slice(&both32(len));
        record[25] &= !FLAG_MORE;
        if index + 1 < sections {
            record[25] |= FLAG_MORE;
        }
        record
    };
    (0..sections).map(one).collect()
}

fn identifier(record: &[u8]) -> &[u8] {
    Record::parse(record).map_or(&[], Record::identifier)
}

fn order(names: IsoNames, identifier: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    match names {
        IsoNames::Joliet => (identifier.to_vec(), None),
        _ => {
            let mut parts = identifier.splitn(2, |byte| *byte == b'.');
            (
                parts.next().unwrap_or_default().to_vec(),
                parts.next().map(<[u8]>::to_vec),
            )
        }
    }
}

/// The name that Joliet has for one without a like one beside it.
fn joliet_name(name: &str) -> String {
    String::from_utf16_lossy(&names::joliet(name, &mut Taken::default()))
}

/// Identifiers that a directory has already.
#[derive(Default)]
struct Siblings {
    iso: Taken<Vec<u8>>,
    joliet: Taken<Vec<u16>>,
}

impl Siblings {
    fn take(&mut self, names: IsoNames, identifier: &[u8]) {
        if names == IsoNames::Joliet {
            let units = identifier
                .chunks_exact(2)
                .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            let mut units: Vec<u16> = units.collect();
            if units.ends_with(&[0x3B, 0x31]) {
                units.truncate(units.len() - 2);
            }
            self.joliet.take(units);
        } else {
            self.iso.take(identifier.to_vec());
        }
    }

    fn new_identifier(&mut self, names: IsoNames, name: &str, is_dir: bool) -> Vec<u8> {
        if names != IsoNames::Joliet {
            return names::iso(name, is_dir, &mut self.iso);
        }
        let version: &[u16] = if is_dir { &[] } else { &[0x3B, 0x31] };
        let units = names::joliet(name, &mut self.joliet);
        units
            .iter()
            .chain(version)
            .flat_map(|unit| unit.to_be_bytes())
            .collect()
    }
}
