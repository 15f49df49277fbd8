//! What handlers work with. The binary fills it in.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use conductor::config_drive::Parts;
use model::{BootInterface, Node, NodeId, Secret};
use nodes::{NodeRef, Record, Store};
use storage::Embedded;

use crate::agent::AgentPolicy;
use crate::auth::Auth;
use crate::error::{ApiError, ApiResult};

/// Tells the conductor of this process that a node has something to do. Conductors elsewhere see it in the store.
pub type Wake = Arc<dyn Fn(&NodeId) + Send + Sync>;

/// See [`ApiState::check_boot`]. It looks at no more than the record and the site's files.
pub type CheckBoot = Arc<dyn Fn(&Node) -> Result<(), String> + Send + Sync>;

/// See [`ApiState::pack_config_drive`]. The result is as agents take it.
pub type PackConfigDrive = Arc<dyn Fn(&Node, &Parts) -> Result<Secret, String> + Send + Sync>;

/// Plugins and their calls, as the binary's plugin runtime knows them.
#[async_trait]
pub trait Plugins: Send + Sync {
    /// What is loaded, in the order in which it is tried.
    async fn plugins(&self) -> Vec<wire::farrier::Plugin>;
    /// The last calls, newest first, at most `limit`.
    async fn calls(&self, limit: usize) -> Vec<wire::farrier::PluginCall>;
    /// The last changes of versions, newest first.
    async fn changes(&self) -> Vec<wire::farrier::PluginChange> {
        Vec::new()
    }
    /// The last runs of shadows that would have done otherwise, newest first.
    async fn shadows(&self) -> Vec<wire::farrier::ShadowRun> {
        Vec::new()
    }
    /// Why a plugin decides for a node, by role.
    async fn explain(&self, _node: &Node) -> Vec<wire::farrier::NodeRole> {
        Vec::new()
    }
    /// Puts another version in place; `None` if it was there already. `component` is what the request's base64 text holds.
    async fn swap(
        &self,
        _entry: &str,
        _role: Option<&str>,
        _component: Vec<u8>,
        _again: bool,
    ) -> Result<Option<wire::farrier::PluginChange>, PluginRefusal> {
        Err(PluginRefusal::NotFound("no plugin can be swapped here".to_owned()))
    }
    /// Back to the last good version.
    async fn roll_back(
        &self,
        _entry: &str,
        _role: Option<&str>,
        _why: &str,
    ) -> Result<wire::farrier::PluginChange, PluginRefusal> {
        Err(PluginRefusal::NotFound("no plugin can be rolled back here".to_owned()))
    }
    /// The methods that the node's vendor plugin adds.
    async fn vendor_methods(&self, _record: &Record) -> Result<Vec<VendorMethod>, PluginRefusal> {
        Ok(Vec::new())
    }
    /// Calls one of them; `arguments` is a JSON text.
    async fn vendor_call(
        &self,
        _record: &Record,
        _method: &str,
        _arguments: &str,
    ) -> Result<serde_json::Value, PluginRefusal> {
        Err(PluginRefusal::NotFound("the node has no vendor plugin".to_owned()))
    }
}

/// Why a request about plugins is refused; the text is for the client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PluginRefusal {
    /// There is no such thing.
    NotFound(String),
    /// The request makes no sense, or what it brings is refused.
    Invalid(String),
    /// Not now, or not this version.
    Conflict(String),
    /// Try again.
    Busy(String),
}

/// A method that a vendor plugin adds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VendorMethod {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// HTTP methods by which it may be called, in capitals.
    pub http_methods: Vec<String>,
    /// It may take long.
    pub asynchronous: bool,
    /// JSON Schema of its arguments, as JSON text.
    pub arguments: String,
}

/// What a node need not say, because the site says it for all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Site {
    /// Deploy kernel and ramdisk are set for the whole site.
    pub has_deploy_ramdisk: bool,
    /// How nodes may boot; empty = in every way that there is.
    pub boot_interfaces: Vec<BootInterface>,
    /// For nodes that name none.
    pub default_boot_interface: BootInterface,
    /// How clients reach this API, for links (`https://farrier.example:6385`); else links follow the request's `Host`.
    pub public_url: Option<String>,
    /// Clients reach it by TLS.
    pub tls: bool,
}

impl Site {
    /// How nodes may boot.
    pub(crate) fn boot_interfaces(&self) -> Vec<BootInterface> {
        match self.boot_interfaces.is_empty() {
            true => BootInterface::ALL.into(),
            false => self.boot_interfaces.clone(),
        }
    }
}

/// Everything that the routers need.
#[derive(Clone)]
pub struct ApiState {
    /// Node records, artefacts, events.
    pub store: Arc<dyn Store>,
    /// Called after a wish was recorded.
    pub wake: Wake,
    /// The embedded backend of this process, for counts of what was read.
    pub embedded: Option<Embedded>,
    /// The plugin runtime of this process.
    pub plugins: Option<Arc<dyn Plugins>>,
    /// Who may use the API.
    pub auth: Auth,
    /// What agents may say.
    pub agent: AgentPolicy,
    /// What the site sets for all nodes.
    pub site: Site,
    /// Whether the site can make what a node's firmware boots, or why not.
    pub check_boot: CheckBoot,
    /// Makes a config drive of what stands in it, or says why that cannot be.
    pub pack_config_drive: PackConfigDrive,
    /// This process takes part in the work (it joined, and its lease holds).
    pub ready: Arc<AtomicBool>,
}

impl ApiState {
    /// The node that a path names, by UUID or name.
    pub(crate) async fn node(&self, text: &str) -> ApiResult<Record> {
        let missing = || ApiError::NotFound(format!("there is no node `{}`", clip(text)));
        let node = match text.parse() {
            Ok(id) => NodeRef::Id(id),
            Err(_) => NodeRef::Name(text.parse().map_err(|_| missing())?),
        };
        self.store.node(&node).await?.ok_or_else(missing)
    }

    /// Changes a record as `change` says and writes it, starting over when somebody else wrote meanwhile. `change` sees the
    /// record as it stands and may refuse.
    pub(crate) async fn update<F>(&self, text: &str, mut change: F) -> ApiResult<Record>
    where
        F: FnMut(&mut Record) -> ApiResult<()> + Send,
    {
        let mut tries = 0;
        loop {
            let mut record = self.node(text).await?;
            change(&mut record)?;
            match self.store.update_node(&record, &nodes::Writer::User).await {
                Ok(record) => return Ok(record),
                Err(nodes::StoreError::VersionConflict { .. }) if tries < MAX_TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// How often a write is tried against others' writes.
const MAX_TRIES: u32 = 8;

/// A text of a client's, cut short for an error.
pub(crate) fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}
