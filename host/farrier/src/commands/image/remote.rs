//! An image on a web server, read by ranges: only what is asked for crosses the network.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use image::Source;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderMap, IF_MATCH, LAST_MODIFIED, RANGE,
};
use reqwest::{Client, Response, StatusCode};
use tokio::runtime::Handle;
use url::Url;

/// Bytes that are fetched at once where few are asked for: directories lie side by side.
const BLOCK: u64 = 128 << 10;
/// Blocks that are kept.
const KEPT: usize = 64;
/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// One range in all; ranges are a megabyte or less.
const DEADLINE: Duration = Duration::from_secs(120);

/// Must be made and read on a thread that may block, inside the runtime.
pub(super) struct Remote {
    client: Client,
    runtime: Handle,
    url: Url,
    len: u64,
    /// What shows that the image is still the same.
    etag: Option<String>,
    modified: Option<String>,
    blocks: Mutex<VecDeque<(u64, Bytes)>>,
}

impl Remote {
    /// Asks for the image's length, and whether the server answers ranges.
    pub(super) fn open(url: Url, ca: Option<&Path>) -> Result<Self> {
        let mut client = Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(SILENCE)
            .timeout(DEADLINE)
            .user_agent(concat!("farrier/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = ca {
            let pem = std::fs::read(path).with_context(|| format!("could not read --ca {}", path.display()))?;
            let certificates = reqwest::Certificate::from_pem_bundle(&pem)
                .ok()
                .filter(|certificates| !certificates.is_empty())
                .with_context(|| format!("{} (--ca) holds no certificate in PEM", path.display()))?;
            client = client.tls_certs_merge(certificates);
        }
        let mut remote = Self {
            client: client.build().context("could not set up the web client")?,
            runtime: Handle::current(),
            url,
            len: 0,
            etag: None,
            modified: None,
            blocks: Mutex::default(),
        };
        let shown = shown(&remote.url);
        let (response, _) = remote
            .runtime
            .block_on(remote.ask(0, 0))
            .with_context(|| format!("could not read {shown}"))?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::OK => bail!("the server of {shown} answers no ranges: download the image and name the file"),
            StatusCode::RANGE_NOT_SATISFIABLE => bail!("{shown} is empty"),
            StatusCode::NOT_FOUND => bail!("{shown} is not there (404): check the URL"),
            status => bail!("the server of {shown} answers {status}"),
        }
        let headers = response.headers();
        remote.len = whole_length(headers, 0, 0).with_context(|| {
            format!("the server of {shown} tells no length of the image: download it and name the file")
        })?;
        // A weak tag names bytes that are merely alike.
        remote.etag = text(headers, &ETAG).filter(|tag| !tag.starts_with("W/"));
        remote.modified = text(headers, &LAST_MODIFIED);
        Ok(remote)
    }

    /// Asks for the bytes from `first` to `last`, and reads what comes.
    async fn ask(&self, first: u64, last: u64) -> Result<(ResponseHead, Bytes)> {
        let mut request = self
            .client
            .get(self.url.clone())
            .header(ACCEPT_ENCODING, "identity")
            .header(RANGE, format!("bytes={first}-{last}"));
        if let Some(etag) = &self.etag {
            request = request.header(IF_MATCH, etag);
        }
        // A URL in an error of the client may hold a password.
        let mut response = request.send().await.map_err(reqwest::Error::without_url)?;
        let head = ResponseHead::of(&response);
        let mut body = Vec::new();
        if response.status() == StatusCode::PARTIAL_CONTENT {
            let most = last - first + 1;
            while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
                ensure!(
                    (body.len() + chunk.len()) as u64 <= most,
                    "the server sends more than it was asked for"
                );
                body.extend_from_slice(&chunk);
            }
        }
        Ok((head, body.into()))
    }

    fn fetch(&self, first: u64, last: u64) -> Result<Bytes> {
        let (response, bytes) = self.runtime.block_on(self.ask(first, last))?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::PRECONDITION_FAILED => bail!("the image was changed while it was read: run the command again"),
            status => bail!("the server answers {status} to a part of the image"),
        }
        let headers = response.headers();
        ensure!(
            whole_length(headers, first, last) == Some(self.len) && text(headers, &LAST_MODIFIED) == self.modified,
            "the image was changed while it was read, or the server sends another part than was asked for: run the command \
             again"
        );
        ensure!(
            !headers.contains_key(CONTENT_ENCODING),
            "the server sends the image in another coding"
        );
        ensure!(
            bytes.len() as u64 == last - first + 1,
            "the server sends less than it promises"
        );
        Ok(bytes)
    }

    /// The block that starts there.
    fn block(&self, start: u64) -> Result<Bytes> {
        let lock = || self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bytes)) = lock().iter().find(|(at, _)| *at == start) {
            return Ok(bytes.clone());
        }
        let bytes = self.fetch(start, (start + BLOCK).min(self.len) - 1)?;
        let mut blocks = lock();
        if blocks.len() == KEPT {
            blocks.pop_front();
        }
        blocks.push_back((start, bytes.clone()));
        Ok(bytes)
    }
}

impl Source for Remote {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.len);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let failed = |error: anyhow::Error| io::Error::other(format!("{error:#}"));
        if buf.len() as u64 >= BLOCK {
            buf.copy_from_slice(&self.fetch(offset, end - 1).map_err(failed)?);
            return Ok(());
        }
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let start = at / BLOCK * BLOCK;
            let block = self.block(start).map_err(failed)?;
            let skip = usize::try_from(at - start).unwrap_or(usize::MAX);
            let part = rest.len().min(block.len() - skip);
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(part);
            head.copy_from_slice(&block[skip..skip + part]);
            rest = tail;
            at += part as u64;
        }
        Ok(())
    }
}

/// What is kept of an answer when its body has been read.
struct ResponseHead(StatusCode, HeaderMap);

impl ResponseHead {
    fn of(response: &Response) -> Self {
        Self(response.status(), response.headers().clone())
    }

    fn status(&self) -> StatusCode {
        self.0
    }

    fn headers(&self) -> &HeaderMap {
        &self.1
    }
}

fn text(headers: &HeaderMap, name: &reqwest::header::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The length that `Content-Range: bytes first-last/length` tells, if it is about this range.
fn whole_length(headers: &HeaderMap, first: u64, last: u64) -> Option<u64> {
    let range = text(headers, &CONTENT_RANGE)?;
    let (range, len) = range.strip_prefix("bytes ")?.split_once('/')?;
    let (from, to) = range.split_once('-')?;
    let is_ours = from.trim().parse() == Ok(first) && to.trim().parse() == Ok(last);
    is_ours.then(|| len.trim().parse().ok())?.filter(|len| *len > last)
}

/// Without what may be secret: user, password, query.
pub(super) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Fails for URLs without a host only, and then there is nothing to hide.
    let _hidden = (url.set_username(""), url.set_password(None));
    url.set_query(None);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_range_that_was_asked_for_tells_a_length() {
        let told = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, value.parse().unwrap());
            whole_length(&headers, 5, 9)
        };
        assert_eq!(told("bytes 5-9/100"), Some(100));
        for wrong in [
            "bytes 0-9/100",
            "bytes 5-9/*",
            "bytes 5-9/9",
            "bytes 5-8/100",
            "5-9/100",
            "bytes */100",
            "",
        ] {
            assert_eq!(told(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        let url = Url::parse("https://u:hunter2@h/x.iso?sig=hunter2").unwrap();
        assert_eq!(shown(&url), "https://h/x.iso");
    }
}
