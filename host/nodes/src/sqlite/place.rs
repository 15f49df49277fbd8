//! Where the file may be, who may read it, and how a connection to it is set up.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::schema;
use super::trouble::Trouble;
use crate::StoreError;

/// File systems that several machines may share: their locks, or the shared memory of SQLite's WAL, do not hold across
/// machines, and leases are counted by one machine's clock. Magic numbers as in statfs(2) and the kernel's `magic.h`.
const SHARED_FILE_SYSTEMS: &[(i64, &str)] = &[
    (0x0000_6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0000_517b, "SMB"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "FUSE (sshfs, virtiofs, GlusterFS, …)"),
    (0x00c3_6400, "CephFS"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x2003_0528, "OrangeFS"),
    (0x786f_4256, "a VirtualBox shared folder"),
];

/// How long a connection waits for another process's transaction.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the file (mode 0600, in a folder of mode 0700 if that is missing too) if it is not there; refuses a shared file system.
pub(super) fn prepare(path: &Path) -> Result<(), StoreError> {
    let failed = |action, reason: String| StoreError::Database {
        place: path.display().to_string(),
        action,
        reason,
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| {
        let folder = folder.display();
        failed(
            "make its folder",
            format!("{folder}: {error}; give another --data, or make the folder writable"),
        )
    })?;
    let file_system =
        rustix::fs::statfs(folder).map_err(|error| failed("look at its file system", error.to_string()))?;
    refuse_shared(path, file_system.f_type & 0xffff_ffff)?;

    let open = |new| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(new)
            .mode(0o600)
            .open(path)
    };
    let file: File = match open(true) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => open(false),
        other => other,
    }
    .map_err(|error| {
        failed(
            "open",
            format!("{error}; the file and its folder must be writable for the user that Farrier runs as"),
        )
    })?;
    let mode = file.metadata().map_or(0o600, |found| found.mode());
    if mode & 0o077 != 0 {
        tracing::warn!(store = %path.display(), "others could read the store (mode {:04o}); made 0600", mode & 0o7777);
        file.set_permissions(Permissions::from_mode(0o600))
            .map_err(|error| failed("make private", error.to_string()))?;
    }
    Ok(())
}

fn refuse_shared(path: &Path, magic: i64) -> Result<(), StoreError> {
    match SHARED_FILE_SYSTEMS.iter().find(|(known, _)| *known == magic) {
        None => Ok(()),
        Some((_, name)) => Err(StoreError::Database {
            place: path.display().to_string(),
            action: "open",
            reason: format!(
                "it is on {name}, and SQLite's locks and leases hold on one machine only; put --data on a local disk, or use [store] kind = \"etcd\" for several machines"
            ),
        }),
    }
}

/// A connection that writes, to a file that is a store of ours or new.
pub(super) fn writer(path: &Path) -> Result<Connection, Trouble> {
    let db = connect(path)?;
    schema::recognise(&db, &path.display().to_string())?;
    // The switch to WAL needs the file for itself for a moment, and SQLite does not wait for it by itself.
    let patience = Instant::now() + PATIENCE;
    loop {
        match db.pragma_update(None, "journal_mode", "wal") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < patience => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => break other?,
        }
    }
    // FULL: what was acknowledged survives a power cut. The journal must be on the disk before the BMC hears of it, and a
    // lease or a term that comes back from the dead would undo the fencing. Group commits share the cost of the sync.
    db.pragma_update(None, "synchronous", "full")?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.pragma_update(None, "journal_size_limit", 64 << 20)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}

/// A connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection, Trouble> {
    let db = connect(path)?;
    db.pragma_update(None, "query_only", true)?;
    db.set_prepared_statement_cache_capacity(32);
    Ok(db)
}

fn connect(path: &Path) -> Result<Connection, Trouble> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    db.busy_handler(Some(wait_for_the_lock))?;
    // A hostile file cannot make us run what it holds.
    db.pragma_update(None, "trusted_schema", false)?;
    Ok(db)
}

/// SQLite's own busy handler backs off to 100 ms, so a process that writes without pause starves the others; short, uneven
/// naps give each its turn. Attempt by attempt 1 to 8 ms, 4.5 on average.
fn wait_for_the_lock(attempts: i32) -> bool {
    let nap = Duration::from_millis(rand::random_range(1..=8));
    let waited = Duration::from_micros(4500) * u32::try_from(attempts).unwrap_or(u32::MAX);
    std::thread::sleep(nap);
    waited < PATIENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_machines_share_is_refused_with_the_way_out() {
        let path = Path::new("/mnt/farrier/farrier.db");
        for (magic, name) in SHARED_FILE_SYSTEMS {
            let refusal = refuse_shared(path, *magic).unwrap_err().to_string();
            assert!(refusal.contains(name) && refusal.contains("etcd"), "{refusal}");
        }
        // ext4, XFS, btrfs, tmpfs, overlayfs, ZFS.
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
            refuse_shared(path, local).unwrap();
        }
    }

    #[test]
    fn the_file_is_made_private_and_a_wider_one_is_narrowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/farrier.db");
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o7777;
        prepare(&path).unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        prepare(&path).unwrap();
        assert_eq!(mode(), 0o600);
    }
}
