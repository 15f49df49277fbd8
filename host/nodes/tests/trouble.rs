//! Full disks, damaged and foreign files: typed errors with a remedy, and nothing acknowledged is lost.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use expect_test::{Expect, expect};
use nodes::{Filter, NodeRef, Sealer, SqliteStore, Store, StoreError};
use serde_json::json;

mod support;
use support::{LONG, Site, conductor, name, node, open};

const FOLDER: &str = "FARRIER_TEST_STORE";

fn refused(folder: &Path, expected: Expect) {
    let Err(error) = open(folder) else {
        panic!("opened");
    };
    let folder = folder.display().to_string();
    expected.assert_eq(&error.to_string().replace(&folder, "FOLDER"));
}

/// Writes nodes until it fails, then shows that the failure harmed nothing that was acknowledged before.
async fn fill_up(folder: &Path) -> String {
    let store = open(folder).unwrap();
    store.join(&conductor("c1"), LONG).await.unwrap();
    let mut ids = Vec::new();
    let error = loop {
        let mut node = node("");
        node.extra = [("padding".to_owned(), json!("x".repeat(20_000)))].into();
        match store.create_node(&node, &[]).await {
            Ok(record) => ids.push(record.node.id),
            Err(error) => break error,
        }
        assert!(ids.len() < 10_000, "the disk never got full");
    };
    assert!(ids.len() > 5, "{error}");
    assert!(matches!(error, StoreError::Database { .. }), "{error:?}");
    // Several that fail together fail each by itself.
    let big = |_| {
        let mut node = node("");
        node.extra = [("padding".to_owned(), json!("x".repeat(900_000)))].into();
        node
    };
    let nodes: Vec<_> = (0..4).map(big).collect();
    let (a, b, c, d) = tokio::join!(
        store.create_node(&nodes[0], &[]),
        store.create_node(&nodes[1], &[]),
        store.create_node(&nodes[2], &[]),
        store.create_node(&nodes[3], &[]),
    );
    for result in [a, b, c, d] {
        assert!(matches!(result, Err(StoreError::Database { .. })), "{result:?}");
    }
    let listed = store.nodes(&Filter::default()).await.unwrap();
    assert_eq!(listed.len(), ids.len());
    for id in &ids {
        assert!(store.node(&NodeRef::Id(*id)).await.unwrap().is_some());
    }
    // Another process finds it whole, too.
    let other = open(folder).map(|_| ());
    if let Err(error) = &other {
        assert!(matches!(error, StoreError::Database { .. }), "{error:?}");
    }
    error.to_string().replace(&folder.display().to_string(), "FOLDER")
}

/// A file system of its own, gone when the test ends.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs"])
            .arg(folder.path())
            .output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        mounted.then_some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Needs root to mount; where that is not allowed, the limit on file sizes below stands in for it.
#[tokio::test]
async fn a_full_disk_is_told_as_such_and_loses_nothing() {
    let Some(small) = Small::mount() else {
        return a_limit_on_file_sizes_is_told_and_loses_nothing_in_a_child();
    };
    let told = fill_up(small.0.path()).await;
    expect!["the store at FOLDER/farrier.db could not add a node: its disk is full, and nothing of this was written; free space there and try again"]
        .assert_eq(&told);
    // Once there is room again, work goes on without a restart.
    let store = open(small.0.path()).unwrap();
    let remount = Command::new("mount")
        .args(["-o", "remount,size=16m"])
        .arg(small.0.path())
        .status();
    assert!(remount.unwrap().success());
    store.create_node(&node("n1"), &[]).await.unwrap();
    drop(store);
}

#[test]
fn a_limit_on_file_sizes_is_told_and_loses_nothing() {
    a_limit_on_file_sizes_is_told_and_loses_nothing_in_a_child();
}

fn a_limit_on_file_sizes_is_told_and_loses_nothing_in_a_child() {
    let site = Site::new();
    // 512-byte blocks; an ignored SIGXFSZ stays ignored in what is executed, and writes fail instead.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 3000; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["under_a_limit", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER, site.folder.path())
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
#[ignore = "a child of the test above"]
async fn under_a_limit() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("run by a test of this file"));
    let told = fill_up(&folder).await;
    assert!(
        told.contains("could not add a node") && told.contains("quota"),
        "{told}"
    );
}

#[test]
fn processes_that_start_at_once_make_one_store() {
    for _ in 0..10 {
        let site = Site::new();
        std::thread::scope(|scope| {
            let starts: Vec<_> = (0..6).map(|_| scope.spawn(|| site.open())).collect();
            for start in starts {
                start.join().unwrap();
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_store_leaves_one_file_behind_and_says_that_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let store = std::sync::Arc::new(open(folder.path()).unwrap());
    for _ in 0..4 {
        store.create_node(&node(""), &[]).await.unwrap();
        store.nodes(&Filter::default()).await.unwrap();
    }
    let beside = || -> Vec<String> {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.ends_with("-wal") || name.ends_with("-shm"))
            .collect()
    };
    assert_eq!(beside().len(), 2);
    // What is under way ends first.
    let others: Vec<_> = (0..20)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.create_node(&node(""), &[]).await })
        })
        .collect();
    store.close().await;
    assert_eq!(beside(), [""; 0]);
    let mut written = 4;
    for other in others {
        match other.await.unwrap() {
            Ok(_) => written += 1,
            Err(error) => assert!(error.to_string().contains("the store is closed"), "{error}"),
        }
    }
    store.close().await;
    for error in [
        store.nodes(&Filter::default()).await.unwrap_err(),
        store.create_node(&node(""), &[]).await.unwrap_err(),
    ] {
        assert!(error.to_string().contains("the store is closed"), "{error}");
    }
    let again = open(folder.path()).unwrap();
    assert_eq!(again.nodes(&Filter::default()).await.unwrap().len(), written);
}

#[tokio::test]
async fn whoever_hears_of_a_write_finds_the_file_free_even_if_the_process_stops_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let other = rusqlite::Connection::open(folder.path().join("farrier.db")).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    for _ in 0..200 {
        store.create_node(&node(""), &[]).await.unwrap();
        other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").unwrap();
    }
}

#[tokio::test]
async fn files_that_are_no_store_are_refused_and_left_alone() {
    let site = Site::new();
    let check = |bytes: &[u8], expected: Expect| {
        std::fs::write(site.path(), bytes).unwrap();
        refused(site.folder.path(), expected);
        assert_eq!(std::fs::read(site.path()).unwrap(), bytes);
    };
    check(
        &[b'x'; 5000],
        expect![
            "FOLDER/farrier.db cannot be read: the file is damaged (file is not a database); stop every conductor, keep the file aside, and restore a backup"
        ],
    );
    let other = site.folder.path().join("other");
    let db = rusqlite::Connection::open(&other).unwrap();
    db.execute_batch("CREATE TABLE bookmark(url TEXT); ").unwrap();
    drop(db);
    check(
        &std::fs::read(&other).unwrap(),
        expect!["FOLDER/farrier.db cannot be read: it is a SQLite file of some other program; give another --data"],
    );

    std::fs::remove_file(site.path()).unwrap();
    drop(site.open());
    let db = rusqlite::Connection::open(site.path()).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    refused(
        site.folder.path(),
        expect![
            "the store at FOLDER/farrier.db could not open: a newer Farrier wrote it (schema 99, this one knows 2); run that version, or restore the backup from before the upgrade"
        ],
    );
    db.pragma_update(None, "user_version", -1).unwrap();
    refused(
        site.folder.path(),
        expect!["FOLDER/farrier.db cannot be read: its schema has the impossible number -1; restore a backup"],
    );
}

#[tokio::test]
async fn a_damaged_file_gives_errors_that_say_so_and_never_a_panic() {
    let site = Site::new();
    {
        let store = site.open();
        for k in 0..200 {
            let mut node = node(&format!("n{k}"));
            node.extra = [("padding".to_owned(), json!("x".repeat(300)))].into();
            store.create_node(&node, &[]).await.unwrap();
        }
    }
    let db = rusqlite::Connection::open(site.path()).unwrap();
    db.busy_timeout(LONG).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(db);
    let whole = std::fs::read(site.path()).unwrap();
    let pages = whole.len() / 4096;
    assert!(pages > 20);
    let key = std::fs::read(site.folder.path().join("secret.key")).unwrap();
    // A folder for each, since the one before may still be closing.
    let outcome_with = async |bytes: &[u8]| {
        let copy = Site::new();
        drop(Sealer::from_file(&copy.folder.path().join("secret.key")).unwrap());
        std::fs::write(copy.folder.path().join("secret.key"), &key).unwrap();
        std::fs::write(copy.path(), bytes).unwrap();
        match open(copy.folder.path()) {
            Err(error) => Err(error),
            Ok(store) => use_all(&store).await,
        }
    };
    outcome_with(&whole).await.unwrap();
    let mut noticed = 0;
    for page in 0..pages {
        let mut damaged = whole.clone();
        damaged[page * 4096..][..4096].fill(0xa5);
        if let Err(error) = outcome_with(&damaged).await {
            assert!(matches!(error, StoreError::Corrupt { .. }), "page {page}: {error:?}");
            noticed += 1;
        }
    }
    // Indexes that were not asked may hide their damage; tables do not.
    assert!(noticed * 2 > pages, "{noticed} of {pages}");

    // (Nothing at all is a new store.)
    for length in [100, 4096, whole.len() / 2] {
        let outcome = outcome_with(&whole[..length]).await;
        assert!(
            matches!(outcome, Err(StoreError::Corrupt { .. })),
            "{length}: {outcome:?}"
        );
    }
}

async fn use_all(store: &SqliteStore) -> Result<(), StoreError> {
    let records = store.nodes(&Filter::default()).await?;
    store.nodes_changed_after(0, 1000).await?;
    store.counts().await?;
    if let Some(record) = records.first() {
        store.update_node(record, &nodes::Writer::User).await?;
    }
    store.join(&conductor("c1"), LONG).await?;
    store.create_node(&node(""), &[]).await?;
    store.append_event(None, Some(&name("c1")), "k", "m").await?;
    Ok(())
}

#[test]
fn places_that_cannot_hold_a_store_are_refused_with_the_remedy() {
    let site = Site::new();
    let sealer = Sealer::from_file(&site.folder.path().join("secret.key")).unwrap();
    let check = |path: &Path, expected: Expect| {
        let Err(error) = SqliteStore::open(path, sealer.clone()) else {
            panic!("opened");
        };
        let folder = site.folder.path().display().to_string();
        expected.assert_eq(&error.to_string().replace(&folder, "FOLDER"));
    };
    std::fs::write(site.folder.path().join("file"), "").unwrap();
    check(
        &site.folder.path().join("file/farrier.db"),
        expect![
            "the store at FOLDER/file/farrier.db could not make its folder: FOLDER/file: File exists (os error 17); give another --data, or make the folder writable"
        ],
    );
    std::fs::create_dir(site.path()).unwrap();
    check(
        &site.path(),
        expect![
            "the store at FOLDER/farrier.db could not open: Is a directory (os error 21); the file and its folder must be writable for the user that Farrier runs as"
        ],
    );
    check(
        Path::new("/proc/farrier.db"),
        expect![
            "the store at /proc/farrier.db could not open: No such file or directory (os error 2); the file and its folder must be writable for the user that Farrier runs as"
        ],
    );
}
