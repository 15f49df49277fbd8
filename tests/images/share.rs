//! Images that other tools made, and what is in them.

use std::fs;
use std::path::Path;

use crate::run::{Folder, tool};

/// Bytes that do not repeat with a sector.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
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

/// The files of the images below, by path.
pub(crate) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("readme.txt", b"hello\n".to_vec()),
        ("empty", Vec::new()),
        ("boot/A longer name than 8.3.bin", pattern(1, 300_001)),
        ("boot/deep/er/file", pattern(2, 5000)),
    ]
}

/// A folder with these files, and links where a file system has them.
pub(crate) fn tree(folder: &Folder, links: bool) -> String {
    let root = folder.at("tree");
    for (path, content) in files() {
        let path = Path::new(&root).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    fs::create_dir(format!("{root}/hollow")).unwrap();
    if links {
        for (target, link) in [
            ("../readme.txt", "boot/inside"),
            ("/etc/passwd", "outside"),
            ("boot/../../x", "up"),
        ] {
            std::os::unix::fs::symlink(target, format!("{root}/{link}")).unwrap();
        }
    }
    root
}

/// A FAT volume by mkfs.vfat and mtools.
pub(crate) fn foreign_fat(folder: &Folder, bits: &str, kilobytes: &str) -> String {
    let root = tree(folder, false);
    let image = folder.at("foreign.img");
    let _ = fs::remove_file(&image);
    tool(
        "dosfstools",
        "mkfs.vfat",
        &["-F", bits, "-n", "FOREIGN", "-i", "12345678", "-C", &image, kilobytes],
    );
    let mut names: Vec<String> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    let args = ["-s", "-i", &image]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .chain(["::"]);
    tool("mtools", "mcopy", &args.collect::<Vec<_>>());
    fs::remove_dir_all(root).unwrap();
    image
}

/// An ISO by xorriso, with links and, as it comes, Rock Ridge; more options as mkisofs takes them.
pub(crate) fn foreign_iso(folder: &Folder, more: &[&str]) -> String {
    let root = tree(folder, true);
    let image = folder.at("foreign.iso");
    let args = ["-as", "mkisofs", "-V", "FOREIGN", "-quiet", "-o", &image];
    tool("xorriso", "xorriso", &[&args[..], more, &[&root]].concat());
    fs::remove_dir_all(root).unwrap();
    image
}
