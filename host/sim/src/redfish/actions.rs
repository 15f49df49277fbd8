//! `POST` to actions: which there are, and what each does.

use std::sync::Arc;

use serde_json::Value;

use super::insert::{self, Asked};
use super::reply::{Reply, Request};
use super::{firmware, manager, media_route, slot};
use crate::faults::Effect;
use crate::profile::{InsertWay, Meaning, Oem, Profile};
use crate::server::{PowerCommand, PowerState, Server};

/// One action of this service.
enum Action {
    ResetSystem,
    ResetManager,
    ResetKeys,
    /// HPE's power button and cold boot, which clients use to be certain; the name of its parameter.
    Power(&'static str),
    Insert(usize, InsertWay),
    Eject(usize),
}

/// Whether `route` is an action.
pub(super) fn exists(profile: &Profile, route: &str) -> bool {
    find(profile, route).is_some()
}

/// Does it; `None`: there is no such action.
pub(super) fn run(server: &Arc<Server>, request: &Request, route: &str, fault: &Effect) -> Option<Reply> {
    let profile = server.config.profile;
    Some(match find(profile, route)? {
        Action::ResetSystem => reset(server, request),
        Action::ResetManager => manager::reset(server, request),
        Action::ResetKeys => firmware::reset_keys(server, request),
        Action::Power(parameter) => power(server, request, parameter),
        Action::Insert(index, way) => insert::insert(server, request, index, Asked::Action(way), fault),
        Action::Eject(index) => insert::eject(server, request, index, fault),
    })
}

fn find(profile: &Profile, route: &str) -> Option<Action> {
    let facts = &profile.redfish;
    match route {
        "/systems/*/actions/computersystem.reset" => return Some(Action::ResetSystem),
        "/managers/*/actions/manager.reset" => return Some(Action::ResetManager),
        "/systems/*/secureboot/actions/secureboot.resetkeys" if facts.bios.secure_boot => {
            return Some(Action::ResetKeys);
        }
        _ => {}
    }
    if let (Some(name), Some(oem)) = (route.strip_prefix("/systems/*/actions/oem/"), facts.oem) {
        return match (oem, name) {
            (Oem::Hpe, "hpe/hpecomputersystemext.powerbutton") | (Oem::Hp, "hp/computersystemext.powerbutton") => {
                Some(Action::Power("PushType"))
            }
            (Oem::Hpe, "hpe/hpecomputersystemext.systemreset") | (Oem::Hp, "hp/computersystemext.systemreset") => {
                Some(Action::Power("ResetType"))
            }
            _ => None,
        };
    }
    let (_, rest) = media_route(profile, route)?;
    let (id, name) = rest.split_once("/actions/")?;
    let index = slot(profile, id)?;
    let has = |way| facts.insert.ways.contains(&way);
    match (name, facts.oem) {
        ("virtualmedia.insertmedia", _) if has(InsertWay::Action) => Some(Action::Insert(index, InsertWay::Action)),
        ("virtualmedia.ejectmedia", _) if has(InsertWay::Action) => Some(Action::Eject(index)),
        (name, Some(oem)) if has(InsertWay::Oem) => {
            let own = format!("oem/{}/{}virtualmedia.", oem.key(), oem.prefix()).to_ascii_lowercase();
            match name.strip_prefix(&own)? {
                "insertvirtualmedia" => Some(Action::Insert(index, InsertWay::Oem)),
                "ejectvirtualmedia" => Some(Action::Eject(index)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `ComputerSystem.Reset`.
fn reset(server: &Arc<Server>, request: &Request) -> Reply {
    const NAME: &str = "ComputerSystem.Reset";
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    if let Some(name) = body.keys().find(|name| *name != "ResetType") {
        return Reply::says(profile, Meaning::ParameterUnknown, &[NAME, name]);
    }
    let Some(kind) = body.get("ResetType").and_then(Value::as_str) else {
        return Reply::says(profile, Meaning::ParameterMissing, &[NAME, "ResetType"]);
    };
    if !profile.reset_types.iter().any(|known| known == kind) {
        return Reply::says(profile, Meaning::ParameterValue, &[kind, "ResetType", NAME]);
    }
    let power = server.state().power;
    let command = match (kind, power) {
        ("On" | "ForceOn" | "PushPowerButton", PowerState::Off) => PowerCommand::On,
        ("ForceOff", PowerState::On) => PowerCommand::ForceOff,
        ("GracefulShutdown" | "PushPowerButton", PowerState::On) => PowerCommand::GracefulShutdown,
        ("ForceRestart" | "PowerCycle", PowerState::On) => PowerCommand::ForceRestart,
        ("GracefulRestart", PowerState::On) => PowerCommand::GracefulRestart,
        // A diagnostic interrupt changes nothing that a BMC can see.
        ("Nmi", PowerState::On) => return Reply::success(profile),
        ("On" | "ForceOn", PowerState::On) | ("ForceOff" | "GracefulShutdown", PowerState::Off)
            if !profile.redfish.refuses_same_power =>
        {
            return Reply::success(profile);
        }
        _ => return Reply::says(profile, Meaning::WrongState, &[kind]),
    };
    send(server, command)
}

fn power(server: &Arc<Server>, request: &Request, parameter: &'static str) -> Reply {
    let profile = server.config.profile;
    let action = request.plain_path().rsplit('/').next().unwrap_or_default();
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let Some(value) = body.get(parameter).and_then(Value::as_str) else {
        return Reply::says(profile, Meaning::ParameterMissing, &[action, parameter]);
    };
    let power = server.state().power;
    let command = match (parameter, value, power) {
        ("PushType", "Press" | "PressAndHold", PowerState::Off) => PowerCommand::On,
        ("PushType", "Press", PowerState::On) => PowerCommand::GracefulShutdown,
        ("PushType", "PressAndHold", PowerState::On) => PowerCommand::ForceOff,
        ("ResetType", "ColdBoot" | "AuxCycle", PowerState::On) => PowerCommand::ForceRestart,
        ("ResetType", "ColdBoot" | "AuxCycle", PowerState::Off) => {
            return Reply::says(profile, Meaning::WrongState, &[]);
        }
        _ => return Reply::says(profile, Meaning::ParameterValue, &[value, parameter, action]),
    };
    send(server, command)
}

fn send(server: &Arc<Server>, command: PowerCommand) -> Reply {
    let profile = server.config.profile;
    match server.power.try_send(command) {
        Ok(()) => Reply::success(profile),
        Err(_) => Reply::says(profile, Meaning::Busy, &[]),
    }
}
