//! Farrier's own shapes, under `/farrier/v1`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// An artefact that Farrier published, and what was read of it. Its URL is a secret and not in here.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Artefact {
    /// UUID of the node.
    pub node: String,
    /// `floppy`, `boot-iso`, `config-drive`.
    pub kind: String,
    /// Which backend holds it.
    pub backend: String,
    /// Identity of its bytes.
    pub digest: String,
    /// Size in bytes.
    pub size: u64,
    /// Which conductor published it last.
    pub published_by: String,
    /// When.
    pub published_at: String,
    /// When its URL stops working, if it does.
    pub expires: Option<String>,
    /// Bytes that were read of it through this conductor; null where this conductor has not served it.
    pub bytes_read: Option<u64>,
    /// How much of it one reader has read at least once through this conductor, 0–100.
    pub read_percent: Option<u8>,
    /// Requests that were answered with bytes.
    pub reads: Option<u64>,
    /// When it was read last.
    pub last_read_at: Option<String>,
    /// By which address.
    pub last_read_by: Option<String>,
}

/// `GET /farrier/v1/artefacts`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Artefacts {
    /// In the order of nodes.
    pub artefacts: Vec<Artefact>,
    /// UUID to ask for the next page with, as `?marker=`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `GET /farrier/v1/nodes/{node}/progress`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Progress {
    /// UUID.
    pub node: String,
    /// Where it stands.
    pub provision_state: String,
    /// Where it goes.
    pub target_provision_state: Option<String>,
    /// What was asked for and not begun yet ("provision active", "power on", "boot-into-iso").
    pub wish: Option<String>,
    /// The step under way.
    pub step: Option<String>,
    /// How far it is, 0–100.
    pub percent: Option<u8>,
    /// Bytes of all its artefacts that were read through this conductor.
    pub bytes_read: u64,
    /// Its artefacts.
    pub artefacts: Vec<Artefact>,
    /// When the agent was heard last.
    pub agent_seen_at: Option<String>,
    /// When waiting ends in failure.
    pub deadline: Option<String>,
    /// What went wrong last.
    pub last_error: Option<String>,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Rises by one an event.
    pub seq: u64,
    /// When.
    pub at: String,
    /// UUID of the node, if one.
    pub node: Option<String>,
    /// By which conductor.
    pub conductor: Option<String>,
    /// Machine-readable kind.
    pub kind: String,
    /// For people.
    pub message: String,
}

/// `GET /farrier/v1/events` where no stream is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Events {
    /// In order.
    pub events: Vec<Event>,
}

/// An effect on the outside world.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Effect {
    /// Number in the journal.
    pub id: u64,
    /// By which conductor.
    pub conductor: String,
    /// In which of its terms.
    pub term: u64,
    /// Which action.
    pub action: String,
    /// What exactly, without secrets.
    pub detail: String,
    /// When it was about to happen.
    pub began_at: String,
    /// `done`, `failed` or `unknown` (it may have happened).
    pub outcome: String,
    /// Why it failed.
    pub error: Option<String>,
}

/// `GET /farrier/v1/nodes/{node}/effects`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Effects {
    /// Newest first.
    pub effects: Vec<Effect>,
}

/// A conductor.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conductor {
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Its lease holds.
    pub alive: bool,
    /// Where its API listens.
    pub api_url: String,
    /// Where BMCs reach its images.
    pub images_url: String,
    /// The site's agent URLs as it has them.
    pub agent_urls: Vec<String>,
    /// When it was heard last.
    pub seen_at: String,
    /// Nodes that it has.
    pub nodes: u64,
}

/// `GET /farrier/v1/conductors`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conductors {
    /// All that ever joined.
    pub conductors: Vec<Conductor>,
}

/// A plugin as this conductor has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Plugin {
    /// Its id.
    pub id: String,
    /// What it is used for.
    pub role: String,
    /// Digest of its component.
    pub digest: String,
    /// Where it came from: `site`, or `built-in`.
    pub origin: String,
    /// Calls so far.
    pub calls: u64,
    /// Calls that ended in a trap, a limit or an unusable answer.
    pub failures: u64,
    /// Names its entry in the site file: the id, with `#2`, `#3` … where the role has several of that id.
    pub entry: String,
    /// Of its manifest.
    pub version: Option<String>,
    /// Its answers are only compared.
    pub shadow: bool,
    /// For which nodes: what their facts must be.
    pub matches: BTreeMap<String, String>,
    /// Digest of the version to which it goes back when this one fails.
    pub last_good: Option<String>,
    /// Digests of versions that are not used again by themselves, each with the reason.
    pub quarantined: BTreeMap<String, String>,
    /// Microseconds inside the guest, all calls together.
    pub guest_us: u64,
    /// Microseconds outside it: in host functions and waiting.
    pub host_us: u64,
    /// Most memory that one call had, in bytes.
    pub memory_bytes: u64,
    /// For a shadow: calls that it was compared with, by what came of it.
    pub compared: BTreeMap<String, u64>,
}

/// `PUT /farrier/v1/plugins/{entry}`: another version is to decide.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginUse {
    /// The component, in base64.
    pub component: String,
    /// The role, where several have an entry of this name.
    pub role: Option<String>,
    /// Take a version in quarantine back.
    pub again: bool,
}

/// `POST /farrier/v1/plugins/{entry}/rollback`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginRollback {
    /// The role, where several have an entry of this name.
    pub role: Option<String>,
    /// Why, for colleagues.
    pub reason: Option<String>,
}

/// Another version of a plugin decides.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginChange {
    /// When.
    pub at: String,
    /// What it is used for.
    pub role: String,
    /// Its entry in the site file.
    pub entry: String,
    /// Digest of what decided so far.
    pub from: String,
    /// Of its manifest.
    pub from_version: Option<String>,
    /// Digest of what decides now.
    pub to: String,
    /// Of its manifest.
    pub to_version: Option<String>,
    /// In words.
    pub why: String,
    /// Nobody asked for it: the version before has failed.
    pub automatic: bool,
    /// The new one asks for it, the old one did not.
    pub more: Vec<String>,
    /// The old one asked for it, the new one does not.
    pub less: Vec<String>,
    /// The new one asks for it, and the site does not grant it.
    pub denied: Vec<String>,
}

/// `PUT /farrier/v1/plugins/{entry}`: `change` is empty if this version decided already.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginSwap {
    /// What changed.
    pub change: Option<PluginChange>,
}

/// `GET /farrier/v1/plugins/changes`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginChanges {
    /// Newest first.
    pub changes: Vec<PluginChange>,
}

/// A shadow's run beside one call.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShadowRun {
    /// When the call began.
    pub at: String,
    /// Number of the call.
    pub call: u64,
    /// For which node.
    pub node: String,
    /// Which function.
    pub function: String,
    /// The plugin that decided.
    pub active: String,
    /// The shadow.
    pub shadow: String,
    /// `same`, `differs`, `diverged` or `failed`.
    pub verdict: String,
    /// What differs (`-` only the one that decided did it, `+` only the shadow), or why it ended.
    pub detail: Vec<String>,
}

/// `GET /farrier/v1/plugins/shadows`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShadowRuns {
    /// Newest first; those that did the same are only counted.
    pub runs: Vec<ShadowRun>,
}

/// `GET /farrier/v1/nodes/{node}/plugins`: by role, why a plugin decides for the node and what it may do.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodePlugins {
    /// One for each role.
    pub roles: Vec<NodeRole>,
}

/// What holds for a node in one role.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRole {
    /// Which role.
    pub role: String,
    /// Entries in the order in which they are tried; the first that matches decides.
    pub rules: Vec<PluginRule>,
    /// The entry that decides, if any does.
    pub entry: Option<String>,
    /// Id of the plugin.
    pub plugin: Option<String>,
    /// Of its manifest.
    pub version: Option<String>,
    /// Of its bytes.
    pub digest: Option<String>,
    /// The node keeps this version until it is active or back.
    pub pinned: bool,
    /// Functions, each with `allowed`, `not granted` or `not requested`.
    pub functions: BTreeMap<String, String>,
    /// What the site grants, in the words of `grant`.
    pub granted: serde_json::Value,
    /// The site says nothing of grants: this is the role's default.
    pub granted_by_default: bool,
    /// What the manifest asks for, in the same words.
    pub requested: Option<serde_json::Value>,
    /// The node runs an instance: effects on it are denied unless an operator asked for them.
    pub active_node: bool,
}

/// One entry and its rule.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginRule {
    /// The entry.
    pub entry: String,
    /// What a node's facts must be; empty = every node.
    pub matches: BTreeMap<String, String>,
    /// What of that the node does not meet, in words; empty = it matches.
    pub unmet: Vec<String>,
}

/// One call of a plugin.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginCall {
    /// When it began.
    pub at: String,
    /// Which plugin.
    pub plugin: String,
    /// Which of its functions.
    pub function: String,
    /// For which node.
    pub node: Option<String>,
    /// `ok`, `error`, `trapped`, `timeout`, …
    pub outcome: String,
    /// In words, where it did not end well.
    pub message: Option<String>,
    /// From call to answer.
    pub wall_us: u64,
    /// Time inside the guest.
    pub guest_us: u64,
    /// Calls of the host.
    pub host_calls: u64,
    /// Most memory that it had.
    pub memory_bytes: u64,
}

/// `GET /farrier/v1/plugins`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Plugins {
    /// In the order in which they are tried.
    pub plugins: Vec<Plugin>,
}

/// `GET /farrier/v1/plugins/calls`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PluginCalls {
    /// Newest first.
    pub calls: Vec<PluginCall>,
}
