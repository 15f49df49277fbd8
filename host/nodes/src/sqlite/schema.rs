//! The tables, and the way from one version of them to the next.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::trouble::Trouble;
use crate::{Sealer, StoreError};

/// "Farr": tells our files from other programs' SQLite files.
const APPLICATION_ID: i64 = 0x4661_7272;

/// What a store holds sealed from its first day, to notice a wrong key at once.
const KEY_CHECK: &str = "farrier: this store's key";

/// Step n leads from version n to version n + 1; a step that was released is never edited.
const STEPS: &[&str] = &[
    "
    CREATE TABLE meta(name TEXT PRIMARY KEY, value ANY) STRICT;
    INSERT INTO meta VALUES('change', 0);

    CREATE TABLE node(
        id TEXT PRIMARY KEY,
        name TEXT UNIQUE,
        state TEXT NOT NULL,
        grp TEXT NOT NULL,
        maintenance INTEGER NOT NULL,
        owner TEXT,             -- a conductor's name
        owner_instance TEXT,    -- and which run of it
        term INTEGER NOT NULL,
        version INTEGER NOT NULL,
        change INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        document TEXT NOT NULL,
        sealed BLOB
    ) STRICT;
    CREATE INDEX node_by_state ON node(state, id);
    CREATE INDEX node_by_owner ON node(owner, id);
    CREATE INDEX node_by_change ON node(change);
    CREATE INDEX node_in_maintenance ON node(id) WHERE maintenance = 1;

    CREATE TABLE port(
        id TEXT PRIMARY KEY,
        node TEXT NOT NULL REFERENCES node(id) ON DELETE CASCADE,
        address TEXT NOT NULL UNIQUE
    ) STRICT;
    CREATE INDEX port_by_node ON port(node);

    CREATE TABLE conductor(
        name TEXT PRIMARY KEY,
        instance TEXT NOT NULL,         -- new at each join
        grp TEXT NOT NULL,
        api_url TEXT NOT NULL,
        images_url TEXT NOT NULL,
        agent_urls TEXT NOT NULL,       -- JSON
        boot_id TEXT NOT NULL,
        lease_end INTEGER NOT NULL,     -- boot clock, ns
        lease INTEGER NOT NULL,         -- ns
        replaced_lease_end INTEGER NOT NULL, -- of the run that this one replaced, on the same boot
        pid INTEGER NOT NULL,
        pid_started INTEGER NOT NULL,
        pid_namespace TEXT NOT NULL,
        seen_at INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE artefact(
        node TEXT NOT NULL REFERENCES node(id) ON DELETE CASCADE,
        kind TEXT NOT NULL,
        backend TEXT NOT NULL,
        name_index BLOB NOT NULL UNIQUE,    -- keyed hash of the secret name
        digest TEXT NOT NULL,
        size INTEGER NOT NULL,
        published_by TEXT NOT NULL,
        published_at INTEGER NOT NULL,
        expires INTEGER,
        sealed BLOB NOT NULL,
        PRIMARY KEY(node, kind)
    ) STRICT;

    CREATE TABLE effect(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        node TEXT NOT NULL REFERENCES node(id) ON DELETE CASCADE,
        conductor TEXT NOT NULL,
        term INTEGER NOT NULL,
        action TEXT NOT NULL,
        detail TEXT NOT NULL,
        began_at INTEGER NOT NULL,
        ended INTEGER NOT NULL DEFAULT 0,
        failure TEXT
    ) STRICT;
    CREATE INDEX effect_by_node ON effect(node, id);

    CREATE TABLE plugin_value(
        node TEXT NOT NULL REFERENCES node(id) ON DELETE CASCADE,
        plugin TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY(node, plugin, key)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE event(
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        node TEXT,      -- outlives the node
        conductor TEXT,
        kind TEXT NOT NULL,
        message TEXT NOT NULL
    ) STRICT;
    CREATE INDEX event_by_node ON event(node, seq);
",
    // Documents of nodes name a boot interface and whether the boot was repeated from here on, and artefacts may be boot files.
    "",
];

/// Refuses other programs' files and those of a newer Farrier, before anything of them is touched. Returns the version.
pub(super) fn recognise(db: &Connection, place: &str) -> Result<usize, Trouble> {
    let pragma = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let version = pragma("user_version")?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let is_new = version == 0 && tables == 0;
    if !is_new && pragma("application_id")? != APPLICATION_ID {
        return Err(Trouble::Refused(StoreError::Corrupt {
            place: place.to_owned(),
            reason: "it is a SQLite file of some other program; give another --data".into(),
        }));
    }
    match usize::try_from(version) {
        Ok(version) if version <= STEPS.len() => Ok(version),
        Ok(version) => Err(Trouble::Refused(StoreError::Database {
            place: place.to_owned(),
            action: "open",
            reason: format!(
                "a newer Farrier wrote it (schema {version}, this one knows {}); run that version, or restore the backup from before the upgrade",
                STEPS.len()
            ),
        })),
        Err(_) => Err(Trouble::Refused(StoreError::Corrupt {
            place: place.to_owned(),
            reason: format!("its schema has the impossible number {version}; restore a backup"),
        })),
    }
}

/// Brings the file to this version and checks that the key is the one it was made with. Several processes may do so at once.
pub(super) fn migrate(db: &mut Connection, sealer: &Sealer, place: &str) -> Result<(), Trouble> {
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let steps = &STEPS[recognise(&tx, place)?..];
    for step in steps {
        tx.execute_batch(step)?;
    }
    if !steps.is_empty() {
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        let newest = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
        tx.pragma_update(None, "user_version", newest)?;
    }
    check_key(&tx, sealer, place)?;
    tx.commit()?;
    Ok(())
}

fn check_key(tx: &Connection, sealer: &Sealer, place: &str) -> Result<(), Trouble> {
    let found: Option<Vec<u8>> = tx
        .query_row("SELECT value FROM meta WHERE name = 'key'", [], |row| row.get(0))
        .optional()?;
    match found {
        None => {
            let sealed = sealer.seal(KEY_CHECK, KEY_CHECK.as_bytes());
            tx.execute("INSERT INTO meta VALUES('key', ?1)", [sealed])?;
            Ok(())
        }
        Some(sealed) if sealer.open(KEY_CHECK, &sealed).is_some() => Ok(()),
        Some(_) => Err(Trouble::Refused(StoreError::Corrupt {
            place: place.to_owned(),
            reason: format!(
                "its secrets were sealed with another key than {}; put the key file back that belongs to this store (secret-key-file)",
                sealer.path()
            ),
        })),
    }
}
