//! The embedded backend: artefacts that this process serves itself. Nothing is written to disk.
//!
//! A name that this process did not publish is *recalled*: made again from its record, so that any conductor serves any
//! recorded artefact, owner or not. The listener that answers BMCs is in `api`; what is here is what it asks.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use image::{Layout, ReadError, SourceSet};
use model::{ArtefactName, Secret};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::base_url::BaseUrl;
use crate::opened::{Opened, Remembering};
use crate::reads::{ReadCount, Reads};
use crate::served::{Content, Origin, Served};
use crate::{
    Backend, Publication, Published, Recall, RecallError, Recalled, Renewal, Standing, Stat, StorageError, later,
};

const PLACE: &str = "the embedded backend";
/// How long a name that is not on record is answered from memory. Short: a record may follow its publication.
const UNKNOWN_FOR: Duration = Duration::from_secs(2);
/// How long a withdrawn name is refused without asking; by then its record is gone too.
const WITHDRAWN_FOR: Duration = Duration::from_secs(120);
/// Names in that memory. They are 128 bits of chance, so a full memory means that somebody is guessing.
const MAX_REFUSED: usize = 8192;
/// Recalls at work at once; others wait their turn.
const MAX_RECALLS: usize = 32;
/// Recalls at work or waiting. A conductor that took over a whole site's artefacts is asked for all of them at once.
const MAX_WAITING: usize = 16_384;
/// How long a reader waits for a recall; the recall itself goes on for the next one.
const RECALL_WAIT: Duration = Duration::from_secs(30);
/// When an artefact is checked against its record again: another conductor may have withdrawn it.
const CONFIRM_EVERY: Duration = Duration::from_secs(60);
/// A recalled artefact that nobody asked for that long is dropped; it can be recalled again.
const IDLE: Duration = Duration::from_secs(15 * 60);

/// What [`Embedded`] is made of.
#[derive(Clone)]
pub struct EmbeddedConfig {
    /// How BMCs reach the image listener: `http(s)://ADDRESS[:PORT][/PATH]`.
    pub base_url: String,
    /// Where unknown names are asked for.
    pub recall: Arc<dyn Recall>,
}

/// See the module. Cheap to clone: all clones are one backend.
#[derive(Clone)]
pub struct Embedded(Arc<Inner>);

struct Inner {
    base_url: BaseUrl,
    recall: Arc<dyn Recall>,
    opened: Arc<Opened>,
    table: Mutex<Table>,
    turns: Semaphore,
}

#[derive(Default)]
struct Table {
    served: HashMap<ArtefactName, Served>,
    /// Names that are refused until then, without asking the records.
    refused: HashMap<ArtefactName, Instant>,
    /// Recalls under way; the value becomes their outcome.
    recalls: HashMap<ArtefactName, watch::Receiver<Option<Outcome>>>,
}

type Outcome = Result<Option<Served>, RecallError>;

impl Embedded {
    /// A backend that publishes under `base_url`.
    pub fn new(config: EmbeddedConfig) -> Result<Self, StorageError> {
        let base_url = BaseUrl::parse(&config.base_url, PLACE)?;
        Ok(Self(Arc::new(Inner {
            base_url,
            recall: config.recall,
            opened: Arc::default(),
            table: Mutex::default(),
            turns: Semaphore::new(MAX_RECALLS),
        })))
    }

    /// The artefact that a request path names, if the path is one of ours; nothing else of a request matters.
    pub fn name_in(&self, path: &str) -> Option<ArtefactName> {
        self.0.base_url.name_in(path)
    }

    /// The part of an artefact that a request path names by a name of the part's own, with its place in the artefact.
    pub async fn part(&self, path: &str) -> Result<Option<(Served, Range<u64>)>, RecallError> {
        let Some(path) = self.0.base_url.below(path) else {
            return Ok(None);
        };
        let Some(part) = self.0.recall.part(path).await? else {
            return Ok(None);
        };
        let served = self.lookup(&part.name).await?;
        Ok(served
            .filter(|served| part.range.start <= part.range.end && part.range.end <= served.size)
            .map(|served| (served, part.range)))
    }

    /// The URL under which an artefact of that name is served here.
    pub fn url(&self, name: &ArtefactName) -> Secret {
        self.0.base_url.join(name)
    }

    /// The artefact of that name: published here, or recalled from its record. Many askers of one name make one recall.
    pub async fn lookup(&self, name: &ArtefactName) -> Result<Option<Served>, RecallError> {
        if let Known::Served(served) = self.known(name)
            && let Some(served) = self.confirm(served).await?
        {
            return Ok(Some(served));
        }
        match self.known(name) {
            Known::Served(served) => Ok(Some(served)),
            Known::Refused => Ok(None),
            Known::Ask => {
                let outcome = self.join_recall(name)?;
                wait_for(outcome).await
            }
        }
    }

    /// Serves what is not made here, under its own URL; any earlier artefact of that name must be the same bytes.
    pub(crate) fn serve(&self, name: &ArtefactName, artefact: Recalled) -> Result<Secret, StorageError> {
        self.0.insert(name, artefact)?;
        Ok(self.url(name))
    }

    /// What was read of an artefact through this process; `None` if it is not served here (or was dropped as idle).
    pub fn reads(&self, name: &ArtefactName) -> Option<ReadCount> {
        let table = self.0.table();
        table.served.get(name).map(|served| served.reads.count())
    }

    /// How much of an artefact somebody has read through this process, in percent; `None` as for [`Embedded::reads`].
    pub fn read_percent(&self, name: &ArtefactName) -> Option<u8> {
        let table = self.0.table();
        table.served.get(name).map(|served| served.reads.percent(served.size))
    }

    /// Counts of every artefact that is served here, for metrics.
    pub fn all_reads(&self) -> Vec<(ArtefactName, u64, ReadCount)> {
        let table = self.0.table();
        let row = |served: &Served| (served.name.clone(), served.size, served.reads.count());
        table.served.values().map(row).collect()
    }

    /// Drops what has expired, what is no longer on record, and what was recalled and then forgotten. Call it every few
    /// minutes.
    pub async fn sweep(&self) {
        let now = Instant::now();
        let mut doubtful = Vec::new();
        {
            let mut table = self.0.table();
            table.refused.retain(|_, until| *until > now);
            table.served.retain(|_, served| {
                served.origin == Origin::Published || now.duration_since(served.last_lookup) < IDLE
            });
            for served in table.served.values() {
                if now.duration_since(served.confirmed) >= CONFIRM_EVERY || served.is_over(SystemTime::now()) {
                    doubtful.push(served.clone());
                }
            }
        }
        for served in doubtful {
            // What cannot be told now is told at the next sweep.
            let _ = self.confirm(served).await;
        }
    }

    fn known(&self, name: &ArtefactName) -> Known {
        let now = Instant::now();
        let mut table = self.0.table();
        if let Some(served) = table.served.get_mut(name) {
            served.last_lookup = now;
            return Known::Served(served.clone());
        }
        match table.refused.get(name) {
            Some(until) if *until > now => Known::Refused,
            _ => Known::Ask,
        }
    }

    /// An artefact that was not checked for a while, or has reached its end, is checked against its record. While the
    /// records cannot be asked it goes on being served to its end: a server that boots needs its bytes now.
    async fn confirm(&self, served: Served) -> Outcome {
        let is_over = served.is_over(SystemTime::now());
        if !is_over && served.confirmed.elapsed() < CONFIRM_EVERY {
            return Ok(Some(served));
        }
        let ended = |why: &str| {
            tracing::info!(artefact = %served.name, "{why}; no longer served");
            self.0.table().served.remove(&served.name);
            Ok(None)
        };
        match self.0.recall.standing(&served.name).await {
            Ok(Standing::Gone) => ended("no longer on record"),
            Ok(Standing::Untracked) if is_over => ended("its time is over"),
            Ok(Standing::Recorded(Some(end))) if end <= SystemTime::now() => ended("its time is over"),
            Ok(standing) => {
                let mut table = self.0.table();
                let Some(entry) = table.served.get_mut(&served.name) else {
                    return Ok(None);
                };
                entry.confirmed = Instant::now();
                if let Standing::Recorded(expires) = standing {
                    entry.expires = expires;
                }
                Ok(Some(entry.clone()))
            }
            Err(error) if is_over => Err(error),
            Err(error) => {
                tracing::warn!(artefact = %served.name, %error, "still served, though its record cannot be checked");
                Ok(Some(served))
            }
        }
    }

    /// Joins the recall of that name, or starts it in a task of its own: it goes on when its asker hangs up.
    fn join_recall(&self, name: &ArtefactName) -> Result<watch::Receiver<Option<Outcome>>, RecallError> {
        let mut table = self.0.table();
        if let Some(outcome) = table.recalls.get(name) {
            return Ok(outcome.clone());
        }
        if table.recalls.len() >= MAX_WAITING {
            let reason = format!("{MAX_WAITING} other artefacts wait to be recalled");
            return Err(RecallError { reason });
        }
        let (done, outcome) = watch::channel(None);
        table.recalls.insert(name.clone(), outcome.clone());
        let (inner, name) = (Arc::clone(&self.0), name.clone());
        tokio::spawn(async move {
            // Removed from the table even if the recall panics, so that the next asker may try again.
            let ended = RecallEnded {
                inner: Arc::clone(&inner),
                name: name.clone(),
            };
            // The semaphore is never closed; without a turn the recall would only be less orderly.
            let turn = inner.turns.acquire().await;
            let recalled = inner.recall.recall(&name).await;
            drop(turn);
            let recalled = inner.take_recalled(&name, recalled);
            drop(ended);
            done.send_replace(Some(recalled));
        });
        Ok(outcome)
    }
}

enum Known {
    Served(Served),
    Refused,
    Ask,
}

async fn wait_for(mut outcome: watch::Receiver<Option<Outcome>>) -> Outcome {
    let waited = tokio::time::timeout(RECALL_WAIT, outcome.wait_for(Option::is_some)).await;
    match waited {
        Ok(Ok(outcome)) => outcome.clone().unwrap_or(Ok(None)),
        Ok(Err(_)) => Err(RecallError {
            reason: "recalling it was broken off".into(),
        }),
        Err(_) => Err(RecallError {
            reason: format!("recalling it takes longer than {} s", RECALL_WAIT.as_secs()),
        }),
    }
}

struct RecallEnded {
    inner: Arc<Inner>,
    name: ArtefactName,
}

impl Drop for RecallEnded {
    fn drop(&mut self) {
        self.inner.table().recalls.remove(&self.name);
    }
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change to the table is one call on a map, so a panic elsewhere leaves nothing half done.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn served(&self, name: &ArtefactName, artefact: Recalled, origin: Origin) -> Served {
        let Recalled {
            content,
            digest,
            size,
            expires,
            reader,
        } = artefact;
        let content = match content {
            Content::Layout { layout, sources } => Content::Layout {
                layout,
                sources: Arc::new(Remembering {
                    opened: Arc::clone(&self.opened),
                    set: sources,
                }),
            },
            remote => remote,
        };
        let now = Instant::now();
        Served {
            name: name.clone(),
            digest,
            reads: Arc::new(Reads::default()),
            content,
            size,
            etag: format!("\"{digest}\"").into(),
            origin,
            only: reader.only.into(),
            expires,
            confirmed: now,
            last_lookup: now,
        }
    }

    /// Puts what is published into the table. What was read of the same artefact before still counts, and it lives as long
    /// as it was ever promised.
    fn insert(&self, name: &ArtefactName, artefact: Recalled) -> Result<Option<SystemTime>, StorageError> {
        let mut served = self.served(name, artefact, Origin::Published);
        let mut table = self.table();
        if let Some(old) = table.served.get(name) {
            if old.digest != served.digest {
                return Err(StorageError::Conflict { place: PLACE.into() });
            }
            served.reads = Arc::clone(&old.reads);
            served.expires = later(old.expires, served.expires);
        }
        let expires = served.expires;
        table.refused.remove(name);
        table.served.insert(name.clone(), served);
        Ok(expires)
    }

    fn take_recalled(&self, name: &ArtefactName, recalled: Result<Option<Recalled>, RecallError>) -> Outcome {
        let recalled = recalled?;
        let now = Instant::now();
        let mut table = self.table();
        // Published or withdrawn while the recall ran: that is newer.
        if let Some(served) = table.served.get(name) {
            return Ok(Some(served.clone()));
        }
        if table.refused.get(name).is_some_and(|until| *until > now) {
            return Ok(None);
        }
        let recalled = recalled.map(|artefact| self.served(name, artefact, Origin::Recalled));
        match recalled.filter(|served| !served.is_over(SystemTime::now())) {
            Some(served) => {
                table.served.insert(name.clone(), served.clone());
                Ok(Some(served))
            }
            None => {
                table.refuse(name, now + UNKNOWN_FOR, now);
                Ok(None)
            }
        }
    }
}

impl Table {
    fn refuse(&mut self, name: &ArtefactName, until: Instant, now: Instant) {
        if self.refused.len() >= MAX_REFUSED {
            self.refused.retain(|_, until| *until > now);
        }
        if self.refused.len() >= MAX_REFUSED {
            // Short-lived misses make room first; what was withdrawn a moment ago must not come back.
            self.refused.retain(|_, until| *until > now + UNKNOWN_FOR);
        }
        if self.refused.len() < MAX_REFUSED {
            self.refused.insert(name.clone(), until);
        }
    }
}

#[async_trait]
impl Backend for Embedded {
    async fn publish(&self, publication: &Publication, lifetime: Option<Duration>) -> Result<Published, StorageError> {
        let layout = Arc::clone(&publication.layout);
        let sources = Arc::clone(&publication.sources);
        // Found out now rather than by the BMC: every source is there.
        let opened = tokio::task::spawn_blocking(move || open_all(&layout, &*sources)).await;
        opened
            .map_err(|_| StorageError::Unusable {
                place: PLACE.into(),
                reason: "opening the artefact's sources was broken off; publish again".into(),
            })?
            .map_err(StorageError::Source)?;
        let expires = lifetime.map(|lifetime| SystemTime::now() + lifetime);
        let artefact = Recalled::of(publication.clone(), expires);
        let expires = self.0.insert(&publication.name, artefact)?;
        Ok(Published {
            url: self.url(&publication.name),
            expires,
        })
    }

    async fn withdraw(&self, name: &ArtefactName) -> Result<(), StorageError> {
        let now = Instant::now();
        let mut table = self.0.table();
        table.served.remove(name);
        table.refuse(name, now + WITHDRAWN_FOR, now);
        Ok(())
    }

    async fn stat(&self, name: &ArtefactName) -> Result<Stat, StorageError> {
        let served = self.lookup(name).await.map_err(unusable)?;
        Ok(served.map_or(Stat::Absent, |served| Stat::Present(served.size)))
    }

    async fn renew(&self, name: &ArtefactName, lifetime: Duration) -> Result<Renewal, StorageError> {
        if self.lookup(name).await.map_err(unusable)?.is_none() {
            return Ok(Renewal::Unsupported);
        }
        let mut table = self.0.table();
        Ok(match table.served.get_mut(name) {
            Some(served) => {
                served.expires = later(served.expires, Some(SystemTime::now() + lifetime));
                Renewal::Extended(served.expires)
            }
            None => Renewal::Unsupported,
        })
    }

    async fn check(&self) -> Result<(), StorageError> {
        Ok(())
    }
}

fn unusable(error: RecallError) -> StorageError {
    StorageError::Unusable {
        place: PLACE.into(),
        reason: error.to_string(),
    }
}

fn open_all(layout: &Layout, sources: &dyn SourceSet) -> Result<(), ReadError> {
    for sha256 in layout.sources() {
        sources.open(&sha256).map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => ReadError::SourceMissing(sha256),
            _ => ReadError::SourceIo { sha256, source },
        })?;
    }
    Ok(())
}
