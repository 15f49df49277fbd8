//! Where a BMC keeps what we need: found by links from the service root, never by vendor names.

use model::Device;
use serde_json::Value;

use super::json;
use super::turn::Turn;
use crate::BmcError;

const ROOT: &str = "/redfish/v1/";

/// The paths of one server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Topology {
    /// The ComputerSystem.
    pub(super) system: String,
    /// Its Manager, if there is one.
    pub(super) manager: Option<String>,
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

impl Turn<'_> {
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

    async fn discover(&mut self) -> Result<Topology, BmcError> {
        let root = match self.get(ROOT).await {
            Err(BmcError::Unsupported { reason, .. }) => {
                let reason = format!("no Redfish service answers at {ROOT} ({reason})");
                return Err(self.unsupported(reason));
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
            system,
            manager,
            slots: None,
        })
    }

    async fn first_member(&mut self, collection: &str) -> Result<Option<String>, BmcError> {
        let collection = self.get(collection).await?;
        Ok(json::links(&collection, &["Members"]).into_iter().next())
    }

    /// Under the manager (all HPE, most others), else under the system (newer ones).
    async fn find_slots(&mut self, topology: &Topology) -> Result<Vec<Slot>, BmcError> {
        let owners = topology.manager.iter().chain([&topology.system]);
        for owner in owners {
            let owner = self.get(owner).await?;
            let Some(collection) = json::link(&owner, &["VirtualMedia"]) else {
                continue;
            };
            let collection = self.get(&collection).await?;
            let mut slots = Vec::new();
            for path in json::links(&collection, &["Members"]) {
                let member = self.get(&path).await?;
                let types = json::texts(&member, &["MediaTypes"]).unwrap_or_default();
                let any = |names: &[&str]| {
                    types
                        .iter()
                        .any(|of| names.iter().any(|name| of.eq_ignore_ascii_case(name)))
                };
                let (cd, floppy) = (any(&["CD", "DVD"]), any(&["Floppy", "USBStick"]));
                slots.push(Slot { path, cd, floppy });
            }
            if !slots.is_empty() {
                return Ok(slots);
            }
        }
        Ok(Vec::new())
    }
}

/// The slots for a device, best first. A slot that takes both kinds serves one device only, so that the floppy never
/// throws out the CD: dedicated slots go first, then the first free shared one is the CD's and the next the floppy's.
fn assign(slots: &[Slot], device: Device) -> Vec<String> {
    let paths = |keep: &dyn Fn(&&Slot) -> bool| -> Vec<String> {
        slots.iter().filter(keep).map(|slot| slot.path.clone()).collect()
    };
    let (cds, floppies) = (paths(&|s| s.cd && !s.floppy), paths(&|s| s.floppy && !s.cd));
    let mut shared = slots
        .iter()
        .filter(|slot| slot.cd && slot.floppy)
        .map(|slot| slot.path.clone());
    let cds = if cds.is_empty() {
        shared.next().into_iter().collect()
    } else {
        cds
    };
    let floppies = if floppies.is_empty() {
        shared.next().into_iter().collect()
    } else {
        floppies
    };
    match device {
        Device::Cdrom => cds,
        Device::Floppy => floppies,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
