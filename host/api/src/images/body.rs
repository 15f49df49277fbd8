//! The bytes of an answer. What is made here is read as fast as it is sent: from the page cache in place, else on a thread
//! that may block; a connection holds one block of memory at a time. What lies in another service is passed on as it comes.

use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use http_body::{Body, Frame, SizeHint};
use storage::{Content, Served};
use tokio::task::JoinHandle;

/// Bytes read and sent at a time, while few and while many read.
const BIG_BLOCK: usize = 256 << 10;
const SMALL_BLOCK: usize = 64 << 10;
/// Readers from which on blocks are small.
const MANY: usize = 64;

/// A stretch of an image, or a line of text.
pub(super) struct ImageBody {
    stretch: Option<Stretch>,
    /// Read already, not sent yet.
    ready: Option<Bytes>,
    left: u64,
}

struct Stretch {
    served: Served,
    at: u64,
    end: u64,
    reader: IpAddr,
    from: From,
    readers: Arc<AtomicUsize>,
}

/// Where its bytes come from.
enum From {
    Here(Blocks),
    /// Not asked yet.
    There,
    Coming(BoxStream<'static, io::Result<Bytes>>),
}

/// Bytes that are made here, block by block.
struct Blocks {
    size: usize,
    /// Its memory is used again once hyper has sent what was in it.
    buffer: BytesMut,
    reading: Option<JoinHandle<Result<BytesMut, String>>>,
}

impl Drop for Stretch {
    fn drop(&mut self) {
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ImageBody {
    pub(super) fn new(range: Range<u64>, served: Served, reader: IpAddr, readers: Arc<AtomicUsize>) -> Self {
        if range.is_empty() {
            return Self {
                stretch: None,
                ready: None,
                left: 0,
            };
        }
        let now = readers.fetch_add(1, Ordering::Relaxed);
        let from = match &served.content {
            Content::Remote(_) => From::There,
            Content::Layout { .. } => From::Here(Blocks {
                size: if now < MANY { BIG_BLOCK } else { SMALL_BLOCK },
                buffer: BytesMut::new(),
                reading: None,
            }),
        };
        Self {
            left: range.end - range.start,
            stretch: Some(Stretch {
                served,
                at: range.start,
                end: range.end,
                reader,
                from,
                readers,
            }),
            ready: None,
        }
    }

    pub(super) fn text(text: &'static str) -> Self {
        Self {
            stretch: None,
            ready: Some(Bytes::from_static(text.as_bytes())),
            left: text.len() as u64,
        }
    }

    /// Reads the first block.
    pub(super) async fn prime(&mut self) -> Result<(), String> {
        let Some(stretch) = &mut self.stretch else {
            return Ok(());
        };
        if let (From::There, Content::Remote(remote)) = (&stretch.from, &stretch.served.content) {
            let coming = remote.read(stretch.at..stretch.end).await;
            stretch.from = From::Coming(coming.map_err(|error| error.to_string())?);
        }
        let first = std::future::poll_fn(|context| stretch.poll_block(context)).await;
        self.ready = first.transpose()?;
        Ok(())
    }
}

impl Stretch {
    /// The next block; `None` at the end.
    fn poll_block(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        if self.at == self.end {
            return Poll::Ready(None);
        }
        let block = match &mut self.from {
            From::Here(blocks) => blocks.poll_next(&self.served, self.at..self.end, context),
            From::Coming(stream) => stream
                .poll_next_unpin(context)
                .map(|next| next.map(|block| block.map_err(|error| error.to_string()))),
            From::There => Poll::Ready(None),
        };
        block.map(|block| {
            let block = block.unwrap_or_else(|| Err("it ended before the range did".to_owned()));
            Some(block.and_then(|block| {
                self.at += block.len() as u64;
                match self.at > self.end {
                    true => Err("more came than the range has".to_owned()),
                    false => Ok(block),
                }
            }))
        })
    }
}

impl Blocks {
    fn poll_next(
        &mut self,
        served: &Served,
        range: Range<u64>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, String>>> {
        if let Some(reading) = &mut self.reading {
            let Poll::Ready(read) = reading.poll_unpin(context) else {
                return Poll::Pending;
            };
            self.reading = None;
            let read = read.unwrap_or_else(|_| Err("reading was broken off".to_owned()));
            return Poll::Ready(Some(read.map(|buffer| self.take(buffer))));
        }
        let len = usize::try_from(range.end - range.start).map_or(self.size, |left| left.min(self.size));
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(len, 0);
        match served.try_read_at(range.start, &mut buffer) {
            Ok(true) => Poll::Ready(Some(Ok(self.take(buffer)))),
            Ok(false) => {
                let (reader, at) = (served.clone(), range.start);
                self.reading = Some(tokio::task::spawn_blocking(move || {
                    reader.read_at(at, &mut buffer).map_err(|error| error.to_string())?;
                    Ok(buffer)
                }));
                // Waits for the thread that was just begun.
                self.poll_next(served, range, context)
            }
            Err(error) => Poll::Ready(Some(Err(error.to_string()))),
        }
    }

    fn take(&mut self, mut buffer: BytesMut) -> Bytes {
        let block = buffer.split().freeze();
        self.buffer = buffer;
        block
    }
}

impl Body for ImageBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        let block = match this.ready.take() {
            Some(block) => block,
            None => {
                let Some(stretch) = &mut this.stretch else {
                    return Poll::Ready(None);
                };
                match stretch.poll_block(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => return Poll::Ready(None),
                    Poll::Ready(Some(Ok(block))) => block,
                    Poll::Ready(Some(Err(reason))) => {
                        tracing::error!(artefact = %stretch.served.name, %reason, "an artefact cannot be read to its end");
                        return Poll::Ready(Some(Err(io::Error::other(reason))));
                    }
                }
            }
        };
        this.left = this.left.saturating_sub(block.len() as u64);
        if let Some(stretch) = &this.stretch {
            let reads = &stretch.served.reads;
            reads.sent(block.len() as u64, stretch.at, stretch.reader, SystemTime::now());
        }
        Poll::Ready(Some(Ok(Frame::data(block))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
