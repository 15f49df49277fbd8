//! Publishing: at most one artefact of a kind for a node, under an unguessable name that is on record with its recipe.

use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use image::Recipe;
use model::{ArtefactKind, ArtefactName, Secret};
use rand::RngExt as _;
use sha2::Digest as _;
use storage::{Publication, Stat, StorageError};

use super::images::Image;
use super::session::LiveSession;
use super::{Artefact, SiteBackend};
use crate::DriverError;
use crate::calls::{ImageHandle, LocationHandle, Renewal, Reply};
use crate::world::{Candidate, Location, Placement, Request};

/// An artefact lives longer than was asked for by this: the time until somebody waits for it, and a server's POST, come on
/// top of what a plugin counts.
const MARGIN: Duration = Duration::from_secs(600);

/// How long taking back what was given up may take.
const WITHDRAWAL: Duration = Duration::from_secs(120);

/// How long a backend may take to say whether it is well.
const CHECK_DEADLINE: Duration = Duration::from_secs(5);

impl LiveSession {
    /// Whether the image is published already, else where it could go. Settles its name.
    pub(super) async fn place_image(
        &self,
        handle: ImageHandle,
        minimum_lifetime_s: u32,
    ) -> Result<Placement, DriverError> {
        let image = self.image(handle)?;
        let recorded = self.world.artefacts.find(&self.context.node.id, image.kind).await?;
        let lifetime = lifetime(minimum_lifetime_s);
        if let Some(recorded) = recorded
            .as_ref()
            .filter(|recorded| recorded.digest == image.layout.digest())
        {
            let backend = self.world.backend(&recorded.backend)?;
            let present = backend.backend.stat(&recorded.name).await.map_err(storage_error)?;
            if present == Stat::Present(recorded.size) && lives_long_enough(recorded.expires, lifetime) {
                let (handle, info) = self.keep_location(location(recorded));
                return Ok(Placement::Published(handle, info));
            }
            // The same bytes under the same URL: a BMC or a ramdisk may know it already.
            settle(&image, recorded.name.clone());
            return Ok(Placement::Again {
                backend: recorded.backend.clone(),
                journal_as: describe(&image, &recorded.name),
            });
        }
        let name = random_name(image.kind);
        settle(&image, name.clone());
        let backends = self.world.backends.iter();
        let for_node = backends.filter(|backend| (backend.takes)(&self.context.node));
        // Side by side: one that does not answer holds nobody else up.
        let candidates = join_all(for_node.map(candidate)).await;
        Ok(Placement::Choose {
            request: Request {
                kind: image.kind,
                size: image.layout.size(),
                lifetime_s: lifetime.map(|_| minimum_lifetime_s),
            },
            candidates,
            replaces: recorded.is_some(),
            journal_as: describe(&image, &name),
        })
    }

    pub(super) async fn publish(
        &self,
        handle: ImageHandle,
        minimum_lifetime_s: u32,
        backend: &str,
    ) -> Result<Reply, DriverError> {
        let image = self.image(handle)?;
        let name = image.name.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let name =
            name.ok_or_else(|| DriverError::other("host-error", "an image was published before it was placed"))?;
        let node = &self.context.node.id;
        let before = self.world.artefacts.find(node, image.kind).await?;
        let site = self.world.backend(backend)?;
        let recipe = recipe(&image)?;
        let publication = Publication {
            name: name.clone(),
            layout: std::sync::Arc::clone(&image.layout),
            sources: std::sync::Arc::clone(&image.sources),
            reader: self.world.readers.reader(&self.context.node).await,
        };
        let mut unrecorded = Unrecorded {
            backend: std::sync::Arc::clone(&site.backend),
            // Under a name that is on record it is what a BMC may be reading.
            name: before
                .as_ref()
                .is_none_or(|before| before.name != name)
                .then(|| name.clone()),
        };
        let published = site
            .backend
            .publish(
                &publication,
                lifetime(minimum_lifetime_s).map(|lifetime| lifetime + MARGIN),
            )
            .await;
        if published.is_err() {
            // A backend leaves nothing of what it could not publish.
            unrecorded.name = None;
        }
        let published = published.map_err(storage_error)?;
        let artefact = Artefact {
            node: *node,
            kind: image.kind,
            backend: backend.to_owned(),
            name,
            url: published.url,
            digest: image.layout.digest(),
            size: image.layout.size(),
            recipe,
            expires: published.expires,
        };
        let recorded = self.world.artefacts.record(&artefact, &self.context.tenure).await;
        unrecorded.name = None;
        if let Err(error) = recorded {
            // Under a name that nobody has on record it would stay for ever.
            if before.is_none_or(|before| before.name != artefact.name) {
                self.withdraw_unused(&artefact, "an artefact that could not be recorded")
                    .await;
            }
            return Err(error);
        }
        if let Some(before) = before.filter(|before| before.name != artefact.name || before.backend != artefact.backend)
        {
            self.withdraw_unused(&before, "a replaced artefact").await;
        }
        let (handle, info) = self.keep_location(location(&artefact));
        Ok(Reply::Location(handle, info))
    }

    pub(super) async fn find(&self, kind: ArtefactKind) -> Result<Reply, DriverError> {
        let Some(recorded) = self.world.artefacts.find(&self.context.node.id, kind).await? else {
            return Ok(Reply::MaybeLocation(None));
        };
        let backend = self.world.backend(&recorded.backend)?;
        match backend.backend.stat(&recorded.name).await.map_err(storage_error)? {
            Stat::Present(_) => Ok(Reply::MaybeLocation(Some(self.keep_location(location(&recorded))))),
            Stat::Absent => Ok(Reply::MaybeLocation(None)),
        }
    }

    pub(super) async fn renew(&self, handle: LocationHandle, minimum_lifetime_s: u32) -> Result<Reply, DriverError> {
        let held = self.location(handle)?;
        let Some(kind) = held.kind else {
            return Ok(Reply::Renewal(Renewal::NotPossible));
        };
        let Some(recorded) = self.world.artefacts.find(&self.context.node.id, kind).await? else {
            return Ok(Reply::Renewal(Renewal::NotPossible));
        };
        let Some(lifetime) = lifetime(minimum_lifetime_s) else {
            let lasting = recorded.expires.is_none();
            return Ok(Reply::Renewal(if lasting {
                Renewal::Extended
            } else {
                Renewal::NotPossible
            }));
        };
        let backend = self.world.backend(&recorded.backend)?;
        let (artefact, renewal) = match backend
            .backend
            .renew(&recorded.name, lifetime + MARGIN)
            .await
            .map_err(storage_error)?
        {
            storage::Renewal::Extended(expires) => (Artefact { expires, ..recorded }, Renewal::Extended),
            storage::Renewal::UrlChanged(published) => (
                Artefact {
                    url: published.url,
                    expires: published.expires,
                    ..recorded
                },
                Renewal::UrlChanged,
            ),
            storage::Renewal::Unsupported => return Ok(Reply::Renewal(Renewal::NotPossible)),
        };
        self.world.artefacts.record(&artefact, &self.context.tenure).await?;
        Ok(Reply::Renewal(renewal))
    }

    pub(super) async fn withdraw(&self, kind: ArtefactKind) -> Result<Reply, DriverError> {
        let node = &self.context.node.id;
        if let Some(recorded) = self.world.artefacts.find(node, kind).await? {
            let backend = self.world.backend(&recorded.backend)?;
            backend.backend.withdraw(&recorded.name).await.map_err(storage_error)?;
            self.world.artefacts.remove(node, kind, &self.context.tenure).await?;
        }
        Ok(Reply::Done)
    }

    /// What is not on record (any more) has no other chance to be removed; failing is no reason to fail the publication.
    async fn withdraw_unused(&self, unused: &Artefact, what: &str) {
        let removed = match self.world.backend(&unused.backend) {
            Ok(backend) => backend.backend.withdraw(&unused.name).await.map_err(storage_error),
            Err(error) => Err(error),
        };
        if let Err(error) = removed {
            tracing::warn!(node = %unused.node, backend = %unused.backend, kind = %unused.kind, "{what} is left behind: {error}");
        }
    }
}

/// Takes a publication back that was dropped (its call ran out of time) before it was on record, in a task of its own.
struct Unrecorded {
    backend: std::sync::Arc<dyn storage::Backend>,
    /// `None` once there is nothing to take back.
    name: Option<ArtefactName>,
}

impl Drop for Unrecorded {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else {
            return;
        };
        let backend = std::sync::Arc::clone(&self.backend);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let withdrawn = tokio::time::timeout(WITHDRAWAL, backend.withdraw(&name)).await;
                let reason = match withdrawn {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => error.to_string(),
                    Err(_) => format!("it took longer than {} s", WITHDRAWAL.as_secs()),
                };
                tracing::warn!(artefact = %name, "a publication that was given up is left behind: {reason}");
            });
        }
    }
}

/// Why a backend is not usable stands among its traits, so that a refusal can say it.
const PROBLEM: &str = "problem";
/// So many seconds ago publishing failed there, and has not succeeded since.
const FAILED_AGO: &str = "publish-failed-s";

async fn candidate(site: &SiteBackend) -> Candidate {
    let problem = match tokio::time::timeout(CHECK_DEADLINE, site.backend.check()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("it did not say within {CHECK_DEADLINE:?} whether it is usable")),
    };
    let mut traits = site.traits.clone();
    if let Some(failed) = site.backend.health().publish_failed {
        let ago = SystemTime::now().duration_since(failed).unwrap_or_default();
        traits.push((FAILED_AGO.to_owned(), ago.as_secs().to_string()));
    }
    if let Some(problem) = &problem {
        tracing::warn!(backend = %site.id, "not usable now: {problem}");
        traits.push((PROBLEM.to_owned(), problem.clone()));
    }
    Candidate {
        id: site.id.clone(),
        kind: site.kind.clone(),
        healthy: problem.is_none(),
        free_bytes: None,
        max_lifetime_s: site
            .max_lifetime
            .map(|time| u32::try_from(time.as_secs()).unwrap_or(u32::MAX)),
        traits,
    }
}

fn location(artefact: &Artefact) -> Location {
    Location {
        backend: Some(artefact.backend.clone()),
        kind: Some(artefact.kind),
        url: artefact.url.clone(),
        digest: Some(artefact.digest),
        expires: artefact.expires,
    }
}

/// 0 = until it is withdrawn.
fn lifetime(seconds: u32) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}

fn lives_long_enough(expires: Option<SystemTime>, lifetime: Option<Duration>) -> bool {
    match (expires, lifetime) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(expires), Some(lifetime)) => expires >= SystemTime::now() + lifetime,
    }
}

fn settle(image: &Image, name: ArtefactName) {
    *image.name.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
}

/// Before the hash in the journal's detail of a publication.
const NAME_HASH: &str = ", name hash ";

/// For the journal. The hash of the name lets a clean-up find the bytes of a publication that was cut short, and tells
/// nobody the name.
fn describe(image: &Image, name: &ArtefactName) -> String {
    format!(
        "{} {} ({} bytes){NAME_HASH}{}",
        image.kind,
        image.layout.digest(),
        image.layout.size(),
        name_hash(name)
    )
}

/// What the journal calls a name by: 64 bits of its SHA-256, in hexadecimal digits.
pub fn name_hash(name: &ArtefactName) -> String {
    let hash = model::Sha256(sha2::Sha256::digest(name.expose()).into()).to_string();
    hash[..16].to_owned()
}

/// The hash of the name that a publication was journalled with.
pub fn journalled_name_hash(detail: &str) -> Option<&str> {
    detail.rsplit_once(NAME_HASH).map(|(_, hash)| hash)
}

/// 32 characters of 36: 165 random bits.
fn random_name(kind: ArtefactKind) -> ArtefactName {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut rng = rand::rng();
    let token: String = (0..32)
        .map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())]))
        .collect();
    ArtefactName::parse(&format!("{token}.{}", kind.extension())).expect("made of what a name is made of")
}

fn recipe(image: &Image) -> Result<Secret, DriverError> {
    let broken = |error: image::RecipeError| DriverError::other("recipe", error.to_string());
    let recipe = Recipe::of(&image.layout, &image.references).map_err(broken)?;
    let json = recipe.to_json().map_err(broken)?;
    String::from_utf8(json)
        .map(Secret::new)
        .map_err(|_| DriverError::other("recipe", "a recipe is JSON and so UTF-8"))
}

fn storage_error(error: StorageError) -> DriverError {
    let message = error.to_string();
    match error {
        StorageError::Full { .. } => DriverError::other("storage-full", message),
        StorageError::Forbidden { .. } => DriverError::other("storage-forbidden", message),
        StorageError::Unusable { .. } => DriverError::Unreachable(message),
        StorageError::Timeout { .. } => DriverError::Timeout(message),
        StorageError::Source(source) => DriverError::other("source-unreadable", format!("{message}: {source}")),
        StorageError::Io { source, .. } => DriverError::other("storage-io", format!("{message}: {source}")),
        StorageError::Conflict { .. } => DriverError::Conflict(message),
    }
}
