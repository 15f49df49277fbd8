//! The S3 backend: objects in a bucket, by presigned requests; presigned URLs, or relay.
//!
//! S3 removes nothing by itself: what is published stays until it is withdrawn, and a lifetime bounds its URL alone. A
//! presigned URL works for GET and nothing else, for seven days at most, and is long: few BMCs can use one.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use model::{ArtefactName, Secret};
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderName};
use reqwest::{Method, Request, Response};
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use sources::openstack::{Client, Credential, Identity, IdentityConfig, Limits};
use url::Url;

use crate::objects::answer::{ask_range, ranged, text, unusable};
use crate::objects::{Bodies, Delivery, ObjectBackend, ObjectStore, Stored};
use crate::{Embedded, Publication, StorageError};

mod answer;
mod put;
mod unfinished;

use answer::{document, refused};

/// Where an object notes what it is.
const DIGEST: &str = "x-amz-meta-farrier-digest";
/// Longest life of a presigned URL that S3 knows.
const LONGEST_URL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Pages of a listing that are read in one go.
const MAX_PAGES: usize = 100;
/// How long a request of our own may take to begin.
const SIGNED_FOR: Duration = Duration::from_secs(60 * 60);

/// What an S3 backend is made of.
pub struct S3Config {
    /// Of the service: `https://s3.example`.
    pub endpoint: String,
    /// Must exist.
    pub bucket: String,
    /// Signed into requests.
    pub region: String,
    /// `None` = a bucket that everybody may write.
    pub key: Option<AccessKey>,
    /// The bucket's name is in the path of URLs, not in their host.
    pub path_style: bool,
    /// Bytes of one part; bigger artefacts are sent in parts.
    pub part_size: u64,
    /// PEM file of CAs to trust beside the machine's own.
    pub ca: Option<PathBuf>,
    /// How patient to be: an upload that moves no byte for as long as an answer may take is given up.
    pub limits: Limits,
    /// How BMCs get at it.
    pub delivery: Delivery,
    /// Serves what is relayed.
    pub relay: Embedded,
}

/// A key of S3. `Debug` does not show its secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessKey {
    /// Its identifier.
    pub id: String,
    /// Its secret.
    pub secret: Secret,
    /// Of a key that is lent for a while.
    pub session: Option<Secret>,
}

/// An S3 backend. Asks nobody yet.
pub fn s3(config: S3Config) -> Result<ObjectBackend, StorageError> {
    let place: Arc<str> = format!("the S3 bucket `{}`", config.bucket).into();
    let wrong = |reason: String| StorageError::Unusable {
        place: place.to_string(),
        reason,
    };
    if !is_bucket(&config.bucket) {
        return Err(wrong("a bucket's name is 3 to 63 of a-z 0-9 - _ .".to_owned()));
    }
    let endpoint: Url = config
        .endpoint
        .parse()
        .map_err(|_| wrong("its endpoint is no URL".to_owned()))?;
    let style = if config.path_style {
        UrlStyle::Path
    } else {
        UrlStyle::VirtualHost
    };
    let bucket = Bucket::new(endpoint, style, config.bucket, config.region)
        .map_err(|error| wrong(format!("its endpoint must be http(s)://HOST[:PORT] ({error})")))?;
    // A client without a token: it brings patience, and a CA file that may change.
    let mut identity =
        IdentityConfig::new(bucket.base_url().as_str(), Credential::None).map_err(|error| wrong(error.to_string()))?;
    identity.endpoints = BTreeMap::from([("s3".to_owned(), bucket.base_url().clone())]);
    identity.ca = config.ca;
    identity.limits = config.limits;
    let identity = Identity::new(identity).map_err(|error| wrong(error.to_string()))?;
    let credentials = config.key.map(|key| {
        let (id, secret) = (key.id, key.secret.expose());
        match key.session {
            Some(session) => Credentials::new_with_token(id, secret, session.expose()),
            None => Credentials::new(id, secret),
        }
    });
    let store = S3 {
        client: Client::new(identity),
        bucket: Arc::new(bucket),
        credentials: credentials.map(Arc::new),
        part_size: config.part_size.max(1),
        patience: config.limits.answer,
        place,
    };
    Ok(ObjectBackend::new(Arc::new(store), config.delivery, config.relay, None))
}

fn is_bucket(name: &str) -> bool {
    let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || b"-_.".contains(&c);
    (3..=63).contains(&name.len()) && name.bytes().all(legal) && name != "..."
}

#[derive(Clone)]
struct S3 {
    client: Client,
    bucket: Arc<Bucket>,
    credentials: Option<Arc<Credentials>>,
    part_size: u64,
    patience: Duration,
    place: Arc<str>,
}

impl S3 {
    fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_deref()
    }

    fn unusable(&self, reason: impl Into<String>) -> StorageError {
        StorageError::Unusable {
            place: self.place.to_string(),
            reason: reason.into(),
        }
    }

    /// A request that is made anew for each attempt; repeating it must do no harm.
    async fn send(&self, make: impl FnMut() -> Request) -> Result<Response, StorageError> {
        let answer = self.client.send_with(make).await;
        answer.map_err(|error| unusable(&self.place, error))
    }

    /// A request without a body.
    async fn ask(&self, method: Method, url: Url) -> Result<Response, StorageError> {
        self.send(|| Request::new(method.clone(), url.clone())).await
    }

    async fn delete(&self, name: &ArtefactName) -> Result<(), StorageError> {
        let action = self.bucket.delete_object(self.credentials(), name.expose());
        let answer = self.ask(Method::DELETE, action.sign(SIGNED_FOR)).await?;
        match answer.status().as_u16() {
            200..=299 | 404 => Ok(()),
            _ => Err(refused(&self.place, "removing an object", answer).await),
        }
    }
}

#[async_trait]
impl ObjectStore for S3 {
    fn place(&self) -> &str {
        &self.place
    }

    fn longest_url(&self) -> Option<Duration> {
        Some(LONGEST_URL)
    }

    async fn put(&self, publication: &Publication, _: Option<Duration>) -> Result<(), StorageError> {
        self.put_whole(publication).await
    }

    async fn find(&self, name: &ArtefactName) -> Result<Option<Stored>, StorageError> {
        let action = self.bucket.head_object(self.credentials(), name.expose());
        let answer = self.ask(Method::HEAD, action.sign(SIGNED_FOR)).await?;
        match answer.status().as_u16() {
            200 => {}
            404 => return Ok(None),
            _ => return Err(refused(&self.place, "looking for an object", answer).await),
        }
        let size = text(answer.headers(), &CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let size = size.ok_or_else(|| self.unusable("it does not say how big an object is"))?;
        Ok(Some(Stored {
            size,
            digest: text(answer.headers(), &HeaderName::from_static(DIGEST)),
            expires: None,
        }))
    }

    async fn remove(&self, name: &ArtefactName) -> Result<(), StorageError> {
        self.delete(name).await?;
        self.abort_unfinished(name).await
    }

    async fn keep(&self, _: &ArtefactName, _: Option<SystemTime>) -> Result<(), StorageError> {
        // Nothing ends by itself.
        Ok(())
    }

    async fn sign(&self, name: &ArtefactName, until: SystemTime) -> Result<Option<String>, StorageError> {
        let lifetime = until.duration_since(SystemTime::now()).unwrap_or_default();
        let action = self.bucket.get_object(self.credentials(), name.expose());
        let lifetime = lifetime.clamp(Duration::from_secs(1), LONGEST_URL);
        Ok(Some(action.sign(lifetime).into()))
    }

    async fn forget_key(&self) {}

    /// By GET, which alone is signed.
    async fn try_url(&self, url: &str, size: u64) -> Result<(), StorageError> {
        let url: Url = url.parse().map_err(|_| self.unusable("its presigned URL is no URL"))?;
        let make = || {
            let mut request = Request::new(Method::GET, url.clone());
            ask_range(request.headers_mut(), &(0..1), None);
            request
        };
        let answer = self.send(make).await?;
        let whole = text(answer.headers(), &CONTENT_RANGE);
        match answer.status().as_u16() {
            206 if whole.is_some_and(|range| range == format!("bytes 0-0/{size}")) => Ok(()),
            200 | 206 => Err(self.unusable("what was just put there is of another size under its presigned URL")),
            _ => Err(refused(&self.place, "reading by a presigned URL", answer).await),
        }
    }

    async fn read(
        &self,
        name: &ArtefactName,
        range: Range<u64>,
        etag: Option<&str>,
    ) -> Result<(Bodies, Option<String>), StorageError> {
        let action = self.bucket.get_object(self.credentials(), name.expose());
        let url = action.sign(SIGNED_FOR);
        let make = || {
            let mut request = Request::new(Method::GET, url.clone());
            ask_range(request.headers_mut(), &range, etag);
            request
        };
        let answer = self.send(make).await?;
        ranged(&self.place, answer, &range).await
    }

    async fn check(&self) -> Result<(), StorageError> {
        let action = self.bucket.head_bucket(self.credentials());
        let answer = self.ask(Method::HEAD, action.sign(SIGNED_FOR)).await?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            404 => Err(self.unusable("there is no such bucket; make it")),
            _ => Err(refused(&self.place, "looking at the bucket", answer).await),
        }
    }

    async fn names(&self) -> Result<Vec<ArtefactName>, StorageError> {
        let mut names = self.unfinished_names().await?;
        let mut token = None;
        for _ in 0..MAX_PAGES {
            let mut action = self.bucket.list_objects_v2(self.credentials());
            action.with_delimiter("/");
            if let Some(token) = token {
                action.with_continuation_token(token);
            }
            let answer = self.ask(Method::GET, action.sign(SIGNED_FOR)).await?;
            if !answer.status().is_success() {
                return Err(refused(&self.place, "listing the bucket", answer).await);
            }
            let listed = document(&self.place, answer).await?;
            let listed = ListObjectsV2::parse_response(&listed)
                .map_err(|error| self.unusable(format!("its listing makes no sense ({error})")))?;
            names.extend(
                listed
                    .contents
                    .iter()
                    .filter_map(|object| ArtefactName::parse(&object.key)),
            );
            token = listed.next_continuation_token;
            if token.is_none() {
                break;
            }
        }
        names.sort_unstable_by(|one, other| one.expose().cmp(other.expose()));
        names.dedup();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_would_need_escaping_is_refused() {
        for (name, legal) in [
            ("farrier", true),
            ("a.b-c1", true),
            ("ab", false),
            ("A-bucket", false),
            ("a/b", false),
            ("...", false),
            (&*"x".repeat(64), false),
        ] {
            assert_eq!(is_bucket(name), legal, "{name}");
        }
    }
}
