//! Picking values out of answers that may hold anything. Links are found in Redfish's form and in that of RIS, its forerunner,
//! which keeps them all under `links` and calls them `href`.

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

/// The link (`@odata.id`, else `href`) under a path of keys.
pub(super) fn link(value: &Value, keys: &[&str]) -> Option<String> {
    let target = at(value, keys).and_then(reference);
    target.or_else(|| at(value.get("links")?, keys).and_then(reference))
}

/// The links of a collection or of an array of references under a path of keys.
pub(super) fn links(value: &Value, keys: &[&str]) -> Vec<String> {
    let array = |value: &Value, keys: &[&str]| at(value, keys).and_then(Value::as_array).cloned();
    let old = || {
        let keys: Vec<&str> = keys
            .iter()
            .filter(|key| **key != "Links")
            .map(|key| if *key == "Members" { "Member" } else { key })
            .collect();
        array(value.get("links")?, &keys)
    };
    let members = array(value, keys).or_else(old).unwrap_or_default();
    let members = members.iter().take(MEMBERS_CAP);
    members.filter_map(reference).collect()
}

fn reference(target: &Value) -> Option<String> {
    let found = text(target, &["@odata.id"]).or_else(|| text(target, &["href"]));
    found.map(str::to_owned)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn links_are_found_in_both_forms() {
        let redfish = json!({
            "Systems": {"@odata.id": "/redfish/v1/Systems"},
            "Members": [{"@odata.id": "/redfish/v1/Systems/1"}],
            "Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/1"}]},
        });
        let ris = json!({"links": {
            "Systems": {"href": "/rest/v1/Systems"},
            "Member": [{"href": "/rest/v1/Systems/1"}],
            "ManagedBy": [{"href": "/rest/v1/Managers/1"}],
        }});
        for (resource, root) in [(redfish, "/redfish/v1"), (ris, "/rest/v1")] {
            assert_eq!(link(&resource, &["Systems"]).unwrap(), format!("{root}/Systems"));
            assert_eq!(links(&resource, &["Members"]), [format!("{root}/Systems/1")]);
            assert_eq!(
                links(&resource, &["Links", "ManagedBy"]),
                [format!("{root}/Managers/1")]
            );
        }
        for nonsense in [
            json!(null),
            json!([]),
            json!({"Systems": 7, "Members": "x", "links": []}),
        ] {
            assert_eq!(link(&nonsense, &["Systems"]), None);
            assert_eq!(links(&nonsense, &["Members"]), [""; 0]);
        }
    }
}
