//! An artefact as the image listener reads it.

use std::io;
use std::sync::Arc;

use image::{Extent, Layout, ReadError, SourceSet};
use model::{ArtefactName, Digest};
use rustix::io::{Errno, ReadWriteFlags};
use tokio::time::Instant;

use crate::reads::Reads;
use crate::serve::Resource;

/// One artefact, ready to be read from at any place by many connections at once. It stays readable to those who hold it
/// after it has been withdrawn.
#[derive(Clone)]
pub struct Served {
    /// Its name.
    pub name: ArtefactName,
    /// Its bytes.
    pub layout: Arc<Layout>,
    /// Where its sources are opened.
    pub sources: Arc<dyn SourceSet>,
    /// Identity of its bytes.
    pub digest: Digest,
    /// Counts of what was read.
    pub reads: Arc<Reads>,
    pub(crate) etag: Arc<str>,
    pub(crate) origin: Origin,
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
    /// What [`crate::serve::answer`] needs to know.
    pub fn resource(&self) -> Resource<'_> {
        let content_type = match self.name.expose().ends_with(".iso") {
            true => "application/x-iso9660-image",
            false => "application/octet-stream",
        };
        Resource {
            size: self.layout.size(),
            etag: &self.etag,
            content_type,
        }
    }

    /// Fills `buf` from `offset` on; blocks while sources are read.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        self.layout.read_at(&*self.sources, offset, buf)
    }

    /// Fills `buf` from `offset` on if that takes no disk access: bytes of the layout itself, and source bytes that are in
    /// memory. `false` = it would block (or cannot tell); ask [`Served::read_at`] on a thread that may.
    pub fn try_read_at(&self, offset: u64, buf: &mut [u8]) -> Result<bool, ReadError> {
        let len = buf.len() as u64;
        let size = self.layout.size();
        let Some(end) = offset.checked_add(len).filter(|end| *end <= size) else {
            return Err(ReadError::OutOfRange { offset, len, size });
        };
        let mut rest = buf;
        for piece in self.layout.pieces(offset..end) {
            let len = usize::try_from(piece.len()).unwrap_or(usize::MAX);
            let (part, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            match piece {
                Extent::Literal(bytes) => part.copy_from_slice(&bytes),
                Extent::Zero(_) => part.fill(0),
                Extent::Source { sha256, offset, .. } => {
                    let Ok(source) = self.sources.open(&sha256) else {
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
