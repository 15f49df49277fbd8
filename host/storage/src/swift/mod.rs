//! The Swift backend: objects in a container, which expire by themselves; temporary URLs, or relay.
//!
//! The container is made if it is not there, and so is the account's key for temporary URLs. An object appears whole or not
//! at all; one that is too big for that lies in segments, which are nobody's business until their manifest appears.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use model::{ArtefactName, Secret};
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Method, Request, Response};
use sources::openstack::{Client, Credential, Identity, IdentityConfig, OpenStackError};
use tokio::sync::Mutex;
use url::Url;

use crate::objects::answer::{ask_range, ranged, text, unusable};
use crate::objects::{Bodies, Delivery, ObjectBackend, ObjectStore, Stored};
use crate::{Embedded, Publication, StorageError};

mod account;
mod answer;
mod foreign;
mod put;
mod segments;
mod temp_url;

use account::Account;
use answer::refused;
pub use foreign::{Foreign, ForeignConfig};

const SERVICE: &str = "object-store";
/// Where an object notes what it is.
const DIGEST: HeaderName = HeaderName::from_static("x-object-meta-farrier-digest");
const DELETE_AFTER: HeaderName = HeaderName::from_static("x-delete-after");
const DELETE_AT: HeaderName = HeaderName::from_static("x-delete-at");
const MANIFEST: HeaderName = HeaderName::from_static("x-object-manifest");
const STATIC: HeaderName = HeaderName::from_static("x-static-large-object");

/// What a Swift backend is made of.
pub struct SwiftConfig {
    /// How to come to it, and how patient to be.
    pub identity: IdentityConfig,
    /// An upload that moves no byte for so long is given up.
    pub patience: Duration,
    /// Made if it is not there.
    pub container: String,
    /// Signs temporary URLs; `None` = the account's own, made if it has none.
    pub temp_url_key: Option<Secret>,
    /// Bytes of one object; bigger artefacts are kept in segments.
    pub segment_size: u64,
    /// How BMCs get at it.
    pub delivery: Delivery,
    /// Serves what is relayed.
    pub relay: Embedded,
    /// Artefacts with a lifetime live at least so long.
    pub least: Option<Duration>,
}

/// A Swift backend. Asks nobody yet.
pub fn swift(config: SwiftConfig) -> Result<ObjectBackend, StorageError> {
    let place: Arc<str> = format!("the Swift container `{}`", config.container).into();
    if !is_container(&config.container) {
        return Err(StorageError::Unusable {
            place: place.to_string(),
            reason: "a container's name is 1 to 256 of a-z A-Z 0-9 - _ . and is neither `.` nor `..`".to_owned(),
        });
    }
    let unusable = |error: OpenStackError| StorageError::Unusable {
        place: place.to_string(),
        reason: error.to_string(),
    };
    let stranger = Stranger::new(&config.identity);
    let client = Client::new(Identity::new(config.identity).map_err(unusable)?);
    let swift = Swift {
        account: Arc::new(Account::new(client.clone(), Arc::clone(&place), config.temp_url_key)),
        client,
        stranger: Arc::new(stranger),
        container: config.container.into(),
        segment_size: config.segment_size.max(1),
        patience: config.patience,
        place,
    };
    Ok(ObjectBackend::new(
        Arc::new(swift),
        config.delivery,
        config.relay,
        config.least,
    ))
}

/// The same service for somebody without credentials, who tries temporary URLs as a BMC does.
struct Stranger {
    config: IdentityConfig,
    /// With the origin that it may ask.
    client: Mutex<Option<(url::Origin, Client)>>,
}

impl Stranger {
    fn new(config: &IdentityConfig) -> Self {
        Self {
            config: IdentityConfig {
                credential: Credential::None,
                ..config.clone()
            },
            client: Mutex::default(),
        }
    }

    async fn client(&self, url: &Url) -> Result<Client, OpenStackError> {
        let mut kept = self.client.lock().await;
        if let Some((origin, client)) = &*kept
            && *origin == url.origin()
        {
            return Ok(client.clone());
        }
        let mut config = self.config.clone();
        config.endpoints = [(SERVICE.to_owned(), url.clone())].into();
        let client = Client::new(Identity::new(config)?);
        *kept = Some((url.origin(), client.clone()));
        Ok(client)
    }
}

/// Names that need no escaping anywhere.
fn is_container(name: &str) -> bool {
    let legal = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    (1..=256).contains(&name.len()) && name.bytes().all(legal) && !matches!(name, "." | "..")
}

#[derive(Clone)]
struct Swift {
    client: Client,
    stranger: Arc<Stranger>,
    account: Arc<Account>,
    container: Arc<str>,
    segment_size: u64,
    patience: Duration,
    place: Arc<str>,
}

/// Whole seconds, upwards; Swift refuses an end that is not in the future.
fn seconds(span: Duration) -> u64 {
    (span.as_secs() + u64::from(span.subsec_nanos() > 0)).max(1)
}

impl Swift {
    /// Path of something in the container.
    fn path<'a>(&'a self, object: &[&'a str]) -> Vec<&'a str> {
        std::iter::once(&*self.container)
            .chain(object.iter().copied())
            .collect()
    }

    async fn request(&self, method: Method, object: &[&str], query: Option<&str>) -> Result<Request, StorageError> {
        let request = self.client.request(SERVICE, method, &self.path(object)).await;
        let mut request = request.map_err(|error| unusable(&self.place, error))?;
        request.url_mut().set_query(query);
        Ok(request)
    }

    async fn send(&self, request: Request) -> Result<Response, StorageError> {
        let answer = self.client.send(request).await;
        answer.map_err(|error| unusable(&self.place, error))
    }

    /// Sends a request that may be repeated although its method does not say so.
    async fn send_again(&self, request: Request) -> Result<Response, StorageError> {
        let url = request.url().clone();
        let make = || {
            request
                .try_clone()
                .unwrap_or_else(|| Request::new(Method::HEAD, url.clone()))
        };
        let answer = self.client.send_with(make).await;
        answer.map_err(|error| unusable(&self.place, error))
    }

    async fn head(&self, name: &ArtefactName) -> Result<Option<HeaderMap>, StorageError> {
        let request = self.request(Method::HEAD, &[name.expose()], None).await?;
        let answer = self.send(request).await?;
        match answer.status().as_u16() {
            200 | 204 => Ok(Some(answer.headers().clone())),
            404 => Ok(None),
            _ => Err(refused(&self.place, "looking for an object", answer).await),
        }
    }

    async fn make_container(&self) -> Result<(), StorageError> {
        let request = self.request(Method::PUT, &[], None).await?;
        let answer = self.send(request).await?;
        match answer.status().is_success() {
            true => Ok(()),
            false => Err(refused(&self.place, "making the container", answer).await),
        }
    }
}

#[async_trait]
impl ObjectStore for Swift {
    fn place(&self) -> &str {
        &self.place
    }

    fn longest_url(&self) -> Option<Duration> {
        None
    }

    async fn put(&self, publication: &Publication, keep: Option<Duration>) -> Result<(), StorageError> {
        self.put_whole(publication, keep).await
    }

    async fn find(&self, name: &ArtefactName) -> Result<Option<Stored>, StorageError> {
        let Some(headers) = self.head(name).await? else {
            return Ok(None);
        };
        let number = |name| text(&headers, &name).and_then(|text| text.parse::<u64>().ok());
        let Some(size) = number(reqwest::header::CONTENT_LENGTH) else {
            return Err(StorageError::Unusable {
                place: self.place.to_string(),
                reason: "it does not say how big an object is".to_owned(),
            });
        };
        Ok(Some(Stored {
            size,
            digest: text(&headers, &DIGEST),
            expires: number(DELETE_AT).map(|at| UNIX_EPOCH + Duration::from_secs(at)),
        }))
    }

    async fn remove(&self, name: &ArtefactName) -> Result<(), StorageError> {
        self.remove_whole(name).await
    }

    async fn keep(&self, name: &ArtefactName, until: Option<SystemTime>) -> Result<(), StorageError> {
        self.keep_whole(name, until).await
    }

    async fn sign(&self, name: &ArtefactName, until: SystemTime) -> Result<Option<String>, StorageError> {
        let Some(algorithm) = self.account.info().await?.algorithm() else {
            return Ok(None);
        };
        let key = self.account.key().await?;
        let request = self.request(Method::GET, &[name.expose()], None).await?;
        let until = until.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Some(temp_url::sign(request.url(), &key, algorithm, seconds(until))))
    }

    async fn forget_key(&self) {
        self.account.forget_key().await;
    }

    async fn try_url(&self, url: &str, size: u64) -> Result<(), StorageError> {
        let url: Url = url.parse().map_err(|_| StorageError::Unusable {
            place: self.place.to_string(),
            reason: "its temporary URL is no URL".to_owned(),
        })?;
        let answer = match self.stranger.client(&url).await {
            Ok(stranger) => stranger.send(Request::new(Method::HEAD, url)).await,
            Err(error) => Err(error),
        };
        let answer = match answer {
            Err(OpenStackError::Unauthorized { .. }) => {
                return Err(self.account.refuses_key());
            }
            answer => answer.map_err(|error| unusable(&self.place, error))?,
        };
        let length = text(answer.headers(), &reqwest::header::CONTENT_LENGTH);
        match answer.status().as_u16() {
            200 if length.is_some_and(|length| length == size.to_string()) => Ok(()),
            401 | 403 => Err(self.account.refuses_key()),
            status => Err(StorageError::Unusable {
                place: self.place.to_string(),
                reason: format!("what was just put there is answered with HTTP {status} under its temporary URL"),
            }),
        }
    }

    async fn read(
        &self,
        name: &ArtefactName,
        range: Range<u64>,
        etag: Option<&str>,
    ) -> Result<(Bodies, Option<String>), StorageError> {
        let mut request = self.request(Method::GET, &[name.expose()], None).await?;
        ask_range(request.headers_mut(), &range, etag);
        let answer = self.send(request).await?;
        ranged(&self.place, answer, &range).await
    }

    async fn check(&self) -> Result<(), StorageError> {
        let request = self.request(Method::HEAD, &[], None).await?;
        let answer = self.send(request).await?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            404 => self.make_container().await,
            _ => Err(refused(&self.place, "looking at the container", answer).await),
        }
    }

    async fn names(&self) -> Result<Vec<ArtefactName>, StorageError> {
        self.artefacts().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_names_that_would_need_escaping_or_mean_another_path_are_refused() {
        for (name, legal) in [
            ("ironic_ilo_container", true),
            ("a.b-c", true),
            ("", false),
            (".", false),
            ("..", false),
            ("a/b", false),
            ("a b", false),
            (&*"x".repeat(257), false),
        ] {
            assert_eq!(is_container(name), legal, "{name}");
        }
    }

    #[test]
    fn a_span_is_rounded_up_to_seconds_and_never_to_none() {
        for (millis, whole) in [(0, 1), (1, 1), (1000, 1), (1001, 2)] {
            assert_eq!(seconds(Duration::from_millis(millis)), whole);
        }
    }
}
