//! Reading FAT volumes that anybody made: lists what is in them and hands files out.
//!
//! The image is hostile: every number in it is checked, every chain and every directory is bounded, and nothing is read that
//! lies outside of it.

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use super::chain::Chain;
use super::directory::ENTRY;
use super::names::{LongName, latin, short_name};
use crate::source::Source;

/// Entries of a whole volume that are listed; more is refused.
const MAX_ENTRIES: usize = 100_000;
/// Deepest directory that is followed.
const MAX_DEPTH: usize = 32;
/// Bytes of one directory: FAT allows 65,536 entries.
const MAX_DIRECTORY: u64 = 65_536 * ENTRY as u64;
/// Bytes of all directories together: in a damaged volume many may share the same clusters.
const MAX_DIRECTORIES: usize = 64 << 20;

/// Why a volume cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FatReadError {
    /// The image has no boot sector that describes a FAT volume.
    #[error("this is no FAT volume: {0}")]
    NotFat(&'static str),
    /// The image ends before the volume does.
    #[error("the image was cut short: the FAT volume in it has {needed} bytes, and there are {found}")]
    Truncated {
        /// Bytes that the volume has.
        needed: u64,
        /// Bytes of the image.
        found: u64,
    },
    /// The volume contradicts itself.
    #[error("the FAT volume is damaged at {path:?}: {reason}")]
    Damaged {
        /// Which file or directory.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More than is read at once.
    #[error("{path:?} has {len} bytes, more than the {limit} that may be read")]
    TooLarge {
        /// Which file.
        path: String,
        /// Its length.
        len: u32,
        /// What was allowed.
        limit: u32,
    },
    /// The image could not be read.
    #[error("reading the image failed")]
    Io(#[source] io::Error),
    /// What was read could not be written.
    #[error("writing what was read failed")]
    Write(#[source] io::Error),
}

/// A file or directory of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FatEntry {
    /// Path from the root, without a leading slash.
    pub path: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Bytes of a file; 0 for a directory.
    pub len: u32,
    /// When it was last written, as the volume says, in the time zone of whoever wrote it; `None` if it says nothing.
    pub modified: Option<FatTime>,
    pub(super) cluster: u32,
}

/// A time as FAT keeps it: no time zone, steps of two seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FatTime {
    date: u16,
    time: u16,
}

impl FatTime {
    fn of(entry: &[u8]) -> Option<Self> {
        let date = u16::from_le_bytes([entry[24], entry[25]]);
        let time = u16::from_le_bytes([entry[22], entry[23]]);
        (date != 0).then_some(Self { date, time })
    }
}

impl fmt::Display for FatTime {
    /// `2000-01-31 23:59:58`; a damaged volume may hold a day 0 or an hour 31.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (date, time) = (self.date, self.time);
        let (year, month, day) = (1980 + (date >> 9), date >> 5 & 15, date & 31);
        let (hour, minute, second) = (time >> 11, time >> 5 & 63, (time & 31) * 2);
        write!(f, "{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

/// An opened volume.
pub struct FatVolume<'a> {
    pub(super) image: &'a dyn Source,
    pub(super) bits: u64,
    pub(super) table: u64,
    pub(super) table_bytes: u64,
    pub(super) root: Root,
    pub(super) data: u64,
    pub(super) cluster_bytes: u64,
    pub(super) clusters: u64,
    size: u64,
    serial: Option<u32>,
}

#[derive(Clone, Copy)]
pub(super) enum Root {
    Fixed { at: u64, bytes: u64 },
    Cluster(u32),
}

impl<'a> FatVolume<'a> {
    /// Reads the boot sector.
    pub fn open(image: &'a dyn Source) -> Result<Self, FatReadError> {
        let not = FatReadError::NotFat;
        let mut boot = [0; 512];
        if image.len() < 512 {
            return Err(not("it is shorter than a boot sector"));
        }
        image.read_at(0, &mut boot).map_err(FatReadError::Io)?;
        let word = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
        let long = |at: usize| u32::from_le_bytes([boot[at], boot[at + 1], boot[at + 2], boot[at + 3]]);
        let sector = word(11);
        let per_cluster = u64::from(boot[13]);
        if boot[510..] != [0x55, 0xAA] {
            return Err(not("its boot sector has no signature"));
        }
        match &boot[3..11] {
            b"EXFAT   " => return Err(not("it is exFAT, which is another format")),
            b"NTFS    " => return Err(not("it is NTFS")),
            _ => {}
        }
        if !sector.is_power_of_two() || !(512..=4096).contains(&sector) || !per_cluster.is_power_of_two() {
            return Err(not("its sector or cluster size is none that FAT has"));
        }
        let (reserved, tables, root_entries) = (word(14), u64::from(boot[16]), word(17));
        let either = |short: u64, long: u32| if short == 0 { u64::from(long) } else { short };
        let sectors = either(word(19), long(32));
        let table_sectors = either(word(22), long(36));
        if reserved == 0 || tables == 0 || table_sectors == 0 {
            return Err(not("it has no allocation table"));
        }
        let root_sectors = (root_entries * ENTRY as u64).div_ceil(sector);
        let before = reserved + tables * table_sectors + root_sectors;
        let clusters = sectors.saturating_sub(before) / per_cluster;
        if clusters == 0 {
            return Err(not("it has no room for a file"));
        }
        // Only FAT32 keeps the length of its table in 32 bits, and that is what Linux and mtools go by: small volumes
        // that were made as FAT32 have fewer clusters than the specification wants.
        let is_fat32 = word(22) == 0;
        let bits = match clusters {
            _ if is_fat32 => 32,
            0..=4084 => 12,
            _ => 16,
        };
        if (clusters + 2) * bits > table_sectors * sector * 8 {
            return Err(not("its allocation table is too short for its size"));
        }
        let size = sectors * sector;
        if size > image.len() {
            let found = image.len();
            return Err(FatReadError::Truncated { needed: size, found });
        }
        // Flags of FAT32: the tables are no mirrors, and this one counts.
        let flags = word(40);
        let active = if is_fat32 && flags & 0x80 != 0 { flags & 0x0F } else { 0 };
        if active >= tables {
            return Err(not("the allocation table that it says is in use is not there"));
        }
        let extended = if is_fat32 { 64 } else { 36 };
        Ok(Self {
            image,
            bits,
            table: (reserved + active * table_sectors) * sector,
            table_bytes: table_sectors * sector,
            root: match is_fat32 {
                true => Root::Cluster(long(44)),
                false => Root::Fixed {
                    at: (reserved + tables * table_sectors) * sector,
                    bytes: root_entries * ENTRY as u64,
                },
            },
            data: before * sector,
            cluster_bytes: per_cluster * sector,
            clusters,
            size,
            serial: matches!(boot[extended + 2], 0x28 | 0x29).then(|| long(extended + 3)),
        })
    }

    /// 12, 16 or 32.
    pub fn fat_bits(&self) -> u64 {
        self.bits
    }

    /// Bytes of the volume; the image may be longer.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of one cluster.
    pub fn cluster_bytes(&self) -> u64 {
        self.cluster_bytes
    }

    /// Clusters for files and directories.
    pub fn clusters(&self) -> u64 {
        self.clusters
    }

    /// The number that the volume was given when it was made, if it has one; Linux shows it as its UUID.
    pub fn serial(&self) -> Option<u32> {
        self.serial
    }

    /// The label that the root directory holds.
    pub fn label(&self) -> Result<Option<String>, FatReadError> {
        let root = self.directory(None, "")?;
        let label = root
            .chunks_exact(ENTRY)
            .take_while(|entry| entry[0] != 0)
            .find(|entry| {
                let is_deleted = entry[0] == 0xE5;
                !is_deleted && entry[11] & 0x3F == 0x08
            });
        Ok(label.map(|entry| latin(&entry[..11]).trim_end().to_owned()))
    }

    /// Everything in the volume: each directory before what lies in it.
    pub fn entries(&self) -> Result<Vec<FatEntry>, FatReadError> {
        let mut listing = Listing::default();
        self.list(None, "", 0, &mut listing)?;
        Ok(listing.found)
    }

    fn list(&self, dir: Option<u32>, path: &str, depth: usize, listing: &mut Listing) -> Result<(), FatReadError> {
        if depth > MAX_DEPTH {
            return Err(damaged(path, "directories lie too deep"));
        }
        let bytes = self.directory(dir, path)?;
        listing.directory_bytes += bytes.len();
        if listing.directory_bytes > MAX_DIRECTORIES {
            return Err(damaged(path, "the directories are longer than are read"));
        }
        let mut long = LongName::default();
        for entry in bytes.chunks_exact(ENTRY).take_while(|entry| entry[0] != 0) {
            let attributes = entry[11];
            if entry[0] == 0xE5 {
                long = LongName::default();
                continue;
            }
            if attributes & 0x3F == 0x0F {
                long.add(entry);
                continue;
            }
            let name = std::mem::take(&mut long)
                .finish(&entry[..11])
                .unwrap_or_else(|| short_name(entry));
            if attributes & 0x08 != 0 || entry[0] == b'.' {
                continue;
            }
            if listing.found.len() == MAX_ENTRIES {
                return Err(damaged(path, "the volume holds more files than are read"));
            }
            if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
                return Err(damaged(path, "it holds a name that is none"));
            }
            let is_dir = attributes & 0x10 != 0;
            let cluster = u32::from_le_bytes([entry[26], entry[27], entry[20], entry[21]]);
            let cluster = if self.bits == 32 { cluster } else { cluster & 0xFFFF };
            let len = u32::from_le_bytes([entry[28], entry[29], entry[30], entry[31]]);
            let path = if path.is_empty() {
                name
            } else {
                format!("{path}/{name}")
            };
            let len = if is_dir { 0 } else { len };
            listing.found.push(FatEntry {
                path: path.clone(),
                is_dir,
                len,
                modified: FatTime::of(entry),
                cluster,
            });
            if is_dir {
                if !listing.seen.insert(cluster) {
                    return Err(damaged(&path, "two directories share their place"));
                }
                self.list(Some(cluster), &path, depth + 1, listing)?;
            }
        }
        Ok(())
    }

    /// The bytes of a directory; none = the root.
    fn directory(&self, cluster: Option<u32>, path: &str) -> Result<Vec<u8>, FatReadError> {
        let mut bytes = Vec::new();
        let first = match (cluster, self.root) {
            (Some(cluster), _) | (None, Root::Cluster(cluster)) => cluster,
            (None, Root::Fixed { at, bytes: len }) => {
                self.append(&mut bytes, at, len)?;
                return Ok(bytes);
            }
        };
        let mut chain = Chain::new(self, first);
        while let Some(at) = chain.next(path)? {
            if bytes.len() as u64 + self.cluster_bytes > MAX_DIRECTORY {
                return Err(damaged(
                    path,
                    "the directory is longer than FAT allows or its chain is a ring",
                ));
            }
            self.append(&mut bytes, at, self.cluster_bytes)?;
        }
        Ok(bytes)
    }

    pub(super) fn append(&self, bytes: &mut Vec<u8>, at: u64, len: u64) -> Result<(), FatReadError> {
        let start = bytes.len();
        let len = usize::try_from(len).map_err(|_| FatReadError::NotFat("a cluster does not fit into memory"))?;
        bytes.resize(start + len, 0);
        self.image.read_at(at, &mut bytes[start..]).map_err(FatReadError::Io)
    }
}

/// What a walk over all directories has met.
#[derive(Default)]
struct Listing {
    found: Vec<FatEntry>,
    /// First clusters of directories.
    seen: BTreeSet<u32>,
    directory_bytes: usize,
}

pub(super) fn damaged(path: &str, reason: &'static str) -> FatReadError {
    let path = path.to_owned();
    FatReadError::Damaged { path, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Content;
    use crate::fat::{FatShape, FatSpec, fat};
    use crate::source::{MemorySource, NoSources};
    use bytes::Bytes;
    use proptest::prelude::*;

    fn image(files: &[(String, Vec<u8>)], size: Option<u64>) -> Vec<u8> {
        let content = |bytes: &Vec<u8>| Content::from(Bytes::from(bytes.clone()));
        let layout = fat(&FatSpec {
            label: "config-2".to_owned(),
            files: files
                .iter()
                .map(|(path, bytes)| (path.clone(), content(bytes)))
                .collect(),
            size,
            shape: FatShape::Disk,
        })
        .unwrap();
        let mut bytes = vec![0; usize::try_from(layout.size()).unwrap()];
        layout.read_at(&NoSources, 0, &mut bytes).unwrap();
        bytes
    }

    fn files() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
        let name = "[a-zA-Zü][a-zA-Z0-9ü_ -]{0,30}[a-z]";
        let path = (name, name).prop_map(|(dir, file)| format!("d {dir}/f {file}"));
        prop::collection::btree_map(path, prop::collection::vec(any::<u8>(), 0..5000), 0..12).prop_map(|files| {
            let mut folded = BTreeSet::new();
            files
                .into_iter()
                .filter(|(path, _)| folded.insert(path.to_uppercase()))
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_was_written_is_read_back(files in files(), size in prop_oneof![Just(None), Just(Some(10 << 20))]) {
            let image = MemorySource(image(&files, size).into());
            let volume = FatVolume::open(&image).unwrap();
            prop_assert_eq!(volume.fat_bits(), if size.is_some() { 16 } else { 12 });
            let label = volume.label().unwrap();
            prop_assert_eq!(label.as_deref(), Some("config-2"));
            let mut read: Vec<(String, Vec<u8>)> = Vec::new();
            for entry in volume.entries().unwrap().iter().filter(|entry| !entry.is_dir) {
                read.push((entry.path.to_uppercase(), volume.read(entry, u32::MAX).unwrap()));
            }
            read.sort();
            let mut expected: Vec<_> = files.into_iter().map(|(path, bytes)| (path.to_uppercase(), bytes)).collect();
            expected.sort();
            prop_assert!(read == expected);
        }

        #[test]
        fn a_damaged_volume_never_panics_and_never_hangs(
            files in files(),
            damage in prop::collection::vec((0..40_000usize, any::<u8>()), 1..40),
        ) {
            let mut bytes = image(&files, None);
            for (at, with) in damage {
                bytes[at] = with;
            }
            let image = MemorySource(bytes.into());
            if let Ok(volume) = FatVolume::open(&image) {
                let _ = volume.label();
                for entry in volume.entries().unwrap_or_default() {
                    let _ = volume.read(&entry, 1 << 20);
                }
            }
        }

        #[test]
        fn any_bytes_are_a_volume_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let image = MemorySource(bytes.into());
            let _ = FatVolume::open(&image).map(|volume| volume.entries().is_ok());
        }
    }

    #[test]
    fn a_ring_of_clusters_ends() {
        let mut bytes = image(&[("d/f".to_owned(), vec![1; 100])], None);
        let reserved = usize::from(u16::from_le_bytes([bytes[14], bytes[15]])) * 512;
        // Clusters 2 (the directory) and 3 (the file) point to each other.
        bytes[reserved + 3..reserved + 6].copy_from_slice(&[0x03, 0x20, 0x00]);
        let image = MemorySource(bytes.into());
        let volume = FatVolume::open(&image).unwrap();
        assert!(matches!(volume.entries(), Err(FatReadError::Damaged { path, .. }) if path == "d"));
    }

    #[test]
    fn a_file_longer_than_allowed_is_not_read() {
        let image = MemorySource(image(&[("f".to_owned(), vec![1; 100])], None).into());
        let volume = FatVolume::open(&image).unwrap();
        let entries = volume.entries().unwrap();
        assert!(matches!(
            volume.read(&entries[0], 99),
            Err(FatReadError::TooLarge {
                len: 100,
                limit: 99,
                ..
            })
        ));
        assert_eq!(volume.read(&entries[0], 100).unwrap(), vec![1; 100]);
    }
}
