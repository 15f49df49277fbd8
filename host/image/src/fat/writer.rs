//! Boot sector, allocation tables, directories and files of a divided volume.

use sha2::Digest as _;

use super::FatError;
use super::directory::{Plan, Target, bytes};
use super::geometry::{FatType, Geometry, Places, Run, SECTOR};
use crate::builder::LayoutBuilder;
use crate::layout::{Kind, Layout};

/// What a boot sector does when it is booted: `int 18h` tells the BIOS to go on with the next device, `int 19h` starts
/// again on one that comes back from that, and a halt follows.
const BOOT_CODE: [u8; 7] = [0xCD, 0x18, 0xCD, 0x19, 0xF4, 0xEB, 0xFD];
const FSINFO_SECTOR: u16 = 1;
const BACKUP_SECTOR: u16 = 6;

pub(super) fn write(
    kind: Kind,
    label: Option<[u8; 11]>,
    plan: &Plan<'_>,
    geometry: &Geometry,
    places: &Places,
) -> Result<Layout, FatError> {
    let mut out = LayoutBuilder::new(kind);
    let boot = boot_sector(geometry, label, volume_id(plan, geometry, label), places);
    out.literal(boot.to_vec());
    if geometry.fat == FatType::Fat32 {
        let info = fs_info(geometry, places);
        out.literal(info.to_vec());
        out.zeros_to(u64::from(BACKUP_SECTOR) * SECTOR);
        out.literal(boot.to_vec());
        out.literal(info.to_vec());
    }
    let table = table(geometry, places);
    for copy in 0..2 {
        out.zeros_to((u64::from(geometry.reserved) + copy * u64::from(geometry.fat_sectors)) * SECTOR);
        out.literal(table.clone());
    }
    let place = |target: Target| match target {
        Target::Dir(index) => (places.dirs[index].first, 0),
        Target::File(index) => {
            let len = u32::try_from(plan.files[index].content.len()).expect("checked when planned");
            (places.files[index].first, len)
        }
    };
    for (index, run) in places.dirs.iter().enumerate() {
        let start = match run.first {
            0 => geometry.root_start(),
            first => geometry.cluster_start(first),
        };
        out.zeros_to(start);
        out.literal(bytes(plan, index, label, place));
    }
    for (file, run) in plan.files.iter().zip(&places.files) {
        if run.count > 0 {
            out.zeros_to(geometry.cluster_start(run.first));
            file.content.append_to(&mut out);
        }
    }
    out.zeros_to(u64::from(geometry.sectors) * SECTOR);
    Ok(out.finish()?)
}

/// Derived from label, size and files, so that the same input gives the same volume and another one another.
fn volume_id(plan: &Plan<'_>, geometry: &Geometry, label: Option<[u8; 11]>) -> [u8; 4] {
    let mut hash = sha2::Sha256::new();
    hash.update(label.unwrap_or_default());
    hash.update(geometry.sectors.to_le_bytes());
    for file in &plan.files {
        hash.update((file.path.len() as u64).to_le_bytes());
        hash.update(&file.path);
        file.content.add_to_hash(&mut hash);
    }
    let hash: [u8; 32] = hash.finalize().into();
    [hash[0], hash[1], hash[2], hash[3]]
}

fn boot_sector(geometry: &Geometry, label: Option<[u8; 11]>, id: [u8; 4], places: &Places) -> [u8; 512] {
    let mut sector = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| sector[at..at + bytes.len()].copy_from_slice(bytes);
    let is_fat32 = geometry.fat == FatType::Fat32;
    let code: u8 = if is_fat32 { 90 } else { 62 };
    put(0, &[0xEB, code - 2, 0x90]);
    put(3, b"FARRIER ");
    put(11, &512u16.to_le_bytes());
    put(13, &[geometry.sectors_per_cluster]);
    put(14, &geometry.reserved.to_le_bytes());
    put(16, &[2]);
    put(17, &geometry.root_entries.to_le_bytes());
    match u16::try_from(geometry.sectors) {
        Ok(sectors) if !is_fat32 => put(19, &sectors.to_le_bytes()),
        _ => put(32, &geometry.sectors.to_le_bytes()),
    }
    put(21, &[geometry.media]);
    put(24, &geometry.sectors_per_track.to_le_bytes());
    put(26, &geometry.heads.to_le_bytes());
    let extended = if is_fat32 {
        put(36, &geometry.fat_sectors.to_le_bytes());
        put(44, &places.dirs[0].first.to_le_bytes());
        put(48, &FSINFO_SECTOR.to_le_bytes());
        put(50, &BACKUP_SECTOR.to_le_bytes());
        64
    } else {
        let fat_sectors = u16::try_from(geometry.fat_sectors).expect("FAT12 and FAT16 tables have at most 256 sectors");
        put(22, &fat_sectors.to_le_bytes());
        36
    };
    put(extended, &[geometry.drive, 0, 0x29]);
    put(extended + 3, &id);
    put(extended + 7, &label.unwrap_or(*b"NO NAME    "));
    put(
        extended + 18,
        match geometry.fat {
            FatType::Fat12 => b"FAT12   ",
            FatType::Fat16 => b"FAT16   ",
            FatType::Fat32 => b"FAT32   ",
        },
    );
    put(usize::from(code), &BOOT_CODE);
    put(510, &[0x55, 0xAA]);
    sector
}

fn fs_info(geometry: &Geometry, places: &Places) -> [u8; 512] {
    let mut sector = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| sector[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"RRaA");
    put(484, b"rrAa");
    put(488, &(geometry.clusters - places.used).to_le_bytes());
    put(492, &(places.end + 2).to_le_bytes());
    put(508, &[0, 0, 0x55, 0xAA]);
    sector
}

/// One allocation table, up to the last entry in use; the rest is zeros.
fn table(geometry: &Geometry, places: &Places) -> Vec<u8> {
    const LAST: u32 = 0x0FFF_FFFF;
    let mut entries = vec![0u32; usize::try_from(places.end).unwrap_or_default() + 2];
    entries[0] = 0x0FFF_FF00 | u32::from(geometry.media);
    entries[1] = LAST;
    for Run { first, count } in places.dirs.iter().chain(&places.files) {
        for cluster in *first..first + count {
            let next = if cluster + 1 == first + count {
                LAST
            } else {
                cluster + 1
            };
            if let Some(entry) = usize::try_from(cluster).ok().and_then(|at| entries.get_mut(at)) {
                *entry = next;
            }
        }
    }
    match geometry.fat {
        FatType::Fat12 => entries
            .chunks(2)
            .flat_map(|pair| {
                let second = pair.get(1).copied().unwrap_or(0);
                let [low, middle, high, _] = ((pair[0] & 0xFFF) | (second & 0xFFF) << 12).to_le_bytes();
                [low, middle, high]
            })
            .collect(),
        FatType::Fat16 => entries
            .iter()
            .flat_map(|entry| {
                let [low, high, ..] = entry.to_le_bytes();
                [low, high]
            })
            .collect(),
        FatType::Fat32 => entries.iter().flat_map(|entry| entry.to_le_bytes()).collect(),
    }
}
