//! Files under given names in a web server's folder.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

use crate::common::{name, publication};
use bytes::Bytes;
use image::{Extent, Kind, Layout, NoSources};
use storage::{NamedFile, StorageError, WebFolder};

fn text(path: &str, text: &str) -> NamedFile {
    let extents = vec![Extent::Literal(Bytes::copy_from_slice(text.as_bytes()))];
    NamedFile {
        path: path.to_owned(),
        layout: Layout::from_extents(Kind::Other, extents).unwrap(),
    }
}

async fn put(folder: &WebFolder, files: &[NamedFile]) -> Result<(), StorageError> {
    folder.put(files.to_vec(), Arc::new(NoSources)).await
}

/// Every file and folder below, in order.
fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn files_appear_under_their_names_readable_for_a_web_server_and_go_without_a_trace() {
    let root = tempfile::tempdir().unwrap();
    let folder = WebFolder::open(root.path()).unwrap();
    let files = [
        text("boot.ipxe", "entry"),
        text("n1/config", "one"),
        text("n1/kernel", "k"),
    ];
    for _ in 0..2 {
        put(&folder, &files).await.unwrap();
        assert_eq!(tree(root.path()), ["boot.ipxe", "n1", "n1/config", "n1/kernel"]);
    }
    let mode = |path: &str| std::fs::metadata(root.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode("boot.ipxe"), mode("n1"), mode("n1/config")),
        (0o644, 0o755, 0o644)
    );
    assert!(folder.holds(files.to_vec(), Arc::new(NoSources)).await.unwrap());

    put(&folder, &[text("n1/config", "two")]).await.unwrap();
    assert_eq!(std::fs::read_to_string(root.path().join("n1/config")).unwrap(), "two");
    assert!(!folder.holds(files.to_vec(), Arc::new(NoSources)).await.unwrap());

    std::fs::write(root.path().join("somebody-elses"), "x").unwrap();
    std::fs::write(
        root.path().join("n1/.farrier-0123456789abcdef.part"),
        "of one that was killed",
    )
    .unwrap();
    for _ in 0..2 {
        let ours = ["n1/config", "n1/kernel", "n2/never-there"].map(str::to_owned);
        folder.remove(ours.to_vec()).await.unwrap();
        assert_eq!(tree(root.path()), ["boot.ipxe", "somebody-elses"]);
    }
}

#[tokio::test]
async fn sources_are_written_whole() {
    let root = tempfile::tempdir().unwrap();
    let folder = WebFolder::open(root.path()).unwrap();
    let (publication, bytes) = publication(name(1, "img"), 7);
    let file = NamedFile {
        path: "n1/ramdisk".to_owned(),
        layout: (*publication.layout).clone(),
    };
    folder.put(vec![file], publication.sources).await.unwrap();
    assert_eq!(std::fs::read(root.path().join("n1/ramdisk")).unwrap(), bytes);
}

#[tokio::test]
async fn a_folder_that_others_use_too_stays_when_ours_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let folder = WebFolder::open(root.path()).unwrap();
    put(&folder, &[text("pxelinux.cfg/a", "a")]).await.unwrap();
    std::fs::write(root.path().join("pxelinux.cfg/default"), "x").unwrap();
    folder.remove(vec!["pxelinux.cfg/a".to_owned()]).await.unwrap();
    assert_eq!(tree(root.path()), ["pxelinux.cfg", "pxelinux.cfg/default"]);
}

#[tokio::test]
async fn no_name_and_no_link_leads_out_of_the_folder() {
    let outside = tempfile::tempdir().unwrap();
    let root = tempfile::tempdir().unwrap();
    let folder = WebFolder::open(root.path()).unwrap();
    for bad in [
        "",
        "/",
        "../x",
        "a/../x",
        "a/b/c",
        ".hidden",
        "a/.hidden",
        "/etc/x",
        "a/",
        "a b",
        "a\nb",
    ] {
        assert!(put(&folder, &[text(bad, "x")]).await.is_err(), "{bad}");
        assert!(folder.remove(vec![bad.to_owned()]).await.is_err(), "{bad}");
    }
    symlink(outside.path(), root.path().join("out")).unwrap();
    assert!(put(&folder, &[text("out/x", "x")]).await.is_err());
    // A link in the place of a file is replaced, and what it leads to is left alone.
    std::fs::write(outside.path().join("theirs"), "theirs").unwrap();
    symlink(outside.path().join("theirs"), root.path().join("boot.ipxe")).unwrap();
    put(&folder, &[text("boot.ipxe", "ours")]).await.unwrap();
    assert_eq!(std::fs::read_to_string(root.path().join("boot.ipxe")).unwrap(), "ours");
    assert_eq!(
        std::fs::read_to_string(outside.path().join("theirs")).unwrap(),
        "theirs"
    );
    assert_eq!(tree(outside.path()), ["theirs"]);
}

#[test]
fn a_folder_that_is_not_there_is_told_with_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    let error = WebFolder::open(&root.path().join("missing")).err().unwrap().to_string();
    assert!(error.contains("create it"), "{error}");
}
