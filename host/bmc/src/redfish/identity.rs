//! Who a server says it is.

use model::ServerIdentity;
use serde_json::Value;

use super::json::{kept, link, links, mac, texts};
use super::turn::Turn;
use crate::BmcError;

impl Turn {
    pub(super) async fn identity(&mut self) -> Result<ServerIdentity, BmcError> {
        let topology = self.topology().await?;
        let system = self.get(&topology.system).await?;
        let mut identity = ServerIdentity {
            vendor: kept(&system, &["Manufacturer"]),
            model: kept(&system, &["Model"]),
            serial: kept(&system, &["SerialNumber"]),
            ..ServerIdentity::default()
        };
        if let Some(path) = &topology.manager {
            let manager = self.get(path).await?;
            identity.bmc_model = kept(&manager, &["Model"]);
            identity.bmc_firmware = kept(&manager, &["FirmwareVersion"])
                .or_else(|| kept(&manager, &["Firmware", "Current", "VersionString"]));
            identity.bmc_license = license(&manager);
            let names = [&identity.bmc_firmware, &identity.bmc_model];
            identity.bmc_generation = names.into_iter().flatten().find_map(|name| generation(name));
        }
        if let Some(path) = link(&system, &["EthernetInterfaces"]) {
            let collection = self.get(&path).await?;
            for path in links(&collection, &["Members"]) {
                let port = self.get(&path).await?;
                let found = mac(&port, "PermanentMACAddress").or_else(|| mac(&port, "MACAddress"));
                identity
                    .macs
                    .extend(found.filter(|found| !identity.macs.contains(found)));
            }
        }
        // RIS has no network ports of its own for a system, but their addresses.
        for address in texts(&system, &["HostCorrelation", "HostMACAddress"])
            .into_iter()
            .flatten()
        {
            let found = address.trim().parse().ok();
            identity
                .macs
                .extend(found.filter(|found| !identity.macs.contains(found)));
        }
        Ok(identity)
    }
}

fn license(manager: &Value) -> Option<String> {
    ["Hpe", "Hp"].iter().find_map(|namespace| {
        let own = ["Oem", namespace, "License"];
        kept(manager, &[own[0], own[1], own[2], "LicenseString"])
            .or_else(|| kept(manager, &[own[0], own[1], own[2], "LicenseType"]))
    })
}

/// The number in "iLO 5 v2.72".
fn generation(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("iLO ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).take(3).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ilo_tells_its_generation() {
        for (name, want) in [
            ("iLO 5 v2.72", Some(5)),
            ("iLO 6", Some(6)),
            ("iLO 99999999999", Some(999)),
            ("iLO", None),
            ("14G Monolithic", None),
        ] {
            assert_eq!(generation(name), want, "{name}");
        }
    }
}
