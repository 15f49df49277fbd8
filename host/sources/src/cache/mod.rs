//! The cache on disk: content by its SHA-256, and what is known of each reference.
//!
//! ```text
//! DIR/ab/ab…           content, never written to again
//! DIR/references/…     one record a reference, by the reference's SHA-256
//! DIR/digests/…        which content has another digest (`sha512-…`)
//! DIR/tmp/             what is being fetched, each locked by its writer
//! DIR/turns/           one lock a reference that is being fetched
//! ```
//!
//! Content has its last use as its access time. Its modification time says nothing about time: it is made from its digest
//! when it is complete, so that a later write by anybody shows when it is opened. Every use holds a shared lock on the
//! file, and who removes it needs it alone: several processes may share a folder. The kernel lets go of the locks of a
//! process that dies, so what it left is told from what is at work.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::Sha256;
use rustix::fs::{FlockOperation, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use sha2::Digest as _;
use tempfile::NamedTempFile;

use crate::{Entry, SourceError};

mod prune;
mod records;
mod turn;

pub(crate) use prune::PruneRule;
pub(crate) use records::{Proof, Record};

/// A use is noted at most this often.
const TOUCH: Duration = Duration::from_secs(60);

pub(crate) struct Cache {
    pub(crate) dir: PathBuf,
}

/// Content that is there and whole. It is not removed by any process for as long as this lives.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) file: File,
    pub(crate) len: u64,
}

impl Cache {
    pub(crate) fn open(dir: &Path) -> Result<Self, SourceError> {
        let cache = Self { dir: dir.to_owned() };
        for folder in ["", "tmp", "turns", "references", "digests"] {
            let folder = dir.join(folder);
            make_folder(&folder).map_err(|error| cache_error("make", &folder, error))?;
        }
        for folder in ["tmp", "turns"] {
            let folder = dir.join(folder);
            sweep(&folder).map_err(|error| cache_error("remove what a crash left in", &folder, error))?;
        }
        Ok(cache)
    }

    pub(crate) fn object(&self, sha256: &Sha256) -> PathBuf {
        let name = sha256.to_string();
        self.dir.join(&name[..2]).join(name)
    }

    /// Takes hold of content that is there, its use noted. Content that somebody has written to is removed: it is none.
    pub(crate) fn hold(&self, sha256: &Sha256) -> io::Result<Option<Hold>> {
        let path = self.object(sha256);
        let file = match open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // A link that somebody put in its place.
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                damaged(&path)?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        lock_shared(&file)?;
        let metadata = file.metadata()?;
        if metadata.nlink() == 0 {
            return Ok(None);
        }
        if !is_whole(&metadata, sha256) {
            damaged(&path)?;
            return Ok(None);
        }
        note_use(&path, &file, &metadata);
        Ok(Some(Hold {
            len: metadata.len(),
            file,
        }))
    }

    /// A file to fetch into; gone when dropped, and after a crash.
    pub(crate) fn temporary(&self) -> Result<NamedTempFile, SourceError> {
        let tmp = self.dir.join("tmp");
        let make = || -> io::Result<NamedTempFile> {
            loop {
                let file = tempfile::Builder::new().prefix("fetch-").tempfile_in(&tmp)?;
                // Else a sweeper saw it before it was locked.
                match rustix::fs::flock(file.as_file(), FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) if file.as_file().metadata()?.nlink() > 0 => return Ok(file),
                    Ok(()) | Err(Errno::WOULDBLOCK) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        };
        make().map_err(|error| cache_error("write in", &tmp, error))
    }

    /// Makes a fetched file the content of that digest: whole and on disk before it has its name. Returns an error of the
    /// file system as it is, since a full disk shows here too.
    pub(crate) fn keep(&self, file: NamedTempFile, sha256: &Sha256, len: u64) -> io::Result<Hold> {
        if let Some(hold) = self.hold(sha256)?
            && hold.len == len
        {
            return Ok(hold);
        }
        let path = self.object(sha256);
        let folder = path.parent().unwrap_or(&self.dir);
        make_folder(folder)?;
        let written = file.as_file();
        written.set_permissions(Permissions::from_mode(0o400))?;
        let times = Timestamps {
            last_access: now(),
            last_modification: seal(sha256),
        };
        rustix::fs::futimens(written, &times)?;
        written.sync_all()?;
        let read = open(file.path())?;
        // From here on it is held as all content is; nobody else can open it yet.
        rustix::fs::flock(written, FlockOperation::LockShared)?;
        rustix::fs::flock(&read, FlockOperation::LockShared)?;
        file.persist(&path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()?;
        File::open(&self.dir)?.sync_all()?;
        Ok(Hold { file: read, len })
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
                entries.push(Entry {
                    sha256,
                    len: metadata.len(),
                    used: metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH),
                });
            }
        }
        entries.sort_by_key(|entry| (entry.used, entry.sha256));
        Ok(entries)
    }

    /// Reads content to its end: whether it is still what its name says. Does not count as a use.
    pub(crate) fn verify(&self, sha256: &Sha256) -> io::Result<bool> {
        let path = self.object(sha256);
        let quiet = |flags: OFlags| File::options().read(true).custom_flags(flag_bits(flags)).open(&path);
        // Only the owner may read without leaving a trace.
        let mut file = quiet(OFlags::NOATIME).or_else(|_| quiet(OFlags::empty()))?;
        lock_shared(&file)?;
        let metadata = file.metadata()?;
        let mut hash = sha2::Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        loop {
            match io::Read::read(&mut file, &mut buffer)? {
                0 => break,
                count => hash.update(&buffer[..count]),
            }
        }
        Ok(is_whole(&metadata, sha256) && Sha256(hash.finalize().into()) == *sha256)
    }

    /// Bytes that may still be written here.
    pub(crate) fn free(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

pub(crate) fn cache_error(action: &'static str, path: &Path, source: io::Error) -> SourceError {
    SourceError::Cache {
        action,
        path: path.to_owned(),
        source: Arc::new(source),
    }
}

fn damaged(path: &Path) -> io::Result<()> {
    tracing::error!(path = %path.display(), "cached content was changed by somebody; it is fetched again");
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Links are no content, wherever they lead.
fn open(path: &Path) -> io::Result<File> {
    let flags = flag_bits(OFlags::NOFOLLOW);
    File::options().read(true).custom_flags(flags).open(path)
}

/// Whoever is removing it is done in a moment, unless it was frozen in the middle of that.
fn lock_shared(file: &File) -> io::Result<()> {
    const TRIES: u32 = 100;
    for _ in 0..TRIES {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(2)),
            locked => return Ok(locked?),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::WouldBlock,
        "another process is removing it and does not get on",
    ))
}

fn flag_bits(flags: OFlags) -> i32 {
    i32::try_from(flags.bits()).unwrap_or_default()
}

fn now() -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    }
}

/// The modification time that content of this digest has.
fn seal(sha256: &Sha256) -> Timespec {
    let [a, b, c, d, ..] = sha256.0;
    Timespec {
        tv_sec: i64::from(u32::from_be_bytes([a & 0x7f, b, c, d])),
        tv_nsec: 0,
    }
}

fn is_whole(metadata: &fs::Metadata, sha256: &Sha256) -> bool {
    metadata.is_file() && metadata.mtime() == seal(sha256).tv_sec && metadata.mtime_nsec() == 0
}

fn note_use(path: &Path, file: &File, metadata: &fs::Metadata) {
    let recent = metadata
        .accessed()
        .is_ok_and(|then| SystemTime::now().duration_since(then).is_ok_and(|age| age <= TOUCH));
    if recent {
        return;
    }
    let times = Timestamps {
        last_access: now(),
        last_modification: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
    };
    if let Err(error) = rustix::fs::futimens(file, &times) {
        tracing::warn!(path = %path.display(), %error, "the last use of a source could not be noted");
    }
}

/// Removes files that nobody has locked: their processes are gone.
fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let swept = open(&path).and_then(|file| {
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            fs::remove_file(&path)
        });
        match swept {
            Ok(()) => tracing::info!(path = %path.display(), "removed what a process that died was fetching"),
            Err(error) if error.raw_os_error() == Some(Errno::WOULDBLOCK.raw_os_error()) => {}
            // It was done, or swept by somebody else.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
