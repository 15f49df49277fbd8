//! Files of this machine: only from allowed folders, copied or reflinked in, never referenced where they lie.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use model::Sha256;
use rustix::fs::OFlags;
use sha2::Digest as _;
use tempfile::NamedTempFile;

use crate::SourceError;
use crate::cache::Proof;
use crate::images::read_ends;

/// Bytes read at once.
const CHUNK: usize = 1 << 20;

/// A file that may be read.
pub(crate) struct Allowed {
    file: File,
    shown: String,
}

/// A file's content in a temporary file of the cache.
pub(crate) struct Copied {
    pub(crate) sha256: Sha256,
    /// Where it was asked for.
    pub(crate) sha512: Option<[u8; 64]>,
    pub(crate) len: u64,
    /// `None` if the file is so young that a later change might not show in its times.
    pub(crate) proof: Option<Proof>,
}

/// Opens a file if, its links resolved, it lies in one of the allowed folders.
pub(crate) fn open(path: &Path, allowed: &[PathBuf]) -> Result<Allowed, SourceError> {
    let shown = path.display().to_string();
    let refuse = |path: PathBuf| {
        let names: Vec<String> = allowed.iter().map(|dir| dir.display().to_string()).collect();
        let allowed = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        SourceError::NotAllowed { path, allowed }
    };
    let real = match path.canonicalize() {
        Ok(real) => real,
        // Whether it exists is told only about folders that may be read.
        Err(error) => {
            let dotted = path.components().any(|part| part == std::path::Component::ParentDir);
            return Err(if !dotted && allowed.iter().any(|dir| path.starts_with(dir)) {
                read_error(&shown, error)
            } else {
                refuse(path.to_owned())
            });
        }
    };
    for dir in allowed {
        let Ok(dir) = dir.canonicalize() else {
            continue;
        };
        let Ok(inside) = real.strip_prefix(&dir) else {
            continue;
        };
        let file = open_inside(&dir, inside).map_err(|error| read_error(&shown, error))?;
        return Ok(Allowed { file, shown });
    }
    Err(refuse(real))
}

/// Once the folder is open nothing leads out of it, whatever is swapped for a link meanwhile.
fn open_inside(dir: &Path, inside: &Path) -> io::Result<File> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    // A file can be allowed by itself.
    let (dir, inside) = match (dir.parent(), dir.file_name()) {
        (Some(folder), Some(name)) if inside.as_os_str().is_empty() => (folder, Path::new(name)),
        _ => (dir, inside),
    };
    let dir = Dir::open_ambient_dir(dir, ambient_authority())?;
    let mut options = OpenOptions::new();
    // A pipe must not block.
    let nonblock = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = dir
        .open_with(inside, options.read(true).custom_flags(nonblock))?
        .into_std();
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(no_file())
    }
}

impl Allowed {
    /// Whether the file is still the one that a record was made of.
    pub(crate) fn is(&self, proof: &Proof, len: u64) -> bool {
        self.file
            .metadata()
            .is_ok_and(|now| now.len() == len && proof_of(&now) == *proof)
    }

    /// Bytes that it has now.
    pub(crate) fn len(&self) -> Result<u64, SourceError> {
        let metadata = self.file.metadata().map_err(|error| read_error(&self.shown, error))?;
        Ok(metadata.len())
    }

    /// First and last bytes, and the length.
    pub(crate) fn ends(&self, head: usize, tail: usize) -> io::Result<(Bytes, Option<Bytes>, Option<u64>)> {
        let len = self.file.metadata()?.len();
        let (head, tail) = read_ends(&self.file, len, head, tail)?;
        Ok((head.into(), Some(tail.into()), Some(len)))
    }

    /// Brings the content into `into`; with its SHA-512 where that is asked for.
    pub(crate) fn copy(mut self, into: &mut NamedTempFile, max: u64, sha512: bool) -> Result<Copied, CopyError> {
        let fail = |error| CopyError::Source(read_error(&self.shown, error));
        let before = self.file.metadata().map_err(fail)?;
        let too_big = || {
            CopyError::Source(SourceError::TooBig {
                reference: self.shown.clone(),
                max,
            })
        };
        if before.len() > max {
            return Err(too_big());
        }
        let started = SystemTime::now();
        // A clone is a snapshot; where there is none, a copy shows by the times whether it was one.
        let cloned = rustix::fs::ioctl_ficlone(into.as_file(), &self.file).is_ok();
        let mut hash = sha2::Sha256::new();
        let mut long = sha512.then(sha2::Sha512::new);
        let mut buffer = vec![0; CHUNK];
        let mut len: u64 = 0;
        loop {
            let read = if cloned {
                into.read(&mut buffer).map_err(CopyError::Cache)?
            } else {
                self.file.read(&mut buffer).map_err(fail)?
            };
            if read == 0 {
                break;
            }
            len = len.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            if len > max {
                return Err(too_big());
            }
            hash.update(&buffer[..read]);
            if let Some(hash) = &mut long {
                hash.update(&buffer[..read]);
            }
            if !cloned {
                into.write_all(&buffer[..read]).map_err(CopyError::Cache)?;
            }
        }
        let after = self.file.metadata().map_err(fail)?;
        let same = proof_of(&before) == proof_of(&after) && before.len() == len && after.len() == len;
        if !same {
            return Err(CopyError::Source(SourceError::Changed {
                reference: self.shown.clone(),
            }));
        }
        Ok(Copied {
            sha256: Sha256(hash.finalize().into()),
            sha512: long.map(|hash| hash.finalize().into()),
            len,
            proof: tells_changes(&before, started).then(|| proof_of(&before)),
        })
    }
}

/// What failed: the source, or the cache that it was written to.
pub(crate) enum CopyError {
    Source(SourceError),
    Cache(io::Error),
}

fn proof_of(metadata: &std::fs::Metadata) -> Proof {
    Proof::File {
        device: metadata.dev(),
        inode: metadata.ino(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// Whether a write after `now` is sure to change the file's times: they move in ticks, of some milliseconds or, on file
/// systems that keep none, of seconds.
fn tells_changes(metadata: &std::fs::Metadata, now: SystemTime) -> bool {
    let coarse = metadata.ctime_nsec() == 0 && metadata.mtime_nsec() == 0;
    let tick = if coarse {
        Duration::from_secs(2)
    } else {
        Duration::from_millis(50)
    };
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(metadata.ctime()), u32::try_from(metadata.ctime_nsec())) else {
        return false;
    };
    let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
    now.duration_since(changed).is_ok_and(|age| age > tick)
}

fn read_error(shown: &str, error: io::Error) -> SourceError {
    let reference = shown.to_owned();
    if error.kind() == io::ErrorKind::NotFound {
        let reason = "no such file".to_owned();
        return SourceError::NotFound { reference, reason };
    }
    SourceError::Read {
        reference,
        source: Arc::new(error),
    }
}
