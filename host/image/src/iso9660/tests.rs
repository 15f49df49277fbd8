use bytes::Bytes;
use model::Sha256;
use proptest::prelude::*;

use super::*;
use crate::content::{Content, SourceFile};
use crate::layout::Extent;
use crate::read::LayoutSource;
use crate::source::{MemorySource, NoSources, Source, SourceMap};

fn source(byte: u8, len: u64) -> SourceFile {
    SourceFile {
        sha256: Sha256([byte; 32]),
        len,
    }
}

fn spec(firmware: Firmware) -> BootIsoSpec {
    let mut isolinux = vec![0x90; 4096];
    isolinux[64..68].copy_from_slice(&[0xFB, 0xC0, 0x78, 0x70]);
    isolinux[200..208].copy_from_slice(b"ISOLINUX");
    let mut spec = BootIsoSpec::new(source(1, 12_000_001), source(2, 512 << 20), firmware);
    spec.isolinux = Some(Bytes::from(isolinux).into());
    spec.esp = Some(source(3, 4 << 20).into());
    spec
}

#[test]
fn a_missing_boot_loader_is_named() {
    let check = |firmware, change: fn(&mut BootIsoSpec), expected: &str| {
        let mut spec = spec(firmware);
        change(&mut spec);
        let text = boot_iso(&spec).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    };
    check(Firmware::Both, |spec| spec.isolinux = None, "BIOS needs isolinux.bin");
    check(
        Firmware::Both,
        |spec| spec.esp = None,
        "UEFI needs an EFI system partition image",
    );
    check(Firmware::Bios, |spec| spec.isolinux = None, "BIOS needs isolinux.bin");
    check(
        Firmware::Uefi,
        |spec| spec.esp = None,
        "UEFI needs an EFI system partition image",
    );
    let needs_ldlinux: fn(&mut BootIsoSpec) = |spec| {
        let mut bytes = spec.isolinux.take().unwrap().bytes.to_vec();
        bytes[300..311].copy_from_slice(b"ldlinux.c32");
        spec.isolinux = Some(Bytes::from(bytes).into());
    };
    check(Firmware::Bios, needs_ldlinux, "ldlinux.c32");
    check(
        Firmware::Bios,
        |spec| spec.isolinux = Some(Bytes::from_static(&[0; 4096]).into()),
        "isolinux.bin does not name",
    );
    check(
        Firmware::Uefi,
        |spec| spec.esp = Some(Bytes::from_static(&[0; 4096]).into()),
        "no boot sector",
    );
    check(Firmware::Uefi, |spec| spec.kernel.len = 0, "the kernel is empty");
}

#[test]
fn one_firmware_does_without_the_boot_loader_of_the_other() {
    let mut bios = spec(Firmware::Bios);
    bios.esp = None;
    assert!(boot_iso(&bios).is_ok());
    let mut uefi = spec(Firmware::Uefi);
    uefi.isolinux = None;
    assert!(boot_iso(&uefi).is_ok());
}

#[test]
fn no_byte_of_kernel_or_ramdisk_is_a_literal_and_both_start_at_4k() {
    let layout = boot_iso(&spec(Firmware::Both)).unwrap();
    let mut at = 0;
    let mut whole = Vec::new();
    let mut literal = 0;
    for extent in layout.extents() {
        match extent {
            Extent::Source { sha256, offset: 0, len } => {
                assert_eq!(at % 4096, 0, "{extent:?} at {at}");
                whole.push((sha256.0[0], *len));
            }
            Extent::Literal(bytes) => literal += bytes.len(),
            _ => {}
        }
        at += extent.len();
    }
    whole.sort_unstable();
    assert_eq!(whole, [(1, 12_000_001), (2, 512 << 20), (3, 4 << 20)]);
    assert!(literal < 20_000, "{literal}");
}

#[test]
fn what_iso_9660_cannot_hold_is_refused() {
    let mut large = spec(Firmware::Uefi);
    large.ramdisk.len = 100 * 4_294_965_248;
    assert!(boot_iso(&large).is_ok());
    large.ramdisk.len += 1;
    assert!(matches!(boot_iso(&large), Err(IsoError::FileTooLarge { len, .. }) if len == large.ramdisk.len));
    large.ramdisk.len = 1000;
    // Each is legal, and together they have more sectors than there are numbers for.
    large.files = (0..21).map(|i| (i.to_string(), source(9, 399 << 30).into())).collect();
    assert_eq!(boot_iso(&large), Err(IsoError::TooLarge));
    for label in ["", "ü", &"x".repeat(33), "a\n"] {
        let mut labelled = spec(Firmware::Uefi);
        labelled.label = label.to_owned();
        assert!(matches!(boot_iso(&labelled), Err(IsoError::Label { .. })), "{label}");
    }
    for path in ["../x", "boot", "isolinux", ""] {
        let mut taken = spec(Firmware::Both);
        taken.files = vec![(path.to_owned(), Bytes::new().into())];
        assert!(matches!(boot_iso(&taken), Err(IsoError::Path(_))), "{path}");
    }
}

#[test]
fn no_file_takes_the_place_of_a_boot_file() {
    let with = |path: &str| {
        let mut spec = spec(Firmware::Both);
        spec.files = vec![(path.to_owned(), Bytes::new().into())];
        boot_iso(&spec)
    };
    for path in [
        "boot/vmlinuz",
        "/boot/vmlinuz",
        "boot/vmlinuz/x",
        "isolinux/isolinux.cfg",
        // A loader that knows plain ISO 9660 names alone would find one of the two under another name.
        "ISOLINUX/notes.txt",
        "Boot/x",
        "boot/VMLINUZ",
        "efi/debian/grub.cfg",
        "EFI/debian/grub.cfg",
        "boot/grub/efiboot.img",
        "boot/boot.cat",
    ] {
        let refused = with(path);
        assert!(
            matches!(&refused, Err(IsoError::BootFileTaken { path: named, .. }) if named == path),
            "{path}: {refused:?}"
        );
        let text = refused.unwrap_err().to_string();
        assert!(text.contains(path) && text.contains("boots"), "{text}");
    }
    for path in [
        "EFI/BOOT/x",
        "isolinux/x",
        "boot/vmlinuz2",
        "vmlinuz",
        "openstack/latest/user_data",
    ] {
        assert!(with(path).is_ok(), "{path}");
    }
    let mut odd = spec(Firmware::Both);
    odd.grub_config_path = "Boot/grub/grub.cfg".to_owned();
    assert!(matches!(boot_iso(&odd), Err(IsoError::BootFileTaken { .. })));
}

/// A content of `len` bytes that says every GiB, and at its end, where it is.
fn milestones(len: u64) -> Content {
    let mut out = crate::LayoutBuilder::new(Kind::Other);
    for at in (0..len).step_by(1 << 30).chain([len - 8]) {
        out.zeros_to(at);
        out.literal(at.to_be_bytes().to_vec());
    }
    out.finish().unwrap().into()
}

#[test]
fn a_file_of_more_than_4_gib_is_read_back_by_every_kind_of_name() {
    const SECTION: u64 = 4_294_965_248;
    for (len, sections) in [(SECTION, 1), (SECTION + 1, 2), (5 << 30, 2), (9 << 30, 3)] {
        let files = vec![
            ("images/large.raw".to_owned(), milestones(len)),
            ("images/z".to_owned(), Bytes::from_static(b"z").into()),
        ];
        let layout = iso(&IsoSpec {
            label: "LARGE".to_owned(),
            files,
        })
        .unwrap();
        let image = LayoutSource::new(&layout, &NoSources);
        let volume = IsoVolume::open(&image).unwrap();
        for (names, path) in [
            (IsoNames::RockRidge, "images/large.raw"),
            (IsoNames::Joliet, "images/large.raw"),
            (IsoNames::Plain, "images/large.raw"),
        ] {
            let entry = volume.find_by(names, path).unwrap().unwrap();
            assert_eq!((entry.len, entry.sections.len()), (len, sections), "{names:?}");
            let file = volume.file(&entry).unwrap();
            for at in (0..len).step_by(1 << 30).chain([len - 8]) {
                let mut read = [0; 8];
                file.read_at(at, &mut read).unwrap();
                assert_eq!(u64::from_be_bytes(read), at);
            }
            // Across the border of two sections.
            if len > SECTION {
                let mut read = [1; 4096];
                let at = SECTION - 2048;
                file.read_at(at.min(len - 4096), &mut read).unwrap();
                assert!(read[..2048].iter().all(|byte| *byte == 0), "{at}");
            }
        }
        let small = volume.find("images/z").unwrap().unwrap();
        assert_eq!(volume.read(&small, 1).unwrap(), b"z");
        let literal: u64 = layout
            .extents()
            .iter()
            .filter(|extent| matches!(extent, Extent::Literal(_)))
            .map(Extent::len)
            .sum();
        assert!(literal < 40_000, "{literal}");
    }
}

fn with_hybrid(firmware: Firmware, mbr: Option<Bytes>) -> BootIsoSpec {
    let mut spec = spec(firmware);
    spec.hybrid = Some(Hybrid { mbr });
    spec
}

fn read(layout: &Layout) -> Vec<u8> {
    let mut sources = SourceMap::default();
    for (byte, len) in [(1u8, 12_000_001usize), (3, 4 << 20)] {
        sources.insert(
            Sha256([byte; 32]),
            std::sync::Arc::new(MemorySource(vec![byte; len].into())),
        );
    }
    let mut head = vec![0; 1 << 16];
    layout.read_at(&sources, 0, &mut head).unwrap();
    head
}

#[test]
fn a_hybrid_has_its_files_in_one_partition_and_the_esp_in_another() {
    let spec = with_hybrid(Firmware::Both, Some(vec![0x90; 432].into()));
    let layout = boot_iso(&spec).unwrap();
    let image = LayoutSource::new(&layout, &NoSources);
    let found = crate::partitions(&image).unwrap();
    let mbr: Vec<_> = found
        .mbr
        .iter()
        .map(|part| (part.kind.to_string(), part.at, part.bootable))
        .collect();
    assert_eq!(
        mbr,
        [("GPT protective".to_owned(), 512, false), ("0x00".to_owned(), 0, true)]
    );
    assert_eq!(found.mbr[0].len, layout.size() - 512);
    let [iso, esp] = &found.gpt[..] else {
        panic!("{found:?}");
    };
    assert!(esp.kind.is_esp() && esp.len == 4 << 20);
    assert_eq!((iso.at, iso.at + iso.len), (64 * 512, esp.at));
    let volume = IsoVolume::open(&image).unwrap();
    let boot = volume.boot_entries().unwrap();
    assert_eq!(boot[1].at, esp.at);
    assert_eq!(boot[1].path.as_deref(), Some("boot/grub/efiboot.img"));
    // The code's number is isolinux' sector, and it is bootable as a CD as before.
    let head = read(&layout);
    assert!(head[..432].iter().all(|byte| *byte == 0x90));
    let number = u64::from_le_bytes(head[432..440].try_into().unwrap());
    assert_eq!(number * 512, boot[0].at);
    assert_eq!(volume.size(), layout.size());
}

#[test]
fn a_hybrid_of_one_firmware_has_what_that_needs() {
    let uefi = boot_iso(&with_hybrid(Firmware::Uefi, None)).unwrap();
    let found = crate::partitions(&LayoutSource::new(&uefi, &NoSources)).unwrap();
    assert_eq!((found.mbr.len(), found.gpt.len()), (1, 2));
    let bios = boot_iso(&with_hybrid(Firmware::Bios, Some(vec![0x90; 432].into()))).unwrap();
    let found = crate::partitions(&LayoutSource::new(&bios, &NoSources)).unwrap();
    assert_eq!((found.mbr.len(), found.gpt.len()), (2, 1));
    assert!(found.mbr[1].bootable);
}

#[test]
fn mbr_code_that_does_not_go_with_the_loader_is_refused() {
    let check = |mbr: &[u8], change: fn(&mut BootIsoSpec), expected: &str| {
        let mut spec = with_hybrid(Firmware::Both, Some(mbr.to_vec().into()));
        change(&mut spec);
        let text = boot_iso(&spec).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    };
    let mut grub = vec![0; 512];
    grub[100..105].copy_from_slice(b"GRUB ");
    check(&[0; 431], |_| (), "432");
    check(&[0; 513], |_| (), "432");
    check(&grub, |_| (), "isohdpfx.bin");
    check(
        &[0; 432],
        |spec| (spec.grub_bios, spec.isolinux) = (Some(grub_image().into()), None),
        "boot_hybrid.img",
    );
    check(&[0; 432], |spec| spec.firmware = Firmware::Uefi, "leave it out");
    check(
        &[0; 432],
        |spec| {
            let mut bytes = spec.isolinux.take().unwrap().bytes.to_vec();
            bytes[64] = 0;
            spec.isolinux = Some(Bytes::from(bytes).into());
        },
        "cannot be started from a disk",
    );
}

fn grub_image() -> Bytes {
    let mut bytes = vec![0x5A; 40_000];
    bytes[300..312].copy_from_slice(b"no boot info");
    bytes.into()
}

#[test]
fn grub_for_bios_is_told_where_it_is_and_needs_no_isolinux() {
    let mut spec = spec(Firmware::Bios);
    spec.grub_bios = Some(grub_image().into());
    let both = boot_iso(&spec).unwrap_err().to_string();
    assert!(both.contains("leave one out"), "{both}");
    spec.isolinux = None;
    spec.kernel_arguments = "quiet".to_owned();
    for kept_as in [None, Some(Sha256([8; 32]))] {
        spec.grub_bios.as_mut().unwrap().kept_as = kept_as;
        let layout = boot_iso(&spec).unwrap();
        let mut sources = SourceMap::default();
        sources.insert(Sha256([8; 32]), std::sync::Arc::new(MemorySource(grub_image())));
        let image = LayoutSource::new(&layout, &sources);
        let volume = IsoVolume::open(&image).unwrap();
        let boot = volume.boot_entries().unwrap();
        assert_eq!(
            (boot.len(), boot[0].platform, boot[0].load_bytes),
            (1, IsoPlatform::Bios, 2048)
        );
        let path = boot[0].path.as_deref().unwrap();
        assert_eq!(path, "boot/grub/i386-pc/eltorito.img");
        let loader = volume.read(&volume.find(path).unwrap().unwrap(), 1 << 20).unwrap();
        let word = |at: usize| u32::from_le_bytes(loader[at..at + 4].try_into().unwrap());
        let sector = u32::try_from(boot[0].at / 2048).unwrap();
        assert_eq!((word(8), word(12), word(16)), (16, sector, 40_000));
        assert_eq!((word(2548), word(2552)), (sector * 4 + 5, 0));
        let sum = loader[64..]
            .chunks(4)
            .map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap()));
        assert_eq!(word(20), sum.fold(0, u32::wrapping_add));
        let mut unpatched = loader.clone();
        unpatched[8..64].fill(0x5A);
        unpatched[2548..2556].fill(0x5A);
        assert!(unpatched == grub_image());
        assert!(volume.find("boot/grub/grub.cfg").unwrap().is_some());
        assert!(volume.find("isolinux").unwrap().is_none());
    }
    spec.grub_bios = Some(Bytes::from_static(&[0; 4000]).into());
    let text = boot_iso(&spec).unwrap_err().to_string();
    assert!(text.contains("i386-pc-eltorito"), "{text}");
}

#[test]
fn debug_shows_no_value() {
    let mut secret = spec(Firmware::Both);
    secret.parameters = vec![("ipa-agent-token".into(), "hunter2".into())];
    secret.kernel_arguments = "token=hunter2".into();
    let text = format!("{secret:?}");
    assert!(text.contains("ipa-agent-token") && !text.contains("hunter2"), "{text}");
}

proptest! {
    #[test]
    fn same_input_same_image_in_whatever_order_files_come(
        names in prop::collection::btree_map("[a-zA-Z.ü ]{1,80}x", 0..200_000u64, 0..20),
        parameter in "[!#-&(-\\[\\]-~]{0,60}",
        hybrid in any::<bool>(),
    ) {
        let mut spec = spec(Firmware::Both);
        spec.files = names.into_iter().map(|(name, len)| (format!("d/{name}"), source(9, len).into())).collect();
        spec.parameters = vec![("key".to_owned(), parameter)];
        spec.hybrid = hybrid.then(Hybrid::default);
        let first = boot_iso(&spec).unwrap();
        spec.files.reverse();
        prop_assert_eq!(boot_iso(&spec).unwrap(), first.clone());
        spec.parameters[0].1.push('x');
        prop_assert_ne!(boot_iso(&spec).unwrap().digest(), first.digest());
    }
}
