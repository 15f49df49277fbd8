//! The server's firmware settings: boot mode, secure boot, UEFI HTTP boot. They take effect at the next boot.

use model::BootMode;
use reqwest::Method;
use serde_json::{Value, json};

use super::boot::SETTINGS;
use super::json::{at, link, text};
use super::message::Cause;
use super::turn::{Again, Turn, Unchanged};
use crate::quirks::{BOOT_MODES, ModeNames};
use crate::{BmcError, image_url};

/// BIOS attributes: where they are written, and what the next boot will use.
struct Bios {
    path: String,
    /// Of the settings resource, else of what is in force; either may tell only some of them.
    pending: Value,
    current: Value,
}

impl Bios {
    /// iLO 4 has its attributes at the top, everybody else under `Attributes`.
    fn is_flat(&self) -> bool {
        self.current.get("Attributes").is_none() && self.pending.get("Attributes").is_none()
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let of = |resource| text(resource, &["Attributes", name]).or_else(|| text(resource, &[name]));
        // A settings resource may be empty until something is pending.
        of(&self.pending).or_else(|| of(&self.current))
    }

    /// What it calls the boot mode, and the one that is set.
    fn mode(&self) -> Option<(&'static ModeNames, BootMode)> {
        BOOT_MODES.iter().find_map(|names| {
            let mode = parse_mode(self.attribute(names.attribute)?)?;
            Some((names, mode))
        })
    }

    fn body(&self, attributes: Value) -> Value {
        if self.is_flat() {
            attributes
        } else {
            json!({"Attributes": attributes})
        }
    }
}

impl Turn {
    pub(super) async fn boot_mode(&mut self) -> Result<BootMode, BmcError> {
        let (_, system) = self.system().await?;
        let bios = self.bios(&system).await?;
        // Without a BIOS resource, the mode of the override is all that tells.
        let named = bios
            .as_ref()
            .and_then(|bios| Some(bios.mode()?.1))
            .or_else(|| parse_mode(text(&system, &["Boot", "BootSourceOverrideMode"])?));
        named.ok_or_else(|| self.unsupported("neither its BIOS attributes nor its boot override tell a boot mode"))
    }

    pub(super) async fn set_boot_mode(&mut self, wanted: BootMode) -> Result<(), BmcError> {
        let (_, system) = self.system().await?;
        let bios = self.bios(&system).await?;
        let Some((bios, (names, now))) = bios.and_then(|bios| bios.mode().map(|mode| (bios, mode))) else {
            // Being there already needs no means to get there.
            return match text(&system, &["Boot", "BootSourceOverrideMode"]).and_then(parse_mode) {
                Some(now) if now == wanted => Ok(()),
                _ => Err(self.unsupported(
                    "it has no BIOS attribute for the boot mode: set the mode in the server's firmware set-up",
                )),
            };
        };
        if now == wanted {
            return Ok(());
        }
        let values = match wanted {
            BootMode::Uefi => names.uefi,
            BootMode::Bios => names.legacy,
        };
        let mut refusal = None;
        for value in values {
            let body = bios.body(json!({names.attribute: value}));
            match self.change(Method::PATCH, &bios.path, &body, Again::Freely).await {
                Ok(_) => return Ok(()),
                // It calls it something else.
                Err(Unchanged::Refused(complaint)) if complaint.cause == Cause::Refused => {
                    refusal.get_or_insert(complaint);
                }
                Err(why) => return Err(self.unchanged(why)),
            }
        }
        Err(match refusal {
            Some(complaint) => self.refused(complaint),
            None => self.unsupported("it has no such boot mode"),
        })
    }

    /// By the standard property where the system has it, else by HPE's BIOS attributes.
    pub(super) async fn set_http_boot_url(&mut self, url: &str) -> Result<(), BmcError> {
        image_url::check(url).map_err(|rule| self.says_no(rule))?;
        let (path, system) = self.system().await?;
        let place = self.boot_place(&path, &system).await?;
        if at(&place.shown, &["Boot", "HttpBootUri"]).is_some() {
            return self.write_boot(&place, &[("HttpBootUri", url)]).await;
        }
        let Some(bios) = self
            .bios(&system)
            .await?
            .filter(|bios| bios.attribute("UrlBootFile").is_some())
        else {
            return Err(self.unsupported("it has neither Boot.HttpBootUri nor a BIOS attribute UrlBootFile"));
        };
        let mut attributes = json!({"UrlBootFile": url});
        // The network has to come up before the boot for it.
        for (name, value) in [("PreBootNetwork", "Auto"), ("Dhcpv4", "Enabled")] {
            if bios.attribute(name).is_some_and(|now| now != value) {
                attributes[name] = json!(value);
            }
        }
        let body = bios.body(attributes);
        self.write(&bios.path, &body).await
    }

    async fn bios(&mut self, system: &Value) -> Result<Option<Bios>, BmcError> {
        let Some(path) = owned(system, "Bios", "BIOS") else {
            return Ok(None);
        };
        let current = self.get(&path).await?;
        let Some(settings) = link(&current, &SETTINGS).or_else(|| link(&current, &["Settings"])) else {
            return Ok(Some(Bios {
                path,
                pending: Value::Null,
                current,
            }));
        };
        Ok(Some(Bios {
            pending: self.get(&settings).await?,
            path: settings,
            current,
        }))
    }

    pub(super) async fn secure_boot(&mut self) -> Result<bool, BmcError> {
        Ok(self.secure_boot_resource().await?.1)
    }

    pub(super) async fn set_secure_boot(&mut self, enabled: bool) -> Result<(), BmcError> {
        let (path, now) = self.secure_boot_resource().await?;
        if now == enabled {
            return Ok(());
        }
        self.write(&path, &json!({"SecureBootEnable": enabled})).await
    }

    async fn secure_boot_resource(&mut self) -> Result<(String, bool), BmcError> {
        let (_, system) = self.system().await?;
        let path = owned(&system, "SecureBoot", "SecureBoot")
            .ok_or_else(|| self.unsupported("its system has no SecureBoot resource"))?;
        let resource = self.get(&path).await?;
        let enabled = at(&resource, &["SecureBootEnable"])
            .and_then(Value::as_bool)
            .ok_or_else(|| self.unsupported("its SecureBoot resource does not tell SecureBootEnable"))?;
        Ok((path, enabled))
    }

    async fn write(&mut self, path: &str, body: &Value) -> Result<(), BmcError> {
        self.change(Method::PATCH, path, body, Again::Freely)
            .await
            .map(drop)
            .map_err(|why| self.unchanged(why))
    }
}

/// A resource of the system: by its standard link, else as iLO 4 links it.
fn owned(system: &Value, standard: &str, hp: &str) -> Option<String> {
    let old = |links: &str| link(system, &["Oem", "Hp", links, hp]);
    link(system, &[standard])
        .or_else(|| old("Links"))
        .or_else(|| old("links"))
}

fn parse_mode(text: &str) -> Option<BootMode> {
    match text.to_ascii_lowercase().as_str() {
        "uefi" | "uefimode" => Some(BootMode::Uefi),
        "legacybios" | "legacy" | "bios" | "legacymode" => Some(BootMode::Bios),
        _ => None,
    }
}
