//! An image on its way into an object store: read block by block as the connection takes it, hashed on the way, with its
//! exact length told beforehand. Two blocks are in memory at a time.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use image::{Layout, ReadError, SourceSet};
use md5::{Digest as _, Md5};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::Publication;

/// Bytes read at a time.
const BLOCK: usize = 1 << 20;
/// How often it is looked whether an upload moves.
const TICK: Duration = Duration::from_millis(500);

/// One stretch of an image to be uploaded, as often as it takes.
#[derive(Clone)]
pub(crate) struct Upload {
    layout: Arc<Layout>,
    sources: Arc<dyn SourceSet>,
    range: Range<u64>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Bytes that were handed to connections, of all attempts.
    taken: AtomicU64,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    /// MD5 of the stretch, once an attempt has read all of it.
    md5: Option<[u8; 16]>,
    /// Why it could not be read.
    error: Option<ReadError>,
}

/// Nothing moved for too long.
pub(crate) struct Stalled;

impl Upload {
    /// Of a range inside the image.
    pub(crate) fn new(publication: &Publication, range: Range<u64>) -> Self {
        Self {
            layout: Arc::clone(&publication.layout),
            sources: Arc::clone(&publication.sources),
            range,
            shared: Arc::default(),
        }
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// A body from the first byte on.
    pub(crate) fn body(&self) -> reqwest::Body {
        let (blocks, coming) = mpsc::channel(1);
        let upload = self.clone();
        tokio::task::spawn_blocking(move || upload.read_into(&blocks));
        reqwest::Body::wrap(LayoutBody {
            coming,
            left: self.len(),
            shared: Arc::clone(&self.shared),
        })
    }

    /// Ends when nobody wants the blocks any more.
    fn read_into(&self, blocks: &mpsc::Sender<io::Result<Bytes>>) {
        let mut hash = Md5::new();
        let mut at = self.range.start;
        while at < self.range.end {
            let len = usize::try_from(self.range.end - at).map_or(BLOCK, |left| left.min(BLOCK));
            let mut block = vec![0; len];
            if let Err(error) = self.layout.read_at(&*self.sources, at, &mut block) {
                let reason = error.to_string();
                self.outcome().error = Some(error);
                let _ = blocks.blocking_send(Err(io::Error::other(reason)));
                return;
            }
            hash.update(&block);
            at += len as u64;
            if at == self.range.end {
                self.outcome().md5 = Some(hash.finalize_reset().into());
            }
            if blocks.blocking_send(Ok(block.into())).is_err() {
                return;
            }
        }
    }

    /// MD5 of what was sent, in hexadecimal digits; `None` if no attempt came to the end.
    pub(crate) fn md5(&self) -> Option<String> {
        if self.len() == 0 {
            return Some(hex(&Md5::new().finalize()));
        }
        self.outcome().md5.map(|md5| hex(&md5))
    }

    /// Why the image itself could not be read, if that is what failed.
    pub(crate) fn read_error(&self) -> Option<ReadError> {
        self.outcome().error.take()
    }

    fn outcome(&self) -> std::sync::MutexGuard<'_, Outcome> {
        self.shared.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for what sends this upload, unless nothing is taken of it and nothing is answered for so long.
    pub(crate) async fn watch<T>(&self, patience: Duration, sending: impl Future<Output = T>) -> Result<T, Stalled> {
        let mut sending = std::pin::pin!(sending);
        let (mut taken, mut moved) = (self.shared.taken.load(Ordering::Relaxed), Instant::now());
        loop {
            if let Ok(done) = timeout(TICK.min(patience), sending.as_mut()).await {
                return Ok(done);
            }
            let now = self.shared.taken.load(Ordering::Relaxed);
            if now != taken {
                (taken, moved) = (now, Instant::now());
            } else if moved.elapsed() >= patience {
                return Err(Stalled);
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

struct LayoutBody {
    coming: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
    shared: Arc<Shared>,
}

impl Body for LayoutBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let Poll::Ready(block) = self.coming.poll_recv(context) else {
            return Poll::Pending;
        };
        let block = block.unwrap_or_else(|| Err(io::Error::other("reading the image was broken off")));
        Poll::Ready(Some(block.map(|block| {
            let len = block.len() as u64;
            self.left = self.left.saturating_sub(len);
            self.shared.taken.fetch_add(len, Ordering::Relaxed);
            Frame::data(block)
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
