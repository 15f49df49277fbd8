//! Boot device and firmware mode by RIBCL.

use model::{BootDevice, BootMode};

use super::answer::Answer;
use super::talk::Talk;
use crate::{BmcError, BootSettings};

/// Most entries of a boot order that are kept.
const ORDER_CAP: usize = 32;

impl Talk<'_> {
    pub(super) async fn set_boot_device(&mut self, device: BootDevice, persistent: bool) -> Result<(), BmcError> {
        let Some(name) = name(device) else {
            return Err(self.unsupported("RIBCL has no UEFI HTTP boot"));
        };
        if !persistent {
            return self.call("SET_ONE_TIME_BOOT", &[("VALUE", name)]).await.map(drop);
        }
        let answer = self.call("GET_PERSISTENT_BOOT", &[]).await?;
        let Some(order) = reordered(&order(&answer), device) else {
            let reason = format!("its boot order has no entry for {device:?}");
            return Err(self.unsupported(reason));
        };
        let arguments: Vec<(&str, &str)> = order.iter().map(|entry| ("DEVICE", entry.as_str())).collect();
        self.call("SET_PERSISTENT_BOOT", &arguments).await.map(drop)
    }

    pub(super) async fn boot_settings(&mut self) -> Result<BootSettings, BmcError> {
        let answer = self.call("GET_ONE_TIME_BOOT", &[]).await?;
        // iLO 2 calls it DEVICE.
        let once = answer
            .element("BOOT_TYPE")
            .and_then(|element| element.value().or_else(|| element.attribute("DEVICE")));
        let once = once
            .filter(|once| !once.eq_ignore_ascii_case("NORMAL"))
            .map(str::to_owned);
        let answer = self.call("GET_PERSISTENT_BOOT", &[]).await?;
        let order = order(&answer).into_iter();
        Ok(BootSettings {
            once,
            order: order.map(Entry::shown).collect(),
        })
    }

    /// Servers whose firmware knows no modes have a BIOS and nothing else.
    pub(super) async fn boot_mode(&mut self) -> Result<BootMode, BmcError> {
        for command in ["GET_PENDING_BOOT_MODE", "GET_CURRENT_BOOT_MODE"] {
            match self.call(command, &[]).await {
                Ok(answer) => match mode(&answer) {
                    Some(mode) => return Ok(mode),
                    // "UNKNOWN", while the server has not booted yet.
                    None => continue,
                },
                Err(BmcError::Unsupported { .. }) => return Ok(BootMode::Bios),
                Err(error) => return Err(error),
            }
        }
        Err(self.unsupported("it does not know its server's boot mode until that has booted once"))
    }

    pub(super) async fn set_boot_mode(&mut self, wanted: BootMode) -> Result<(), BmcError> {
        // One that cannot be told may be set all the same.
        if matches!(self.boot_mode().await, Ok(now) if now == wanted) {
            return Ok(());
        }
        let value = match wanted {
            BootMode::Uefi => "UEFI",
            BootMode::Bios => "LEGACY",
        };
        self.call("SET_PENDING_BOOT_MODE", &[("VALUE", value)]).await.map(drop)
    }
}

fn mode(answer: &Answer) -> Option<BootMode> {
    let value = answer.attribute("VALUE")?.to_ascii_uppercase();
    match value.as_str() {
        "UEFI" => Some(BootMode::Uefi),
        "LEGACY" | "BIOS" => Some(BootMode::Bios),
        _ => None,
    }
}

fn name(device: BootDevice) -> Option<&'static str> {
    match device {
        BootDevice::Cdrom => Some("CDROM"),
        BootDevice::Floppy => Some("FLOPPY"),
        BootDevice::Disk => Some("HDD"),
        BootDevice::Network => Some("NETWORK"),
        BootDevice::UefiHttp => None,
    }
}

/// Parts of the descriptions that UEFI gives to what a device stands for, in upper case.
fn descriptions(device: BootDevice) -> &'static [&'static str] {
    match device {
        BootDevice::Cdrom => &["ILO VIRTUAL USB CD", "ILO VIRTUAL CD"],
        BootDevice::Floppy => &["ILO VIRTUAL USB KEY", "ILO VIRTUAL USB FLOPPY", "ILO VIRTUAL FLOPPY"],
        BootDevice::Disk => &["HARD DRIVE", "HARD DISK", "LOGICAL DRIVE", "RAID", "NVME", "SATA"],
        BootDevice::Network => &["PXE", "NETWORK", "NIC"],
        BootDevice::UefiHttp => &[],
    }
}

/// One entry of the boot order; under UEFI it bears a number for a name and tells what it is beside it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    value: String,
    description: Option<String>,
}

impl Entry {
    fn shown(self) -> String {
        match self.description {
            Some(description) => format!("{} ({description})", self.value),
            None => self.value,
        }
    }

    fn is(&self, device: BootDevice) -> bool {
        if name(device).is_some_and(|name| self.value.eq_ignore_ascii_case(name)) {
            return true;
        }
        let Some(description) = self.description.as_ref().map(|text| text.to_ascii_uppercase()) else {
            // iLO 4 and older call it USB, where it stands for the virtual floppy as well.
            return device == BootDevice::Floppy && self.value.eq_ignore_ascii_case("USB");
        };
        descriptions(device).iter().any(|part| description.contains(part))
    }
}

fn order(answer: &Answer) -> Vec<Entry> {
    // iLO 2: the devices are attributes, and their places the values.
    if let Some(element) = answer.element("GET_PERSISTENT_BOOT") {
        let places = element.attributes.iter();
        let mut places: Vec<(u32, &str)> = places
            .filter_map(|(name, place)| Some((place.trim().parse().ok()?, name.as_str())))
            .collect();
        places.sort_unstable();
        let entries = places.into_iter().take(ORDER_CAP).map(|(_, name)| Entry {
            value: name.to_owned(),
            description: None,
        });
        return entries.collect();
    }
    let devices = answer.elements().filter(|element| element.name == "DEVICE");
    devices
        .filter_map(|device| {
            Some(Entry {
                value: device.value()?.to_owned(),
                description: device.attribute("DESCRIPTION").map(str::to_owned),
            })
        })
        .take(ORDER_CAP)
        .collect()
}

/// The order with the entry for `device` in front and all others after it; `None` if there is no such entry.
fn reordered(order: &[Entry], device: BootDevice) -> Option<Vec<String>> {
    let first = order.iter().position(|entry| entry.is(device))?;
    let mut values: Vec<String> = order.iter().map(|entry| entry.value.clone()).collect();
    values[..=first].rotate_right(1);
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(list: &[(&str, Option<&str>)]) -> Vec<Entry> {
        let list = list.iter();
        list.map(|(value, description)| Entry {
            value: (*value).to_owned(),
            description: description.map(str::to_owned),
        })
        .collect()
    }

    #[test]
    fn an_order_is_read_from_elements_and_from_ilo_2_s_attributes() {
        let read = |xml: &str| {
            let text = format!("<RIBCL><RESPONSE STATUS=\"0x0000\" MESSAGE='No error'/>{xml}</RIBCL>");
            let order = order(&Answer::read(&text).unwrap()).into_iter();
            order.map(|entry| entry.value).collect::<Vec<_>>().join(" ")
        };
        for (xml, want) in [
            (
                "<PERSISTENT_BOOT><DEVICE value=\"CDROM\"/><DEVICE value='HDD'/></PERSISTENT_BOOT>",
                "CDROM HDD",
            ),
            (
                "<GET_PERSISTENT_BOOT\r\n CDROM = \"3\" FLOPPY = \"10\" HDD = \"2\" USB = \"1\" />",
                "USB HDD CDROM FLOPPY",
            ),
            ("<GET_PERSISTENT_BOOT CDROM=\"first\"/>", ""),
        ] {
            assert_eq!(read(xml), want, "{xml}");
        }
    }

    #[test]
    fn a_persistent_device_comes_to_the_front_and_nothing_is_lost() {
        let bios = entries(&[("FLOPPY", None), ("HDD", None), ("CDROM", None), ("NETWORK1", None)]);
        let usb = entries(&[("CDROM", None), ("USB", None)]);
        let uefi = entries(&[
            ("Boot0009", Some("Embedded LOM 1 Port 1 : HP Ethernet (PXE IPv4)")),
            ("Boot000E", Some("HP iLO Virtual USB 2 : HP iLO Virtual USB CD")),
            ("Boot0010", Some("Internal Hard Drive 1 : Smart Array P440ar")),
        ]);
        for (order, device, want) in [
            (&bios, BootDevice::Cdrom, Some("CDROM FLOPPY HDD NETWORK1")),
            (&bios, BootDevice::Floppy, Some("FLOPPY HDD CDROM NETWORK1")),
            (&usb, BootDevice::Floppy, Some("USB CDROM")),
            (&usb, BootDevice::Disk, None),
            (&uefi, BootDevice::Cdrom, Some("Boot000E Boot0009 Boot0010")),
            (&uefi, BootDevice::Disk, Some("Boot0010 Boot0009 Boot000E")),
            (&uefi, BootDevice::Network, Some("Boot0009 Boot000E Boot0010")),
            (&uefi, BootDevice::UefiHttp, None),
        ] {
            let got = reordered(order, device).map(|order| order.join(" "));
            assert_eq!(got.as_deref(), want, "{device:?}");
        }
    }
}
