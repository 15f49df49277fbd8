//! A client that asks as BMCs are known to ask: by HEAD or not, by zero-padded ranges of two kilobytes or by large ones, with
//! a `Host` that lacks its port, for the whole image with every coding allowed.

use std::time::Duration;

use bytes::Bytes;
use rand::RngExt as _;
use reqwest::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HOST, RANGE,
};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use url::Url;

use super::probe::{Found, Outcome};

/// Longest time that one answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a family of BMCs asks.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// Asks for the length first.
    Head,
    /// iLO 2: many small ranges, padded with zeros, at places all over the image.
    Ilo,
    /// iDRAC and its kin: ranges of 4 to 128 KiB.
    Idrac,
    /// Downloads all of it before it inserts it.
    Whole,
    /// Reads on past the end.
    PastTheEnd,
}

/// Each with what the step is called.
pub(super) const SHAPES: &[(&str, Shape)] = &[
    ("HEAD", Shape::Head),
    ("small ranges", Shape::Ilo),
    ("large ranges", Shape::Idrac),
    ("whole", Shape::Whole),
    ("past the end", Shape::PastTheEnd),
];

/// See the module.
pub(super) struct Bmc {
    client: Client,
    url: Url,
    bytes: Bytes,
}

impl Bmc {
    /// Knows the URL, and what must come.
    pub(super) fn new(url: &str, bytes: Bytes) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|_| "its URL does not parse".to_owned())?;
        Ok(Self {
            client: client().map_err(|error| error.to_string())?,
            url,
            bytes,
        })
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn request(&self, method: Method) -> RequestBuilder {
        let request = self.client.request(method, self.url.clone());
        match self.url.host_str() {
            // What is signed into a URL may cover the host as it stands there.
            Some(host) if self.url.query().is_none() => request.header(HOST, host),
            _ => request,
        }
    }

    /// One byte of it.
    pub(super) async fn works(&self) -> Outcome {
        self.range(0, 1, 1).await?;
        Ok(Found::Fine(String::new()))
    }

    pub(super) async fn fetch(&self, shape: Shape) -> Outcome {
        match shape {
            Shape::Head => self.head().await,
            Shape::Ilo => self.small().await,
            Shape::Idrac => self.large().await,
            Shape::Whole => self.whole().await,
            Shape::PastTheEnd => self.past_the_end().await,
        }
    }

    async fn head(&self) -> Outcome {
        let answer = send(self.request(Method::HEAD)).await?;
        if answer.status() == StatusCode::FORBIDDEN && self.url.query().is_some() {
            return Ok(Found::Doubtful(
                "refused: a presigned URL is good for GET alone, and some BMCs ask by HEAD first; delivery = \"relay\" avoids that"
                    .to_owned(),
            ));
        }
        expect(&answer, StatusCode::OK)?;
        let length = header(&answer, &CONTENT_LENGTH);
        if length != self.size().to_string() {
            return Err(format!("Content-Length is {length:?}, not {}", self.size()));
        }
        let ranges = header(&answer, &ACCEPT_RANGES);
        if ranges != "bytes" {
            return Err(format!("Accept-Ranges is {ranges:?}: BMCs read by ranges of bytes"));
        }
        let tag = header(&answer, &ETAG);
        match tag.is_empty() || tag.starts_with("W/") {
            true => Ok(Found::Doubtful("there is no strong ETag".to_owned())),
            false => Ok(Found::Fine("200 with the whole length".to_owned())),
        }
    }

    async fn small(&self) -> Outcome {
        let mut sizes = vec![2048; 34];
        sizes.extend([4096, 4096, 4096, 256]);
        for len in &sizes {
            let start = rand::rng().random_range(0..=self.size() - len);
            self.range(start, *len, 20).await?;
        }
        Ok(Found::Fine(format!(
            "{} of 256 to 4096 bytes, padded with zeros",
            sizes.len()
        )))
    }

    async fn large(&self) -> Outcome {
        let (mut at, mut read) = (0, 0);
        for len in [4, 8, 16, 32, 64, 128].into_iter().cycle() {
            let len = (len << 10).min(self.size() - at);
            if len == 0 {
                break;
            }
            self.range(at, len, 1).await?;
            at += len;
            read += 1;
        }
        Ok(Found::Fine(format!(
            "{read} of 4 to 128 KiB, from the first byte to the last"
        )))
    }

    async fn range(&self, start: u64, len: u64, digits: usize) -> Result<(), String> {
        let end = start + len;
        let range = format!("bytes={start:0digits$}-{:0digits$}", end - 1);
        let answer = send(self.request(Method::GET).header(RANGE, &range)).await?;
        expect(&answer, StatusCode::PARTIAL_CONTENT).map_err(|problem| format!("{range}: {problem}"))?;
        let told = header(&answer, &CONTENT_RANGE);
        let wanted = format!("bytes {start}-{}/{}", end - 1, self.size());
        if told != wanted {
            return Err(format!("{range}: Content-Range is {told:?}, not {wanted:?}"));
        }
        let body = body(answer).await?;
        let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(self.bytes.len());
        match body == self.bytes[index(start)..index(end)] {
            true => Ok(()),
            false => Err(format!("{range}: other bytes came")),
        }
    }

    async fn whole(&self) -> Outcome {
        let request = self.request(Method::GET).header(ACCEPT_ENCODING, "gzip, deflate, zstd");
        let answer = send(request).await?;
        expect(&answer, StatusCode::OK)?;
        let coding = header(&answer, &CONTENT_ENCODING);
        if !coding.is_empty() {
            return Err(format!("it comes in the coding {coding:?}, which BMCs cannot undo"));
        }
        let length = header(&answer, &CONTENT_LENGTH);
        if length != self.size().to_string() {
            return Err(format!("Content-Length is {length:?}: chunked answers confuse BMCs"));
        }
        match body(answer).await? == self.bytes {
            true => Ok(Found::Fine("byte for byte, without coding or chunks".to_owned())),
            false => Err("other bytes came".to_owned()),
        }
    }

    async fn past_the_end(&self) -> Outcome {
        let size = self.size();
        let answer = send(
            self.request(Method::GET)
                .header(RANGE, format!("bytes={size}-{}", size + 511)),
        )
        .await?;
        expect(&answer, StatusCode::RANGE_NOT_SATISFIABLE)?;
        Ok(Found::Fine("416".to_owned()))
    }
}

/// Whether a conductor's image listener answers at this URL: what it does not have, it says so.
pub(super) async fn answers(base: &str) -> Outcome {
    let client = client().map_err(|error| error.to_string())?;
    let chance: u128 = rand::random();
    let url = format!("{}/{chance:032x}.img", base.trim_end_matches('/'));
    let answer = send(client.head(url)).await?;
    expect(&answer, StatusCode::NOT_FOUND)?;
    Ok(Found::Fine(format!("somebody answers at {base}, as BMCs are told")))
}

fn client() -> reqwest::Result<Client> {
    Client::builder()
        .no_proxy()
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(PATIENCE)
        // BMCs have their own opinions of certificates; what is looked at here is what is served.
        .tls_danger_accept_invalid_certs(true)
        .build()
}

async fn send(request: RequestBuilder) -> Result<Response, String> {
    let answer = request.timeout(PATIENCE).send().await;
    answer.map_err(|error| {
        let error = error.without_url();
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            text += &format!(": {inner}");
            cause = inner.source();
        }
        text
    })
}

async fn body(answer: Response) -> Result<Bytes, String> {
    answer.bytes().await.map_err(|error| error.without_url().to_string())
}

fn expect(answer: &Response, status: StatusCode) -> Result<(), String> {
    match answer.status() == status {
        true => Ok(()),
        false => Err(format!(
            "answered with {} where {} was due",
            answer.status(),
            status.as_u16()
        )),
    }
}

fn header(answer: &Response, name: &reqwest::header::HeaderName) -> String {
    let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}
