//! Picking values out of answers that may hold anything.

use model::MacAddress;
use serde_json::Value;

/// Most members of a collection that are looked at.
pub(super) const MEMBERS_CAP: usize = 64;
/// Longest text kept from an answer.
const TEXT_CAP: usize = 256;

/// The value under a dotless path of keys.
pub(super) fn at<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().try_fold(value, |value, key| value.get(key))
}

/// Text under a path of keys.
pub(super) fn text<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a str> {
    at(value, keys)?.as_str()
}

/// Text for keeping: not empty, trimmed and cut.
pub(super) fn kept(value: &Value, keys: &[&str]) -> Option<String> {
    let text = text(value, keys)?.trim();
    (!text.is_empty()).then(|| text.chars().take(TEXT_CAP).collect())
}

/// The link (`@odata.id`) under a path of keys.
pub(super) fn link(value: &Value, keys: &[&str]) -> Option<String> {
    text(at(value, keys)?, &["@odata.id"]).map(str::to_owned)
}

/// The links of a collection or of an array of references under a path of keys.
pub(super) fn links(value: &Value, keys: &[&str]) -> Vec<String> {
    let members = at(value, keys).and_then(Value::as_array);
    members
        .into_iter()
        .flatten()
        .take(MEMBERS_CAP)
        .filter_map(|member| text(member, &["@odata.id"]))
        .map(str::to_owned)
        .collect()
}

/// The texts of an array under a path of keys; `None` if there is no such array.
pub(super) fn texts(value: &Value, keys: &[&str]) -> Option<Vec<String>> {
    let values = at(value, keys)?.as_array()?;
    let texts = values.iter().take(MEMBERS_CAP).filter_map(Value::as_str);
    Some(texts.map(|text| text.chars().take(TEXT_CAP).collect()).collect())
}

/// A MAC address, as BMCs spell it; "N/A" and zeros are none.
pub(super) fn mac(value: &Value, key: &str) -> Option<MacAddress> {
    let mac: MacAddress = text(value, &[key])?.trim().parse().ok()?;
    (mac.to_string() != "00:00:00:00:00:00").then_some(mac)
}
