//! Numbers, labels and limits of FAT volumes as dosfstools, mtools, blkid and the fatfs crate see them; config drives.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};

use bytes::Bytes;
use fatfs::{FileSystem, FsOptions};
use image::{
    CONFIG_DRIVE_LABEL, ConfigDriveSpec, ConfigDriveVolume, Content, Extent, FatShape, FatSpec, FatVolume, FileSource,
    Kind, Layout, SourceMap, config_drive, fat,
};

use crate::fat::fsck;
use crate::{Written, pattern, run, write};

/// What `minfo` says about the boot sector, by its own words.
fn minfo(image: &Written) -> BTreeMap<String, String> {
    let text = run("mtools", "minfo", &["-i", image.path(), "::"]);
    let pairs = text
        .lines()
        .filter_map(|line| line.split_once(':').or_else(|| line.split_once('=')));
    let pairs = pairs.map(|(key, value)| {
        (
            key.trim().to_owned(),
            value.trim().trim_matches('"').trim_end().to_owned(),
        )
    });
    pairs.collect()
}

#[test]
fn minfo_finds_the_numbers_of_the_diskettes_and_the_disks_that_were_meant() {
    for (shape, size, wanted) in [
        (
            FatShape::Floppy,
            1_474_560,
            [
                ("cluster size", "1 sectors"),
                ("max available root directory slots", "224"),
                ("small size", "2880 sectors"),
            ],
        ),
        (
            FatShape::Floppy,
            2_949_120,
            [
                ("cluster size", "2 sectors"),
                ("max available root directory slots", "240"),
                ("small size", "5760 sectors"),
            ],
        ),
        (
            FatShape::Disk,
            40 << 20,
            [
                ("cluster size", "8 sectors"),
                ("media descriptor byte", "0xf8"),
                ("big size", "81920 sectors"),
            ],
        ),
        (
            FatShape::Disk,
            3 << 30,
            [
                ("reserved (boot) sectors", "32"),
                ("max available root directory slots", "0"),
                ("big size", "6291456 sectors"),
            ],
        ),
    ] {
        let spec = FatSpec {
            label: "ir-vfd-dev".into(),
            files: vec![("f".into(), Bytes::from_static(b"x").into())],
            size: Some(size),
            shape,
        };
        let image = write(&fat(&spec).unwrap(), &SourceMap::default());
        let found = minfo(&image);
        for (key, value) in wanted
            .into_iter()
            .chain([("sector size", "512 bytes"), ("disk label", "ir-vfd-dev")])
        {
            assert_eq!(
                found.get(key).map(String::as_str),
                Some(value),
                "{key} of {size}: {found:?}"
            );
        }
    }
}

#[test]
fn labels_are_kept_in_both_their_places_and_a_volume_can_do_without() {
    for (label, shown) in [
        ("ir-vfd-dev", "ir-vfd-dev"),
        ("CONFIG-2", "CONFIG-2"),
        ("A B_C-D$E~F", "A B_C-D$E~F"),
        ("", ""),
    ] {
        for size in [None, Some(20 << 20), Some(600 << 20)] {
            let spec = FatSpec {
                label: label.into(),
                files: Vec::new(),
                size,
                shape: FatShape::Disk,
            };
            let image = write(&fat(&spec).unwrap(), &SourceMap::default());
            fsck(&image);
            let said = run(
                "util-linux",
                "blkid",
                &["-p", "-s", "LABEL", "-s", "LABEL_FATBOOT", "-o", "export", image.path()],
            );
            let places: Vec<&str> = said
                .lines()
                .filter_map(|line| line.split_once('=').map(|(_, label)| label))
                .collect();
            match shown {
                "" => assert!(places.iter().all(|label| *label == image.path()), "{said}"),
                _ => {
                    let found: Vec<String> = places.iter().map(|label| label.replace('\\', "")).collect();
                    assert_eq!(found.iter().filter(|label| *label == shown).count(), 2, "{said}");
                }
            }
            let source = FileSource::open(&image.path).unwrap();
            let read = FatVolume::open(&source).unwrap().label().unwrap();
            assert_eq!(read.as_deref(), Some(shown).filter(|shown| !shown.is_empty()));
        }
    }
}

/// A file of that length with these 5000 bytes at either end; what is between takes no room.
fn spread(len: u64) -> (Bytes, Bytes, Content) {
    let (head, tail) = (pattern(1, 5000), pattern(2, 5000));
    let extents = vec![
        Extent::Literal(head.clone()),
        Extent::Zero(len - 10_000),
        Extent::Literal(tail.clone()),
    ];
    let layout = Layout::from_extents(Kind::Other, extents).unwrap();
    (head, tail, layout.into())
}

fn with_one_file(path: &str, len: u64, size: Option<u64>) -> FatSpec {
    FatSpec {
        label: "LARGE".into(),
        files: vec![(path.into(), spread(len).2)],
        size,
        shape: FatShape::Disk,
    }
}

fn assert_both_ends(image: &Written, path: &str, len: u64) {
    let (head, tail, _) = spread(len);
    let file = fs::File::open(&image.path).unwrap();
    let volume = FileSystem::new(file, FsOptions::new().update_accessed_date(false)).unwrap();
    let mut file = volume.root_dir().open_file(path).unwrap();
    assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), len, "{path}");
    for (at, wanted) in [(SeekFrom::Start(0), head), (SeekFrom::End(-5000), tail)] {
        let mut read = vec![0; 5000];
        file.seek(at).unwrap();
        file.read_exact(&mut read).unwrap();
        assert!(read == *wanted, "{path} at {at:?}");
    }
}

/// Files end at 4 GiB less one byte. fsck.fat adds a file's clusters up in 32 bits, so for it alone the last of these bytes
/// are too many.
#[test]
fn files_of_up_to_four_gibibytes_are_read_at_both_ends() {
    let most = u64::from(u32::MAX);
    for (len, is_checked) in [((2 << 30) + 1, true), ((4 << 30) - 65_536, true), (most, false)] {
        for size in [None, Some(5 << 30)] {
            let layout = fat(&with_one_file("deep/er/large file", len, size)).unwrap();
            assert!(size.is_some() || layout.size() < len + len / 64, "{}", layout.size());
            let image = write(&layout, &SourceMap::default());
            let blocks = std::os::unix::fs::MetadataExt::blocks(&image.path.metadata().unwrap());
            assert!(blocks * 512 < 64 << 20, "the file is not sparse: {blocks} blocks");
            if is_checked {
                fsck(&image);
            }
            assert_both_ends(&image, "deep/er/large file", len);
        }
    }
    let error = fat(&with_one_file("more", most + 1, None)).unwrap_err().to_string();
    assert!(error.contains("more") && error.contains("4294967295"), "{error}");
}

#[test]
fn a_file_may_fill_a_volume_to_its_last_cluster_and_no_further() {
    for size in [1_474_560, 9 << 20, 300 << 20, 3 << 30] {
        let (mut fits, mut too_long) = (10_000, size);
        while too_long - fits > 1 {
            let len = u64::midpoint(fits, too_long);
            match fat(&with_one_file("f", len, Some(size))) {
                Ok(_) => fits = len,
                Err(_) => too_long = len,
            }
        }
        let image = write(
            &fat(&with_one_file("f", fits, Some(size))).unwrap(),
            &SourceMap::default(),
        );
        fsck(&image);
        let source = FileSource::open(&image.path).unwrap();
        let volume = FatVolume::open(&source).unwrap();
        assert_eq!(volume.free_clusters().unwrap(), 0, "{size}");
        assert_eq!(fits % volume.cluster_bytes(), 0, "{size}");
        assert_both_ends(&image, "f", fits);
        let error = fat(&with_one_file("f", fits + 1, Some(size))).unwrap_err().to_string();
        assert!(error.contains("about") && error.contains(&size.to_string()), "{error}");
    }
}

#[test]
fn a_config_drive_is_found_by_its_label_and_holds_what_cloud_init_reads() {
    let json = |text: &'static str| Content::from(Bytes::from_static(text.as_bytes()));
    let mut spec = ConfigDriveSpec {
        meta_data: json("{\"uuid\": \"6e3ae9d5\", \"hostname\": \"n1\"}"),
        user_data: Some(json("#!/bin/sh\n")),
        network_data: Some(json("{\"links\": []}")),
        vendor_data: Some(json("{}")),
        files: vec![("openstack/content/0000".into(), json("more"))],
        volume: ConfigDriveVolume::Fat { size: None },
    };
    let files = [
        ("meta_data.json", &spec.meta_data),
        ("user_data", spec.user_data.as_ref().unwrap()),
        ("network_data.json", spec.network_data.as_ref().unwrap()),
        ("vendor_data.json", spec.vendor_data.as_ref().unwrap()),
    ];
    let files = files.map(|(name, content)| (format!("openstack/latest/{name}"), literal(content)));
    for size in [None, Some(64 << 20)] {
        spec.volume = ConfigDriveVolume::Fat { size };
        let image = write(&config_drive(&spec).unwrap(), &SourceMap::default());
        fsck(&image);
        for (path, wanted) in &files {
            let read = run("mtools", "mtype", &["-i", image.path(), &format!("::{path}")]);
            assert_eq!(read.as_bytes(), &wanted[..], "{path}");
        }
        assert_eq!(blkid_label(&image), CONFIG_DRIVE_LABEL);
    }
    spec.volume = ConfigDriveVolume::Iso;
    let image = write(&config_drive(&spec).unwrap(), &SourceMap::default());
    assert_eq!(blkid_label(&image), CONFIG_DRIVE_LABEL);
    for (path, wanted) in &files {
        let read = run(
            "genisoimage",
            "isoinfo",
            &["-R", "-x", &format!("/{path}"), "-i", image.path()],
        );
        assert_eq!(read.as_bytes(), &wanted[..], "{path}");
    }
}

fn blkid_label(image: &Written) -> String {
    let label = run(
        "util-linux",
        "blkid",
        &["-p", "-s", "LABEL", "-o", "value", image.path()],
    );
    label.trim_end().to_owned()
}

fn literal(content: &Content) -> Bytes {
    match content {
        Content::Literal(bytes) => bytes.clone(),
        _ => panic!("no literal"),
    }
}
