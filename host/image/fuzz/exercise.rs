//! What fuzzers feed: the readers and patchers of images that anybody made. A panic is a finding, and so is a hang.
//!
//! An input is an image itself if its first byte is 0. Else that byte chooses an image that is right, and what follows are
//! changes in it, of a place (four bytes, little-endian) and what is put there (two bytes): so an input stays small, and gets
//! past the first sector.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use image::{
    BootIsoSpec, Content, Extent, FatShape, FatSpec, FatVolume, Firmware, Hybrid, IsoNames, IsoPatch, IsoVolume, Kind,
    Layout, MemorySource, Source, SourceFile, SourceMap, boot_iso, fat as fat_volume, partitions, patch_iso,
};
use model::Sha256;

/// Most of a file that is read.
const FILE: u32 = 1 << 20;
/// Most changes of one input.
const CHANGES: usize = 2000;

/// A FAT volume of any size.
pub(crate) fn fat(input: &[u8]) {
    static BASES: OnceLock<Vec<Arc<[u8]>>> = OnceLock::new();
    let Some(image) = changed(input, BASES.get_or_init(fat_volumes)) else {
        return;
    };
    let Ok(volume) = FatVolume::open(&image) else {
        return;
    };
    let _ = volume.label();
    for entry in volume.entries().unwrap_or_default() {
        if let Ok(bytes) = volume.read(&entry, FILE) {
            assert_eq!(bytes.len() as u64, u64::from(entry.len), "{:?}", entry.path);
        }
    }
}

/// An ISO, as a volume, as a disk, and patched.
pub(crate) fn iso(input: &[u8]) {
    static BASES: OnceLock<Vec<Arc<[u8]>>> = OnceLock::new();
    let Some(image) = changed(input, BASES.get_or_init(isos)) else {
        return;
    };
    let _ = partitions(&image);
    if let Ok(volume) = IsoVolume::open(&image) {
        let _ = volume.boot_entries();
        for names in [IsoNames::RockRidge, IsoNames::Joliet, IsoNames::Plain] {
            for entry in volume.entries_by(names).unwrap_or_default() {
                if let Ok(bytes) = volume.read(&entry, FILE.into()) {
                    assert_eq!(bytes.len() as u64, entry.len, "{:?}", entry.path);
                }
            }
        }
        let _ = volume.find("boot/initrd");
    }
    let (sha256, len) = (Sha256([9; 32]), image.len());
    let mut sources = SourceMap::default();
    sources.insert(sha256, Arc::new(image));
    let whole = vec![Extent::Source { sha256, offset: 0, len }];
    let Ok(layout) = Layout::from_extents(Kind::Iso, whole) else {
        return;
    };
    let content = |bytes: &[u8]| Content::from(Bytes::copy_from_slice(bytes));
    let patch = IsoPatch {
        files: vec![
            ("new/x".to_owned(), content(b"1")),
            ("boot/initrd".to_owned(), content(&[1; 300_000])),
        ],
        embed: vec![("images/ignition.img".to_owned(), content(b"2"))],
        parameters: vec![("a".to_owned(), "b".to_owned())],
        ..IsoPatch::default()
    };
    if let Ok(patched) = patch_iso(&layout, &sources, &patch) {
        // What was patched can be patched.
        let _ = patch_iso(&patched.layout, &sources, &patch);
    }
}

/// A right image with changes; reading it costs what is read.
struct Changed {
    base: Arc<[u8]>,
    changes: BTreeMap<u64, u8>,
}

impl Source for Changed {
    fn len(&self) -> u64 {
        self.base.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.saturating_add(buf.len() as u64);
        let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
        let there = range.and_then(|(from, to)| self.base.get(from..to));
        buf.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        for (at, with) in self.changes.range(offset..end) {
            if let Some(byte) = usize::try_from(at - offset).ok().and_then(|at| buf.get_mut(at)) {
                *byte = *with;
            }
        }
        Ok(())
    }
}

fn changed(input: &[u8], bases: &[Arc<[u8]>]) -> Option<Changed> {
    let (first, rest) = input.split_first()?;
    let Some(which) = usize::from(*first).checked_sub(1) else {
        return Some(Changed {
            base: rest.into(),
            changes: BTreeMap::new(),
        });
    };
    let base = Arc::clone(&bases[which % bases.len()]);
    let mut changes = BTreeMap::new();
    for change in rest.chunks_exact(6).take(CHANGES) {
        let [a, b, c, d, first, second] = *change else {
            continue;
        };
        let at = u64::from(u32::from_le_bytes([a, b, c, d])) % base.len() as u64;
        changes.insert(at, first);
        changes.insert(at + 1, second);
    }
    Some(Changed { base, changes })
}

fn fat_volumes() -> Vec<Arc<[u8]>> {
    let content = |len: usize| Content::from(Bytes::from(vec![3; len]));
    let files = vec![
        ("EFI/BOOT/grub.cfg".to_owned(), content(3000)),
        ("EFI/BOOT/A name that is longer than eight.efi".to_owned(), content(700)),
        ("parameters.txt".to_owned(), content(40)),
    ];
    let volume = |size: Option<u64>, shape: FatShape| {
        let spec = FatSpec {
            label: "IR-VFD-DEV".to_owned(),
            files: files.clone(),
            size,
            shape,
        };
        bytes(&fat_volume(&spec).expect("it is right"), &SourceMap::default())
    };
    // FAT12, FAT16, FAT32.
    vec![
        volume(None, FatShape::Floppy),
        volume(Some(10 << 20), FatShape::Disk),
        volume(Some(600 << 20), FatShape::Disk),
    ]
}

fn isos() -> Vec<Arc<[u8]>> {
    let sha256 = Sha256([1; 32]);
    let kernel = SourceFile { sha256, len: 10 };
    let mut sources = SourceMap::default();
    sources.insert(sha256, Arc::new(MemorySource(b"0123456789".to_vec().into())));
    let mut esp = vec![0; 4096];
    esp[510..512].copy_from_slice(&[0x55, 0xAA]);
    let mut spec = BootIsoSpec::new(kernel, kernel, Firmware::Uefi);
    spec.esp = Some(Bytes::from(esp).into());
    spec.files = vec![
        ("images/ignition.img".to_owned(), Bytes::from(vec![0; 3000]).into()),
        (
            "a folder/a file with a long name.txt".to_owned(),
            Bytes::from(vec![7; 100]).into(),
        ),
    ];
    let plain = bytes(&boot_iso(&spec).expect("it is right"), &sources);
    spec.hybrid = Some(Hybrid::default());
    vec![plain, bytes(&boot_iso(&spec).expect("it is right"), &sources)]
}

fn bytes(layout: &Layout, sources: &SourceMap) -> Arc<[u8]> {
    let mut bytes = vec![0; usize::try_from(layout.size()).expect("it is small")];
    layout.read_at(sources, 0, &mut bytes).expect("its sources are there");
    bytes.into()
}
