//! Disk images: looked at without fetching them, or brought, unpacked and checked; and checksum files.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::timeout;
use uuid::Uuid;

use crate::bring::{at_site, blocking, fetched};
use crate::cache::{Proof, Record, cache_error};
use crate::disk::{self, Compression, Disk, DiskFormat, UnpackError};
use crate::http::Asked;
use crate::openstack::{GlanceImage, glance};
use crate::reference::{Place, Reference};
use crate::{Checksum, ChecksumError, Fetched, GivenChecksum, Inner, SourceError, Sources, file};

/// Largest checksum file.
const SUMS_CAP: usize = 1 << 20;

/// A disk image in the cache, as it is to be written.
#[derive(Clone, Debug)]
pub struct DiskImage {
    /// Its bytes, unpacked.
    pub fetched: Fetched,
    /// What it is.
    pub disk: Disk,
    /// How it came.
    pub compression: Option<Compression>,
}

/// What an image is, seen from afar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// An image that can be written as it is.
    Plain(Disk),
    /// A compressed one: what is in it shows once it is unpacked.
    Packed(Compression),
}

impl Sources {
    /// The digest that a source must have: as given, or as the checksum file lists it by the last part of the source's name.
    pub async fn checksum(&self, reference: &str, given: &GivenChecksum) -> Result<Checksum, SourceError> {
        let reference = Reference::parse(reference)?;
        let url = match given {
            GivenChecksum::Known(checksum) => return Ok(*checksum),
            GivenChecksum::File(url) => url,
        };
        let list = Reference::parse(url)?;
        let shown = list.shown.clone();
        let useless = |reason| SourceError::ChecksumFile {
            file: shown.clone(),
            reference: reference.shown.clone(),
            reason,
        };
        let Place::Http(url) = list.place else {
            return Err(SourceError::BadChecksum {
                reference: reference.shown,
                source: ChecksumError::Nothing,
            });
        };
        let name = reference
            .file_name()
            .ok_or_else(|| useless("the source has no file name to look for"))?;
        let asked = Asked::Web {
            url,
            shown: shown.clone(),
        };
        let text = self
            .within(&shown, self.inner.http.first(&asked, SUMS_CAP + 1))
            .await?
            .bytes;
        if text.len() > SUMS_CAP {
            return Err(useless("it is bigger than 1 MiB: that is no checksum file"));
        }
        let text = String::from_utf8_lossy(&text);
        Checksum::find(&text, &name).map_err(useless)
    }

    /// Looks at an image without fetching it: its beginning and, where it is short to ask for, its end.
    pub async fn look(&self, reference: &str, declared: Option<DiskFormat>) -> Result<Look, SourceError> {
        let reference = Reference::parse(reference)?;
        let shown = reference.shown.clone();
        let (head, tail, len) = self.within(&shown, self.inner.ends(&reference)).await?;
        if let Some(compression) = Compression::of(&head) {
            return Ok(Look::Packed(compression));
        }
        disk::inspect(&head, tail.as_deref(), len, declared)
            .map(Look::Plain)
            .map_err(|reason| SourceError::Image {
                reference: shown,
                reason,
            })
    }

    /// Brings an image, unpacks it if it is compressed, and makes sure that it is what it is declared to be. The checksum is
    /// that of the file as it is served; `declared` is the format of what is in it.
    pub async fn disk_image(
        &self,
        reference: &str,
        checksum: Option<Checksum>,
        declared: Option<DiskFormat>,
    ) -> Result<DiskImage, SourceError> {
        let checksums: Vec<Checksum> = checksum.into_iter().collect();
        let fetched = self.fetch_checked(reference, &checksums).await?;
        let reference = Reference::parse(reference)?;
        let shown = reference.shown.clone();
        let inner = Arc::clone(&self.inner);
        let work = blocking(&self.inner, move || inner.disk_image(&reference, fetched, declared));
        self.within(&shown, work).await
    }

    /// What Glance says of an image.
    pub async fn glance_image(&self, id: Uuid) -> Result<GlanceImage, SourceError> {
        let shown = format!("glance://{id}");
        self.within(&shown, self.inner.describe(&shown, id)).await
    }

    async fn within<T>(
        &self,
        shown: &str,
        work: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        let after = self.inner.config.deadline;
        timeout(after, work).await.unwrap_or_else(|_| {
            Err(SourceError::Timeout {
                reference: shown.to_owned(),
                after,
                what: "it is too slow for the deadline",
            })
        })
    }
}

impl Inner {
    pub(super) async fn describe(&self, shown: &str, id: Uuid) -> Result<GlanceImage, SourceError> {
        let found = glance::describe(at_site(&self.config.glance, shown)?, id).await;
        let found = found.map_err(|source| SourceError::OpenStack {
            reference: shown.to_owned(),
            source: Arc::new(source),
        })?;
        found.ok_or_else(|| SourceError::NotFound {
            reference: shown.to_owned(),
            reason: "Glance has no such image that the site's user may see".to_owned(),
        })
    }

    /// Beginning, end and length.
    async fn ends(self: &Arc<Self>, reference: &Reference) -> Result<(Bytes, Option<Bytes>, Option<u64>), SourceError> {
        let asked = match &reference.place {
            Place::File(path) => {
                let (inner, path, shown) = (Arc::clone(self), path.clone(), reference.shown.clone());
                return blocking(self, move || {
                    let file = file::open(&path, &inner.config.allowed_file_paths)?;
                    let read = file.ends(disk::HEAD, disk::TAIL);
                    read.map_err(|error| SourceError::Read {
                        reference: shown,
                        source: Arc::new(error),
                    })
                })
                .await;
            }
            _ => self.asked(reference).await?,
        };
        let head = self.http.first(&asked, disk::HEAD).await?;
        let whole = u64::try_from(head.bytes.len()).unwrap_or(u64::MAX);
        let Some(len) = head.total else {
            return Ok((head.bytes, None, None));
        };
        let tail = match len {
            len if len <= whole => Some(head.bytes.slice(head.bytes.len().saturating_sub(disk::TAIL)..)),
            _ => self.http.last(&asked, disk::TAIL).await?,
        };
        Ok((head.bytes, tail, Some(len)))
    }

    /// Blocks.
    fn disk_image(
        &self,
        reference: &Reference,
        fetched: Fetched,
        declared: Option<DiskFormat>,
    ) -> Result<DiskImage, SourceError> {
        let wrong = |reason| SourceError::Image {
            reference: reference.shown.clone(),
            reason,
        };
        let (head, ..) = self.ends_of(&fetched)?;
        let compression = Compression::of(&head);
        let image = match compression {
            Some(how) => self.unpacked(reference, &fetched, how)?,
            None => fetched,
        };
        let (head, tail) = self.ends_of(&image)?;
        let disk = disk::inspect(&head, Some(&tail), Some(image.len), declared).map_err(wrong)?;
        Ok(DiskImage {
            fetched: image,
            disk,
            compression,
        })
    }

    fn ends_of(&self, fetched: &Fetched) -> Result<(Vec<u8>, Vec<u8>), SourceError> {
        let read = read_ends(&fetched.hold.file, fetched.len, disk::HEAD, disk::TAIL);
        read.map_err(|error| cache_error("read", &self.cache.object(&fetched.sha256), error))
    }

    /// The content of a compressed source, from the cache if it was unpacked before.
    fn unpacked(&self, reference: &Reference, packed: &Fetched, how: Compression) -> Result<Fetched, SourceError> {
        let key = format!("unpacked:{}", packed.sha256);
        if let Some((_, sha256, hold)) = self.cache.record(&key) {
            return Ok(fetched(reference, sha256, hold));
        }
        let into = self.cache.temporary()?;
        let max = self.config.max_unpacked_bytes;
        let unpacked = disk::unpack(&packed.hold.file, how, into, max).map_err(|error| match error {
            UnpackError::Packed(error) => SourceError::Packed {
                reference: reference.shown.clone(),
                how: how.as_str(),
                reason: error.to_string(),
            },
            UnpackError::TooBig => SourceError::TooBig {
                reference: format!("what is packed in {}", reference.shown),
                max,
            },
            UnpackError::Cache(error) => self.write_error(&reference.shown, None, error),
        })?;
        let fetched = self.keep(reference, unpacked.file, unpacked.sha256, unpacked.len)?;
        let shown = format!("{} (unpacked)", reference.shown);
        let record = Record::new(unpacked.sha256, unpacked.len, &shown, Proof::Derived);
        self.cache.note(&key, &record);
        self.tidy();
        Ok(fetched)
    }
}

/// The first and the last bytes of a file of that length.
pub(crate) fn read_ends(file: &File, len: u64, head: usize, tail: usize) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let most = |count: usize| usize::try_from(len).unwrap_or(usize::MAX).min(count);
    let mut first = vec![0; most(head)];
    let mut last = vec![0; most(tail)];
    file.read_exact_at(&mut first, 0)?;
    let from = len.saturating_sub(u64::try_from(last.len()).unwrap_or(0));
    file.read_exact_at(&mut last, from)?;
    Ok((first, last))
}
