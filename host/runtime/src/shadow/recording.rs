//! What one call of a plugin asked of the world and learned.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::Value as Json;

use crate::DriverError;
use crate::calls::{HostCall, ImageHandle, ImageInfo, LocationHandle, LocationInfo, Reply};

/// Host calls that went out, each with what it was answered.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) began: SystemTime,
    pub(crate) exchanges: Vec<Exchange>,
    /// Locations that came with the call.
    pub(crate) given: BTreeMap<LocationHandle, LocationInfo>,
    names: Names,
}

#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) call: HostCall,
    /// The call with names in place of handles.
    pub(crate) key: String,
    pub(crate) reply: Result<Reply, DriverError>,
}

/// What handles stand for, so that two runs can be compared that number theirs otherwise.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    images: BTreeMap<ImageHandle, String>,
    locations: BTreeMap<LocationHandle, String>,
}

impl Recording {
    pub(crate) fn new(began: SystemTime) -> Self {
        Self {
            began,
            exchanges: Vec::new(),
            given: BTreeMap::new(),
            names: Names::default(),
        }
    }

    pub(crate) fn give(&mut self, handle: LocationHandle, info: &LocationInfo) {
        self.names.location(handle, info);
        self.given.insert(handle, info.clone());
    }

    pub(crate) fn add(&mut self, call: HostCall, reply: Result<Reply, DriverError>) {
        let key = self.names.key(&call);
        if let Ok(reply) = &reply {
            self.names.learn(reply);
        }
        self.exchanges.push(Exchange { call, key, reply });
    }

    /// What it did, in words for people: no parameter's value stands in them.
    pub(crate) fn deeds(&self) -> Vec<(String, String)> {
        let deeds = self.exchanges.iter().filter(|exchange| is_deed(&exchange.call));
        deeds
            .map(|exchange| (exchange.key.clone(), self.names.words(&exchange.call)))
            .collect()
    }
}

impl Names {
    pub(crate) fn image(&mut self, handle: ImageHandle, info: &ImageInfo) {
        self.images.insert(handle, format!("{} {}", info.kind, info.digest));
    }

    pub(crate) fn location(&mut self, handle: LocationHandle, info: &LocationInfo) {
        let name = format!("{} in {}", info.display, info.backend);
        self.locations.insert(handle, name);
    }

    pub(crate) fn learn(&mut self, reply: &Reply) {
        match reply {
            Reply::Image(handle, info) => self.image(*handle, info),
            Reply::Location(handle, info) | Reply::MaybeLocation(Some((handle, info))) => self.location(*handle, info),
            _ => {}
        }
    }

    /// The call as JSON text, with names in place of handles.
    pub(crate) fn key(&self, call: &HostCall) -> String {
        let mut json = serde_json::to_value(call).unwrap_or(Json::Null);
        match call {
            HostCall::Publish { image, .. } => json["image"] = Json::String(self.image_name(*image)),
            HostCall::Renew { location, .. }
            | HostCall::Insert { location, .. }
            | HostCall::NextAttach { location, .. }
            | HostCall::NextBootIntoIso { location } => {
                json["location"] = Json::String(self.location_name(*location));
            }
            _ => {}
        }
        json.to_string()
    }

    /// The call for people.
    pub(crate) fn words(&self, call: &HostCall) -> String {
        let name = call.name();
        match call {
            HostCall::Publish { image, .. } => format!("{name} {}", self.image_name(*image)),
            HostCall::Renew { location, .. } | HostCall::NextBootIntoIso { location } => {
                format!("{name} {}", self.location_name(*location))
            }
            HostCall::Insert {
                device,
                location,
                options,
            } => {
                let once = if options.boot_once { ", boot once" } else { "" };
                let protected = if options.write_protected { "" } else { ", writable" };
                let location = self.location_name(*location);
                format!("{name} {} <- {location}{once}{protected}", device.as_str())
            }
            HostCall::NextAttach { device, location } => {
                format!("{name} {} <- {}", device.as_str(), self.location_name(*location))
            }
            HostCall::Eject { device } | HostCall::NextDetach { device } => format!("{name} {}", device.as_str()),
            HostCall::Withdraw { kind } => format!("{name} {kind}"),
            HostCall::SetBootDevice { device, persistent } => {
                format!(
                    "{name} {device:?}{}",
                    if *persistent { " from now on" } else { " once" }
                )
            }
            HostCall::SetBootMode { mode } => format!("{name} {}", mode.as_str()),
            HostCall::SetSecureBoot { enabled } => format!("{name} {enabled}"),
            HostCall::SetPower { action, .. } => format!("{name} {action:?}"),
            HostCall::Redfish { method, path, .. } => format!("{name} {method} {path}"),
            HostCall::Ribcl { command, .. } => format!("{name} {command}"),
            HostCall::StatePut { key, .. } | HostCall::StateDelete { key } => format!("{name} {key}"),
            _ => name.to_owned(),
        }
    }

    fn image_name(&self, handle: ImageHandle) -> String {
        self.images.get(&handle).cloned().unwrap_or_default()
    }

    fn location_name(&self, handle: LocationHandle) -> String {
        self.locations.get(&handle).cloned().unwrap_or_default()
    }
}

/// Whether the call leaves something behind, outside this process or in the plugin's own values.
pub(crate) fn is_deed(call: &HostCall) -> bool {
    call.is_effect()
        || matches!(
            call,
            HostCall::StatePut { .. }
                | HostCall::StateDelete { .. }
                | HostCall::NextPrepareRamdisk { .. }
                | HostCall::NextCleanUpRamdisk
                | HostCall::NextPrepareInstance
                | HostCall::NextCleanUpInstance
                | HostCall::NextAttach { .. }
                | HostCall::NextDetach { .. }
                | HostCall::NextBootIntoIso { .. }
        )
}
