//! Reading ISO 9660 images that anybody made: names, files, boot entries.
//!
//! The image is hostile: every number in it is checked, every directory, continuation and depth is bounded, a directory that
//! lies inside itself is refused, and nothing outside the image is read. Not here: partitions of hybrid images
//! ([`crate::partitions()`]).

mod boot;
mod directory;
mod entry;
mod file;
mod numbers;
mod susp;
mod walk;

use std::io;

use crate::source::Source;

pub use boot::{IsoBootEntry, IsoPlatform};
pub(super) use directory::{Record, records};
pub use entry::{IsoEntry, IsoKind, IsoSection, IsoTime};
pub use file::IsoFile;
pub(super) use numbers::{le16, le32};
pub(super) use susp::SystemUse;
pub(super) use walk::Listing;
use walk::MAX_DIRECTORY;

const SECTOR_BYTES: usize = 2048;
pub(super) const SECTOR: u64 = SECTOR_BYTES as u64;
/// Where volume descriptors start.
pub(super) const DESCRIPTORS: u64 = 16 * SECTOR;
/// Volume descriptors that are looked at; images have three to five.
const MAX_DESCRIPTORS: u64 = 64;

/// Why an ISO cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IsoReadError {
    /// The image has no volume descriptor of ISO 9660.
    #[error("this is no ISO 9660 image: {0}")]
    NotIso(&'static str),
    /// The image contradicts itself, or ends before it should.
    #[error("the ISO is damaged at {path:?}: {reason}")]
    Damaged {
        /// Which file or directory.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The file is there, and this reader does not read its kind.
    #[error("{path:?} cannot be read: {reason}")]
    Unsupported {
        /// Which file.
        path: String,
        /// What it is.
        reason: &'static str,
    },
    /// More than is read at once.
    #[error("{path:?} has {len} bytes, more than the {limit} that may be read")]
    TooLarge {
        /// Which file.
        path: String,
        /// Its length.
        len: u64,
        /// What was allowed.
        limit: u64,
    },
    /// The image could not be read.
    #[error("reading the image failed")]
    Io(#[source] io::Error),
}

/// Which of the names that an ISO gives its files are used. All lead to the same contents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IsoNames {
    /// POSIX names, modes and links (what Linux sees).
    RockRidge,
    /// Names of up to 64 (or 103) characters in UCS-2 (what Windows sees).
    Joliet,
    /// The identifiers of ISO 9660 itself, without `;1` and without the dot of a name that has no extension.
    Plain,
}

/// Where a descriptor and its root directory are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    /// Where the descriptor starts in the image.
    pub(super) at: u64,
    pub(super) root: Extent,
}

/// A directory: where it starts in the image, and its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    pub(super) at: u64,
    pub(super) len: u64,
}

/// An opened ISO.
///
/// ```
/// # use image::{IsoSpec, IsoVolume, LayoutSource, NoSources, iso};
/// # let spec = IsoSpec { label: "config-2".into(), files: vec![("openstack/latest/user_data".into(), bytes::Bytes::from_static(b"#!/bin/sh\n").into())] };
/// # let layout = iso(&spec)?;
/// let image = LayoutSource::new(&layout, &NoSources);
/// let volume = IsoVolume::open(&image)?;
/// let file = volume.find("openstack/latest/user_data")?.expect("it is there");
/// assert_eq!(volume.label(), "config-2");
/// assert_eq!(volume.read(&file, 1 << 20)?, b"#!/bin/sh\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IsoVolume<'a> {
    image: &'a dyn Source,
    /// Bytes of a logical block: 2048 in practice, 512 and 1024 are legal.
    block: u64,
    label: String,
    size: u64,
    primary: Descriptor,
    joliet: Option<Descriptor>,
    /// How many bytes of each system use area come before the fields of SUSP, if the image has Rock Ridge.
    rock_ridge: Option<usize>,
    /// Where the boot catalog is.
    catalog: Option<u64>,
}

impl<'a> IsoVolume<'a> {
    /// Reads the volume descriptors (ECMA-119 §8).
    pub fn open(image: &'a dyn Source) -> Result<Self, IsoReadError> {
        let mut primary = None;
        let mut joliet = None;
        let mut boot_record = None;
        for index in 0..MAX_DESCRIPTORS {
            let at = DESCRIPTORS + index * SECTOR;
            let mut sector = [0; SECTOR_BYTES];
            if at + SECTOR > image.len() {
                return Err(IsoReadError::NotIso("its volume descriptors do not end"));
            }
            image.read_at(at, &mut sector).map_err(IsoReadError::Io)?;
            if sector[1..6] != *b"CD001" {
                let reason = if index == 0 {
                    "it has no volume descriptor in sector 16"
                } else {
                    "its volume descriptors do not end"
                };
                return Err(IsoReadError::NotIso(reason));
            }
            match sector[0] {
                0 if sector[7..].starts_with(b"EL TORITO SPECIFICATION") && boot_record.is_none() => {
                    boot_record = Some(le32(&sector, 71));
                }
                1 if primary.is_none() => primary = Some((at, sector)),
                2 if joliet.is_none() && is_joliet(&sector) => joliet = Some((at, sector)),
                255 => break,
                _ => {}
            }
        }
        let (at, sector) = primary.ok_or(IsoReadError::NotIso("it has no primary volume descriptor"))?;
        let block = u64::from(le16(&sector, 128));
        if !matches!(block, 512 | 1024 | 2048) {
            return Err(IsoReadError::NotIso(
                "its logical blocks have none of the sizes that there are",
            ));
        }
        let root = |sector: &[u8]| {
            let record = Record::parse(&sector[156..190]).ok_or(IsoReadError::NotIso("it has no root directory"))?;
            Ok(record.raw().extent(block))
        };
        let primary = Descriptor {
            at,
            root: root(&sector)?,
        };
        let joliet = match joliet {
            Some((at, sector)) => Some(Descriptor {
                at,
                root: root(&sector)?,
            }),
            None => None,
        };
        let mut volume = Self {
            image,
            block,
            label: latin(&sector[40..72]),
            size: u64::from(le32(&sector, 80)) * block,
            primary,
            joliet,
            rock_ridge: None,
            catalog: boot_record.map(|number| u64::from(number) * block),
        };
        volume.rock_ridge = volume.find_rock_ridge()?;
        Ok(volume)
    }

    /// The volume's label.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Bytes that the volume says it has. The image may have more (a backup GPT, padding) or, cut short, less.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The kinds of names that it has, the best first; the methods that take none use the first one.
    pub fn names(&self) -> Vec<IsoNames> {
        let rock_ridge = self.rock_ridge.map(|_| IsoNames::RockRidge);
        let joliet = self.joliet.map(|_| IsoNames::Joliet);
        rock_ridge.into_iter().chain(joliet).chain([IsoNames::Plain]).collect()
    }

    /// Everything in the volume: each directory before what lies in it.
    pub fn entries(&self) -> Result<Vec<IsoEntry>, IsoReadError> {
        self.entries_by(self.best())
    }

    /// As [`IsoVolume::entries`], by these names. An image without them has no entries.
    pub fn entries_by(&self, names: IsoNames) -> Result<Vec<IsoEntry>, IsoReadError> {
        Ok(self.listing(names)?.entries)
    }

    /// The file or directory at a path; a leading slash may be left out. Only directories on the way are read. Plain names
    /// are found in either case.
    pub fn find(&self, path: &str) -> Result<Option<IsoEntry>, IsoReadError> {
        self.find_by(self.best(), path)
    }

    /// The bytes of a file, if they are at most `limit`.
    pub fn read(&self, file: &IsoEntry, limit: u64) -> Result<Vec<u8>, IsoReadError> {
        let too_large = || IsoReadError::TooLarge {
            path: file.path.clone(),
            len: file.len,
            limit,
        };
        if file.len > limit {
            return Err(too_large());
        }
        let content = self.file(file)?;
        let mut bytes = vec![0; usize::try_from(content.len()).map_err(|_| too_large())?];
        content.read_at(0, &mut bytes).map_err(IsoReadError::Io)?;
        Ok(bytes)
    }

    /// A file as something to read at any place: a floppy or an ESP inside the ISO, say. Refuses what is no file, what is
    /// compressed and what lies outside the image.
    pub fn file(&self, file: &IsoEntry) -> Result<IsoFile<'a>, IsoReadError> {
        IsoFile::new(self.image, file)
    }

    fn best(&self) -> IsoNames {
        match (self.rock_ridge, self.joliet) {
            (Some(_), _) => IsoNames::RockRidge,
            (None, Some(_)) => IsoNames::Joliet,
            (None, None) => IsoNames::Plain,
        }
    }

    pub(super) fn descriptor(&self, names: IsoNames) -> Option<Descriptor> {
        match names {
            IsoNames::RockRidge => self.rock_ridge.map(|_| self.primary),
            IsoNames::Joliet => self.joliet,
            IsoNames::Plain => Some(self.primary),
        }
    }

    pub(super) fn block(&self) -> u64 {
        self.block
    }

    pub(super) fn rock_ridge_skip(&self) -> Option<usize> {
        self.rock_ridge
    }

    pub(super) fn image(&self) -> &'a dyn Source {
        self.image
    }

    /// Whether the root's own record starts with the field `SP` (SUSP 1.12, 5.3), and files have POSIX names or modes.
    fn find_rock_ridge(&self) -> Result<Option<usize>, IsoReadError> {
        let first = Extent {
            len: self.primary.root.len.min(SECTOR),
            ..self.primary.root
        };
        let bytes = self.directory_bytes(first, "")?;
        let Some(record) = bytes.get(..).and_then(|bytes| records(bytes).next()?.ok()) else {
            return Ok(None);
        };
        // CD-ROM XA puts 14 bytes of its own before the fields.
        let area = record.1.system_use();
        let has_sp = |skip: usize| {
            area.get(skip..skip + 7)
                .is_some_and(|field| field.starts_with(b"SP\x07\x01\xBE\xEF"))
        };
        let Some(start) = [0, 14].into_iter().find(|skip| has_sp(*skip)) else {
            return Ok(None);
        };
        let skip = usize::from(area[start + 6]);
        let fields = SystemUse::read(self, &area[start..], &mut Listing::default(), "")?;
        Ok(fields.is_rock_ridge.then_some(skip))
    }

    /// The bytes of a directory.
    pub(super) fn directory_bytes(&self, extent: Extent, path: &str) -> Result<Vec<u8>, IsoReadError> {
        let damaged = |reason| IsoReadError::Damaged {
            path: path.to_owned(),
            reason,
        };
        if extent.len > MAX_DIRECTORY {
            return Err(damaged("the directory is longer than is read"));
        }
        if extent
            .at
            .checked_add(extent.len)
            .is_none_or(|end| end > self.image.len())
        {
            return Err(damaged("the directory lies outside the image"));
        }
        let mut bytes = vec![0; usize::try_from(extent.len).expect("at most MAX_DIRECTORY")];
        self.image.read_at(extent.at, &mut bytes).map_err(IsoReadError::Io)?;
        Ok(bytes)
    }
}

impl std::fmt::Debug for IsoVolume<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "IsoVolume({:?}, {} bytes, {:?})",
            self.label,
            self.size,
            self.names()
        )
    }
}

/// Joliet's three levels of UCS-2, as escape sequences of a supplementary volume descriptor.
fn is_joliet(sector: &[u8]) -> bool {
    [b"%/@", b"%/C", b"%/E"]
        .iter()
        .any(|level| sector[88..120].starts_with(*level))
}

/// A text field, without the spaces or zeros that fill it.
fn latin(field: &[u8]) -> String {
    let text: String = field.iter().map(|byte| char::from(*byte)).collect();
    text.trim_end_matches([' ', '\0']).to_owned()
}

#[cfg(test)]
mod tests;
