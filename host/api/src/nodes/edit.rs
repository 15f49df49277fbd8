//! What users may write of a node: creating it and patching it.

use std::time::SystemTime;

use model::{BootInterface, Fields, Node, NodeId, ProvisionState};
use serde_json::{Map, Value, json};
use wire::ironic::PatchOperation;

use super::present::INTERFACES;
use crate::error::{ApiError, ApiResult};
use crate::state::{Site, clip};
use crate::{json_patch, secrets};

/// Attributes of a node that users own.
const WRITABLE: [&str; 10] = [
    "name",
    "driver",
    "boot_interface",
    "driver_info",
    "instance_info",
    "properties",
    "extra",
    "conductor_group",
    "maintenance",
    "maintenance_reason",
];

/// Attributes that Ironic lets users write and that Farrier does not keep. Their empty values are taken, so that clients
/// which always send them work; anything else is refused rather than forgotten.
const NOT_KEPT: [&str; 30] = [
    "allocation_uuid",
    "automated_clean",
    "bios_interface",
    "chassis_uuid",
    "console_interface",
    "description",
    "disable_power_off",
    "firmware_interface",
    "inspect_interface",
    "instance_name",
    "instance_uuid",
    "lessee",
    "network_data",
    "owner",
    "parent_node",
    "protected",
    "protected_reason",
    "raid_interface",
    "rescue_interface",
    "resource_class",
    "retired",
    "retired_reason",
    "shard",
    "storage_interface",
    "target_raid_config",
    "traits",
    "health",
    "instance_type",
    "console_enabled",
    "service_step",
];

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// A new node from the body of `POST /v1/nodes`.
pub(super) fn create(body: Value, now: SystemTime, site: &Site) -> ApiResult<Node> {
    let Value::Object(mut body) = body else {
        let text = r#"the body is no node: {"driver": "agent_ilo", "driver_info": {…}, …}"#;
        return Err(ApiError::invalid(text));
    };
    let Some(driver) = body.get("driver").and_then(Value::as_str) else {
        return Err(ApiError::invalid("`driver` is missing; it is agent_ilo or iscsi_ilo"));
    };
    let driver = driver
        .parse()
        .map_err(|error| ApiError::Invalid(format!("`driver`: {error}")))?;
    let id = match body.remove("uuid") {
        None | Some(Value::Null) => NodeId::random(),
        Some(Value::String(text)) => text
            .parse()
            .map_err(|error| ApiError::Invalid(format!("`uuid`: {error}")))?,
        Some(_) => return Err(ApiError::invalid("`uuid` must be a text")),
    };
    let mut node = Node::new(id, driver, now);
    node.boot_interface = site.default_boot_interface;
    for (key, value) in &body {
        check_attribute(key, value)?;
    }
    let mut document = document(&node);
    for (key, value) in body {
        if WRITABLE.contains(&key.as_str()) && !value.is_null() {
            document.insert(key, value);
        }
    }
    take(&mut node, document, site)?;
    Ok(node)
}

/// Applies a patch to a node; nothing is changed if any part of it is refused.
pub(super) fn patch(node: &mut Node, operations: &[PatchOperation], site: &Site) -> ApiResult<()> {
    let mut patched = Value::Object(document(node));
    for operation in operations {
        let path = &operation.path;
        let first = path.split('/').nth(1).unwrap_or("");
        let value = operation.value.as_ref().unwrap_or(&Value::Null);
        if !WRITABLE.contains(&first) {
            let whole = path.trim_start_matches('/') == first;
            if whole {
                check_attribute(first, value).map_err(|error| json_patch::at(path, &error.to_string()))?;
                continue;
            }
            return Err(json_patch::at(path, "it cannot be written"));
        }
        let mut operation = operation.clone();
        // A removed or null top-level attribute goes back to its empty value.
        let top = path.matches('/').count() == 1;
        if top && (operation.op == "remove" || value.is_null()) {
            operation.op = "replace".to_owned();
            operation.value = Some(empty(first, site));
        } else if top && operation.op == "add" {
            operation.op = "replace".to_owned();
        }
        json_patch::apply(&mut patched, operation)?;
    }
    let Value::Object(patched) = patched else {
        return Err(ApiError::invalid("the patch leaves no node"));
    };
    let mut changed = node.clone();
    take(&mut changed, patched, site)?;
    if changed.boot_interface != node.boot_interface {
        may_change_boot_interface(node)?;
    }
    *node = changed;
    Ok(())
}

/// A node that is worked on or deployed has media in its slots or files on the web server, which only the boot interface that
/// put them there takes away again.
fn may_change_boot_interface(node: &Node) -> ApiResult<()> {
    use ProvisionState as S;
    let state = node.provision_state;
    if matches!(state, S::Enroll | S::Manageable | S::Available) {
        return Ok(());
    }
    Err(ApiError::Conflict(format!(
        "node {} is in state `{state}`: `boot_interface` can be changed in enroll, manageable and available only",
        node.id
    )))
}

/// Refuses what users may not write, and what would be forgotten.
fn check_attribute(key: &str, value: &Value) -> ApiResult<()> {
    if WRITABLE.contains(&key) {
        return Ok(());
    }
    if let Some((_, ours)) = INTERFACES.iter().find(|(name, _)| *name == key) {
        if is_empty(value) || value == ours {
            return Ok(());
        }
        let text = format!("`{key}` is always `{ours}` here; the driver and the site's plugins decide the rest");
        return Err(ApiError::Invalid(text));
    }
    if NOT_KEPT.contains(&key) {
        if is_empty(value)
            || (key.ends_with("_interface") && value.as_str().is_some_and(|value| value.starts_with("no-")))
        {
            return Ok(());
        }
        let text = format!("`{key}` is not kept by Farrier; put it into `extra` if you need it back");
        return Err(ApiError::Invalid(text));
    }
    let key = clip(key);
    let text = format!("`{key}` cannot be written; these can: {}", WRITABLE.join(", "));
    Err(ApiError::Invalid(text))
}

/// The writable part of a node, with masks for secrets.
fn document(node: &Node) -> Map<String, Value> {
    let mut document = Map::new();
    let mut put = |key: &str, value: Value| document.insert(key.to_owned(), value);
    put("name", json!(node.name.as_ref().map(|name| name.as_str())));
    put("driver", json!(node.driver.as_str()));
    put("boot_interface", json!(node.boot_interface.as_str()));
    put(
        "driver_info",
        Value::Object(raw(&node.driver_info, &secrets::driver_info(node))),
    );
    put("instance_info", json!(node.instance_info));
    put("properties", json!(node.properties));
    put("extra", json!(node.extra));
    put("conductor_group", json!(node.conductor_group));
    put("maintenance", json!(node.maintenance));
    put("maintenance_reason", json!(node.maintenance_reason));
    document
}

/// Fields as they are, with the masks that stand for kept secrets.
fn raw(fields: &Fields, shown: &Map<String, Value>) -> Map<String, Value> {
    let shown = shown.iter().filter(|(key, _)| !fields.contains_key(*key));
    fields
        .iter()
        .chain(shown)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn empty(attribute: &str, site: &Site) -> Value {
    match attribute {
        "boot_interface" => json!(site.default_boot_interface.as_str()),
        "driver_info" | "instance_info" | "properties" | "extra" => json!({}),
        "maintenance" => json!(false),
        "conductor_group" => json!(""),
        _ => Value::Null,
    }
}

/// Reads the writable part back into the node.
fn take(node: &mut Node, mut document: Map<String, Value>, site: &Site) -> ApiResult<()> {
    let mut value = |key: &str| document.remove(key).unwrap_or(Value::Null);
    node.name = match text("name", value("name"))?.filter(|name| !name.is_empty()) {
        Some(name) => {
            let name = name
                .parse()
                .map_err(|error| ApiError::Invalid(format!("`/name`: {error}")))?;
            Some(name)
        }
        None => None,
    };
    let driver = text("driver", value("driver"))?.ok_or_else(|| ApiError::invalid("`/driver` cannot be removed"))?;
    node.driver = driver
        .parse()
        .map_err(|error| ApiError::Invalid(format!("`/driver`: {error}")))?;
    let interface = text("boot_interface", value("boot_interface"))?;
    node.boot_interface = boot_interface(interface, node.boot_interface, site)?;
    let driver_info = fields("driver_info", value("driver_info"))?;
    let instance_info = fields("instance_info", value("instance_info"))?;
    node.properties = fields("properties", value("properties"))?;
    node.extra = fields("extra", value("extra"))?;
    let group = text("conductor_group", value("conductor_group"))?.unwrap_or_default();
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if group.len() > 255 || !group.chars().all(legal) {
        let text = "`/conductor_group`: at most 255 of A-Z a-z 0-9 - . _";
        return Err(ApiError::invalid(text));
    }
    // As in Ironic, groups have no case.
    node.conductor_group = group.to_ascii_lowercase();
    node.maintenance = match value("maintenance") {
        Value::Bool(maintenance) => maintenance,
        Value::String(text) if text.eq_ignore_ascii_case("true") => true,
        Value::String(text) if text.eq_ignore_ascii_case("false") => false,
        _ => return Err(ApiError::invalid("`/maintenance` must be true or false")),
    };
    node.maintenance_reason = text("maintenance_reason", value("maintenance_reason"))?.filter(|_| node.maintenance);
    if !node.maintenance {
        node.fault = node.fault.take().filter(|fault| *fault == model::Fault::MediaStale);
    }
    secrets::take(node, driver_info, instance_info)
}

/// One that the site offers; what the node has already stays, whatever the site offers by now.
fn boot_interface(text: Option<String>, has: BootInterface, site: &Site) -> ApiResult<BootInterface> {
    let offered = site.boot_interfaces();
    let wanted = text.as_deref().unwrap_or(site.default_boot_interface.as_str());
    let known = wanted.parse().ok();
    known
        .filter(|wanted| *wanted == has || offered.contains(wanted))
        .ok_or_else(|| {
            let names: Vec<_> = offered.iter().map(|interface| interface.as_str()).collect();
            let (wanted, names) = (clip(wanted), names.join(", "));
            ApiError::Invalid(format!(
                "`/boot_interface`: `{wanted}` is not offered here; these are: {names}"
            ))
        })
}

fn text(key: &str, value: Value) -> ApiResult<Option<String>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        _ => Err(ApiError::Invalid(format!("`/{key}` must be a text"))),
    }
}

fn fields(key: &str, value: Value) -> ApiResult<Fields> {
    match value {
        Value::Null => Ok(Fields::new()),
        Value::Object(map) => Ok(map.into_iter().collect()),
        _ => Err(ApiError::Invalid(format!("`/{key}` must be an object"))),
    }
}
