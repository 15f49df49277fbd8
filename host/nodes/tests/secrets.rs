//! What a thief of the disk, a wrong key and a meddler find.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use expect_test::{Expect, expect};
use model::{ArtefactKind, NodeId, Secret, Verb, Wish};
use nodes::{NodeRef, Sealer, SqliteStore, Store, StoreError};

mod support;
use support::{LONG, Site, artefact, holding, node, open};

const SECRETS: [&str; 7] = [
    "hunter2-bmc-password",
    "agent-token-5e61",
    "config-drive-of-a-user",
    "artefactnamenobodyguesses",
    "recipe-literal-bytes",
    "secret-url-path",
    "second-node-password",
];

async fn fill(store: &SqliteStore) -> (NodeId, NodeId) {
    let (holder, mine) = holding(store, "c1", LONG).await;
    let mut first = node("n1");
    first.secrets = [("ilo_password".to_owned(), Secret::new(SECRETS[0]))].into();
    first.agent.token = Some(Secret::new(SECRETS[1]));
    first.wish = Some(Wish::Provision {
        verb: Verb::Active,
        config_drive: Some(Secret::new(SECRETS[2])),
    });
    store.create_node(&first, &[]).await.unwrap();
    let mut floppy = artefact(holder, ArtefactKind::Floppy, SECRETS[3]);
    floppy.recipe = Secret::new(SECRETS[4]);
    floppy.url = Secret::new(format!("http://x/{}", SECRETS[5]));
    store.put_artefact(&floppy, &mine).await.unwrap();
    let mut second = node("n2");
    second.secrets = [("ilo_password".to_owned(), Secret::new(SECRETS[6]))].into();
    store.create_node(&second, &[]).await.unwrap();
    (first.id, second.id)
}

#[tokio::test]
async fn no_file_of_the_store_holds_a_secret_in_clear() {
    let site = Site::new();
    let store = site.open();
    fill(&store).await;
    let mut files = 0;
    for entry in std::fs::read_dir(site.folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for secret in SECRETS {
            let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{secret} stands in {}", path.display());
        }
        files += 1;
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", path.display());
    }
    // Data, log and shared memory of SQLite, and the key.
    assert_eq!(files, 4);
    // The check can fail: what is not secret does stand there.
    let log = std::fs::read(site.folder.path().join("farrier.db-wal")).unwrap();
    assert!(log.windows(12).any(|part| part == b"ilo_password") || log.windows(9).any(|part| part == b"agent_ilo"));
}

#[tokio::test]
async fn a_store_does_not_open_under_another_key() {
    let site = Site::new();
    fill(&site.open()).await;
    let key = site.folder.path().join("secret.key");
    std::fs::remove_file(&key).unwrap();
    let Err(error) = open(site.folder.path()) else {
        panic!("opened");
    };
    assert!(matches!(error, StoreError::Corrupt { .. }));
    let folder = site.folder.path().display().to_string();
    expect!["FOLDER/farrier.db cannot be read: its secrets were sealed with another key than FOLDER/secret.key; put the key file back that belongs to this store (secret-key-file)"]
        .assert_eq(&error.to_string().replace(&folder, "FOLDER"));
}

#[tokio::test]
async fn sealed_values_that_were_swapped_or_changed_are_noticed() {
    let site = Site::new();
    let store = site.open();
    let (first, second) = fill(&store).await;
    let db = rusqlite::Connection::open(site.path()).unwrap();
    let refused = async |expected: Expect| {
        let error = store.node(&NodeRef::Id(second)).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }));
        let folder = site.folder.path().display().to_string();
        let text = error.to_string().replace(&folder, "FOLDER");
        expected.assert_eq(&text.replace(&second.to_string(), "SECOND"));
    };
    let sealed: Vec<u8> = db
        .query_row("SELECT sealed FROM node WHERE id = ?1", [second.to_string()], |row| {
            row.get(0)
        })
        .unwrap();
    let set = |sealed: &[u8]| {
        let sql = "UPDATE node SET sealed = ?1 WHERE id = ?2";
        db.execute(sql, (sealed, second.to_string())).unwrap();
    };
    let moved = "UPDATE node SET sealed = (SELECT sealed FROM node WHERE id = ?1) WHERE id = ?2";
    db.execute(moved, [first.to_string(), second.to_string()]).unwrap();
    refused(expect!["`node SECOND` of a stored record cannot be read: its secrets do not open with the key in FOLDER/secret.key, or were changed; somebody else changed it, or the disk did: restore a backup"]).await;
    let mut changed = sealed.clone();
    changed[30] ^= 1;
    set(&changed);
    assert!(store.node(&NodeRef::Id(second)).await.is_err());
    set(&[]);
    assert!(store.node(&NodeRef::Id(second)).await.is_err());
    set(&sealed);
    store.node(&NodeRef::Id(second)).await.unwrap().unwrap();
    for (column, value) in [
        ("document", "{"),
        ("document", "{}"),
        ("document", "[1]"),
        ("state", "sleeping"),
        ("version", "-1"),
        ("id", "x"),
    ] {
        let before: rusqlite::types::Value = db
            .query_row(
                &format!("SELECT {column} FROM node WHERE id = ?1"),
                [second.to_string()],
                |row| row.get(0),
            )
            .unwrap();
        let sql = format!("UPDATE node SET {column} = ?1 WHERE name = 'n2'");
        db.execute(&sql, [value]).unwrap();
        let listed = store.nodes(&nodes::Filter::default()).await;
        assert!(
            matches!(listed, Err(StoreError::Corrupt { .. })),
            "{column} = {value}: {listed:?}"
        );
        db.execute(&sql, [before]).unwrap();
    }
    store.node(&NodeRef::Id(second)).await.unwrap().unwrap();
}

#[test]
fn a_sealer_shows_where_its_key_is_and_nothing_of_it() {
    let site = Site::new();
    let path = site.folder.path().join("secret.key");
    let sealer = Sealer::from_file(&path).unwrap();
    assert_eq!(format!("{sealer:?}"), format!("Sealer({})", path.display()));
}
