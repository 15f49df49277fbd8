//! One server as Farrier keeps it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use serde_json::Value;

use crate::{
    BootMode, MacAddress, NodeId, NodeName, PowerAction, PowerState, ProvisionState, Secret, UnknownState, Verb,
};

/// Free-form fields that users own (`driver_info`, `instance_info`, `properties`, `extra`).
/// Secret entries (`ilo_password`, `redfish_password`, …) are not in here but in [`Node::secrets`].
pub type Fields = BTreeMap<String, Value>;

/// How a node is driven.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Driver {
    /// Deploys by virtual media and ends in local boot.
    AgentIlo,
    /// Deploys by virtual media and keeps its instance's boot ISO attached.
    IscsiIlo,
}

impl Driver {
    /// Every driver.
    pub const ALL: [Self; 2] = [Self::AgentIlo, Self::IscsiIlo];

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AgentIlo => "agent_ilo",
            Self::IscsiIlo => "iscsi_ilo",
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Driver {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|driver| driver.as_str() == text)
            .ok_or_else(|| UnknownState {
                kind: "driver",
                text: text.chars().take(80).collect(),
                known: Self::ALL.map(Self::as_str).join(", "),
            })
    }
}

/// How a node's server gets its ramdisk, and its instance where that is not on a disk (Ironic's `boot_interface`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum BootInterface {
    /// From virtual media that the BMC presents; the site's `vmedia` plugin sees to it.
    #[default]
    IloVirtualMedia,
    /// Over the network by iPXE; the host itself sees to it.
    IloIpxe,
}

impl BootInterface {
    /// Every boot interface; each driver knows all of them.
    pub const ALL: [Self; 2] = [Self::IloVirtualMedia, Self::IloIpxe];

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::IloVirtualMedia => "ilo-virtual-media",
            Self::IloIpxe => "ilo-ipxe",
        }
    }
}

impl fmt::Display for BootInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for BootInterface {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|interface| interface.as_str() == text)
            .ok_or_else(|| UnknownState {
                kind: "boot interface",
                text: text.chars().take(80).collect(),
                known: Self::ALL.map(Self::as_str).join(", "),
            })
    }
}

/// Why a node is in maintenance without an operator having asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Power could not be read or set.
    PowerFailure,
    /// Cleaning failed.
    CleanFailure,
    /// An active node's slot holds a URL that nobody serves; inserted again at the next reset.
    MediaStale,
}

/// What a user asked for and the conductor has not begun yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    /// `PUT …/states/provision`, with the text of the config drive where one was given.
    Provision {
        /// The verb.
        verb: Verb,
        /// Config drive as given (base64 of a gzip'd ISO, a URL, or JSON text).
        config_drive: Option<Secret>,
    },
    /// `PUT …/states/power`.
    Power(PowerAction),
    /// Boot the server once from this ISO (vendor passthru `boot_into_iso`).
    BootIntoIso {
        /// http(s) URL of the ISO.
        url: String,
    },
}

/// The ramdisk's agent, as far as it has called in.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AgentContact {
    /// Where its command API is.
    pub callback_url: Option<String>,
    /// What it says its version is.
    pub version: Option<String>,
    /// PEM certificate that it serves with, pinned at the first heartbeat.
    pub certificate: Option<String>,
    /// When it was last heard.
    pub last_heartbeat: Option<SystemTime>,
    /// Secret that we put into the parameters; every call in both directions carries it.
    pub token: Option<Secret>,
}

/// A network port of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    /// UUID of the port.
    pub id: String,
    /// Whose port it is.
    pub node: NodeId,
    /// Its address, unique in the store.
    pub address: MacAddress,
}

/// One server: what users said of it, what is known of it, and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// Identity.
    pub id: NodeId,
    /// Logical name, unique in the store.
    pub name: Option<NodeName>,
    /// How it is driven.
    pub driver: Driver,
    /// How its server gets what it boots.
    pub boot_interface: BootInterface,
    /// Only conductors of this group take it ("" is the default group).
    pub conductor_group: String,
    /// Where it stands. Moved by the conductor only.
    pub provision_state: ProvisionState,
    /// Where it is going.
    pub target_provision_state: Option<ProvisionState>,
    /// Since when it is in its provision state.
    pub provision_updated_at: SystemTime,
    /// Power as last seen.
    pub power_state: Option<PowerState>,
    /// Power change under way.
    pub target_power_state: Option<PowerState>,
    /// Boot mode as last seen.
    pub boot_mode: Option<BootMode>,
    /// Nothing is done to a node in maintenance.
    pub maintenance: bool,
    /// Why, in the operator's words.
    pub maintenance_reason: Option<String>,
    /// Why, where Farrier itself did it.
    pub fault: Option<Fault>,
    /// What went wrong last; shown to users, holds no secret.
    pub last_error: Option<String>,
    /// How to reach the BMC and what to boot; without its secrets.
    pub driver_info: Fields,
    /// What to deploy.
    pub instance_info: Fields,
    /// Hardware (`memory_mb`, `cpu_arch`, `capabilities`, …).
    pub properties: Fields,
    /// The user's own.
    pub extra: Fields,
    /// Facts found out by Farrier ("vendor", "model", "bmc.generation", …), for binding rules and plugins.
    pub facts: BTreeMap<String, String>,
    /// Secret entries of `driver_info` and `instance_info`, by their key there ("ilo_password").
    pub secrets: BTreeMap<String, Secret>,
    /// The agent, while a ramdisk of ours runs.
    pub agent: AgentContact,
    /// What a user asked for and nobody has begun yet.
    pub wish: Option<Wish>,
    /// Name of the step under way inside the provision state ("deploying: write-image"), for progress and resumption.
    pub step: Option<String>,
    /// Progress of the step, 0–100.
    pub step_percent: Option<u8>,
    /// Identifier of the agent command under way.
    pub agent_command: Option<String>,
    /// When waiting ends in failure.
    pub deadline: Option<SystemTime>,
    /// The ramdisk's boot was repeated, once, since the server had read nothing of what it was given to boot.
    pub boot_repeated: bool,
}

impl Node {
    /// A server of which nothing is known yet but how it is driven: enrolled at `now`.
    pub fn new(id: NodeId, driver: Driver, now: SystemTime) -> Self {
        Self {
            id,
            name: None,
            driver,
            boot_interface: BootInterface::default(),
            conductor_group: String::new(),
            provision_state: ProvisionState::Enroll,
            target_provision_state: None,
            provision_updated_at: now,
            power_state: None,
            target_power_state: None,
            boot_mode: None,
            maintenance: false,
            maintenance_reason: None,
            fault: None,
            last_error: None,
            driver_info: Fields::new(),
            instance_info: Fields::new(),
            properties: Fields::new(),
            extra: Fields::new(),
            facts: BTreeMap::new(),
            secrets: BTreeMap::new(),
            agent: AgentContact::default(),
            wish: None,
            step: None,
            step_percent: None,
            agent_command: None,
            deadline: None,
            boot_repeated: false,
        }
    }
}
