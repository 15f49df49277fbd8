//! One fetch of a reference at a time, among all processes that share a cache.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use model::Sha256;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use sha2::Digest as _;

use super::{Cache, cache_error};
use crate::SourceError;

/// How often one looks whether it is one's turn.
const LOOK: Duration = Duration::from_millis(50);

/// The right to fetch a reference; others wait until it is dropped, or its process is dead.
pub(crate) struct Turn {
    path: PathBuf,
    _locked: File,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Those who wait for this very file see that it is gone, and take another. One that stays is swept some day.
        let _removed = fs::remove_file(&self.path);
    }
}

impl Cache {
    /// Waits for one's turn; the caller has a deadline.
    pub(crate) async fn turn(&self, reference: &str) -> Result<Turn, SourceError> {
        let name = Sha256(sha2::Sha256::digest(reference).into()).to_string();
        let path = self.dir.join("turns").join(name);
        let mut told = false;
        loop {
            match try_lock(&path) {
                Ok(Some(locked)) => return Ok(Turn { path, _locked: locked }),
                Ok(None) => {}
                Err(error) => return Err(cache_error("lock", &path, error)),
            }
            if !std::mem::replace(&mut told, true) {
                tracing::debug!(turn = %path.display(), "another process fetches the same");
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn try_lock(path: &PathBuf) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    // Locked, but perhaps no longer what the path names.
    let (ours, named) = (file.metadata()?, fs::metadata(path));
    let same = named.is_ok_and(|named| (named.dev(), named.ino()) == (ours.dev(), ours.ino()));
    Ok(same.then_some(file))
}
