//! Reading ISOs that genisoimage and xorriso made.

use std::fs;
use std::path::{Path, PathBuf};

use image::{FatVolume, FileSource, IsoEntry, IsoKind, IsoNames, IsoPlatform, IsoReadError, IsoVolume, MemorySource};

use crate::{efi_binaries, pattern, run, write};

/// A folder of files as anybody has one.
fn folder(dir: &Path) -> PathBuf {
    let root = dir.join("root");
    for (path, len) in [
        ("boot/vmlinuz", 70_001),
        ("isolinux/isolinux.cfg", 300),
        ("names/ünïcödé ☃.txt", 10),
        ("names/two.dots.tar.gz", 4096),
        ("empty", 0),
        ("a/b/c/d/e/f/g/h/i/j/deep.txt", 77),
    ] {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, pattern(len, usize::try_from(len).unwrap())).unwrap();
    }
    fs::write(root.join("names").join("l".repeat(250)), "long").unwrap();
    fs::hard_link(root.join("boot/vmlinuz"), root.join("boot/other name of it")).unwrap();
    std::os::unix::fs::symlink("../boot/vmlinuz", root.join("names/link")).unwrap();
    std::os::unix::fs::symlink("/absolute/./path", root.join("names/absolute")).unwrap();
    root
}

fn paths(entries: &[IsoEntry], wanted: impl Fn(&IsoEntry) -> bool) -> Vec<String> {
    let mut paths: Vec<String> = entries
        .iter()
        .filter(|entry| wanted(entry))
        .map(|entry| entry.path.clone())
        .collect();
    paths.sort();
    paths
}

/// Every file of the folder is in the image, with its bytes, and no other.
fn check_rock_ridge(volume: &IsoVolume<'_>, root: &Path) {
    let entries = volume.entries_by(IsoNames::RockRidge).unwrap();
    let found = run(
        "findutils",
        "find",
        &[root.to_str().unwrap(), "-type", "f", "-printf", "%P\\n"],
    );
    let mut expected: Vec<String> = found.lines().map(str::to_owned).collect();
    expected.sort();
    assert_eq!(paths(&entries, IsoEntry::is_file), expected);
    for entry in entries.iter().filter(|entry| entry.is_file()) {
        let bytes = volume.read(entry, 1 << 20).unwrap();
        assert!(bytes == fs::read(root.join(&entry.path)).unwrap(), "{}", entry.path);
        let again = volume.find(&entry.path).unwrap().unwrap();
        assert_eq!(&again, entry);
    }
    let link = |path: &str| volume.find(path).unwrap().unwrap().kind;
    assert_eq!(link("names/link"), IsoKind::Link("../boot/vmlinuz".to_owned()));
    assert_eq!(link("names/absolute"), IsoKind::Link("/absolute/./path".to_owned()));
}

#[test]
fn what_genisoimage_made_is_read_by_every_kind_of_name() {
    let dir = tempfile::tempdir().unwrap();
    let (root, iso) = (folder(dir.path()), dir.path().join("image.iso"));
    // Without -D, directories below the eighth level are put elsewhere and pointed to.
    let arguments = [
        "-quiet",
        "-R",
        "-J",
        "-joliet-long",
        "-V",
        "GEN ISO",
        "-input-charset",
        "utf-8",
        "-cache-inodes",
        "-o",
    ];
    let more = [iso.to_str().unwrap(), root.to_str().unwrap()];
    run("genisoimage", "genisoimage", &[&arguments[..], &more].concat());
    let image = FileSource::open(&iso).unwrap();
    let volume = IsoVolume::open(&image).unwrap();
    assert_eq!(volume.label(), "GEN ISO");
    assert_eq!(volume.names(), [IsoNames::RockRidge, IsoNames::Joliet, IsoNames::Plain]);
    check_rock_ridge(&volume, &root);
    let deep = volume.find("a/b/c/d/e/f/g/h/i/j/deep.txt").unwrap().unwrap();
    assert_eq!(deep.len, 77);
    let joliet = volume.entries_by(IsoNames::Joliet).unwrap();
    let names = paths(&joliet, IsoEntry::is_file);
    assert!(names.contains(&"names/ünïcödé ☃.txt".to_owned()), "{names:?}");
    let plain = volume.find_by(IsoNames::Plain, "boot/vmlinuz").unwrap().unwrap();
    assert_eq!(volume.read(&plain, 1 << 20).unwrap(), pattern(70_001, 70_001));
    assert_eq!(plain.path, "BOOT/VMLINUZ");
}

#[test]
fn an_image_without_other_names_has_plain_ones() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("dir")).unwrap();
    fs::write(root.join("dir/file.txt"), "content").unwrap();
    let iso = dir.path().join("image.iso");
    run(
        "genisoimage",
        "genisoimage",
        &["-quiet", "-o", iso.to_str().unwrap(), root.to_str().unwrap()],
    );
    let image = FileSource::open(&iso).unwrap();
    let volume = IsoVolume::open(&image).unwrap();
    assert_eq!(volume.names(), [IsoNames::Plain]);
    assert_eq!(paths(&volume.entries().unwrap(), |_| true), ["DIR", "DIR/FILE.TXT"]);
    let file = volume.find("dir/file.txt").unwrap().unwrap();
    assert_eq!(volume.read(&file, 100).unwrap(), b"content");
}

#[test]
fn what_xorriso_made_is_read_with_its_boot_entries_and_partitions() {
    let dir = tempfile::tempdir().unwrap();
    let (root, iso) = (folder(dir.path()), dir.path().join("image.iso"));
    fs::copy("/usr/lib/ISOLINUX/isolinux.bin", root.join("isolinux/isolinux.bin")).unwrap();
    let esp = write(
        &image::esp(&image::EspSpec { files: efi_binaries() }).unwrap(),
        &image::SourceMap::default(),
    );
    fs::copy(esp.path(), root.join("boot/efi.img")).unwrap();
    let made = [
        "-as",
        "mkisofs",
        "-quiet",
        "-R",
        "-J",
        "-V",
        "XORRISO",
        "-o",
        iso.to_str().unwrap(),
        "-isohybrid-mbr",
        "/usr/lib/ISOLINUX/isohdpfx.bin",
        "-b",
        "isolinux/isolinux.bin",
        "-c",
        "boot/boot.cat",
        "-no-emul-boot",
        "-boot-load-size",
        "4",
        "-boot-info-table",
        "-eltorito-alt-boot",
        "-e",
        "boot/efi.img",
        "-no-emul-boot",
        "-isohybrid-gpt-basdat",
        root.to_str().unwrap(),
    ];
    run("xorriso", "xorriso", &made);
    // What was patched into it while the image was made.
    fs::remove_file(root.join("isolinux/isolinux.bin")).unwrap();
    let image = FileSource::open(&iso).unwrap();
    let volume = IsoVolume::open(&image).unwrap();
    let boot = volume.boot_entries().unwrap();
    let platforms: Vec<_> = boot
        .iter()
        .map(|entry| (entry.platform, entry.path.as_deref().unwrap()))
        .collect();
    assert_eq!(
        platforms,
        [
            (IsoPlatform::Bios, "isolinux/isolinux.bin"),
            (IsoPlatform::Uefi, "boot/efi.img"),
        ]
    );
    // A volume inside a volume, read where it lies.
    let esp_file = volume.file(&volume.find("boot/efi.img").unwrap().unwrap()).unwrap();
    let esp_volume = FatVolume::open(&esp_file).unwrap();
    let names: Vec<_> = esp_volume
        .entries()
        .unwrap()
        .into_iter()
        .map(|entry| entry.path)
        .collect();
    assert!(names.contains(&"EFI/BOOT/BOOTX64.EFI".to_owned()), "{names:?}");
    let found = image::partitions(&image).unwrap();
    let esps: Vec<u64> = found
        .mbr
        .iter()
        .filter(|part| part.kind.is_esp())
        .map(|part| part.at)
        .collect();
    assert_eq!(esps, [boot[1].at], "{found:?}");
    assert!(found.gpt.iter().any(|part| part.at == boot[1].at), "{found:?}");
}

#[test]
fn compressed_files_are_named_and_not_read_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("zeros"), vec![0; 300_000]).unwrap();
    let iso = dir.path().join("image.iso");
    let line = [
        "-outdev",
        iso.to_str().unwrap(),
        "-map",
        root.to_str().unwrap(),
        "/",
        "-set_filter_r",
        "--zisofs",
        "/",
        "--",
    ];
    run("xorriso", "xorriso", &line);
    let image = FileSource::open(&iso).unwrap();
    let volume = IsoVolume::open(&image).unwrap();
    let file = volume.find("zeros").unwrap().unwrap();
    let refused = volume.read(&file, 1 << 20);
    assert!(matches!(refused, Err(IsoReadError::Unsupported { .. })), "{refused:?}");
}

#[test]
fn other_images_are_none() {
    let floppy = image::floppy(&image::FloppySpec::default()).unwrap();
    let floppy = write(&floppy, &image::SourceMap::default());
    for bytes in [Vec::new(), vec![0; 100_000], fs::read(floppy.path()).unwrap()] {
        let source = MemorySource(bytes.into());
        assert!(matches!(IsoVolume::open(&source), Err(IsoReadError::NotIso(_))));
    }
}
