//! Which fields are secret, where they are kept, and how they show.

use model::{Fields, Node, Secret};
use serde_json::{Map, Value};

use crate::error::{ApiError, ApiResult};

/// How a secret shows, and how a client says "as it is".
pub(crate) const MASK: &str = "******";

/// Parts of a key that make its value a secret, as Ironic's masking has it.
const WORDS: [&str; 6] = ["password", "passwd", "pswd", "secret", "token", "private_key"];

fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    WORDS.iter().any(|word| key.contains(word))
}

/// `driver_info` as clients see it: with a mask in the place of each secret.
pub(crate) fn driver_info(node: &Node) -> Map<String, Value> {
    let mut shown = masked(&node.driver_info);
    for key in node.secrets.keys() {
        // Others are the conductor's own (a config drive, say).
        if is_secret(key) && !node.instance_info.contains_key(key) {
            shown.insert(key.clone(), Value::from(MASK));
        }
    }
    shown
}

/// Other fields as clients see them; what looks like a secret inside them is masked too, however deep.
pub(crate) fn masked(fields: &Fields) -> Map<String, Value> {
    let mask = |(key, value): (&String, &Value)| (key.clone(), mask(key, value));
    fields.iter().map(mask).collect()
}

fn mask(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let inner = map.iter().map(|(key, value)| (key.clone(), mask(key, value)));
            Value::Object(inner.collect())
        }
        Value::Array(list) => list.iter().map(|value| mask(key, value)).collect(),
        Value::String(_) if is_secret(key) => Value::from(MASK),
        other => other.clone(),
    }
}

/// Takes `driver_info` and `instance_info` as a client gave them: secrets go to [`Node::secrets`], masks keep what is there,
/// and secrets that are no longer named are forgotten. In `instance_info` a mask stays in the secret's place. What the
/// conductor keeps under other keys stays.
pub(crate) fn take(node: &mut Node, driver_info: Fields, instance_info: Fields) -> ApiResult<()> {
    let old = std::mem::take(&mut node.secrets);
    let kept = old.iter().filter(|(key, _)| !is_secret(key));
    node.secrets
        .extend(kept.map(|(key, secret)| (key.clone(), secret.clone())));
    node.driver_info = Fields::new();
    node.instance_info = Fields::new();
    for (key, value) in driver_info {
        match secret(&old, "driver_info", &key, &value)? {
            Some(secret) => {
                node.secrets.insert(key, secret);
            }
            None => {
                node.driver_info.insert(key, value);
            }
        }
    }
    for (key, value) in instance_info {
        let Some(secret) = secret(&old, "instance_info", &key, &value)? else {
            node.instance_info.insert(key, value);
            continue;
        };
        if node.secrets.insert(key.clone(), secret).is_some() {
            let text = format!("`{key}` stands in driver_info and in instance_info; use one of them");
            return Err(ApiError::Invalid(text));
        }
        node.instance_info.insert(key, Value::from(MASK));
    }
    Ok(())
}

/// The secret that a field holds, if it is one.
fn secret(
    old: &std::collections::BTreeMap<String, Secret>,
    place: &str,
    key: &str,
    value: &Value,
) -> ApiResult<Option<Secret>> {
    if !is_secret(key) {
        return Ok(None);
    }
    match value {
        Value::String(text) if text == MASK => match old.get(key) {
            Some(secret) => Ok(Some(secret.clone())),
            None => {
                let text = format!("`/{place}/{key}` is `{MASK}`, but there is no secret to keep");
                Err(ApiError::Invalid(text))
            }
        },
        Value::String(text) => Ok(Some(Secret::new(text.clone()))),
        _ => Err(ApiError::Invalid(format!("`/{place}/{key}` must be a text"))),
    }
}
