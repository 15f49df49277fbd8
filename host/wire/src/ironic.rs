//! Ironic's shapes, in Ironic's spelling.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A link to another document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// URL.
    pub href: String,
    /// `self` or `bookmark`.
    pub rel: String,
}

/// `GET /`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Root {
    /// What answers.
    pub name: String,
    /// In words.
    pub description: String,
    /// The version that a client should use.
    pub default_version: Version,
    /// All versions.
    pub versions: Vec<Version>,
}

/// One version of the API.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Version {
    /// `v1`.
    pub id: String,
    /// Where it is.
    pub links: Vec<Link>,
    /// `CURRENT`.
    pub status: String,
    /// Oldest microversion.
    pub min_version: String,
    /// Newest microversion.
    pub version: String,
}

/// `GET /v1/`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct V1 {
    /// `v1`.
    pub id: String,
    /// This document.
    pub links: Vec<Link>,
    /// Media types.
    pub media_types: Vec<BTreeMap<String, String>>,
    /// Microversions.
    pub version: Version,
    /// Collections: name → links.
    #[serde(flatten)]
    pub collections: BTreeMap<String, Value>,
}

/// A node. Everything is optional, since `?fields=` picks.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// UUID.
    pub uuid: String,
    /// Logical name.
    pub name: Option<String>,
    /// Always null: instances have no identity of their own here.
    pub instance_uuid: Option<String>,
    /// Driver.
    pub driver: String,
    /// How to reach the BMC, what to boot; secrets show as `******`.
    pub driver_info: Map<String, Value>,
    /// What Farrier found out and keeps for the node.
    pub driver_internal_info: Map<String, Value>,
    /// What to deploy.
    pub instance_info: Map<String, Value>,
    /// Hardware.
    pub properties: Map<String, Value>,
    /// The user's own.
    pub extra: Map<String, Value>,
    /// Where it stands.
    pub provision_state: String,
    /// Where it goes.
    pub target_provision_state: Option<String>,
    /// Since when it stands there.
    pub provision_updated_at: Option<String>,
    /// Power as last seen.
    pub power_state: Option<String>,
    /// Power asked for.
    pub target_power_state: Option<String>,
    /// Boot mode as last seen.
    pub boot_mode: Option<String>,
    /// Not known.
    pub secure_boot: Option<bool>,
    /// Nothing is done to it.
    pub maintenance: bool,
    /// Why.
    pub maintenance_reason: Option<String>,
    /// Why Farrier put it there.
    pub fault: Option<String>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// The conductor that works on it right now.
    pub reservation: Option<String>,
    /// The conductor that has it.
    pub conductor: Option<String>,
    /// Which conductors may have it.
    pub conductor_group: String,
    /// The step under way while deploying.
    pub deploy_step: Option<Map<String, Value>>,
    /// The step under way while cleaning.
    pub clean_step: Option<Map<String, Value>>,
    /// How it boots.
    pub boot_interface: Option<String>,
    /// How it is deployed.
    pub deploy_interface: Option<String>,
    /// How it is managed.
    pub management_interface: Option<String>,
    /// How it is powered.
    pub power_interface: Option<String>,
    /// Vendor methods.
    pub vendor_interface: Option<String>,
    /// Networks are not touched.
    pub network_interface: Option<String>,
    /// No console is served.
    pub console_enabled: bool,
    /// When it was created.
    pub created_at: Option<String>,
    /// When it was changed last.
    pub updated_at: Option<String>,
    /// Itself.
    pub links: Vec<Link>,
    /// Its ports.
    pub ports: Vec<Link>,
    /// Its states.
    pub states: Vec<Link>,
}

/// `GET /v1/nodes`, with only the fields that were asked for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Nodes {
    /// The page.
    pub nodes: Vec<Value>,
    /// The next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `GET /v1/nodes/{node}/states`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct States {
    /// Where it stands.
    pub provision_state: String,
    /// Where it goes.
    pub target_provision_state: Option<String>,
    /// Since when it stands there.
    pub provision_updated_at: Option<String>,
    /// Power as last seen.
    pub power_state: Option<String>,
    /// Power asked for.
    pub target_power_state: Option<String>,
    /// Boot mode as last seen.
    pub boot_mode: Option<String>,
    /// Not known.
    pub secure_boot: Option<bool>,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// No console is served.
    pub console_enabled: bool,
    /// RAID is not driven.
    pub raid_config: Map<String, Value>,
    /// RAID is not driven.
    pub target_raid_config: Map<String, Value>,
}

/// `PUT /v1/nodes/{node}/states/provision`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ProvisionRequest {
    /// The verb.
    pub target: String,
    /// Base64 of a gzip'd ISO, a URL, or a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configdrive: Option<Value>,
    /// Fields that Farrier may or may not know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// `PUT /v1/nodes/{node}/states/power`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PowerRequest {
    /// `power on`, `power off`, `rebooting`, `soft power off`, `soft rebooting`.
    pub target: String,
    /// Seconds; Farrier's own time-outs hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// `PUT /v1/nodes/{node}/maintenance`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MaintenanceRequest {
    /// Why.
    pub reason: Option<String>,
}

/// One interface in `GET /v1/nodes/{node}/validate`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Validity {
    /// Whether it would work, as far as the record tells.
    pub result: bool,
    /// What is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of a `boot_into_iso` call.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BootIntoIso {
    /// http(s) URL of the ISO.
    pub boot_iso_href: String,
}

/// A network port of a node.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// UUID.
    pub uuid: String,
    /// MAC address.
    pub address: String,
    /// Whose it is.
    pub node_uuid: String,
    /// Always true: the ramdisk may use it.
    pub pxe_enabled: bool,
    /// Always empty.
    pub extra: Map<String, Value>,
    /// Always empty.
    pub local_link_connection: Map<String, Value>,
    /// Always empty.
    pub internal_info: Map<String, Value>,
    /// Itself.
    pub links: Vec<Link>,
}

/// `GET /v1/ports`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ports {
    /// All of them.
    pub ports: Vec<Value>,
    /// The next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A driver.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Driver {
    /// Its name.
    pub name: String,
    /// Live conductors that have it.
    pub hosts: Vec<String>,
    /// `classic`: one fixed set of interfaces.
    #[serde(rename = "type")]
    pub kind: String,
    /// Itself.
    pub links: Vec<Link>,
    /// What its nodes' `driver_info` may hold.
    pub properties: Vec<Link>,
}

/// `GET /v1/drivers`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Drivers {
    /// All of them.
    pub drivers: Vec<Driver>,
}

/// A conductor.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conductor {
    /// Its name.
    pub hostname: String,
    /// Its group.
    pub conductor_group: String,
    /// Its lease holds.
    pub alive: bool,
    /// Drivers that it has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<String>,
    /// When it was heard last.
    pub updated_at: Option<String>,
    /// Itself.
    pub links: Vec<Link>,
}

/// `GET /v1/conductors`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conductors {
    /// All that ever joined.
    pub conductors: Vec<Conductor>,
}

/// One operation of a JSON patch (RFC 6902).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PatchOperation {
    /// `add`, `replace` or `remove`.
    pub op: String,
    /// JSON pointer (RFC 6901).
    pub path: String,
    /// The new value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// `GET /v1/lookup`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lookup {
    /// The node that the ramdisk runs on.
    pub node: LookupNode,
    /// What the ramdisk should do.
    pub config: LookupConfig,
}

/// The part of a node that a ramdisk sees.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LookupNode {
    /// UUID.
    pub uuid: String,
    /// Hardware.
    pub properties: Map<String, Value>,
    /// What to deploy; secrets show as `******`.
    pub instance_info: Map<String, Value>,
    /// What Farrier keeps for the node.
    pub driver_internal_info: Map<String, Value>,
    /// Itself.
    pub links: Vec<Link>,
}

/// What a ramdisk is told.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LookupConfig {
    /// Seconds within which it must heartbeat.
    pub heartbeat_timeout: u64,
    /// The token once, or `******` if it has one.
    pub agent_token: Option<String>,
    /// Always true.
    pub agent_token_required: bool,
    /// Nobody collects metrics from ramdisks.
    pub metrics: Map<String, Value>,
    /// Nobody collects metrics from ramdisks.
    pub metrics_statsd: Map<String, Value>,
    /// The ramdisk checks image formats itself too.
    pub disable_deep_image_inspection: bool,
    /// Formats that may be written.
    pub permitted_image_formats: Vec<String>,
    /// Whether the ramdisk must take the checksum's kind from its length.
    pub agent_md5_checksum_enable: bool,
}

/// `POST /v1/heartbeat/{node}`.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Heartbeat {
    /// Where the agent's command API is.
    pub callback_url: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The token that proves who it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_token: Option<String>,
    /// Its certificate, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_verify_ca: Option<String>,
    /// `start`, `end` or `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_status: Option<String>,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_status_message: Option<String>,
}

/// Body of every error. What clients parse is JSON *text* inside JSON: `error_message` holds a [`Fault`] as text.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ErrorBody {
    /// A [`Fault`] as JSON text.
    pub error_message: String,
}

/// What went wrong.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    /// `Client` or `Server`.
    pub faultcode: String,
    /// For people.
    pub faultstring: String,
    /// Always null.
    pub debuginfo: Option<String>,
}

impl ErrorBody {
    /// Wraps a fault.
    pub fn new(faultcode: &str, faultstring: &str) -> Self {
        let fault = Fault {
            faultcode: faultcode.to_owned(),
            faultstring: faultstring.to_owned(),
            debuginfo: None,
        };
        Self {
            // Two strings and a null always serialise.
            error_message: serde_json::to_string(&fault).unwrap_or_default(),
        }
    }

    /// The text for people, however it is wrapped.
    pub fn message(&self) -> String {
        match serde_json::from_str::<Fault>(&self.error_message) {
            Ok(fault) => fault.faultstring,
            Err(_) => self.error_message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_json_text_inside_json_as_ironics_clients_parse_it() {
        let body = ErrorBody::new("Client", "node \"n1\" is busy");
        let text = serde_json::to_string(&body).unwrap();
        let outer: Value = serde_json::from_str(&text).unwrap();
        let inner: Value = serde_json::from_str(outer["error_message"].as_str().unwrap()).unwrap();
        assert_eq!(inner["faultstring"], "node \"n1\" is busy");
        assert_eq!(inner["faultcode"], "Client");
        assert_eq!(body.message(), "node \"n1\" is busy");
    }

    #[test]
    fn a_node_with_a_few_fields_reads() {
        let node: Node = serde_json::from_str(r#"{"uuid":"u","power_state":null,"new":1}"#).unwrap();
        assert_eq!(node.uuid, "u");
        assert_eq!(node.provision_state, "");
    }

    #[test]
    fn a_provision_request_keeps_what_it_does_not_know() {
        let text = r#"{"target":"active","configdrive":{"meta_data":{}},"deploy_steps":[]}"#;
        let request: ProvisionRequest = serde_json::from_str(text).unwrap();
        assert!(request.more.contains_key("deploy_steps"));
        assert!(request.configdrive.is_some_and(|drive| drive.is_object()));
    }
}
