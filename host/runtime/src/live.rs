//! The real world: BMCs, backends, records and images, over traits that whoever wires the host implements.

mod images;
mod publish;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bmc::Bmc;
use image::{BootFile, Content, Layout, SourceFile, SourceSet};
use model::{ArtefactKind, ArtefactName, Digest, Node, NodeId, Secret, Sha256, Tenure};
use storage::{Backend, Reader};

pub use publish::{journalled_name_hash, name_hash};

use crate::DriverError;
use crate::calls::{IsoSource, Versioned};
use crate::world::{CallContext, Session, World};

/// Journals effects before and after they happen. Refuses to begin one under a stale term or a lost lease.
#[async_trait]
pub trait Journal: Send + Sync {
    /// It is about to happen; returns its number.
    async fn begin(&self, node: &NodeId, tenure: &Tenure, action: &str, detail: &str) -> Result<u64, DriverError>;
    /// It happened, or failed with this text. What cannot be written is logged by the implementation.
    async fn end(&self, effect: u64, outcome: Result<(), String>);
}

/// Values that plugins keep for nodes.
#[async_trait]
pub trait State: Send + Sync {
    /// A value.
    async fn get(&self, node: &NodeId, plugin: &str, key: &str) -> Result<Option<Versioned>, DriverError>;
    /// Compare and set: `expect` is the version seen, `None` = must not exist; [`DriverError::Conflict`] if it differs.
    async fn put(
        &self,
        node: &NodeId,
        plugin: &str,
        key: &str,
        value: &str,
        expect: Option<u64>,
    ) -> Result<u64, DriverError>;
    /// Absent is a success.
    async fn delete(&self, node: &NodeId, plugin: &str, key: &str) -> Result<(), DriverError>;
}

/// BMCs of nodes, logged in and fenced by the caller's lease.
#[async_trait]
pub trait Servers: Send + Sync {
    /// The BMC of this node.
    async fn bmc(&self, node: &Node, tenure: &Tenure) -> Result<Arc<dyn Bmc>, DriverError>;
}

/// A published artefact, as it goes on record.
#[derive(Clone, Debug)]
pub struct Artefact {
    /// Whose it is.
    pub node: NodeId,
    /// What it is; a node has at most one of a kind.
    pub kind: ArtefactKind,
    /// Backend's id.
    pub backend: String,
    /// Last part of its URL.
    pub name: ArtefactName,
    /// Whole URL.
    pub url: Secret,
    /// Identity of its bytes.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
    /// How to make the same bytes again: an `image::Recipe` as JSON text.
    pub recipe: Secret,
    /// When its URL stops working.
    pub expires: Option<SystemTime>,
}

/// Records of what is published.
#[async_trait]
pub trait Artefacts: Send + Sync {
    /// In place of an older one of that kind.
    async fn record(&self, artefact: &Artefact, tenure: &Tenure) -> Result<(), DriverError>;
    /// What is on record.
    async fn find(&self, node: &NodeId, kind: ArtefactKind) -> Result<Option<Artefact>, DriverError>;
    /// Absent is a success.
    async fn remove(&self, node: &NodeId, kind: ArtefactKind, tenure: &Tenure) -> Result<(), DriverError>;
}

/// What a boot ISO is made of.
#[derive(Clone, Debug)]
pub struct BootParts {
    /// Kernel.
    pub kernel: SourceFile,
    /// Ramdisk.
    pub ramdisk: SourceFile,
    /// `isolinux.bin`, where BIOS is to boot it.
    pub isolinux: Option<BootFile>,
    /// `ldlinux.c32` of the same release.
    pub ldlinux: Option<Content>,
    /// Image of an EFI system partition, where UEFI is to boot it.
    pub esp: Option<Content>,
    /// Where the GRUB in it reads its configuration.
    pub grub_config_path: String,
}

/// What a plugin's ISO source stands for.
#[derive(Clone, Debug)]
pub enum BootMaterial {
    /// Parts to make an ISO of.
    Parts(Box<BootParts>),
    /// A ready ISO.
    Ready(Layout),
}

/// [`BootMaterial`] with where its sources are read and fetched again.
#[derive(Clone)]
pub struct Material {
    /// What it is made of.
    pub boot: BootMaterial,
    /// For the recipe: where each source can be fetched again.
    pub references: BTreeMap<Sha256, String>,
    /// Where its sources are opened.
    pub sources: Arc<dyn SourceSet>,
}

/// Resolves what a node boots: fetched, verified, cached and pinned before it is returned.
#[async_trait]
pub trait BootSources: Send + Sync {
    /// For this source.
    async fn resolve(&self, node: &Node, source: &IsoSource) -> Result<Material, DriverError>;
}

/// What is known of who fetches a node's artefacts.
#[async_trait]
pub trait Readers: Send + Sync {
    /// Of this node's BMC.
    async fn reader(&self, node: &Node) -> Reader;
}

/// A backend of the site.
#[derive(Clone)]
pub struct SiteBackend {
    /// Its id in the site file.
    pub id: String,
    /// "embedded", "web-root", …
    pub kind: String,
    /// What it does.
    pub backend: Arc<dyn Backend>,
    /// Longest lifetime, if there is one.
    pub max_lifetime: Option<Duration>,
    /// What a backend-selection plugin may want to know ("url-scheme", "delivery", …).
    pub traits: Vec<(String, String)>,
    /// Whether new artefacts of this node may go there.
    pub takes: Takes,
}

/// See [`SiteBackend::takes`].
pub type Takes = Arc<dyn Fn(&Node) -> bool + Send + Sync>;

/// The real world.
pub struct LiveWorld {
    /// Where effects are journalled.
    pub journal: Arc<dyn Journal>,
    /// Where plugins keep values.
    pub state: Arc<dyn State>,
    /// Where BMCs are reached.
    pub servers: Arc<dyn Servers>,
    /// Where artefacts are on record.
    pub artefacts: Arc<dyn Artefacts>,
    /// Where kernels, ramdisks and boot loaders come from.
    pub boot_sources: Arc<dyn BootSources>,
    /// Who fetches what is published.
    pub readers: Arc<dyn Readers>,
    /// Backends in the order of the site file.
    pub backends: Vec<SiteBackend>,
}

impl LiveWorld {
    fn backend(&self, id: &str) -> Result<&SiteBackend, DriverError> {
        self.backends.iter().find(|backend| backend.id == id).ok_or_else(|| {
            DriverError::NotFound(format!(
                "backend `{id}` is not in farrier.toml any more: put it back until nothing is published there"
            ))
        })
    }
}

/// The real world behind an `Arc`, so that its sessions can outlive a call.
#[derive(Clone)]
pub struct Live(pub Arc<LiveWorld>);

impl World for Live {
    fn open(&self, context: &Arc<CallContext>, plugin: &str) -> Arc<dyn Session> {
        Arc::new(session::LiveSession::new(
            Arc::clone(&self.0),
            Arc::clone(context),
            plugin,
        ))
    }
}
