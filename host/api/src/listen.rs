//! Accepting connections: bounded in number, in time and in memory, with or without TLS.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long open requests may go on after the listener was told to stop.
const DRAIN: Duration = Duration::from_secs(10);
/// Longest head of a request.
const MAX_HEAD: usize = 16 << 10;

/// What a listener grants its clients.
#[derive(Clone)]
pub struct Limits {
    /// Connections at once; others wait in the kernel's queue.
    pub connections: usize,
    /// How long the next head of a request may take to come, so also how long an idle connection stays open.
    pub idle: Duration,
    /// How long a client may take nothing of what is sent to it.
    pub stalled: Duration,
    /// Speak TLS with this certificate.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Limits {
    /// For the API and for agents.
    pub fn api(tls: Option<Arc<ServerConfig>>) -> Self {
        Self {
            connections: share(open_files(), 2048, 8),
            idle: Duration::from_secs(75),
            stalled: Duration::from_secs(60),
            tls,
        }
    }

    /// For BMCs: many, slow, idle while a server works on what it read.
    pub fn images(tls: Option<Arc<ServerConfig>>) -> Self {
        Self {
            connections: share(open_files(), 8192, 2),
            idle: Duration::from_secs(300),
            stalled: Duration::from_secs(120),
            tls,
        }
    }
}

/// How many files and connections this process may have open; `None` is no limit.
fn open_files() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// As many connections as are wanted, but no more than one part in `parts` of the files that may be open. API, agents and
/// images together leave a quarter: however many clients crowd a listener, the store, the BMCs and the other listeners
/// still get theirs.
fn share(open_files: Option<u64>, wanted: usize, parts: u64) -> usize {
    let most = open_files.map_or(wanted, |files| usize::try_from(files / parts).unwrap_or(wanted));
    wanted.min(most).max(1)
}

/// Answers connections with the services that `answer` makes, until `stop`; then lets open requests end.
pub(crate) async fn serve<F, S, B>(listener: TcpListener, limits: Limits, answer: F, stop: CancellationToken)
where
    F: Fn(SocketAddr) -> S,
    S: HttpService<Incoming, ResBody = B> + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut open = JoinSet::new();
    loop {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place,
            () = stop.cancelled() => break,
        };
        // The semaphore is never closed.
        let Ok(place) = place else { break };
        let accepted = loop {
            tokio::select! {
                accepted = listener.accept() => break Some(accepted),
                Some(_) = open.join_next() => {}
                () = stop.cancelled() => break None,
            }
        };
        match accepted {
            None => break,
            Some(Ok((stream, peer))) => {
                let connection = connection(stream, answer(peer), limits.clone(), stop.clone());
                open.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Some(Err(error)) => {
                // Out of file descriptors, most likely: those that are open go on, new ones wait.
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let drained = async { while open.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(DRAIN, drained).await;
}

async fn connection<S, B>(stream: TcpStream, service: S, limits: Limits, stop: CancellationToken)
where
    S: HttpService<Incoming, ResBody = B> + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // Small ranges are answered one by one; waiting to fill packets would cost a round trip each.
    let _ = stream.set_nodelay(true);
    let stream = Stalling::new(stream, limits.stalled);
    match &limits.tls {
        None => http(stream, service, &limits, stop).await,
        Some(tls) => {
            let handshake = TlsAcceptor::from(Arc::clone(tls)).accept(stream);
            let handshake = tokio::time::timeout(HANDSHAKE, handshake);
            let shaken = tokio::select! {
                shaken = handshake => shaken,
                () = stop.cancelled() => return,
            };
            match shaken {
                Ok(Ok(stream)) => http(stream, service, &limits, stop).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            }
        }
    }
}

async fn http<T, S, B>(stream: T, service: S, limits: &Limits, stop: CancellationToken)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: HttpService<Incoming, ResBody = B> + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_buf_size(MAX_HEAD)
        // Some clients shut their sending side once they have asked.
        .half_close(true)
        // Names are case-insensitive, but not to every client in a BMC.
        .title_case_headers(true);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}

/// A stream whose writes fail when the other end takes nothing for too long.
struct Stalling {
    stream: TcpStream,
    patience: Duration,
    deadline: Pin<Box<Sleep>>,
    waiting: bool,
}

impl Stalling {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            deadline: Box::pin(tokio::time::sleep(patience)),
            waiting: false,
        }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.waiting = false;
            return done;
        }
        if !self.waiting {
            self.waiting = true;
            self.deadline.as_mut().reset(Instant::now() + self.patience);
        }
        match self.deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Stalling {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.watch(context, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.watch(context, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_together_leave_a_quarter_of_the_open_files_to_everything_else() {
        for files in [256, 1024, 4096, 20_000] {
            let sum = share(Some(files), 2048, 8) * 2 + share(Some(files), 8192, 2);
            assert!(sum as u64 <= files / 4 * 3, "{sum} of {files}");
        }
        assert_eq!(share(Some(1024), 8192, 2), 512);
        assert_eq!(share(Some(1 << 20), 8192, 2), 8192);
        assert_eq!(share(None, 2048, 8), 2048);
        assert_eq!(share(Some(3), 2048, 8), 1);
    }
}
