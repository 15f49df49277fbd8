//! A look at a source: some bytes of its beginning or its end, kept nowhere.

use bytes::{Bytes, BytesMut};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};
use reqwest::{Response, StatusCode};
use tokio::time::timeout;

use super::errors::{by_status, late, unreachable};
use super::{Asked, Http, refuse_encoded};
use crate::SourceError;

/// What was seen.
pub(crate) struct Peek {
    pub(crate) bytes: Bytes,
    /// Bytes of the whole, where the server tells.
    pub(crate) total: Option<u64>,
}

impl Http {
    /// The first `count` bytes, or all of a shorter one. A server that knows no ranges is listened to for as long.
    pub(crate) async fn first(&self, asked: &Asked, count: usize) -> Result<Peek, SourceError> {
        let response = self
            .part(asked, &format!("bytes=0-{}", count.saturating_sub(1)))
            .await?;
        match response.status() {
            StatusCode::OK => {
                let total = response.content_length();
                let bytes = self.up_to(response, count, asked.shown()).await?;
                Ok(Peek { bytes, total })
            }
            StatusCode::PARTIAL_CONTENT if begins(&response) => {
                let total = total(&response);
                let bytes = self.up_to(response, count, asked.shown()).await?;
                Ok(Peek { bytes, total })
            }
            // Of nothing there is no first byte.
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(Peek {
                bytes: Bytes::new(),
                total: Some(0),
            }),
            status => Err(by_status(status, asked)),
        }
    }

    /// The last `count` bytes; `None` if the server gives no parts.
    pub(crate) async fn last(&self, asked: &Asked, count: usize) -> Result<Option<Bytes>, SourceError> {
        let response = self.part(asked, &format!("bytes=-{count}")).await?;
        if response.status() != StatusCode::PARTIAL_CONTENT {
            return Ok(None);
        }
        let bytes = self.up_to(response, count, asked.shown()).await?;
        Ok((bytes.len() == count).then_some(bytes))
    }

    async fn part(&self, asked: &Asked, range: &str) -> Result<Response, SourceError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Ok(range) = HeaderValue::from_str(range) {
            headers.insert(RANGE, range);
        }
        let response = self.ask(asked, headers).await?;
        refuse_encoded(&response, asked.shown())?;
        Ok(response)
    }

    async fn up_to(&self, mut response: Response, count: usize, shown: &str) -> Result<Bytes, SourceError> {
        let all = async {
            let mut bytes = BytesMut::new();
            while bytes.len() < count {
                match response.chunk().await {
                    Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                    Ok(None) => break,
                    Err(error) => return Err(unreachable(&error, shown)),
                }
            }
            bytes.truncate(count);
            Ok(bytes.freeze())
        };
        let late = |_| late(shown, self.stall, "the server sends it too slowly");
        timeout(self.stall, all).await.map_err(late)?
    }
}

fn begins(response: &Response) -> bool {
    let range = response
        .headers()
        .get(CONTENT_RANGE)
        .and_then(|value| value.to_str().ok());
    range.is_some_and(|range| range.starts_with("bytes 0-"))
}

fn total(response: &Response) -> Option<u64> {
    let range = response.headers().get(CONTENT_RANGE)?.to_str().ok()?;
    range.rsplit_once('/')?.1.trim().parse().ok()
}
