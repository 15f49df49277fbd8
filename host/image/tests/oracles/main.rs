//! Tools that nobody here wrote read what we wrote.
//!
//! They come from Debian's dosfstools, mtools, xorriso, genisoimage, isolinux and syslinux-common; a missing one fails the
//! test and is named.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fat;
mod fat_sizes;
mod fat_trees;
mod iso;
mod iso_hybrid;
mod iso_large;
mod iso_patch;
mod iso_read;
mod iso_recipes;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use image::{Content, Layout, MemorySource, SourceFile, SourceMap};
use model::Sha256;
use sha2::Digest as _;

fn sha256(bytes: &[u8]) -> Sha256 {
    Sha256(sha2::Sha256::digest(bytes).into())
}

/// Bytes that no other place in an image has, and that do not repeat with a sector.
fn pattern(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

/// Runs a tool that has to be there and to succeed; both its streams, as text.
fn run(package: &str, tool: &str, arguments: &[&str]) -> String {
    let (stdout, stderr) = run_both(package, tool, arguments);
    format!(
        "{}{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    )
}

/// As [`run`], for what is no text: standard output alone.
fn run_bytes(package: &str, tool: &str, arguments: &[&str]) -> Vec<u8> {
    run_both(package, tool, arguments).0
}

fn run_both(package: &str, tool: &str, arguments: &[&str]) -> (Vec<u8>, Vec<u8>) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(tool)
        .args(arguments)
        .env("PATH", path)
        .env("MTOOLS_SKIP_CHECK", "0")
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap_or_else(|error| panic!("{tool} is needed (Debian package {package}): {error}"));
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.stdout, output.stderr)
}

fn file_of(package: &str, path: &str) -> Bytes {
    fs::read(path)
        .unwrap_or_else(|error| panic!("{path} is needed (Debian package {package}): {error}"))
        .into()
}

struct Written {
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Written {
    fn at(dir: tempfile::TempDir, name: &str) -> Self {
        let path = dir.path().join(name);
        Self { path, _dir: dir }
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

fn write(layout: &Layout, sources: &SourceMap) -> Written {
    let dir = tempfile::tempdir().unwrap();
    let written = Written::at(dir, "image");
    let file = fs::File::create(&written.path).unwrap();
    layout.write_to(sources, &file).unwrap();
    assert_eq!(file.metadata().unwrap().len(), layout.size());
    written
}

fn sources(contents: &[Bytes]) -> SourceMap {
    let mut map = SourceMap::default();
    for content in contents {
        map.insert(sha256(content), Arc::new(MemorySource(content.clone())));
    }
    map
}

fn source(content: &Bytes) -> SourceFile {
    SourceFile {
        sha256: sha256(content),
        len: content.len() as u64,
    }
}

fn efi_binaries() -> Vec<(String, Content)> {
    vec![
        ("EFI/BOOT/BOOTX64.EFI".into(), pattern(10, 900_000).into()),
        ("EFI/BOOT/grubx64.efi".into(), pattern(11, 1_500_000).into()),
    ]
}
