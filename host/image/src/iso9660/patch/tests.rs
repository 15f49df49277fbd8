use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use model::Sha256;
use proptest::prelude::*;
use sha2::Digest as _;

use super::*;
use crate::content::SourceFile;
use crate::iso9660::reader::{le32, records};
use crate::iso9660::{BootIsoSpec, Firmware, Hybrid, IsoNames, IsoSpec, IsoVolume, boot_iso, iso};
use crate::layout::Extent;
use crate::read::LayoutSource;
use crate::recipe::Recipe;
use crate::source::{MemorySource, NoSources, Source, SourceMap};

mod cases;

type Files = BTreeMap<String, Vec<u8>>;

fn content(bytes: &[u8]) -> Content {
    Content::Literal(bytes.to_vec().into())
}

/// An image as anybody's: one source, of which nothing is known.
struct Base {
    layout: Layout,
    sources: SourceMap,
    bytes: Vec<u8>,
}

fn base(layout: &Layout, sources: &SourceMap) -> Base {
    let mut bytes = vec![0; usize::try_from(layout.size()).unwrap()];
    layout.read_at(sources, 0, &mut bytes).unwrap();
    let sha256 = Sha256(sha2::Sha256::digest(&bytes).into());
    let mut sources = SourceMap::default();
    sources.insert(sha256, Arc::new(MemorySource(bytes.clone().into())));
    let whole = Extent::Source {
        sha256,
        offset: 0,
        len: bytes.len() as u64,
    };
    Base {
        layout: Layout::from_extents(Kind::BootIso, vec![whole]).unwrap(),
        sources,
        bytes,
    }
}

fn plain(files: &Files) -> Base {
    let files = files.iter().map(|(path, bytes)| (path.clone(), content(bytes)));
    let spec = IsoSpec {
        label: "BASE".to_owned(),
        files: files.collect(),
    };
    base(&iso(&spec).unwrap(), &SourceMap::default())
}

fn bootable(hybrid: bool) -> Base {
    let mut sources = SourceMap::default();
    let mut source = |byte: u8, len: u64| {
        let sha256 = Sha256([byte; 32]);
        sources.insert(
            sha256,
            Arc::new(MemorySource(vec![byte; usize::try_from(len).unwrap()].into())),
        );
        SourceFile { sha256, len }
    };
    let mut spec = BootIsoSpec::new(source(1, 90_000), source(2, 200_000), Firmware::Both);
    let mut isolinux = vec![0x90; 4096];
    isolinux[64..68].copy_from_slice(&[0xFB, 0xC0, 0x78, 0x70]);
    isolinux[200..208].copy_from_slice(b"ISOLINUX");
    spec.isolinux = Some(Bytes::from(isolinux).into());
    let config = b"linux /boot/vmlinuz quiet\ninitrd /boot/initrd\n";
    let esp = crate::EspSpec {
        files: vec![
            ("EFI/BOOT/BOOTX64.EFI".to_owned(), content(&[7; 5000])),
            ("EFI/fedora/grub.cfg".to_owned(), content(config)),
        ],
    };
    spec.esp = Some(crate::esp(&esp).unwrap().into());
    spec.kernel_arguments = "quiet".to_owned();
    spec.files = vec![("images/ignition.img".to_owned(), content(&[0; 3000]))];
    spec.hybrid = hybrid.then(|| Hybrid {
        mbr: Some(vec![0x90; 432].into()),
    });
    base(&boot_iso(&spec).unwrap(), &sources)
}

fn read(source: &dyn Source) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(source.len()).unwrap()];
    source.read_at(0, &mut bytes).unwrap();
    bytes
}

fn files_by(image: &dyn Source, names: IsoNames) -> Files {
    let volume = IsoVolume::open(image).unwrap();
    let entries = volume.entries_by(names).unwrap();
    let files = entries.iter().filter(|entry| entry.is_file());
    files
        .map(|entry| (entry.path.clone(), volume.read(entry, 1 << 20).unwrap()))
        .collect()
}

/// Everything that no file shows: sizes, path tables, the two records that directories start with, and their order.
fn check_structure(image: &dyn Source) {
    let bytes = read(image);
    for (at, kind, is_joliet) in [(16, 1, false), (17, 2, true)] {
        let at = if bytes[at * 2048] == kind { at } else { at + 1 };
        let descriptor = &bytes[at * 2048..][..2048];
        assert_eq!(descriptor[0], kind);
        assert_eq!(u64::from(le32(descriptor, 80)) * 2048, image.len());
        let table = &bytes[le32(descriptor, 140) as usize * 2048..][..le32(descriptor, 132) as usize];
        let big = u32::from_be_bytes(descriptor[148..152].try_into().unwrap()) as usize;
        let big = &bytes[big * 2048..][..table.len()];
        let mut dirs: Vec<(u32, u16)> = Vec::new();
        let mut at = 0;
        while at < table.len() {
            let (sector, parent) = (le32(table, at + 2), u16::from_le_bytes([table[at + 6], table[at + 7]]));
            assert_eq!(sector.to_be_bytes(), big[at + 2..at + 6]);
            assert_eq!(parent.to_be_bytes(), big[at + 6..at + 8]);
            dirs.push((sector, parent));
            at += (8 + usize::from(table[at])).next_multiple_of(2);
        }
        assert_eq!(dirs[0].0, le32(descriptor, 158));
        let mut below = 0;
        for (sector, parent) in &dirs {
            let start = *sector as usize * 2048;
            let len = le32(&bytes, start + 10) as usize;
            let all: Vec<_> = records(&bytes[start..start + len])
                .map(|record| record.unwrap().1)
                .collect();
            assert_eq!((all[0].identifier(), all[1].identifier()), (&[0][..], &[1][..]));
            assert_eq!(all[0].raw().block, *sector);
            assert_eq!(all[1].raw().block, dirs[usize::from(*parent) - 1].0);
            let identifiers: Vec<_> = all[2..].iter().map(|record| record.identifier().to_vec()).collect();
            if is_joliet {
                assert!(identifiers.is_sorted());
            }
            for record in all[2..].iter().filter(|record| record.raw().is_dir()) {
                assert!(dirs.iter().any(|(sector, _)| *sector == record.raw().block));
                below += 1;
                let child = record.raw().block as usize * 2048;
                assert_eq!(le32(&bytes, child + 10), record.raw().len);
            }
        }
        assert_eq!(below + 1, dirs.len());
    }
}

fn path() -> impl Strategy<Value = String> {
    let dir = prop_oneof!["[a-d]", "d[a-z0-9ü ]{1,70}"];
    let file = prop_oneof!["f[0-9]", "f[a-zA-Z0-9ü. ]{0,200}x"];
    (prop::collection::vec(dir, 0..4), file).prop_map(|(dirs, file)| {
        let mut end = file.len().min(255);
        while !file.is_char_boundary(end) {
            end -= 1;
        }
        dirs.iter().map(|dir| format!("{dir}/")).collect::<String>() + &file[..end]
    })
}

fn files(max: usize) -> impl Strategy<Value = Files> {
    prop::collection::btree_map(path(), prop::collection::vec(any::<u8>(), 0..6000), 0..max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_patched_image_holds_the_old_files_and_the_new(
        old in files(12),
        new in files(8),
        again in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 0..9000)), 0..5),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let base = plain(&old);
        let mut expected = old.clone();
        let mut patch = IsoPatch::default();
        for (path, bytes) in new {
            expected.insert(path.clone(), bytes.clone());
            patch.files.push((format!("/{path}"), content(&bytes)));
        }
        for (index, bytes) in again {
            if let Some(path) = (!old.is_empty()).then(|| old.keys().nth(index.index(old.len())).unwrap()) {
                expected.insert(path.clone(), bytes.clone());
                patch.files.push((path.clone(), content(&bytes)));
            }
        }
        let patched = match patch_iso(&base.layout, &base.sources, &patch) {
            Ok(patched) => patched,
            // Names that Joliet shortens or changes make directories hard to tell, and that is said.
            Err(PatchError::Unsupported { .. }) if expected.keys().any(|path| path.split('/').any(|name| name.chars().count() > 64)) => {
                return Ok(());
            }
            Err(error) => panic!("{error}"),
        };
        prop_assert_eq!(patched.files.len(), patch.files.len());
        let image = LayoutSource::new(&patched.layout, &base.sources);
        prop_assert!(files_by(&image, IsoNames::RockRidge) == expected);
        let mut contents: Vec<_> = expected.values().cloned().collect();
        contents.sort();
        for names in [IsoNames::Joliet, IsoNames::Plain] {
            let mut found: Vec<_> = files_by(&image, names).into_values().collect();
            found.sort();
            prop_assert!(found == contents, "{:?}", names);
        }
        check_structure(&image);

        // The rest of the image is a reference, and any ranges of it make the whole.
        let whole = read(&image);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
        cuts.extend([0, whole.len()]);
        cuts.sort_unstable();
        for range in cuts.windows(2) {
            let mut part = vec![0xEE; range[1] - range[0]];
            image.read_at(range[0] as u64, &mut part).unwrap();
            prop_assert!(part == whole[range[0]..range[1]]);
        }
        let again = patch_iso(&base.layout, &base.sources, &patch).unwrap();
        prop_assert_eq!(again.layout.digest(), patched.layout.digest());
        let references = patched.layout.sources().into_iter().map(|sha256| (sha256, "x".to_owned())).collect();
        let recipe = Recipe::of(&patched.layout, &references).unwrap().to_json().unwrap();
        prop_assert_eq!(Recipe::from_json(&recipe).unwrap().layout().unwrap(), patched.layout);
    }

}

// As many cases as PROPTEST_CASES asks for.
proptest! {
    #[test]
    fn a_damaged_image_never_panics_and_never_hangs(
        damage in prop::collection::vec((0..70_000usize, any::<u8>()), 1..30),
        hybrid in any::<bool>(),
    ) {
        let mut base = bootable(hybrid);
        for (at, with) in damage {
            base.bytes[at] = with;
        }
        let sha256 = Sha256([1; 32]);
        let len = base.bytes.len() as u64;
        let mut sources = SourceMap::default();
        sources.insert(sha256, Arc::new(MemorySource(base.bytes.into())));
        let layout = Layout::from_extents(Kind::Iso, vec![Extent::Source { sha256, offset: 0, len }]).unwrap();
        let patch = IsoPatch {
            files: vec![("new/x".to_owned(), content(b"1")), ("boot/initrd".to_owned(), content(&[1; 300_000]))],
            embed: vec![("images/ignition.img".to_owned(), content(b"2"))],
            parameters: vec![("a".to_owned(), "b".to_owned())],
            ..IsoPatch::default()
        };
        let _ = patch_iso(&layout, &sources, &patch);
    }
}
