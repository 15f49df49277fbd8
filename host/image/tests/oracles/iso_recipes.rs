//! The same inputs give the same image in any process, and a recorded image is what its extents say.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use bytes::Bytes;
use image::{
    BootFile, BootIsoSpec, Content, EspSpec, Extent, Firmware, Hybrid, IsoPatch, Layout, Recipe, SourceMap, boot_iso,
    esp, patch_iso,
};
use proptest::prelude::*;

use crate::{efi_binaries, file_of, pattern, sha256, source, sources, write};

/// What a process that was started to make images prints before their digests.
const MARK: &str = "digests:";
const ASKED: &str = "FARRIER_TEST_DIGESTS";

fn spec(kernel: &Bytes, ramdisk: &Bytes) -> BootIsoSpec {
    let mut spec = BootIsoSpec::new(source(kernel), source(ramdisk), Firmware::Both);
    spec.isolinux = Some(file_of("isolinux", "/usr/lib/ISOLINUX/isolinux.bin").into());
    spec.ldlinux = Some(file_of("syslinux-common", "/usr/lib/syslinux/modules/bios/ldlinux.c32").into());
    spec.esp = Some(esp(&EspSpec { files: efi_binaries() }).unwrap().into());
    spec.hybrid = Some(Hybrid {
        mbr: Some(file_of("isolinux", "/usr/lib/ISOLINUX/isohdpfx.bin")),
    });
    spec.files = (0..30u64)
        .map(|i| (format!("d{}/file {i}", i % 7), pattern(i, 500).into()))
        .collect();
    spec
}

/// An ISO and the same one patched.
fn images() -> (Layout, Layout, SourceMap) {
    let (kernel, ramdisk) = (pattern(20, 300_001), pattern(21, 700_123));
    let layout = boot_iso(&spec(&kernel, &ramdisk)).unwrap();
    let sources = sources(&[kernel, ramdisk]);
    let patch = IsoPatch {
        files: (0..9)
            .map(|i| (format!("new{}/{i}", i % 4), pattern(i, 3000).into()))
            .collect(),
        parameters: vec![("a".to_owned(), "b".to_owned())],
        ..IsoPatch::default()
    };
    let patched = patch_iso(&layout, &sources, &patch).unwrap().layout;
    (layout, patched, sources)
}

#[test]
fn two_processes_make_the_same_images() {
    if std::env::var_os(ASKED).is_some() {
        let (layout, patched, sources) = images();
        let bytes = |layout: &Layout| sha256(&fs::read(write(layout, &sources).path()).unwrap());
        println!(
            "{MARK} {} {} {} {}",
            layout.digest(),
            patched.digest(),
            bytes(&layout),
            bytes(&patched)
        );
        return;
    }
    let run = |zone: &str, language: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "iso_recipes::two_processes_make_the_same_images",
                "--nocapture",
            ])
            .envs([(ASKED, "1"), ("TZ", zone), ("LC_ALL", language)])
            .current_dir(std::env::temp_dir())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let digests = text.split(MARK).nth(1).and_then(|rest| rest.lines().next());
        digests.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let first = run("UTC", "C");
    assert_eq!(first, run("Asia/Kathmandu", "tr_TR.UTF-8"));
    assert_eq!(first.split_whitespace().count(), 4, "{first}");
}

/// The image's identity, worked out from a file that holds it: each extent from the bytes that are there.
fn recomputed(layout: &Layout, file: &[u8], contents: &BTreeMap<model::Sha256, Bytes>) -> Layout {
    let mut at = 0;
    let extents = layout.extents().iter().map(|extent| {
        let len = usize::try_from(extent.len()).unwrap();
        let bytes = &file[at..at + len];
        at += len;
        match extent {
            Extent::Literal(_) => Extent::Literal(Bytes::copy_from_slice(bytes)),
            Extent::Zero(len) => {
                assert!(bytes.iter().all(|byte| *byte == 0));
                Extent::Zero(*len)
            }
            Extent::Source {
                sha256: named,
                offset,
                len,
            } => {
                // A whole source is told by its bytes; of a part, the rest is what it was.
                let start = usize::try_from(*offset).unwrap();
                let mut whole = contents[named].to_vec();
                whole[start..start + bytes.len()].copy_from_slice(bytes);
                Extent::Source {
                    sha256: sha256(&whole),
                    offset: *offset,
                    len: *len,
                }
            }
        }
    });
    let extents = extents.collect();
    assert_eq!(at, file.len());
    Layout::from_extents(layout.kind(), extents).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_digest_is_that_of_the_extents_of_the_written_file(
        kernel in 1..200_000usize,
        ramdisk in 1..300_000usize,
        files in prop::collection::btree_map("[a-z]{1,9}(/[a-z A-Z]{1,20}x)?", 0..30_000usize, 0..9),
        hybrid in any::<bool>(),
        kept in any::<bool>(),
        new in prop::collection::btree_map("[0-9]{1,3}/[a-z]{1,5}", 0..20_000usize, 0..4),
    ) {
        let (kernel, ramdisk) = (pattern(1, kernel), pattern(2, ramdisk));
        let mut spec = spec(&kernel, &ramdisk);
        let mut contents = vec![kernel, ramdisk];
        if !hybrid {
            spec.hybrid = None;
        }
        if kept {
            let loader = spec.isolinux.take().unwrap().bytes;
            contents.push(loader.clone());
            spec.isolinux = Some(BootFile { kept_as: Some(sha256(&loader)), bytes: loader });
        }
        let reserved = ["boot", "isolinux", "efi"];
        let files = files.into_iter().filter(|(path, _)| !reserved.contains(&path.split('/').next().unwrap()));
        spec.files = files
            .enumerate()
            .map(|(index, (path, len))| {
                let bytes = pattern(index as u64 + 50, len);
                let content = if index % 2 == 0 { Content::from(source(&bytes)) } else { bytes.clone().into() };
                contents.push(bytes);
                (format!("f/{path}"), content)
            })
            .collect();
        let sources = sources(&contents);
        let by_digest: BTreeMap<_, _> = contents.iter().map(|bytes| (sha256(bytes), bytes.clone())).collect();
        let layout = match boot_iso(&spec) {
            Ok(layout) => layout,
            // A file and a directory of one name.
            Err(image::IsoError::Path(_)) => return Ok(()),
            Err(error) => panic!("{error}"),
        };
        let patch = IsoPatch {
            files: new.into_iter().map(|(path, len)| (path, pattern(len as u64, len).into())).collect(),
            ..IsoPatch::default()
        };
        let patched = patch_iso(&layout, &sources, &patch).unwrap().layout;
        for layout in [layout, patched] {
            let file = fs::read(write(&layout, &sources).path()).unwrap();
            prop_assert_eq!(recomputed(&layout, &file, &by_digest).digest(), layout.digest());
            let references = layout.sources().into_iter().map(|sha256| (sha256, "x".to_owned())).collect();
            let recipe = Recipe::of(&layout, &references).unwrap().to_json().unwrap();
            let replayed = Recipe::from_json(&recipe).unwrap().layout().unwrap();
            prop_assert!(fs::read(write(&replayed, &sources).path()).unwrap() == file);
            // One other byte anywhere but in a source's unseen part is another image.
            let mut changed = file.clone();
            let last = changed.len() / 2;
            changed[last] ^= 1;
            let is_zero = matches!(layout.pieces(last as u64..last as u64 + 1).next(), Some(Extent::Zero(_)));
            prop_assert!(is_zero || recomputed(&layout, &changed, &by_digest).digest() != layout.digest());
        }
    }
}
