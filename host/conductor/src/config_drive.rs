//! Config drives as requests give them: which forms there are, and what is wrong with others. Pure, and the only judge: the API
//! refuses by it before anything is recorded, the conductor asks again before anything is touched.
//!
//! Agents take the URL of a config drive, or its bytes: gzip'd, in base64. A drive may also be given as what stands in it
//! ([`Given::Parts`]); whoever holds the image builder makes one of that.

use std::fmt;

use model::{Node, Secret};
use serde_json::{Map, Value};
use url::Url;

use crate::InstanceError;

/// What a drive may be made of.
const PARTS: [&str; 4] = ["meta_data", "user_data", "network_data", "vendor_data"];

/// A config drive as it was given.
#[derive(Clone, Debug)]
pub enum Given {
    /// As agents take it.
    Ready(Secret),
    /// What stands in it.
    Parts(Parts),
}

/// What stands in a config drive. `Debug` shows none of it: user data hold passwords.
#[derive(Clone, PartialEq)]
pub struct Parts {
    meta_data: Map<String, Value>,
    /// Any text: cloud-config, a script; or JSON (Ignition), written out.
    pub user_data: Option<String>,
    /// How the network is to be set up, in OpenStack's form.
    pub network_data: Option<Map<String, Value>>,
    /// The site's own, for cloud-init.
    pub vendor_data: Option<Map<String, Value>>,
}

impl Parts {
    /// The metadata of this node's drive: what was given, and as in Ironic the node's UUID and name where those were not.
    pub fn meta_data(&self, node: &Node) -> Map<String, Value> {
        let mut meta_data = self.meta_data.clone();
        meta_data
            .entry("uuid")
            .or_insert_with(|| Value::from(node.id.to_string()));
        if let Some(name) = &node.name {
            meta_data.entry("name").or_insert_with(|| Value::from(name.as_str()));
        }
        meta_data
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parts(…)")
    }
}

/// Reads `configdrive` of a request.
pub fn read(given: Value) -> Result<Given, InstanceError> {
    match given {
        Value::String(text) => {
            let drive = Secret::new(text);
            check(&drive)?;
            Ok(Given::Ready(drive))
        }
        Value::Object(parts) => read_parts(parts).map(Given::Parts),
        _ => Err(wrong("is neither a text nor an object")),
    }
}

fn read_parts(mut parts: Map<String, Value>) -> Result<Parts, InstanceError> {
    if let Some(unknown) = parts.keys().find(|key| !PARTS.contains(&key.as_str())) {
        let unknown: String = unknown.chars().take(80).collect();
        return Err(wrong(&format!(
            "has the unknown part `{unknown}`; known are: {}",
            PARTS.join(", ")
        )));
    }
    let mut object = |part: &str| match parts.remove(part) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(wrong(&format!("has a `{part}` that is no object, {{…}}"))),
    };
    let meta_data = object("meta_data")?.unwrap_or_default();
    let network_data = object("network_data")?;
    let vendor_data = object("vendor_data")?;
    if meta_data
        .get("uuid")
        .is_some_and(|uuid| uuid.as_str().is_none_or(str::is_empty))
    {
        return Err(wrong(
            "has a `uuid` in its meta_data that is no text; leave it out for the node's own",
        ));
    }
    let user_data = match parts.remove("user_data") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(json @ (Value::Object(_) | Value::Array(_))) => Some(json.to_string()),
        Some(_) => return Err(wrong("has a `user_data` that is neither a text nor JSON")),
    };
    Ok(Parts {
        meta_data,
        user_data,
        network_data,
        vendor_data,
    })
}

/// Whether agents take it.
pub(crate) fn check(drive: &Secret) -> Result<(), InstanceError> {
    let text = drive.expose().trim();
    if text.starts_with('{') {
        return Err(wrong("is JSON in a text; give the object itself"));
    }
    if text.contains("://") {
        let url = Url::parse(text).ok();
        let fetched = url.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        return match fetched {
            true => Ok(()),
            false => Err(wrong("is no http(s) URL, and the ramdisk fetches it by itself")),
        };
    }
    let base64 = |c: u8| c.is_ascii_alphanumeric() || b"+/=\n\r".contains(&c);
    if text.is_empty() || !text.bytes().all(base64) {
        return Err(wrong(
            "is neither an http(s) URL nor base64 (of a gzip'd image with the label config-2) nor an object",
        ));
    }
    Ok(())
}

pub(crate) fn wrong(problem: &str) -> InstanceError {
    InstanceError {
        place: "configdrive".to_owned(),
        problem: problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::node;

    #[test]
    fn a_drive_is_given_as_a_url_as_base64_or_as_what_stands_in_it() {
        for text in ["H4sIAAAAAAAA/w==", " H4sI\n", "http://h/drive", "https://h/drive?sig=x"] {
            assert!(matches!(read(json!(text)), Ok(Given::Ready(_))), "{text}");
        }
        for (given, part) in [
            (json!(""), "neither"),
            (json!("not base64!"), "neither"),
            (json!("file:///etc/shadow"), "http(s)"),
            (json!("http://"), "http(s)"),
            (json!("{\"meta_data\": {}}"), "the object itself"),
            (json!(7), "neither a text nor an object"),
            (json!([]), "neither a text nor an object"),
            (json!({"users": []}), "unknown part `users`"),
            (json!({"meta_data": []}), "`meta_data` that is no object"),
            (json!({"meta_data": {"uuid": ""}}), "`uuid`"),
            (json!({"network_data": "x"}), "`network_data` that is no object"),
            (json!({"vendor_data": 1}), "`vendor_data` that is no object"),
            (json!({"user_data": 1}), "`user_data`"),
        ] {
            let error = read(given.clone()).unwrap_err().to_string();
            assert!(error.contains(part), "{given}: {error}");
            assert!(error.contains("configdrive") && !error.contains("shadow"), "{error}");
        }
    }

    #[test]
    fn what_stands_in_it_is_completed_with_the_node_and_shown_to_nobody() {
        let given = json!({"meta_data": {"name": "web-1"}, "user_data": {"ignition": {}}, "network_data": null});
        let Given::Parts(parts) = read(given).unwrap() else {
            panic!("no parts");
        };
        let mut node = node();
        node.name = Some("n1".parse().unwrap());
        let meta_data = parts.meta_data(&node);
        assert_eq!(
            Value::from(meta_data),
            json!({"name": "web-1", "uuid": node.id.to_string()})
        );
        assert_eq!(parts.user_data.as_deref(), Some("{\"ignition\":{}}"));
        assert_eq!((parts.network_data.clone(), parts.vendor_data.clone()), (None, None));
        assert_eq!(format!("{parts:?}"), "Parts(…)");
        let Given::Parts(empty) = read(json!({})).unwrap() else {
            panic!("no parts");
        };
        assert_eq!(empty.meta_data(&node)["name"], "n1");
    }
}
