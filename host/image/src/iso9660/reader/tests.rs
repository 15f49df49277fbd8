use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::content::Content;
use crate::iso9660::{BootIsoSpec, Firmware, IsoSpec, boot_iso, iso};
use crate::layout::Layout;
use crate::read::LayoutSource;
use crate::source::{MemorySource, NoSources};

type Files = BTreeMap<String, Vec<u8>>;

fn layout(files: &Files) -> Layout {
    let content = |bytes: &Vec<u8>| Content::from(Bytes::from(bytes.clone()));
    iso(&IsoSpec {
        label: "config-2".to_owned(),
        files: files
            .iter()
            .map(|(path, bytes)| (path.clone(), content(bytes)))
            .collect(),
    })
    .unwrap()
}

fn image(layout: &Layout) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(layout.size()).unwrap()];
    layout.read_at(&NoSources, 0, &mut bytes).unwrap();
    bytes
}

fn files() -> impl Strategy<Value = Files> {
    let dir = "d[a-zA-Zü][a-zA-Z0-9ü_. -]{0,40}[a-z]";
    let file = "f[a-zA-Zü][a-zA-Z0-9ü_. -]{0,250}";
    let path = (prop::collection::vec(dir, 0..4), file).prop_map(|(dirs, file)| {
        let mut end = file.len().min(255);
        while !file.is_char_boundary(end) {
            end -= 1;
        }
        let dirs: String = dirs.iter().map(|dir| format!("{dir}/")).collect();
        dirs + &file[..end]
    });
    prop::collection::btree_map(path, prop::collection::vec(any::<u8>(), 0..5000), 0..14)
}

fn read_all(volume: &IsoVolume<'_>, names: IsoNames) -> Files {
    let entries = volume.entries_by(names).unwrap();
    let files = entries.iter().filter(|entry| entry.is_file());
    files
        .map(|file| (file.path.clone(), volume.read(file, 1 << 20).unwrap()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_written_is_read_back_by_either_kind_of_name(files in files()) {
        let layout = layout(&files);
        let source = LayoutSource::new(&layout, &NoSources);
        let volume = IsoVolume::open(&source).unwrap();
        prop_assert_eq!(volume.label(), "config-2");
        prop_assert_eq!(volume.size(), layout.size());
        prop_assert_eq!(volume.names(), [IsoNames::RockRidge, IsoNames::Joliet, IsoNames::Plain]);
        prop_assert!(read_all(&volume, IsoNames::RockRidge) == files);
        let mut contents: Vec<_> = files.values().cloned().collect();
        contents.sort();
        for names in [IsoNames::Joliet, IsoNames::Plain] {
            let mut found: Vec<_> = read_all(&volume, names).into_values().collect();
            found.sort();
            prop_assert!(found == contents, "{:?}", names);
        }
        for (path, bytes) in &files {
            let found = volume.find(&format!("/{path}")).unwrap().unwrap();
            prop_assert_eq!(&found.path, path);
            prop_assert!(volume.read(&found, 1 << 20).unwrap() == *bytes);
            prop_assert_eq!(found.mode, Some(0o100_444));
            prop_assert_eq!(found.recorded.unwrap().to_string(), "2000-01-01T00:00:00+00:00");
        }
        prop_assert!(volume.find("d/not there").unwrap().is_none());
        prop_assert!(volume.find("").unwrap().unwrap().is_dir());
    }

    #[test]
    fn a_file_reads_the_same_in_any_pieces(
        bytes in prop::collection::vec(any::<u8>(), 1..9000),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        sections in 1..5usize,
    ) {
        // Sections that lie apart and in another order than their numbers.
        let mut image = vec![0xEE; 100];
        let mut entry = walk_entry();
        for part in bytes.chunks(bytes.len().div_ceil(sections)).rev() {
            entry.sections.insert(0, IsoSection { at: image.len() as u64, len: part.len() as u64 });
            image.extend_from_slice(part);
            image.extend([0xEE; 7]);
        }
        let image = MemorySource(image.into());
        let file = IsoFile::new(&image, &entry).unwrap();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut read = Vec::new();
        for range in cuts.windows(2) {
            let mut part = vec![0; range[1] - range[0]];
            file.read_at(range[0] as u64, &mut part).unwrap();
            read.extend(part);
        }
        prop_assert!(read == bytes);
        prop_assert!(file.read_at(bytes.len() as u64, &mut [0]).is_err());
        prop_assert!(file.read_at(u64::MAX, &mut [0; 2]).is_err());
    }

}

// As many cases as PROPTEST_CASES asks for.
proptest! {
    #[test]
    fn a_damaged_image_never_panics_and_never_hangs(
        files in files(),
        damage in prop::collection::vec((0..60_000usize, any::<u8>()), 1..60),
        cut in prop::option::of(0..80_000usize),
    ) {
        let mut bytes = bootable(&files);
        for (at, with) in damage {
            // Everything before is the system area.
            if let Some(byte) = bytes.get_mut(0x8000 + at) {
                *byte = with;
            }
        }
        bytes.truncate(cut.unwrap_or(usize::MAX));
        read_everything(&bytes);
    }

    #[test]
    fn any_bytes_are_an_image_or_an_error(tail in prop::collection::vec(any::<u8>(), 0..9000)) {
        let mut bytes = vec![0; 0x8000];
        bytes.extend(b"\x01CD001\x01");
        bytes.extend(tail);
        read_everything(&bytes);
    }
}

fn walk_entry() -> IsoEntry {
    IsoEntry {
        path: "f".to_owned(),
        kind: IsoKind::File,
        len: 0,
        sections: Vec::new(),
        mode: None,
        recorded: None,
        unreadable: None,
        records: Vec::new(),
    }
}

/// A boot ISO of small files, whole in memory.
fn bootable(files: &Files) -> Vec<u8> {
    let kernel = crate::SourceFile {
        sha256: model::Sha256([1; 32]),
        len: 10,
    };
    let mut spec = BootIsoSpec::new(kernel, kernel, Firmware::Uefi);
    let mut esp = vec![0; 4096];
    esp[510..512].copy_from_slice(&[0x55, 0xAA]);
    spec.esp = Some(Bytes::from(esp).into());
    let content = |bytes: &Vec<u8>| Content::from(Bytes::from(bytes.clone()));
    spec.files = files
        .iter()
        .map(|(path, bytes)| (path.clone(), content(bytes)))
        .collect();
    let layout = boot_iso(&spec).unwrap();
    let mut sources = crate::SourceMap::default();
    let source = MemorySource(Bytes::from_static(b"0123456789"));
    sources.insert(model::Sha256([1; 32]), std::sync::Arc::new(source));
    let mut bytes = vec![0; usize::try_from(layout.size()).unwrap()];
    layout.read_at(&sources, 0, &mut bytes).unwrap();
    bytes
}

fn read_everything(bytes: &[u8]) {
    let source = MemorySource(bytes.to_vec().into());
    if let Ok(volume) = IsoVolume::open(&source) {
        let _ = volume.boot_entries();
        for names in volume.names() {
            let _ = volume.find_by(names, "d/f");
            for entry in volume.entries_by(names).unwrap_or_default() {
                let _ = volume.read(&entry, 1 << 20);
            }
        }
    }
}

#[test]
fn both_boot_images_are_found_with_their_files() {
    let bytes = MemorySource(bootable(&Files::new()).into());
    let volume = IsoVolume::open(&bytes).unwrap();
    let entries = volume.boot_entries().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].platform, IsoPlatform::Uefi);
    assert!(entries[0].bootable && entries[0].emulation == 0);
    assert_eq!(entries[0].path.as_deref(), Some("boot/grub/efiboot.img"));
    assert_eq!(entries[0].load_bytes, 4096);
}

#[test]
fn a_directory_inside_itself_is_refused() {
    let mut bytes = image(&layout(&Files::from([("d/e/f".to_owned(), vec![1])])));
    let source = MemorySource(bytes.clone().into());
    let volume = IsoVolume::open(&source).unwrap();
    let find = |path| volume.find(path).unwrap().unwrap();
    // The record of `d/e` says where `d` is.
    let at = |path| usize::try_from(find(path).records[0]).unwrap();
    let (outer, inner) = (at("d"), at("d/e"));
    bytes.copy_within(outer + 2..outer + 18, inner + 2);
    let source = MemorySource(bytes.into());
    let volume = IsoVolume::open(&source).unwrap();
    let refused = volume.entries();
    assert!(
        matches!(&refused, Err(IsoReadError::Damaged { reason, .. }) if reason.contains("share")),
        "{refused:?}"
    );
    assert!(matches!(volume.find("d/e/e/e"), Err(IsoReadError::Damaged { .. })));
}

#[test]
fn a_file_outside_the_image_is_listed_and_not_read() {
    let mut bytes = image(&layout(&Files::from([("f".to_owned(), vec![7; 5000])])));
    bytes.truncate(bytes.len() - 4096);
    let source = MemorySource(bytes.into());
    let volume = IsoVolume::open(&source).unwrap();
    let file = volume.find("f").unwrap().unwrap();
    assert_eq!(file.len, 5000);
    let refused = volume.read(&file, 5000).unwrap_err().to_string();
    assert!(refused.contains("\"f\"") && refused.contains("cut short"), "{refused}");
    let too_large = volume.read(&file, 4999);
    assert!(matches!(
        too_large,
        Err(IsoReadError::TooLarge {
            len: 5000,
            limit: 4999,
            ..
        })
    ));
}

/// Counts the bytes that are read of it.
struct Counting(MemorySource, AtomicU64);

impl Source for Counting {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.1.fetch_add(buf.len() as u64, Ordering::Relaxed);
        self.0.read_at(offset, buf)
    }
}

#[test]
fn finding_a_file_reads_the_directories_on_the_way_alone() {
    let mut files: Files = (0..3000).map(|i| (format!("other/{i}/x"), vec![0; 100])).collect();
    files.insert("here/is/it".to_owned(), vec![1; 100]);
    let image = Counting(MemorySource(image(&layout(&files)).into()), AtomicU64::new(0));
    let volume = IsoVolume::open(&image).unwrap();
    let file = volume.find("here/is/it").unwrap().unwrap();
    assert_eq!(volume.read(&file, 100).unwrap(), [1; 100]);
    let read = image.1.load(Ordering::Relaxed);
    assert!(read < 20_000, "{read}");
}
