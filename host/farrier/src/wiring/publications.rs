//! The conductor's `Publications` over the records, the recipes and the backends; and the recall of an artefact by name, so
//! that any conductor serves any recorded artefact.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agent::ImageInfo;
use async_trait::async_trait;
use bmc::InsertMedia;
use conductor::{CallError, Errand, ObservedArtefact, Publications, WantedImage};
use image::Recipe;
use model::take_over::UrlState;
use model::{ArtefactKind, ArtefactName, Node};
use nodes::{ArtefactRecord, NodeRef, Store};
use runtime::live::Readers as _;
use runtime::live::SiteBackend;
use sources::Sources;
use storage::{
    Backend, Embedded, ObjectBackend, Part, Publication, Published, Reader, Recall, RecallError, Recalled, Renewal,
    Standing,
};

use super::errors::{fail, of_bmc, of_storage, of_store, with_causes};
use super::instance_images::{self, InstanceImages};
use super::netboot::{self, NetbootWiring, Places};
use super::readers::Readers;
use super::records::journalled;
use super::servers::Servers;
use super::unrecorded;

/// How long a URL may take to answer a successor that looks at it.
const LOOK: Duration = Duration::from_secs(2);

/// A floppy lives longer than its ramdisk may take by this: POST and the agent's own start come on top of the wait.
const MARGIN: Duration = Duration::from_secs(600);

/// How long a BMC may take to say what one of its slots holds.
const BMC_LOOK: Duration = Duration::from_secs(10);

/// See [`Publications`].
pub(super) struct PublicationWiring {
    pub(super) store: Arc<dyn Store>,
    pub(super) sources: Arc<Sources>,
    pub(super) servers: Arc<Servers>,
    pub(super) backends: Vec<SiteBackend>,
    pub(super) embedded: Embedded,
    /// Boot files are in no backend but where it puts them.
    pub(super) netboot: Arc<NetbootWiring>,
    pub(super) readers: Readers,
    /// Asks whether a URL works.
    pub(super) http: reqwest::Client,
    /// How long a ramdisk may take to call back.
    pub(super) floppy_wait: Duration,
    pub(super) reinsert_active_now: bool,
    pub(super) instance_images: InstanceImages,
}

impl PublicationWiring {
    async fn record(&self, errand: &Errand, kind: ArtefactKind) -> Result<ArtefactRecord, CallError> {
        let all = self.store.artefacts(&errand.node.id).await.map_err(of_store)?;
        let record = all.into_iter().find(|record| record.kind == kind);
        record.ok_or_else(|| fail(format!("no {kind} of this node is on record")))
    }

    fn backend(&self, id: &str) -> Result<&Arc<dyn Backend>, CallError> {
        let found = self.backends.iter().find(|backend| backend.id == id);
        found.map(|backend| &backend.backend).ok_or_else(|| {
            fail(format!(
                "backend `{id}` is not in farrier.toml any more: put it back until nothing is published there"
            ))
        })
    }

    fn lifetime(&self, kind: ArtefactKind) -> Option<Duration> {
        (kind == ArtefactKind::Floppy).then_some(self.floppy_wait + MARGIN)
    }

    async fn put(&self, errand: &Errand, mut record: ArtefactRecord, published: Published) -> Result<(), CallError> {
        record.url = published.url;
        record.expires = published.expires;
        record.published_by = errand.tenure.conductor.clone();
        record.published_at = std::time::SystemTime::now();
        self.store.put_artefact(&record, &errand.tenure).await.map_err(of_store)
    }

    async fn look_at(&self, record: &ArtefactRecord) -> UrlState {
        let mut reply = self.http.head(record.url.expose()).timeout(LOOK).send().await;
        if reply
            .as_ref()
            .is_ok_and(|reply| reply.status() == reqwest::StatusCode::FORBIDDEN)
        {
            // A presigned URL is good for GET alone.
            let get = self.http.get(record.url.expose()).header("range", "bytes=0-0");
            reply = get.timeout(LOOK).send().await;
        }
        match reply {
            Ok(reply) if reply.status().is_success() => {
                let whole = match reply.status() {
                    reqwest::StatusCode::PARTIAL_CONTENT => "content-range",
                    _ => "content-length",
                };
                let length = reply
                    .headers()
                    .get(whole)
                    .and_then(|value| value.to_str().ok()?.rsplit('/').next()?.parse().ok());
                if length.is_none_or(|length: u64| length == record.size) {
                    UrlState::Serving
                } else {
                    UrlState::Dead
                }
            }
            Ok(reply) if matches!(reply.status().as_u16(), 401 | 403 | 404 | 410) => UrlState::Dead,
            Ok(_) => UrlState::Unknown,
            Err(error) if error.is_connect() => UrlState::Dead,
            Err(_) => UrlState::Unknown,
        }
    }
}

#[async_trait]
impl Publications for PublicationWiring {
    async fn observe(&self, errand: &Errand) -> Result<Vec<ObservedArtefact>, CallError> {
        let records = self.store.artefacts(&errand.node.id).await.map_err(of_store)?;
        let bmc = self.servers.of(&errand.node, &errand.tenure).map_err(of_bmc)?;
        let mut seen = Vec::with_capacity(records.len());
        let mut answers = true;
        for record in records {
            // Any conductor serves it by its record: there is nothing to plan.
            if record.kind == ArtefactKind::InstanceImage {
                continue;
            }
            // A BMC that does not answer is not asked on; and what is no medium is in no slot.
            let slot = match record.kind.device().filter(|_| answers) {
                Some(device) => {
                    let slot = tokio::time::timeout(BMC_LOOK, bmc.media(device)).await;
                    let slot = slot.ok().and_then(Result::ok);
                    answers = slot.is_some();
                    slot
                }
                None => None,
            };
            let in_slot = slot.is_some_and(|slot| slot.inserted && slot.url.as_deref() == Some(record.url.expose()));
            seen.push(ObservedArtefact {
                kind: record.kind,
                backend: record.backend.clone(),
                url: match record.kind {
                    ArtefactKind::Netboot => UrlState::Unknown,
                    _ => self.look_at(&record).await,
                },
                in_slot,
                expires: record.expires,
                bytes_read: self.embedded.reads(&record.name).map(|reads| reads.bytes),
            });
        }
        Ok(seen)
    }

    async fn regenerate(&self, errand: &Errand, kind: ArtefactKind) -> Result<bool, CallError> {
        let record = self.record(errand, kind).await?;
        match kind {
            ArtefactKind::Netboot => return self.netboot.regenerate(errand, &record).await.map(|()| false),
            ArtefactKind::InstanceImage => return Ok(false),
            ArtefactKind::Floppy | ArtefactKind::BootIso | ArtefactKind::ConfigDrive => {}
        }
        let backend = self.backend(&record.backend)?;
        let reader = self.readers.reader(&errand.node).await;
        let publication = replay(&self.sources, &record, reader).await.map_err(fail)?;
        let detail = format!("{kind} {} again at {}", record.digest, record.backend);
        let publish = async {
            backend
                .publish(&publication, self.lifetime(kind))
                .await
                .map_err(of_storage)
        };
        let published = journalled(&*self.store, errand, "storage.publish", &detail, publish).await?;
        let changed = published.url != record.url;
        self.put(errand, record, published).await?;
        Ok(changed)
    }

    async fn renew(&self, errand: &Errand, kind: ArtefactKind) -> Result<(), CallError> {
        let mut record = self.record(errand, kind).await?;
        let Some(lifetime) = self.lifetime(kind) else {
            return Ok(());
        };
        let backend = self.backend(&record.backend)?;
        let detail = format!("{kind} at {}", record.backend);
        let renew = async { backend.renew(&record.name, lifetime).await.map_err(of_storage) };
        match journalled(&*self.store, errand, "storage.renew", &detail, renew).await? {
            Renewal::Extended(expires) => {
                record.expires = expires;
                self.store.put_artefact(&record, &errand.tenure).await.map_err(of_store)
            }
            Renewal::UrlChanged(published) => self.put(errand, record, published).await,
            Renewal::Unsupported => self.regenerate(errand, kind).await.map(drop),
        }
    }

    async fn reinsert(&self, errand: &Errand, kind: ArtefactKind) -> Result<(), CallError> {
        let record = self.record(errand, kind).await?;
        let bmc = self.servers.of(&errand.node, &errand.tenure).map_err(of_bmc)?;
        let device = kind
            .device()
            .ok_or_else(|| fail(format!("{kind} is no medium for any slot")))?;
        if errand.node.provision_state.is_active() && !errand.by_operator && !self.reinsert_active_now {
            let slot = bmc.media(device).await.map_err(of_bmc)?;
            if slot.inserted {
                return Err(fail(format!(
                    "the {} of the active server is not empty any more",
                    device.as_str()
                )));
            }
        }
        let image = InsertMedia {
            url: record.url.clone(),
            boot_once: false,
            server_certificate: None,
        };
        let insert = async { bmc.insert_media(device, &image).await.map_err(of_bmc) };
        journalled(&*self.store, errand, "bmc.insert", device.as_str(), insert).await
    }

    async fn withdraw(&self, errand: &Errand, kind: ArtefactKind) -> Result<(), CallError> {
        match kind {
            ArtefactKind::Netboot => return self.netboot.withdraw(errand).await,
            ArtefactKind::InstanceImage => return self.instance_images.withdraw(errand).await,
            ArtefactKind::Floppy | ArtefactKind::BootIso | ArtefactKind::ConfigDrive => {}
        }
        let all = self.store.artefacts(&errand.node.id).await.map_err(of_store)?;
        let Some(record) = all.into_iter().find(|record| record.kind == kind) else {
            return Ok(());
        };
        let backend = self.backend(&record.backend)?;
        let detail = format!("{kind} at {}", record.backend);
        let withdraw = async { backend.withdraw(&record.name).await.map_err(of_storage) };
        journalled(&*self.store, errand, "storage.withdraw", &detail, withdraw).await?;
        self.store
            .remove_artefact(&errand.node.id, kind, &errand.tenure)
            .await
            .map_err(of_store)
    }

    async fn withdraw_unrecorded(&self, errand: &Errand) -> Result<Vec<String>, CallError> {
        unrecorded::withdraw(&*self.store, &self.backends, errand).await
    }

    async fn instance_image(&self, errand: &Errand, wanted: &WantedImage) -> Result<ImageInfo, CallError> {
        self.instance_images.prepare(errand, wanted).await
    }

    async fn release_instance_image(&self, errand: &Errand) {
        if let Err(error) = self.instance_images.withdraw(errand).await {
            let reason = error.message;
            tracing::warn!(node = %errand.node.id, reason, "an image that nobody fetches any more is still served");
        }
    }

    async fn read_progress(&self, node: &Node, kind: ArtefactKind) -> Option<(u64, u64)> {
        let all = self.store.artefacts(&node.id).await.ok()?;
        let record = all.into_iter().find(|record| record.kind == kind)?;
        let reads = self.embedded.reads(&record.name)?;
        Some((reads.bytes, record.size))
    }
}

/// Makes a recorded artefact again: same bytes, checked by digest; sources that are gone are fetched again by digest.
pub(super) async fn replay(
    sources: &Arc<Sources>,
    record: &ArtefactRecord,
    reader: Reader,
) -> Result<Publication, String> {
    let recipe = Recipe::from_json(record.recipe.expose().as_bytes()).map_err(|error| with_causes(&error))?;
    let layout = recipe.layout().map_err(|error| with_causes(&error))?;
    if layout.digest() != record.digest {
        return Err(format!(
            "the recipe of a {} gives other bytes than those on record",
            record.kind
        ));
    }
    for (sha256, source) in recipe.sources() {
        if record.kind == ArtefactKind::InstanceImage {
            instance_images::bring(sources, &source.reference, sha256).await?;
            continue;
        }
        sources
            .fetch(&source.reference, Some(sha256))
            .await
            .map_err(|error| with_causes(&error))?;
    }
    Ok(Publication {
        name: record.name.clone(),
        layout: Arc::new(layout),
        sources: Arc::clone(sources) as _,
        reader,
    })
}

/// Recalls artefacts from their records.
pub(super) struct RecallWiring {
    pub(super) store: Arc<dyn Store>,
    pub(super) sources: Arc<Sources>,
    pub(super) readers: Readers,
    /// Ids of the backends that this process serves.
    pub(super) embedded: Vec<String>,
    /// Object stores, whose artefacts it serves if they are relayed; set once they are open.
    pub(super) stores: Arc<OnceLock<BTreeMap<String, ObjectBackend>>>,
    /// What it serves under names that can be guessed.
    pub(super) places: Places,
}

impl RecallWiring {
    async fn find(&self, name: &ArtefactName) -> Result<Option<ArtefactRecord>, RecallError> {
        let found = self.store.artefact_by_name(name).await;
        let record = found.map_err(|error| RecallError {
            reason: with_causes(&error),
        })?;
        Ok(record.filter(|record| {
            let id = &record.backend;
            self.embedded.contains(id)
                || self.store(id).is_some()
                || netboot::is_served_here(id)
                || id == instance_images::CONDUCTOR
        }))
    }

    fn store(&self, id: &str) -> Option<&ObjectBackend> {
        self.stores.get()?.get(id)
    }

    /// Who may fetch a recorded artefact; where that is not limited, the node is not looked up.
    async fn reader(&self, record: &ArtefactRecord) -> Result<Reader, RecallError> {
        // Boot files and images for disks are fetched by the server itself.
        let by_server = matches!(record.kind, ArtefactKind::Netboot | ArtefactKind::InstanceImage);
        if !self.readers.only_to_bmc || by_server {
            return Ok(Reader::default());
        }
        let node = self.store.node(&NodeRef::Id(record.node)).await;
        let node = node.map_err(|error| RecallError {
            reason: with_causes(&error),
        })?;
        match node {
            Some(found) => Ok(self.readers.reader(&found.node).await),
            None => Err(RecallError {
                reason: "its node is gone".to_owned(),
            }),
        }
    }
}

#[async_trait]
impl Recall for RecallWiring {
    async fn recall(&self, name: &ArtefactName) -> Result<Option<Recalled>, RecallError> {
        if let Some(shared) = self.places.shared(name) {
            return Ok(Some(Recalled::of(shared, None)));
        }
        let Some(record) = self.find(name).await? else {
            return Ok(None);
        };
        let reader = self.reader(&record).await?;
        if let Some(store) = self.store(&record.backend) {
            let (digest, size) = (record.digest, record.size);
            return Ok(store.recall(name, &record.url, digest, size, record.expires, reader));
        }
        let publication = replay(&self.sources, &record, reader).await;
        let publication = publication.map_err(|reason| RecallError { reason })?;
        Ok(Some(Recalled::of(publication, record.expires)))
    }

    async fn standing(&self, name: &ArtefactName) -> Result<Standing, RecallError> {
        if self.places.shared(name).is_some() {
            return Ok(Standing::Recorded(None));
        }
        Ok(match self.find(name).await? {
            Some(record) => Standing::Recorded(record.expires),
            None => Standing::Gone,
        })
    }

    async fn part(&self, path: &str) -> Result<Option<Part>, RecallError> {
        self.places.find(&*self.store, path).await
    }
}
