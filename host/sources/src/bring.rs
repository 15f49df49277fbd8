//! Bringing a source into the cache: from a file or a server, checked, kept, and noted so that it need not come again.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::Sha256;
use tokio::task::spawn_blocking;
use url::Url;

use crate::cache::{Hold, Proof, PruneRule, Record, cache_error};
use crate::file::{self, CopyError};
use crate::http::{Brought, FetchError, Known};
use crate::reference::{Place, Reference};
use crate::{Fetched, Inner, Pruned, SourceError};

impl Inner {
    pub(super) async fn bring(
        self: Arc<Self>,
        reference: Reference,
        checksum: Option<Sha256>,
    ) -> Result<Fetched, SourceError> {
        if let Some(sha256) = checksum {
            // Held before looked at, so that it cannot go in between.
            let hold = self.cache.hold(sha256);
            if let Some(len) = self.cache.has(&sha256) {
                return Ok(fetched(&reference, sha256, len, hold));
            }
        }
        match reference.place.clone() {
            Place::File(path) => {
                let inner = Arc::clone(&self);
                blocking(&self, move || inner.bring_file(&reference, &path, checksum)).await
            }
            Place::Http(url) => self.bring_http(reference, &url, checksum).await,
        }
    }

    fn bring_file(&self, reference: &Reference, path: &Path, checksum: Option<Sha256>) -> Result<Fetched, SourceError> {
        let file = file::open(path, &self.config.allowed_file_paths)?;
        if let Some((record, sha256)) = self.cache.record(&reference.raw)
            && file.is(&record.proof, record.len)
        {
            let hold = self.cache.hold(sha256);
            if self.cache.has(&sha256).is_some() {
                check(reference, checksum, sha256)?;
                return Ok(fetched(reference, sha256, record.len, hold));
            }
        }
        let mut into = self.cache.temporary()?;
        let copied = file
            .copy(&mut into, self.config.max_source_bytes)
            .map_err(|error| match error {
                CopyError::Source(error) => error,
                CopyError::Cache(error) => self.write_error(reference, error),
            })?;
        check(reference, checksum, copied.sha256)?;
        let fetched = self.keep(reference, into, copied.sha256, copied.len)?;
        if let Some(proof) = copied.proof {
            self.cache
                .note(&reference.raw, &Record::new(copied.sha256, copied.len, proof));
        }
        self.tidy();
        Ok(fetched)
    }

    async fn bring_http(
        self: Arc<Self>,
        reference: Reference,
        url: &Url,
        checksum: Option<Sha256>,
    ) -> Result<Fetched, SourceError> {
        let mut known = None;
        if let Some((record, sha256)) = self.cache.record(&reference.raw)
            && let Proof::Http {
                etag,
                last_modified,
                checked,
            } = record.proof
        {
            let hold = self.cache.hold(sha256);
            let age = now().checked_sub(checked).map(Duration::from_secs);
            let fresh = age.is_some_and(|age| age < self.config.revalidate_after);
            let there = self.cache.has(&sha256).is_some();
            // A wrong checksum is worth asking for, however fresh the answer.
            if there && fresh && checksum.is_none_or(|checksum| checksum == sha256) {
                return Ok(fetched(&reference, sha256, record.len, hold));
            }
            if there && (etag.is_some() || last_modified.is_some()) {
                known = Some((Known { etag, last_modified }, sha256, record.len, hold));
            }
        }
        let into = self.cache.temporary()?;
        let brought = self
            .http
            .fetch(url, known.as_ref().map(|(known, ..)| known), into)
            .await
            .map_err(|error| match error {
                FetchError::Source(error) => error,
                FetchError::Cache(error) => self.write_error(&reference, error),
            })?;
        let inner = Arc::clone(&self);
        blocking(&self, move || match brought {
            Brought::Same => {
                let Some((known, sha256, len, hold)) = known else {
                    return Err(SourceError::Refused {
                        reference: reference.shown,
                        reason: "it says that nothing changed, and nothing is known".to_owned(),
                    });
                };
                check(&reference, checksum, sha256)?;
                inner.cache.note(&reference.raw, &record_of(sha256, len, known));
                Ok(fetched(&reference, sha256, len, hold))
            }
            Brought::New {
                file,
                sha256,
                len,
                known,
            } => {
                check(&reference, checksum, sha256)?;
                let fetched = inner.keep(&reference, file, sha256, len)?;
                inner.cache.note(&reference.raw, &record_of(sha256, len, known));
                inner.tidy();
                Ok(fetched)
            }
        })
        .await
    }

    fn keep(
        &self,
        reference: &Reference,
        file: tempfile::NamedTempFile,
        sha256: Sha256,
        len: u64,
    ) -> Result<Fetched, SourceError> {
        let hold = self.cache.hold(sha256);
        self.cache
            .keep(file, &sha256, len)
            .map_err(|error| self.write_error(reference, error))?;
        Ok(fetched(reference, sha256, len, hold))
    }

    pub(super) fn write_error(&self, reference: &Reference, error: io::Error) -> SourceError {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
            return SourceError::DiskFull {
                reference: reference.shown.clone(),
                dir: self.cache.dir.clone(),
            };
        }
        cache_error("write in", &self.cache.dir, error)
    }

    pub(super) fn prune(&self) -> Result<Pruned, SourceError> {
        let Some(pins) = (self.config.pins)() else {
            return Ok(Pruned::default());
        };
        let rule = PruneRule {
            max_bytes: self.config.max_bytes,
            max_age: self.config.max_age,
            keep_recent: self.config.keep_recent,
        };
        self.cache.prune(&pins, &rule)
    }

    /// Prunes after a fetch, which has succeeded whatever comes of this.
    fn tidy(&self) {
        match self.prune() {
            Ok(pruned) if pruned.files > 0 => {
                tracing::info!(
                    files = pruned.files,
                    bytes = pruned.bytes,
                    "removed sources that were not used lately"
                );
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the source cache could not be pruned"),
        }
    }
}

async fn blocking<T: Send + 'static>(
    inner: &Inner,
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(cache_error("work in", &inner.cache.dir, io::Error::other(error))))
}

fn fetched(reference: &Reference, sha256: Sha256, len: u64, hold: Hold) -> Fetched {
    Fetched {
        sha256,
        len,
        reference: reference.raw.clone(),
        _hold: Arc::new(hold),
    }
}

fn check(reference: &Reference, expected: Option<Sha256>, actual: Sha256) -> Result<(), SourceError> {
    match expected {
        Some(expected) if expected != actual => Err(SourceError::Checksum {
            reference: reference.shown.clone(),
            expected,
            actual,
        }),
        _ => Ok(()),
    }
}

fn record_of(sha256: Sha256, len: u64, known: Known) -> Record {
    let proof = Proof::Http {
        etag: known.etag,
        last_modified: known.last_modified,
        checked: now(),
    };
    Record::new(sha256, len, proof)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
