//! One case each.

use super::*;

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
fn an_image_whose_records_have_no_room_is_refused() {
    let mut base = plain(&Files::from([("a".to_owned(), vec![1])]));
    let at = base
        .bytes
        .windows(6)
        .position(|bytes| bytes == b"SP\x07\x01\xBE\xEF")
        .unwrap();
    base.bytes[at + 6] = 140;
    let mut sources = SourceMap::default();
    let sha256 = base.layout.sources()[0];
    sources.insert(sha256, Arc::new(MemorySource(base.bytes.into())));
    let patch = IsoPatch {
        files: vec![("new/x".to_owned(), content(b"1"))],
        ..IsoPatch::default()
    };
    assert!(matches!(
        patch_iso(&base.layout, &sources, &patch),
        Err(PatchError::Unsupported { .. })
    ));
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
