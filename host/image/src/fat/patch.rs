//! Replacing a file inside a FAT volume that stays where it is: the ESP of an existing ISO, say.
//!
//! The volume keeps its size. The file keeps its clusters, gives up those that it needs no more, and takes free ones if it
//! grows. Not here: new files and directories.

use super::chain::Chain;
use super::directory::ENTRY;
use super::names::{LongName, short_name};
use super::reader::{FatReadError, FatVolume, Root, damaged};

/// Longest file that is put into a volume in this way.
const MAX_CONTENT: usize = 16 << 20;
/// Pieces of one directory that are followed: FAT allows 65,536 entries.
const MAX_PIECES: usize = 65_536;

/// Why a file cannot be replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FatPatchError {
    /// The volume cannot be read.
    #[error(transparent)]
    Read(#[from] FatReadError),
    /// There is no such file.
    #[error("{path:?} is no file of the FAT volume")]
    NoFile {
        /// The path.
        path: String,
    },
    /// The new content does not fit.
    #[error("{path:?} would need {needed} bytes more than the FAT volume has free; make a new volume of it")]
    Full {
        /// The path.
        path: String,
        /// Bytes that are missing.
        needed: u64,
    },
}

/// Bytes to put at a place of the image that holds the volume.
pub(crate) type Write = (u64, Vec<u8>);

/// Where a file's entry is, and what it says.
struct Found {
    at: u64,
    cluster: u32,
    is_dir: bool,
}

impl FatVolume<'_> {
    /// What has to be written into the volume so that the file at `path` holds `content`.
    pub(crate) fn replacing(&self, path: &str, content: &[u8]) -> Result<Vec<Write>, FatPatchError> {
        let no_file = || FatPatchError::NoFile { path: path.to_owned() };
        let found = self.locate(path)?.filter(|found| !found.is_dir).ok_or_else(no_file)?;
        let cluster_bytes = usize::try_from(self.cluster_bytes).unwrap_or(usize::MAX);
        let Some(len) = u32::try_from(content.len())
            .ok()
            .filter(|_| content.len() <= MAX_CONTENT)
        else {
            let needed = content.len() as u64;
            return Err(FatPatchError::Full {
                path: path.to_owned(),
                needed,
            });
        };
        let old = self.clusters_of(found.cluster, path)?;
        let needed = content.len().div_ceil(cluster_bytes);
        let mut clusters = old.clone();
        clusters.truncate(needed);
        let missing = needed - clusters.len();
        let free = self.first_free(missing)?;
        if free.len() < missing {
            return Err(FatPatchError::Full {
                path: path.to_owned(),
                needed: (missing - free.len()) as u64 * self.cluster_bytes,
            });
        }
        clusters.extend(free);

        let mut writes = Vec::new();
        for (cluster, part) in clusters.iter().zip(content.chunks(cluster_bytes)) {
            let mut bytes = part.to_vec();
            bytes.resize(cluster_bytes, 0);
            writes.push((self.data + (u64::from(*cluster) - 2) * self.cluster_bytes, bytes));
        }
        if clusters != old {
            let last = [0x0FFF_FFFF];
            let links = clusters.iter().zip(clusters.iter().skip(1).chain(&last));
            let given_up = old.iter().skip(clusters.len()).map(|cluster| (*cluster, 0));
            let links: Vec<(u32, u32)> = links.map(|(cluster, next)| (*cluster, *next)).chain(given_up).collect();
            self.link(&links, &mut writes)?;
        }
        let first = clusters.first().copied().unwrap_or(0).to_le_bytes();
        if self.bits == 32 {
            writes.push((found.at + 20, first[2..].to_vec()));
        }
        let mut end = first[..2].to_vec();
        end.extend(len.to_le_bytes());
        writes.push((found.at + 26, end));
        Ok(writes)
    }

    /// The entry of a path, in either case.
    fn locate(&self, path: &str) -> Result<Option<Found>, FatReadError> {
        let mut here = Found {
            at: 0,
            cluster: 0,
            is_dir: true,
        };
        let mut is_root = true;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            if !here.is_dir {
                return Ok(None);
            }
            let pieces = self.directory_pieces((!is_root).then_some(here.cluster), path)?;
            match self.entry_named(&pieces, name)? {
                Some(found) => here = found,
                None => return Ok(None),
            }
            is_root = false;
        }
        Ok(Some(here).filter(|_| !is_root))
    }

    /// Where a directory's bytes are: start and length of each piece.
    fn directory_pieces(&self, cluster: Option<u32>, path: &str) -> Result<Vec<(u64, u64)>, FatReadError> {
        let first = match (cluster, self.root) {
            (Some(cluster), _) | (None, Root::Cluster(cluster)) => cluster,
            (None, Root::Fixed { at, bytes }) => return Ok(vec![(at, bytes)]),
        };
        let mut pieces = Vec::new();
        let mut chain = Chain::new(self, first);
        while let Some(at) = chain.next(path)? {
            if pieces.len() == MAX_PIECES {
                return Err(damaged(
                    path,
                    "the directory is longer than FAT allows or its chain is a ring",
                ));
            }
            pieces.push((at, self.cluster_bytes));
        }
        Ok(pieces)
    }

    fn entry_named(&self, pieces: &[(u64, u64)], name: &str) -> Result<Option<Found>, FatReadError> {
        let wanted = name.to_uppercase();
        let mut long = LongName::default();
        let mut bytes = Vec::new();
        for (start, len) in pieces {
            bytes.clear();
            self.append(&mut bytes, *start, *len)?;
            for (index, entry) in bytes.chunks_exact(ENTRY).enumerate() {
                match (entry[0], entry[11] & 0x3F) {
                    (0, _) => return Ok(None),
                    (0xE5, _) => long = LongName::default(),
                    (_, 0x0F) => long.add(entry),
                    (_, attributes) => {
                        let long = std::mem::take(&mut long).finish(&entry[..11]);
                        let short = short_name(entry);
                        let is_label = attributes & 0x08 != 0;
                        let is = |name: &str| name.to_uppercase() == wanted;
                        if is_label || entry[0] == b'.' || !(is(&short) || long.as_deref().is_some_and(is)) {
                            continue;
                        }
                        let cluster = u32::from_le_bytes([entry[26], entry[27], entry[20], entry[21]]);
                        return Ok(Some(Found {
                            at: start + (index * ENTRY) as u64,
                            cluster: if self.bits == 32 { cluster } else { cluster & 0xFFFF },
                            is_dir: attributes & 0x10 != 0,
                        }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// All clusters of a file; none if it is empty.
    fn clusters_of(&self, first: u32, path: &str) -> Result<Vec<u32>, FatReadError> {
        let mut clusters = Vec::new();
        if first == 0 {
            return Ok(clusters);
        }
        let mut chain = Chain::new(self, first);
        while let Some(at) = chain.next(path)? {
            // A ring never ends by itself.
            if clusters.len() as u64 == self.clusters || (clusters.len() * 512) > MAX_CONTENT {
                return Err(damaged(path, "its chain is a ring, or longer than is replaced"));
            }
            let number = (at - self.data) / self.cluster_bytes + 2;
            clusters.push(u32::try_from(number).unwrap_or(u32::MAX));
        }
        Ok(clusters)
    }

    /// The first free clusters, at most this many.
    fn first_free(&self, count: usize) -> Result<Vec<u32>, FatReadError> {
        let mut free = Vec::new();
        let mut entries = Chain::new(self, 0);
        for cluster in 2..self.clusters + 2 {
            if free.len() == count {
                break;
            }
            if entries.entry(cluster)? == 0 {
                free.push(u32::try_from(cluster).unwrap_or(u32::MAX));
            }
        }
        Ok(free)
    }

    /// Sets entries of the allocation table, in every copy of it.
    fn link(&self, links: &[(u32, u32)], writes: &mut Vec<Write>) -> Result<(), FatReadError> {
        let mut boot = [0; 512];
        self.image.read_at(0, &mut boot).map_err(FatReadError::Io)?;
        let word = |at: usize| u16::from_le_bytes([boot[at], boot[at + 1]]);
        let reserved = u64::from(word(14)) * u64::from(word(11));
        // Of FAT32 tables that are no mirrors, only the one in use counts.
        let copies = if self.table == reserved { u64::from(boot[16]) } else { 1 };
        let mut table: std::collections::BTreeMap<u64, u8> = std::collections::BTreeMap::new();
        for (cluster, next) in links {
            let bit = u64::from(*cluster) * self.bits;
            let (at, bytes) = (bit / 8, if self.bits == 32 { 4 } else { 2 });
            let mut old = [0; 4];
            for index in 0..bytes {
                let offset = at + index;
                let known = table.get(&offset).copied();
                let mut byte = [known.unwrap_or(0)];
                if known.is_none() {
                    self.image
                        .read_at(self.table + offset, &mut byte)
                        .map_err(FatReadError::Io)?;
                }
                old[usize::try_from(index).unwrap_or(0)] = byte[0];
            }
            let old = u32::from_le_bytes(old);
            let (mask, shift) = match self.bits {
                12 => (0xFFF, bit % 8),
                16 => (0xFFFF, 0),
                // The four highest bits are reserved and kept.
                _ => (0x0FFF_FFFF, 0),
            };
            let new = old & !(mask << shift) | (next & mask) << shift;
            for (index, byte) in (0..bytes).zip(new.to_le_bytes()) {
                table.insert(at + index, byte);
            }
        }
        for copy in 0..copies {
            for (offset, byte) in &table {
                writes.push((self.table + copy * self.table_bytes + offset, vec![*byte]));
            }
        }
        if self.bits == 32 {
            // How many clusters are free, and where to look for one: not known, rather than wrong.
            if (1..word(14)).contains(&word(48)) {
                let info = u64::from(word(48)) * u64::from(word(11));
                writes.push((info + 488, vec![0xFF; 8]));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::content::Content;
    use crate::fat::{FatShape, FatSpec, fat};
    use crate::source::{MemorySource, NoSources};

    fn volume(files: &[(&str, Vec<u8>)], size: Option<u64>) -> Vec<u8> {
        let content = |bytes: &Vec<u8>| Content::from(Bytes::from(bytes.clone()));
        let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), content(bytes)));
        let spec = FatSpec {
            label: "ESP".to_owned(),
            files: files.collect(),
            size,
            shape: FatShape::Disk,
        };
        let layout = fat(&spec).unwrap();
        let mut bytes = vec![0; usize::try_from(layout.size()).unwrap()];
        layout.read_at(&NoSources, 0, &mut bytes).unwrap();
        bytes
    }

    fn replaced(mut image: Vec<u8>, path: &str, content: &[u8]) -> Result<Vec<u8>, FatPatchError> {
        let source = MemorySource(image.clone().into());
        for (at, bytes) in FatVolume::open(&source)?.replacing(path, content)? {
            let at = usize::try_from(at).unwrap();
            image[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(image)
    }

    fn read(image: &[u8], path: &str) -> Vec<u8> {
        let source = MemorySource(image.to_vec().into());
        let volume = FatVolume::open(&source).unwrap();
        let entries = volume.entries().unwrap();
        let entry = entries
            .iter()
            .find(|entry| entry.path.eq_ignore_ascii_case(path))
            .unwrap();
        volume.read(entry, u32::MAX).unwrap()
    }

    fn free(image: &[u8]) -> u64 {
        let source = MemorySource(image.to_vec().into());
        FatVolume::open(&source).unwrap().free_clusters().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn a_file_holds_its_new_content_and_no_other_changes(
            lens in prop::collection::vec(0..9000usize, 4),
            size in prop_oneof![Just(None), Just(Some(8 << 20)), Just(Some(34 << 20))],
        ) {
            let before = vec![1; 3000];
            let after = vec![2; 5000];
            let files = [
                ("EFI/BOOT/a long name before.cfg", before.clone()),
                ("EFI/BOOT/grub.cfg", vec![3; lens[0]]),
                ("EFI/BOOT/z", after.clone()),
            ];
            let mut image = volume(&files, size);
            let at_first = free(&image);
            for (index, len) in lens.iter().enumerate() {
                let content = vec![u8::try_from(index).unwrap() + 4; *len];
                image = replaced(image, "efi/boot/GRUB.CFG", &content).unwrap();
                prop_assert!(read(&image, "EFI/BOOT/grub.cfg") == content);
                prop_assert!(read(&image, "EFI/BOOT/a long name before.cfg") == before);
                prop_assert!(read(&image, "EFI/BOOT/z") == after);
            }
            image = replaced(image, "EFI/BOOT/grub.cfg", &vec![3; lens[0]]).unwrap();
            prop_assert_eq!(free(&image), at_first, "no cluster is lost");
        }

        #[test]
        fn a_damaged_volume_never_panics(damage in prop::collection::vec((0..20_000usize, any::<u8>()), 1..40)) {
            let mut image = volume(&[("EFI/BOOT/grub.cfg", vec![3; 3000])], None);
            for (at, with) in damage {
                image[at] = with;
            }
            let source = MemorySource(image.into());
            if let Ok(volume) = FatVolume::open(&source) {
                let _ = volume.replacing("EFI/BOOT/grub.cfg", &[4; 9000]);
            }
        }
    }

    #[test]
    fn what_does_not_fit_or_is_not_there_is_refused() {
        let image = volume(&[("d/f", vec![1; 100])], Some(64 << 10));
        let room = free(&image) * 512 + 512;
        let room = usize::try_from(room).unwrap();
        assert!(replaced(image.clone(), "d/f", &vec![2; room]).is_ok());
        let full = replaced(image.clone(), "d/f", &vec![2; room + 1]);
        assert!(matches!(full, Err(FatPatchError::Full { needed: 512, .. })), "{full:?}");
        for path in ["d", "d/g", "d/f/x", "", "e"] {
            let refused = replaced(image.clone(), path, b"");
            assert!(
                matches!(refused, Err(FatPatchError::NoFile { .. })),
                "{path}: {refused:?}"
            );
        }
    }
}
