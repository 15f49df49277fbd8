//! Sources of servers: bounded, resumed after a cut, and not fetched again while the server says that nothing changed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use model::{Secret, Sha256};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use reqwest::{Response, StatusCode};
use tempfile::NamedTempFile;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use url::Url;

use crate::address::Outside;
use crate::trust::{self, Trusting};
use crate::{SourceError, SourcesConfig};

mod ask;
mod download;
mod errors;
mod peek;
mod resume;

pub(crate) use ask::Asked;
use download::{Download, End};
use errors::by_status;
use resume::Known;
pub(crate) use resume::Validators;

const CONNECT: Duration = Duration::from_secs(10);
/// Attempts in a row that bring nothing new before a fetch fails.
const FRUITLESS: u32 = 2;
/// Attempts in all.
const ATTEMPTS: u32 = 32;
/// Before an attempt, for each fruitless one before it.
const PAUSE: Duration = Duration::from_millis(200);

/// User and password for a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Login {
    /// Sent to this origin only; `None`: to every server that a reference names, but to none that it redirects to.
    pub origin: Option<Url>,
    /// User name.
    pub user: String,
    /// Password.
    pub password: Secret,
}

/// The client of all fetches.
pub(crate) struct Http {
    client: Trusting,
    allow_local: bool,
    allowed: Vec<SocketAddr>,
    proxied: bool,
    logins: Vec<Login>,
    /// Longest silence; also the span over which the speed is measured.
    stall: Duration,
    /// Bytes a second.
    slowest: u64,
    max: u64,
}

/// What a fetch brought.
pub(crate) enum Brought {
    /// Nothing has changed.
    Same,
    /// New content, in the file that was given.
    New(Box<Content>),
}

/// What came.
pub(crate) struct Content {
    pub(crate) file: NamedTempFile,
    pub(crate) sha256: Sha256,
    /// Where it was asked for.
    pub(crate) sha512: Option<[u8; 64]>,
    pub(crate) len: u64,
    pub(crate) validators: Validators,
    /// It came in several pieces.
    pub(crate) resumed: bool,
}

/// What failed: the source, or the cache that it was written to.
#[derive(Debug)]
pub(crate) enum FetchError {
    Source(SourceError),
    Cache(io::Error),
}

impl From<SourceError> for FetchError {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

/// Makes sure that there is room for so many bytes. Blocks.
pub(crate) type Room = Arc<dyn Fn(u64) -> Result<(), SourceError> + Send + Sync>;

/// How a fetch is to be done.
pub(crate) struct Terms {
    /// What the server was known to have.
    pub(crate) known: Option<Validators>,
    /// Also learn the SHA-512.
    pub(crate) sha512: bool,
    /// Go on after a cut where it was cut.
    pub(crate) resume: bool,
    pub(crate) room: Room,
}

impl Http {
    pub(crate) fn new(config: &SourcesConfig) -> Result<Self, SourceError> {
        let wrong = |reason: String| SourceError::Settings { reason };
        let allow_local = config.allow_local_addresses;
        let proxy = match &config.proxy {
            Some(url) => {
                let proxy = reqwest::Proxy::all(url.expose());
                Some(proxy.map_err(|_| wrong("the proxy must be http(s)://[USER:PASSWORD@]HOST[:PORT]".to_owned()))?)
            }
            None => None,
        };
        let proxied = proxy.is_some();
        let build = move || {
            let builder = trust::builder().connect_timeout(CONNECT);
            match &proxy {
                // It is the proxy that names are resolved for here; see `ask` for the others.
                Some(proxy) => builder.proxy(proxy.clone()),
                None if allow_local => builder,
                None => builder.dns_resolver(Outside),
            }
        };
        Ok(Self {
            client: Trusting::new(config.ca.as_deref(), build).map_err(|error| wrong(error.to_string()))?,
            allow_local,
            allowed: config.allowed_local.clone(),
            proxied,
            logins: config.logins.clone(),
            stall: config.stall,
            slowest: config.slowest,
            max: config.max_source_bytes,
        })
    }

    /// Fetches what was asked for into `file`, unless it is still what is known.
    pub(crate) async fn fetch(&self, asked: &Asked, file: NamedTempFile, terms: Terms) -> Result<Brought, FetchError> {
        let shown = asked.shown();
        let mut download = Download::new(file, terms.sha512);
        // What the pieces so far belong to; `None` before the first byte.
        let mut begun: Option<Known> = None;
        let mut fruitless = 0;
        for attempt in 0..ATTEMPTS {
            // A cut that came after something new may be asked after at once.
            sleep(PAUSE * fruitless).await;
            let range = begun
                .as_ref()
                .filter(|_| terms.resume && download.len > 0)
                .and_then(Known::range);
            let resuming = range.is_some();
            let headers = match range {
                Some(range) => range.headers(download.len),
                None => conditions(terms.known.as_ref().filter(|_| begun.is_none())),
            };
            let response = match self.ask(asked, headers).await {
                Ok(response) => response,
                // After a cut the server may need a moment.
                Err(error) if begun.is_some() && error.is_transient() && fruitless < FRUITLESS => {
                    fruitless += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let continued = match response.status() {
                StatusCode::OK => false,
                StatusCode::NOT_MODIFIED if terms.known.is_some() && begun.is_none() => return Ok(Brought::Same),
                StatusCode::PARTIAL_CONTENT if resuming => true,
                // What we have is no beginning of what it has now.
                StatusCode::RANGE_NOT_SATISFIABLE if resuming && fruitless < FRUITLESS => {
                    fruitless += 1;
                    begun = None;
                    continue;
                }
                status if status.is_server_error() && begun.is_some() && fruitless < FRUITLESS => {
                    fruitless += 1;
                    continue;
                }
                status => return Err(by_status(status, asked).into()),
            };
            refuse_encoded(&response, shown)?;
            let known = if continued {
                let fits = begun
                    .as_ref()
                    .is_some_and(|known| known.continues(&response, download.len));
                if !fits {
                    fruitless += 1;
                    begun = None;
                    if fruitless > FRUITLESS {
                        return Err(SourceError::Refused {
                            reference: shown.to_owned(),
                            reason: "the server sends other parts than were asked for".to_owned(),
                        }
                        .into());
                    }
                    continue;
                }
                let mut known = begun.take().unwrap_or_else(|| Known::of(&response));
                known.learn_total(&response);
                known
            } else {
                download = download.anew().map_err(FetchError::Cache)?;
                Known::of(&response)
            };
            if known.total.is_some_and(|total| total > self.max) {
                return Err(self.too_big(shown).into());
            }
            if !continued && let Some(total) = known.total {
                make_room(&terms.room, total).await?;
            }
            let before = download.len;
            let (after, end) = self.receive(response, download, shown, known.total).await?;
            download = after;
            match end {
                End::Whole => return self.whole(download, known, attempt > 0, shown).await,
                End::Cut(error) => {
                    let gained = continued || known.range().is_some() && terms.resume;
                    fruitless = if gained && download.len > before {
                        0
                    } else {
                        fruitless + 1
                    };
                    if fruitless > FRUITLESS || attempt + 1 == ATTEMPTS {
                        return Err(error.into());
                    }
                    tracing::debug!(reference = shown, got = download.len, %error, "the fetch was cut; it goes on");
                    begun = Some(known);
                }
            }
        }
        Err(SourceError::Truncated {
            reference: shown.to_owned(),
            got: download.len,
            expected: begun.and_then(|known| known.total).unwrap_or(download.len),
        }
        .into())
    }

    async fn whole(&self, download: Download, known: Known, resumed: bool, shown: &str) -> Result<Brought, FetchError> {
        if let Some(expected) = known.total
            && expected != download.len
        {
            return Err(errors::truncated(shown, download.len, expected).into());
        }
        let (file, sha256, sha512, len) = download.finish();
        Ok(Brought::New(Box::new(Content {
            file,
            sha256,
            sha512,
            len,
            validators: known.validators,
            resumed,
        })))
    }

    fn too_big(&self, shown: &str) -> SourceError {
        SourceError::TooBig {
            reference: shown.to_owned(),
            max: self.max,
        }
    }
}

async fn make_room(room: &Room, total: u64) -> Result<(), FetchError> {
    let room = Arc::clone(room);
    match spawn_blocking(move || room(total)).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(FetchError::Cache(io::Error::other(error))),
    }
}

/// Content as it is, and only if it is no longer what is known.
fn conditions(known: Option<&Validators>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(known) = known {
        let (name, value) = match (&known.etag, &known.last_modified) {
            (Some(etag), _) => (IF_NONE_MATCH, etag),
            (None, Some(since)) => (IF_MODIFIED_SINCE, since),
            (None, None) => return headers,
        };
        // They came in a header.
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    }
    headers
}

fn refuse_encoded(response: &Response, shown: &str) -> Result<(), SourceError> {
    match response.headers().get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => Err(SourceError::Refused {
            reference: shown.to_owned(),
            reason: "the server sends it compressed although told not to".to_owned(),
        }),
        _ => Ok(()),
    }
}
