//! Gives every part of an ISO its sectors and writes them: descriptors, path tables, directories, files.

use super::IsoError;
use super::el_torito::{BiosLoader, BootImage, append_loader, boot_record, catalog};
use super::hybrid::{self, HybridDisk, Mbr};
use super::records::{Continuations, Place, SECTOR, both16, both32, directory, record, section};
use super::tree::{Child, Tree, View, flatten};
use crate::builder::LayoutBuilder;
use crate::content::Content;
use crate::layout::{Kind, Layout};
use crate::path::tree;

/// The system area: zeros, or the partition table of a hybrid.
const SYSTEM_AREA: u32 = 16;
/// Files from this length on, and every source, start on a 4 KiB boundary.
const ALIGN_FROM: u64 = 16 * 1024;
/// Files from this length on start on a 64 KiB boundary: file systems with blocks that large (XFS on ARM servers) share them
/// too, and where nothing is shared, the kernel copies a third faster.
const ALIGN_MORE_FROM: u64 = 1 << 20;
/// 2000-01-01 00:00:00 UTC, as descriptors hold it.
const DATE: &[u8; 17] = b"2000010100000000\0";
const NO_DATE: &[u8; 17] = b"0000000000000000\0";

/// What to write.
pub(super) struct Volume<'a> {
    pub(super) kind: Kind,
    pub(super) label: &'a str,
    pub(super) files: Vec<(&'a str, &'a Content)>,
    pub(super) boot: Option<Boot<'a>>,
}

/// Which of the files are booted, by path.
pub(super) struct Boot<'a> {
    pub(super) catalog: &'a str,
    pub(super) bios: Option<(&'a str, BiosLoader<'a>)>,
    pub(super) uefi: Option<&'a str>,
    /// What is in the first sector, if the image boots as a disk too.
    pub(super) mbr: Option<Mbr<'a>>,
}

impl Boot<'_> {
    /// Which file comes last, so that one partition can hold all others.
    fn last(&self) -> Option<&str> {
        self.uefi.filter(|_| self.mbr.is_some())
    }
}

/// First sector and bytes of every directory, in both views, and of every file.
struct Places {
    iso: Vec<(u32, u64)>,
    joliet: Vec<(u32, u64)>,
    files: Vec<(u32, u64)>,
}

impl Place for Places {
    fn place(&self, view: View, child: Child) -> (u32, u64) {
        match (child, view) {
            (Child::Dir(index), View::Iso) => self.iso[index],
            (Child::Dir(index), View::Joliet) => self.joliet[index],
            (Child::File(index), _) => self.files[index],
        }
    }
}

/// Hands out sectors from the front to the back.
struct Sectors(u64);

impl Sectors {
    fn take(&mut self, bytes: u64) -> Result<u32, IsoError> {
        let first = u32::try_from(self.0).map_err(|_| IsoError::TooLarge)?;
        self.0 += bytes.div_ceil(SECTOR as u64);
        u32::try_from(self.0).map_err(|_| IsoError::TooLarge)?;
        Ok(first)
    }
}

/// Sectors of the parts before the files.
struct Tables {
    descriptors: u32,
    iso: PathTable,
    joliet: PathTable,
    continuations: u32,
    end: u32,
}

/// The little-endian and the big-endian path table of a view.
struct PathTable {
    order: Vec<usize>,
    len: u32,
    little: u32,
    big: u32,
}

pub(super) fn write(volume: &Volume<'_>) -> Result<Layout, IsoError> {
    let label_is_legal =
        (1..=32).contains(&volume.label.len()) && volume.label.bytes().all(|b| (b' '..=b'~').contains(&b));
    if !label_is_legal {
        let label = volume.label.chars().take(64).collect();
        return Err(IsoError::Label { label });
    }
    let root = tree(volume.files.iter().copied())?;
    let tree = flatten(&root)?;
    let order = file_order(&tree, volume.boot.as_ref());
    let (places, tables) = place(&tree, &order, volume.boot.as_ref())?;
    let mut out = LayoutBuilder::new(volume.kind);
    let disk = hybrid_disk(volume, &tree, &places, &tables);
    if let Some(disk) = &disk {
        out.literal(disk.start());
    }
    descriptors(&mut out, volume, &tree, &places, &tables);
    for (view, table) in [(View::Iso, &tables.iso), (View::Joliet, &tables.joliet)] {
        at_sector(&mut out, table.little);
        out.literal(path_table(
            &tree,
            view,
            table,
            &places,
            u32::to_le_bytes,
            u16::to_le_bytes,
        ));
        at_sector(&mut out, table.big);
        out.literal(path_table(
            &tree,
            view,
            table,
            &places,
            u32::to_be_bytes,
            u16::to_be_bytes,
        ));
    }
    let mut continuations = Continuations {
        first_sector: tables.continuations,
        bytes: Vec::new(),
    };
    for index in 0..tree.dirs.len() {
        at_sector(&mut out, places.iso[index].0);
        out.literal(directory(&tree, View::Iso, index, &places, &mut continuations));
    }
    at_sector(&mut out, tables.continuations);
    out.literal(std::mem::take(&mut continuations.bytes));
    for index in 0..tree.dirs.len() {
        at_sector(&mut out, places.joliet[index].0);
        out.literal(directory(&tree, View::Joliet, index, &places, &mut continuations));
    }
    files(&mut out, volume, &tree, &places, &order);
    if let Some(disk) = &disk {
        let backup = disk.end();
        out.zeros_to(u64::from(tables.end) * SECTOR as u64 - backup.len() as u64);
        out.literal(backup);
    }
    at_sector(&mut out, tables.end);
    Ok(out.finish()?)
}

fn hybrid_disk<'a>(volume: &Volume<'a>, tree: &Tree<'_>, places: &Places, tables: &Tables) -> Option<HybridDisk<'a>> {
    let boot = volume.boot.as_ref()?;
    Some(HybridDisk {
        mbr: boot.mbr?,
        loader: boot
            .bios
            .map(|(path, loader)| (loader, file_place(tree, places, path).sector)),
        esp: boot.uefi.map(|path| file_place(tree, places, path)),
        sectors: tables.end,
        seed: hybrid::seed(volume.label, &tree.files),
    })
}

fn at_sector(out: &mut LayoutBuilder, sector: u32) {
    out.zeros_to(u64::from(sector) * SECTOR as u64);
}

fn place(tree: &Tree<'_>, order: &[usize], boot: Option<&Boot<'_>>) -> Result<(Places, Tables), IsoError> {
    let dirs = tree.dirs.len();
    let mut places = Places {
        iso: vec![(0, 0); dirs],
        joliet: vec![(0, 0); dirs],
        // How many records a file has depends on its length.
        files: tree.files.iter().map(|file| (0, file.content.len())).collect(),
    };
    // Primary, Joliet and terminator, and the boot record between them.
    let mut sectors = Sectors(u64::from(SYSTEM_AREA) + 3 + u64::from(boot.is_some()));
    let descriptors = SYSTEM_AREA;
    let iso = place_path_table(tree, View::Iso, &mut sectors)?;
    let joliet = place_path_table(tree, View::Joliet, &mut sectors)?;
    // Lengths of directories do not depend on where things are, so a first pass over zeros tells them.
    let mut continuations = Continuations {
        first_sector: 0,
        bytes: Vec::new(),
    };
    let mut lengths = [Vec::with_capacity(dirs), Vec::with_capacity(dirs)];
    for (view, lengths) in [View::Iso, View::Joliet].into_iter().zip(&mut lengths) {
        for index in 0..dirs {
            let len = directory(tree, view, index, &places, &mut continuations).len();
            // A directory is one section.
            lengths.push(u64::from(u32::try_from(len).map_err(|_| IsoError::TooLarge)?));
        }
    }
    for (place, len) in places.iso.iter_mut().zip(&lengths[0]) {
        *place = (sectors.take(*len)?, *len);
    }
    let continuation_sector = sectors.take(continuations.bytes.len() as u64)?;
    for (place, len) in places.joliet.iter_mut().zip(&lengths[1]) {
        *place = (sectors.take(*len)?, *len);
    }
    for index in order.iter().copied() {
        let content = tree.files[index].content;
        if is_aligned(content) {
            let boundary = if content.len() >= ALIGN_MORE_FROM { 32 } else { 2 };
            sectors.0 = sectors.0.next_multiple_of(boundary);
        }
        places.files[index] = (sectors.take(content.len())?, content.len());
    }
    if boot.is_some_and(|boot| boot.mbr.is_some()) {
        sectors.take(hybrid::END_BYTES)?;
    }
    sectors.0 = sectors.0.next_multiple_of(2);
    let end = sectors.take(0)?;
    Ok((
        places,
        Tables {
            descriptors,
            iso,
            joliet,
            continuations: continuation_sector,
            end,
        },
    ))
}

/// Small files first, so that what a boot loader reads lies together.
fn file_order(tree: &Tree<'_>, boot: Option<&Boot<'_>>) -> Vec<usize> {
    let last = boot.and_then(Boot::last);
    let mut order: Vec<usize> = (0..tree.files.len()).collect();
    order.sort_by_key(|index| {
        let file = &tree.files[*index];
        (last == Some(file.path.as_str()), is_aligned(file.content))
    });
    order
}

fn is_aligned(content: &Content) -> bool {
    !matches!(content, Content::Literal(_)) || content.len() >= ALIGN_FROM
}

fn place_path_table(tree: &Tree<'_>, view: View, sectors: &mut Sectors) -> Result<PathTable, IsoError> {
    let order = tree.by_level(view);
    let len = order
        .iter()
        .map(|dir| 8 + path_identifier(tree, view, *dir).len().next_multiple_of(2))
        .sum::<usize>();
    Ok(PathTable {
        little: sectors.take(len as u64)?,
        big: sectors.take(len as u64)?,
        len: u32::try_from(len).map_err(|_| IsoError::TooLarge)?,
        order,
    })
}

fn path_identifier(tree: &Tree<'_>, view: View, dir: usize) -> Vec<u8> {
    match dir {
        0 => vec![0],
        dir => tree.identifier(view, Child::Dir(dir)),
    }
}

/// ECMA-119 §9.4.
fn path_table(
    tree: &Tree<'_>,
    view: View,
    table: &PathTable,
    places: &Places,
    bytes32: fn(u32) -> [u8; 4],
    bytes16: fn(u16) -> [u8; 2],
) -> Vec<u8> {
    let mut numbers = vec![0u16; tree.dirs.len()];
    for (number, dir) in (1..).zip(&table.order) {
        numbers[*dir] = number;
    }
    let mut out = Vec::new();
    for dir in &table.order {
        let identifier = path_identifier(tree, view, *dir);
        out.push(u8::try_from(identifier.len()).expect("identifiers are at most 128 bytes"));
        out.push(0);
        out.extend(bytes32(places.place(view, Child::Dir(*dir)).0));
        out.extend(bytes16(numbers[tree.dirs[*dir].parent]));
        out.extend_from_slice(&identifier);
        out.resize(out.len().next_multiple_of(2), 0);
    }
    out
}

fn descriptors(out: &mut LayoutBuilder, volume: &Volume<'_>, tree: &Tree<'_>, places: &Places, tables: &Tables) {
    at_sector(out, tables.descriptors);
    out.literal(descriptor(View::Iso, volume.label, &tables.iso, places, tables.end));
    if let Some(boot) = &volume.boot {
        out.literal(boot_record(file_place(tree, places, boot.catalog).sector));
    }
    out.literal(descriptor(
        View::Joliet,
        volume.label,
        &tables.joliet,
        places,
        tables.end,
    ));
    let mut terminator = vec![0; SECTOR];
    terminator[..7].copy_from_slice(b"\xffCD001\x01");
    out.literal(terminator);
}

/// Primary volume descriptor (ECMA-119 §8.4), or Joliet's supplementary one (§8.5).
fn descriptor(view: View, label: &str, table: &PathTable, places: &Places, sectors: u32) -> Vec<u8> {
    let mut out = vec![0; SECTOR];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(
        0,
        if view == View::Iso {
            b"\x01CD001\x01"
        } else {
            b"\x02CD001\x01"
        },
    );
    put(8, &text(view, "", 32));
    put(40, &text(view, label, 32));
    put(80, &both32(sectors));
    if view == View::Joliet {
        // UCS-2, level 3.
        put(88, b"%/E");
    }
    put(120, &both16(1));
    put(124, &both16(1));
    put(128, &both16(2048));
    put(132, &both32(table.len));
    put(140, &table.little.to_le_bytes());
    put(148, &table.big.to_be_bytes());
    put(
        156,
        &record(&[0], section(places.place(view, Child::Dir(0)), 0), 2, &[]),
    );
    for (at, len, value) in [
        (190, 128, ""),
        (318, 128, ""),
        (446, 128, "FARRIER"),
        (574, 128, "FARRIER"),
        (702, 37, ""),
        (739, 37, ""),
        (776, 37, ""),
    ] {
        put(at, &text(view, value, len));
    }
    for (at, date) in [(813, DATE), (830, DATE), (847, NO_DATE), (864, NO_DATE)] {
        put(at, date);
    }
    put(881, &[1]);
    out
}

/// A text field, filled with spaces.
fn text(view: View, value: &str, len: usize) -> Vec<u8> {
    let mut field: Vec<u8> = match view {
        View::Iso => value.bytes().chain(std::iter::repeat(b' ')).take(len).collect(),
        View::Joliet => value
            .encode_utf16()
            .chain(std::iter::repeat(u16::from(b' ')))
            .flat_map(u16::to_be_bytes)
            .take(len - len % 2)
            .collect(),
    };
    field.resize(len, 0);
    field
}

fn file_place(tree: &Tree<'_>, places: &Places, path: &str) -> BootImage {
    let index = tree
        .files
        .iter()
        .position(|file| file.path == path)
        .expect("boot files are among the files");
    let (sector, len) = places.files[index];
    BootImage { sector, len }
}

fn files(out: &mut LayoutBuilder, volume: &Volume<'_>, tree: &Tree<'_>, places: &Places, order: &[usize]) {
    for index in order.iter().copied() {
        let file = &tree.files[index];
        let (sector, _) = places.files[index];
        at_sector(out, sector);
        let boot = volume.boot.as_ref();
        if let Some(boot) = boot.filter(|boot| boot.catalog == file.path) {
            let image = |path: &str| file_place(tree, places, path);
            out.literal(catalog(boot.bios.map(|(path, _)| image(path)), boot.uefi.map(image)));
        } else if let Some((_, loader)) = boot.and_then(|boot| boot.bios).filter(|(path, _)| *path == file.path) {
            append_loader(out, loader, SYSTEM_AREA, sector);
        } else {
            file.content.append_to(out);
        }
    }
}
