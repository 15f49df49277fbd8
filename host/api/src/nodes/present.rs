//! A record as clients see it.

use conductor::machine;
use model::{Fault, Node, PowerState};
use nodes::Record;
use serde_json::{Map, Value, json};
use wire::ironic;

use crate::error::{ApiError, ApiResult};
use crate::state::clip;
use crate::version::Base;
use crate::{secrets, time};

/// Fields of a list that asks for no other.
pub(crate) const BRIEF: [&str; 7] = [
    "uuid",
    "name",
    "instance_uuid",
    "power_state",
    "provision_state",
    "maintenance",
    "links",
];

/// Interfaces of the two drivers of which there is no choice, by Ironic's names.
pub(crate) const INTERFACES: [(&str, &str); 5] = [
    ("deploy_interface", "direct"),
    ("management_interface", "ilo"),
    ("power_interface", "ilo"),
    ("vendor_interface", "ilo"),
    ("network_interface", "noop"),
];

/// Power in Ironic's spelling; what is not known is null.
pub(crate) fn power(state: Option<PowerState>) -> Option<String> {
    match state {
        Some(PowerState::On) => Some("power on".to_owned()),
        Some(PowerState::Off) => Some("power off".to_owned()),
        Some(PowerState::Unknown) | None => None,
    }
}

fn fault(fault: &Fault) -> String {
    match fault {
        Fault::PowerFailure => "power failure",
        Fault::CleanFailure => "clean failure",
        Fault::MediaStale => "media-stale",
    }
    .to_owned()
}

/// What Farrier keeps for the node; never a token.
pub(crate) fn internal_info(node: &Node) -> Map<String, Value> {
    let mut info: Map<_, _> = node
        .facts
        .iter()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    let agent = &node.agent;
    let seen = agent.last_heartbeat.and_then(time::text);
    for (key, value) in [
        ("agent_url", agent.callback_url.clone()),
        ("agent_version", agent.version.clone()),
        ("agent_last_heartbeat", seen),
    ] {
        if let Some(value) = value {
            info.insert(key.to_owned(), json!(value));
        }
    }
    info
}

/// The step under way, as Ironic shows it.
fn step(node: &Node, of: &[&str]) -> Option<Map<String, Value>> {
    let name = node.step.as_ref()?;
    if !of.contains(&node.provision_state.as_str()) {
        return None;
    }
    let mut step = Map::new();
    step.insert("step".to_owned(), json!(name));
    step.insert("percent".to_owned(), json!(node.step_percent));
    Some(step)
}

/// The whole node.
pub(crate) fn node(record: &Record, base: &Base) -> ironic::Node {
    let node = &record.node;
    let path = format!("nodes/{}", node.id);
    let owner = record.owner.as_ref().map(|owner| owner.as_str().to_owned());
    let interface = |name: &str| {
        let found = INTERFACES.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    ironic::Node {
        uuid: node.id.to_string(),
        name: node.name.as_ref().map(|name| name.as_str().to_owned()),
        instance_uuid: None,
        driver: node.driver.as_str().to_owned(),
        driver_info: secrets::driver_info(node),
        driver_internal_info: internal_info(node),
        instance_info: secrets::masked(&node.instance_info),
        properties: secrets::masked(&node.properties),
        extra: secrets::masked(&node.extra),
        provision_state: node.provision_state.as_str().to_owned(),
        target_provision_state: node.target_provision_state.map(|state| state.as_str().to_owned()),
        provision_updated_at: time::text(node.provision_updated_at),
        power_state: power(node.power_state),
        target_power_state: power(node.target_power_state),
        boot_mode: node.boot_mode.map(|mode| mode.as_str().to_owned()),
        secure_boot: None,
        maintenance: node.maintenance,
        maintenance_reason: node.maintenance_reason.clone(),
        fault: node.fault.as_ref().map(fault),
        last_error: node.last_error.clone(),
        reservation: owner.clone().filter(|_| machine::is_busy(node.provision_state)),
        conductor: owner,
        conductor_group: node.conductor_group.clone(),
        deploy_step: step(node, &["deploying", "wait call-back"]),
        clean_step: step(node, &["cleaning", "clean wait"]),
        boot_interface: Some(node.boot_interface.as_str().to_owned()),
        deploy_interface: interface("deploy_interface"),
        management_interface: interface("management_interface"),
        power_interface: interface("power_interface"),
        vendor_interface: interface("vendor_interface"),
        network_interface: interface("network_interface"),
        console_enabled: false,
        created_at: time::text(record.created_at),
        updated_at: time::text(record.updated_at),
        links: base.links(&path),
        ports: base.links(&format!("{path}/ports")),
        states: base.links(&format!("{path}/states")),
    }
}

/// Which fields to show.
pub(crate) enum Pick {
    /// All.
    All,
    /// These.
    Some(Vec<String>),
}

impl Pick {
    /// Reads `?fields=`, whose names must be known.
    pub(crate) fn parse(fields: &str) -> ApiResult<Self> {
        let known = serde_json::to_value(ironic::Node::default()).unwrap_or_default();
        let fields: Vec<_> = fields.split(',').map(|field| field.trim().to_owned()).collect();
        for field in &fields {
            if known.get(field).is_none() {
                let all: Vec<_> = known.as_object().into_iter().flat_map(Map::keys).cloned().collect();
                let (field, all) = (clip(field), all.join(", "));
                let text = format!("query parameter `fields`: unknown field `{field}`; known are: {all}");
                return Err(ApiError::Invalid(text));
            }
        }
        Ok(Self::Some(fields))
    }

    /// The brief list.
    pub(crate) fn brief() -> Self {
        Self::Some(BRIEF.map(str::to_owned).into())
    }

    /// The node with those fields; links always stay.
    pub(crate) fn show(&self, record: &Record, base: &Base) -> Value {
        let mut shown = serde_json::to_value(node(record, base)).unwrap_or_default();
        if let (Self::Some(fields), Value::Object(map)) = (self, &mut shown) {
            map.retain(|key, _| key == "links" || fields.iter().any(|field| field == key));
        }
        shown
    }
}
