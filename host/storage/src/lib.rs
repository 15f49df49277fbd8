//! Backends: named places that artefacts are published to, so that a BMC can fetch them.
//!
//! `embedded` serves layouts from this process; `web_root` writes files for a web server; `swift` and `s3` keep objects in a
//! store, which BMCs read by a signed URL or through this process. A backend knows nothing of nodes or policies; it owns what
//! it published and removes nothing else.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use image::{Layout, SourceSet};
use model::{ArtefactName, Secret};

mod base_url;
mod embedded;
mod error;
mod health;
mod objects;
mod opened;
mod reader;
mod reads;
mod recall;
pub mod s3;
mod same;
pub mod serve;
mod served;
pub mod swift;
mod unfinished;
mod web_folder;
mod web_root;

pub use embedded::{Embedded, EmbeddedConfig};
pub use error::StorageError;
pub use health::{Failure, Health, Watched};
pub use objects::{Delivery, ObjectBackend};
pub use reader::{Reader, UrlRules};
pub use reads::{ClientReads, ReadCount, Reads};
pub use recall::{NoRecords, Part, Recall, RecallError, Recalled, Standing};
pub use served::{Content, Remote, Served};
pub use unfinished::{Existing, Unfinished};
pub use web_folder::{NamedFile, WebFolder};
pub use web_root::WebRoot;

/// An artefact to publish: a layout, what its sources are read from, and the last part of its URL.
#[derive(Clone)]
pub struct Publication {
    /// Unguessable; the same name published again means the same bytes.
    pub name: ArtefactName,
    /// The bytes.
    pub layout: Arc<Layout>,
    /// Where the layout's sources are opened.
    pub sources: Arc<dyn SourceSet>,
    /// Who will fetch it.
    pub reader: Reader,
}

/// Where a BMC fetches an artefact.
#[derive(Clone, Debug)]
pub struct Published {
    /// The whole URL; secret, since whoever knows it may read the artefact.
    pub url: Secret,
    /// When it stops working; `None` = when it is withdrawn.
    pub expires: Option<SystemTime>,
}

/// What became of a wish to live longer.
#[derive(Clone, Debug)]
pub enum Renewal {
    /// Same URL, lives at least as long as asked.
    Extended(Option<SystemTime>),
    /// Another URL from now on.
    UrlChanged(Published),
    /// This backend cannot; publish again.
    Unsupported,
}

/// State of a published artefact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stat {
    /// Served, with this many bytes.
    Present(u64),
    /// Gone.
    Absent,
}

/// A place that artefacts are published to.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Makes the artefact fetchable; all or nothing. Publishing the same name again is the same as once.
    async fn publish(&self, publication: &Publication, lifetime: Option<Duration>) -> Result<Published, StorageError>;
    /// Stops serving it. Absent is a success.
    async fn withdraw(&self, name: &ArtefactName) -> Result<(), StorageError>;
    /// Whether it is there.
    async fn stat(&self, name: &ArtefactName) -> Result<Stat, StorageError>;
    /// Makes it live at least `lifetime` from now on.
    async fn renew(&self, name: &ArtefactName, lifetime: Duration) -> Result<Renewal, StorageError>;
    /// Whether publishing would work now; the error says why not.
    async fn check(&self) -> Result<(), StorageError>;
    /// Names of all that is there and could be ours, so that what was published and never recorded can be found; `None` = this
    /// backend keeps nothing that is not on record.
    async fn names(&self) -> Result<Option<Vec<ArtefactName>>, StorageError> {
        Ok(None)
    }
    /// How it has fared, if somebody remembers ([`Watched`]).
    fn health(&self) -> Health {
        Health::default()
    }
}

/// The later of two ends; `None` = when it is withdrawn.
pub(crate) fn later(one: Option<SystemTime>, other: Option<SystemTime>) -> Option<SystemTime> {
    Some(one?.max(other?))
}
