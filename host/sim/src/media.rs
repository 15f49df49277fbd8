//! An inserted image: read on demand over HTTP, in the shape of the BMC that holds it.
//!
//! The client is written by hand because its shape matters, header by header; the profile says what it is. Nothing is fetched
//! before something reads. A ranged read that is not answered with an exact 206 is a media error; redirects are not followed.

mod image_url;
mod record;
mod reply;

use std::io::SeekFrom;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::timeout;

use crate::faults::{Content, Effect, garbage};
use crate::media::reply::Reply;
use crate::profile::{Device, FirstRead, MediaClient};
use crate::trace::reads::{Read, ReadWatch, effect_of};
use crate::trace::{self, without_credentials};

pub(crate) use image_url::ImageUrl;
pub use record::MediaReads;
pub(crate) use record::ReadRecord;

/// Why an image could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MediaError {
    #[error("cannot connect to {address}: {reason}")]
    Connect { address: String, reason: String },
    #[error("the image server closed or broke the connection: {0}")]
    Broken(#[source] std::io::Error),
    #[error("the image server did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("the image server answered {got} instead of {wanted}")]
    Status { got: u16, wanted: u16 },
    #[error("the image server's reply is not one a BMC can read: {0}")]
    Reply(String),
    #[error("the copy of the image cannot be kept: {0}")]
    Copy(#[source] std::io::Error),
    #[error("read of {len} bytes at {offset} is outside the image of {size} bytes")]
    Outside { offset: u64, len: u64, size: u64 },
}

/// One inserted image.
pub(crate) struct Medium {
    url: ImageUrl,
    shape: &'static MediaClient,
    tls: Arc<ClientConfig>,
    deadline: Duration,
    sector: u64,
    connection: Mutex<Option<Box<dyn Stream>>>,
    size: OnceCell<u64>,
    /// The whole file, of a BMC that fetches it so.
    copy: OnceCell<Mutex<File>>,
    record: Arc<ReadRecord>,
    watch: Option<ReadWatch>,
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for T {}

/// How a medium reads.
pub(crate) struct ReadRules {
    pub(crate) device: Device,
    pub(crate) shape: &'static MediaClient,
    /// For one answer, or one piece of a whole file.
    pub(crate) deadline: Duration,
    pub(crate) tls: Arc<ClientConfig>,
    /// The rules and the trace of the server that reads.
    pub(crate) watch: Option<ReadWatch>,
}

impl Medium {
    pub(crate) fn new(text: &str, url: ImageUrl, rules: ReadRules) -> Self {
        Self {
            url,
            shape: rules.shape,
            tls: rules.tls,
            deadline: rules.deadline,
            sector: match rules.device {
                Device::Cd => 2048,
                Device::Floppy => 512,
            },
            connection: Mutex::new(None),
            size: OnceCell::new(),
            copy: OnceCell::new(),
            record: Arc::new(ReadRecord::new(
                rules.device,
                without_credentials(text).unwrap_or_else(|| text.to_owned()),
            )),
            watch: rules.watch,
        }
    }

    pub(crate) fn record(&self) -> &Arc<ReadRecord> {
        &self.record
    }

    /// Size of the image: by a HEAD, by the first sector's `Content-Range`, or by fetching it.
    pub(crate) async fn size(&self) -> Result<u64, MediaError> {
        self.size.get_or_try_init(|| self.learn_size()).await.copied()
    }

    async fn learn_size(&self) -> Result<u64, MediaError> {
        match self.shape.first {
            FirstRead::Range => Ok(self.counted(0, self.sector.max(self.shape.least)).await?.1),
            FirstRead::Head => self.noted(self.head().await),
            FirstRead::Whole => self.noted(self.watched_whole().await),
        }
    }

    /// Exactly `len` bytes at `offset`, by as many reads as it takes.
    pub(crate) async fn read_at(&self, offset: u64, len: u64) -> Result<Vec<u8>, MediaError> {
        let size = self.size().await?;
        let end = offset.checked_add(len).filter(|end| *end <= size);
        let end = end.ok_or(MediaError::Outside { offset, len, size })?;
        if let Some(copy) = self.copy.get() {
            return read_copy(copy, offset, len).await;
        }
        let (start, stop) = widened(offset, end, size, self.shape.least);
        let mut bytes = Vec::new();
        let mut at = start;
        while at < stop {
            let part = (stop - at).min(self.shape.most);
            let (read, total) = self.counted(at, part).await?;
            if total != size {
                return Err(MediaError::Reply(format!(
                    "the image changed its size from {size} to {total}"
                )));
            }
            bytes.extend_from_slice(&read);
            at += part;
        }
        let skip = usize::try_from(offset - start).unwrap_or(usize::MAX).min(bytes.len());
        let mut bytes = bytes.split_off(skip);
        bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn noted<T>(&self, result: Result<T, MediaError>) -> Result<T, MediaError> {
        if let Err(error) = &result {
            self.record.failed(error);
        }
        result
    }

    async fn counted(&self, offset: u64, len: u64) -> Result<(Vec<u8>, u64), MediaError> {
        let (bytes, size) = self.noted(self.fetch(offset, len).await)?;
        let got = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.record.answered(offset, got, size);
        Ok((bytes, size))
    }

    async fn fetch(&self, offset: u64, len: u64) -> Result<(Vec<u8>, u64), MediaError> {
        let last = offset.saturating_add(len.saturating_sub(1));
        let request = self.url.request(self.shape, "GET", Some((offset, last)));
        let reply = self.exchange(&request, Some((offset, last))).await?;
        Ok((reply.body, reply.total))
    }

    async fn head(&self) -> Result<u64, MediaError> {
        let request = self.url.request(self.shape, "HEAD", None);
        Ok(self.exchange(&request, None).await?.total)
    }

    /// One request, unless a rule makes something else of it, and its line in the trace.
    async fn exchange(&self, request: &str, range: Option<(u64, u64)>) -> Result<Reply, MediaError> {
        let time = trace::now();
        let method = request.split(' ').next().unwrap_or_default();
        let rule = match &self.watch {
            Some(watch) => watch.rule(method, self.url.path()).await,
            None => None,
        };
        let mut result = match effect_of(rule.as_ref()) {
            Effect::Hang => self.out_of_patience().await,
            Effect::Drop => self.abandon(request).await,
            _ => self.ask(request, range).await,
        };
        match (effect_of(rule.as_ref()), &mut result) {
            (Effect::Truncate(bytes), Ok(reply)) if *bytes < reply.body.len() => {
                self.connection.lock().await.take();
                result = Err(MediaError::Broken(std::io::ErrorKind::UnexpectedEof.into()));
            }
            (Effect::Content(Content::Garbage), Ok(reply)) => reply.body = garbage(reply.body.len()),
            _ => {}
        }
        if let Some(watch) = &self.watch {
            watch.note(&Read {
                time,
                method,
                url: self.record.url(),
                range,
                bytes: result
                    .as_ref()
                    .ok()
                    .and_then(|reply| u64::try_from(reply.body.len()).ok()),
                error: result.as_ref().err().map(ToString::to_string),
                fault: rule.as_ref().map(|rule| rule.name.as_str()),
            });
        }
        result
    }

    /// The same for a whole file.
    async fn watched_whole(&self) -> Result<u64, MediaError> {
        let time = trace::now();
        let rule = match &self.watch {
            Some(watch) => watch.rule("GET", self.url.path()).await,
            None => None,
        };
        let result = match effect_of(rule.as_ref()) {
            Effect::Hang => self.out_of_patience().await,
            Effect::Drop | Effect::Truncate(_) => self.abandon(&self.url.request(self.shape, "GET", None)).await,
            _ => self.fetch_whole().await,
        };
        if let (Effect::Content(Content::Garbage), Ok(size), Some(copy)) =
            (effect_of(rule.as_ref()), &result, self.copy.get())
        {
            let length = usize::try_from(*size).unwrap_or(usize::MAX).min(64 << 10);
            let mut file = copy.lock().await;
            file.seek(SeekFrom::Start(0)).await.map_err(MediaError::Copy)?;
            file.write_all(&garbage(length)).await.map_err(MediaError::Copy)?;
            file.flush().await.map_err(MediaError::Copy)?;
        }
        if let Some(watch) = &self.watch {
            watch.note(&Read {
                time,
                method: "GET",
                url: self.record.url(),
                range: None,
                bytes: result.as_ref().ok().copied(),
                error: result.as_ref().err().map(ToString::to_string),
                fault: rule.as_ref().map(|rule| rule.name.as_str()),
            });
        }
        result
    }

    async fn out_of_patience<T>(&self) -> Result<T, MediaError> {
        tokio::time::sleep(self.deadline).await;
        Err(MediaError::TimedOut(self.deadline))
    }

    /// Asks and goes away before the answer.
    async fn abandon<T>(&self, request: &str) -> Result<T, MediaError> {
        let mut stream = self.connect().await?;
        let sent = timeout(self.deadline, stream.write_all(request.as_bytes())).await;
        sent.map_err(|_| MediaError::TimedOut(self.deadline))?
            .map_err(MediaError::Broken)?;
        Err(MediaError::Broken(std::io::ErrorKind::ConnectionAborted.into()))
    }

    /// One request. A kept connection may have been closed meanwhile, so a break on one is tried again once on a new
    /// connection; a break on a new one is the answer.
    async fn ask(&self, request: &str, range: Option<(u64, u64)>) -> Result<Reply, MediaError> {
        let mut slot = self.connection.lock().await;
        if let Some(kept) = slot.take() {
            match self.talk(kept, request, range, &mut slot).await {
                Err(MediaError::Broken(_)) => {}
                other => return other,
            }
        }
        let fresh = self.connect().await?;
        self.talk(fresh, request, range, &mut slot).await
    }

    async fn talk(
        &self,
        mut stream: Box<dyn Stream>,
        request: &str,
        range: Option<(u64, u64)>,
        keep: &mut Option<Box<dyn Stream>>,
    ) -> Result<Reply, MediaError> {
        let reply = timeout(self.deadline, async {
            stream.write_all(request.as_bytes()).await.map_err(MediaError::Broken)?;
            match range {
                Some((first, last)) => reply::read_range(&mut stream, first, last).await,
                None => reply::read_head_only(&mut stream).await,
            }
        })
        .await
        .map_err(|_| MediaError::TimedOut(self.deadline))??;
        if reply.keep_alive {
            *keep = Some(stream);
        }
        Ok(reply)
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, MediaError> {
        timeout(self.deadline, self.url.connect(&self.tls))
            .await
            .map_err(|_| MediaError::TimedOut(self.deadline))?
    }

    /// The whole file into a copy without a name; piece by piece, so that nothing of its size is in memory.
    async fn fetch_whole(&self) -> Result<u64, MediaError> {
        let mut stream = self.connect().await?;
        let request = self.url.request(self.shape, "GET", None);
        let start = async {
            stream.write_all(request.as_bytes()).await.map_err(MediaError::Broken)?;
            reply::read_whole(&mut stream).await
        };
        let (size, first) = timeout(self.deadline, start)
            .await
            .map_err(|_| MediaError::TimedOut(self.deadline))??;
        let mut file = File::from_std(tempfile::tempfile().map_err(MediaError::Copy)?);
        file.write_all(&first).await.map_err(MediaError::Copy)?;
        let mut have = u64::try_from(first.len()).unwrap_or(u64::MAX);
        let mut piece = vec![0; 8 << 10];
        while have < size {
            let got = timeout(self.deadline, stream.read(&mut piece))
                .await
                .map_err(|_| MediaError::TimedOut(self.deadline))?
                .map_err(MediaError::Broken)?;
            let more = u64::try_from(got).unwrap_or(u64::MAX);
            if got == 0 || more > size - have {
                return Err(MediaError::Reply(format!("{} bytes of {size} came, then {got}", have)));
            }
            file.write_all(&piece[..got]).await.map_err(MediaError::Copy)?;
            have += more;
        }
        file.flush().await.map_err(MediaError::Copy)?;
        // Only one call at a time gets here.
        let _ = self.copy.set(Mutex::new(file));
        self.record.answered(0, size, size);
        Ok(size)
    }
}

/// The range that is asked for to get `offset..end`: whole pieces of `least` bytes, but not past the image.
fn widened(offset: u64, end: u64, size: u64, least: u64) -> (u64, u64) {
    let start = offset - offset % least;
    let stop = end.checked_next_multiple_of(least).unwrap_or(size).min(size);
    (start, stop)
}

async fn read_copy(copy: &Mutex<File>, offset: u64, len: u64) -> Result<Vec<u8>, MediaError> {
    let mut file = copy.lock().await;
    file.seek(SeekFrom::Start(offset)).await.map_err(MediaError::Copy)?;
    let mut bytes = Vec::new();
    let mut part = (&mut *file).take(len);
    part.read_to_end(&mut bytes).await.map_err(MediaError::Copy)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_widened_to_whole_pieces_and_never_past_the_end() {
        for ((offset, end, size, least), want) in [
            ((0, 10, 100, 1), (0, 10)),
            ((2048, 4096, 10_000, 4096), (0, 4096)),
            ((4096, 4097, 10_000, 4096), (4096, 8192)),
            ((9000, 10_000, 10_000, 4096), (8192, 10_000)),
        ] {
            assert_eq!(widened(offset, end, size, least), want);
        }
    }
}
