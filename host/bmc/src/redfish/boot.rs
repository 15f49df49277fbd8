//! What the server boots from. Only what changes is sent: some firmwares refuse a property that is written with the value it
//! has.

use model::BootDevice;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::json::{at, kept, link, text, texts};
use super::message::Cause;
use super::turn::{Again, Turn, Unchanged};
use crate::quirks::{self, Remedy};
use crate::{BmcError, BootSettings};

/// The settings that take effect at the next boot.
pub(super) const SETTINGS: [&str; 2] = ["@Redfish.Settings", "SettingsObject"];
/// What a system may be told to boot from; RIS's name for it second.
const ALLOWED: [&str; 2] = [
    "BootSourceOverrideTarget@Redfish.AllowableValues",
    "BootSourceOverrideSupported",
];

/// Where the boot override is written.
pub(super) struct BootPlace {
    /// The resource.
    path: String,
    /// What it shows.
    pub(super) shown: Value,
    /// The other one, where it may have to be written as well.
    elsewhere: Option<String>,
}

impl Turn {
    /// `BootSourceOverrideMode` is never sent: it is documented as writable, and some machines refuse the whole request for it.
    pub(super) async fn set_boot_device(&mut self, device: BootDevice, persistent: bool) -> Result<(), BmcError> {
        let (path, system) = self.system().await?;
        if let Some(value) = self.first_boot_device(&system, device).await? {
            return self.set_first_boot_device(value, persistent).await;
        }
        let place = self.boot_place(&path, &system).await?;
        let target = self.boot_target(&system, &place.shown, device)?;
        let enabled = if persistent { "Continuous" } else { "Once" };
        let kinds = texts(
            &place.shown,
            &["Boot", "BootSourceOverrideEnabled@Redfish.AllowableValues"],
        );
        if let Some(kinds) = kinds.filter(|kinds| !kinds.iter().any(|kind| kind == enabled)) {
            let kinds = kinds.join(", ");
            return Err(self.unsupported(format!("its boot override can be {kinds}, and not {enabled}")));
        }
        let boot = [
            ("BootSourceOverrideTarget", target.as_str()),
            ("BootSourceOverrideEnabled", enabled),
        ];
        self.write_boot(&place, &boot).await
    }

    /// Where the boot override is written. Newer implementations take it at the settings resource only; that is where they show
    /// it, too.
    pub(super) async fn boot_place(&mut self, path: &str, system: &Value) -> Result<BootPlace, BmcError> {
        let settings = link(system, &SETTINGS).filter(|settings| settings != path);
        if let Some(settings) = &settings
            && !tells_boot(system)
        {
            let pending = self.get(settings).await?;
            if tells_boot(&pending) {
                return Ok(BootPlace {
                    path: settings.clone(),
                    shown: pending,
                    elsewhere: None,
                });
            }
        }
        Ok(BootPlace {
            path: path.to_owned(),
            shown: system.clone(),
            elsewhere: settings,
        })
    }

    /// Writes members of `Boot`; at the other place, too, where the first one refuses or says yes and does nothing.
    pub(super) async fn write_boot(&mut self, place: &BootPlace, boot: &[(&str, &str)]) -> Result<(), BmcError> {
        let members: Map<String, Value> = boot
            .iter()
            .map(|(name, value)| ((*name).into(), json!(value)))
            .collect();
        let body = json!({ "Boot": members });
        match self.change(Method::PATCH, &place.path, &body, Again::Freely).await {
            Ok(_) => match &place.elsewhere {
                // A yes that changes nothing: what counts is the other resource.
                Some(settings) if !self.tells(&place.path, boot).await => {
                    let retried = self.change(Method::PATCH, settings, &body, Again::Freely).await;
                    retried.map(drop).map_err(|why| self.unchanged(why))
                }
                _ => Ok(()),
            },
            Err(Unchanged::Refused(complaint)) if matches!(complaint.cause, Cause::Refused | Cause::NotSupported) => {
                let Some(settings) = &place.elsewhere else {
                    return Err(self.refused(complaint));
                };
                let retried = self.change(Method::PATCH, settings, &body, Again::Freely).await;
                retried.map(drop).map_err(|_| self.refused(complaint))
            }
            // Some complain about the tag after they have done it.
            Err(Unchanged::Refused(complaint)) if complaint.cause == Cause::Precondition => {
                if self.tells(&place.path, boot).await {
                    return Ok(());
                }
                Err(self.refused(complaint))
            }
            Err(why) => Err(self.unchanged(why)),
        }
    }

    pub(super) async fn boot_settings(&mut self) -> Result<BootSettings, BmcError> {
        let (path, system) = self.system().await?;
        let shown = self.boot_place(&path, &system).await?.shown;
        let target = kept(&shown, &["Boot", "BootSourceOverrideTarget"]).filter(|target| target != "None");
        let order = texts(&shown, &["Boot", "BootOrder"]).unwrap_or_default();
        let mut settings = match text(&shown, &["Boot", "BootSourceOverrideEnabled"]) {
            Some("Once") => BootSettings { once: target, order },
            Some("Continuous") => BootSettings {
                once: None,
                order: target.into_iter().chain(order).collect(),
            },
            _ => BootSettings { once: None, order },
        };
        if let Some((first, once)) = self.chosen_first_boot_device(&system).await? {
            if once {
                settings.once.get_or_insert(first);
            } else {
                settings.order.insert(0, first);
            }
        }
        Ok(settings)
    }

    async fn tells(&mut self, path: &str, boot: &[(&str, &str)]) -> bool {
        let Ok(shown) = self.get(path).await else {
            return false;
        };
        // What it does not tell at all says nothing about it, as long as it tells the first.
        let is = |(place, (name, value)): (usize, &(&str, &str))| match text(&shown, &["Boot", name]) {
            Some(told) => told == *value,
            None => place > 0,
        };
        boot.iter().enumerate().all(is)
    }

    fn boot_target(&self, system: &Value, shown: &Value, device: BootDevice) -> Result<String, BmcError> {
        let mut remedies = self.remedies(system, None).into_iter();
        let remedy = remedies.find(|remedy| matches!(remedy, Remedy::CdTarget(_)));
        let allowed = ALLOWED.iter().find_map(|key| texts(shown, &["Boot", key]));
        target(allowed.as_deref(), device, remedy).ok_or_else(|| {
            let allowed = allowed.unwrap_or_default().join(", ");
            self.unsupported(format!("it boots from {allowed}, and not from {device:?}"))
        })
    }

    fn remedies(&self, system: &Value, firmware: Option<&str>) -> Vec<Remedy> {
        let vendor = text(system, &["Manufacturer"]).unwrap_or_default();
        let model = text(system, &["Model"]).unwrap_or_default();
        let quirks = quirks::of(vendor, model, firmware);
        quirks
            .map(|quirk| {
                let (symptom, remedy) = (quirk.symptom, quirk.remedy);
                tracing::debug!(bmc = %self.bmc.address, symptom, ?remedy, "known quirk");
                remedy
            })
            .collect()
    }

    /// The value of `ServerBoot.1.FirstBootDevice` for a device where the override would boot the physical one.
    async fn first_boot_device(
        &mut self,
        system: &Value,
        device: BootDevice,
    ) -> Result<Option<&'static str>, BmcError> {
        let value = |remedy: Remedy| match (remedy, device) {
            (Remedy::FirstBootDevice { cd, .. }, BootDevice::Cdrom) => Some(cd),
            (Remedy::FirstBootDevice { floppy, .. }, BootDevice::Floppy) => Some(floppy),
            _ => None,
        };
        // The firmware is looked up only where it can make a difference.
        if self.remedies(system, None).into_iter().find_map(value).is_none() {
            return Ok(None);
        }
        let Some(manager) = self.topology().await?.manager else {
            return Ok(None);
        };
        let manager = self.get(&manager).await?;
        let firmware = text(&manager, &["FirmwareVersion"]);
        Ok(self.remedies(system, firmware).into_iter().find_map(value))
    }

    /// The first boot device that was chosen by the manager's attributes, and whether for one boot only.
    async fn chosen_first_boot_device(&mut self, system: &Value) -> Result<Option<(String, bool)>, BmcError> {
        if self.first_boot_device(system, BootDevice::Cdrom).await?.is_none() {
            return Ok(None);
        }
        let path = self.attributes_path().await?;
        let attributes = self.get(&path).await?;
        let first = kept(&attributes, &["Attributes", "ServerBoot.1.FirstBootDevice"]);
        let once = text(&attributes, &["Attributes", "ServerBoot.1.BootOnce"]) == Some("Enabled");
        Ok(first.filter(|first| first != "Normal").map(|first| (first, once)))
    }

    async fn attributes_path(&mut self) -> Result<String, BmcError> {
        let manager = self.topology().await?.manager;
        let manager = manager.ok_or_else(|| self.unsupported("it has no manager with attributes"))?;
        Ok(format!("{}/Attributes", manager.trim_end_matches('/')))
    }

    async fn set_first_boot_device(&mut self, value: &str, persistent: bool) -> Result<(), BmcError> {
        let path = self.attributes_path().await?;
        let body = json!({"Attributes": {
            "ServerBoot.1.BootOnce": if persistent { "Disabled" } else { "Enabled" },
            "ServerBoot.1.FirstBootDevice": value,
        }});
        self.change(Method::PATCH, &path, &body, Again::Freely)
            .await
            .map(drop)
            .map_err(|why| self.unchanged(why))
    }
}

/// Whether a resource has the boot override to be written.
fn tells_boot(resource: &Value) -> bool {
    ALLOWED
        .iter()
        .chain(&["BootSourceOverrideTarget"])
        .any(|key| at(resource, &["Boot", key]).is_some())
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
