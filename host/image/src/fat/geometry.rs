//! How a volume of some size is divided: FAT type, cluster size, and where every directory and file starts.

use super::FatError;
use super::directory::{ENTRY, Plan};
use crate::content::Content;

pub(super) const SECTOR: u64 = 512;
/// Largest volume: far past a floppy, an ESP or a config drive, and its tables still fit into memory many times.
pub(super) const MAX_VOLUME: u64 = 64 << 30;
/// Smallest volume that is worth a boot sector, two tables and a root directory.
const MIN_VOLUME: u64 = 32 * 1024;
/// Cluster counts this near to a type's limits are avoided, as the FAT specification advises: readers are off by a few.
const MARGIN: u64 = 16;
const FAT12_MAX: u64 = 4084;
const FAT16_MAX: u64 = 65_524;
const FAT32_MAX: u64 = 0x0FFF_FFF4;
/// Source files from this length on start on a 4 KiB boundary of the image, so that they can be reflinked.
const ALIGN_FROM: u64 = 64 * 1024;
/// Boundary that file systems reflink at.
const ALIGN: u64 = 4096;
/// Files from this length on start on a larger boundary, if the clusters allow it: file systems with blocks that large share
/// them too, and where nothing is shared, the kernel copies faster.
const ALIGN_MORE_FROM: u64 = 1 << 20;
const ALIGN_MORE: u64 = 64 * 1024;

/// What a volume pretends to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FatShape {
    /// A diskette: 1.44 MB unless it has to be larger.
    Floppy,
    /// A disk or a partition (an ESP).
    Disk,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FatType {
    Fat12,
    Fat16,
    Fat32,
}

/// A divided volume; sectors have 512 bytes.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub(super) fat: FatType,
    pub(super) sectors: u32,
    pub(super) sectors_per_cluster: u8,
    pub(super) reserved: u16,
    pub(super) fat_sectors: u32,
    /// Entries of the fixed root directory; 0 on FAT32, where the root is a file.
    pub(super) root_entries: u16,
    pub(super) clusters: u32,
    pub(super) media: u8,
    pub(super) sectors_per_track: u16,
    pub(super) heads: u16,
    pub(super) drive: u8,
}

impl Geometry {
    pub(super) fn cluster_bytes(&self) -> u64 {
        u64::from(self.sectors_per_cluster) * SECTOR
    }

    pub(super) fn root_start(&self) -> u64 {
        (u64::from(self.reserved) + 2 * u64::from(self.fat_sectors)) * SECTOR
    }

    pub(super) fn data_start(&self) -> u64 {
        self.root_start() + u64::from(self.root_entries) * ENTRY as u64
    }

    /// Where a cluster starts in the image; the first one has number 2.
    pub(super) fn cluster_start(&self, cluster: u32) -> u64 {
        self.data_start() + (u64::from(cluster) - 2) * self.cluster_bytes()
    }
}

/// First cluster (0 = none) and number of clusters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) count: u32,
}

/// Where everything starts, in the plan's order.
pub(super) struct Places {
    pub(super) dirs: Vec<Run>,
    pub(super) files: Vec<Run>,
    /// Clusters up to the end of the last one in use.
    pub(super) end: u32,
    pub(super) used: u32,
}

/// Divides a volume of `size` bytes, or of the smallest usual size that takes the plan.
pub(super) fn choose(plan: &Plan<'_>, size: Option<u64>, shape: FatShape) -> Result<(Geometry, Places), FatError> {
    if let Some(size) = size {
        if !(MIN_VOLUME..=MAX_VOLUME).contains(&size) || !size.is_multiple_of(SECTOR) {
            return Err(FatError::Size { size });
        }
        let fitting = fit(plan, size, shape, true).or_else(|_| fit(plan, size, shape, false));
        return match fitting {
            Ok(fitting) => Ok(fitting),
            Err(_) => Err(FatError::TooSmall {
                size,
                needed: smallest(plan, shape, size)?.0,
            }),
        };
    }
    let usual: &[u64] = match shape {
        FatShape::Floppy => &[1_474_560, 2_949_120],
        FatShape::Disk => &[1 << 20],
    };
    if let Some(fitting) = usual.iter().find_map(|size| fit(plan, *size, shape, true).ok()) {
        return Ok(fitting);
    }
    let (_, geometry, places) = smallest(plan, shape, usual[usual.len() - 1])?;
    Ok((geometry, places))
}

/// The smallest multiple of 64 KiB from `from` on that takes the plan.
fn smallest(plan: &Plan<'_>, shape: FatShape, from: u64) -> Result<(u64, Geometry, Places), FatError> {
    const STEP: u64 = 64 * 1024;
    let from = from.next_multiple_of(STEP);
    let mut size = from;
    let mut found = loop {
        match fit(plan, size, shape, true) {
            Ok((geometry, places)) => break (size, geometry, places),
            // Each round adds what was lacking, and a larger volume never has more clusters for less room, so this ends.
            Err(lacking) => size = size.saturating_add(lacking.max(1)).next_multiple_of(STEP),
        }
        if size > MAX_VOLUME {
            return Err(FatError::TooSmall {
                size: MAX_VOLUME,
                needed: size,
            });
        }
    };
    // What was lacking is counted in clusters of the size that was too small, so a step may have been too long.
    while found.0 > from
        && let Ok((geometry, places)) = fit(plan, found.0 - STEP, shape, true)
    {
        found = (found.0 - STEP, geometry, places);
    }
    Ok(found)
}

/// Divides a volume and places the plan in it, or tells how many bytes are lacking. `aligned`: with room lost between large
/// sources, for what it is worth when the image is written.
fn fit(plan: &Plan<'_>, size: u64, shape: FatShape, aligned: bool) -> Result<(Geometry, Places), u64> {
    let geometry = divide(plan, size, shape).ok_or(SECTOR)?;
    match place(plan, &geometry, aligned) {
        Ok(places) => Ok((geometry, places)),
        Err(needed) => Err((needed - u64::from(geometry.clusters)) * geometry.cluster_bytes()),
    }
}

/// Gives directories, then files, one run of clusters each; the error is the number of clusters that it would take.
fn place(plan: &Plan<'_>, geometry: &Geometry, aligned: bool) -> Result<Places, u64> {
    let cluster = geometry.cluster_bytes();
    let mut next = 0u64;
    let mut used = 0u64;
    let mut runs = Vec::with_capacity(plan.dirs.len() + plan.files.len());
    let dirs = plan.dirs.iter().enumerate().map(|(index, dir)| match index {
        0 if geometry.root_entries > 0 => (0, false),
        _ => ((dir.entries * ENTRY).max(1) as u64, false),
    });
    let files = plan.files.iter().map(|file| {
        let is_source = matches!(file.content, Content::Source(_) | Content::Layout(_));
        (
            file.content.len(),
            aligned && is_source && file.content.len() >= ALIGN_FROM,
        )
    });
    for (len, aligned) in dirs.chain(files) {
        let count = len.div_ceil(cluster);
        if aligned {
            let at = geometry.data_start() + next * cluster;
            let boundaries = if len >= ALIGN_MORE_FROM {
                &[ALIGN_MORE, ALIGN][..]
            } else {
                &[ALIGN]
            };
            let gaps = boundaries.iter().map(|boundary| at.next_multiple_of(*boundary) - at);
            next += gaps.into_iter().find(|gap| gap.is_multiple_of(cluster)).unwrap_or(0) / cluster;
        }
        runs.push((if count == 0 { None } else { Some(next) }, count));
        next += count;
        used += count;
    }
    if next > u64::from(geometry.clusters) {
        return Err(next);
    }
    let number = |clusters: u64| u32::try_from(clusters).expect("fewer clusters than the volume has");
    let run = |(first, count): (Option<u64>, u64)| Run {
        first: first.map_or(0, |first| number(first) + 2),
        count: number(count),
    };
    let files = runs.split_off(plan.dirs.len());
    Ok(Places {
        dirs: runs.into_iter().map(run).collect(),
        files: files.into_iter().map(run).collect(),
        end: number(next),
        used: number(used),
    })
}

fn divide(plan: &Plan<'_>, size: u64, shape: FatShape) -> Option<Geometry> {
    let sectors = u32::try_from(size / SECTOR).ok()?;
    let root = plan.dirs[0].entries;
    if shape == FatShape::Floppy
        && let Some(diskette) = diskette(sectors)
        && root <= usize::from(diskette.root_entries)
    {
        return Some(diskette);
    }
    let (media, drive, sectors_per_track, heads) = match shape {
        FatShape::Floppy => (0xF0, 0, 18, 2),
        FatShape::Disk => (0xF8, 0x80, 63, 255),
    };
    let clusters_per_type: [(FatType, u64, u64, &[u8]); 3] = [
        (FatType::Fat12, 1, FAT12_MAX - MARGIN, &[1, 2, 4]),
        (
            FatType::Fat16,
            FAT12_MAX + 1 + MARGIN,
            FAT16_MAX - MARGIN,
            &[8, 4, 2, 16],
        ),
        (FatType::Fat32, FAT16_MAX + 1 + MARGIN, FAT32_MAX, &[8, 16, 32, 64]),
    ];
    for (fat, least, most, cluster_sizes) in clusters_per_type {
        for sectors_per_cluster in cluster_sizes {
            let mut geometry = Geometry {
                fat,
                sectors,
                sectors_per_cluster: *sectors_per_cluster,
                reserved: if fat == FatType::Fat32 { 32 } else { 1 },
                fat_sectors: 0,
                root_entries: match fat {
                    FatType::Fat32 => 0,
                    _ => u16::try_from(root.max(512).next_multiple_of(16)).ok()?,
                },
                clusters: 0,
                media,
                sectors_per_track,
                heads,
                drive,
            };
            let Some(clusters) = count_clusters(&mut geometry) else {
                continue;
            };
            // Larger clusters only from 2 million on: a table of 8 MB is enough to read at boot.
            let few = *sectors_per_cluster == 64 || fat != FatType::Fat32 || clusters <= 1 << 21;
            if (least..=most).contains(&clusters) && few {
                geometry.clusters = u32::try_from(clusters).ok()?;
                return Some(geometry);
            }
        }
    }
    None
}

/// Finds the table size that covers the clusters left over by it, and aligns the data to 4 KiB.
fn count_clusters(geometry: &mut Geometry) -> Option<u64> {
    let bits = match geometry.fat {
        FatType::Fat12 => 12,
        FatType::Fat16 => 16,
        FatType::Fat32 => 32,
    };
    let mut fat_sectors = 1u64;
    let reserved = geometry.reserved;
    loop {
        geometry.fat_sectors = u32::try_from(fat_sectors).ok()?;
        geometry.reserved = reserved;
        let unaligned = geometry.data_start() % ALIGN;
        let more = (ALIGN - unaligned) % ALIGN / SECTOR;
        geometry.reserved += u16::try_from(more).ok()?;
        let room = (u64::from(geometry.sectors) * SECTOR).checked_sub(geometry.data_start())?;
        let clusters = room / geometry.cluster_bytes();
        let needed = ((clusters + 2) * bits).div_ceil(8 * SECTOR);
        if needed <= fat_sectors {
            return Some(clusters);
        }
        fat_sectors = needed;
    }
}

/// The standard diskettes: drives and old firmware know them by these very numbers.
fn diskette(sectors: u32) -> Option<Geometry> {
    let (sectors_per_cluster, fat_sectors, root_entries, media, sectors_per_track) = match sectors {
        1440 => (2, 3, 112, 0xF9, 9),
        2880 => (1, 9, 224, 0xF0, 18),
        5760 => (2, 9, 240, 0xF0, 36),
        _ => return None,
    };
    let before_data = 1 + 2 * fat_sectors + u32::from(root_entries) * 32 / 512;
    Some(Geometry {
        fat: FatType::Fat12,
        sectors,
        sectors_per_cluster,
        reserved: 1,
        fat_sectors,
        root_entries,
        clusters: (sectors - before_data) / u32::from(sectors_per_cluster),
        media,
        sectors_per_track,
        heads: 2,
        drive: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::directory;
    use super::*;
    use crate::path::Dir;
    use proptest::prelude::*;

    /// What a reader works out from the boot sector (FAT specification, section 3.5) is what was written.
    fn check(sectors: u64, shape: FatShape) {
        let root = Dir::default();
        let plan = directory::plan(&root, true).unwrap();
        let (geometry, _) = choose(&plan, Some(sectors * SECTOR), shape).unwrap();
        let root_sectors = u64::from(geometry.root_entries) * 32 / 512;
        let before = u64::from(geometry.reserved) + 2 * u64::from(geometry.fat_sectors) + root_sectors;
        let clusters = (sectors - before) / u64::from(geometry.sectors_per_cluster);
        assert_eq!(clusters, u64::from(geometry.clusters), "{sectors}");
        let (fat, bits) = match clusters {
            0..=4084 => (FatType::Fat12, 12),
            4085..=65_524 => (FatType::Fat16, 16),
            _ => (FatType::Fat32, 32),
        };
        assert_eq!(fat, geometry.fat, "{sectors}");
        assert!(
            (clusters + 2) * bits <= u64::from(geometry.fat_sectors) * 512 * 8,
            "{sectors}"
        );
        let is_diskette = shape == FatShape::Floppy && matches!(sectors, 1440 | 2880 | 5760);
        assert!(geometry.data_start().is_multiple_of(ALIGN) || is_diskette, "{sectors}");
    }

    #[test]
    fn a_reader_counts_the_clusters_and_the_type_that_were_meant() {
        for shape in [FatShape::Floppy, FatShape::Disk] {
            (64..40_000).for_each(|sectors| check(sectors, shape));
            check(MAX_VOLUME / SECTOR, shape);
        }
    }

    fn fits(content: &Content, size: u64, shape: FatShape) -> bool {
        let mut root = Dir::default();
        root.0.insert("file".to_owned(), crate::path::Node::File(content));
        fit(&directory::plan(&root, true).unwrap(), size, shape, true).is_ok()
    }

    proptest! {
        #[test]
        fn no_smaller_volume_would_do_unless_it_has_a_usual_size(
            len in prop_oneof![0..4_000_000u64, 0..3_000_000_000u64],
            is_floppy in any::<bool>(),
        ) {
            let shape = if is_floppy { FatShape::Floppy } else { FatShape::Disk };
            let content = Content::Source(crate::SourceFile { sha256: model::Sha256([1; 32]), len });
            let mut root = Dir::default();
            root.0.insert("file".to_owned(), crate::path::Node::File(&content));
            let (geometry, _) = choose(&directory::plan(&root, true).unwrap(), None, shape).unwrap();
            let size = u64::from(geometry.sectors) * SECTOR;
            prop_assert!(fits(&content, size, shape));
            let usual = match shape {
                FatShape::Floppy => 2_949_120,
                FatShape::Disk => 1 << 20,
            };
            prop_assert!(size <= usual || !fits(&content, size - (64 << 10), shape), "{size}");
            // Tables, root and alignment are small beside what they are for.
            prop_assert!(size <= usual || size < len + len / 64 + (200 << 10), "{size} for {len}");
        }

        #[test]
        fn a_reader_of_large_volumes_does_too(
            sectors in prop_oneof![40_000..4_000_000u64, 40_000..MAX_VOLUME / SECTOR],
            is_floppy in any::<bool>(),
        ) {
            check(sectors, if is_floppy { FatShape::Floppy } else { FatShape::Disk });
        }
    }
}
