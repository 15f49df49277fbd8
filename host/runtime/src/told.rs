//! A call as scenario files write it, for worlds that record.

use model::{ArtefactKind, PowerState};
use serde_json::{Value as Json, json};

use crate::calls::Media;
use crate::run::{Answer, Entry};
use crate::take_over::{Observation, Repeat, Step, UrlState};
use crate::world::Candidate;

impl Entry {
    /// "vmedia.attach", with its arguments. A location is its handle's number under `location`.
    pub(crate) fn told(&self) -> (String, Json) {
        let role = match self {
            Self::Select(..) => "backend-selection",
            Self::Plan(_) => "take-over",
            Self::Methods | Self::Vendor { .. } => "vendor",
            _ => "vmedia",
        };
        let arguments = match self {
            Self::PrepareRamdisk(parameters) => json!({ "parameters": parameters.iter().map(|parameter| {
                let value = match &parameter.value {
                    crate::Value::Plain(text) => json!(text),
                    crate::Value::Secret(name) => json!({ "secret": name }),
                };
                json!({ "key": parameter.key, "value": value })
            }).collect::<Vec<_>>() }),
            Self::CleanUpRamdisk | Self::PrepareInstance | Self::CleanUpInstance | Self::Methods => json!({}),
            Self::Attach(device, location) => json!({ "device": device.as_str(), "location": location.0 }),
            Self::Detach(device) => json!({ "device": device.as_str() }),
            Self::BootIntoIso(location) => json!({ "location": location.0 }),
            Self::Select(request, candidates) => json!({
                "request": {
                    "kind": request.kind.as_str(), "size": request.size, "lifetime-s": request.lifetime_s,
                },
                "candidates": candidates.iter().map(Candidate::told).collect::<Vec<_>>(),
            }),
            Self::Plan(observation) => json!({ "observation": told_observation(observation) }),
            Self::Vendor { method, arguments } => {
                let arguments = serde_json::from_str(arguments).unwrap_or(Json::Null);
                json!({ "method": method, "arguments": arguments })
            }
        };
        (format!("{role}.{}", self.function()), arguments)
    }
}

impl Answer {
    /// As `expect.result` has it.
    pub(crate) fn told(&self) -> Json {
        match self {
            Self::Done => Json::Null,
            Self::Choice(choice) => json!({ "backend": choice.backend, "reason": choice.reason }),
            Self::Steps(steps) => steps.iter().map(told_step).collect(),
            Self::Methods(methods) => methods.iter().map(|method| json!({ "name": method.name })).collect(),
            Self::Text(text) => serde_json::from_str(text).unwrap_or(Json::Null),
        }
    }
}

impl Candidate {
    /// As `backends` of a scenario file has it.
    pub fn told(&self) -> Json {
        let traits: serde_json::Map<String, Json> = self
            .traits
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into()))
            .collect();
        json!({
            "id": self.id, "kind": self.kind, "healthy": self.healthy, "free-bytes": self.free_bytes,
            "max-lifetime-s": self.max_lifetime_s, "traits": traits,
        })
    }
}

fn told_observation(observation: &Observation) -> Json {
    let artefacts = observation.artefacts.iter().map(|artefact| {
        json!({
            "kind": artefact.kind.as_str(), "backend": artefact.backend, "in-slot": artefact.in_slot,
            "url": match artefact.url {
                UrlState::Serving => "serving",
                UrlState::Dead => "dead",
                UrlState::Unknown => "unknown",
            },
            "expires-in-s": artefact.expires_in_s, "bytes-read": artefact.bytes_read,
        })
    });
    json!({
        "previous-conductor": observation.previous_conductor,
        "power": match observation.power {
            PowerState::On => "on",
            PowerState::Off => "off",
            PowerState::Unknown => "unknown",
        },
        "cdrom": observation.cdrom.as_ref().map(told_media),
        "floppy": observation.floppy.as_ref().map(told_media),
        "artefacts": artefacts.collect::<Vec<_>>(),
        "agent-seen-s-ago": observation.agent_seen_s_ago,
        "interrupted": observation.interrupted.as_ref().map(|step| json!({
            "name": step.name,
            "repeat": match step.repeat {
                Repeat::Repeat => "repeat",
                Repeat::ObserveThenContinue => "observe-then-continue",
                Repeat::Fail => "fail",
            },
        })),
    })
}

fn told_media(media: &Media) -> Json {
    json!({
        "inserted": media.inserted, "connected": media.connected, "write-protected": media.write_protected,
        "artefact": media.artefact.map(ArtefactKind::as_str), "url": media.url,
    })
}

/// A step of a take-over plan as scenario files, recordings and reports of shadows write it: `{"regenerate": "floppy"}`.
pub fn told_step(step: &Step) -> Json {
    match step {
        Step::Regenerate(kind) => json!({ "regenerate": kind.as_str() }),
        Step::Renew(kind) => json!({ "renew": kind.as_str() }),
        Step::Reinsert(kind) => json!({ "reinsert": kind.as_str() }),
        Step::DeferReinsert(kind) => json!({ "defer-reinsert": kind.as_str() }),
        Step::ContinueInterruptedStep => json!("continue-interrupted-step"),
        Step::WaitForAgent => json!("wait-for-agent"),
        Step::Fail(reason) => json!({ "fail": reason }),
    }
}
