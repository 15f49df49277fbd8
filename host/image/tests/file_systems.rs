//! Images written on file systems that share blocks (XFS, btrfs) and on ones that do not (ext4, tmpfs), and on full ones.
//!
//! Each is made in a file, mounted where only one child of the test sees it, and gone with the child however that ends.
//! Needs root, loop devices, and Debian's xfsprogs, btrfs-progs and e2fsprogs; what is missing fails the test and is named.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use image::{
    BootIsoSpec, Content, EspSpec, Extent, FatShape, FatSpec, FileSource, Firmware, Kind, Layout, MemorySource,
    SourceFile, SourceMap, SourceSet as _, WriteError, Written, boot_iso, esp, fat,
};
use model::Sha256;

const FOLDER: &str = "FARRIER_TEST_FOLDER";
const BLOCK: u64 = 4096;

/// How to make each file system in a file, and the package that its tool comes from; a tmpfs needs neither.
const KINDS: [(&str, &str, &str); 4] = [
    ("xfs", "mkfs.xfs -q -m reflink=1", "xfsprogs"),
    ("btrfs", "mkfs.btrfs -q", "btrfs-progs"),
    ("ext4", "mkfs.ext4 -q -F", "e2fsprogs"),
    ("tmpfs", "", ""),
];

/// Runs one of the children below on a file system of its own.
fn on(kind: &str, mebibytes: u32, child: &str) {
    let (_, make, package) = KINDS.into_iter().find(|(name, ..)| *name == kind).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().display();
    let mount = match make {
        "" => format!("mount -t tmpfs -o size={mebibytes}m none {folder}"),
        make => format!(
            "disk=$(mktemp) && trap 'rm -f $disk' EXIT && truncate -s {mebibytes}M $disk &&
             {make} $disk && mount -o loop $disk {folder}"
        ),
    };
    // The program is not replaced by the child: the trap removes the disk.
    let script = format!(
        "PATH=$PATH:/usr/sbin:/sbin; {{ {mount}; }} || exit 97
         \"$0\" {child} --exact --ignored --nocapture"
    );
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, folder.to_string())
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("unshare is needed (Debian package util-linux): {error}"));
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_ne!(
        output.status.code(),
        Some(97),
        "this test makes and mounts {kind} in a file: run it as root, where there are loop devices{}\n{said}",
        match package {
            "" => String::new(),
            package => format!(", with the Debian package {package} installed"),
        }
    );
    assert!(output.status.success(), "on {kind}: {said}");
    assert!(said.contains("1 passed"), "no such child: {said}");
}

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("only the tests below start this"))
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A source of that content in a file.
fn source(sources: &mut SourceMap, at: &Path, seed: u8, len: usize) -> SourceFile {
    fs::write(at, pattern(seed.into(), len)).unwrap();
    File::open(at).unwrap().sync_all().unwrap();
    let sha256 = Sha256([seed; 32]);
    sources.insert(sha256, Arc::new(FileSource::open(at).unwrap()));
    SourceFile {
        sha256,
        len: len as u64,
    }
}

/// Writes an image, and checks every byte of it.
fn written(layout: &Layout, sources: &SourceMap, at: &Path) -> Written {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(at)
        .unwrap();
    let written = layout.write_to(sources, &file).unwrap();
    assert_eq!(written.total(), layout.size(), "{written:?}");
    let bytes = fs::read(at).unwrap();
    let mut wanted = vec![0; bytes.len()];
    layout.read_at(sources, 0, &mut wanted).unwrap();
    assert!(bytes == wanted, "the file differs from the image");
    written
}

fn used(folder: &Path) -> u64 {
    rustix::fs::sync();
    let found = rustix::fs::statvfs(folder).unwrap();
    (found.f_blocks - found.f_bfree) * found.f_frsize
}

fn iso(kernel: SourceFile, ramdisk: SourceFile) -> Layout {
    let mut spec = BootIsoSpec::new(kernel, ramdisk, Firmware::Uefi);
    let loader = Bytes::from(pattern(9, 900_000));
    let files = vec![("EFI/BOOT/BOOTX64.EFI".to_owned(), Content::from(loader))];
    spec.esp = Some(esp(&EspSpec { files }).unwrap().into());
    boot_iso(&spec).unwrap()
}

#[test]
#[ignore = "a child of the tests below"]
fn shares_whole_blocks() {
    let folder = folder();
    let mut sources = SourceMap::default();
    let kernel = source(&mut sources, &folder.join("kernel"), 1, 9_000_001);
    let ramdisk = source(&mut sources, &folder.join("ramdisk"), 2, 60_000_123);

    let before = used(&folder);
    let layout = iso(kernel, ramdisk);
    let done = written(&layout, &sources, &folder.join("boot.iso"));
    let whole_blocks = (kernel.len / BLOCK + ramdisk.len / BLOCK) * BLOCK;
    assert_eq!(done.cloned, whole_blocks, "{done:?}");
    assert_eq!(done.copied, kernel.len % BLOCK + ramdisk.len % BLOCK, "{done:?}");
    let grown = used(&folder) - before;
    assert!(
        grown < 20 << 20,
        "the image takes {grown} bytes more: its blocks are not shared"
    );
    // What is shared is not changed together.
    let image = File::options().write(true).open(folder.join("boot.iso")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&image, &vec![0xEE; 1 << 20], layout.size() / 2).unwrap();
    assert!(fs::read(folder.join("ramdisk")).unwrap() == pattern(2, 60_000_123));

    let volume = fat(&FatSpec {
        label: "DATA".into(),
        files: vec![
            ("a".into(), Bytes::from_static(b"x").into()),
            ("d/ramdisk".into(), ramdisk.into()),
        ],
        size: None,
        shape: FatShape::Disk,
    });
    let done = written(&volume.unwrap(), &sources, &folder.join("fat.img"));
    assert_eq!(done.cloned, ramdisk.len / BLOCK * BLOCK, "{done:?}");

    // Offsets that do not fall on blocks alike, that do after a few bytes, and a range inside.
    for (lead, offset, len, cloned) in [
        (2048, 0, 10_000_000, 0),
        (1000, 1000, 10_000_000, (10_000_000 - (BLOCK - 1000)) / BLOCK * BLOCK),
        (BLOCK, 2 * BLOCK, 3 * BLOCK, 3 * BLOCK),
        (BLOCK + 1, 1, BLOCK, 0),
    ] {
        let extents = vec![
            Extent::Literal(Bytes::from(pattern(5, usize::try_from(lead).unwrap()))),
            Extent::Source {
                sha256: ramdisk.sha256,
                offset,
                len,
            },
            Extent::Literal(Bytes::from_static(b"end")),
        ];
        let layout = Layout::from_extents(Kind::Other, extents).unwrap();
        let done = written(&layout, &sources, &folder.join("other.img"));
        assert_eq!(
            (done.cloned, done.copied),
            (cloned, len - cloned),
            "{lead} {offset} {len}: {done:?}"
        );
    }
}

#[test]
#[ignore = "a child of the tests below"]
fn copies_inside_the_kernel() {
    let folder = folder();
    let mut sources = SourceMap::default();
    let kernel = source(&mut sources, &folder.join("kernel"), 1, 1_000_001);
    let ramdisk = source(&mut sources, &folder.join("ramdisk"), 2, 8_000_123);
    let done = written(&iso(kernel, ramdisk), &sources, &folder.join("boot.iso"));
    assert_eq!((done.cloned, done.copied), (0, kernel.len + ramdisk.len), "{done:?}");
}

#[test]
#[ignore = "a child of the tests below"]
fn reads_sources_of_elsewhere() {
    let folder = folder();
    let elsewhere = tempfile::tempdir().unwrap();
    assert_ne!(
        elsewhere.path().metadata().unwrap().dev(),
        folder.metadata().unwrap().dev()
    );
    let mut sources = SourceMap::default();
    let kernel = source(&mut sources, &elsewhere.path().join("kernel"), 1, 1_000_001);
    let ramdisk = SourceFile {
        sha256: Sha256([2; 32]),
        len: 8_000_123,
    };
    // Memory is nothing that the kernel could copy from.
    sources.insert(ramdisk.sha256, Arc::new(MemorySource(pattern(2, 8_000_123).into())));
    let layout = iso(kernel, ramdisk);
    let done = written(&layout, &sources, &folder.join("boot.iso"));
    assert_eq!(done.cloned, 0, "{done:?}");
    assert!(done.written >= ramdisk.len, "{done:?}");
    assert_eq!(done.written + done.copied + done.holes, layout.size(), "{done:?}");
}

#[test]
#[ignore = "a child of the tests below"]
fn says_when_it_is_full() {
    let folder = folder();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut sources = SourceMap::default();
    let kernel = source(&mut sources, &elsewhere.path().join("kernel"), 1, 1_000_001);
    let ramdisk = source(&mut sources, &elsewhere.path().join("ramdisk"), 2, 400 << 20);
    let file = tempfile::tempfile_in(&folder).unwrap();
    let before = used(&folder);
    let error = iso(kernel, ramdisk).write_to(&sources, &file).unwrap_err();
    let WriteError::File(error) = error else {
        panic!("{error}");
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    drop(file);
    assert!(
        used(&folder) < before + (8 << 20),
        "a file that has no name takes no room once it is closed"
    );
    assert!(sources.open(&Sha256([1; 32])).is_ok());
}

#[test]
fn on_xfs_and_btrfs_whole_blocks_of_sources_are_shared() {
    for kind in ["xfs", "btrfs"] {
        on(kind, 400, "shares_whole_blocks");
    }
}

#[test]
fn on_ext4_and_tmpfs_the_kernel_copies_them() {
    for kind in ["ext4", "tmpfs"] {
        on(kind, 64, "copies_inside_the_kernel");
    }
}

#[test]
fn sources_on_another_file_system_and_in_memory_are_copied_wherever_the_image_goes() {
    for kind in ["xfs", "btrfs", "ext4", "tmpfs"] {
        on(kind, 320, "reads_sources_of_elsewhere");
    }
}

#[test]
fn a_disk_that_fills_is_said_to_be_full_on_every_file_system() {
    for kind in ["xfs", "btrfs", "ext4", "tmpfs"] {
        on(kind, 320, "says_when_it_is_full");
    }
}
