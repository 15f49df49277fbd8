//! Sources of web servers: bounded, checked at each redirect, and not fetched again while the server says that nothing changed.

use std::error::Error;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use model::Sha256;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, LOCATION,
};
use reqwest::{Response, StatusCode};
use sha2::Digest as _;
use tempfile::NamedTempFile;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use url::{Host, Url};

use crate::address::{self, LocalAddress, Outside};
use crate::trust::{self, Trusting, chain};
use crate::{SourceError, reference};

/// Most redirects that one fetch follows.
const REDIRECTS: usize = 5;
/// Longest validator that is kept.
const VALIDATOR_CAP: usize = 1024;
/// Chunks between the network and the disk.
const QUEUE: usize = 16;
const CONNECT: Duration = Duration::from_secs(10);

/// The client of all fetches.
pub(crate) struct Http {
    client: Trusting,
    allow_local: bool,
    /// Longest silence.
    stall: Duration,
    max: u64,
}

/// What the server was known to have.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
}

/// What a fetch brought.
pub(crate) enum Brought {
    /// Nothing has changed.
    Same,
    /// New content, in the file that was given.
    New {
        file: NamedTempFile,
        sha256: Sha256,
        len: u64,
        known: Known,
    },
}

/// What failed: the source, or the cache that it was written to.
pub(crate) enum FetchError {
    Source(SourceError),
    Cache(io::Error),
}

impl From<SourceError> for FetchError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

impl Http {
    pub(crate) fn new(allow_local: bool, ca: Option<&Path>, stall: Duration, max: u64) -> Result<Self, SourceError> {
        let build = move || {
            let builder = trust::builder().connect_timeout(CONNECT);
            match allow_local {
                true => builder,
                false => builder.dns_resolver(Outside),
            }
        };
        let client = Trusting::new(ca, build).map_err(|error| SourceError::Settings {
            reason: error.to_string(),
        })?;
        Ok(Self {
            client,
            allow_local,
            stall,
            max,
        })
    }

    /// Fetches `url` into `file`, unless it is still what is known.
    pub(crate) async fn fetch(
        &self,
        url: &Url,
        known: Option<&Known>,
        file: NamedTempFile,
    ) -> Result<Brought, FetchError> {
        let shown = reference::shown(url);
        let response = self.request(url, known, &shown).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if known.is_some() => return Ok(Brought::Same),
            status => return Err(by_status(status, &shown).into()),
        }
        if let Some(encoding) = response.headers().get(CONTENT_ENCODING)
            && encoding != "identity"
        {
            let reason = "the server sends it compressed although told not to".to_owned();
            return Err(SourceError::Refused {
                reference: shown,
                reason,
            }
            .into());
        }
        let validator = |name: HeaderName| {
            let value = response.headers().get(name)?.to_str().ok()?;
            (value.len() <= VALIDATOR_CAP).then(|| value.to_owned())
        };
        let known = Known {
            etag: validator(ETAG),
            last_modified: validator(LAST_MODIFIED),
        };
        let (file, sha256, len) = self.receive(response, file, &shown).await?;
        Ok(Brought::New {
            file,
            sha256,
            len,
            known,
        })
    }

    /// The first answer that is no redirect.
    async fn request(&self, url: &Url, known: Option<&Known>, shown: &str) -> Result<Response, SourceError> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS {
            if !self.allow_local {
                check_literal(&url, shown)?;
            }
            let mut request = self
                .client
                .client()
                .get(url.clone())
                .header(ACCEPT_ENCODING, "identity");
            if let Some(known) = known {
                if let Some(etag) = &known.etag {
                    request = request.header(IF_NONE_MATCH, etag);
                } else if let Some(since) = &known.last_modified {
                    request = request.header(IF_MODIFIED_SINCE, since);
                }
            }
            let response = timeout(CONNECT + self.stall, request.send())
                .await
                .map_err(|_| late(shown, CONNECT + self.stall, "no answer came"))?
                .map_err(|error| unreachable(&error, shown))?;
            let moved = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.filter(|_| moved) else {
                return Ok(response);
            };
            let refuse = |reason: &str| SourceError::Refused {
                reference: shown.to_owned(),
                reason: reason.to_owned(),
            };
            let next = url
                .join(location)
                .map_err(|_| refuse("it redirects to something that is not a URL"))?;
            match (url.scheme(), next.scheme()) {
                (_, "https") | ("http", "http") => {}
                ("https", "http") => return Err(refuse("it redirects from https to http")),
                _ => return Err(refuse("it redirects to something that is neither http nor https")),
            }
            url = next;
        }
        Err(SourceError::Refused {
            reference: shown.to_owned(),
            reason: format!("it redirects more than {REDIRECTS} times"),
        })
    }

    /// Network and disk side by side: the writer hashes, and waits for the disk, on a thread of its own.
    async fn receive(
        &self,
        mut response: Response,
        mut file: NamedTempFile,
        shown: &str,
    ) -> Result<(NamedTempFile, Sha256, u64), FetchError> {
        let announced = response.content_length();
        let too_big = || SourceError::TooBig {
            reference: shown.to_owned(),
            max: self.max,
        };
        if announced.is_some_and(|len| len > self.max) {
            return Err(too_big().into());
        }
        let (queue, mut chunks) = mpsc::channel::<Bytes>(QUEUE);
        let writer = spawn_blocking(move || -> io::Result<_> {
            let mut hash = sha2::Sha256::new();
            while let Some(chunk) = chunks.blocking_recv() {
                hash.update(&chunk);
                file.write_all(&chunk)?;
            }
            Ok((file, Sha256(hash.finalize().into())))
        });
        let mut len: u64 = 0;
        let received = loop {
            let chunk = match timeout(self.stall, response.chunk()).await {
                Err(_) => break Err(late(shown, self.stall, "the server fell silent")),
                Ok(Err(error)) => break Err(broken(&error, shown, len, announced)),
                Ok(Ok(None)) => break Ok(()),
                Ok(Ok(Some(chunk))) => chunk,
            };
            len = len.saturating_add(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
            if len > self.max {
                break Err(too_big());
            }
            // A writer that is gone says why below.
            if queue.send(chunk).await.is_err() {
                break Ok(());
            }
        };
        drop(queue);
        let written = writer
            .await
            .map_err(|error| FetchError::Cache(io::Error::other(error)))?;
        received?;
        let (file, sha256) = written.map_err(FetchError::Cache)?;
        match announced {
            Some(expected) if expected != len => Err(truncated(shown, len, expected).into()),
            _ => Ok((file, sha256, len)),
        }
    }
}

/// Addresses that stand in the URL itself never reach the resolver.
fn check_literal(url: &Url, shown: &str) -> Result<(), SourceError> {
    let address: IpAddr = match url.host() {
        Some(Host::Ipv4(v4)) => v4.into(),
        Some(Host::Ipv6(v6)) => v6.into(),
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    let host = url.host_str().unwrap_or_default();
    address::check(host, address).map_err(|local| local_error(&local, shown))
}

fn local_error(local: &LocalAddress, shown: &str) -> SourceError {
    SourceError::LocalAddress {
        reference: shown.to_owned(),
        host: local.host.clone(),
        address: local.address,
    }
}

fn by_status(status: StatusCode, shown: &str) -> SourceError {
    let reference = shown.to_owned();
    let code = status.as_u16();
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => SourceError::NotFound {
            reference,
            reason: format!("the server answers HTTP {code}"),
        },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => SourceError::Refused {
            reference,
            reason: format!(
                "the server answers HTTP {code}: put user and password in the URL, or open the file to this machine"
            ),
        },
        status if status.is_server_error() => SourceError::Unreachable {
            reference,
            reason: format!("the server answers HTTP {code}: try again later"),
        },
        _ => SourceError::Refused {
            reference,
            reason: format!("the server answers HTTP {code}"),
        },
    }
}

fn unreachable(error: &reqwest::Error, shown: &str) -> SourceError {
    if let Some(local) = find::<LocalAddress>(error) {
        return local_error(local, shown);
    }
    SourceError::Unreachable {
        reference: shown.to_owned(),
        reason: layers(error),
    }
}

fn broken(error: &reqwest::Error, shown: &str, got: u64, announced: Option<u64>) -> SourceError {
    match announced {
        Some(expected) if got < expected => truncated(shown, got, expected),
        _ => unreachable(error, shown),
    }
}

fn truncated(shown: &str, got: u64, expected: u64) -> SourceError {
    SourceError::Truncated {
        reference: shown.to_owned(),
        got,
        expected,
    }
}

fn late(shown: &str, after: Duration, what: &'static str) -> SourceError {
    SourceError::Timeout {
        reference: shown.to_owned(),
        after,
        what,
    }
}

fn find<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    std::iter::successors(error.source(), |&layer| layer.source()).find_map(|layer| layer.downcast_ref())
}

/// Down to the failing layer, with what to do where that can be told.
fn layers(error: &reqwest::Error) -> String {
    let mut text = chain(error);
    if text.contains("certificate") {
        text.push_str("; give the server's CA");
    }
    text
}
