//! Network and disk side by side: the writer hashes, and waits for the disk, on a thread of its own.

use std::io::{self, Seek, Write};
use std::time::Instant;

use bytes::Bytes;
use model::Sha256;
use reqwest::Response;
use sha2::Digest as _;
use tempfile::NamedTempFile;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::errors::{late, truncated, unreachable};
use super::{FetchError, Http};
use crate::SourceError;

/// Chunks between the network and the disk.
const QUEUE: usize = 16;

/// What has come so far.
pub(super) struct Download {
    file: NamedTempFile,
    sha256: sha2::Sha256,
    sha512: Option<sha2::Sha512>,
    pub(super) len: u64,
}

/// How an answer ended.
pub(super) enum End {
    Whole,
    /// Before its end; what came is kept.
    Cut(SourceError),
}

impl Download {
    pub(super) fn new(file: NamedTempFile, sha512: bool) -> Self {
        Self {
            file,
            sha256: sha2::Sha256::new(),
            sha512: sha512.then(sha2::Sha512::new),
            len: 0,
        }
    }

    /// The same file, empty again.
    pub(super) fn anew(self) -> io::Result<Self> {
        let mut file = self.file;
        if self.len > 0 {
            file.as_file().set_len(0)?;
            file.rewind()?;
        }
        Ok(Self::new(file, self.sha512.is_some()))
    }

    pub(super) fn finish(self) -> (NamedTempFile, Sha256, Option<[u8; 64]>, u64) {
        let sha512 = self.sha512.map(|hash| hash.finalize().into());
        (self.file, Sha256(self.sha256.finalize().into()), sha512, self.len)
    }

    fn take(&mut self, chunk: &Bytes) -> io::Result<()> {
        self.sha256.update(chunk);
        if let Some(hash) = &mut self.sha512 {
            hash.update(chunk);
        }
        self.file.write_all(chunk)
    }
}

impl Http {
    /// Takes an answer's body in. Fails for good if it is too big, too slow, or cannot be written; else says how it ended.
    pub(super) async fn receive(
        &self,
        mut response: Response,
        mut download: Download,
        shown: &str,
        total: Option<u64>,
    ) -> Result<(Download, End), FetchError> {
        let mut len = download.len;
        let (queue, mut chunks) = mpsc::channel::<Bytes>(QUEUE);
        let writer = spawn_blocking(move || -> io::Result<Download> {
            while let Some(chunk) = chunks.blocking_recv() {
                download.take(&chunk)?;
            }
            Ok(download)
        });
        let mut pace = Pace::start();
        let ended: Result<End, SourceError> = loop {
            let chunk = match timeout(self.stall, response.chunk()).await {
                Err(_) => break Ok(End::Cut(late(shown, self.stall, "the server fell silent"))),
                Ok(Err(error)) => {
                    let error = match total {
                        Some(total) if len < total => truncated(shown, len, total),
                        _ => unreachable(&error, shown),
                    };
                    break Ok(End::Cut(error));
                }
                Ok(Ok(None)) => match total {
                    // The rest of a part that ends early is a part of its own.
                    Some(total) if len < total => break Ok(End::Cut(truncated(shown, len, total))),
                    _ => break Ok(End::Whole),
                },
                Ok(Ok(Some(chunk))) => chunk,
            };
            let count = u64::try_from(chunk.len()).unwrap_or(u64::MAX);
            len = len.saturating_add(count);
            if len > self.max {
                break Err(self.too_big(shown));
            }
            if pace.is_too_slow(self, count) {
                break Err(late(shown, self.stall, "the server sends it too slowly"));
            }
            // A writer that is gone says why below.
            if queue.send(chunk).await.is_err() {
                break Ok(End::Whole);
            }
            pace.waited_for_disk();
        };
        drop(queue);
        let written = writer
            .await
            .map_err(|error| FetchError::Cache(io::Error::other(error)))?;
        let end = ended?;
        let mut download = written.map_err(FetchError::Cache)?;
        download.len = len;
        Ok((download, end))
    }
}

/// Measures what the server sends, over spans of the longest silence. Time spent on a slow disk is not the server's.
struct Pace {
    since: Instant,
    mark: Instant,
    /// Time waited for the server in this span.
    waited: std::time::Duration,
    bytes: u64,
}

impl Pace {
    fn start() -> Self {
        let now = Instant::now();
        Self {
            since: now,
            mark: now,
            waited: std::time::Duration::ZERO,
            bytes: 0,
        }
    }

    fn is_too_slow(&mut self, http: &Http, count: u64) -> bool {
        let now = Instant::now();
        self.waited += now - self.mark;
        self.bytes = self.bytes.saturating_add(count);
        if now - self.since < http.stall {
            return false;
        }
        let least = u128::from(http.slowest) * self.waited.as_millis() / 1000;
        let slow = u128::from(self.bytes) < least;
        *self = Self::start();
        slow
    }

    fn waited_for_disk(&mut self) {
        self.mark = Instant::now();
    }
}
