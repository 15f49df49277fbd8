//! An inserted image: read on demand over HTTP by ranges, in the shape that an iLO uses.
//!
//! The client is written by hand because its shape matters: `GET` only, no `HEAD`, and exactly two headers,
//! `Host` without a port and `Range` with both ends padded to 20 digits. Nothing is fetched before something reads.
//! What does not answer with an exact 206 is a media error; redirects are not followed.

mod reply;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::media::reply::read_reply;
use crate::profile::Device;
use crate::trace::without_credentials;

/// Distinct byte ranges kept in the record of one image; past it, neighbours are merged across their gap.
const RANGES_KEPT: usize = 4096;

/// An image URL that an iLO accepts.
#[derive(Clone)]
pub(crate) struct ImageUrl {
    tls: bool,
    host: Host<String>,
    port: u16,
    /// Path as it stands in the request line.
    path: String,
    authorization: Option<String>,
}

/// Why an image could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MediaError {
    #[error("cannot connect to {address}: {reason}")]
    Connect { address: String, reason: String },
    #[error("the image server closed or broke the connection: {0}")]
    Broken(#[source] std::io::Error),
    #[error("the image server did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("the image server answered {0} instead of 206")]
    Status(u16),
    #[error("the image server's reply is not one a BMC can read: {0}")]
    Reply(String),
    #[error("read of {len} bytes at {offset} is outside the image of {size} bytes")]
    Outside { offset: u64, len: u64, size: u64 },
}

/// What one inserted image was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct MediaReads {
    /// Which slot.
    pub device: Device,
    /// The image URL, without credentials.
    pub url: String,
    /// Size of the image, once known.
    pub size: Option<u64>,
    /// Ranged requests that were answered.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Which bytes were read, as merged half-open ranges in order.
    pub ranges: Vec<(u64, u64)>,
    /// Reads that failed.
    pub errors: u64,
    /// The last failure.
    pub last_error: Option<String>,
}

/// The running count behind [`MediaReads`].
#[derive(Debug)]
pub(crate) struct ReadRecord {
    device: Device,
    url: String,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    size: Option<u64>,
    requests: u64,
    bytes: u64,
    ranges: BTreeMap<u64, u64>,
    errors: u64,
    last_error: Option<String>,
}

/// One inserted image.
pub(crate) struct Medium {
    url: ImageUrl,
    tls: Arc<ClientConfig>,
    deadline: Duration,
    first_read: u64,
    largest_read: u64,
    connection: tokio::sync::Mutex<Option<Box<dyn Stream>>>,
    size: tokio::sync::OnceCell<u64>,
    record: Arc<ReadRecord>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for T {}

impl ImageUrl {
    /// Parses an absolute http or https URL; says why not.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            other => return Err(format!("scheme {other} cannot be read by a BMC")),
        };
        let host = url.host().ok_or("no host")?.to_owned();
        let port = url.port_or_known_default().ok_or("no port")?;
        let mut path = url.path().to_owned();
        if let Some(query) = url.query() {
            path.push('?');
            path.push_str(query);
        }
        let authorization = (!url.username().is_empty()).then(|| {
            let pair = format!("{}:{}", url.username(), url.password().unwrap_or_default());
            format!("Basic {}", STANDARD.encode(pair))
        });
        Ok(Self {
            tls,
            host,
            port,
            path,
            authorization,
        })
    }

    fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The request as it goes on the wire.
    fn request(&self, first: u64, last: u64) -> String {
        let mut text = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nRange: bytes={first:020}-{last:020}\r\n",
            self.path, self.host
        );
        if let Some(value) = &self.authorization {
            text.push_str("Authorization: ");
            text.push_str(value);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        text
    }

    async fn connect(&self, tls: &Arc<ClientConfig>) -> Result<Box<dyn Stream>, MediaError> {
        let wrong = |reason: String| MediaError::Connect {
            address: self.address(),
            reason,
        };
        let tcp = match &self.host {
            Host::Domain(name) => TcpStream::connect((name.as_str(), self.port)).await,
            Host::Ipv4(address) => TcpStream::connect((*address, self.port)).await,
            Host::Ipv6(address) => TcpStream::connect((*address, self.port)).await,
        }
        .map_err(|error| wrong(error.to_string()))?;
        tcp.set_nodelay(true).map_err(|error| wrong(error.to_string()))?;
        if !self.tls {
            return Ok(Box::new(tcp));
        }
        let name = match &self.host {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|error| wrong(error.to_string()))?,
            Host::Ipv4(address) => ServerName::IpAddress(std::net::IpAddr::V4(*address).into()),
            Host::Ipv6(address) => ServerName::IpAddress(std::net::IpAddr::V6(*address).into()),
        };
        let stream = TlsConnector::from(Arc::clone(tls))
            .connect(name, tcp)
            .await
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Box::new(stream))
    }
}

/// How a medium reads.
pub(crate) struct ReadRules {
    pub(crate) device: Device,
    pub(crate) first_read: u64,
    pub(crate) largest_read: u64,
    pub(crate) deadline: Duration,
    pub(crate) tls: Arc<ClientConfig>,
}

impl Medium {
    pub(crate) fn new(text: &str, url: ImageUrl, rules: ReadRules) -> Self {
        Self {
            url,
            tls: rules.tls,
            deadline: rules.deadline,
            first_read: rules.first_read.max(1),
            largest_read: rules.largest_read.max(1),
            connection: tokio::sync::Mutex::new(None),
            size: tokio::sync::OnceCell::new(),
            record: Arc::new(ReadRecord {
                device: rules.device,
                url: without_credentials(text).unwrap_or_else(|| text.to_owned()),
                counts: Mutex::new(Counts::default()),
            }),
        }
    }

    pub(crate) fn record(&self) -> &Arc<ReadRecord> {
        &self.record
    }

    /// Size of the image, learnt from the first sector's `Content-Range`.
    pub(crate) async fn size(&self) -> Result<u64, MediaError> {
        self.size
            .get_or_try_init(|| async {
                let (_, size) = self.counted(0, self.first_read).await?;
                Ok(size)
            })
            .await
            .copied()
    }

    /// Exactly `len` bytes at `offset`, by as many ranged reads as it takes.
    pub(crate) async fn read_at(&self, offset: u64, len: u64) -> Result<Vec<u8>, MediaError> {
        let size = self.size().await?;
        let end = offset.checked_add(len).filter(|end| *end <= size);
        let end = end.ok_or(MediaError::Outside { offset, len, size })?;
        let mut bytes = Vec::new();
        let mut at = offset;
        while at < end {
            let part = (end - at).min(self.largest_read);
            let (read, total) = self.counted(at, part).await?;
            if total != size {
                return Err(MediaError::Reply(format!(
                    "the image changed its size from {size} to {total}"
                )));
            }
            bytes.extend_from_slice(&read);
            at += part;
        }
        Ok(bytes)
    }

    async fn counted(&self, offset: u64, len: u64) -> Result<(Vec<u8>, u64), MediaError> {
        let result = self.fetch(offset, len).await;
        let mut counts = self.record.lock();
        match &result {
            Ok((bytes, size)) => {
                let got = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                counts.requests += 1;
                counts.bytes = counts.bytes.saturating_add(got);
                counts.size = Some(*size);
                counts.add_range(offset, offset.saturating_add(got));
            }
            Err(error) => {
                counts.errors += 1;
                counts.last_error = Some(error.to_string());
            }
        }
        result
    }

    /// One ranged read. A kept connection may have been closed meanwhile, so a break on one is tried again
    /// once on a new connection; a break on a new one is the answer.
    async fn fetch(&self, offset: u64, len: u64) -> Result<(Vec<u8>, u64), MediaError> {
        let mut slot = self.connection.lock().await;
        if let Some(kept) = slot.take() {
            match self.exchange(kept, offset, len, &mut slot).await {
                Err(MediaError::Broken(_)) => {}
                other => return other,
            }
        }
        let fresh = timeout(self.deadline, self.url.connect(&self.tls))
            .await
            .map_err(|_| MediaError::TimedOut(self.deadline))??;
        self.exchange(fresh, offset, len, &mut slot).await
    }

    async fn exchange(
        &self,
        mut stream: Box<dyn Stream>,
        offset: u64,
        len: u64,
        keep: &mut Option<Box<dyn Stream>>,
    ) -> Result<(Vec<u8>, u64), MediaError> {
        let last = offset.saturating_add(len.saturating_sub(1));
        let request = self.url.request(offset, last);
        let reply = timeout(self.deadline, async {
            stream.write_all(request.as_bytes()).await.map_err(MediaError::Broken)?;
            read_reply(&mut stream, offset, last).await
        })
        .await
        .map_err(|_| MediaError::TimedOut(self.deadline))??;
        if reply.keep_alive {
            *keep = Some(stream);
        }
        Ok((reply.body, reply.total))
    }
}

impl ReadRecord {
    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn snapshot(&self) -> MediaReads {
        let counts = self.lock();
        MediaReads {
            device: self.device,
            url: self.url.clone(),
            size: counts.size,
            requests: counts.requests,
            bytes: counts.bytes,
            ranges: counts.ranges.iter().map(|(a, b)| (*a, *b)).collect(),
            errors: counts.errors,
            last_error: counts.last_error.clone(),
        }
    }
}

impl Counts {
    fn add_range(&mut self, mut start: u64, mut end: u64) {
        if start == end {
            return;
        }
        while let Some((&a, &b)) = self.ranges.range(..=end).next_back() {
            if b < start {
                break;
            }
            self.ranges.remove(&a);
            start = start.min(a);
            end = end.max(b);
        }
        self.ranges.insert(start, end);
        if self.ranges.len() > RANGES_KEPT {
            let mut first = self.ranges.iter();
            let (a, b) = (first.next(), first.next());
            if let (Some((&a, _)), Some((&second, &end))) = (a, b) {
                self.ranges.remove(&second);
                self.ranges.insert(a, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_an_ilo_s_byte_for_byte() {
        let url = ImageUrl::parse("http://127.0.0.1:8080/a/b.iso").unwrap();
        assert_eq!(
            url.request(561_152, 563_199),
            "GET /a/b.iso HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes=00000000000000561152-00000000000000563199\r\n\r\n"
        );
        let url = ImageUrl::parse("https://[::1]/x.iso").unwrap();
        assert!(url.request(0, 1).contains("\r\nHost: [::1]\r\n"));
    }

    #[test]
    fn only_http_urls_are_images() {
        for text in ["file:///x.iso", "ftp://h/x.iso", "nfs://h/x.iso", "/x.iso", "http:///"] {
            assert!(ImageUrl::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ranges_are_merged() {
        let mut counts = Counts::default();
        for (a, b) in [(0, 10), (20, 30), (10, 15), (5, 22), (40, 50)] {
            counts.add_range(a, b);
        }
        assert_eq!(counts.ranges.into_iter().collect::<Vec<_>>(), [(0, 30), (40, 50)]);
    }
}
