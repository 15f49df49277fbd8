//! What must not stand in a recording.

use serde_json::{Map, Value as Json};

/// Stands where something must stand.
const SCRUBBED: &str = "scrubbed";
/// Parts of names of what is secret.
const SECRET: [&str; 8] = [
    "password",
    "passwd",
    "secret",
    "token",
    "credential",
    "private",
    "community",
    "configdrive",
];

/// Whether a field, a parameter or an attribute of this name holds a secret.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|part| name.contains(part))
}

/// A URL without its user and its query; any other text as it stands.
pub(super) fn text(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

/// A node's field or an argument: what is secret keeps its place and loses its value.
pub(super) fn kept(json: Json) -> Json {
    walk(json, &|_| Some(Json::String(SCRUBBED.to_owned())))
}

/// What a call is compared with: what is secret is not compared.
pub(super) fn compared(json: Json) -> Json {
    walk(json, &|_| None)
}

/// `replace` says what stands in place of a secret; `None` = nothing.
fn walk(json: Json, replace: &dyn Fn(&str) -> Option<Json>) -> Json {
    match json {
        Json::String(string) => Json::String(inside(&string, replace)),
        Json::Array(list) => list.into_iter().map(|item| walk(item, replace)).collect(),
        Json::Object(map) => {
            let about_a_secret = map.get("key").and_then(Json::as_str).is_some_and(is_secret);
            let mut scrubbed = Map::new();
            for (key, value) in map {
                // The name of a secret is none.
                let is_name = value.as_object().is_some_and(|value| value.contains_key("secret"));
                let holds_pair = value
                    .as_array()
                    .is_some_and(|list| list.iter().filter_map(Json::as_array).any(|pair| is_secret_pair(pair)));
                let hide = (about_a_secret && key == "value") || (key != "secret" && is_secret(&key)) || holds_pair;
                match hide && !is_name {
                    false => {
                        scrubbed.insert(key, walk(value, replace));
                    }
                    true => {
                        if let Some(instead) = replace(&key) {
                            scrubbed.insert(key, instead);
                        }
                    }
                }
            }
            Json::Object(scrubbed)
        }
        other => other,
    }
}

/// An attribute of a RIBCL command: its name and its value.
fn is_secret_pair(pair: &[Json]) -> bool {
    matches!(pair, [Json::String(name), Json::String(_)] if is_secret(name))
}

/// A text may be JSON itself: the body of a Redfish request.
fn inside(string: &str, replace: &dyn Fn(&str) -> Option<Json>) -> String {
    if string.starts_with(['{', '['])
        && let Ok(json) = serde_json::from_str::<Json>(string)
    {
        return walk(json, replace).to_string();
    }
    text(string)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn urls_lose_their_user_and_their_query() {
        for (url, left) in [
            ("https://user:pw@host:8443/a/b.iso?sig=1#x", "https://host:8443/a/b.iso"),
            ("http://host", "http://host"),
            ("console=ttyS1", "console=ttyS1"),
        ] {
            assert_eq!(text(url), left);
        }
    }

    #[test]
    fn what_is_called_like_a_secret_goes_and_names_of_secrets_stay() {
        let json = json!({
            "driver-info": {"ilo_password": "p", "ilo_address": "10.0.0.1"},
            "parameters": [{"key": "ipa-agent-token", "value": {"secret": "agent-token"}}, {"key": "x-token", "value": "t"}],
            "attributes": [["USER_LOGIN", "a"], ["PASSWORD", "b"]],
            "body": "{\"Password\":\"p\",\"Id\":1}",
        });
        assert_eq!(
            compared(json.clone()),
            json!({
                "driver-info": {"ilo_address": "10.0.0.1"},
                "parameters": [{"key": "ipa-agent-token", "value": {"secret": "agent-token"}}, {"key": "x-token"}],
                "body": "{\"Id\":1}",
            })
        );
        let kept = kept(json).to_string();
        assert!(kept.contains("agent-token") && kept.contains("scrubbed"), "{kept}");
        for secret in ["\"p\"", "\"t\"", "\"b\""] {
            assert!(!kept.contains(secret), "{secret} in {kept}");
        }
    }
}
