//! A node as one JSON document, and its secrets as another that is sealed.
//!
//! What is searched for (name, state, group, maintenance, owner, term, version) are columns and not in here. A field that is
//! added needs a new schema version and a default; unknown fields are refused, so that an older Farrier never drops what a
//! newer one wrote.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{
    AgentContact, BootInterface, BootMode, Fault, Fields, Node, NodeId, NodeName, PowerAction, PowerState,
    ProvisionState, Secret, Wish,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The columns that make up a node together with its documents.
pub(crate) struct Columns {
    pub(crate) id: NodeId,
    pub(crate) name: Option<NodeName>,
    pub(crate) state: ProvisionState,
    pub(crate) group: String,
    pub(crate) maintenance: bool,
}

/// Everything of a node that is neither a column nor secret.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Document {
    driver: String,
    /// Not in documents of schema version 1, whose nodes all boot from virtual media.
    #[serde(default)]
    boot_interface: Option<String>,
    target_state: Option<String>,
    state_since: i64,
    power: Option<PowerStateText>,
    target_power: Option<PowerStateText>,
    boot_mode: Option<BootModeText>,
    maintenance_reason: Option<String>,
    fault: Option<FaultText>,
    last_error: Option<String>,
    driver_info: Fields,
    instance_info: Fields,
    properties: Fields,
    extra: Fields,
    facts: BTreeMap<String, String>,
    agent: AgentText,
    wish: Option<WishText>,
    step: Option<String>,
    step_percent: Option<u8>,
    agent_command: Option<String>,
    deadline: Option<i64>,
    /// Not in documents of schema version 1.
    #[serde(default)]
    boot_repeated: bool,
}

/// What of a node is sealed.
#[derive(Serialize, Deserialize, Default, PartialEq)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Secrets {
    fields: BTreeMap<String, String>,
    agent_token: Option<String>,
    config_drive: Option<String>,
}

impl Secrets {
    /// There is nothing to seal.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct AgentText {
    callback_url: Option<String>,
    version: Option<String>,
    certificate: Option<String>,
    last_heartbeat: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum WishText {
    Provision { verb: String },
    Power(PowerActionText),
    BootIntoIso { url: String },
}

macro_rules! spelled {
    ($text:ident = $model:ident { $($variant:ident),* $(,)? }) => {
        #[derive(Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum $text { $($variant),* }

        impl From<&$model> for $text {
            fn from(value: &$model) -> Self {
                match value { $($model::$variant => Self::$variant,)* }
            }
        }

        impl From<$text> for $model {
            fn from(value: $text) -> Self {
                match value { $($text::$variant => Self::$variant,)* }
            }
        }
    };
}

spelled!(PowerStateText = PowerState { On, Off, Unknown });
spelled!(BootModeText = BootMode { Bios, Uefi });
spelled!(
    FaultText = Fault {
        PowerFailure,
        CleanFailure,
        MediaStale,
    }
);
spelled!(
    PowerActionText = PowerAction {
        On,
        Off,
        SoftOff,
        ForceRestart,
        SoftRestart,
    }
);

/// Takes a node apart. Columns are read from the node itself.
pub(crate) fn take_apart(node: &Node) -> (Document, Secrets) {
    // Every field by name, so that a new one cannot be forgotten here.
    let Node {
        id: _,
        name: _,
        driver,
        boot_interface,
        conductor_group: _,
        provision_state: _,
        target_provision_state,
        provision_updated_at,
        power_state,
        target_power_state,
        boot_mode,
        maintenance: _,
        maintenance_reason,
        fault,
        last_error,
        driver_info,
        instance_info,
        properties,
        extra,
        facts,
        secrets,
        agent,
        wish,
        step,
        step_percent,
        agent_command,
        deadline,
        boot_repeated,
    } = node;
    let AgentContact {
        callback_url,
        version,
        certificate,
        last_heartbeat,
        token,
    } = agent;
    let mut config_drive_text = None;
    let wish = wish.as_ref().map(|wish| match wish {
        Wish::Provision { verb, config_drive } => {
            config_drive_text = config_drive.as_ref().map(expose);
            WishText::Provision {
                verb: verb.as_str().to_owned(),
            }
        }
        Wish::Power(action) => WishText::Power(action.into()),
        Wish::BootIntoIso { url } => WishText::BootIntoIso { url: url.clone() },
    });
    let document = Document {
        driver: driver.as_str().to_owned(),
        boot_interface: Some(boot_interface.as_str().to_owned()),
        target_state: target_provision_state.map(|state| state.as_str().to_owned()),
        state_since: nanos(*provision_updated_at),
        power: power_state.as_ref().map(Into::into),
        target_power: target_power_state.as_ref().map(Into::into),
        boot_mode: boot_mode.as_ref().map(Into::into),
        maintenance_reason: maintenance_reason.clone(),
        fault: fault.as_ref().map(Into::into),
        last_error: last_error.clone(),
        driver_info: driver_info.clone(),
        instance_info: instance_info.clone(),
        properties: properties.clone(),
        extra: extra.clone(),
        facts: facts.clone(),
        agent: AgentText {
            callback_url: callback_url.clone(),
            version: version.clone(),
            certificate: certificate.clone(),
            last_heartbeat: last_heartbeat.map(nanos),
        },
        wish,
        step: step.clone(),
        step_percent: *step_percent,
        agent_command: agent_command.clone(),
        deadline: deadline.map(nanos),
        boot_repeated: *boot_repeated,
    };
    let sealed = Secrets {
        fields: secrets
            .iter()
            .map(|(key, secret)| (key.clone(), expose(secret)))
            .collect(),
        agent_token: token.as_ref().map(expose),
        config_drive: config_drive_text,
    };
    (document, sealed)
}

/// Puts a node together; the error says which text is not understood.
pub(crate) fn put_together(columns: Columns, document: Document, secrets: Secrets) -> Result<Node, String> {
    let parse_state = |text: String| text.parse::<ProvisionState>();
    let wish = match document.wish {
        None => None,
        Some(WishText::Provision { verb }) => Some(Wish::Provision {
            verb: verb.parse().map_err(|error| format!("{error}"))?,
            config_drive: secrets.config_drive.map(Secret::new),
        }),
        Some(WishText::Power(action)) => Some(Wish::Power(action.into())),
        Some(WishText::BootIntoIso { url }) => Some(Wish::BootIntoIso { url }),
    };
    Ok(Node {
        id: columns.id,
        name: columns.name,
        driver: document.driver.parse().map_err(|error| format!("{error}"))?,
        boot_interface: match document.boot_interface {
            None => BootInterface::IloVirtualMedia,
            Some(text) => text.parse().map_err(|error| format!("{error}"))?,
        },
        conductor_group: columns.group,
        provision_state: columns.state,
        target_provision_state: document
            .target_state
            .map(parse_state)
            .transpose()
            .map_err(|error| error.to_string())?,
        provision_updated_at: time(document.state_since),
        power_state: document.power.map(Into::into),
        target_power_state: document.target_power.map(Into::into),
        boot_mode: document.boot_mode.map(Into::into),
        maintenance: columns.maintenance,
        maintenance_reason: document.maintenance_reason,
        fault: document.fault.map(Into::into),
        last_error: document.last_error,
        driver_info: document.driver_info,
        instance_info: document.instance_info,
        properties: document.properties,
        extra: document.extra,
        facts: document.facts,
        secrets: secrets
            .fields
            .into_iter()
            .map(|(key, text)| (key, Secret::new(text)))
            .collect(),
        agent: AgentContact {
            callback_url: document.agent.callback_url,
            version: document.agent.version,
            certificate: document.agent.certificate,
            last_heartbeat: document.agent.last_heartbeat.map(time),
            token: secrets.agent_token.map(Secret::new),
        },
        wish,
        step: document.step,
        step_percent: document.step_percent,
        agent_command: document.agent_command,
        deadline: document.deadline.map(time),
        boot_repeated: document.boot_repeated,
    })
}

/// The user's fields are nested deeper than `limit` somewhere. JSON readers stop at a depth of their own (128), and what
/// cannot be read back must not be written.
pub(crate) fn is_deeper_than(node: &Node, limit: usize) -> bool {
    fn deeper(value: &Value, left: usize) -> bool {
        let Some(left) = left.checked_sub(1) else {
            return true;
        };
        match value {
            Value::Array(items) => items.iter().any(|item| deeper(item, left)),
            Value::Object(fields) => fields.values().any(|field| deeper(field, left)),
            _ => false,
        }
    }
    [&node.driver_info, &node.instance_info, &node.properties, &node.extra]
        .into_iter()
        .flat_map(|fields| fields.values())
        .any(|value| deeper(value, limit))
}

fn expose(secret: &Secret) -> String {
    secret.expose().to_owned()
}

/// Nanoseconds since 1970; times outside 1678–2262 become the nearest that fits.
pub(crate) fn nanos(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |n| -n),
    }
}

/// The time that [`nanos`] gave.
pub(crate) fn time(nanos: i64) -> SystemTime {
    let span = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 {
        UNIX_EPOCH - span
    } else {
        UNIX_EPOCH + span
    }
}
