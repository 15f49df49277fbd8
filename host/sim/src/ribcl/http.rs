//! How an answer gets onto a connection that an HTTP library holds: that one's own reply is thrown away for bytes of ours,
//! since no library writes a chunk of `01d` bytes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::faults::deliver::Breaker;

/// Bytes that go out in place of the next reply, the last one of its connection.
#[derive(Clone, Default)]
pub(crate) struct Instead(Arc<Mutex<Option<Replacement>>>);

/// The bytes, and the breaker of a connection that ends by a reset.
type Replacement = (Vec<u8>, Option<Breaker>);

impl Instead {
    /// What goes out from the next write on. After it the connection ends, with a breaker by a reset.
    pub(crate) fn set(&self, bytes: Vec<u8>, breaker: Option<Breaker>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((bytes, breaker));
    }

    fn take(&self) -> Option<Replacement> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A connection whose replies can be replaced, and which may have been read from already.
pub(crate) struct Tap<S> {
    stream: S,
    /// Read before, and not yet passed on.
    before: Vec<u8>,
    instead: Instead,
    /// What is left of the bytes that replace a reply; some once there were any.
    sending: Option<Vec<u8>>,
    breaker: Option<Breaker>,
}

impl<S> Tap<S> {
    pub(crate) fn new(stream: S, before: Vec<u8>, instead: Instead) -> Self {
        Self {
            stream,
            before,
            instead,
            sending: None,
            breaker: None,
        }
    }
}

impl<S: AsyncWrite + Unpin> Tap<S> {
    /// Writes what replaces a reply until nothing is left.
    fn send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(bytes) = &mut self.sending else {
            return Poll::Ready(Ok(()));
        };
        while !bytes.is_empty() {
            match Pin::new(&mut self.stream).poll_write(context, bytes) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => drop(bytes.drain(..count)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.before.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.before.len().min(buffer.remaining());
        buffer.put_slice(&self.before[..count]);
        self.before.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        if let Some((bytes, breaker)) = self.instead.take() {
            self.sending = Some(bytes);
            self.breaker = breaker;
        }
        if self.sending.is_none() {
            return Pin::new(&mut self.stream).poll_write(context, buffer);
        }
        match self.send(context) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.len())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.send(context) {
            Poll::Ready(Ok(())) => {}
            other => return other,
        }
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready()
            && let Some(breaker) = &self.breaker
        {
            breaker.trip();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.send(context) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.stream).poll_shutdown(context),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_reply_is_replaced_and_what_was_read_before_comes_first() {
        let (near, mut far) = tokio::io::duplex(8);
        let instead = Instead::default();
        let mut tap = Tap::new(near, b"GET ".to_vec(), instead.clone());
        let writer = tokio::spawn(async move {
            let mut head = [0; 5];
            tap.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"GET /");
            tap.write_all(b"as is ").await.unwrap();
            instead.set(b"something else altogether".to_vec(), None);
            tap.write_all(b"what the library").await.unwrap();
            tap.write_all(b"says").await.unwrap();
            tap.shutdown().await.unwrap();
        });
        far.write_all(b"/").await.unwrap();
        let mut got = String::new();
        far.read_to_string(&mut got).await.unwrap();
        writer.await.unwrap();
        assert_eq!(got, "as is something else altogether");
    }
}
