//! Requests and replies of the simulated Redfish service, and its error documents.

use hyper::header::HeaderMap;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::profile::Profile;

/// One request, read in full.
pub(crate) struct Request {
    pub(crate) method: String,
    /// Path as sent.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// One reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Option<Value>,
    /// Methods that the resource knows, for `Allow`.
    pub(crate) allow: Option<&'static str>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Path without a trailing slash, compared without regard to case as an iLO does.
    pub(crate) fn route(&self) -> String {
        let path = self.path.split(['?', '#']).next().unwrap_or_default();
        path.trim_end_matches('/').to_ascii_lowercase()
    }

    /// The body as a JSON object. An iLO refuses a missing body even where every member is optional.
    pub(crate) fn object(&self, profile: &Profile) -> Result<serde_json::Map<String, Value>, Reply> {
        if self.body.is_empty() {
            return Err(Reply::error(profile, 400, "Base", "MalformedJSON", &[]));
        }
        let json_type = self.header("content-type").is_some_and(|value| {
            value
                .split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .eq_ignore_ascii_case("application/json")
        });
        if !json_type {
            return Err(Reply::error(profile, 415, "iLO", "UnsupportedMediaType", &[]));
        }
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(object)) => Ok(object),
            _ => Err(Reply::error(profile, 400, "Base", "MalformedJSON", &[])),
        }
    }
}

impl Reply {
    /// A resource, with its ETag.
    pub(crate) fn resource(mut body: Value, allow: &'static str) -> Self {
        let etag = etag(&body);
        if let Some(object) = body.as_object_mut() {
            object.insert("@odata.etag".into(), etag.clone().into());
        }
        Self {
            status: 200,
            headers: vec![("ETag", etag)],
            body: Some(body),
            allow: Some(allow),
        }
    }

    /// A message, which is how an iLO also says that all went well.
    /// `registry` is `Base` or `iLO`; the profile knows their versions.
    pub(crate) fn error(profile: &Profile, status: u16, registry: &str, message: &str, arguments: &[&str]) -> Self {
        let prefix = match registry {
            "Base" => profile.base_registry,
            _ => profile.vendor_registry,
        };
        Self::message(status, &format!("{prefix}.{message}"), arguments)
    }

    /// An error document with exactly this message id.
    pub(crate) fn message(status: u16, id: &str, arguments: &[&str]) -> Self {
        let mut info = json!({ "MessageId": id });
        if !arguments.is_empty() {
            info["MessageArgs"] = json!(arguments);
        }
        Self {
            status,
            headers: Vec::new(),
            body: Some(json!({"error": {
                "code": "iLO.0.10.ExtendedInfo",
                "message": "See @Message.ExtendedInfo for more information.",
                "@Message.ExtendedInfo": [info],
            }})),
            allow: None,
        }
    }

    /// 200 and the message `Success`.
    pub(crate) fn success(profile: &Profile) -> Self {
        Self::error(profile, 200, "Base", "Success", &[])
    }

    pub(crate) fn message_id(&self) -> Option<String> {
        let info = self.body.as_ref()?.get("error")?;
        let id = info.get("@Message.ExtendedInfo")?.get(0)?.get("MessageId")?;
        id.as_str().map(str::to_owned)
    }
}

/// A weak tag over the content, eight hexadecimal digits as an iLO's are.
pub(crate) fn etag(body: &Value) -> String {
    let digest = Sha256::digest(body.to_string().as_bytes());
    format!(
        "W/\"{:02X}{:02X}{:02X}{:02X}\"",
        digest[0], digest[1], digest[2], digest[3]
    )
}
