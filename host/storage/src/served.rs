//! An artefact as the image listener reads it.

use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use image::{Extent, Layout, ReadError, SourceSet};
use model::{ArtefactName, Digest};
use rustix::io::{Errno, ReadWriteFlags};
use tokio::time::Instant;

use crate::Reader;
use crate::reads::Reads;
use crate::serve::Resource;

/// Bytes that lie in another service.
#[async_trait]
pub trait Remote: Send + Sync {
    /// The bytes of a range inside the artefact, in order; exactly as many, or the last item is an error. The future ends
    /// once the first of them are there.
    async fn read(&self, range: Range<u64>) -> io::Result<BoxStream<'static, io::Result<Bytes>>>;
}

/// Where an artefact's bytes come from.
#[derive(Clone)]
pub enum Content {
    /// Made here as they are read.
    Layout {
        /// What they are.
        layout: Arc<Layout>,
        /// Where its sources are opened.
        sources: Arc<dyn SourceSet>,
    },
    /// Fetched as they are read.
    Remote(Arc<dyn Remote>),
}

/// One artefact, ready to be read from at any place by many connections at once. It stays readable to those who hold it
/// after it has been withdrawn.
#[derive(Clone)]
pub struct Served {
    /// Its name.
    pub name: ArtefactName,
    /// Identity of its bytes.
    pub digest: Digest,
    /// Counts of what was read.
    pub reads: Arc<Reads>,
    /// Where its bytes come from.
    pub content: Content,
    pub(crate) size: u64,
    pub(crate) etag: Arc<str>,
    pub(crate) origin: Origin,
    pub(crate) only: Arc<[IpAddr]>,
    pub(crate) expires: Option<SystemTime>,
    /// When it was published, recalled or last found on record.
    pub(crate) confirmed: Instant,
    pub(crate) last_lookup: Instant,
}

/// How an artefact came to be served here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Published,
    Recalled,
}

impl Served {
    /// Bytes of it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// When it stops being served; `None` = when it is withdrawn.
    pub fn expires(&self) -> Option<SystemTime> {
        self.expires
    }

    /// Whether this address may have it.
    pub fn may_be_read_by(&self, address: IpAddr) -> bool {
        Reader::allows(&self.only, address)
    }

    pub(crate) fn is_over(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }

    /// What [`crate::serve::answer`] needs to know.
    pub fn resource(&self) -> Resource<'_> {
        let content_type = match self.name.expose().ends_with(".iso") {
            true => "application/x-iso9660-image",
            false => "application/octet-stream",
        };
        Resource {
            size: self.size,
            etag: &self.etag,
            content_type,
        }
    }

    /// A part of it as an image of its own; `etag` is of [`Served::part_etag`].
    pub fn part<'a>(&self, range: &Range<u64>, etag: &'a str) -> Resource<'a> {
        Resource {
            size: range.end - range.start,
            etag,
            content_type: "application/octet-stream",
        }
    }

    /// The entity tag of a part: that of the whole, and where the part begins.
    pub fn part_etag(&self, range: &Range<u64>) -> String {
        format!("\"{}+{}\"", self.digest, range.start)
    }

    /// Fills `buf` from `offset` on, if the bytes are made here; blocks while sources are read.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        match &self.content {
            Content::Layout { layout, sources } => layout.read_at(&**sources, offset, buf),
            Content::Remote(_) => Err(self.out_of_range(offset, buf)),
        }
    }

    /// Fills `buf` from `offset` on if that takes no disk access: bytes of the layout itself, and source bytes that are in
    /// memory. `false` = it would block (or cannot tell); ask [`Served::read_at`] on a thread that may.
    pub fn try_read_at(&self, offset: u64, buf: &mut [u8]) -> Result<bool, ReadError> {
        let Content::Layout { layout, sources } = &self.content else {
            return Err(self.out_of_range(offset, buf));
        };
        let Some(end) = offset.checked_add(buf.len() as u64).filter(|end| *end <= layout.size()) else {
            return Err(self.out_of_range(offset, buf));
        };
        let mut rest = buf;
        for piece in layout.pieces(offset..end) {
            let len = usize::try_from(piece.len()).unwrap_or(usize::MAX);
            let (part, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            match piece {
                Extent::Literal(bytes) => part.copy_from_slice(&bytes),
                Extent::Zero(_) => part.fill(0),
                Extent::Source { sha256, offset, .. } => {
                    let Ok(source) = sources.open(&sha256) else {
                        return Ok(false);
                    };
                    let Some(file) = source.file() else {
                        return Ok(false);
                    };
                    if !read_cached(file, offset, part) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// A remote artefact has no byte here at all.
    fn out_of_range(&self, offset: u64, buf: &[u8]) -> ReadError {
        ReadError::OutOfRange {
            offset,
            len: buf.len() as u64,
            size: match &self.content {
                Content::Layout { layout, .. } => layout.size(),
                Content::Remote(_) => 0,
            },
        }
    }
}

/// Reads from the page cache alone (`preadv2` with `RWF_NOWAIT`). Errors of any kind count as "not there": the blocking
/// read that follows finds out and says so.
fn read_cached(file: &std::fs::File, mut offset: u64, mut part: &mut [u8]) -> bool {
    while !part.is_empty() {
        let mut slices = [io::IoSliceMut::new(part)];
        match rustix::io::preadv2(file, &mut slices, offset, ReadWriteFlags::NOWAIT) {
            Ok(0) => return false,
            Ok(read) => {
                offset += read as u64;
                part = &mut part[read..];
            }
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}
