//! What the embedded backend asks the records: an artefact by its name, and whether it is still to be served.

use std::ops::Range;
use std::time::SystemTime;

use async_trait::async_trait;
use model::{ArtefactName, Digest};

use crate::{Content, Publication, Reader};

/// Could not be found out; the BMC should try again.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the artefact could not be looked up: {reason}")]
pub struct RecallError {
    /// Why, without secrets.
    pub reason: String,
}

/// A recorded artefact, ready to be served again.
#[derive(Clone)]
pub struct Recalled {
    /// Its bytes, which are those of the record's digest.
    pub content: Content,
    /// The record's.
    pub digest: Digest,
    /// The record's.
    pub size: u64,
    /// When it stops being served; `None` = when it is withdrawn.
    pub expires: Option<SystemTime>,
    /// Who may fetch it.
    pub reader: Reader,
}

impl Recalled {
    /// An artefact that was made again from its recipe.
    pub fn of(publication: Publication, expires: Option<SystemTime>) -> Self {
        Self {
            digest: publication.layout.digest(),
            size: publication.layout.size(),
            content: Content::Layout {
                layout: publication.layout,
                sources: publication.sources,
            },
            expires,
            reader: publication.reader,
        }
    }
}

/// What the records say of an artefact now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It is on record, and lives until then; `None` = until it is withdrawn.
    Recorded(Option<SystemTime>),
    /// It is not on record (any more).
    Gone,
    /// There are no records: what was published here counts.
    Untracked,
}

/// A part of an artefact that has a name of its own, which can be guessed: a file that servers boot over the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The artefact.
    pub name: ArtefactName,
    /// Its bytes in the artefact.
    pub range: Range<u64>,
}

/// Makes recorded artefacts again. The binary implements it with the store and the source cache.
#[async_trait]
pub trait Recall: Send + Sync {
    /// The artefact of that name; `None` if there is no such record.
    async fn recall(&self, name: &ArtefactName) -> Result<Option<Recalled>, RecallError>;

    /// Whether the name is (still) on record, and until when it lives; cheap.
    async fn standing(&self, name: &ArtefactName) -> Result<Standing, RecallError>;

    /// The part that a path below the listener's URL names; `None` if it names none.
    async fn part(&self, _path: &str) -> Result<Option<Part>, RecallError> {
        Ok(None)
    }
}

/// For a server without records: what was published is all there is, until it expires or is withdrawn.
#[derive(Clone, Copy, Debug)]
pub struct NoRecords;

#[async_trait]
impl Recall for NoRecords {
    async fn recall(&self, _: &ArtefactName) -> Result<Option<Recalled>, RecallError> {
        Ok(None)
    }

    async fn standing(&self, _: &ArtefactName) -> Result<Standing, RecallError> {
        Ok(Standing::Untracked)
    }
}
