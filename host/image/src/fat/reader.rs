//! Reading FAT volumes that anybody made: lists what is in them and hands files out.
//!
//! The image is hostile: every number in it is checked, every chain and every directory is bounded, and nothing is read that
//! lies outside of it.

use std::collections::BTreeSet;
use std::io;

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
/// Bytes of the allocation table that are kept at a time.
const WINDOW: usize = 4096;

/// Why a volume cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FatReadError {
    /// The image has no boot sector that describes a FAT volume.
    #[error("this is no FAT volume: {0}")]
    NotFat(&'static str),
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
    cluster: u32,
}

/// An opened volume.
pub struct FatVolume<'a> {
    image: &'a dyn Source,
    bits: u64,
    table: u64,
    table_bytes: u64,
    root: Root,
    data: u64,
    cluster_bytes: u64,
    clusters: u64,
}

#[derive(Clone, Copy)]
enum Root {
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
        if clusters == 0 || sectors * sector > image.len() {
            return Err(not("its size is not that of the image"));
        }
        let bits = match clusters {
            0..=4084 => 12,
            4085..=65_524 => 16,
            _ => 32,
        };
        if (clusters + 2) * bits > table_sectors * sector * 8 {
            return Err(not("its allocation table is too short for its size"));
        }
        let root_at = (reserved + tables * table_sectors) * sector;
        Ok(Self {
            image,
            bits,
            table: reserved * sector,
            table_bytes: table_sectors * sector,
            root: match bits {
                32 => Root::Cluster(long(44)),
                _ => Root::Fixed {
                    at: root_at,
                    bytes: root_entries * ENTRY as u64,
                },
            },
            data: before * sector,
            cluster_bytes: per_cluster * sector,
            clusters,
        })
    }

    /// 12, 16 or 32.
    pub fn fat_bits(&self) -> u64 {
        self.bits
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

    /// The bytes of a file that [`FatVolume::entries`] found, if they are at most `limit`.
    pub fn read(&self, file: &FatEntry, limit: u32) -> Result<Vec<u8>, FatReadError> {
        if file.len > limit {
            return Err(FatReadError::TooLarge {
                path: file.path.clone(),
                len: file.len,
                limit,
            });
        }
        let mut bytes = Vec::new();
        let mut left = u64::from(file.len);
        let mut chain = Chain::new(self, file.cluster);
        while left > 0 {
            let at = chain
                .next(&file.path)?
                .ok_or_else(|| damaged(&file.path, "its chain ends before its length"))?;
            let part = left.min(self.cluster_bytes);
            self.append(&mut bytes, at, part)?;
            left -= part;
        }
        Ok(bytes)
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

    fn append(&self, bytes: &mut Vec<u8>, at: u64, len: u64) -> Result<(), FatReadError> {
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

fn damaged(path: &str, reason: &'static str) -> FatReadError {
    let path = path.to_owned();
    FatReadError::Damaged { path, reason }
}

/// Follows a chain of clusters. It never ends by itself if it is a ring: who follows it bounds it.
struct Chain<'a> {
    volume: &'a FatVolume<'a>,
    next: Option<u32>,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Chain<'a> {
    fn new(volume: &'a FatVolume<'a>, first: u32) -> Self {
        Self {
            volume,
            next: Some(first),
            window: Vec::new(),
            window_at: 0,
        }
    }

    /// Where the next cluster starts in the image.
    fn next(&mut self, path: &str) -> Result<Option<u64>, FatReadError> {
        let Some(cluster) = self.next else { return Ok(None) };
        let number = u64::from(cluster);
        if !(2..self.volume.clusters + 2).contains(&number) {
            return Err(damaged(path, "its chain leaves the volume"));
        }
        let entry = self.entry(number)?;
        let last = match self.volume.bits {
            12 => 0xFF8,
            16 => 0xFFF8,
            _ => 0x0FFF_FFF8,
        };
        self.next = (entry < last).then_some(entry);
        Ok(Some(self.volume.data + (number - 2) * self.volume.cluster_bytes))
    }

    fn entry(&mut self, cluster: u64) -> Result<u32, FatReadError> {
        let bit = cluster * self.volume.bits;
        let at = bit / 8;
        // Four bytes, or what is left of the table: a FAT12 entry at its end has only two.
        let end = (at + 4).min(self.volume.table_bytes);
        if at < self.window_at || end > self.window_at + self.window.len() as u64 {
            let len = (WINDOW as u64).min(self.volume.table_bytes - at);
            self.window.clear();
            self.volume.append(&mut self.window, self.volume.table + at, len)?;
            self.window_at = at;
        }
        let mut bytes = [0; 4];
        let start = usize::try_from(at - self.window_at).unwrap_or(usize::MAX);
        for (to, from) in bytes.iter_mut().zip(self.window.iter().skip(start)) {
            *to = *from;
        }
        let number = u32::from_le_bytes(bytes);
        Ok(match self.volume.bits {
            12 => (number >> (bit % 8)) & 0xFFF,
            16 => number & 0xFFFF,
            _ => number & 0x0FFF_FFFF,
        })
    }
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
