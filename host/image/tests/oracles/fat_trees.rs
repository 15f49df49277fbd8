//! Any tree of files in a FAT volume: clean to fsck.vfat, and read back by mtools and the fatfs crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;

use bytes::Bytes;
use fatfs::{FileSystem, FsOptions};
use image::{FatShape, FatSpec, SourceMap, fat};
use proptest::prelude::*;

use crate::fat::fsck;
use crate::{run, run_bytes, write};

/// Names of every sort that FAT takes, among them ones that are cut to the same short name.
fn tree() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let name = prop_oneof![
        "[A-Z0-9_]{1,8}(\\.[A-Z0-9]{1,3})?",
        "[a-z0-9]{1,12}\\.[a-z]{1,5}",
        "long name [a-c]{1,3}\\.txt",
        "LONGNA~[1-3]\\.TXT",
        "[a-zäöü☃日本 +,;=\\[\\]&%'._-]{1,40}[a-z]",
    ];
    let name = name.prop_filter("not legal", |name| !name.starts_with([' ', '.']));
    let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let content = prop::collection::vec(any::<u8>(), 0..9000);
    prop::collection::vec((path, content), 0..30).prop_map(|files| {
        // What FAT takes for one place is given once.
        let mut taken: BTreeMap<String, bool> = BTreeMap::new();
        let mut kept = Vec::new();
        for (path, content) in files {
            let upper = path.to_uppercase();
            let dirs: Vec<&str> = upper.match_indices('/').map(|(at, _)| &upper[..at]).collect();
            if taken.contains_key(&upper) || dirs.iter().any(|dir| taken.get(*dir) == Some(&true)) {
                continue;
            }
            for dir in dirs {
                taken.insert(dir.to_owned(), false);
            }
            taken.insert(upper.clone(), true);
            kept.push((path, content));
        }
        kept
    })
}

fn files_below(dir: fatfs::Dir<'_, fs::File>, path: &str, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in dir.iter() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if name == "." || name == ".." {
            continue;
        }
        let path = format!("{path}{name}");
        if entry.is_dir() {
            files_below(entry.to_dir(), &format!("{path}/"), found);
        } else {
            let mut content = Vec::new();
            entry.to_file().read_to_end(&mut content).unwrap();
            found.insert(path.to_uppercase(), content);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// fsck.vfat finds nothing wrong, and two readers find every file: the fatfs crate by its long name, mtools by its
    /// long name and by its short one.
    #[test]
    fn any_tree_is_clean_and_read_back_by_others(
        files in tree(),
        size in prop_oneof![Just(None), Just(Some(3 << 20)), Just(Some(12 << 20)), Just(Some(600 << 20))],
    ) {
        let spec = FatSpec {
            label: "TREE".into(),
            files: files.iter().map(|(path, content)| (path.clone(), Bytes::from(content.clone()).into())).collect(),
            size,
            shape: FatShape::Disk,
        };
        let image = write(&fat(&spec).unwrap(), &SourceMap::default());
        fsck(&image);
        let wanted: BTreeMap<String, Vec<u8>> =
            files.iter().map(|(path, content)| (path.to_uppercase(), content.clone())).collect();
        let options = FsOptions::new().update_accessed_date(false);
        let volume = FileSystem::new(fs::File::open(&image.path).unwrap(), options).unwrap();
        let mut found = BTreeMap::new();
        files_below(volume.root_dir(), "", &mut found);
        prop_assert!(found == wanted, "{:?} and not {:?}", found.keys(), wanted.keys());

        let out = tempfile::tempdir().unwrap();
        if !files.is_empty() {
            run("mtools", "mcopy", &["-s", "-n", "-p", "-i", image.path(), "::*", out.path().to_str().unwrap()]);
        }
        let mut copied = BTreeSet::new();
        for (path, content) in &files {
            // Directories are spelled as the first path that names them spells them.
            let here = find_ignoring_case(out.path(), path);
            prop_assert!(fs::read(&here).unwrap() == *content, "{path}");
            prop_assert!(copied.insert(here), "{path} is another file too");
            let by_name = run_bytes("mtools", "mtype", &["-i", image.path(), &format!("::{}", escaped(path))]);
            prop_assert!(by_name == *content, "{path} by its own name");
        }
    }
}

/// mtools takes names for patterns.
fn escaped(path: &str) -> String {
    path.chars()
        .flat_map(|c| ['\\'].into_iter().filter(move |_| "[]*?\\".contains(c)).chain([c]))
        .collect()
}

fn find_ignoring_case(dir: &Path, path: &str) -> std::path::PathBuf {
    path.split('/').fold(dir.to_owned(), |dir, name| {
        let mut entries = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap());
        let found = entries.find(|entry| entry.file_name().to_str().unwrap().to_uppercase() == name.to_uppercase());
        found
            .unwrap_or_else(|| panic!("{name:?} is not in {}", dir.display()))
            .path()
    })
}
