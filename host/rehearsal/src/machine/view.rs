//! How a world stands, as scenario files write it; and which of its changes no journal entry names.

use model::{BootDevice, PowerState};
use serde_json::{Map, Value as Json, json};

use super::{Machine, Slot};

impl Machine {
    /// What a scenario's `expect.world` is compared with. Nothing in it differs between two runs that did the same: no names
    /// of artefacts, no versions, no times.
    pub(crate) fn view(&self) -> Json {
        let artefacts: Map<String, Json> = self
            .artefacts
            .iter()
            .map(|(kind, artefact)| {
                let lasting = artefact.expires.is_none();
                let about = json!({"backend": artefact.backend, "digest": artefact.digest, "lasting": lasting});
                (kind.as_str().to_owned(), about)
            })
            .collect();
        let state = self.state.iter().map(|((_, key), there)| (key, &there.value));
        let kept = state.chain(&self.kept);
        let state: Map<String, Json> = kept.map(|(key, value)| (key.clone(), value.clone().into())).collect();
        json!({
            "power": power(self.power),
            "boot-mode": self.boot_mode.map_or("unsupported", model::BootMode::as_str),
            "secure-boot": self.secure_boot.map_or(json!("unsupported"), Json::Bool),
            "boot-device": self.boot_device.map(|(device, persistent)| json!({
                "device": boot_device(device), "persistent": persistent,
            })),
            "cdrom": self.slot_view(&self.cdrom),
            "floppy": self.slot_view(&self.floppy),
            "artefacts": artefacts,
            "state": state,
            "redfish": self.redfish,
        })
    }

    /// What two runs that came to the same must show alike. Where it is published is the affair of another policy, which
    /// passes a backend over that has just failed.
    pub(crate) fn end(&self) -> Json {
        let mut view = self.view();
        if let Some(artefacts) = view.get_mut("artefacts").and_then(Json::as_object_mut) {
            for artefact in artefacts.values_mut().filter_map(Json::as_object_mut) {
                artefact.remove("backend");
            }
        }
        view
    }

    fn slot_view(&self, slot: &Slot) -> Json {
        match slot {
            Slot::Missing => json!("missing"),
            Slot::Empty => json!("empty"),
            Slot::Holds(medium) => match self.kind_of(&medium.url) {
                Some(kind) => json!({"artefact": kind.as_str()}),
                None => json!({"url": medium.display}),
            },
        }
    }
}

/// The parts of a world that differ though no journalled effect (action and detail) would change them.
pub(crate) fn unnamed(before: &Machine, after: &Machine, journal: &[(String, String)]) -> Vec<String> {
    let named = |actions: &[&str], about: &str| {
        journal
            .iter()
            .any(|(action, detail)| actions.contains(&action.as_str()) && detail.starts_with(about))
    };
    let mut changed = Vec::new();
    for (slot, differs) in [
        ("cdrom", before.cdrom != after.cdrom),
        ("floppy", before.floppy != after.floppy),
    ] {
        if differs && !named(&["bmc.insert", "bmc.eject"], slot) {
            changed.push(format!("/{slot}"));
        }
    }
    for (part, differs, actions) in [
        (
            "/boot-device",
            before.boot_device != after.boot_device,
            &["bmc.set-boot-device", "bmc.insert"][..],
        ),
        (
            "/boot-mode",
            before.boot_mode != after.boot_mode,
            &["bmc.set-boot-mode"][..],
        ),
        (
            "/secure-boot",
            before.secure_boot != after.secure_boot,
            &["bmc.set-secure-boot"][..],
        ),
        ("/power", before.power != after.power, &["power.set"][..]),
        ("/redfish", before.redfish != after.redfish, &["bmc-raw.redfish"][..]),
    ] {
        if differs && !named(actions, "") {
            changed.push(part.to_owned());
        }
    }
    for kind in model::ArtefactKind::ALL {
        let differs = before.artefacts.get(&kind) != after.artefacts.get(&kind);
        let own = ["storage.publish", "storage.withdraw"];
        // A renewal is journalled by the URL that it is about.
        if differs && !named(&own, kind.as_str()) && !named(&["storage.renew"], "") {
            changed.push(format!("/artefacts/{}", kind.as_str()));
        }
    }
    // What a plugin keeps stands in the node's record itself, and is no effect.
    let (old, new) = (before.view(), after.view());
    let show = |view: &Json, part: &str| {
        view.pointer(part)
            .map_or_else(|| "nothing".to_owned(), crate::calls::show)
    };
    let line = |part: &String| {
        let name = part.trim_start_matches('/').replace('/', ".");
        format!("{name} was {}, is {}", show(&old, part), show(&new, part))
    };
    changed.iter().map(line).collect()
}

fn power(state: PowerState) -> &'static str {
    match state {
        PowerState::On => "on",
        PowerState::Off => "off",
        PowerState::Unknown => "unknown",
    }
}

fn boot_device(device: BootDevice) -> &'static str {
    match device {
        BootDevice::Cdrom => "cdrom",
        BootDevice::Floppy => "floppy",
        BootDevice::Disk => "disk",
        BootDevice::Network => "network",
        BootDevice::UefiHttp => "uefi-http",
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::machine::{Artefact, Medium};

    #[test]
    fn a_change_is_named_by_an_effect_on_the_same_thing_only() {
        let before = Machine::new(7, UNIX_EPOCH, vec![]);
        let mut after = before.clone();
        after.cdrom = Slot::Holds(Medium {
            url: "http://a/x.iso".to_owned(),
            display: "http://a/x.iso".to_owned(),
        });
        after.power = PowerState::On;
        let artefact = Artefact {
            backend: "local".to_owned(),
            url: "u".to_owned(),
            digest: "d".to_owned(),
            expires: None,
        };
        after.artefacts.insert(model::ArtefactKind::Floppy, artefact);
        let journal = |entries: &[(&str, &str)]| {
            let entries = entries
                .iter()
                .map(|(action, detail)| ((*action).to_owned(), (*detail).to_owned()));
            unnamed(&before, &after, &entries.collect::<Vec<_>>())
        };
        assert_eq!(journal(&[]).len(), 3);
        let floppy = journal(&[("bmc.insert", "floppy <- x"), ("power.set", "On")]);
        assert_eq!(
            floppy,
            [
                "cdrom was empty, is {url: http://a/x.iso}",
                "artefacts.floppy was nothing, is {backend: local, digest: d, lasting: true}"
            ]
        );
        let all = [
            ("bmc.insert", "cdrom <- x"),
            ("power.set", "On"),
            ("storage.publish", "floppy to local"),
        ];
        assert!(journal(&all).is_empty());
        assert!(unnamed(&before, &before, &[]).is_empty());
    }
}
