//! Booting over the network: the boot interface `ilo-ipxe`, which the host itself carries out. No plugin is asked.
//!
//! What a server boots is one artefact ([`netboot::Pack`]), on record *before* any of it can be fetched: so whoever cleans up
//! finds all of it by the record, whenever a conductor died. The files are served by every conductor, or lie in a web
//! server's folder ([`Shelf`]).

mod line;
mod loaders;
mod shelf;
mod wishes;

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use conductor::{CallError, Errand, Parameter};
use image::{Layout, Recipe, SourceSet};
use model::{ArtefactKind, ArtefactName, BootDevice, Driver, Node, Secret};
use netboot::{Boot, NetbootPath, NodeFile, Pack, PackError, Pair};
use nodes::{ArtefactRecord, Store};
use settings::{Images, Netboot};
use sources::Sources;
use storage::{Embedded, Publication};

use super::boot_check::Purpose;
use super::boot_sources::{BootSourceWiring, FoundPair};
use super::errors::{fail, of_bmc, of_storage, of_store, with_causes};
use super::policies::of_answer;
use super::publications::replay;
use super::records::journalled;
use super::servers::Servers;

pub(super) use loaders::Loaders;
pub(super) use shelf::Shelf;

/// See the module.
pub(super) struct NetbootWiring {
    pub(super) store: Arc<dyn Store>,
    pub(super) sources: Arc<Sources>,
    pub(super) servers: Arc<Servers>,
    pub(super) boot_sources: BootSourceWiring,
    pub(super) images: Images,
    pub(super) netboot: Netboot,
    pub(super) shelf: Shelf,
}

impl NetbootWiring {
    /// What of a node's boot can be judged by its record and the site's files; touches nothing.
    pub(super) fn check(&self, node: &Node) -> Result<(), String> {
        wishes::boot_mode(node)?;
        self.boot_sources.names_pair(node, Purpose::Ramdisk)?;
        line::ramdisk(node, &[], &self.netboot)?;
        if node.driver == Driver::IscsiIlo {
            line::instance(node, &self.images)?;
        }
        self.shelf.check().map_err(|error| with_causes(&error))
    }

    /// The same, and whether the server's cards are known.
    pub(super) async fn check_boot(&self, errand: &Errand) -> Result<(), CallError> {
        self.check(&errand.node).map_err(fail)?;
        let ports = self.store.ports(Some(&errand.node.id)).await.map_err(of_store)?;
        match ports.is_empty() {
            true => Err(fail(PackError::NoCard.to_string())),
            false => Ok(()),
        }
    }

    /// The deploy or clean ramdisk at the next boot.
    pub(super) async fn prepare_ramdisk(&self, errand: &Errand, parameters: &[Parameter]) -> Result<(), CallError> {
        let line = line::ramdisk(&errand.node, parameters, &self.netboot).map_err(fail)?;
        let found = self.pair(errand, Purpose::Ramdisk).await?;
        self.publish(errand, &found, |pair| Boot::Ramdisk(Pair { line, ..pair }))
            .await?;
        self.apply_boot_mode(errand).await?;
        self.boot_from(errand, BootDevice::Network, false).await
    }

    /// The instance from now on: off its disk, or from the network.
    pub(super) async fn prepare_instance(&self, errand: &Errand) -> Result<(), CallError> {
        let device = match errand.node.driver {
            Driver::AgentIlo => {
                self.put_on_record(errand, &Boot::Disk, &FoundPair::default()).await?;
                BootDevice::Disk
            }
            Driver::IscsiIlo => {
                let line = line::instance(&errand.node, &self.images).map_err(fail)?;
                let found = self.pair(errand, Purpose::Instance).await?;
                self.publish(errand, &found, |pair| Boot::Instance(Pair { line, ..pair }))
                    .await?;
                BootDevice::Network
            }
        };
        self.apply_boot_mode(errand).await?;
        self.switch_secure_boot(errand, true).await?;
        self.boot_from(errand, device, true).await
    }

    /// Undoes either; a server that boots from the network then finds nothing there, and goes on to its disk.
    pub(super) async fn clean_up_ramdisk(&self, errand: &Errand) -> Result<(), CallError> {
        self.withdraw(errand).await
    }

    /// Undoes that as well.
    pub(super) async fn clean_up_instance(&self, errand: &Errand) -> Result<(), CallError> {
        let withdrawn = self.withdraw(errand).await;
        self.switch_secure_boot(errand, false).await?;
        withdrawn
    }

    /// Serves what is on record again: the same bytes under the same names.
    pub(super) async fn regenerate(&self, errand: &Errand, record: &ArtefactRecord) -> Result<(), CallError> {
        let publication = replay(&self.sources, record, storage::Reader::default())
            .await
            .map_err(fail)?;
        let pack = Pack::read((*publication.layout).clone()).map_err(|error| fail(with_causes(&error)))?;
        let shelf = self.shelf.of(&record.backend).map_err(fail)?;
        let detail = format!("{} {} again at {}", record.kind, record.digest, record.backend);
        let put = async { shelf.put(&publication, &pack).await.map_err(of_storage) };
        journalled(&*self.store, errand, "storage.publish", &detail, put).await?;
        let mut record = record.clone();
        record.published_by = errand.tenure.conductor.clone();
        record.published_at = SystemTime::now();
        self.store.put_artefact(&record, &errand.tenure).await.map_err(of_store)
    }

    /// Takes all of it away and forgets it; absent is a success.
    pub(super) async fn withdraw(&self, errand: &Errand) -> Result<(), CallError> {
        let Some(record) = self.record(errand).await? else {
            return Ok(());
        };
        self.take_away(errand, &record).await?;
        let node = &errand.node.id;
        let removed = self
            .store
            .remove_artefact(node, ArtefactKind::Netboot, &errand.tenure)
            .await;
        removed.map_err(of_store)
    }

    async fn record(&self, errand: &Errand) -> Result<Option<ArtefactRecord>, CallError> {
        let all = self.store.artefacts(&errand.node.id).await.map_err(of_store)?;
        Ok(all.into_iter().find(|record| record.kind == ArtefactKind::Netboot))
    }

    async fn take_away(&self, errand: &Errand, record: &ArtefactRecord) -> Result<(), CallError> {
        let shelf = self.shelf.of(&record.backend).map_err(fail)?;
        let pack = pack_of(record).map_err(fail)?;
        let detail = format!("{} at {}", record.kind, record.backend);
        let sources = Arc::clone(&self.sources) as Arc<dyn SourceSet>;
        let remove = async { shelf.remove(&record.name, &pack, sources).await.map_err(of_storage) };
        journalled(&*self.store, errand, "storage.withdraw", &detail, remove).await
    }

    async fn pair(&self, errand: &Errand, purpose: Purpose) -> Result<FoundPair, CallError> {
        let found = self.boot_sources.pair(&errand.node, purpose).await;
        found.map_err(|error| CallError {
            class: of_answer(&error),
            message: error.to_string(),
        })
    }

    async fn publish(
        &self,
        errand: &Errand,
        found: &FoundPair,
        boot: impl FnOnce(Pair) -> Boot,
    ) -> Result<(), CallError> {
        let Some((kernel, ramdisk)) = found.files else {
            return Err(fail("there is neither a kernel nor a ramdisk to boot"));
        };
        let line = netboot::KernelLine::default();
        let timeout = self.netboot.timeout;
        let pair = Pair {
            kernel,
            ramdisk,
            line,
            timeout,
        };
        self.put_on_record(errand, &boot(pair), found).await
    }

    /// On record first, then where servers find it. What was there before goes, unless it is the same.
    async fn put_on_record(&self, errand: &Errand, boot: &Boot, found: &FoundPair) -> Result<(), CallError> {
        let node = &errand.node.id;
        let ports = self.store.ports(Some(node)).await.map_err(of_store)?;
        let cards: Vec<_> = ports.iter().map(|port| port.address).collect();
        let pack = Pack::new(*node, &cards, boot).map_err(|error| fail(with_causes(&error)))?;
        let before = self.record(errand).await?;
        let same =
            |record: &&ArtefactRecord| record.digest == pack.layout().digest() && record.backend == self.shelf.id();
        let name = match before.as_ref().filter(same) {
            Some(record) => record.name.clone(),
            None => {
                if let Some(record) = &before {
                    self.take_away(errand, record).await?;
                }
                random_name()
            }
        };
        let broken = |error: image::RecipeError| fail(format!("the boot files cannot be recorded: {error}"));
        let recipe = Recipe::of(pack.layout(), &found.references).map_err(broken)?;
        let recipe = String::from_utf8(recipe.to_json().map_err(broken)?);
        let config = NetbootPath::Node(*node, NodeFile::Config);
        let record = ArtefactRecord {
            node: *node,
            kind: ArtefactKind::Netboot,
            backend: self.shelf.id().to_owned(),
            name: name.clone(),
            url: Secret::new(format!("{}/{config}", self.shelf.base_url())),
            digest: pack.layout().digest(),
            size: pack.layout().size(),
            recipe: Secret::new(recipe.map_err(|_| fail("a recipe is JSON and so UTF-8"))?),
            published_by: errand.tenure.conductor.clone(),
            published_at: SystemTime::now(),
            expires: None,
        };
        self.store
            .put_artefact(&record, &errand.tenure)
            .await
            .map_err(of_store)?;
        let publication = Publication {
            name,
            layout: Arc::new(pack.layout().clone()),
            sources: Arc::clone(&self.sources) as _,
            reader: storage::Reader::default(),
        };
        let detail = format!("{} {} at {}", record.kind, record.digest, record.backend);
        let put = async { self.shelf.put(&publication, &pack).await.map_err(of_storage) };
        journalled(&*self.store, errand, "storage.publish", &detail, put).await
    }

    async fn apply_boot_mode(&self, errand: &Errand) -> Result<(), CallError> {
        let Some(wanted) = wishes::boot_mode(&errand.node).map_err(fail)? else {
            return Ok(());
        };
        let bmc = self.servers.of(&errand.node, &errand.tenure).map_err(of_bmc)?;
        match bmc.boot_mode().await {
            Ok(mode) if mode == wanted => return Ok(()),
            // A server that knows no boot modes is an old one with a BIOS.
            Err(bmc::BmcError::Unsupported { .. }) if wanted == model::BootMode::Bios => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(of_bmc(error)),
        }
        let change = async { bmc.set_boot_mode(wanted).await.map_err(of_bmc) };
        journalled(&*self.store, errand, "bmc.set-boot-mode", wanted.as_str(), change).await
    }

    /// Secure boot as the instance wants it, where the node asks for it; it is nobody's business where it does not.
    async fn switch_secure_boot(&self, errand: &Errand, on: bool) -> Result<(), CallError> {
        if !wishes::asks_for_secure_boot(&errand.node) {
            return Ok(());
        }
        let bmc = self.servers.of(&errand.node, &errand.tenure).map_err(of_bmc)?;
        if bmc.secure_boot().await.map_err(of_bmc)? == on {
            return Ok(());
        }
        let detail = if on { "on" } else { "off" };
        let change = async { bmc.set_secure_boot(on).await.map_err(of_bmc) };
        journalled(&*self.store, errand, "bmc.set-secure-boot", detail, change).await
    }

    async fn boot_from(&self, errand: &Errand, device: BootDevice, persistent: bool) -> Result<(), CallError> {
        let bmc = self.servers.of(&errand.node, &errand.tenure).map_err(of_bmc)?;
        let often = if persistent { "from now on" } else { "once" };
        let detail = format!("{device:?} {often}").to_lowercase();
        let change = async { bmc.set_boot_device(device, persistent).await.map_err(of_bmc) };
        journalled(&*self.store, errand, "bmc.set-boot-device", &detail, change).await
    }
}

/// The files of a record, without their bytes.
fn pack_of(record: &ArtefactRecord) -> Result<Pack, String> {
    let recipe = Recipe::from_json(record.recipe.expose().as_bytes()).map_err(|error| with_causes(&error))?;
    let layout = recipe.layout().map_err(|error| with_causes(&error))?;
    Pack::read(layout).map_err(|error| with_causes(&error))
}

/// Nobody asks for the whole; its name is as hard to guess as every artefact's.
fn random_name() -> ArtefactName {
    let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    let ending = ArtefactKind::Netboot.extension();
    ArtefactName::parse(&format!("{token}.{ending}")).expect("64 hexadecimal digits, a dot and an ending")
}

/// What this conductor serves under names that can be guessed.
pub(super) struct Places {
    /// What is the same for every server, where the conductors serve it.
    shared: Vec<Shared>,
}

/// The site's entry script, or a boot loader.
struct Shared {
    path: String,
    name: ArtefactName,
    layout: Arc<Layout>,
    range: Range<u64>,
}

impl Places {
    /// `serves`: servers fetch from the conductors, under this URL.
    pub(super) fn new(images_url: &str, serves: bool, loaders: &Loaders) -> Result<Self, PackError> {
        let mut shared = Vec::new();
        if serves {
            let entry = Pack::entry(images_url)?;
            shared.extend(entry.files().iter().map(|file| Shared {
                path: file.path.to_string(),
                name: random_name(),
                layout: Arc::new(entry.layout().clone()),
                range: file.range.clone(),
            }));
            shared.extend(loaders.iter().map(|loader| Shared {
                path: loader.name.clone(),
                name: random_name(),
                layout: Arc::new(loader.layout.clone()),
                range: 0..loader.layout.size(),
            }));
        }
        Ok(Self { shared })
    }

    /// What is the same for every server, if something of that has this name.
    pub(super) fn shared(&self, name: &ArtefactName) -> Option<Publication> {
        let shared = self.shared.iter().find(|shared| shared.name == *name)?;
        Some(Publication {
            name: name.clone(),
            layout: Arc::clone(&shared.layout),
            sources: Arc::new(image::NoSources),
            reader: storage::Reader::default(),
        })
    }

    /// Where a path below the image listener's URL leads.
    pub(super) async fn find(
        &self,
        store: &dyn Store,
        path: &str,
    ) -> Result<Option<storage::Part>, storage::RecallError> {
        let unknown = |error: nodes::StoreError| storage::RecallError {
            reason: with_causes(&error),
        };
        if let Some(shared) = self.shared.iter().find(|shared| shared.path == path) {
            let (name, range) = (shared.name.clone(), shared.range.clone());
            return Ok(Some(storage::Part { name, range }));
        }
        let Ok(path) = path.parse::<NetbootPath>() else {
            return Ok(None);
        };
        let node = match path {
            NetbootPath::Entry => return Ok(None),
            NetbootPath::Card(mac) => match store.node_by_macs(&[mac]).await.map_err(unknown)? {
                Some(record) => record.node.id,
                None => return Ok(None),
            },
            NetbootPath::Node(node, _) => node,
        };
        let records = store.artefacts(&node).await.map_err(unknown)?;
        let served =
            |record: &ArtefactRecord| record.kind == ArtefactKind::Netboot && record.backend == shelf::CONDUCTOR;
        let Some(record) = records.into_iter().find(served) else {
            return Ok(None);
        };
        let pack = pack_of(&record).map_err(|reason| storage::RecallError { reason })?;
        Ok(pack.range(&path).map(|range| storage::Part {
            name: record.name,
            range,
        }))
    }
}

/// Whether an artefact of this backend is served by the conductors.
pub(super) fn is_served_here(backend: &str) -> bool {
    backend == shelf::CONDUCTOR
}

/// Where the site puts boot files.
pub(super) fn shelf(netboot: &Netboot, embedded: &Embedded, images_url: &str, loaders: Loaders) -> Shelf {
    match &netboot.url {
        Some(url) => Shelf::folder(&netboot.root, url.as_str(), embedded, loaders),
        None => Shelf::conductor(embedded, images_url),
    }
}
