//! What backends over an object store have in common: the bytes lie in the store; a BMC gets them by a signed URL of the
//! store, or through this process under a short URL that does not run out.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use model::{ArtefactName, Digest};

use crate::served::Content;
use crate::{Backend, Embedded, Publication, Published, Reader, Recalled, Renewal, Stat, StorageError, UrlRules};

pub(crate) mod answer;
mod relay;
pub(crate) mod upload;

use relay::{Blocks, Relay};

/// How long a signed URL of an artefact without a lifetime is made to last where the store sets no limit.
const UNLIMITED: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// The object outlives its URL by this, so that a read that began in time comes to its end.
const GRACE: Duration = Duration::from_secs(600);
/// A URL is given out if it lives that long; S3's limit is exact, and time passes between signing and use.
const SLACK: Duration = Duration::from_secs(60);

/// How a BMC gets what is in an object store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// By a signed URL where that lives long enough and the BMC takes it, else through this process.
    Auto,
    /// By a signed URL of the store.
    Direct,
    /// Through this process.
    Relay,
}

/// What lies in a store under a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    pub(crate) size: u64,
    /// Its identity, if it was noted; what others put there has none.
    pub(crate) digest: Option<String>,
    /// When the store removes it.
    pub(crate) expires: Option<SystemTime>,
}

/// Bytes of an object as they come.
pub(crate) type Bodies = BoxStream<'static, Result<Bytes, String>>;

/// A store of objects. Names are artefacts' names, so they are unguessable and need no escaping.
#[async_trait]
pub(crate) trait ObjectStore: Send + Sync {
    /// For messages: "the Swift container `x`".
    fn place(&self) -> &str;
    /// Longest life of a signed URL; `None` = any.
    fn longest_url(&self) -> Option<Duration>;
    /// Puts the object there whole, or not at all; the store removes it after `keep`.
    async fn put(&self, publication: &Publication, keep: Option<Duration>) -> Result<(), StorageError>;
    /// What is there.
    async fn find(&self, name: &ArtefactName) -> Result<Option<Stored>, StorageError>;
    /// Removes it with all that belongs to it, also what an attempt that was cut short has left. Absent is a success.
    async fn remove(&self, name: &ArtefactName) -> Result<(), StorageError>;
    /// Lets it live until then; `None` = until it is removed.
    async fn keep(&self, name: &ArtefactName, until: Option<SystemTime>) -> Result<(), StorageError>;
    /// A URL that works without credentials until then; `None` where the store has no such thing.
    async fn sign(&self, name: &ArtefactName, until: SystemTime) -> Result<Option<String>, StorageError>;
    /// What URLs are signed with may have changed: the next one is signed with what holds then.
    async fn forget_key(&self);
    /// Asks a signed URL as a BMC would; an error says why it does not work.
    async fn try_url(&self, url: &str, size: u64) -> Result<(), StorageError>;
    /// The bytes of a range, and the entity tag of the object that they are of. With a tag, only of that very object.
    async fn read(
        &self,
        name: &ArtefactName,
        range: Range<u64>,
        etag: Option<&str>,
    ) -> Result<(Bodies, Option<String>), StorageError>;
    /// Whether publishing would work now.
    async fn check(&self) -> Result<(), StorageError>;
    /// Artefacts of which anything is there, whole or not.
    async fn names(&self) -> Result<Vec<ArtefactName>, StorageError>;
}

/// A backend over an object store. Cheap to clone.
#[derive(Clone)]
pub struct ObjectBackend {
    store: Arc<dyn ObjectStore>,
    delivery: Delivery,
    relay: Embedded,
    blocks: Arc<Blocks>,
    /// Artefacts with a lifetime live at least so long.
    least: Option<Duration>,
}

impl ObjectBackend {
    /// `relay` serves what is not delivered by a signed URL.
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        delivery: Delivery,
        relay: Embedded,
        least: Option<Duration>,
    ) -> Self {
        Self {
            store,
            delivery,
            relay,
            blocks: Arc::default(),
            least,
        }
    }

    /// The longest lifetime that it can promise; `None` = any.
    pub fn longest(&self) -> Option<Duration> {
        match self.delivery {
            Delivery::Direct => self.store.longest_url().map(|longest| longest - SLACK),
            Delivery::Auto | Delivery::Relay => None,
        }
    }

    /// A recorded artefact that was delivered through a conductor, to be served here too; `None` if it was delivered by a
    /// signed URL, which alone is to give access to it.
    pub fn recall(
        &self,
        name: &ArtefactName,
        url: &model::Secret,
        digest: Digest,
        size: u64,
        expires: Option<SystemTime>,
        reader: Reader,
    ) -> Option<Recalled> {
        // A signed URL has a query, and none of ours has.
        (!url.expose().contains('?')).then(|| self.relayed(name, digest, size, expires, reader))
    }

    fn relayed(
        &self,
        name: &ArtefactName,
        digest: Digest,
        size: u64,
        expires: Option<SystemTime>,
        reader: Reader,
    ) -> Recalled {
        let relay = Relay::new(Arc::clone(&self.store), Arc::clone(&self.blocks), name.clone(), size);
        Recalled {
            content: Content::Remote(Arc::new(relay)),
            digest,
            size,
            expires,
            reader,
        }
    }

    /// A signed URL with its end, if that is how this artefact is to be delivered.
    async fn direct(
        &self,
        name: &ArtefactName,
        lifetime: Option<Duration>,
        rules: &UrlRules,
    ) -> Result<Option<Published>, StorageError> {
        let longest = self.store.longest_url();
        let wanted = match (self.delivery, lifetime, longest) {
            (Delivery::Relay, ..) => return Ok(None),
            // It would have to outlive its signature.
            (Delivery::Auto, None, _) => return Ok(None),
            (Delivery::Auto, Some(lifetime), Some(longest)) if lifetime + SLACK > longest => return Ok(None),
            (_, Some(lifetime), Some(longest)) => lifetime.min(longest),
            (_, None, Some(longest)) => longest,
            (_, Some(lifetime), None) => lifetime,
            (_, None, None) => UNLIMITED,
        };
        let until = SystemTime::now() + wanted;
        let url = match self.store.sign(name, until).await? {
            Some(url) => url,
            None if self.delivery == Delivery::Auto => return Ok(None),
            None => {
                return Err(StorageError::Unusable {
                    place: self.store.place().to_owned(),
                    reason: "it signs no temporary URLs; set delivery = \"relay\"".to_owned(),
                });
            }
        };
        if !rules.allow(&url) {
            if self.delivery == Delivery::Auto {
                return Ok(None);
            }
            tracing::warn!(
                artefact = %name, length = url.len(),
                "the BMC may refuse the signed URL (its length, or its query): delivery = \"auto\" or \"relay\" avoids that"
            );
        }
        let expires = (lifetime.is_some() || longest.is_some()).then_some(until);
        Ok(Some(Published {
            url: model::Secret::new(url),
            expires,
        }))
    }

    /// A signed URL that was tried. If it is refused, the key may have been changed by somebody else: signed once more.
    async fn tried(
        &self,
        name: &ArtefactName,
        published: Published,
        lifetime: Option<Duration>,
        size: u64,
        rules: &UrlRules,
    ) -> Result<Published, StorageError> {
        match self.store.try_url(published.url.expose(), size).await {
            Ok(()) => Ok(published),
            Err(refused @ StorageError::Forbidden { .. }) => {
                self.store.forget_key().await;
                let Some(again) = self.direct(name, lifetime, rules).await? else {
                    return Err(refused);
                };
                self.store.try_url(again.url.expose(), size).await?;
                Ok(again)
            }
            Err(error) => Err(error),
        }
    }

    fn raised(&self, lifetime: Option<Duration>) -> Option<Duration> {
        lifetime.map(|lifetime| lifetime.max(self.least.unwrap_or_default()))
    }

    /// Whether the store holds these bytes already. Other bytes are a conflict: a URL never changes what it means.
    async fn holds_already(&self, publication: &Publication) -> Result<Option<Stored>, StorageError> {
        let Some(stored) = self.store.find(&publication.name).await? else {
            return Ok(None);
        };
        let digest = publication.layout.digest().to_string();
        if stored.size == publication.layout.size() && stored.digest.as_deref() == Some(&*digest) {
            return Ok(Some(stored));
        }
        Err(StorageError::Conflict {
            place: self.store.place().to_owned(),
        })
    }
}

#[async_trait]
impl Backend for ObjectBackend {
    async fn publish(&self, publication: &Publication, lifetime: Option<Duration>) -> Result<Published, StorageError> {
        let lifetime = self.raised(lifetime);
        let (name, size) = (&publication.name, publication.layout.size());
        let rules = &publication.reader.urls;
        let direct = self.direct(name, lifetime, rules).await?;
        let keep = lifetime.map(|lifetime| lifetime + GRACE);
        let was_there = match self.holds_already(publication).await? {
            Some(stored) => {
                self.live_on(name, &stored, keep).await?;
                true
            }
            None => {
                self.store.put(publication, keep).await?;
                false
            }
        };
        let published = match direct {
            Some(published) => self.tried(name, published, lifetime, size, rules).await,
            None => {
                let expires = lifetime.map(|lifetime| SystemTime::now() + lifetime);
                let digest = publication.layout.digest();
                let relayed = self.relayed(name, digest, size, expires, publication.reader.clone());
                self.relay.serve(name, relayed).map(|url| Published { url, expires })
            }
        };
        if published.is_err()
            && !was_there
            && let Err(error) = self.store.remove(name).await
        {
            tracing::warn!(artefact = %name, place = self.store.place(), %error, "left behind by a failed publication");
        }
        published
    }

    async fn withdraw(&self, name: &ArtefactName) -> Result<(), StorageError> {
        self.relay.withdraw(name).await?;
        self.blocks.forget(name);
        self.store.remove(name).await
    }

    async fn stat(&self, name: &ArtefactName) -> Result<Stat, StorageError> {
        let stored = self.store.find(name).await?;
        Ok(stored.map_or(Stat::Absent, |stored| Stat::Present(stored.size)))
    }

    async fn renew(&self, name: &ArtefactName, lifetime: Duration) -> Result<Renewal, StorageError> {
        let Some(stored) = self.store.find(name).await? else {
            return Ok(Renewal::Unsupported);
        };
        let lifetime = self.raised(Some(lifetime)).unwrap_or(lifetime);
        self.live_on(name, &stored, Some(lifetime + GRACE)).await?;
        // It is relayed if this process serves it so, or would: what a BMC may take is not known here, but a URL of ours is
        // one that it took.
        if let Renewal::Extended(expires) = self.relay.renew(name, lifetime).await? {
            return Ok(Renewal::Extended(expires));
        }
        let rules = UrlRules::default();
        match self.direct(name, Some(lifetime), &rules).await? {
            Some(published) => {
                let tried = self.tried(name, published, Some(lifetime), stored.size, &rules).await;
                tried.map(Renewal::UrlChanged)
            }
            None => Ok(Renewal::Unsupported),
        }
    }

    async fn check(&self) -> Result<(), StorageError> {
        self.store.check().await
    }

    async fn names(&self) -> Result<Option<Vec<ArtefactName>>, StorageError> {
        self.store.names().await.map(Some)
    }
}

impl ObjectBackend {
    /// Lets an object live for `keep` more; `None` = until it is removed. What lives longer already is left alone.
    async fn live_on(&self, name: &ArtefactName, stored: &Stored, keep: Option<Duration>) -> Result<(), StorageError> {
        let until = keep.map(|keep| SystemTime::now() + keep);
        let ends_before = stored.expires.is_some_and(|end| until.is_none_or(|until| end < until));
        match ends_before {
            true => self.store.keep(name, until).await,
            false => Ok(()),
        }
    }
}
