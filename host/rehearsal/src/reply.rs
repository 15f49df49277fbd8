//! What an entry under `host` answers: checked against the function when the file is read, made into a reply when called.

use model::ArtefactKind;
use runtime::{DriverError, Media, RawReply, Reply, Versioned};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::faults::CAUSES;
use crate::functions::{Function, Shape};
use crate::nearest::{unknown, with_hint};
use crate::nouns::{Kind, MediaFile, Mode, Power, Renewed};

/// A scripted answer.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// As it stands.
    Reply(Reply),
    /// A new image.
    Image(ArtefactKind, ImageFile),
    /// A new location.
    Location(LocationFile),
    /// `storage.find` that finds one of this kind (or nobody says of which).
    Found(LocationFile),
}

/// `image#1`, or a mapping.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ImageFile {
    pub(crate) name: Option<String>,
    pub(crate) size: Option<u64>,
    pub(crate) digest: Option<String>,
}

/// `location#1`, or a mapping.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct LocationFile {
    pub(crate) name: Option<String>,
    pub(crate) backend: Option<String>,
    pub(crate) display: Option<String>,
    pub(crate) digest: Option<String>,
    pub(crate) expires_ms: Option<u64>,
    #[serde(skip)]
    pub(crate) kind: Option<ArtefactKind>,
}

/// The answer of an entry; `with` says of which kind a found artefact is.
pub(crate) fn answer(function: &Function, reply: Option<Json>, with: &Json) -> Result<Answer, String> {
    let Some(reply) = reply else {
        return match function.shape {
            Shape::Done => Ok(Answer::Reply(Reply::Done)),
            Shape::Image(kind) => Ok(Answer::Image(kind, ImageFile::default())),
            Shape::Location => Ok(Answer::Location(LocationFile::default())),
            _ => Err(format!(
                "`{}` gives something back: add `reply` or `error`",
                function.name
            )),
        };
    };
    let reply = match function.shape {
        Shape::Done if reply == json!("ok") => Reply::Done,
        Shape::Done => return Err(format!("`{}` gives nothing back: `reply: ok`", function.name)),
        Shape::Image(kind) => return Ok(Answer::Image(kind, named(reply, "image")?)),
        Shape::Location => return Ok(Answer::Location(named(reply, "location")?)),
        Shape::MaybeLocation if is_none(&reply) => Reply::MaybeLocation(None),
        Shape::MaybeLocation => {
            let mut location: LocationFile = named(reply, "location")?;
            let kind = with.get("kind").cloned().and_then(|kind| typed::<Kind>(kind).ok());
            location.kind = kind.map(|kind| kind.0);
            return Ok(Answer::Found(location));
        }
        Shape::Renewal => Reply::Renewal(typed::<Renewed>(reply)?.0),
        Shape::Number => Reply::Number(typed(reply)?),
        Shape::Value if is_none(&reply) => Reply::Value(None),
        Shape::Value => Reply::Value(Some(typed::<Versioned>(reply)?)),
        Shape::Media if reply == json!("empty") => Reply::Media(Media {
            write_protected: true,
            ..Media::default()
        }),
        Shape::Media => Reply::Media(typed::<MediaFile>(reply)?.into()),
        Shape::Flag => Reply::Flag(typed(reply)?),
        Shape::BootMode => Reply::BootMode(typed::<Mode>(reply)?.0),
        Shape::Power => Reply::Power(typed::<Power>(reply)?.0),
        Shape::Raw => Reply::Raw(raw(reply)?),
        Shape::Text => Reply::Text(typed(reply)?),
    };
    Ok(Answer::Reply(reply))
}

/// `unreachable`, `{unreachable: no route}` or `{other: {code: …, message: …}}`.
pub(crate) fn error(json: Json) -> Result<DriverError, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case")]
    struct Other {
        code: String,
        message: Option<String>,
        retry_after_ms: Option<u32>,
    }
    let (cause, detail) = match json {
        Json::String(cause) => (cause, None),
        Json::Object(map) if map.len() == 1 => match map.into_iter().next() {
            Some((cause, detail)) => (cause, Some(detail)),
            None => return Err("an error has a cause".to_owned()),
        },
        _ => return Err("an error is a cause, or a mapping of one cause to a text".to_owned()),
    };
    if cause == "other" {
        let Other {
            code,
            message,
            retry_after_ms,
        } = typed(detail.unwrap_or_default())?;
        let message = message.unwrap_or_else(|| format!("{code}, by the scenario"));
        return Ok(DriverError::Other {
            code,
            message,
            retry_after_ms,
        });
    }
    let text = match detail {
        None => format!("{cause}, by the scenario"),
        Some(detail) => typed(detail)?,
    };
    Ok(match cause.as_str() {
        "denied" => DriverError::Denied(text),
        "invalid" => DriverError::Invalid(text),
        "not-found" => DriverError::NotFound(text),
        "conflict" => DriverError::Conflict(text),
        "unsupported" => DriverError::Unsupported(text),
        "timeout" => DriverError::Timeout(text),
        "budget" => DriverError::Budget(text),
        "unreachable" => DriverError::Unreachable(text),
        other => {
            let known = unknown("cause of an error", other, CAUSES);
            return Err(format!("{known} (a code of its own is {{other: {{code: …}}}})"));
        }
    })
}

/// The number in `image#1`.
pub(crate) fn number(name: &str, prefix: &str) -> Result<u32, String> {
    name.strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('#'))
        .and_then(|number| number.parse().ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("`{name}` is no handle's name; they are `{prefix}#1`, `{prefix}#2`, …"))
}

/// Into a type, with the nearest name if one is unknown.
pub(crate) fn typed<T: DeserializeOwned>(json: Json) -> Result<T, String> {
    serde_json::from_value(json).map_err(|error| with_hint(&error.to_string()))
}

fn named<T: DeserializeOwned>(reply: Json, prefix: &str) -> Result<T, String> {
    let reply = match reply {
        Json::String(name) => json!({ "name": name }),
        reply => reply,
    };
    if let Some(name) = reply.get("name").and_then(Json::as_str) {
        number(name, prefix)?;
    }
    typed(reply)
}

fn is_none(reply: &Json) -> bool {
    reply.is_null() || *reply == json!("none")
}

/// A body may be a text, or a value that becomes JSON text.
fn raw(reply: Json) -> Result<RawReply, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Raw {
        status: u16,
        #[serde(default)]
        headers: std::collections::BTreeMap<String, String>,
        #[serde(default)]
        body: Json,
    }
    let raw: Raw = typed(reply)?;
    Ok(RawReply {
        status: raw.status,
        headers: raw.headers.into_iter().collect(),
        body: match raw.body {
            Json::Null => String::new(),
            Json::String(text) => text,
            body => body.to_string(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::find;

    #[test]
    fn a_reply_must_have_the_shape_of_its_function() {
        let check = |name: &str, reply: Json| answer(find(name).unwrap(), Some(reply), &json!({}));
        for (name, reply) in [
            ("bmc.eject", json!("ok")),
            ("bmc.media-state", json!("empty")),
            ("bmc.media-state", json!({"inserted": true, "artefact": "floppy"})),
            ("bmc.boot-mode-of", json!("uefi")),
            ("power.state-of", json!("on")),
            ("storage.find", json!("none")),
            ("storage.find", json!("location#7")),
            ("storage.publish", json!({"name": "location#1", "backend": "local"})),
            ("state.get", json!({"version": 1, "value": "v"})),
            ("state.put", json!(1)),
            ("bmc-raw.redfish", json!({"status": 200, "body": {"a": 1}})),
        ] {
            assert!(check(name, reply.clone()).is_ok(), "{name} {reply}");
        }
        for (name, reply, says) in [
            ("bmc.eject", json!(7), "`reply: ok`"),
            ("bmc.media-state", json!({"insertd": true}), "did you mean `inserted`?"),
            ("bmc.boot-mode-of", json!("uefy"), "did you mean `uefi`?"),
            ("storage.publish", json!("image#1"), "`location#1`"),
            ("storage.publish", json!("location#0"), "`location#1`"),
        ] {
            let error = check(name, reply).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let nothing = answer(find("bmc.boot-mode-of").unwrap(), None, &json!({})).unwrap_err();
        assert!(nothing.contains("add `reply`"), "{nothing}");
    }

    #[test]
    fn errors_are_causes_of_the_contract() {
        assert_eq!(error(json!("conflict")).unwrap().cause(), "conflict");
        assert_eq!(
            error(json!({"timeout": "slow"})).unwrap(),
            DriverError::Timeout("slow".into())
        );
        assert_eq!(error(json!({"other": {"code": "x"}})).unwrap().cause(), "x");
        let slip = error(json!("unreachble")).unwrap_err();
        assert!(slip.contains("did you mean `unreachable`?"), "{slip}");
        assert!(error(json!({"a": "b", "c": "d"})).is_err());
    }
}
