//! Node records, conductors' leases, the journal of effects, artefact records, plugin values and events.
//!
//! Every write names the version it saw; a conductor's write also names its term, and a stale one is refused. No transaction
//! spans a BMC or storage call. Secrets (BMC passwords, agent tokens, recipes) are sealed before they reach the disk.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use model::{
    ArtefactKind, ArtefactName, ConductorName, MacAddress, Node, NodeId, NodeName, Port, ProvisionState, Secret, Tenure,
};

mod boot;
mod document;
mod error;
mod seal;
pub mod sqlite;

pub use error::StoreError;
pub use seal::Sealer;
pub use sqlite::SqliteStore;

/// A node as it stands in the store.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The node.
    pub node: Node,
    /// Rises with each write; a write that names another one is refused.
    pub version: u64,
    /// Who works on it; `None` = nobody yet, or given back.
    pub owner: Option<ConductorName>,
    /// Rises each time that the node changes hands.
    pub term: u64,
    /// When the record was made.
    pub created_at: SystemTime,
    /// When it was written last.
    pub updated_at: SystemTime,
}

/// How a user names a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeRef {
    /// By UUID.
    Id(NodeId),
    /// By logical name.
    Name(NodeName),
}

/// Which nodes to list. Empty = all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter {
    /// In this provision state.
    pub provision_state: Option<ProvisionState>,
    /// Owned by this conductor.
    pub owner: Option<ConductorName>,
    /// In maintenance or not.
    pub maintenance: Option<bool>,
    /// Only nodes whose UUID sorts after this one (for paging; lists are in the order of UUIDs).
    pub after: Option<NodeId>,
    /// At most so many.
    pub limit: Option<u32>,
}

/// Who writes a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Writer {
    /// A user through the API: the version must match.
    User,
    /// A conductor: version, owner and term must match, and its lease must be alive.
    Conductor(Tenure),
}

/// One running `farrier serve`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conductor {
    /// Its name.
    pub name: ConductorName,
    /// Its conductor group.
    pub group: String,
    /// Where its API listens, for people.
    pub api_url: String,
    /// Where BMCs reach its embedded backend.
    pub images_url: String,
    /// Site-wide list of agent URLs; conductors that differ in it may not join.
    pub agent_urls: Vec<String>,
    /// Its lease is alive.
    pub alive: bool,
    /// Wall-clock time of its last keep-alive, for people.
    pub seen_at: SystemTime,
}

/// An artefact that Farrier published.
#[derive(Clone, PartialEq, Debug)]
pub struct ArtefactRecord {
    /// Whose it is.
    pub node: NodeId,
    /// What it is; a node has at most one of a kind.
    pub kind: ArtefactKind,
    /// Backend's id in the site file.
    pub backend: String,
    /// Last part of its URL.
    pub name: ArtefactName,
    /// Whole URL as published.
    pub url: Secret,
    /// Identity of its bytes.
    pub digest: model::Digest,
    /// Size in bytes.
    pub size: u64,
    /// How to make the same bytes again: an `image::Recipe` as JSON text, sealed at rest.
    pub recipe: Secret,
    /// Which conductor published it last.
    pub published_by: ConductorName,
    /// When.
    pub published_at: SystemTime,
    /// When its URL stops working, if it does.
    pub expires: Option<SystemTime>,
}

/// An effect on the outside world, journalled before it happens.
#[derive(Clone, PartialEq, Debug)]
pub struct Effect {
    /// Identifier in the journal.
    pub id: u64,
    /// On which node.
    pub node: NodeId,
    /// By whom.
    pub tenure: Tenure,
    /// Which host function or conductor step ("bmc.insert", "power.on", "storage.publish").
    pub action: String,
    /// What exactly, without secrets.
    pub detail: String,
    /// When it was about to happen.
    pub began_at: SystemTime,
    /// How it ended; `None` = unknown: it may have happened.
    pub outcome: Option<Outcome>,
}

/// How an effect ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It happened.
    Done,
    /// It failed, with the error's text.
    Failed(String),
}

/// Something that happened to a node, for people (`farrier node history`, server-sent events).
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Rises by one an event.
    pub seq: u64,
    /// When.
    pub at: SystemTime,
    /// Which node, if one.
    pub node: Option<NodeId>,
    /// By which conductor.
    pub conductor: Option<ConductorName>,
    /// Machine-readable kind ("provision-state", "take-over", "artefact-published", "plugin-failed", …).
    pub kind: String,
    /// For people; holds no secret.
    pub message: String,
}

/// A value that a plugin keeps for a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PluginValue {
    /// Rises with each write, from 1.
    pub version: u64,
    /// The value.
    pub value: String,
}

/// The node that a conductor has just taken.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// The record, with the new owner and term.
    pub record: Record,
    /// Who had it before, if it died (not if the node was new or given back). One's own name after a restart.
    pub predecessor: Option<ConductorName>,
    /// How much of the predecessor's lease is left: zero, unless it was replaced by its own restart before the lease ran out.
    /// A mutating BMC request has to wait this long, and the longest request deadline more.
    pub predecessor_lease_left: Duration,
}

/// Where all of it is kept. SQLite for one machine ([`sqlite`]); every method is safe to call from any task.
#[async_trait]
pub trait Store: Send + Sync {
    /// Adds a node; its id, its name and its ports' addresses must be free.
    async fn create_node(&self, node: &Node, ports: &[Port]) -> Result<Record, StoreError>;
    /// One node.
    async fn node(&self, node: &NodeRef) -> Result<Option<Record>, StoreError>;
    /// Nodes in the order of their UUIDs.
    async fn nodes(&self, filter: &Filter) -> Result<Vec<Record>, StoreError>;
    /// Writes `record.node` if the store still holds `record.version` (and the writer's term); returns the new record.
    async fn update_node(&self, record: &Record, writer: &Writer) -> Result<Record, StoreError>;
    /// Nodes that were written or changed hands after this change number, in the order of their changes, each with the
    /// number of its last change; at most `limit`. Removed nodes are not among them.
    async fn nodes_changed_after(&self, change: u64, limit: u32) -> Result<Vec<(u64, Record)>, StoreError>;
    /// Removes a node with its ports, values, journal and artefact records, if the version still matches.
    async fn delete_node(&self, record: &Record) -> Result<(), StoreError>;

    /// Adds a port.
    async fn create_port(&self, port: &Port) -> Result<(), StoreError>;
    /// Ports of one node, or of all.
    async fn ports(&self, node: Option<&NodeId>) -> Result<Vec<Port>, StoreError>;
    /// Removes a port; absent is an error.
    async fn delete_port(&self, id: &str) -> Result<(), StoreError>;
    /// The node that owns one of these addresses.
    async fn node_by_macs(&self, macs: &[MacAddress]) -> Result<Option<Record>, StoreError>;

    /// Joins as a conductor, with a lease of this length. Refused while another process with that name is alive, and
    /// where the site's agent URLs differ.
    async fn join(&self, me: &Conductor, lease: Duration) -> Result<(), StoreError>;
    /// Prolongs the lease from the moment that the call began; returns what is left of it. [`StoreError::LeaseLost`] = join
    /// again; after any other error the lease that was there runs on.
    async fn keep_alive(&self, me: &ConductorName) -> Result<Duration, StoreError>;
    /// Gives all nodes back and ends the lease.
    async fn leave(&self, me: &ConductorName) -> Result<(), StoreError>;
    /// All that ever joined, dead ones included.
    async fn conductors(&self) -> Result<Vec<Conductor>, StoreError>;
    /// Takes a node that nobody holds, or whose holder's lease ran out: owner = me, term + 1. `None` = somebody alive holds
    /// it. Asked again by the one who holds it already: the same term, no predecessor.
    async fn claim(&self, node: &NodeId, me: &ConductorName) -> Result<Option<Claim>, StoreError>;
    /// Gives a node back, if it is still mine.
    async fn release(&self, node: &NodeId, tenure: &Tenure) -> Result<(), StoreError>;

    /// Journals an effect that is about to happen; returns its id. Refused if the term is stale or the lease lost.
    async fn begin_effect(&self, node: &NodeId, tenure: &Tenure, action: &str, detail: &str)
    -> Result<u64, StoreError>;
    /// Journals how it ended, for good: a later answer changes nothing.
    async fn end_effect(&self, id: u64, outcome: &Outcome) -> Result<(), StoreError>;
    /// Effects on a node, newest first, at most `limit`.
    async fn effects(&self, node: &NodeId, limit: u32) -> Result<Vec<Effect>, StoreError>;

    /// Records what is published, in place of an older one of that kind. Term and lease are checked.
    async fn put_artefact(&self, artefact: &ArtefactRecord, tenure: &Tenure) -> Result<(), StoreError>;
    /// Artefacts of one node.
    async fn artefacts(&self, node: &NodeId) -> Result<Vec<ArtefactRecord>, StoreError>;
    /// The artefact of that name, whoever owns its node (so that any conductor can serve it).
    async fn artefact_by_name(&self, name: &ArtefactName) -> Result<Option<ArtefactRecord>, StoreError>;
    /// Forgets an artefact; absent is a success.
    async fn remove_artefact(&self, node: &NodeId, kind: ArtefactKind, tenure: &Tenure) -> Result<(), StoreError>;

    /// A plugin's value.
    async fn plugin_value(&self, node: &NodeId, plugin: &str, key: &str) -> Result<Option<PluginValue>, StoreError>;
    /// Compare and set: `expect` is the version seen, `None` = must not exist. Returns the new version.
    async fn put_plugin_value(
        &self,
        node: &NodeId,
        plugin: &str,
        key: &str,
        value: &str,
        expect: Option<u64>,
    ) -> Result<u64, StoreError>;
    /// Removes a plugin's value; absent is a success.
    async fn delete_plugin_value(&self, node: &NodeId, plugin: &str, key: &str) -> Result<(), StoreError>;

    /// Tells people what happened; returns its number.
    async fn append_event(
        &self,
        node: Option<&NodeId>,
        conductor: Option<&ConductorName>,
        kind: &str,
        message: &str,
    ) -> Result<u64, StoreError>;
    /// Events with a number above `after`, in order, at most `limit`; of one node or of all. A store keeps the newest million.
    async fn events(&self, node: Option<&NodeId>, after: u64, limit: u32) -> Result<Vec<Event>, StoreError>;
    /// A number that rises with each write to a node by any process (also when it changes hands or is removed), cheap to ask
    /// for: how a conductor notices wishes that another process recorded.
    async fn change_number(&self) -> Result<u64, StoreError>;
    /// Counts by provision state, for pages and metrics.
    async fn counts(&self) -> Result<BTreeMap<&'static str, u64>, StoreError>;

    /// Ends what is under way and lets go of everything that is open; nothing can be read or written afterwards.
    async fn close(&self);
}
