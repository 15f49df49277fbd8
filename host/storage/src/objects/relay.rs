//! An artefact that is read from its store as a BMC reads it from us.
//!
//! BMCs read a few kilobytes at a time and come back to the same places, so small ranges go by blocks that are kept for a
//! while; who reads much at once gets one stream, which is taken up again where it broke. Every answer must be of the object
//! that the first one was of.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use model::ArtefactName;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::{sleep, timeout};

use super::{Bodies, ObjectStore};
use crate::{Remote, StorageError};

/// Bytes that are fetched and kept at a time.
const BLOCK: u64 = 256 << 10;
/// Bytes that are kept, of all artefacts of a backend.
const KEPT: u64 = 64 << 20;
/// Ranges from this size on are passed on as one stream.
const STREAMED: u64 = 4 << 20;
/// How often a range is taken up again after a break, without a byte in between.
const RESUMES: u32 = 3;
/// Longest silence of the store within a stream.
const SILENCE: Duration = Duration::from_secs(30);
/// Before a broken stream is taken up again.
const PAUSE: Duration = Duration::from_millis(200);

/// Blocks of all artefacts of one backend.
pub(crate) struct Blocks(Cache<(ArtefactName, u64), Bytes, Weight>);

#[derive(Clone)]
struct Weight;

impl Weighter<(ArtefactName, u64), Bytes> for Weight {
    fn weight(&self, _: &(ArtefactName, u64), block: &Bytes) -> u64 {
        block.len() as u64
    }
}

impl Default for Blocks {
    fn default() -> Self {
        let blocks = usize::try_from(KEPT / BLOCK).unwrap_or(256);
        Self(Cache::with_weighter(blocks, KEPT, Weight))
    }
}

impl Blocks {
    /// Drops what is kept of an artefact.
    pub(crate) fn forget(&self, name: &ArtefactName) {
        self.0.retain(|(of, _), _| of != name);
    }
}

/// One artefact in a store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Relay(Arc<Object>);

struct Object {
    store: Arc<dyn ObjectStore>,
    blocks: Arc<Blocks>,
    name: ArtefactName,
    size: u64,
    /// Entity tag of the object that was read first.
    etag: Mutex<Option<String>>,
}

impl Relay {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, blocks: Arc<Blocks>, name: ArtefactName, size: u64) -> Self {
        Self(Arc::new(Object {
            store,
            blocks,
            name,
            size,
            etag: Mutex::default(),
        }))
    }
}

#[async_trait]
impl Remote for Relay {
    async fn read(&self, range: Range<u64>) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
        if range.end > self.0.size || range.start > range.end {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "outside the artefact"));
        }
        if range.end - range.start >= STREAMED {
            let stream = Resuming::begin(Arc::clone(&self.0), range).await.map_err(failed)?;
            return Ok(stream.pieces());
        }
        let first = range.start / BLOCK;
        let last = range.end.saturating_sub(1) / BLOCK;
        let mut pieces = VecDeque::new();
        for index in first..=last {
            let block = self.0.block(index).await.map_err(failed)?;
            let start = index * BLOCK;
            let from = range.start.saturating_sub(start);
            let to = (range.end - start).min(block.len() as u64);
            // Both lie inside the block, which fits in memory.
            let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(block.len());
            pieces.push_back(Ok(block.slice(index(from)..index(to))));
        }
        Ok(stream::iter(pieces).boxed())
    }
}

fn failed(error: StorageError) -> io::Error {
    io::Error::other(error.to_string())
}

impl Object {
    /// One block, kept or fetched; all who want it at the same time fetch it once.
    async fn block(self: &Arc<Self>, index: u64) -> Result<Bytes, StorageError> {
        let start = index * BLOCK;
        let range = start..(start + BLOCK).min(self.size);
        let fetch = async {
            let len = usize::try_from(range.end - range.start).unwrap_or(0);
            let mut block = BytesMut::with_capacity(len);
            let mut pieces = Resuming::begin(Arc::clone(self), range).await?.pieces();
            while let Some(piece) = pieces.next().await {
                let piece = piece.map_err(|source| StorageError::Io {
                    action: "read",
                    place: self.store.place().to_owned(),
                    source,
                })?;
                block.extend_from_slice(&piece);
            }
            Ok(block.freeze())
        };
        let key = (self.name.clone(), index);
        self.blocks.0.get_or_insert_async(&key, fetch).await
    }

    async fn open(&self, range: Range<u64>) -> Result<Bodies, StorageError> {
        let known = self.tag().clone();
        let (bodies, etag) = self.store.read(&self.name, range, known.as_deref()).await?;
        if let (None, Some(etag)) = (known, etag) {
            self.tag().get_or_insert(etag);
        }
        Ok(bodies)
    }

    fn tag(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.etag.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A range as it comes, taken up again where it broke.
struct Resuming {
    object: Arc<Object>,
    left: Range<u64>,
    bodies: Bodies,
    resumes: u32,
}

impl Resuming {
    async fn begin(object: Arc<Object>, range: Range<u64>) -> Result<Self, StorageError> {
        let bodies = object.open(range.clone()).await?;
        Ok(Self {
            object,
            left: range,
            bodies,
            resumes: RESUMES,
        })
    }

    fn pieces(self) -> BoxStream<'static, io::Result<Bytes>> {
        stream::try_unfold(self, |mut range| async move {
            let piece = range.next().await?;
            Ok(piece.map(|piece| (piece, range)))
        })
        .boxed()
    }

    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while self.left.start < self.left.end {
            let reason = match timeout(SILENCE, self.bodies.next()).await {
                Ok(Some(Ok(piece))) if !piece.is_empty() => {
                    let len = piece.len() as u64;
                    if len > self.left.end - self.left.start {
                        return Err(io::Error::other("the store sends more than it was asked for"));
                    }
                    self.left.start += len;
                    self.resumes = RESUMES;
                    return Ok(Some(piece));
                }
                Ok(Some(Ok(_))) => continue,
                Ok(Some(Err(reason))) => reason,
                Ok(None) => "it ended too early".to_owned(),
                Err(_) => format!("nothing came for {} s", SILENCE.as_secs()),
            };
            self.resume(reason).await?;
        }
        Ok(None)
    }

    async fn resume(&mut self, mut reason: String) -> io::Result<()> {
        loop {
            if self.resumes == 0 {
                let place = self.object.store.place();
                return Err(io::Error::other(format!("reading from {place} broke off: {reason}")));
            }
            self.resumes -= 1;
            tracing::debug!(artefact = %self.object.name, at = self.left.start, %reason, "taking up a broken read");
            sleep(PAUSE).await;
            match self.object.open(self.left.clone()).await {
                Ok(bodies) => {
                    self.bodies = bodies;
                    return Ok(());
                }
                Err(error) => reason = error.to_string(),
            }
        }
    }
}
