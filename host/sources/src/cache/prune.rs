//! What may stay.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::time::{Duration, SystemTime};

use model::Sha256;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{Cache, cache_error, open};
use crate::{Entry, Pruned, SourceError};

/// How much may stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PruneRule {
    pub(crate) max_bytes: u64,
    pub(crate) max_age: Option<Duration>,
    pub(crate) keep_recent: Duration,
    /// So many bytes go, whatever the bounds, if so many may.
    pub(crate) at_least: u64,
    /// Say what would go, and remove nothing.
    pub(crate) dry_run: bool,
}

impl Cache {
    /// Removes what is too old and, least recently used first, what is too much. What is pinned or in use does not go;
    /// what is pinned does not count either.
    pub(crate) fn prune(&self, pins: &HashSet<Sha256>, rule: &PruneRule) -> Result<Pruned, SourceError> {
        let now = SystemTime::now();
        let age = |entry: &Entry| now.duration_since(entry.used).unwrap_or_default();
        let mut loose = self.entries()?;
        loose.retain(|entry| !pins.contains(&entry.sha256));
        let mut total: u64 = loose.iter().map(|entry| entry.len).sum();
        let mut pruned = Pruned::default();
        for entry in loose {
            let old = rule.max_age.is_some_and(|max| age(&entry) > max);
            let much = total > rule.max_bytes || pruned.bytes < rule.at_least;
            if (!much && !old) || age(&entry) < rule.keep_recent {
                continue;
            }
            if self.remove(&entry.sha256, rule.dry_run)? {
                total = total.saturating_sub(entry.len);
                pruned.files += 1;
                pruned.bytes += entry.len;
                pruned.removed.push(entry);
            }
        }
        if !rule.dry_run {
            self.forget_lost();
        }
        Ok(pruned)
    }

    /// Removes content unless somebody uses it. It counts as removed if somebody else was quicker.
    pub(crate) fn remove(&self, sha256: &Sha256, dry_run: bool) -> Result<bool, SourceError> {
        let path = self.object(sha256);
        let remove = || -> io::Result<bool> {
            let file = open(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if dry_run => Ok(true),
                // Whoever opened it before this waits for our lock, and then sees that it is gone.
                Ok(()) => fs::remove_file(&path).map(|()| true),
                Err(Errno::WOULDBLOCK) => Ok(false),
                Err(error) => Err(error.into()),
            }
        };
        match remove() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            result => result.map_err(|error| cache_error("remove", &path, error)),
        }
    }
}
