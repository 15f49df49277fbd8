//! What a BMC says when it says no: Redfish `@Message.ExtendedInfo` (DSP0266 clause 8.6) to what a caller can do about it.

use std::time::Duration;

use model::BmcAddress;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::{BmcError, text};

/// Most messages of one answer that are looked at.
const MESSAGES_CAP: usize = 16;
/// Longest wait that a BMC may ask for.
const RETRY_CAP: Duration = Duration::from_secs(3600);

/// What can be done about a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// User, password or privileges.
    Login,
    /// The licence.
    License,
    /// In POST or between states: the same request again, soon.
    Transient,
    /// Taken or throttled: again, but not at once.
    Busy,
    /// The server's own failure: a few more tries.
    Server,
    /// No such resource.
    NotFound,
    /// No such function on this resource.
    NotSupported,
    /// It wants to see the current ETag.
    Precondition,
    /// A definite no.
    Refused,
}

/// Message ids (their last part) and what they mean to us: the Base registry (DSP8011), HPE's `iLO` registry, and Dell's codes.
static KNOWN: &[(&str, Cause)] = &[
    ("LicenseKeyRequired", Cause::License),
    ("UnauthorizedLoginAttempt", Cause::Login),
    ("NoValidSession", Cause::Login),
    ("InsufficientPrivilege", Cause::Login),
    ("AccountForSessionNoLongerExists", Cause::Login),
    ("LoginAttemptDelayed", Cause::Busy),
    ("LoginAttemptDelayedSeconds", Cause::Busy),
    ("UnableToModifyDuringSystemPOST", Cause::Transient),
    ("InvalidOperationForSystemState", Cause::Transient),
    ("ResourceInStandby", Cause::Transient),
    ("ServiceTemporarilyUnavailable", Cause::Transient),
    ("ServiceShuttingDown", Cause::Transient),
    ("ResetInProgress", Cause::Transient),
    ("SYS518", Cause::Transient),
    ("ResourceInUse", Cause::Transient),
    ("MaxVirtualMediaConnectionEstablished", Cause::Busy),
    ("NoVirtualMediaConnectionAvailable", Cause::Busy),
    ("UnableToModifyAfterVirtualMediaInsert", Cause::Busy),
    ("SessionLimitExceeded", Cause::Busy),
    ("CreateLimitReachedForResource", Cause::Busy),
    ("RAC0218", Cause::Busy),
    ("VRM0021", Cause::Busy),
    ("RAC0720", Cause::Refused),
    ("RAC0904", Cause::Refused),
    ("SYS458", Cause::Refused),
    ("NoScriptedVirtualMediaConnectionAvailable", Cause::Busy),
    ("PasswordChangeRequired", Cause::Login),
    ("VirtualMediaIsDisabled", Cause::Refused),
    ("ActionNotSupported", Cause::NotSupported),
    ("UnsupportedOperation", Cause::NotSupported),
    ("OperationNotAllowed", Cause::NotSupported),
    ("PropertyNotWritableOrUnknown", Cause::Refused),
    ("PropertyNotWritable", Cause::Refused),
    ("PropertyUnknown", Cause::Refused),
    ("ActionParameterMissing", Cause::Refused),
    ("ActionParameterUnknown", Cause::Refused),
    ("ActionParameterNotSupported", Cause::Refused),
    ("PropertyMissing", Cause::Refused),
    ("ResourceMissingAtURI", Cause::NotFound),
    ("PreconditionRequired", Cause::Precondition),
];

/// A refusal, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Complaint {
    pub(super) status: StatusCode,
    pub(super) cause: Cause,
    pub(super) retry_after: Option<Duration>,
    messages: Vec<Message>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Message {
    /// Last part of `MessageId`.
    id: String,
    text: String,
    /// `MessageArgs` and `RelatedProperties`.
    args: Vec<String>,
}

impl Complaint {
    /// Reads an answer that is not a success. `hide` holds texts that must not be repeated.
    pub(super) fn read(status: StatusCode, headers: &HeaderMap, body: &[u8], hide: &[String]) -> Self {
        let messages = serde_json::from_slice(body)
            .map(|body| messages(&body, hide))
            .unwrap_or_default();
        let known = messages.iter().find_map(|message| {
            let known = KNOWN.iter().find(|(id, _)| *id == message.id);
            known.map(|(_, cause)| *cause)
        });
        // A status that says who or where beats a message that merely says "refused".
        let cause = match (known, by_status(status)) {
            (Some(Cause::Refused) | None, by_status) => by_status,
            (Some(cause), _) => cause,
        };
        Self {
            status,
            cause,
            retry_after: retry_after(headers),
            messages,
        }
    }

    /// Whether a message names this property or parameter.
    pub(super) fn names(&self, property: &str) -> bool {
        let word = |text: &str| {
            text.split(|c: char| !c.is_ascii_alphanumeric())
                .any(|word| word == property)
        };
        self.messages
            .iter()
            .any(|message| word(&message.text) || message.args.iter().any(|arg| word(arg)))
    }

    /// Whether a slot that showed nothing says that it holds something.
    pub(super) fn says_occupied(&self) -> bool {
        OCCUPIED.iter().any(|id| self.has(id))
    }

    /// Whether there is a message with this id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.messages.iter().any(|message| message.id == id)
    }

    /// In the BMC's words, with its HTTP status.
    pub(super) fn reason(&self) -> String {
        let mut reason = format!("HTTP {}", self.status.as_u16());
        for message in self.messages.iter().take(3) {
            reason.push_str(": ");
            match (message.id.as_str(), message.text.as_str()) {
                (id, "") => reason.push_str(id),
                ("", text) => reason.push_str(text),
                (id, text) => {
                    reason.push_str(text);
                    reason.push_str(&format!(" ({id})"));
                }
            }
        }
        for (id, remedy) in REMEDIES {
            if self.has(id) {
                reason.push_str("; ");
                reason.push_str(remedy);
            }
        }
        reason
    }

    /// The error that a caller sees.
    pub(super) fn into_error(self, address: &BmcAddress, action: &'static str) -> BmcError {
        let (address, reason) = (address.clone(), self.reason());
        match self.cause {
            Cause::Login => BmcError::Login { address, action },
            Cause::License => BmcError::License { address, action },
            Cause::Transient | Cause::Busy | Cause::Server => BmcError::Busy {
                address,
                action,
                reason,
                retry_after: self.retry_after,
            },
            Cause::NotFound | Cause::NotSupported => BmcError::Unsupported {
                address,
                action,
                reason,
            },
            Cause::Precondition | Cause::Refused => BmcError::Refused {
                address,
                action,
                reason,
            },
        }
    }
}

/// Message ids of a slot that holds something.
static OCCUPIED: &[&str] = &[
    "MaxVirtualMediaConnectionEstablished",
    "UnableToModifyAfterVirtualMediaInsert",
    "VRM0021",
];

/// What an operator can do about some refusals.
static REMEDIES: &[(&str, &str)] = &[
    (
        "VirtualMediaIsDisabled",
        "enable virtual media in the BMC's security settings",
    ),
    (
        "ResourceAtUriUnauthorized",
        "the image server refused the BMC: check what it demands",
    ),
    ("RAC0720", UNREACHED),
    ("RAC0904", UNREACHED),
    (
        "VRM0021",
        "attach virtual media in the BMC's settings, or close the console that uses them",
    ),
    (
        "NoVirtualMediaConnectionAvailable",
        "close the remote console that holds the virtual media",
    ),
    (
        "UnableToModifyDuringSystemPOST",
        "the server is in POST: try again when it is through",
    ),
];

const UNREACHED: &str = "the BMC could not fetch the image: check that it reaches the image server";

fn by_status(status: StatusCode) -> Cause {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Cause::Login,
        StatusCode::NOT_FOUND | StatusCode::GONE => Cause::NotFound,
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Cause::NotSupported,
        StatusCode::PRECONDITION_FAILED | StatusCode::PRECONDITION_REQUIRED => Cause::Precondition,
        StatusCode::TOO_MANY_REQUESTS => Cause::Busy,
        status if status.is_server_error() => Cause::Server,
        _ => Cause::Refused,
    }
}

/// Seconds only: BMC clocks are not worth a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_CAP))
}

/// Messages wherever implementations put them: `error.@Message.ExtendedInfo` (an array or one object), the bare
/// annotation, `Prop@Message.ExtendedInfo`, iLO 4's `Messages`; failing these, `error.code` and `error.message`.
fn messages(body: &Value, hide: &[String]) -> Vec<Message> {
    let mut found = Vec::new();
    for part in [body.get("error"), Some(body)].into_iter().flatten() {
        for (key, value) in part.as_object().into_iter().flatten().take(256) {
            if !key.ends_with("@Message.ExtendedInfo") && key != "Messages" {
                continue;
            }
            let about = key
                .strip_suffix("@Message.ExtendedInfo")
                .filter(|about| !about.is_empty());
            let one = std::slice::from_ref(value);
            for item in value.as_array().map_or(one, Vec::as_slice).iter().take(MESSAGES_CAP) {
                found.push(message(item, about, hide));
            }
        }
    }
    found.truncate(MESSAGES_CAP);
    if found.is_empty()
        && let Some(error) = body.get("error")
    {
        let field = |key| error.get(key).and_then(Value::as_str).unwrap_or_default();
        found.push(Message {
            id: last_part(field("code")),
            text: text::fit(field("message"), hide),
            args: Vec::new(),
        });
    }
    found.retain(|message| !(message.id.is_empty() && message.text.is_empty()));
    found
}

fn message(item: &Value, about: Option<&str>, hide: &[String]) -> Message {
    let field = |key| item.get(key).and_then(Value::as_str);
    let list = |key| item.get(key).and_then(Value::as_array).into_iter().flatten();
    Message {
        id: last_part(field("MessageId").or(field("MessageID")).unwrap_or_default()),
        text: text::fit(field("Message").unwrap_or_default(), hide),
        args: list("MessageArgs")
            .chain(list("RelatedProperties"))
            .filter_map(Value::as_str)
            .chain(about)
            .take(MESSAGES_CAP)
            .map(|arg| text::fit(arg, hide))
            .collect(),
    }
}

fn last_part(id: &str) -> String {
    let last = id.rsplit('.').next().unwrap_or_default();
    last.chars().filter(|c| c.is_ascii_graphic()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(status: u16, body: &Value) -> Complaint {
        let status = StatusCode::from_u16(status).unwrap();
        Complaint::read(
            status,
            &HeaderMap::new(),
            body.to_string().as_bytes(),
            &["s3cr3t".into()],
        )
    }

    fn extended(id: &str) -> Value {
        json!({"error": {"code": "iLO.0.10.ExtendedInfo", "@Message.ExtendedInfo": [{"MessageId": id}]}})
    }

    #[test]
    fn every_refusal_becomes_what_a_caller_can_do_about_it() {
        use Cause::*;
        for (status, id, want) in [
            (400, "iLO.2.14.LicenseKeyRequired", License),
            (400, "iLO.2.14.UnableToModifyDuringSystemPOST", Transient),
            (400, "iLO.2.14.InvalidOperationForSystemState", Transient),
            (400, "iLO.2.14.UnauthorizedLoginAttempt", Login),
            (400, "iLO.2.14.LoginAttemptDelayed", Busy),
            (400, "iLO.2.14.MaxVirtualMediaConnectionEstablished", Busy),
            (400, "IDRAC.2.8.VRM0021", Busy),
            (400, "IDRAC.2.8.RAC0720", Refused),
            (403, "Base.1.12.PasswordChangeRequired", Login),
            (400, "iLO.2.14.VirtualMediaIsDisabled", Refused),
            (400, "Base.1.4.PropertyNotWritableOrUnknown", Refused),
            (400, "Base.1.4.ActionParameterMissing", Refused),
            (400, "Base.1.4.ActionNotSupported", NotSupported),
            (400, "Base.1.4.ResourceAtUriUnauthorized", Refused),
            (401, "Base.1.4.ResourceAtUriUnauthorized", Login),
            (401, "Base.1.4.NoValidSession", Login),
            (403, "Base.1.4.InsufficientPrivilege", Login),
            (404, "Base.1.4.ResourceMissingAtURI", NotFound),
            (503, "Base.1.4.ServiceTemporarilyUnavailable", Transient),
            (503, "IDRAC.2.4.SYS518", Transient),
            (500, "Base.1.4.InternalError", Server),
            (405, "", NotSupported),
            (412, "", Precondition),
            (428, "", Precondition),
            (429, "", Busy),
            (502, "", Server),
            (400, "", Refused),
            (418, "Unheard.Of", Refused),
        ] {
            assert_eq!(read(status, &extended(id)).cause, want, "{status} {id}");
        }
    }

    #[test]
    fn messages_are_found_wherever_they_are_put() {
        for body in [
            extended("Base.1.0.PropertyUnknown"),
            json!({"error": {"@Message.ExtendedInfo": {"MessageId": "Base.1.0.PropertyUnknown"}}}),
            json!({"@Message.ExtendedInfo": [{"MessageId": "Base.1.0.PropertyUnknown"}]}),
            json!({"Image@Message.ExtendedInfo": [{"MessageId": "PropertyUnknown"}]}),
            json!({"Messages": [{"MessageID": "Base.0.10.PropertyUnknown"}]}),
            json!({"error": {"code": "Base.1.0.PropertyUnknown", "message": "x"}}),
        ] {
            assert!(read(400, &body).has("PropertyUnknown"), "{body}");
        }
        for body in [
            json!(null),
            json!([]),
            json!({"error": 7}),
            json!({"error": {"@Message.ExtendedInfo": [7, null]}}),
        ] {
            assert_eq!(read(400, &body).reason(), "HTTP 400", "{body}");
        }
    }

    #[test]
    fn a_property_is_named_by_argument_relation_annotation_or_text() {
        for body in [
            json!({"@Message.ExtendedInfo": [{"MessageArgs": ["InsertMedia", "TransferMethod"], "MessageId": "A"}]}),
            json!({"@Message.ExtendedInfo": [{"RelatedProperties": ["#/TransferMethod"], "MessageId": "A"}]}),
            json!({"TransferMethod@Message.ExtendedInfo": [{"MessageId": "A"}]}),
            json!({"error": {"code": "Base.1.0.GeneralError", "message": "needs 'TransferMethod'."}}),
        ] {
            let complaint = read(400, &body);
            assert!(complaint.names("TransferMethod"), "{body}");
            assert!(!complaint.names("Transfer"), "{body}");
        }
    }

    #[test]
    fn a_reason_tells_the_remedy_and_no_secret() {
        let body = json!({"error": {"@Message.ExtendedInfo": [{
            "MessageId": "iLO.2.14.VirtualMediaIsDisabled",
            "Message": "cannot mount http://10.0.0.1/tok3n/a.iso for s3cr3t",
        }]}});
        let error = read(400, &body).into_error(&BmcAddress("https://h".into()), "insert virtual media");
        assert_eq!(
            error.to_string(),
            "https://h refused to insert virtual media: HTTP 400: cannot mount http://10.0.0.1/*** for *** \
             (VirtualMediaIsDisabled); enable virtual media in the BMC's security settings"
        );
    }

    #[test]
    fn a_wait_that_the_bmc_asks_for_is_passed_on_within_reason() {
        for (value, want) in [("7", Some(7)), ("99999999", Some(3600)), ("soon", None), ("-1", None)] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            let complaint = Complaint::read(StatusCode::SERVICE_UNAVAILABLE, &headers, b"", &[]);
            assert_eq!(complaint.retry_after, want.map(Duration::from_secs), "{value}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_answer_makes_it_panic_or_talk_for_long(
            status in 400u16..600,
            key in "(error|Messages|@Message.ExtendedInfo|Image@Message.ExtendedInfo)",
            inner in "(\\[|\\{|null|7|\"[a-z\u{0}-\u{7}é/:@.]{0,400}\"|,|:|\\]|\\}|\"MessageId\"|\"Message\"|\"MessageArgs\"){0,12}",
        ) {
            let status = StatusCode::from_u16(status).unwrap();
            for body in [format!("{{\"{key}\":{inner}}}"), inner] {
                let complaint = Complaint::read(status, &HeaderMap::new(), body.as_bytes(), &[]);
                proptest::prop_assert!(complaint.reason().chars().count() < 2000);
            }
        }
    }
}
