//! Requests and replies of the simulated Redfish service, and its error documents.

use hyper::header::HeaderMap;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::wording;
use crate::profile::{EtagKind, Meaning, Profile, Success};

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
    /// A body that is not JSON, with its content type.
    pub(crate) text: Option<(&'static str, String)>,
    /// Methods that the resource knows, for `Allow`.
    pub(crate) allow: Option<&'static str>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Path without query and trailing slash.
    pub(crate) fn plain_path(&self) -> &str {
        let path = self.path.split(['?', '#']).next().unwrap_or_default();
        path.trim_end_matches('/')
    }

    /// The same, compared without regard to case.
    pub(crate) fn route(&self) -> String {
        self.plain_path().to_ascii_lowercase()
    }

    /// The body as a JSON object; a missing one is refused.
    pub(crate) fn object(&self, profile: &Profile) -> Result<Map<String, Value>, Reply> {
        if self.body.is_empty() {
            return Err(Reply::says(profile, Meaning::MalformedBody, &[]));
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
            return Err(Reply::says(profile, Meaning::MediaType, &[]));
        }
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(object)) => Ok(object),
            _ => Err(Reply::says(profile, Meaning::MalformedBody, &[])),
        }
    }

    /// The body of an action none of whose parameters is required.
    pub(crate) fn optional_object(&self, profile: &Profile) -> Result<Map<String, Value>, Reply> {
        if self.body.is_empty() {
            return Ok(Map::new());
        }
        self.object(profile)
    }
}

impl Reply {
    fn bare(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: None,
            text: None,
            allow: None,
        }
    }

    /// A resource, with its tag where the service hands out tags.
    pub(crate) fn resource(profile: &Profile, mut body: Value, allow: &'static str) -> Self {
        let tag = tag(profile, &body);
        if let (Some(object), Some(tag)) = (body.as_object_mut(), tag.as_ref().filter(|tag| !tag.is_empty())) {
            object.insert("@odata.etag".into(), tag.clone().into());
        }
        Self {
            headers: tag.map(|tag| ("ETag", tag)).into_iter().collect(),
            body: Some(body),
            allow: Some(allow),
            ..Self::bare(200)
        }
    }

    /// A body that is not JSON.
    pub(crate) fn text(kind: &'static str, text: String, allow: &'static str) -> Self {
        Self {
            text: Some((kind, text)),
            allow: Some(allow),
            ..Self::bare(200)
        }
    }

    /// Elsewhere, method and body to be kept.
    pub(crate) fn moved(location: String) -> Self {
        Self {
            headers: vec![("Location", location)],
            ..Self::bare(308)
        }
    }

    /// One message in the profile's words.
    pub(crate) fn says(profile: &Profile, meaning: Meaning, arguments: &[&str]) -> Self {
        Self::says_all(profile, &[(meaning, arguments)])
    }

    /// Several of them; the first one's status counts.
    pub(crate) fn says_all(profile: &Profile, messages: &[(Meaning, &[&str])]) -> Self {
        let mut status = 200;
        let mut infos = Vec::new();
        for (index, (meaning, arguments)) in messages.iter().enumerate() {
            let (code, info) = info(profile, *meaning, arguments);
            if index == 0 {
                status = code;
            }
            infos.push(info);
        }
        let first = infos.first().cloned().unwrap_or_default();
        let code = match profile.redfish.error_code.as_str() {
            "" => first["MessageId"].clone(),
            code => code.into(),
        };
        let words = match first.get("Message") {
            Some(words) => words.clone(),
            None => "See @Message.ExtendedInfo for more information.".into(),
        };
        Self {
            body: Some(json!({"error": {"code": code, "message": words, "@Message.ExtendedInfo": infos}})),
            ..Self::bare(status)
        }
    }

    /// An error document with exactly this message id.
    pub(crate) fn message(status: u16, id: &str, arguments: &[&str]) -> Self {
        let mut info = json!({ "MessageId": id });
        if !arguments.is_empty() {
            info["MessageArgs"] = json!(arguments);
        }
        Self {
            body: Some(json!({"error": {
                "code": "iLO.0.10.ExtendedInfo",
                "message": "See @Message.ExtendedInfo for more information.",
                "@Message.ExtendedInfo": [info],
            }})),
            ..Self::bare(status)
        }
    }

    /// It was done, as the service says that.
    pub(crate) fn done(profile: &Profile, meaning: Meaning) -> Self {
        match profile.redfish.success {
            Success::Message => Self::says(profile, meaning, &[]),
            Success::Empty => Self::bare(204),
        }
    }

    /// It was accepted, and what becomes of it is told at `task`.
    pub(crate) fn accepted(task: &str, body: Value) -> Self {
        Self {
            headers: vec![("Location", task.to_owned())],
            body: Some(body),
            ..Self::bare(202)
        }
    }

    /// 200 and the message `Success`, or 204.
    pub(crate) fn success(profile: &Profile) -> Self {
        Self::done(profile, Meaning::Success)
    }

    pub(crate) fn message_id(&self) -> Option<String> {
        let info = self.body.as_ref()?.get("error")?;
        let id = info.get("@Message.ExtendedInfo")?.get(0)?.get("MessageId")?;
        id.as_str().map(str::to_owned)
    }
}

fn info(profile: &Profile, meaning: Meaning, arguments: &[&str]) -> (u16, Value) {
    let facts = &profile.redfish;
    let (status, id, words) = wording::standard(meaning);
    let own = facts.messages.get(&meaning);
    let status = own.and_then(|own| own.status).unwrap_or(status);
    let id = match own.and_then(|own| own.id.as_deref()) {
        None => format!("{}.{id}", facts.base_registry),
        Some(id) => match id.strip_prefix("Base.") {
            Some(name) if !name.contains('.') => format!("{}.{name}", facts.base_registry),
            _ if id.contains('.') => id.to_owned(),
            _ => format!("{}.{id}", facts.vendor_registry),
        },
    };
    let arguments = if own.is_some_and(|own| own.no_args) {
        &[]
    } else {
        arguments
    };
    let mut info = json!({ "MessageId": id });
    if !facts.message_text {
        if !arguments.is_empty() {
            info["MessageArgs"] = json!(arguments);
        }
        return (status, info);
    }
    let mut words = own.and_then(|own| own.text.as_deref()).unwrap_or(words).to_owned();
    for (number, argument) in (1..).zip(arguments) {
        words = words.replace(&format!("%{number}"), argument);
    }
    info["@odata.type"] = "#Message.v1_0_8.Message".into();
    info["Message"] = words.into();
    info["MessageArgs"] = json!(arguments);
    info["Severity"] = if status < 400 { "OK" } else { "Critical" }.into();
    info["Resolution"] = "None".into();
    if let Some(last) = arguments.last().filter(|_| wording::is_about_member(meaning)) {
        info["RelatedProperties"] = json!([format!("#/{last}")]);
    }
    (status, info)
}

/// What the `ETag` header holds: eight hexadecimal digits over the content. `None`: no header.
pub(crate) fn tag(profile: &Profile, body: &Value) -> Option<String> {
    let digest = Sha256::digest(body.to_string().as_bytes());
    let plain = format!(
        "\"{:02X}{:02X}{:02X}{:02X}\"",
        digest[0], digest[1], digest[2], digest[3]
    );
    match profile.redfish.etag {
        EtagKind::Strong => Some(plain),
        EtagKind::Weak | EtagKind::WeakByTheBook => Some(format!("W/{plain}")),
        EtagKind::Empty => Some(String::new()),
        EtagKind::Missing => None,
    }
}

/// Whether `If-Match` lets a change of this content pass.
pub(crate) fn matches(profile: &Profile, body: &Value, wanted: &str) -> bool {
    if wanted.trim() == "*" {
        return true;
    }
    let Some(tag) = tag(profile, body).filter(|tag| !tag.is_empty()) else {
        return false;
    };
    match profile.redfish.etag {
        EtagKind::WeakByTheBook => tag.strip_prefix("W/") == Some(wanted),
        _ => tag == wanted,
    }
}
