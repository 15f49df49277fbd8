//! What a cluster can do, and the account's key for temporary URLs.

use std::sync::Arc;
use std::time::Duration;

use model::Secret;
use reqwest::header::HeaderName;
use reqwest::{Method, Request};
use serde::Deserialize;
use sources::openstack::Client;
use tokio::sync::{Mutex, OnceCell};

use super::SERVICE;
use super::answer::refused;
use super::temp_url::Algorithm;
use crate::StorageError;
use crate::objects::answer::{text, unusable, value};

/// Largest answer of `/info` that is read.
const INFO_CAP: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
/// The two keys of an account, in the order in which they are looked at. Swift takes either; who changes keys moves the old
/// one to the second place.
static KEYS: [HeaderName; 2] = [
    HeaderName::from_static("x-account-meta-temp-url-key"),
    HeaderName::from_static("x-account-meta-temp-url-key-2"),
];

/// An account on a cluster.
pub(super) struct Account {
    client: Client,
    place: Arc<str>,
    /// As the site sets it.
    set: Option<Secret>,
    info: OnceCell<Info>,
    key: Mutex<Option<Secret>>,
}

/// What a cluster says of itself; where it says nothing, what every cluster of the last years can do.
#[derive(Clone, Debug)]
pub(super) struct Info {
    digests: Option<Vec<String>>,
    /// Largest object.
    pub(super) max_file_size: u64,
    /// Most segments of one object with a static manifest; `None` = it knows no such thing.
    pub(super) max_segments: Option<u64>,
}

impl Default for Info {
    fn default() -> Self {
        Self {
            digests: Some(vec!["sha256".to_owned()]),
            max_file_size: 5 << 30,
            max_segments: Some(1000),
        }
    }
}

#[derive(Deserialize)]
struct Told {
    #[serde(default)]
    swift: Limits,
    tempurl: Option<TempUrl>,
    slo: Option<Slo>,
}

#[derive(Deserialize, Default)]
struct Limits {
    max_file_size: Option<u64>,
}

#[derive(Deserialize)]
struct TempUrl {
    allowed_digests: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Slo {
    max_manifest_segments: Option<u64>,
}

impl Info {
    /// What temporary URLs are signed with; `None` = there are none.
    pub(super) fn algorithm(&self) -> Option<Algorithm> {
        Algorithm::of(self.digests.as_ref()?)
    }

    fn read(body: &[u8]) -> Option<Self> {
        let told: Told = serde_json::from_slice(body).ok()?;
        let default = Self::default();
        Some(Self {
            // Before it said which, there was but one.
            digests: told
                .tempurl
                .map(|tempurl| tempurl.allowed_digests.unwrap_or_else(|| vec!["sha1".to_owned()])),
            max_file_size: told.swift.max_file_size.unwrap_or(default.max_file_size).max(1),
            max_segments: told.slo.map(|slo| slo.max_manifest_segments.unwrap_or(1000).max(1)),
        })
    }
}

impl Account {
    pub(super) fn new(client: Client, place: Arc<str>, set: Option<Secret>) -> Self {
        Self {
            client,
            place,
            set,
            info: OnceCell::new(),
            key: Mutex::default(),
        }
    }

    /// What the cluster can do; asked once. A cluster may keep that to itself.
    pub(super) async fn info(&self) -> Result<&Info, StorageError> {
        let ask = async {
            let request = self.request(Method::GET).await?;
            let mut url = request.url().clone();
            // It lies beside the version: `/v1/AUTH_x` and `/info`, `/swift/v1` and `/swift/info`.
            let before = url.path().find("/v1").map_or("", |at| &url.path()[..at]).to_owned();
            url.set_path(&format!("{before}/info"));
            let answer = self.client.send(Request::new(Method::GET, url)).await;
            let answer = match answer {
                Err(sources::openstack::OpenStackError::Unauthorized { .. }) => None,
                answer => Some(answer.map_err(|error| unusable(&self.place, error))?),
            };
            let answer = answer.filter(|answer| answer.status().is_success());
            let body = match answer {
                Some(answer) => sources::openstack::read(answer, INFO_CAP, PATIENCE).await.ok(),
                None => None,
            };
            let info = body.and_then(|body| Info::read(&body));
            Ok(info.unwrap_or_else(|| {
                tracing::info!(place = %self.place, "the cluster does not say what it can do; taking what is usual");
                Info::default()
            }))
        };
        self.info.get_or_try_init(|| ask).await
    }

    /// The key that temporary URLs are signed with. An account without one gets one.
    pub(super) async fn key(&self) -> Result<Secret, StorageError> {
        // Held while the account is asked, so that two who find no key do not each make one.
        let mut kept = self.key.lock().await;
        if let Some(key) = &*kept {
            return Ok(key.clone());
        }
        let found = self.keys().await?;
        let key = match (&self.set, found.is_empty()) {
            (Some(set), false) => set.clone(),
            (set, true) => {
                let key = set.clone().unwrap_or_else(fresh_key);
                self.store_key(&key).await?;
                // Another conductor may have been at it at the same time: what stands now counts.
                let now = self.keys().await?;
                tracing::info!(place = %self.place, "the account had no key for temporary URLs and got one");
                now.into_iter().next().unwrap_or(key)
            }
            (None, false) => found.into_iter().next().unwrap_or_else(fresh_key),
        };
        *kept = Some(key.clone());
        Ok(key)
    }

    pub(super) async fn forget_key(&self) {
        *self.key.lock().await = None;
    }

    /// A temporary URL that was just signed is refused.
    pub(super) fn refuses_key(&self) -> StorageError {
        let remedy = match &self.set {
            Some(_) => {
                "its temporary URLs are refused: temp-url-key is not the account's key; correct it, leave it out, or set it as the account's X-Account-Meta-Temp-URL-Key"
            }
            None => {
                "its temporary URLs are refused, though signed with the account's key; look at the cluster's `tempurl` filter and clock, or set delivery = \"relay\""
            }
        };
        StorageError::Forbidden {
            place: self.place.to_string(),
            remedy: remedy.to_owned(),
        }
    }

    async fn keys(&self) -> Result<Vec<Secret>, StorageError> {
        let request = self.request(Method::HEAD).await?;
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| unusable(&self.place, error))?;
        match answer.status().as_u16() {
            200..=299 => {
                let keys = KEYS.iter().filter_map(|name| text(answer.headers(), name));
                Ok(keys.filter(|key| !key.is_empty()).map(Secret::new).collect())
            }
            // An account comes into being when it is first written to.
            404 => Ok(Vec::new()),
            _ => Err(refused(&self.place, "looking at the account", answer).await),
        }
    }

    async fn store_key(&self, key: &Secret) -> Result<(), StorageError> {
        let make = || async {
            let mut request = self.request(Method::POST).await?;
            let mut key = value(key.expose());
            key.set_sensitive(true);
            request.headers_mut().insert(KEYS[0].clone(), key);
            Ok::<_, StorageError>(request)
        };
        let answer = self.client.send(make().await?).await;
        let answer = answer.map_err(|error| unusable(&self.place, error))?;
        match answer.status().as_u16() {
            200..=299 => Ok(()),
            401 | 403 => Err(StorageError::Forbidden {
                place: self.place.to_string(),
                remedy: "the account has no key for temporary URLs, and the user may not set one: have its owner set X-Account-Meta-Temp-URL-Key, or set delivery = \"relay\"".to_owned(),
            }),
            _ => Err(refused(&self.place, "setting the account's key", answer).await),
        }
    }

    pub(super) async fn request(&self, method: Method) -> Result<Request, StorageError> {
        let request = self.client.request(SERVICE, method, &[]).await;
        request.map_err(|error| unusable(&self.place, error))
    }
}

/// 256 random bits.
fn fresh_key() -> Secret {
    let chance: [u64; 4] = rand::random();
    Secret::new(chance.map(|part| format!("{part:016x}")).concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cluster_says_is_read_and_what_it_leaves_out_is_what_it_was_before_it_could_say_it() {
        let told = br#"{"swift": {"max_file_size": 7}, "tempurl": {"allowed_digests": ["sha512"]}, "slo": {"max_manifest_segments": 3}, "x": 1}"#;
        let info = Info::read(told).unwrap();
        assert_eq!((info.max_file_size, info.max_segments), (7, Some(3)));
        assert_eq!(info.algorithm(), Some(Algorithm::Sha512));
        let old = Info::read(br#"{"swift": {}, "tempurl": {"methods": ["GET"]}}"#).unwrap();
        assert_eq!((old.max_file_size, old.max_segments), (5 << 30, None));
        assert_eq!(old.algorithm(), Some(Algorithm::Sha1));
        let bare = Info::read(b"{}").unwrap();
        assert_eq!(bare.algorithm(), None);
        assert!(Info::read(b"<html>").is_none());
    }

    #[test]
    fn a_fresh_key_is_long_and_never_the_same() {
        let (one, other) = (fresh_key(), fresh_key());
        assert_eq!(one.expose().len(), 64);
        assert_ne!(one, other);
    }
}
