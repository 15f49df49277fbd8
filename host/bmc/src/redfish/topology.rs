//! Where a BMC keeps what we need: found by links from the service root, never by vendor names.

use model::Device;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::json;
use super::turn::Turn;
use crate::http::Request;
use crate::names::NO_SERVICE;
use crate::probe::Presence;
use crate::{BmcError, quirks};

/// The paths of one server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Topology {
    /// The ComputerSystem.
    pub(super) system: String,
    /// Its Manager, if there is one.
    pub(super) manager: Option<String>,
    /// The system's `Manufacturer`, or nothing.
    pub(super) vendor: String,
    /// Its virtual media slots, in the BMC's order; `None` until asked for.
    pub(super) slots: Option<Vec<Slot>>,
}

/// A virtual media slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub(super) path: String,
    cd: bool,
    floppy: bool,
}

impl Turn {
    /// System and manager, from the cache or by looking.
    pub(super) async fn topology(&mut self) -> Result<Topology, BmcError> {
        if let Some(known) = self.bmc.topology() {
            return Ok(known);
        }
        let found = self.discover().await?;
        self.bmc.remember_topology(found.clone());
        Ok(found)
    }

    /// The system's resource.
    pub(super) async fn system(&mut self) -> Result<(String, Value), BmcError> {
        let path = self.topology().await?.system;
        let system = self.get(&path).await?;
        Ok((path, system))
    }

    /// The slots that stand for a device.
    pub(super) async fn slots(&mut self, device: Device) -> Result<Vec<String>, BmcError> {
        let mut topology = self.topology().await?;
        let slots = match topology.slots.take() {
            Some(known) => known,
            None => {
                let found = self.find_slots(&topology).await?;
                topology.slots = Some(found.clone());
                self.bmc.remember_topology(topology);
                found
            }
        };
        let chosen = assign(&slots, device);
        if chosen.is_empty() {
            let kind = match device {
                Device::Cdrom => "CD or DVD",
                Device::Floppy => "floppy or USB stick",
            };
            return Err(self.unsupported(format!("it has no virtual media slot for a {kind}")));
        }
        Ok(chosen)
    }

    /// Looks at the root and nothing else; with the credentials only where it is guarded.
    pub(super) async fn presence(&mut self) -> Result<Presence, BmcError> {
        let start = self.bmc.dialect.root();
        let url = self.resolve(start)?;
        let asked = self.exchange(&Method::GET, &url, |url| Request::new(Method::GET, url));
        let mut reply = asked.await?;
        // Some guard even the root, and some guard whatever is asked for, there or not.
        if matches!(reply.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let login = self.basic(None, None);
            let build = |url| login.apply(Request::new(Method::GET, url));
            reply = self.exchange(&Method::GET, &url, build).await?;
        }
        let status = reply.status;
        let absent = |why: &str| Ok(Presence::Absent(format!("HTTP {} at {start}{why}", status.as_u16())));
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
                return absent("");
            }
            status if !status.is_success() => return Err(self.refused(self.complaint(&reply))),
            _ => {}
        }
        let Ok(root) = self.json(&reply) else {
            return absent(", and what it says is not JSON");
        };
        if json::link(&root, &["Systems"]).is_none() {
            return absent(", and what it says is no service root");
        }
        let oem = root.get("Oem").and_then(Value::as_object);
        let oem = oem
            .and_then(|oem| oem.keys().next())
            .map(|key| key.chars().take(64).collect());
        Ok(Presence::Spoken {
            version: json::kept(&root, &["RedfishVersion"]).or_else(|| json::kept(&root, &["ServiceVersion"])),
            oem,
        })
    }

    async fn discover(&mut self) -> Result<Topology, BmcError> {
        let start = self.bmc.dialect.root();
        let root = match self.get(start).await {
            Err(BmcError::Unsupported { reason, .. }) => {
                return Err(self.unsupported(format!("{NO_SERVICE} {start} ({reason})")));
            }
            other => other?,
        };
        let system = match &self.bmc.system {
            Some(path) => path.clone(),
            None => {
                let systems = json::link(&root, &["Systems"])
                    .ok_or_else(|| self.protocol("its service root links to no Systems"))?;
                self.first_member(&systems)
                    .await?
                    .ok_or_else(|| self.protocol("its collection of systems is empty"))?
            }
        };
        let resource = self.get(&system).await?;
        let mut manager = json::links(&resource, &["Links", "ManagedBy"]).into_iter().next();
        if manager.is_none()
            && let Some(managers) = json::link(&root, &["Managers"])
        {
            manager = self.first_member(&managers).await?;
        }
        Ok(Topology {
            vendor: json::kept(&resource, &["Manufacturer"]).unwrap_or_default(),
            system,
            manager,
            slots: None,
        })
    }

    async fn first_member(&mut self, collection: &str) -> Result<Option<String>, BmcError> {
        let collection = self.get(collection).await?;
        Ok(json::links(&collection, &["Members"]).into_iter().next())
    }

    /// Under the manager (all HPE, most others); and under the system where the manager has none for a device.
    async fn find_slots(&mut self, topology: &Topology) -> Result<Vec<Slot>, BmcError> {
        let mut slots: Vec<Slot> = Vec::new();
        let owners = topology.manager.iter().chain([&topology.system]);
        for owner in owners {
            if slots.iter().any(|slot| slot.cd) && slots.iter().any(|slot| slot.floppy) {
                break;
            }
            let owner = self.get(owner).await?;
            let Some(collection) = json::link(&owner, &["VirtualMedia"]) else {
                continue;
            };
            let collection = self.get(&collection).await?;
            for path in json::links(&collection, &["Members"]) {
                if slots.iter().any(|known| known.path == path) {
                    continue;
                }
                let member = self.get(&path).await?;
                slots.push(slot(path, &member));
            }
        }
        if let Some(prefix) = quirks::of(&topology.vendor, "", None).find_map(|quirk| quirk.remedy.slots()) {
            // A stable sort: the others keep their order behind those that the vendor means for images by URL.
            slots.sort_by_key(|slot| !name_of(&slot.path).starts_with(prefix));
        }
        Ok(slots)
    }
}

/// What a slot takes, by its media types; by its name where it does not tell them.
fn slot(path: String, member: &Value) -> Slot {
    let types = json::texts(member, &["MediaTypes"]).unwrap_or_default();
    let any = |names: &[&str]| {
        types
            .iter()
            .any(|of| names.iter().any(|name| of.eq_ignore_ascii_case(name)))
    };
    if types.is_empty() {
        let name = name_of(&path).to_ascii_lowercase();
        let named = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        return Slot {
            cd: named(&["cd", "dvd"]),
            floppy: named(&["floppy", "usb", "removable"]),
            path,
        };
    }
    Slot {
        path,
        cd: any(&["CD", "DVD"]),
        floppy: any(&["Floppy", "USBStick"]),
    }
}

fn name_of(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// The slots for a device, best first. A slot that takes both kinds serves one device only, so that the floppy never
/// throws out the CD: dedicated slots go first; where there are none, the shared ones are the CD's and the floppy's by turns.
fn assign(slots: &[Slot], device: Device) -> Vec<String> {
    let paths = |keep: &dyn Fn(&&Slot) -> bool| -> Vec<String> {
        slots.iter().filter(keep).map(|slot| slot.path.clone()).collect()
    };
    let (cds, floppies) = (paths(&|s| s.cd && !s.floppy), paths(&|s| s.floppy && !s.cd));
    let shared = paths(&|s| s.cd && s.floppy);
    let every_second = |from: usize| shared.iter().skip(from).step_by(2).cloned().collect();
    match (device, cds.is_empty(), floppies.is_empty()) {
        (Device::Cdrom, false, _) => cds,
        (Device::Cdrom, true, false) => shared,
        (Device::Cdrom, true, true) => every_second(0),
        (Device::Floppy, _, false) => floppies,
        (Device::Floppy, false, true) => shared,
        (Device::Floppy, true, true) => every_second(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_without_media_types_is_known_by_its_name() {
        for (name, cd, floppy) in [
            ("CD1", true, false),
            ("RemovableDisk", false, true),
            ("vDVD", true, false),
            ("7", false, false),
        ] {
            let slot = slot(format!("/redfish/v1/Managers/1/VirtualMedia/{name}/"), &Value::Null);
            assert_eq!((slot.cd, slot.floppy), (cd, floppy), "{name}");
        }
    }

    #[test]
    fn slots_are_chosen_by_media_types_and_never_shared_between_devices() {
        let slot = |kind: char, index: usize| Slot {
            path: format!("{kind}{index}"),
            cd: "cs".contains(kind),
            floppy: "fs".contains(kind),
        };
        for (kinds, cds, floppies) in [
            ("fc", vec!["c1"], vec!["f0"]),
            ("ccff", vec!["c0", "c1"], vec!["f2", "f3"]),
            ("ss", vec!["s0"], vec!["s1"]),
            ("s", vec!["s0"], vec![]),
            ("sssss", vec!["s0", "s2", "s4"], vec!["s1", "s3"]),
            ("css", vec!["c0"], vec!["s1", "s2"]),
            ("cs", vec!["c0"], vec!["s1"]),
            ("fs", vec!["s1"], vec!["f0"]),
            ("x", vec![], vec![]),
            ("", vec![], vec![]),
        ] {
            let slots: Vec<Slot> = kinds.chars().zip(0..).map(|(kind, at)| slot(kind, at)).collect();
            assert_eq!(assign(&slots, Device::Cdrom), cds, "{kinds}");
            assert_eq!(assign(&slots, Device::Floppy), floppies, "{kinds}");
        }
    }
}
