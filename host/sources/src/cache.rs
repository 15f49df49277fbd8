//! The cache on disk: content by its SHA-256, and what is known of each reference.
//!
//! ```text
//! DIR/lock             held shared by every process that uses the cache
//! DIR/tmp/             what is being fetched; removed at the start of the first process
//! DIR/ab/ab…           content, never written to again; its modification time is its last use
//! DIR/references/…     one record a reference, by the reference's SHA-256
//! ```

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use model::Sha256;
use rustix::fs::FlockOperation;
use serde::Deserialize;
use serde::Serialize;
use sha2::Digest as _;
use tempfile::NamedTempFile;

use crate::{Entry, Pruned, SourceError};

/// A use is noted at most this often.
const TOUCH: Duration = Duration::from_secs(60);
/// Biggest record that is read.
const RECORD_CAP: u64 = 64 << 10;

pub(crate) struct Cache {
    pub(crate) dir: PathBuf,
    _lock: File,
    held: Arc<Mutex<HashMap<Sha256, usize>>>,
}

/// Keeps content from being pruned for as long as it lives.
pub(crate) struct Hold {
    sha256: Sha256,
    held: Arc<Mutex<HashMap<Sha256, usize>>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&self.sha256) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.sha256);
            }
        }
    }
}

/// What is known of a reference.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    sha256: String,
    pub(crate) len: u64,
    pub(crate) proof: Proof,
}

/// What shows that a reference still means the same content.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Proof {
    /// The file's identity and times.
    File {
        device: u64,
        inode: u64,
        modified: (i64, i64),
        changed: (i64, i64),
    },
    /// The server's validators, and when it was last asked (seconds since 1970).
    Http {
        etag: Option<String>,
        last_modified: Option<String>,
        checked: u64,
    },
}

impl Record {
    pub(crate) fn new(sha256: Sha256, len: u64, proof: Proof) -> Self {
        let sha256 = sha256.to_string();
        Self { sha256, len, proof }
    }

    pub(crate) fn sha256(&self) -> Option<Sha256> {
        self.sha256.parse().ok()
    }
}

impl Cache {
    pub(crate) fn open(dir: &Path) -> Result<Self, SourceError> {
        let fail = |action: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| cache_error(action, &path, source)
        };
        for folder in [dir.to_owned(), dir.join("tmp"), dir.join("references")] {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder)
                .map_err(fail("make", &folder))?;
        }
        let path = dir.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(fail("open", &path))?;
        // Alone: what lies in tmp belongs to nobody any more.
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let tmp = dir.join("tmp");
            for entry in fs::read_dir(&tmp).map_err(fail("read", &tmp))? {
                let left = entry.map_err(fail("read", &tmp))?.path();
                fs::remove_file(&left).map_err(fail("remove", &left))?;
            }
        }
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared)
            .map_err(io::Error::from)
            .map_err(fail("lock", &path))?;
        Ok(Self {
            dir: dir.to_owned(),
            _lock: lock,
            held: Arc::default(),
        })
    }

    pub(crate) fn object(&self, sha256: &Sha256) -> PathBuf {
        let name = sha256.to_string();
        self.dir.join(&name[..2]).join(name)
    }

    /// Length of content that is there, its use noted.
    pub(crate) fn has(&self, sha256: &Sha256) -> Option<u64> {
        let path = self.object(sha256);
        let metadata = fs::metadata(&path).ok()?;
        let noted = metadata.modified().ok()?;
        if SystemTime::now().duration_since(noted).is_ok_and(|age| age > TOUCH)
            && let Err(error) = touch(&path)
        {
            tracing::warn!(path = %path.display(), %error, "the last use of a source could not be noted");
        }
        Some(metadata.len())
    }

    pub(crate) fn hold(&self, sha256: Sha256) -> Hold {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held.entry(sha256).or_default() += 1;
        Hold {
            sha256,
            held: Arc::clone(&self.held),
        }
    }

    /// A file to fetch into; gone when dropped.
    pub(crate) fn temporary(&self) -> Result<NamedTempFile, SourceError> {
        let tmp = self.dir.join("tmp");
        tempfile::Builder::new()
            .prefix("fetch-")
            .tempfile_in(&tmp)
            .map_err(|error| cache_error("write in", &tmp, error))
    }

    /// Makes a fetched file the content of that digest: on disk before it has its name. Returns an error of the file
    /// system as it is, since a full disk shows here too.
    pub(crate) fn keep(&self, file: NamedTempFile, sha256: &Sha256, len: u64) -> io::Result<()> {
        let path = self.object(sha256);
        // Touching fails if another process has just pruned it.
        if fs::metadata(&path).is_ok_and(|there| there.len() == len) && touch(&path).is_ok() {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&self.dir);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        file.as_file().set_permissions(Permissions::from_mode(0o400))?;
        touch_file(file.as_file())?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()?;
        File::open(&self.dir)?.sync_all()
    }

    fn record_path(&self, reference: &str) -> PathBuf {
        let name = Sha256(sha2::Sha256::digest(reference).into());
        self.dir.join("references").join(name.to_string())
    }

    /// What is known of a reference; only if its content is still there, and whole.
    pub(crate) fn record(&self, reference: &str) -> Option<(Record, Sha256)> {
        let path = self.record_path(reference);
        if fs::metadata(&path).ok()?.len() > RECORD_CAP {
            return None;
        }
        let record: Record = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let sha256 = record.sha256()?;
        (self.has(&sha256)? == record.len).then_some((record, sha256))
    }

    /// Writes down what is known; losing it costs a fetch and nothing else.
    pub(crate) fn note(&self, reference: &str, record: &Record) {
        let path = self.record_path(reference);
        let write = || -> Result<(), String> {
            let mut file = self.temporary().map_err(|error| error.to_string())?;
            let text = serde_json::to_vec(record).map_err(|error| error.to_string())?;
            file.write_all(&text).map_err(|error| error.to_string())?;
            file.persist(&path).map_err(|error| error.to_string())?;
            Ok(())
        };
        if let Err(error) = write() {
            tracing::warn!(path = %path.display(), error, "a source will be fetched again next time");
        }
    }

    /// Everything that is there, least recently used first.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, SourceError> {
        let read = |dir: &Path| fs::read_dir(dir).map_err(|error| cache_error("read", dir, error));
        let mut entries = Vec::new();
        for folder in read(&self.dir)?.flatten() {
            if folder.file_name().len() != 2 || !folder.path().is_dir() {
                continue;
            }
            for file in read(&folder.path())?.flatten() {
                let sha256 = file.file_name().to_str().and_then(|name| name.parse::<Sha256>().ok());
                // Somebody else may be pruning too.
                let (Some(sha256), Ok(metadata)) = (sha256, file.metadata()) else {
                    continue;
                };
                let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let len = metadata.len();
                entries.push(Entry { sha256, len, used });
            }
        }
        entries.sort_by_key(|entry| (entry.used, entry.sha256));
        Ok(entries)
    }

    /// Removes what is too old and, least recently used first, what is too much. What is pinned or held does not count and
    /// is never removed.
    pub(crate) fn prune(&self, pins: &HashSet<Sha256>, rule: &PruneRule) -> Result<Pruned, SourceError> {
        let now = SystemTime::now();
        let age = |entry: &Entry| now.duration_since(entry.used).unwrap_or_default();
        let mut loose = self.entries()?;
        loose.retain(|entry| !pins.contains(&entry.sha256));
        let mut total: u64 = loose.iter().map(|entry| entry.len).sum();
        let mut pruned = Pruned::default();
        for entry in &loose {
            let old = rule.max_age.is_some_and(|max| age(entry) > max);
            if (total <= rule.max_bytes && !old) || age(entry) < rule.keep_recent {
                continue;
            }
            // Held until it is gone, so that nobody begins to hold it in between.
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            if held.contains_key(&entry.sha256) {
                continue;
            }
            let path = self.object(&entry.sha256);
            match fs::remove_file(&path) {
                Ok(()) => {
                    pruned.files += 1;
                    pruned.bytes += entry.len;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(cache_error("remove", &path, error)),
            }
            drop(held);
            total = total.saturating_sub(entry.len);
        }
        self.forget_lost_references();
        Ok(pruned)
    }

    fn forget_lost_references(&self) {
        let Ok(records) = fs::read_dir(self.dir.join("references")) else {
            return;
        };
        for path in records.flatten().map(|entry| entry.path()) {
            let record = fs::read(&path)
                .ok()
                .and_then(|text| serde_json::from_slice::<Record>(&text).ok());
            let there = record
                .and_then(|record| record.sha256())
                .is_some_and(|sha256| self.object(&sha256).exists());
            if !there {
                // Whoever could not remove it comes by again.
                let _removed = fs::remove_file(path);
            }
        }
    }
}

/// How much may stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PruneRule {
    pub(crate) max_bytes: u64,
    pub(crate) max_age: Option<Duration>,
    pub(crate) keep_recent: Duration,
}

pub(crate) fn cache_error(action: &'static str, path: &Path, source: io::Error) -> SourceError {
    SourceError::Cache {
        action,
        path: path.to_owned(),
        source: Arc::new(source),
    }
}

fn touch(path: &Path) -> io::Result<()> {
    touch_file(&File::open(path)?)
}

fn touch_file(file: &File) -> io::Result<()> {
    file.set_modified(SystemTime::now())
}
