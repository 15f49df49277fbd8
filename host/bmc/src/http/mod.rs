//! HTTP to one BMC: one request, one bounded answer, over modern or legacy TLS. Redirects, logins and retries are not here.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;

use crate::access::{BmcConfig, Ca, Protocols};
use crate::trace::{Exchange, Form, Outcome, Trace};

pub(crate) mod legacy;
mod modern;

/// Biggest answer that is read.
pub(crate) const BODY_CAP: usize = 1 << 20;
/// Most that is read of a CA file.
const CA_CAP: u64 = 1 << 20;
/// BMCs close idle connections after some 30 s; ours go before that.
const IDLE: Duration = Duration::from_secs(5);

/// The HTTP client of one BMC: HTTP/1.1, one connection kept, no proxy, no redirect followed behind our back.
#[derive(Clone)]
pub(crate) struct HttpClient {
    stack: Stack,
    trace: Option<Arc<dyn Trace>>,
}

#[derive(Clone)]
enum Stack {
    Modern(reqwest::Client),
    Legacy(Arc<legacy::LegacyClient>),
}

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// No answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// Down to the failing layer. It may hold what the BMC sent.
    pub(crate) reason: String,
    /// Whether the request may have arrived all the same.
    pub(crate) arrived: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailureKind {
    /// The certificate: trying again does not help, another setting does.
    Distrust,
    /// No connection, no TLS, or a connection that broke.
    Broken,
    /// More than [`BODY_CAP`].
    TooBig,
}

impl Request {
    pub(crate) fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: None,
        }
    }

    /// Adds a header. A text that cannot be one is left out: only a BMC's own token or tag could hold it.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    pub(crate) fn body(mut self, kind: &'static str, body: impl Into<Bytes>) -> Self {
        self.headers
            .insert(reqwest::header::CONTENT_TYPE, HeaderValue::from_static(kind));
        self.body = Some(body.into());
        self
    }
}

impl Failure {
    fn too_big() -> Self {
        Self {
            kind: FailureKind::TooBig,
            reason: "the answer is bigger than 1 MiB".to_owned(),
            arrived: true,
        }
    }
}

impl HttpClient {
    /// Checks the TLS settings and reads the CA. The error is the reason in words.
    pub(crate) fn new(config: &BmcConfig, origin: &Url) -> Result<Self, String> {
        let stack = match config.protocols {
            Protocols::Legacy if origin.scheme() == "https" => {
                Stack::Legacy(Arc::new(legacy::LegacyClient::new(config, origin)?))
            }
            Protocols::Legacy | Protocols::Modern => Stack::Modern(modern::client(&config.tls, &config.deadlines)?),
        };
        Ok(Self {
            stack,
            trace: config.trace.clone(),
        })
    }

    /// Sends one request and reads its answer. No deadline of its own: the caller drops it.
    pub(crate) async fn send(&self, request: Request) -> Result<Reply, Failure> {
        let Some(trace) = &self.trace else {
            return self.pass(request).await;
        };
        let mut record = Record::new(Arc::clone(trace), exchange(&request));
        let result = self.pass(request).await;
        record.end(match &result {
            Ok(reply) => Outcome::Reply {
                status: reply.status.as_u16(),
                headers: pairs(&reply.headers),
                body: text_of(&reply.body),
            },
            Err(failure) => Outcome::Failure(failure.reason.clone()),
        });
        result
    }

    async fn pass(&self, request: Request) -> Result<Reply, Failure> {
        match &self.stack {
            Stack::Modern(client) => modern::send(client, request).await,
            Stack::Legacy(client) => client.send(request).await,
        }
    }
}

fn exchange(request: &Request) -> Exchange {
    let path = match request.url.query() {
        Some(query) => format!("{}?{query}", request.url.path()),
        None => request.url.path().to_owned(),
    };
    Exchange {
        at: SystemTime::now(),
        took: Duration::ZERO,
        form: Form::Http,
        method: request.method.to_string(),
        path,
        headers: pairs(&request.headers),
        body: request.body.as_ref().map(|body| text_of(body)),
        outcome: Outcome::Failure("given up".to_owned()),
    }
}

/// An exchange under way. It is told to the trace however it ends, also when its caller gives up.
pub(crate) struct Record {
    trace: Arc<dyn Trace>,
    start: std::time::Instant,
    exchange: Option<Exchange>,
}

impl Record {
    pub(crate) fn new(trace: Arc<dyn Trace>, exchange: Exchange) -> Self {
        Self {
            trace,
            start: std::time::Instant::now(),
            exchange: Some(exchange),
        }
    }

    pub(crate) fn end(&mut self, outcome: Outcome) {
        if let Some(mut exchange) = self.exchange.take() {
            exchange.took = self.start.elapsed();
            exchange.outcome = outcome;
            self.trace.exchange(exchange);
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.end(Outcome::Failure("no answer before the caller gave up".to_owned()));
    }
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let pairs = headers.iter();
    pairs
        .map(|(name, value)| (name.to_string(), text_of(value.as_bytes())))
        .collect()
}

/// UTF-8 where it is, Latin-1 where it is not: nothing is lost, and nothing fails.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// The certificates of a CA setting, at least one.
fn certificates(ca: &Ca) -> Result<Vec<CertificateDer<'static>>, String> {
    let (pem, place) = match ca {
        Ca::Pem(pem) => (pem.clone().into_bytes(), "the given `ca` text".to_owned()),
        Ca::File(path) => (read_capped(path)?, format!("the `ca` file {}", path.display())),
    };
    let found = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("{place} is not PEM: {error}"))?;
    if found.is_empty() {
        return Err(format!(
            "{place} holds no PEM certificate (-----BEGIN CERTIFICATE-----)"
        ));
    }
    Ok(found)
}

fn read_capped(path: &Path) -> Result<Vec<u8>, String> {
    let wrong = |reason: String| format!("the `ca` file {} {reason}", path.display());
    let file = std::fs::File::open(path).map_err(|e| wrong(format!("cannot be opened: {e}")))?;
    let mut pem = Vec::new();
    file.take(CA_CAP + 1)
        .read_to_end(&mut pem)
        .map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if u64::try_from(pem.len()).is_ok_and(|len| len > CA_CAP) {
        return Err(wrong("is bigger than 1 MiB".to_owned()));
    }
    Ok(pem)
}
