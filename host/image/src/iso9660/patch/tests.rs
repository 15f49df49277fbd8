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

#[test]
fn content_that_fits_changes_nothing_but_its_sectors_and_its_length() {
    let old = Files::from([("d/a".to_owned(), vec![1; 3000]), ("d/b".to_owned(), vec![2; 3000])]);
    let base = plain(&old);
    let patch = IsoPatch {
        files: vec![("d/a".to_owned(), content(&[9; 4096]))],
        ..IsoPatch::default()
    };
    let patched = patch_iso(&base.layout, &base.sources, &patch).unwrap();
    assert_eq!(patched.files[0].how, PatchedHow::InPlace);
    // The same by hand: the data, and the length in the two records, both byte orders.
    let mut by_hand = base.bytes.clone();
    let source = MemorySource(base.bytes.clone().into());
    let volume = IsoVolume::open(&source).unwrap();
    for names in [IsoNames::RockRidge, IsoNames::Joliet] {
        let entry = volume.find_by(names, "d/a").unwrap().unwrap();
        let at = usize::try_from(entry.sections[0].at).unwrap();
        by_hand[at..at + 4096].fill(9);
        let record = usize::try_from(entry.records[0]).unwrap();
        by_hand[record + 10..record + 14].copy_from_slice(&4096u32.to_le_bytes());
        by_hand[record + 14..record + 18].copy_from_slice(&4096u32.to_be_bytes());
    }
    let image = LayoutSource::new(&patched.layout, &base.sources);
    assert!(read(&image) == by_hand);
    let literal: u64 = patched
        .layout
        .extents()
        .iter()
        .filter(|extent| matches!(extent, Extent::Literal(_)))
        .map(Extent::len)
        .sum();
    assert!(literal < 4096 + 100, "{literal}");
}

#[test]
fn a_place_for_embedding_keeps_its_length() {
    let base = bootable(false);
    let patch = |len: usize| IsoPatch {
        embed: vec![("images/ignition.img".to_owned(), content(&vec![5; len]))],
        ..IsoPatch::default()
    };
    let patched = patch_iso(&base.layout, &base.sources, &patch(100)).unwrap();
    assert_eq!(patched.layout.size(), base.layout.size());
    let image = LayoutSource::new(&patched.layout, &base.sources);
    let volume = IsoVolume::open(&image).unwrap();
    let file = volume.find("images/ignition.img").unwrap().unwrap();
    let bytes = volume.read(&file, 1 << 20).unwrap();
    assert!(bytes.len() == 3000 && bytes[..100] == [5; 100] && bytes[100..].iter().all(|byte| *byte == 0));
    let refused = patch_iso(&base.layout, &base.sources, &patch(3001));
    assert!(matches!(
        refused,
        Err(PatchError::EmbedTooLong {
            room: 3000,
            len: 3001,
            ..
        })
    ));
    let missing = IsoPatch {
        embed: vec![("images/other.img".to_owned(), content(b""))],
        ..IsoPatch::default()
    };
    assert!(matches!(
        patch_iso(&base.layout, &base.sources, &missing),
        Err(PatchError::NoPlace { .. })
    ));
}

fn text(image: &dyn Source, path: &str) -> String {
    let volume = IsoVolume::open(image).unwrap();
    let file = volume.find(path).unwrap().unwrap();
    String::from_utf8(volume.read(&file, 1 << 20).unwrap()).unwrap()
}

fn esp_text(image: &dyn Source, path: &str) -> String {
    let volume = IsoVolume::open(image).unwrap();
    let esp = volume
        .file(&volume.find("boot/grub/efiboot.img").unwrap().unwrap())
        .unwrap();
    let fat = crate::FatVolume::open(&esp).unwrap();
    let entries = fat.entries().unwrap();
    let entry = entries.iter().find(|entry| entry.path == path).unwrap();
    String::from_utf8(fat.read(entry, 1 << 20).unwrap()).unwrap()
}

#[test]
fn parameters_reach_every_kernel_line_in_the_esp_too() {
    for hybrid in [false, true] {
        let base = bootable(hybrid);
        let long = "v".repeat(700);
        let patch = IsoPatch {
            parameters: vec![
                ("ipa-api-url".to_owned(), "http://192.0.2.1".to_owned()),
                ("long".to_owned(), long.clone()),
            ],
            kernel_arguments: "console=ttyS0 quiet".to_owned(),
            ..IsoPatch::default()
        };
        let patched = patch_iso(&base.layout, &base.sources, &patch).unwrap();
        let image = LayoutSource::new(&patched.layout, &base.sources);
        let line = format!("ipa-api-url=http://192.0.2.1 long={long} console=ttyS0");
        let isolinux = text(&image, "isolinux/isolinux.cfg");
        assert!(
            isolinux.contains(&format!("boot_method=vmedia quiet {line}\n")),
            "{isolinux}"
        );
        let grub = text(&image, "boot/grub/grub.cfg");
        assert!(grub.contains(&format!("'quiet' {line}\n")), "{grub}");
        let esp = esp_text(&image, "EFI/fedora/grub.cfg");
        assert_eq!(esp, format!("linux /boot/vmlinuz quiet {line}\ninitrd /boot/initrd\n"));
        let hows: Vec<_> = patched
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.how))
            .collect();
        assert!(hows.contains(&("EFI/fedora/grub.cfg", PatchedHow::InEsp)), "{hows:?}");
        assert!(
            hows.contains(&("isolinux/isolinux.cfg", PatchedHow::InPlace)),
            "{hows:?}"
        );
        check_structure(&image);
        // The boot images are where they were.
        let volume = IsoVolume::open(&image).unwrap();
        let before = MemorySource(base.bytes.clone().into());
        assert_eq!(
            volume.boot_entries().unwrap(),
            IsoVolume::open(&before).unwrap().boot_entries().unwrap()
        );
        // Twice is once.
        let again = patch_iso(&patched.layout, &base.sources, &patch).unwrap();
        assert_eq!(
            (again.layout.digest(), again.files),
            (patched.layout.digest(), Vec::new())
        );
    }
}

#[test]
fn words_that_would_not_arrive_are_refused() {
    let base = bootable(false);
    let check = |parameter: &str, arguments: &str, expected: &str| {
        let patch = IsoPatch {
            parameters: vec![("p".to_owned(), parameter.to_owned())],
            kernel_arguments: arguments.to_owned(),
            ..IsoPatch::default()
        };
        let text = patch_iso(&base.layout, &base.sources, &patch).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    };
    check("a b", "", "\"p\" holds a space (U+0020)");
    check("it's", "", "GRUB");
    check("", "a=\"b\"", "GRUB");
    check("", "initrd=/x", "boot loader");
    check(&"x".repeat(2000), "", "a kernel takes 2047");
    let files = Files::from([("boot/vmlinuz".to_owned(), vec![1])]);
    let none = plain(&files);
    let patch = IsoPatch {
        kernel_arguments: "quiet".to_owned(),
        ..IsoPatch::default()
    };
    assert!(matches!(
        patch_iso(&none.layout, &none.sources, &patch),
        Err(PatchError::NoKernelLine)
    ));
}

#[test]
fn what_firmware_starts_is_not_moved_and_directories_are_no_files() {
    let base = bootable(false);
    let put = |path: &str, len: usize| {
        let patch = IsoPatch {
            files: vec![(path.to_owned(), content(&vec![1; len]))],
            ..IsoPatch::default()
        };
        patch_iso(&base.layout, &base.sources, &patch)
    };
    let esp = {
        let source = MemorySource(base.bytes.clone().into());
        IsoVolume::open(&source)
            .unwrap()
            .find("boot/grub/efiboot.img")
            .unwrap()
            .unwrap()
            .len
    };
    let esp = usize::try_from(esp).unwrap();
    assert!(put("boot/grub/efiboot.img", esp).is_ok());
    assert!(matches!(
        put("boot/grub/efiboot.img", esp + 1),
        Err(PatchError::BootImage { .. })
    ));
    assert!(matches!(
        put("isolinux/isolinux.bin", 4096),
        Err(PatchError::BootImage { .. })
    ));
    assert!(matches!(put("boot", 1), Err(PatchError::NotAFile { .. })));
    assert!(matches!(put("boot/initrd/x", 1), Err(PatchError::NotAFile { .. })));
    assert!(matches!(put("../x", 1), Err(PatchError::Path(_))));
}

#[test]
fn a_hybrid_that_grows_is_a_right_disk_again() {
    let base = bootable(true);
    let patch = IsoPatch {
        files: vec![("config.ign".to_owned(), content(&[b'{'; 100_000]))],
        ..IsoPatch::default()
    };
    let patched = patch_iso(&base.layout, &base.sources, &patch).unwrap();
    let image = LayoutSource::new(&patched.layout, &base.sources);
    let before = crate::partitions(&MemorySource(base.bytes.clone().into())).unwrap();
    let found = crate::partitions(&image).unwrap();
    assert_eq!(found.gpt, before.gpt);
    assert_eq!(found.mbr[0].len, patched.layout.size() - 512);
    assert!(patched.layout.size() > base.layout.size() + 100_000);
    let mut last = [0; 512];
    image.read_at(image.len() - 512, &mut last).unwrap();
    let long = |at: usize| u64::from_le_bytes(last[at..at + 8].try_into().unwrap());
    assert!(last.starts_with(b"EFI PART"));
    assert_eq!((long(24), long(32)), (image.len() / 512 - 1, 1));
    check_structure(&image);
}

#[test]
fn a_file_of_one_section_can_become_one_of_several_and_back() {
    let base = plain(&Files::from([
        ("d/raw".to_owned(), vec![1; 10]),
        ("d/z".to_owned(), vec![2; 10]),
    ]));
    let zeros = |len: u64| Content::Layout(Layout::from_extents(Kind::Other, vec![Extent::Zero(len)]).unwrap());
    let put = |layout: &Layout, content: Content| {
        let patch = IsoPatch {
            files: vec![("d/raw".to_owned(), content)],
            ..IsoPatch::default()
        };
        patch_iso(layout, &base.sources, &patch).unwrap().layout
    };
    let large = put(&base.layout, zeros(9 << 30));
    let small = put(&large, content(&[3; 77]));
    for (layout, len, sections) in [(&large, 9 << 30, 3), (&small, 77, 1)] {
        let image = LayoutSource::new(layout, &base.sources);
        let volume = IsoVolume::open(&image).unwrap();
        for names in [IsoNames::RockRidge, IsoNames::Joliet, IsoNames::Plain] {
            let entry = volume.find_by(names, "d/raw").unwrap().unwrap();
            assert_eq!((entry.len, entry.records.len()), (len, sections), "{names:?}");
            assert!(volume.find_by(names, "d/z").unwrap().is_some());
        }
    }
}

#[test]
fn nothing_to_do_gives_the_same_image() {
    let base = bootable(false);
    let patched = patch_iso(&base.layout, &base.sources, &IsoPatch::default()).unwrap();
    assert_eq!(patched.layout, base.layout);
    let garbage = Layout::from_extents(Kind::Other, vec![Extent::Zero(100_000)]).unwrap();
    assert!(matches!(
        patch_iso(&garbage, &NoSources, &IsoPatch::default()),
        Err(PatchError::Read(_))
    ));
}

#[test]
fn debug_shows_no_value() {
    let patch = IsoPatch {
        parameters: vec![("token".to_owned(), "hunter2".to_owned())],
        kernel_arguments: "token=hunter2".to_owned(),
        ..IsoPatch::default()
    };
    let text = format!("{patch:?}");
    assert!(text.contains("token") && !text.contains("hunter2"), "{text}");
}
