//! Where host calls go once the broker has let them through: the real world (`live`), or a rehearsal's.
//!
//! A [`World`] opens one [`Session`] for each call of a plugin; the session keeps what that call's handles mean. It carries
//! out calls and knows nothing of grants, budgets or plugins.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use model::{ArtefactKind, Digest, Node, Secret, Tenure};

use crate::calls::{HostCall, ImageHandle, Level, LocationHandle, LocationInfo, Reply};
use crate::{CallError, DriverError};

/// On whose behalf a plugin is called.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The node as it was when the call began.
    pub node: Node,
    /// The caller's hold on it.
    pub tenure: Tenure,
    /// An operator's request started the call: then an active node may be touched.
    pub by_operator: bool,
}

/// Opens sessions.
pub trait World: Send + Sync {
    /// A session for one call of this plugin.
    fn open(&self, context: &Arc<CallContext>, plugin: &str) -> Arc<dyn Session>;
}

/// Carries out the host calls of one call of a plugin.
///
/// The broker never asks for what it can answer itself (settings, facts, calls of other plugins).
#[async_trait]
pub trait Session: Send + Sync {
    /// The time.
    fn now(&self) -> SystemTime;

    /// Lets this much time pass.
    async fn sleep(&self, time: Duration);

    /// Does it. Dropping the future may leave it half done only for calls that change nothing.
    async fn perform(&self, call: &HostCall) -> Result<Reply, DriverError>;

    /// Whether an image is published already, and if not, where it could go.
    async fn place(&self, image: ImageHandle, minimum_lifetime_s: u32) -> Result<Placement, DriverError>;

    /// Journals what is about to happen.
    async fn begin(&self, action: &str, detail: &str) -> Result<u64, DriverError>;

    /// Journals how it ended.
    async fn end(&self, effect: u64, outcome: Result<(), String>);

    /// The location behind a handle, to be taken into another session.
    fn lend(&self, location: LocationHandle) -> Option<Location>;

    /// Takes a location of another session (or of the caller) in.
    fn accept(&self, location: Location) -> (LocationHandle, LocationInfo);

    /// The plugin has dropped an image.
    fn drop_image(&self, image: ImageHandle);

    /// The plugin has dropped a location.
    fn drop_location(&self, location: LocationHandle);

    /// The plugin has logged something; the host's own log has it already.
    fn log(&self, _level: Level, _message: &str, _fields: &[(String, String)]) {}

    /// Whether [`entered`](Self::entered) and [`left`](Self::left) are to be called.
    fn records(&self) -> bool {
        false
    }

    /// The host calls this function ("vmedia.attach") with these arguments, both as scenario files write them. Not told of
    /// calls that another plugin led to.
    fn entered(&self, _function: &str, _arguments: serde_json::Value) {}

    /// What it answered, as a scenario file's `expect.result` has it.
    fn left(&self, _result: Result<serde_json::Value, &CallError>) {}
}

/// Something that a BMC can fetch.
#[derive(Clone, Debug)]
pub struct Location {
    /// Backend's id; `None` = a URL that a user gave.
    pub backend: Option<String>,
    /// What of this node's it is, if it is ours.
    pub kind: Option<ArtefactKind>,
    /// The whole URL.
    pub url: Secret,
    /// Identity of its content, if it is ours.
    pub digest: Option<Digest>,
    /// When it stops working.
    pub expires: Option<SystemTime>,
}

/// What [`Session::place`] found.
#[derive(Clone, Debug)]
pub enum Placement {
    /// It is published, and lives long enough.
    Published(LocationHandle, LocationInfo),
    /// It was published here under a name that is on record, and is gone or would end too soon: publish it there again.
    Again {
        /// Backend's id.
        backend: String,
        /// For the journal: what is about to exist, without its secret name.
        journal_as: String,
    },
    /// It is new.
    Choose {
        /// What the backend-selection plugin is asked.
        request: Request,
        /// Every backend of the site.
        candidates: Vec<Candidate>,
        /// Other bytes of this kind are published for the node and will be withdrawn.
        replaces: bool,
        /// For the journal: what is about to exist, without its secret name.
        journal_as: String,
    },
}

/// What is to be published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// What it is for.
    pub kind: ArtefactKind,
    /// Bytes.
    pub size: u64,
    /// How long it must live; `None` = until it is withdrawn.
    pub lifetime_s: Option<u32>,
}

/// A backend that could take it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// Its id in the site file.
    pub id: String,
    /// "embedded", "web-root", …
    pub kind: String,
    /// Publishing would work now.
    pub healthy: bool,
    /// Room left, if it knows.
    pub free_bytes: Option<u64>,
    /// Longest lifetime, if there is one.
    pub max_lifetime_s: Option<u32>,
    /// "url-scheme", "delivery", …
    pub traits: Vec<(String, String)>,
}

/// What a backend-selection plugin chose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Backend's id.
    pub backend: String,
    /// Why, for people.
    pub reason: String,
}
