//! What the server boots from, and its firmware's mode. Only what changes is sent: some firmwares refuse a property that
//! is written with the value it has.

use model::{BootDevice, BootMode};
use reqwest::Method;
use serde_json::{Value, json};

use super::json::{at, link, text, texts};
use super::message::Cause;
use super::turn::{Again, Turn, Unchanged};
use crate::BmcError;
use crate::quirks::{self, Remedy};

/// The settings that take effect at the next boot.
const SETTINGS: [&str; 2] = ["@Redfish.Settings", "SettingsObject"];

impl Turn<'_> {
    /// `BootSourceOverrideMode` is never sent: it is documented as writable, and some machines refuse the whole request for it.
    pub(super) async fn set_boot_device(&mut self, device: BootDevice, persistent: bool) -> Result<(), BmcError> {
        let (path, system) = self.system().await?;
        let target = self.boot_target(&system, device)?;
        let enabled = if persistent { "Continuous" } else { "Once" };
        let body = json!({"Boot": {
            "BootSourceOverrideTarget": target,
            "BootSourceOverrideEnabled": enabled,
        }});
        match self.change(Method::PATCH, &path, &body, Again::Freely).await {
            Ok(_) => Ok(()),
            Err(Unchanged::Refused(complaint)) if matches!(complaint.cause, Cause::Refused | Cause::NotSupported) => {
                // Newer implementations take it at the settings resource only.
                let Some(settings) = link(&system, &SETTINGS).filter(|settings| *settings != path) else {
                    return Err(self.refused(complaint));
                };
                let retried = self.change(Method::PATCH, &settings, &body, Again::Freely).await;
                retried.map(drop).map_err(|_| self.refused(complaint))
            }
            Err(why) => Err(self.unchanged(why)),
        }
    }

    fn boot_target(&self, system: &Value, device: BootDevice) -> Result<String, BmcError> {
        let vendor = text(system, &["Manufacturer"]).unwrap_or_default();
        let model = text(system, &["Model"]).unwrap_or_default();
        let quirk = quirks::of(vendor, model);
        if let Some(quirk) = quirk {
            tracing::debug!(bmc = %self.bmc.address, symptom = quirk.symptom, remedy = ?quirk.remedy, "known quirk");
        }
        let allowed = texts(system, &["Boot", "BootSourceOverrideTarget@Redfish.AllowableValues"]);
        target(allowed.as_deref(), device, quirk.map(|quirk| quirk.remedy)).ok_or_else(|| {
            let allowed = allowed.unwrap_or_default().join(", ");
            self.unsupported(format!("it boots from {allowed}, and not from {device:?}"))
        })
    }

    pub(super) async fn boot_mode(&mut self) -> Result<BootMode, BmcError> {
        let (_, system) = self.system().await?;
        let (_, attributes) = self.bios(&system).await?;
        // Without a BIOS resource, the mode of the override is all that tells.
        let named = attributes
            .as_ref()
            .and_then(mode)
            .or_else(|| parse_mode(text(&system, &["Boot", "BootSourceOverrideMode"])?));
        named.ok_or_else(|| self.unsupported("neither its BIOS attributes nor its boot override tell a boot mode"))
    }

    pub(super) async fn set_boot_mode(&mut self, wanted: BootMode) -> Result<(), BmcError> {
        let (_, system) = self.system().await?;
        let (path, attributes) = self.bios(&system).await?;
        let now = attributes.as_ref().and_then(mode);
        let (Some(path), Some(now)) = (path, now) else {
            // Being there already needs no means to get there.
            return match text(&system, &["Boot", "BootSourceOverrideMode"]).and_then(parse_mode) {
                Some(now) if now == wanted => Ok(()),
                _ => {
                    Err(self
                        .unsupported("it has no BIOS attribute BootMode: set the mode in the server's firmware set-up"))
                }
            };
        };
        if now == wanted {
            return Ok(());
        }
        let value = match wanted {
            BootMode::Uefi => "Uefi",
            BootMode::Bios => "LegacyBios",
        };
        self.change(
            Method::PATCH,
            &path,
            &json!({"Attributes": {"BootMode": value}}),
            Again::Freely,
        )
        .await
        .map(drop)
        .map_err(|why| self.unchanged(why))
    }

    /// Where BIOS attributes are written, and what the next boot will use.
    async fn bios(&mut self, system: &Value) -> Result<(Option<String>, Option<Value>), BmcError> {
        let Some(path) = link(system, &["Bios"]) else {
            return Ok((None, None));
        };
        let bios = self.get(&path).await?;
        let Some(settings) = link(&bios, &SETTINGS) else {
            return Ok((Some(path), Some(bios)));
        };
        let pending = self.get(&settings).await?;
        // A settings resource may be empty until something is pending.
        let tells = if mode(&pending).is_some() { pending } else { bios };
        Ok((Some(settings), Some(tells)))
    }

    pub(super) async fn secure_boot(&mut self) -> Result<bool, BmcError> {
        Ok(self.secure_boot_resource().await?.1)
    }

    pub(super) async fn set_secure_boot(&mut self, enabled: bool) -> Result<(), BmcError> {
        let (path, now) = self.secure_boot_resource().await?;
        if now == enabled {
            return Ok(());
        }
        self.change(
            Method::PATCH,
            &path,
            &json!({"SecureBootEnable": enabled}),
            Again::Freely,
        )
        .await
        .map(drop)
        .map_err(|why| self.unchanged(why))
    }

    async fn secure_boot_resource(&mut self) -> Result<(String, bool), BmcError> {
        let (_, system) = self.system().await?;
        let path =
            link(&system, &["SecureBoot"]).ok_or_else(|| self.unsupported("its system has no SecureBoot resource"))?;
        let resource = self.get(&path).await?;
        let enabled = at(&resource, &["SecureBootEnable"])
            .and_then(Value::as_bool)
            .ok_or_else(|| self.unsupported("its SecureBoot resource does not tell SecureBootEnable"))?;
        Ok((path, enabled))
    }
}

/// The name to send: the first of ours that is allowed; the first of ours where nothing is said about it.
fn target(allowed: Option<&[String]>, device: BootDevice, remedy: Option<Remedy>) -> Option<String> {
    let names: &[&str] = match device {
        BootDevice::Cdrom => &["Cd", "UsbCd"],
        BootDevice::Floppy => &["Floppy", "Usb"],
        BootDevice::Disk => &["Hdd"],
        BootDevice::Network => &["Pxe"],
        BootDevice::UefiHttp => &["UefiHttp"],
    };
    let mut names = names.to_vec();
    if let (BootDevice::Cdrom, Some(Remedy::CdTarget(first))) = (device, remedy) {
        names.insert(0, first);
    }
    match allowed {
        None => names.first().copied(),
        Some(allowed) => names
            .into_iter()
            .find(|name| allowed.iter().any(|allowed| allowed == name)),
    }
    .map(str::to_owned)
}

fn mode(bios: &Value) -> Option<BootMode> {
    parse_mode(text(bios, &["Attributes", "BootMode"])?)
}

fn parse_mode(text: &str) -> Option<BootMode> {
    match text.to_ascii_lowercase().as_str() {
        "uefi" => Some(BootMode::Uefi),
        "legacybios" | "legacy" | "bios" => Some(BootMode::Bios),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_target_is_one_that_the_bmc_allows() {
        let ilo = ["None", "Cd", "Hdd", "Usb", "Pxe", "UefiHttp"].map(str::to_owned);
        let usb_cd = Some(Remedy::CdTarget("UsbCd"));
        let both = ["Cd", "UsbCd"].map(str::to_owned);
        for (allowed, device, remedy, want) in [
            (Some(&ilo[..]), BootDevice::Cdrom, None, Some("Cd")),
            (Some(&ilo[..]), BootDevice::Floppy, None, Some("Usb")),
            (Some(&ilo[..]), BootDevice::Disk, None, Some("Hdd")),
            (Some(&ilo[..]), BootDevice::Network, None, Some("Pxe")),
            (Some(&ilo[..]), BootDevice::UefiHttp, None, Some("UefiHttp")),
            (None, BootDevice::Floppy, None, Some("Floppy")),
            (Some(&both[..]), BootDevice::Cdrom, usb_cd, Some("UsbCd")),
            (Some(&both[..1]), BootDevice::Cdrom, usb_cd, Some("Cd")),
            (Some(&both[1..]), BootDevice::Cdrom, None, Some("UsbCd")),
            (Some(&both[..]), BootDevice::Disk, usb_cd, None),
            (Some(&[]), BootDevice::Cdrom, None, None),
        ] {
            assert_eq!(
                target(allowed, device, remedy).as_deref(),
                want,
                "{allowed:?} {device:?}"
            );
        }
    }
}
