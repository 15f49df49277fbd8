//! Bringing a source into the cache: from a file or a server, checked, kept, and noted so that it need not come again.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::Sha256;
use sha2::Digest as _;
use tempfile::NamedTempFile;
use tokio::task::spawn_blocking;

use crate::cache::{Hold, Proof, Record, cache_error};
use crate::file::{self, CopyError};
use crate::http::{Asked, Brought, Content, FetchError, Terms, Validators};
use crate::openstack::{Client, glance};
use crate::reference::{Place, Reference};
use crate::{Checksum, Fetched, Inner, SourceError};

impl Inner {
    /// Brings what `reference` names, if it has all of the checksums.
    pub(super) async fn bring(
        self: Arc<Self>,
        reference: Reference,
        checksums: Vec<Checksum>,
    ) -> Result<Fetched, SourceError> {
        if let Some(fetched) = self.at_hand(&reference, &checksums).await? {
            return Ok(fetched);
        }
        let _turn = self.cache.turn(reference.raw.expose()).await?;
        // Another process may have brought it meanwhile.
        if let Some(fetched) = self.at_hand(&reference, &checksums).await? {
            return Ok(fetched);
        }
        match reference.place.clone() {
            Place::File(path) => {
                let inner = Arc::clone(&self);
                blocking(&self, move || inner.bring_file(&reference, &path, &checksums)).await
            }
            Place::Glance(id) => self.bring_glance(reference, id, checksums).await,
            Place::Http(_) | Place::Swift { .. } => {
                let asked = self.asked(&reference).await?;
                self.bring_served(reference, asked, checksums).await
            }
        }
    }

    /// Whom to ask for what a reference names.
    pub(super) async fn asked(&self, reference: &Reference) -> Result<Asked, SourceError> {
        let shown = reference.shown.clone();
        match &reference.place {
            Place::Http(url) => Ok(Asked::Web {
                url: url.clone(),
                shown,
            }),
            Place::Swift { container, object } => {
                let container = container.as_ref().unwrap_or(&self.config.swift_container);
                let parts = std::iter::once(container.as_str()).chain(object.split('/'));
                Ok(Asked::OpenStack {
                    client: at_site(&self.config.swift, &shown)?.clone(),
                    service: "object-store",
                    path: parts.map(str::to_owned).collect(),
                    shown,
                })
            }
            Place::Glance(id) => {
                let client = at_site(&self.config.glance, &shown)?.clone();
                let path = glance::path(&client, *id, Some("file")).await;
                let path = path.map_err(|source| SourceError::OpenStack {
                    reference: shown.clone(),
                    source: Arc::new(source),
                })?;
                Ok(Asked::OpenStack {
                    client,
                    service: glance::IMAGE,
                    path,
                    shown,
                })
            }
            Place::File(_) => Err(SourceError::Reference {
                reference: shown,
                reason: "no server has it",
            }),
        }
    }

    /// Content with the first of these checksums, if it is there: nobody has to be asked for it.
    async fn at_hand(
        self: &Arc<Self>,
        reference: &Reference,
        checksums: &[Checksum],
    ) -> Result<Option<Fetched>, SourceError> {
        let Some(first) = checksums.first().copied() else {
            return Ok(None);
        };
        let (inner, reference, checksums) = (Arc::clone(self), reference.clone(), checksums.to_vec());
        blocking(self, move || {
            let Some(sha256) = inner.cache.by_checksum(&first) else {
                return Ok(None);
            };
            let Some(hold) = inner.hold(&sha256)? else {
                return Ok(None);
            };
            inner.check(&reference, &sha256, None, Some(&hold), &checksums)?;
            Ok(Some(fetched(&reference, sha256, hold)))
        })
        .await
    }

    fn bring_file(&self, reference: &Reference, path: &Path, checksums: &[Checksum]) -> Result<Fetched, SourceError> {
        let file = file::open(path, &self.config.allowed_file_paths)?;
        let key = reference.raw.expose();
        if let Some((record, sha256, hold)) = self.cache.record(key)
            && file.is(&record.proof, record.len)
        {
            self.check(reference, &sha256, None, Some(&hold), checksums)?;
            return Ok(fetched(reference, sha256, hold));
        }
        let len = file.len()?;
        if len <= self.config.max_source_bytes {
            self.room(&reference.shown, len)?;
        }
        let mut into = self.cache.temporary()?;
        let copied = file
            .copy(&mut into, self.config.max_source_bytes, wants_sha512(checksums))
            .map_err(|error| match error {
                CopyError::Source(error) => error,
                CopyError::Cache(error) => self.write_error(&reference.shown, Some(len), error),
            })?;
        self.check(reference, &copied.sha256, copied.sha512, None, checksums)?;
        let fetched = self.keep(reference, into, copied.sha256, copied.len)?;
        if let Some(proof) = copied.proof {
            let record = Record::new(copied.sha256, copied.len, &reference.shown, proof);
            self.cache.note(key, &record);
        }
        self.tidy();
        Ok(fetched)
    }

    /// Glance's images never change, and it says what they must hash to.
    async fn bring_glance(
        self: Arc<Self>,
        reference: Reference,
        id: uuid::Uuid,
        mut checksums: Vec<Checksum>,
    ) -> Result<Fetched, SourceError> {
        let shown = reference.shown.clone();
        let image = self.describe(&reference.shown, id).await?;
        if image.len.is_some_and(|len| len > self.config.max_source_bytes) {
            let max = self.config.max_source_bytes;
            return Err(SourceError::TooBig { reference: shown, max });
        }
        if let Some(checksum) = image.checksum {
            if let Some(fetched) = self.at_hand(&reference, &[checksum]).await? {
                let inner = Arc::clone(&self);
                return blocking(&self, move || {
                    inner.check(&reference, &fetched.sha256, None, Some(&fetched.hold), &checksums)?;
                    Ok(fetched)
                })
                .await;
            }
            checksums.push(checksum);
        }
        let asked = self.asked(&reference).await?;
        self.bring_served(reference, asked, checksums).await
    }

    async fn bring_served(
        self: Arc<Self>,
        reference: Reference,
        asked: Asked,
        checksums: Vec<Checksum>,
    ) -> Result<Fetched, SourceError> {
        let key = reference.raw.expose().to_owned();
        let mut known = None;
        if let Some((record, sha256, hold)) = self.cache.record(&key)
            && let Proof::Http {
                etag,
                last_modified,
                checked,
            } = record.proof
        {
            let age = now().checked_sub(checked).map(Duration::from_secs);
            let fresh = age.is_some_and(|age| age < self.config.revalidate_after);
            // A wrong checksum is worth asking for, however fresh the answer.
            if fresh && self.clone().fits(&reference, sha256, &hold, &checksums).await? {
                return Ok(fetched(&reference, sha256, hold));
            }
            if etag.is_some() || last_modified.is_some() {
                known = Some((Validators { etag, last_modified }, sha256, hold));
            }
        }
        let mut resume = true;
        loop {
            let validators = known.as_ref().map(|(validators, ..)| validators.clone());
            match self.fetch(&reference, &asked, validators, &checksums, resume).await? {
                Brought::Same => {
                    let Some((validators, sha256, hold)) = known else {
                        return Err(SourceError::Refused {
                            reference: reference.shown,
                            reason: "it says that nothing changed, and nothing is known".to_owned(),
                        });
                    };
                    let inner = Arc::clone(&self);
                    return blocking(&self, move || {
                        inner.check(&reference, &sha256, None, Some(&hold), &checksums)?;
                        inner
                            .cache
                            .note(&key, &record_of(&reference, sha256, hold.len, validators));
                        Ok(fetched(&reference, sha256, hold))
                    })
                    .await;
                }
                Brought::New(content) => {
                    let whole = self.check(&reference, &content.sha256, content.sha512, None, &checksums);
                    match whole {
                        Ok(()) => {}
                        // Pieces that do not belong together in spite of what the server said: once more, in one.
                        Err(_) if content.resumed && resume => {
                            resume = false;
                            continue;
                        }
                        Err(error) => return Err(error),
                    }
                    let inner = Arc::clone(&self);
                    return blocking(&self, move || inner.keep_served(&reference, &key, *content)).await;
                }
            }
        }
    }

    async fn fetch(
        self: &Arc<Self>,
        reference: &Reference,
        asked: &Asked,
        known: Option<Validators>,
        checksums: &[Checksum],
        resume: bool,
    ) -> Result<Brought, SourceError> {
        let (inner, shown) = (Arc::clone(self), reference.shown.clone());
        let terms = Terms {
            known,
            sha512: wants_sha512(checksums),
            resume,
            room: Arc::new(move |needed| inner.room(&shown, needed)),
        };
        let into = self.cache.temporary()?;
        self.http.fetch(asked, into, terms).await.map_err(|error| match error {
            FetchError::Source(error) => error,
            FetchError::Cache(error) => self.write_error(&reference.shown, None, error),
        })
    }

    fn keep_served(&self, reference: &Reference, key: &str, content: Content) -> Result<Fetched, SourceError> {
        if let Some(sha512) = content.sha512 {
            self.cache.note_checksum(&Checksum::Sha512(sha512), &content.sha256);
        }
        let fetched = self.keep(reference, content.file, content.sha256, content.len)?;
        let record = record_of(reference, content.sha256, content.len, content.validators);
        self.cache.note(key, &record);
        self.tidy();
        Ok(fetched)
    }

    /// Whether cached content has the checksums.
    async fn fits(
        self: Arc<Self>,
        reference: &Reference,
        sha256: Sha256,
        hold: &Arc<Hold>,
        checksums: &[Checksum],
    ) -> Result<bool, SourceError> {
        if checksums.is_empty() {
            return Ok(true);
        }
        let (inner, reference, hold) = (Arc::clone(&self), reference.clone(), Arc::clone(hold));
        let checksums = checksums.to_vec();
        blocking(&self, move || {
            match inner.check(&reference, &sha256, None, Some(&hold), &checksums) {
                Ok(()) => Ok(true),
                Err(SourceError::Checksum { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Checks digests: those that are known, else of the content that is held.
    fn check(
        &self,
        reference: &Reference,
        sha256: &Sha256,
        sha512: Option<[u8; 64]>,
        hold: Option<&Hold>,
        checksums: &[Checksum],
    ) -> Result<(), SourceError> {
        for expected in checksums {
            let actual = match expected {
                Checksum::Sha256(_) => Checksum::Sha256(*sha256),
                Checksum::Sha512(_) if self.cache.by_checksum(expected) == Some(*sha256) => *expected,
                Checksum::Sha512(_) => match (sha512, hold) {
                    (Some(sha512), _) => Checksum::Sha512(sha512),
                    (None, Some(hold)) => {
                        let found =
                            sha512_of(hold).map_err(|error| cache_error("read", &self.cache.object(sha256), error))?;
                        self.cache.note_checksum(&found, sha256);
                        found
                    }
                    (None, None) => continue,
                },
            };
            if actual != *expected {
                return Err(SourceError::Checksum {
                    reference: reference.shown.clone(),
                    algorithm: expected.algorithm(),
                    expected: expected.hex(),
                    actual: actual.hex(),
                });
            }
        }
        Ok(())
    }

    pub(super) fn hold(&self, sha256: &Sha256) -> Result<Option<Arc<Hold>>, SourceError> {
        let held = self.cache.hold(sha256);
        let held = held.map_err(|error| cache_error("read", &self.cache.object(sha256), error))?;
        Ok(held.map(Arc::new))
    }

    pub(super) fn keep(
        &self,
        reference: &Reference,
        file: NamedTempFile,
        sha256: Sha256,
        len: u64,
    ) -> Result<Fetched, SourceError> {
        let kept = self.cache.keep(file, &sha256, len);
        let hold = kept.map_err(|error| self.write_error(&reference.shown, Some(len), error))?;
        Ok(fetched(reference, sha256, Arc::new(hold)))
    }

    pub(super) fn write_error(&self, shown: &str, needed: Option<u64>, error: io::Error) -> SourceError {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        if matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
            return SourceError::DiskFull {
                reference: shown.to_owned(),
                dir: self.cache.dir.clone(),
                needed,
                free: self.cache.free().unwrap_or(0),
            };
        }
        cache_error("write in", &self.cache.dir, error)
    }

    /// Makes sure that so many bytes can be written, if need be by removing what was not used lately.
    pub(super) fn room(&self, shown: &str, needed: u64) -> Result<(), SourceError> {
        let free = || {
            self.cache
                .free()
                .map_err(|error| cache_error("measure", &self.cache.dir, error))
        };
        let short = needed.saturating_sub(free()?);
        if short == 0 {
            return Ok(());
        }
        let pruned = self.prune_for(short)?;
        if pruned.files > 0 {
            tracing::info!(
                files = pruned.files,
                bytes = pruned.bytes,
                "removed cached sources to make room"
            );
        }
        let free = free()?;
        if free >= needed {
            return Ok(());
        }
        Err(SourceError::DiskFull {
            reference: shown.to_owned(),
            dir: self.cache.dir.clone(),
            needed: Some(needed),
            free,
        })
    }

    /// Prunes after a fetch, which has succeeded whatever comes of this.
    pub(super) fn tidy(&self) {
        match self.prune(false) {
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

/// A service that the site may not have.
pub(super) fn at_site<'a>(client: &'a Option<Client>, shown: &str) -> Result<&'a Client, SourceError> {
    client.as_ref().ok_or_else(|| SourceError::NoOpenStack {
        reference: shown.to_owned(),
    })
}

pub(super) async fn blocking<T: Send + 'static>(
    inner: &Inner,
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(cache_error("work in", &inner.cache.dir, io::Error::other(error))))
}

pub(super) fn fetched(reference: &Reference, sha256: Sha256, hold: Arc<Hold>) -> Fetched {
    Fetched {
        sha256,
        len: hold.len,
        reference: reference.raw.expose().to_owned(),
        hold,
    }
}

fn wants_sha512(checksums: &[Checksum]) -> bool {
    checksums.iter().any(|checksum| matches!(checksum, Checksum::Sha512(_)))
}

fn sha512_of(hold: &Hold) -> io::Result<Checksum> {
    use std::os::unix::fs::FileExt;
    let mut hash = sha2::Sha512::new();
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        match hold.file.read_at(&mut buffer, offset)? {
            0 => return Ok(Checksum::Sha512(hash.finalize().into())),
            count => {
                hash.update(&buffer[..count]);
                offset += u64::try_from(count).unwrap_or(0);
            }
        }
    }
}

fn record_of(reference: &Reference, sha256: Sha256, len: u64, validators: Validators) -> Record {
    let proof = Proof::Http {
        etag: validators.etag,
        last_modified: validators.last_modified,
        checked: now(),
    };
    Record::new(sha256, len, &reference.shown, proof)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
