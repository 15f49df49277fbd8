//! The image listener: what BMCs fetch artefacts from.
//!
//! What is answered to whom is decided by [`storage::serve`]; here are the sockets. A read that the page cache can answer is
//! made in place, any other on a thread that may block; a connection holds one block of memory at a time. The only part of a
//! request that counts besides its conditions is its path.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use storage::serve::{Answer, Conditions, answer};
use storage::{Embedded, Served};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::listen::{self, Limits};

/// Bytes read and sent at a time, while few and while many read.
const BIG_BLOCK: usize = 256 << 10;
const SMALL_BLOCK: usize = 64 << 10;
/// Readers from which on blocks are small.
const MANY: usize = 64;
/// How often artefacts are checked against their records.
const SWEEP_EVERY: Duration = Duration::from_secs(300);

/// Serves the artefacts of `embedded` until `stop`.
pub async fn serve(listener: TcpListener, limits: Limits, embedded: Embedded, stop: CancellationToken) {
    let readers = Arc::new(AtomicUsize::new(0));
    let sweeper = sweep(embedded.clone(), stop.clone());
    let answer = move |peer: SocketAddr| {
        let (embedded, readers) = (embedded.clone(), Arc::clone(&readers));
        service_fn(move |request: Request<Incoming>| {
            let (embedded, readers) = (embedded.clone(), Arc::clone(&readers));
            async move {
                let response = respond(&embedded, &request, peer.ip(), readers).await;
                Ok::<_, std::convert::Infallible>(response)
            }
        })
    };
    tokio::join!(listen::serve(listener, limits, answer, stop), sweeper);
}

async fn sweep(embedded: Embedded, stop: CancellationToken) {
    while tokio::time::timeout(SWEEP_EVERY, stop.cancelled()).await.is_err() {
        embedded.sweep().await;
    }
}

async fn respond<B>(
    embedded: &Embedded,
    request: &Request<B>,
    reader: IpAddr,
    readers: Arc<AtomicUsize>,
) -> Response<ImageBody> {
    let Some(name) = embedded.name_in(request.uri().path()) else {
        return plain(StatusCode::NOT_FOUND, "there is no image of that name");
    };
    let served = match embedded.lookup(&name).await {
        Ok(Some(served)) => served,
        Ok(None) => return plain(StatusCode::NOT_FOUND, "there is no image of that name"),
        Err(error) => {
            tracing::warn!(artefact = %name, from = %reader, %error, "could not look up an artefact that is asked for");
            let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, "try again");
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return response;
        }
    };
    let headers = request.headers();
    let conditions = Conditions {
        range: once(headers, header::RANGE),
        if_range: once(headers, header::IF_RANGE),
        if_match: once(headers, header::IF_MATCH),
        if_none_match: once(headers, header::IF_NONE_MATCH),
    };
    let answer = answer(request.method().as_str(), &conditions, &served.resource());
    tracing::debug!(
        artefact = %name, from = %reader, method = %request.method(), status = answer.status,
        start = answer.body.start, end = answer.body.end, "image request"
    );
    let mut body = ImageBody::new(answer.body.clone(), served.clone(), reader, readers);
    if !answer.body.is_empty() {
        served.reads.request(reader);
        // The first block is read before the head goes out, so that a lost source is an error and no broken answer.
        if let Err(reason) = body.prime().await {
            tracing::error!(artefact = %name, %reason, "an artefact cannot be read");
            return plain(StatusCode::INTERNAL_SERVER_ERROR, "the image cannot be read");
        }
    }
    head(answer, body)
}

/// The value of a header that came exactly once and is text.
fn once(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok();
    first.filter(|_| values.next().is_none())
}

fn head(answer: Answer, body: ImageBody) -> Response<ImageBody> {
    let mut response = Response::new(body);
    // The decider's statuses and headers are always legal.
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<ImageBody> {
    let mut response = Response::new(ImageBody::text(text));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A stretch of an image, read as fast as it is sent.
struct ImageBody {
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
    block: usize,
    /// Its memory is used again once hyper has sent what was in it.
    buffer: BytesMut,
    reading: Option<JoinHandle<Result<BytesMut, String>>>,
    readers: Arc<AtomicUsize>,
}

impl Drop for Stretch {
    fn drop(&mut self) {
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ImageBody {
    fn new(range: std::ops::Range<u64>, served: Served, reader: IpAddr, readers: Arc<AtomicUsize>) -> Self {
        if range.is_empty() {
            return Self {
                stretch: None,
                ready: None,
                left: 0,
            };
        }
        let now = readers.fetch_add(1, Ordering::Relaxed);
        let left = range.end - range.start;
        let stretch = Stretch {
            served,
            at: range.start,
            end: range.end,
            reader,
            block: if now < MANY { BIG_BLOCK } else { SMALL_BLOCK },
            buffer: BytesMut::new(),
            reading: None,
            readers,
        };
        Self {
            stretch: Some(stretch),
            ready: None,
            left,
        }
    }

    fn text(text: &'static str) -> Self {
        Self {
            stretch: None,
            ready: Some(Bytes::from_static(text.as_bytes())),
            left: text.len() as u64,
        }
    }

    /// Reads the first block.
    async fn prime(&mut self) -> Result<(), String> {
        let Some(stretch) = &mut self.stretch else {
            return Ok(());
        };
        let first = std::future::poll_fn(|context| stretch.poll_block(context)).await;
        self.ready = first.transpose()?;
        Ok(())
    }
}

impl Stretch {
    /// The next block; `None` at the end.
    fn poll_block(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        if let Some(reading) = &mut self.reading {
            let Poll::Ready(read) = reading.poll_unpin(context) else {
                return Poll::Pending;
            };
            self.reading = None;
            let read = read.unwrap_or_else(|_| Err("reading was broken off".to_owned()));
            return Poll::Ready(Some(read.map(|buffer| self.take(buffer))));
        }
        let left = self.end - self.at;
        if left == 0 {
            return Poll::Ready(None);
        }
        let len = usize::try_from(left).map_or(self.block, |left| left.min(self.block));
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(len, 0);
        match self.served.try_read_at(self.at, &mut buffer) {
            Ok(true) => Poll::Ready(Some(Ok(self.take(buffer)))),
            Ok(false) => {
                let (served, at) = (self.served.clone(), self.at);
                self.reading = Some(tokio::task::spawn_blocking(move || {
                    served.read_at(at, &mut buffer).map_err(|error| error.to_string())?;
                    Ok(buffer)
                }));
                self.poll_block(context)
            }
            Err(error) => Poll::Ready(Some(Err(error.to_string()))),
        }
    }

    fn take(&mut self, mut buffer: BytesMut) -> Bytes {
        let block = buffer.split().freeze();
        self.buffer = buffer;
        self.at += block.len() as u64;
        block
    }
}

impl Body for ImageBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
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
                        return Poll::Ready(Some(Err(std::io::Error::other(reason))));
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
