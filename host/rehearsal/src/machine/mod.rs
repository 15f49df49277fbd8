//! A small world with a memory: one server with its slots, power and firmware settings, what is published for it, and what
//! plugins keep. It answers host calls as a well-behaved BMC and well-behaved backends do, and shows at any time how it
//! stands. What it does is what the live host does; only sizes and bytes are made up.

mod publish;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::SystemTime;

use model::{ArtefactKind, BootDevice, BootMode, Device, PowerAction, PowerState};
use runtime::{
    Candidate, DriverError, HostCall, ImageInfo, IsoSource, Location, LocationInfo, Media, Parameter, RawReply, Reply,
    Value, Versioned,
};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::calls::arguments;

use publish::{display, external};

pub(crate) use publish::Place;
pub(crate) use view::unnamed;

/// Sizes of what is built.
const FLOPPY_SIZE: u64 = 1_474_560;
const ISO_SIZE: u64 = 64 << 20;
/// When a BMC in POST is to be asked again.
const RETRY_MS: u32 = 5000;

/// How the world stands. Cheap to clone: a sweep starts hundreds of times from the same one.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Machine {
    pub(crate) power: PowerState,
    /// `None`: the server knows no boot modes.
    pub(crate) boot_mode: Option<BootMode>,
    /// `None`: the server knows no secure boot.
    pub(crate) secure_boot: Option<bool>,
    pub(crate) boot_device: Option<(BootDevice, bool)>,
    pub(crate) cdrom: Slot,
    pub(crate) floppy: Slot,
    /// Until then the BMC refuses what would change the server.
    pub(crate) post_until: SystemTime,
    pub(crate) artefacts: BTreeMap<ArtefactKind, Artefact>,
    /// By plugin and key.
    pub(crate) state: BTreeMap<(String, String), Versioned>,
    /// State of whichever plugin asks first: a scenario need not know ids.
    pub(crate) kept: BTreeMap<String, String>,
    /// Sources of boot ISOs that are not there: "deploy", "rescue", "instance".
    pub(crate) missing: BTreeSet<String>,
    /// Names of the node's secrets.
    pub(crate) secrets: BTreeSet<String>,
    /// Redfish resources by path.
    pub(crate) redfish: BTreeMap<String, Json>,
    /// Answers to RIBCL commands.
    pub(crate) ribcl: BTreeMap<String, String>,
    pub(crate) backends: Vec<Candidate>,
    /// From which names of artefacts come.
    pub(crate) names: Names,
}

/// A virtual media device.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) enum Slot {
    /// The server has no such device.
    Missing,
    #[default]
    Empty,
    Holds(Medium),
}

/// What a slot holds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Medium {
    pub(crate) url: String,
    pub(crate) display: String,
}

/// Something that is published.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Artefact {
    pub(crate) backend: String,
    pub(crate) url: String,
    pub(crate) digest: String,
    pub(crate) expires: Option<SystemTime>,
}

/// Names as unguessable ones look, the same ones each time (SplitMix64).
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Names(pub(crate) u64);

impl Names {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A location together with what the plugin may know of it.
pub(crate) type Located = (Location, LocationInfo);

/// What a call gave; whoever keeps the table of handles numbers what is new.
pub(crate) enum Outcome {
    Reply(Reply),
    Image(ImageInfo),
    Location(Located),
    MaybeLocation(Option<Located>),
}

/// What a call's handles stand for.
pub(crate) struct Handles<'a> {
    pub(crate) image: Option<&'a ImageInfo>,
    pub(crate) location: Option<&'a Location>,
}

impl Machine {
    /// A server that is off, with both slots empty and nothing published.
    pub(crate) fn new(seed: u64, clock: SystemTime, backends: Vec<Candidate>) -> Self {
        Self {
            power: PowerState::Off,
            boot_mode: Some(BootMode::Uefi),
            secure_boot: Some(false),
            boot_device: None,
            cdrom: Slot::Empty,
            floppy: Slot::Empty,
            post_until: clock,
            artefacts: BTreeMap::new(),
            state: BTreeMap::new(),
            kept: BTreeMap::new(),
            missing: BTreeSet::new(),
            secrets: BTreeSet::from(["agent-token".to_owned()]),
            redfish: BTreeMap::new(),
            ribcl: BTreeMap::new(),
            backends,
            names: Names(seed),
        }
    }

    /// Does what a call asks for.
    pub(crate) fn perform(
        &mut self,
        call: &HostCall,
        plugin: &str,
        handles: &Handles<'_>,
        now: SystemTime,
    ) -> Result<Outcome, DriverError> {
        self.refuse_in_post(call, now)?;
        let reply = match call {
            HostCall::StateGet { key } => Reply::Value(self.state_of(plugin, key).cloned()),
            HostCall::StatePut { key, value, expect } => Reply::Number(self.put(plugin, key, value, *expect)?),
            HostCall::StateDelete { key } => {
                self.state.remove(&(plugin.to_owned(), key.clone()));
                self.kept.remove(key);
                Reply::Done
            }
            HostCall::BuildFloppy { spec } => {
                self.check_secrets(&spec.parameters)?;
                return Ok(Outcome::Image(built(ArtefactKind::Floppy, FLOPPY_SIZE, call)));
            }
            HostCall::BuildBootIso { spec } => {
                self.check_secrets(&spec.parameters)?;
                self.check_source(&spec.source)?;
                return Ok(Outcome::Image(built(ArtefactKind::BootIso, ISO_SIZE, call)));
            }
            HostCall::Publish {
                minimum_lifetime_s,
                backend,
                ..
            } => {
                let image = handles.image.ok_or_else(|| gone("image"))?;
                let backend = backend.as_deref().unwrap_or_default();
                return self
                    .publish(image, *minimum_lifetime_s, backend, now)
                    .map(Outcome::Location);
            }
            HostCall::Find { kind } => return Ok(Outcome::MaybeLocation(self.located(*kind, now))),
            HostCall::Renew { minimum_lifetime_s, .. } => {
                let location = handles.location.ok_or_else(|| gone("location"))?;
                Reply::Renewal(self.renew(location, *minimum_lifetime_s, now))
            }
            HostCall::Withdraw { kind } => {
                self.artefacts.remove(kind);
                Reply::Done
            }
            HostCall::External { url } => return external(url).map(Outcome::Location),
            HostCall::MediaState { device } => Reply::Media(self.media(*device)?),
            HostCall::Insert { device, options, .. } => {
                let location = handles.location.ok_or_else(|| gone("location"))?;
                self.insert(*device, location, options.write_protected, now)?;
                if options.boot_once {
                    let device = match device {
                        Device::Cdrom => BootDevice::Cdrom,
                        Device::Floppy => BootDevice::Floppy,
                    };
                    self.boot_device = Some((device, false));
                }
                Reply::Done
            }
            HostCall::Eject { device } => {
                *self.slot(*device)? = Slot::Empty;
                Reply::Done
            }
            HostCall::SetBootDevice { device, persistent } => {
                self.boot_device = Some((*device, *persistent));
                Reply::Done
            }
            HostCall::BootModeOf => Reply::BootMode(self.boot_mode.ok_or_else(no_boot_modes)?),
            HostCall::SetBootMode { mode } => {
                *self.boot_mode.as_mut().ok_or_else(no_boot_modes)? = *mode;
                Reply::Done
            }
            HostCall::SecureBootOf => Reply::Flag(self.secure_boot.ok_or_else(no_secure_boot)?),
            HostCall::SetSecureBoot { enabled } => {
                if *enabled && self.boot_mode == Some(BootMode::Bios) {
                    let message = "secure boot needs the boot mode uefi";
                    return Err(DriverError::other("bmc-refused", message));
                }
                *self.secure_boot.as_mut().ok_or_else(no_secure_boot)? = *enabled;
                Reply::Done
            }
            HostCall::PowerStateOf => Reply::Power(self.power),
            HostCall::SetPower { action, .. } => {
                self.power = match action {
                    PowerAction::Off | PowerAction::SoftOff => PowerState::Off,
                    PowerAction::On | PowerAction::ForceRestart | PowerAction::SoftRestart => PowerState::On,
                };
                Reply::Done
            }
            HostCall::Redfish { method, path, body } => Reply::Raw(self.redfish(method, path, body.as_deref())?),
            HostCall::Ribcl { command, .. } => match self.ribcl.get(command) {
                Some(answer) => Reply::Text(answer.clone()),
                None => {
                    let message = format!("the BMC of this world knows no {command}: name it under `world.ribcl`");
                    return Err(DriverError::Unsupported(message));
                }
            },
            _ => {
                let message = format!("the world took {}: report this", call.name());
                return Err(DriverError::other("host-error", message));
            }
        };
        Ok(Outcome::Reply(reply))
    }

    fn media(&self, device: Device) -> Result<Media, DriverError> {
        let slot = match device {
            Device::Cdrom => &self.cdrom,
            Device::Floppy => &self.floppy,
        };
        let medium = match slot {
            Slot::Missing => return Err(no_device(device)),
            Slot::Empty => None,
            Slot::Holds(medium) => Some(medium),
        };
        Ok(Media {
            inserted: medium.is_some(),
            connected: medium.is_some(),
            write_protected: true,
            artefact: medium.and_then(|medium| self.kind_of(&medium.url)),
            url: medium.map(|medium| medium.display.clone()),
        })
    }

    fn insert(
        &mut self,
        device: Device,
        location: &Location,
        write_protected: bool,
        now: SystemTime,
    ) -> Result<(), DriverError> {
        if !write_protected {
            let message = "media are always write-protected: an image is shared and must not change";
            return Err(DriverError::Unsupported(message.to_owned()));
        }
        let url = location.url.expose();
        let served = match location.backend {
            None => true,
            Some(_) => self
                .artefacts
                .values()
                .any(|artefact| artefact.url == url && artefact.expires.is_none_or(|expires| expires > now)),
        };
        if !served {
            let message = "the BMC could not read the image: nothing is served at its URL any more";
            return Err(DriverError::other("bmc-refused", message));
        }
        let medium = Medium {
            url: url.to_owned(),
            display: display(location),
        };
        // What the slot held is taken out first, as the live host does.
        *self.slot(device)? = Slot::Holds(medium);
        Ok(())
    }

    fn slot(&mut self, device: Device) -> Result<&mut Slot, DriverError> {
        let slot = match device {
            Device::Cdrom => &mut self.cdrom,
            Device::Floppy => &mut self.floppy,
        };
        match slot {
            Slot::Missing => Err(no_device(device)),
            slot => Ok(slot),
        }
    }

    fn kind_of(&self, url: &str) -> Option<ArtefactKind> {
        let found = self.artefacts.iter().find(|(_, artefact)| artefact.url == url);
        found.map(|(kind, _)| *kind)
    }

    fn state_of(&self, plugin: &str, key: &str) -> Option<&Versioned> {
        self.state.get(&(plugin.to_owned(), key.to_owned()))
    }

    fn put(&mut self, plugin: &str, key: &str, value: &str, expect: Option<u64>) -> Result<u64, DriverError> {
        let found = self.state_of(plugin, key).map(|there| there.version);
        if found != expect {
            let there = found.map_or("is not there".to_owned(), |version| format!("is at version {version}"));
            return Err(DriverError::Conflict(format!("`{key}` {there}")));
        }
        let version = found.unwrap_or(0).saturating_add(1);
        let value = value.to_owned();
        self.state
            .insert((plugin.to_owned(), key.to_owned()), Versioned { version, value });
        Ok(version)
    }

    /// What a scenario says is kept belongs to whichever plugin is called.
    pub(crate) fn open(&mut self, plugin: &str) {
        for (key, value) in std::mem::take(&mut self.kept) {
            self.state
                .insert((plugin.to_owned(), key), Versioned { version: 1, value });
        }
    }

    fn check_secrets(&self, parameters: &[Parameter]) -> Result<(), DriverError> {
        for parameter in parameters {
            if let Value::Secret(name) = &parameter.value
                && !self.secrets.contains(name)
            {
                return Err(DriverError::NotFound(format!("the node has no secret `{name}`")));
            }
        }
        Ok(())
    }

    fn check_source(&self, source: &IsoSource) -> Result<(), DriverError> {
        let source = match source {
            IsoSource::Deploy => "deploy",
            IsoSource::Rescue => "rescue",
            IsoSource::Instance => "instance",
            IsoSource::Iso(reference) => reference,
        };
        if self.missing.contains(source) {
            let message = format!("the images for `{source}` are not there");
            return Err(DriverError::NotFound(message));
        }
        Ok(())
    }

    fn refuse_in_post(&self, call: &HostCall, now: SystemTime) -> Result<(), DriverError> {
        let changes_the_server = matches!(
            call,
            HostCall::Insert { .. }
                | HostCall::Eject { .. }
                | HostCall::SetBootDevice { .. }
                | HostCall::SetBootMode { .. }
                | HostCall::SetSecureBoot { .. }
        );
        if changes_the_server && now < self.post_until {
            return Err(DriverError::Other {
                code: "bmc-busy".to_owned(),
                message: "the server is in POST".to_owned(),
                retry_after_ms: Some(RETRY_MS),
            });
        }
        Ok(())
    }

    fn redfish(&mut self, method: &str, path: &str, body: Option<&str>) -> Result<RawReply, DriverError> {
        let reply = |status, body: String| RawReply {
            status,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body,
        };
        let Some(resource) = self.redfish.get_mut(path) else {
            return Ok(reply(404, "{}".to_owned()));
        };
        match method {
            "GET" | "HEAD" => Ok(reply(200, resource.to_string())),
            "PATCH" => {
                let patch: Json = serde_json::from_str(body.unwrap_or("{}"))
                    .map_err(|error| DriverError::Invalid(format!("the body is no JSON: {error}")))?;
                merge(resource, patch);
                Ok(reply(200, resource.to_string()))
            }
            "DELETE" => {
                self.redfish.remove(path);
                Ok(reply(204, String::new()))
            }
            _ => Ok(reply(204, String::new())),
        }
    }
}

/// RFC 7396.
fn merge(into: &mut Json, patch: Json) {
    let Json::Object(patch) = patch else {
        *into = patch;
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    if let Some(map) = into.as_object_mut() {
        for (key, value) in patch {
            if value.is_null() {
                map.remove(&key);
            } else {
                merge(map.entry(key).or_insert(Json::Null), value);
            }
        }
    }
}

/// An image whose identity is what was asked for: the same wish gives the same bytes.
fn built(kind: ArtefactKind, size: u64, call: &HostCall) -> ImageInfo {
    let wish = arguments(call).to_string();
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(wish.as_bytes()) {
        // Writing into a text cannot fail.
        let _ = write!(digest, "{byte:02x}");
    }
    ImageInfo { kind, digest, size }
}

fn gone(what: &str) -> DriverError {
    DriverError::NotFound(format!("this {what} was dropped"))
}

fn no_device(device: Device) -> DriverError {
    DriverError::Unsupported(format!("the server has no virtual {}", device.as_str()))
}

fn no_boot_modes() -> DriverError {
    DriverError::Unsupported("the server knows no boot modes".to_owned())
}

fn no_secure_boot() -> DriverError {
    DriverError::Unsupported("the server knows no secure boot".to_owned())
}
