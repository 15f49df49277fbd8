//! What a plugin may know of a node, looked up in the snapshot that the call began with. Never secrets.

use std::collections::BTreeMap;

use model::Node;
use serde_json::Value;

/// Longest text of one field that a plugin is handed.
const MAX_FIELD: usize = 64 << 10;

/// Facts that hold for the whole site ("callback-timeout-s"); plugins see them under `site.`.
pub type SiteFacts = BTreeMap<String, String>;

/// One fact.
pub(crate) fn fact(node: &Node, site: &SiteFacts, key: &str) -> Option<String> {
    match key {
        "driver" => Some(node.driver.as_str().to_owned()),
        "boot-mode" => node.boot_mode.map(|mode| mode.as_str().to_owned()),
        "conductor-group" => Some(node.conductor_group.clone()),
        _ => {
            if let Some(name) = key.strip_prefix("site.") {
                return site.get(name).cloned();
            }
            if let Some(name) = key.strip_prefix("capability.") {
                return capability(node, name);
            }
            node.facts.get(key).cloned()
        }
    }
}

/// All facts whose key starts with `prefix`, in the order of their keys.
pub(crate) fn facts_under(node: &Node, site: &SiteFacts, prefix: &str) -> Vec<(String, String)> {
    let mut keys: Vec<String> = node.facts.keys().cloned().collect();
    keys.extend(["driver", "boot-mode", "conductor-group"].map(str::to_owned));
    keys.extend(site.keys().map(|name| format!("site.{name}")));
    for fields in [&node.properties, &node.instance_info] {
        if let Some(value) = fields.get("capabilities") {
            keys.extend(capabilities(value).into_keys().map(|name| format!("capability.{name}")));
        }
    }
    keys.sort();
    keys.dedup();
    let known = keys.into_iter().filter(|key| key.starts_with(prefix));
    known
        .filter_map(|key| fact(node, site, &key).map(|value| (key, value)))
        .collect()
}

/// A field of `instance_info` or `driver_info` as JSON text.
pub(crate) fn field(fields: &model::Fields, key: &str) -> Option<String> {
    let text = fields.get(key)?.to_string();
    (text.len() <= MAX_FIELD).then_some(text)
}

/// Whether a user wrote this text into one of the node's fields.
pub(crate) fn is_users_text(node: &Node, text: &str) -> bool {
    [&node.instance_info, &node.driver_info]
        .into_iter()
        .flat_map(BTreeMap::values)
        .any(|value| value.as_str() == Some(text))
}

/// A capability: what the instance asks for, else what the properties say, in any of Ironic's spellings.
pub fn capability(node: &Node, name: &str) -> Option<String> {
    [&node.instance_info, &node.properties]
        .into_iter()
        .filter_map(|fields| fields.get("capabilities"))
        .find_map(|value| capabilities(value).remove(name))
}

/// Ironic's spellings: `a:b,c:d`, an object, or an object as a text.
fn capabilities(value: &Value) -> BTreeMap<String, String> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    };
    match value {
        Value::Object(map) => map
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), scalar(value)?)))
            .collect(),
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(object @ Value::Object(_)) => capabilities(&object),
            _ => text
                .split(',')
                .filter_map(|pair| pair.split_once(':'))
                .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
                .collect(),
        },
        _ => BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn capabilities_are_read_in_each_of_ironics_spellings() {
        for value in [
            json!("boot_mode:uefi,secure_boot:true"),
            json!({"boot_mode": "uefi", "secure_boot": true}),
            json!(r#"{"boot_mode": "uefi", "secure_boot": "true"}"#),
            json!(" boot_mode : uefi , secure_boot:true, odd"),
        ] {
            let read = capabilities(&value);
            assert_eq!(read.get("boot_mode").map(String::as_str), Some("uefi"), "{value}");
            assert_eq!(read.get("secure_boot").map(String::as_str), Some("true"), "{value}");
        }
        assert!(capabilities(&json!(7)).is_empty());
    }
}
