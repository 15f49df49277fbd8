//! How a spoiled answer gets onto its connection: in pieces, cut short, or with a reset at its end.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::Delivery;

/// A reply's body.
pub(crate) type Body = BoxBody<Bytes, io::Error>;

/// Tells a connection that it ends by a reset.
#[derive(Clone, Default)]
pub(crate) struct Breaker(Arc<AtomicBool>);

impl Breaker {
    /// From now on nothing more is written, and the connection's end is a reset.
    pub(crate) fn trip(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn tripped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A TCP connection that can end by a reset.
pub(crate) struct Breakable {
    tcp: TcpStream,
    breaker: Breaker,
}

impl Breakable {
    pub(crate) fn new(tcp: TcpStream, breaker: Breaker) -> Self {
        Self { tcp, breaker }
    }
}

impl Drop for Breakable {
    fn drop(&mut self) {
        if self.breaker.tripped() {
            // With no time to linger, closing discards what is unsent and resets. It fails only on a connection that is gone.
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl AsyncRead for Breakable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(context, buffer)
    }
}

impl AsyncWrite for Breakable {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.breaker.tripped() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.breaker.tripped() {
            // An orderly end would come before the reset.
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

/// The body as it is to go out.
pub(crate) fn body(bytes: Bytes, delivery: Delivery, breaker: &Breaker) -> Body {
    match (delivery.cut, delivery.split) {
        (Some(cut), _) if cut < bytes.len() => broken_off(bytes.slice(..cut), delivery.reset.then(|| breaker.clone())),
        (_, Some(size)) => split(bytes, size.max(1)),
        _ => whole(bytes),
    }
}

/// A body as it should be.
pub(crate) fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never: Infallible| match never {}).boxed()
}

/// A body that breaks off behind `bytes`, which ends the connection.
fn broken_off(bytes: Bytes, breaker: Option<Breaker>) -> Body {
    let end = stream::once(async move {
        // The head and the first bytes leave only while the body has nothing to say.
        tokio::time::sleep(Duration::from_millis(20)).await;
        if let Some(breaker) = breaker {
            breaker.trip();
        }
        Err(io::Error::from(io::ErrorKind::ConnectionReset))
    });
    BodyExt::boxed(StreamBody::new(stream::iter([Ok(Frame::data(bytes))]).chain(end)))
}

/// A body in pieces, each a chunk and a write of its own.
fn split(bytes: Bytes, size: usize) -> Body {
    let pieces = stream::unfold(bytes, move |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        // What was said so far goes out while there is nothing to say.
        tokio::task::yield_now().await;
        let piece = rest.split_to(size.min(rest.len()));
        Some((Ok(Frame::data(piece)), rest))
    });
    BodyExt::boxed(StreamBody::new(pieces))
}
