//! What to say to get an image into a slot: the ways a slot offers, and the body that grows or shrinks with each complaint.

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::json::{at, text};
use super::message::Complaint;

/// One way to insert or eject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Way {
    pub(super) kind: Kind,
    pub(super) path: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The action of the VirtualMedia schema.
    Standard,
    /// HPE's own action.
    Oem,
    /// HPE's own action as RIS takes it: at the slot itself, named in the body.
    RisOem,
    /// Writing the properties, where there is no action.
    Patch,
    /// The same on HPE's, which take the image alone and refuse `Inserted`.
    HpePatch,
}

impl Way {
    pub(super) fn method(&self) -> Method {
        match self.kind {
            Kind::Standard | Kind::Oem | Kind::RisOem => Method::POST,
            Kind::Patch | Kind::HpePatch => Method::PATCH,
        }
    }
}

/// HPE's namespaces: iLO 5 and newer, iLO 4.
const HPE: [(&str, &str); 2] = [("Hpe", "HpeiLOVirtualMedia"), ("Hp", "HpiLOVirtualMedia")];

/// The namespace under `Oem` that HPE's part of a resource stands in.
pub(super) fn hpe(resource: &Value) -> Option<&'static str> {
    HPE.iter()
        .map(|(namespace, _)| *namespace)
        .find(|namespace| at(resource, &["Oem", namespace]).is_some_and(Value::is_object))
}

/// The ways to insert, in the order to try them. Only HPE's own action takes a certificate.
pub(super) fn insert_ways(slot: &Value, path: &str, certificate: bool) -> Vec<Way> {
    let mut ways = actions(slot, path, "InsertMedia", "InsertVirtualMedia");
    if certificate {
        ways.sort_by_key(|way| way.kind != Kind::Oem);
    }
    or_patch(ways, slot, path)
}

/// The ways to eject, in the order to try them.
pub(super) fn eject_ways(slot: &Value, path: &str) -> Vec<Way> {
    or_patch(actions(slot, path, "EjectMedia", "EjectVirtualMedia"), slot, path)
}

/// Writing the properties is the only way where there is no action, and the last one on an iLO 4, whose early firmwares list
/// actions that they do not have.
fn or_patch(mut ways: Vec<Way>, slot: &Value, path: &str) -> Vec<Way> {
    let hpe = hpe(slot);
    if ways.is_empty() || hpe == Some("Hp") {
        ways.push(Way {
            kind: if hpe.is_some() { Kind::HpePatch } else { Kind::Patch },
            path: path.to_owned(),
        });
    }
    ways
}

fn actions(slot: &Value, path: &str, standard: &str, oem: &str) -> Vec<Way> {
    let mut ways = Vec::new();
    let mut push = |kind, target: Option<&str>| {
        if let Some(path) = target.filter(|target| !target.is_empty()) {
            ways.push(Way {
                kind,
                path: path.to_owned(),
            });
        }
    };
    let key = format!("#VirtualMedia.{standard}");
    push(Kind::Standard, text(slot, &["Actions", &key, "target"]));
    for (namespace, schema) in HPE {
        let key = format!("#{schema}.{oem}");
        let own = text(slot, &["Oem", namespace, "Actions", &key, "target"]);
        let listed = text(slot, &["Actions", "Oem", &key, "target"]);
        push(Kind::Oem, own.or(listed));
    }
    let listed = at(slot, &["Oem", "Hp", "AvailableActions"]).and_then(Value::as_array);
    let offers = |action: &Value| text(action, &["Action"]) == Some(oem);
    if listed.is_some_and(|actions| actions.iter().any(offers)) {
        push(Kind::RisOem, Some(path));
    }
    ways
}

/// Parameters that a BMC may demand or reject, beside the image itself.
const OPTIONAL: [&str; 6] = [
    "TransferProtocolType",
    "TransferMethod",
    "UserName",
    "Password",
    "Inserted",
    "WriteProtected",
];

/// The body of an insert or eject, as far as it has been worked out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ask {
    image: Option<String>,
    certificate: Option<String>,
    has: [bool; OPTIONAL.len()],
    touched: [bool; OPTIONAL.len()],
}

impl Ask {
    /// The first try: nothing but the image, or what PATCH-only BMCs are known to want.
    pub(super) fn insert(kind: Kind, image: &str, certificate: Option<&str>) -> Self {
        let patch = kind == Kind::Patch;
        Self {
            image: Some(image.to_owned()),
            certificate: certificate.filter(|_| kind == Kind::Oem).map(str::to_owned),
            has: OPTIONAL.map(|name| patch && matches!(name, "Inserted" | "WriteProtected")),
            touched: [false; OPTIONAL.len()],
        }
    }

    /// `{}` for an action; empty properties where there is none.
    pub(super) fn eject(kind: Kind) -> Self {
        Self {
            image: None,
            certificate: None,
            has: OPTIONAL.map(|name| kind == Kind::Patch && name == "Inserted"),
            touched: [false; OPTIONAL.len()],
        }
    }

    /// What to send.
    pub(super) fn body(&self, kind: Kind) -> Value {
        let mut body = Map::new();
        if kind == Kind::RisOem {
            let action = if self.image.is_some() {
                "InsertVirtualMedia"
            } else {
                "EjectVirtualMedia"
            };
            body.insert("Action".into(), json!(action));
            body.insert("Target".into(), json!("/Oem/Hp"));
        }
        match &self.image {
            Some(image) => drop(body.insert("Image".into(), json!(image))),
            None if matches!(kind, Kind::Patch | Kind::HpePatch) => drop(body.insert("Image".into(), Value::Null)),
            None => {}
        }
        if let Some(certificate) = &self.certificate {
            body.insert("Certificate".into(), json!(certificate));
        }
        for (name, _) in OPTIONAL.iter().zip(self.has).filter(|(_, has)| *has) {
            body.insert((*name).into(), self.value(name));
        }
        Value::Object(body)
    }

    /// The next try after a complaint: what it names is added if it was not there and left out if it was, each once.
    /// `None`: it names nothing that we could change.
    pub(super) fn after(&self, complaint: &Complaint) -> Option<Self> {
        let mut next = self.clone();
        for (index, name) in OPTIONAL.iter().enumerate() {
            let credential = matches!(*name, "UserName" | "Password");
            let named = if credential {
                // They go together: a BMC that wants one rarely names both.
                complaint.names("UserName") || complaint.names("Password")
            } else {
                complaint.names(name)
            };
            if named && !self.touched[index] {
                next.has[index] = !self.has[index];
                next.touched[index] = true;
            }
        }
        (next != *self).then_some(next)
    }

    fn value(&self, name: &str) -> Value {
        let https = self.image.as_deref().is_some_and(|image| image.starts_with("https:"));
        match name {
            "TransferProtocolType" => json!(if https { "HTTPS" } else { "HTTP" }),
            "TransferMethod" => json!("Stream"),
            // Some refuse to go without credentials for a server that asks for none.
            "UserName" | "Password" => json!("none"),
            "Inserted" => json!(self.image.is_some()),
            _ => json!(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::StatusCode;
    use reqwest::header::HeaderMap;

    use super::*;

    const URL: &str = "http://h/a.iso";

    fn complaint(about: &[&str]) -> Complaint {
        let infos: Vec<Value> = about
            .iter()
            .map(|name| json!({"MessageId": "Base.1.0.ActionParameterMissing", "MessageArgs": ["InsertMedia", name]}))
            .collect();
        let body = json!({"error": {"@Message.ExtendedInfo": infos}}).to_string();
        Complaint::read(StatusCode::BAD_REQUEST, &HeaderMap::new(), body.as_bytes(), &[])
    }

    fn climb(kind: Kind, complaints: &[&[&str]]) -> Vec<String> {
        let mut ask = Some(Ask::insert(kind, URL, None));
        let mut bodies = vec![ask.as_ref().unwrap().body(kind).to_string()];
        for about in complaints {
            ask = ask.and_then(|ask| ask.after(&complaint(about)));
            bodies.push(ask.as_ref().map_or("give up".into(), |ask| ask.body(kind).to_string()));
        }
        bodies
    }

    #[test]
    fn each_rung_answers_one_complaint() {
        assert_eq!(
            climb(
                Kind::Standard,
                &[&["TransferProtocolType"], &["TransferMethod"], &["UserName"], &["Frob"]]
            ),
            [
                r#"{"Image":"http://h/a.iso"}"#,
                r#"{"Image":"http://h/a.iso","TransferProtocolType":"HTTP"}"#,
                r#"{"Image":"http://h/a.iso","TransferMethod":"Stream","TransferProtocolType":"HTTP"}"#,
                r#"{"Image":"http://h/a.iso","Password":"none","TransferMethod":"Stream","TransferProtocolType":"HTTP","UserName":"none"}"#,
                "give up",
            ]
        );
        assert_eq!(
            climb(Kind::Patch, &[&["Inserted"], &["WriteProtected"], &["Inserted"]]),
            [
                r#"{"Image":"http://h/a.iso","Inserted":true,"WriteProtected":true}"#,
                r#"{"Image":"http://h/a.iso","WriteProtected":true}"#,
                r#"{"Image":"http://h/a.iso"}"#,
                "give up",
            ]
        );
        assert_eq!(
            climb(Kind::Patch, &[&["Inserted", "WriteProtected"]])[1],
            r#"{"Image":"http://h/a.iso"}"#
        );
    }

    #[test]
    fn the_ladder_ends_whatever_a_bmc_complains_about() {
        let mut ask = Ask::insert(Kind::Standard, URL, None);
        let everything = complaint(&OPTIONAL);
        let mut rungs = 0;
        while let Some(next) = ask.after(&everything) {
            ask = next;
            rungs += 1;
        }
        assert_eq!(rungs, 1);
    }

    #[test]
    fn a_certificate_goes_first_to_the_only_action_that_takes_it() {
        let slot = json!({
            "Actions": {"#VirtualMedia.InsertMedia": {"target": "/s"}},
            "Oem": {"Hpe": {"Actions": {"#HpeiLOVirtualMedia.InsertVirtualMedia": {"target": "/o"}}}},
        });
        let kinds = |certificate| -> Vec<Kind> {
            insert_ways(&slot, "/p", certificate)
                .iter()
                .map(|way| way.kind)
                .collect()
        };
        assert_eq!(kinds(false), [Kind::Standard, Kind::Oem]);
        assert_eq!(kinds(true), [Kind::Oem, Kind::Standard]);
        let ask = Ask::insert(Kind::Oem, "https://h/a.iso", Some("PEM"));
        assert_eq!(
            ask.body(Kind::Oem),
            json!({"Image": "https://h/a.iso", "Certificate": "PEM"})
        );
    }

    #[test]
    fn a_slot_without_actions_is_written_to() {
        let patch = [Way {
            kind: Kind::Patch,
            path: "/p".into(),
        }];
        assert_eq!(insert_ways(&json!({}), "/p", false), patch);
        assert_eq!(eject_ways(&json!({"Actions": {"Oem": {}}}), "/p"), patch);
        assert_eq!(
            Ask::eject(Kind::Patch).body(Kind::Patch),
            json!({"Image": null, "Inserted": false})
        );
        assert_eq!(Ask::eject(Kind::Standard).body(Kind::Standard), json!({}));
    }
}
