//! Who a server says it is, by RIBCL: firmware and licence from the iLO, the rest from the server's SMBIOS records.

use model::{MacAddress, ServerIdentity};

use super::answer::{Answer, Element};
use super::talk::Talk;
use crate::BmcError;

/// Longest text kept from an answer.
const TEXT_CAP: usize = 256;
/// SMBIOS record types: the system, and HPE's own one with the network ports.
const SYSTEM_RECORD: &str = "1";
const PORTS_RECORD: &str = "209";

impl Talk<'_> {
    /// Of the iLO's firmware, where it tells.
    pub(super) async fn version(&mut self) -> Result<Option<String>, BmcError> {
        let firmware = self.call("GET_FW_VERSION", &[]).await?;
        Ok(kept(firmware.attribute("FIRMWARE_VERSION")))
    }

    pub(super) async fn identity(&mut self) -> Result<ServerIdentity, BmcError> {
        let firmware = self.call("GET_FW_VERSION", &[]).await?;
        let processor = kept(firmware.attribute("MANAGEMENT_PROCESSOR"));
        let generation = processor.as_deref().and_then(generation);
        let mut identity = ServerIdentity {
            // Nobody else speaks RIBCL.
            vendor: Some("HPE".to_owned()),
            bmc_model: generation.map(|number| format!("iLO {number}")).or(processor),
            bmc_generation: generation,
            bmc_firmware: kept(firmware.attribute("FIRMWARE_VERSION")),
            bmc_license: kept(firmware.attribute("LICENSE_TYPE")),
            ..ServerIdentity::default()
        };
        if let Some(answer) = self.if_known("GET_PRODUCT_NAME").await? {
            identity.model = kept(answer.element("PRODUCT_NAME").and_then(Element::value));
        }
        if let Some(answer) = self.if_known("GET_HOST_DATA").await? {
            describe(&answer, &mut identity);
        }
        Ok(identity)
    }

    /// `None`: this firmware has no such command.
    async fn if_known(&mut self, command: &str) -> Result<Option<Answer>, BmcError> {
        match self.call(command, &[]).await {
            Ok(answer) => Ok(Some(answer)),
            Err(BmcError::Unsupported { .. } | BmcError::Refused { .. } | BmcError::Protocol { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn describe(answer: &Answer, identity: &mut ServerIdentity) {
    let records = answer.elements().filter(|element| element.name == "SMBIOS_RECORD");
    for record in records {
        let fields = || record.children.iter().filter(|field| field.name == "FIELD");
        let field = |name: &str| {
            let found = fields().find(|field| field.attribute("NAME").is_some_and(|of| of.eq_ignore_ascii_case(name)));
            found.and_then(Element::value)
        };
        match record.attribute("TYPE") {
            Some(SYSTEM_RECORD) => {
                identity.serial = identity.serial.take().or_else(|| kept(field("Serial Number")));
                identity.model = identity.model.take().or_else(|| kept(field("Product Name")));
            }
            Some(PORTS_RECORD) => {
                // Pairs of a port and its address; the iLO's own port is among them.
                let mut port = None;
                for field in fields() {
                    match field.attribute("NAME") {
                        Some("Port") => port = field.value(),
                        Some("MAC") if port.is_none_or(|port| !port.eq_ignore_ascii_case("iLO")) => {
                            identity.macs.extend(
                                field
                                    .value()
                                    .and_then(mac)
                                    .filter(|found| !identity.macs.contains(found)),
                            );
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

fn mac(text: &str) -> Option<MacAddress> {
    let mac: MacAddress = text.replace('-', ":").parse().ok()?;
    (mac.to_string() != "00:00:00:00:00:00").then_some(mac)
}

fn kept(text: Option<&str>) -> Option<String> {
    let text = text?.trim();
    (!text.is_empty()).then(|| text.chars().take(TEXT_CAP).collect())
}

/// The number in "iLO3" or "iLO 4".
fn generation(processor: &str) -> Option<u32> {
    let rest = processor.get(..3).filter(|start| start.eq_ignore_ascii_case("iLO"))?;
    let digits: String = processor[rest.len()..]
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .take(3)
        .collect();
    // The first one bears no number.
    if digits.is_empty() {
        Some(1)
    } else {
        digits.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ilo_tells_its_generation() {
        for (processor, want) in [
            ("iLO2", Some(2)),
            ("iLO 4", Some(4)),
            ("iLO", Some(1)),
            ("RILOE", None),
            ("é", None),
        ] {
            assert_eq!(generation(processor), want, "{processor}");
        }
    }
}
