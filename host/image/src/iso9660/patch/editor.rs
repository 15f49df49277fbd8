//! An ISO that is being changed, and replacing a file in it.

use crate::content::Content;
use crate::iso9660::reader::{IsoEntry, IsoNames, IsoPlatform, IsoVolume, SECTOR, le32};
use crate::iso9660::records::{both32, section};
use crate::iso9660::tree::MAX_SECTION;
use crate::layout::Layout;
use crate::source::{Source, SourceSet};
use crate::splice::{Splice, SpliceSource};

use super::{PatchError, PatchedHow};

/// New content starts at multiples of this, so that materialising an image can reflink it.
const ALIGN: u64 = 4096;

/// What may come before the fields of Rock Ridge in a record: CD-ROM XA's own.
const MAX_SKIP: usize = 14;

/// Whose content a replacement changes where several paths lead to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// That of the path alone.
    Own,
    /// That of every path.
    All,
}

/// An ISO with the changes so far.
pub(super) struct Editor<'a> {
    pub(super) splice: Splice,
    sources: &'a dyn SourceSet,
    /// Bytes of the image before any change.
    pub(super) size_before: u64,
}

/// What has to be known to replace a file.
struct Target {
    entry: IsoEntry,
    /// Where the records that lead to it start: those of one file in one hierarchy each.
    records: Vec<Vec<u64>>,
    is_shared: bool,
    boot: Option<IsoPlatform>,
}

impl<'a> Editor<'a> {
    /// Checks that the image is one that can be changed.
    pub(super) fn open(image: &Layout, sources: &'a dyn SourceSet) -> Result<Self, PatchError> {
        let editor = Self {
            splice: Splice::new(image),
            sources,
            size_before: image.size(),
        };
        let source = editor.source();
        let volume = IsoVolume::open(&source)?;
        if volume.block() != SECTOR {
            return Err(PatchError::unsupported(
                "its logical blocks have not the usual 2048 bytes",
            ));
        }
        if volume.rock_ridge_skip().is_some_and(|skip| skip > MAX_SKIP) {
            return Err(PatchError::unsupported(
                "its Rock Ridge fields start where no record has room for more",
            ));
        }
        editor.refuse_other_hierarchies(&volume)?;
        Ok(editor)
    }

    pub(super) fn source(&self) -> SpliceSource<'_> {
        self.splice.source(self.sources)
    }

    pub(super) fn is_bootable(&self) -> Result<bool, PatchError> {
        let source = self.source();
        Ok(!IsoVolume::open(&source)?.catalog()?.is_empty())
    }

    /// The names by which files are found, and those of the other hierarchy if there is one.
    pub(super) fn hierarchies(volume: &IsoVolume<'_>) -> (IsoNames, Option<IsoNames>) {
        let names = volume.names();
        let primary = match names[0] {
            IsoNames::RockRidge => IsoNames::RockRidge,
            _ => IsoNames::Plain,
        };
        (primary, names.into_iter().find(|names| *names == IsoNames::Joliet))
    }

    /// UDF and a third tree of ISO 9660:1999 would go on saying what the files were before.
    fn refuse_other_hierarchies(&self, volume: &IsoVolume<'_>) -> Result<(), PatchError> {
        let known = [IsoNames::Plain, IsoNames::Joliet].map(|names| volume.descriptor(names));
        for index in 16..80 {
            if (index + 1) * SECTOR > self.splice.size() {
                break;
            }
            let sector = self.read(index * SECTOR, 2048)?;
            match &sector[1..6] {
                b"CD001" => {}
                b"BEA01" | b"NSR02" | b"NSR03" | b"TEA01" => {
                    return Err(PatchError::unsupported(
                        "it is a UDF image too, whose own directories are not changed",
                    ));
                }
                _ => break,
            }
            let root = u64::from(le32(&sector, 158)) * SECTOR;
            let is_known = known.iter().flatten().any(|descriptor| descriptor.root.at == root);
            if sector[0] == 2 && !is_known {
                return Err(PatchError::unsupported(
                    "it has a hierarchy besides ISO 9660 and Joliet",
                ));
            }
        }
        Ok(())
    }

    /// Puts content where a path leads to.
    pub(super) fn put(&mut self, path: &str, content: &Content, sharing: Sharing) -> Result<PatchedHow, PatchError> {
        let target = {
            let source = self.source();
            let volume = IsoVolume::open(&source)?;
            let (primary, _) = Self::hierarchies(&volume);
            match volume.find_by(primary, path)? {
                Some(entry) if !entry.is_file() => return Err(PatchError::NotAFile { path: path.to_owned() }),
                Some(entry) => Some(target(&volume, entry, sharing)?),
                None => None,
            }
        };
        match target {
            Some(target) => self.replace(&target, content),
            None => {
                self.insert(path, content)?;
                Ok(PatchedHow::Added)
            }
        }
    }

    /// Fills a place in an existing file.
    pub(super) fn embed(&mut self, path: &str, content: &Content) -> Result<(), PatchError> {
        let entry = {
            let source = self.source();
            let volume = IsoVolume::open(&source)?;
            let (primary, _) = Self::hierarchies(&volume);
            let entry = volume.find_by(primary, path)?.filter(IsoEntry::is_file);
            let entry = entry.ok_or_else(|| PatchError::NoPlace { path: path.to_owned() })?;
            // Refuses a file that lies outside the image.
            volume.file(&entry)?;
            entry
        };
        if content.len() > entry.len {
            return Err(PatchError::EmbedTooLong {
                path: path.to_owned(),
                len: content.len(),
                room: entry.len,
            });
        }
        let start =
            contiguous(&entry).ok_or(PatchError::unsupported("the file to embed into lies in several pieces"))?;
        self.splice.write(start, content);
        self.splice.zero(start + content.len(), entry.len - content.len());
        Ok(())
    }

    fn replace(&mut self, target: &Target, content: &Content) -> Result<PatchedHow, PatchError> {
        let entry = &target.entry;
        let boot_image = |action| PatchError::BootImage {
            path: entry.path.clone(),
            action,
        };
        if target.boot == Some(IsoPlatform::Bios) {
            return Err(boot_image("be replaced, since it knows its own place"));
        }
        let sections = content.len().div_ceil(MAX_SECTION).max(1);
        let room = entry.len.next_multiple_of(SECTOR);
        let start = contiguous(entry).filter(|_| content.len() <= room && !target.is_shared);
        let has_as_many_records = entry.records.len() as u64 == sections;
        let (at, how) = match start.filter(|_| has_as_many_records) {
            Some(start) => {
                self.splice.write(start, content);
                self.splice.zero(start + content.len(), room - content.len());
                (start, PatchedHow::InPlace)
            }
            None if target.boot.is_some() => return Err(boot_image("grow or be given content of its own")),
            None => (self.append(content)?, PatchedHow::Moved),
        };
        if has_as_many_records {
            for records in &target.records {
                for (index, record) in (0..).zip(records) {
                    self.point(*record, section((sector_of(at)?, content.len()), index));
                }
            }
        } else {
            self.replace_records(&target.records, (sector_of(at)?, content.len()))?;
        }
        Ok(how)
    }

    /// Puts content at the end of the image; where it starts. The image ends with a whole sector.
    pub(super) fn append(&mut self, content: &Content) -> Result<u64, PatchError> {
        let at = self.next_append();
        let end = at
            .checked_add(content.len())
            .and_then(|end| end.checked_next_multiple_of(SECTOR));
        let end = end
            .filter(|end| end / SECTOR <= u64::from(u32::MAX))
            .ok_or(PatchError::TooLarge)?;
        self.splice.zero(self.splice.size(), at - self.splice.size());
        self.splice.write(at, content);
        self.splice.zero(at + content.len(), end - at - content.len());
        Ok(at)
    }

    /// Where the next content goes.
    pub(super) fn next_append(&self) -> u64 {
        self.splice.size().next_multiple_of(ALIGN)
    }

    pub(super) fn append_bytes(&mut self, bytes: Vec<u8>) -> Result<u64, PatchError> {
        self.append(&Content::Literal(bytes.into()))
    }

    /// Makes a directory record say where and how long what it leads to is.
    pub(super) fn point(&mut self, record: u64, (sector, len): (u32, u32)) {
        self.write(record + 2, &[both32(sector), both32(len)].concat());
        // No extended attribute record lies before the new place.
        self.write(record + 1, &[0]);
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.splice.write(at, &Content::Literal(bytes.to_vec().into()));
    }

    pub(super) fn read(&self, at: u64, len: usize) -> Result<Vec<u8>, PatchError> {
        let mut bytes = vec![0; len];
        let read = self.source().read_at(at, &mut bytes);
        read.map_err(|error| PatchError::Read(crate::iso9660::IsoReadError::Io(error)))?;
        Ok(bytes)
    }
}

/// The sector at an offset, which is one of a sector's start.
pub(super) fn sector_of(at: u64) -> Result<u32, PatchError> {
    u32::try_from(at / SECTOR).map_err(|_| PatchError::TooLarge)
}

/// Where a file starts, if its bytes follow each other from there on.
fn contiguous(entry: &IsoEntry) -> Option<u64> {
    let mut end = entry.sections.first()?.at;
    for section in &entry.sections {
        if section.at != end {
            return None;
        }
        end += section.len;
    }
    entry.sections.first().map(|section| section.at)
}

/// Finds all that leads to a file.
fn target(volume: &IsoVolume<'_>, entry: IsoEntry, sharing: Sharing) -> Result<Target, PatchError> {
    // Refuses a file that lies outside the image, is compressed or interleaved.
    volume.file(&entry)?;
    let (primary, joliet) = Editor::hierarchies(volume);
    let place = entry.sections.first().map(|section| section.at);
    let leads_there = |other: &IsoEntry| {
        place.is_some() && other.is_file() && other.sections.first().map(|section| section.at) == place
    };
    let mut records = vec![entry.records.clone()];
    let others: Vec<IsoEntry> = volume
        .entries_by(primary)?
        .into_iter()
        .filter(|other| leads_there(other) && other.records != entry.records)
        .collect();
    let is_shared = sharing == Sharing::Own && !others.is_empty();
    if sharing == Sharing::All {
        records.extend(others.into_iter().map(|other| other.records));
    }
    if let Some(joliet) = joliet {
        let all = volume.entries_by(joliet)?;
        let same_path = |other: &&IsoEntry| other.path == entry.path;
        let there: Vec<&IsoEntry> = all.iter().filter(|other| leads_there(other)).collect();
        let own = match &there[..] {
            _ if sharing == Sharing::All && place.is_some() => there.clone(),
            // Nothing but its name tells an empty file from others.
            [] if place.is_none() => all.iter().filter(|other| other.is_file()).filter(same_path).collect(),
            [] => Vec::new(),
            [one] => vec![*one],
            several => several.iter().copied().filter(same_path).collect(),
        };
        if own.is_empty() && (place.is_none() || !there.is_empty()) {
            return Err(PatchError::unsupported(
                "the file's name in Joliet cannot be told from others'",
            ));
        }
        records.extend(own.iter().map(|other| other.records.clone()));
    }
    let catalog = volume.catalog()?;
    let boot = catalog
        .iter()
        .find(|boot| Some(boot.at) == place)
        .map(|boot| boot.platform);
    Ok(Target {
        entry,
        records,
        is_shared,
        boot,
    })
}
