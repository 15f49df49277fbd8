//! fsck.vfat, mtools and blkid on FAT volumes.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use image::{
    Content, EspSpec, FatShape, FatSpec, FatVolume, FileSource, FloppySpec, MARKER_PATH, SourceMap, esp, fat, floppy,
};

use crate::{Written, efi_binaries, pattern, run, source, sources, write};

pub(crate) fn fsck(image: &Written) {
    let report = run("dosfstools", "fsck.vfat", &["-n", "-v", image.path()]);
    for complaint in ["differ", "rong", "rphan", "ad ", "nvalid", "lost", "Reclaimed", "Dirty"] {
        assert!(!report.contains(complaint), "fsck.vfat complains: {report}");
    }
}

#[test]
fn a_floppy_is_clean_and_holds_its_parameters() {
    let spec = FloppySpec {
        parameters: vec![
            (
                "ipa-api-url".into(),
                "http://192.0.2.1:6385,http://[2001:db8::1]:6385".into(),
            ),
            ("ipa-agent-token".into(), "s3cr3t-'quoted'-$x".into()),
            ("boot_method".into(), "vmedia".into()),
        ],
        files: vec![(
            "openstack/latest/network_data.json".into(),
            Bytes::from_static(b"{}").into(),
        )],
        ..FloppySpec::default()
    };
    let layout = floppy(&spec).unwrap();
    assert_eq!(layout.size(), 1_474_560);
    let image = write(&layout, &SourceMap::default());
    fsck(&image);
    let text = run("mtools", "mtype", &["-i", image.path(), "::parameters.txt"]);
    assert_eq!(
        text,
        "ipa-api-url=http://192.0.2.1:6385,http://[2001:db8::1]:6385\nipa-agent-token=s3cr3t-'quoted'-$x\nboot_method=vmedia\n"
    );
    let listing = run("mtools", "mdir", &["-/", "-i", image.path(), "::"]);
    assert!(listing.contains("Volume in drive : is ir-vfd-dev"), "{listing}");
    assert!(
        listing.contains("parameters.txt") && listing.contains("network_data.json"),
        "{listing}"
    );
    let label = run("util-linux", "blkid", &["-p", "-o", "export", image.path()]);
    assert!(
        label.contains("LABEL=ir-vfd-dev") && label.contains("TYPE=vfat"),
        "{label}"
    );
}

/// Many names of every sort, sub-directories, empty and large files, in every FAT type and size class.
#[test]
fn fat_volumes_of_every_type_are_clean_and_hold_what_they_were_given() {
    let big = pattern(1, 700_001);
    let mut files: Vec<(String, Content)> = vec![
        ("EFI/BOOT/BOOTX64.EFI".into(), source(&big).into()),
        ("EFI/Boot/grub.cfg".into(), Bytes::from_static(b"set x=1\n").into()),
        ("empty".into(), Bytes::new().into()),
        (
            "a/b/c/d/e/deep file with spaces.and.dots".into(),
            pattern(2, 513).into(),
        ),
        ("ünïcödé ☃ näme.txt".into(), pattern(3, 512).into()),
        (format!("{}.long", "n".repeat(200)), pattern(4, 1).into()),
    ];
    for i in 0..300 {
        files.push((format!("many/file number {i}.conf"), pattern(i, 40).into()));
    }
    let sizes = [
        (FatShape::Floppy, None, 12),
        (FatShape::Floppy, Some(2_949_120), 12),
        (FatShape::Disk, None, 12),
        (FatShape::Disk, Some(4 << 20), 12),
        (FatShape::Disk, Some((9 << 20) + 512), 16),
        (FatShape::Floppy, Some(20 << 20), 16),
        (FatShape::Disk, Some(64 << 20), 16),
        (FatShape::Disk, Some(500 << 20), 16),
        (FatShape::Disk, Some(600 << 20), 32),
        (FatShape::Disk, Some(3 << 30), 32),
        (FatShape::Disk, Some(20 << 30), 32),
    ];
    for (shape, size, fat_bits) in sizes {
        let spec = FatSpec {
            label: "CONFIG-2".into(),
            files: files.clone(),
            size,
            shape,
        };
        let layout = fat(&spec).unwrap_or_else(|error| panic!("{shape:?} {size:?}: {error}"));
        assert_eq!(size.unwrap_or(layout.size()), layout.size());
        let image = write(&layout, &sources(std::slice::from_ref(&big)));
        let report = run("dosfstools", "fsck.vfat", &["-n", "-v", image.path()]);
        assert!(report.contains(&format!("{fat_bits} bit")), "{size:?}: {report}");
        fsck(&image);
        for (path, content) in &files {
            if path.starts_with("many/") && !path.ends_with("9.conf") {
                continue;
            }
            let expected = match content {
                Content::Literal(bytes) => bytes,
                _ => &big,
            };
            let out = image.path.with_extension("out");
            run(
                "mtools",
                "mcopy",
                &["-n", "-i", image.path(), &format!("::{path}"), out.to_str().unwrap()],
            );
            assert!(fs::read(&out).unwrap() == **expected, "{path} in {size:?}");
            fs::remove_file(&out).unwrap();
        }
    }
}

#[test]
fn a_large_source_lies_on_a_boundary_that_file_systems_share_blocks_at() {
    for (len, boundary) in [(100_000, 4096), (2_000_000, 65_536)] {
        let big = pattern(1, len);
        let files = vec![("x".into(), pattern(2, 10).into()), ("y".into(), source(&big).into())];
        for (shape, size) in [
            (FatShape::Disk, 4 << 20),
            (FatShape::Disk, 9 << 20),
            (FatShape::Floppy, 9 << 20),
            (FatShape::Disk, 64 << 20),
            (FatShape::Disk, 700 << 20),
        ] {
            let spec = FatSpec {
                label: "ESP".into(),
                files: files.clone(),
                size: Some(size),
                shape,
            };
            let layout = fat(&spec).unwrap();
            let mut at = 0;
            let start = layout.extents().iter().find_map(|extent| {
                let start = at;
                at += extent.len();
                let is_whole = matches!(extent, image::Extent::Source { offset: 0, .. }) && extent.len() == len as u64;
                is_whole.then_some(start)
            });
            assert_eq!(
                start.expect("the source is one extent") % boundary,
                0,
                "{len} in {size}"
            );
        }
    }
}

#[test]
fn an_esp_is_clean_and_its_grub_looks_for_our_isos_only() {
    let layout = esp(&EspSpec { files: efi_binaries() }).unwrap();
    assert!(layout.size() < 4 << 20, "{}", layout.size());
    let image = write(&layout, &SourceMap::default());
    fsck(&image);
    for path in image::GRUB_CONFIG_PATHS {
        let text = run("mtools", "mtype", &["-i", image.path(), &format!("::{path}")]);
        assert!(text.contains(&format!("--file {MARKER_PATH}\n")), "{text}");
        assert!(text.contains("configfile ($root)/boot/grub/grub.cfg"), "{text}");
    }
}

#[test]
fn our_reader_reads_what_mkfs_and_mtools_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (image, file) = (path("image"), path("file"));
    let content = pattern(1, 100_003);
    fs::write(&file, &content).unwrap();
    for (bits, kilobytes) in [("12", "1440"), ("16", "20480"), ("32", "70000")] {
        let _ = fs::remove_file(&image);
        run(
            "dosfstools",
            "mkfs.vfat",
            &["-F", bits, "-n", "CONFIG-2", "-C", &image, kilobytes],
        );
        run("mtools", "mmd", &["-i", &image, "::EFI", "::EFI/some longer directory"]);
        for name in [
            "::EFI/some longer directory/A longer file name.efi",
            "::plain.txt",
            "::UPPER.TXT",
        ] {
            run("mtools", "mcopy", &["-i", &image, &file, name]);
        }
        run("mtools", "mdel", &["-i", &image, "::plain.txt"]);
        let source = FileSource::open(Path::new(&image)).unwrap();
        let volume = FatVolume::open(&source).unwrap();
        assert_eq!(volume.fat_bits().to_string(), bits);
        assert_eq!(volume.label().unwrap().as_deref(), Some("CONFIG-2"));
        let entries = volume.entries().unwrap();
        let paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
        let long = "EFI/some longer directory/A longer file name.efi";
        assert_eq!(paths, ["EFI", "EFI/some longer directory", long, "UPPER.TXT"]);
        for entry in entries.iter().filter(|entry| !entry.is_dir) {
            assert!(
                volume.read(entry, 1 << 20).unwrap() == content,
                "{entry:?} of FAT{bits}"
            );
        }
    }
}

/// Linux and fsck.vfat take a volume for FAT32 by its boot sector, however few clusters it has. mtools does not, so the file
/// is put in by hand.
#[test]
fn our_reader_takes_small_volumes_for_fat32_if_they_were_made_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let image = Written::at(dir, "image");
    let options = ["-F", "32", "-s", "8", "-f", "2", "-n", "EFISYSTEM", "-C"];
    run(
        "dosfstools",
        "mkfs.vfat",
        &[&options[..], &[image.path(), "34000"]].concat(),
    );
    let mut bytes = fs::read(&image.path).unwrap();
    let number = |at: usize| usize::try_from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())).unwrap();
    let reserved = usize::from(u16::from_le_bytes([bytes[14], bytes[15]])) * 512;
    let table_bytes = number(36) * 512;
    let data = reserved + 2 * table_bytes;
    let free = u32::try_from(number(512 + 488) - 2).unwrap();
    let content = pattern(1, 5000);
    // Clusters 3 and 4; the root is cluster 2, and its first entry is the label.
    for table in [reserved, reserved + table_bytes] {
        bytes[table + 12..table + 20].copy_from_slice(&[4, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x0F]);
    }
    let mut entry = *b"A FILE  BIN\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\0\0";
    entry[28..].copy_from_slice(&5000u32.to_le_bytes());
    bytes[data + 32..data + 64].copy_from_slice(&entry);
    bytes[data + 4096..data + 4096 + 5000].copy_from_slice(&content);
    // The free clusters that are on record, at their place in sector 1.
    bytes[512 + 488..512 + 492].copy_from_slice(&free.to_le_bytes());
    fs::write(&image.path, bytes).unwrap();
    let report = run("dosfstools", "fsck.vfat", &["-n", "-v", image.path()]);
    assert!(
        report.contains("32 bit entries") && report.contains("2 files"),
        "{report}"
    );

    let source = FileSource::open(&image.path).unwrap();
    let volume = FatVolume::open(&source).unwrap();
    assert!(volume.clusters() < 65_525, "{}", volume.clusters());
    assert_eq!(
        (volume.fat_bits(), volume.label().unwrap().as_deref()),
        (32, Some("EFISYSTEM"))
    );
    assert_eq!(volume.free_clusters().unwrap(), u64::from(free));
    let entries = volume.entries().unwrap();
    assert_eq!((entries[0].path.as_str(), entries.len()), ("A FILE.BIN", 1));
    assert!(volume.read(&entries[0], u32::MAX).unwrap() == content);
    let said = run(
        "util-linux",
        "blkid",
        &["-p", "-s", "UUID", "-o", "value", image.path()],
    );
    let serial = volume.serial().unwrap();
    assert_eq!(said.trim_end(), format!("{:04X}-{:04X}", serial >> 16, serial & 0xFFFF));
}
