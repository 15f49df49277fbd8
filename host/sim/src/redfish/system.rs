//! `Systems/1`: power, boot override, BIOS settings and secure boot.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::config::BootMode;
use crate::redfish::reply::{Reply, Request};
use crate::server::{OverrideEnabled, PowerCommand, PowerState, Server};

pub(crate) fn resource(server: &Arc<Server>) -> Value {
    let profile = server.config.profile;
    let state = server.state();
    let boot = &state.boot_override;
    let mode = match state.boot_mode() {
        BootMode::Uefi => "UEFI",
        BootMode::LegacyBios => "Legacy",
    };
    json!({
        "@odata.context": "/redfish/v1/$metadata#ComputerSystem.ComputerSystem",
        "@odata.id": "/redfish/v1/Systems/1",
        "@odata.type": "#ComputerSystem.v1_10_0.ComputerSystem",
        "Id": "1",
        "Name": "Computer System",
        "Manufacturer": profile.vendor,
        "Model": profile.model,
        "SerialNumber": server.serial_number,
        "SKU": "867959-B21",
        "UUID": server.uuid,
        "SystemType": "Physical",
        "BiosVersion": profile.bios_version,
        "PowerState": state.power,
        "Status": {"Health": "OK", "State": if state.power == PowerState::On {"Enabled"} else {"Disabled"}},
        "ProcessorSummary": {"Count": 1, "Model": "Intel(R) Xeon(R) Silver 4208 CPU @ 2.10GHz"},
        "MemorySummary": {"TotalSystemMemoryGiB": 16},
        "Boot": {
            "BootSourceOverrideEnabled": boot.enabled,
            "BootSourceOverrideMode": mode,
            "BootSourceOverrideTarget": boot.target,
            "BootSourceOverrideTarget@Redfish.AllowableValues": profile.boot_targets,
            "UefiTargetBootSourceOverride": boot.uefi_target.clone().unwrap_or_else(|| "None".into()),
            "UefiTargetBootSourceOverride@Redfish.AllowableValues": ["None"],
        },
        "Bios": {"@odata.id": "/redfish/v1/Systems/1/Bios"},
        "SecureBoot": {"@odata.id": "/redfish/v1/Systems/1/SecureBoot"},
        "EthernetInterfaces": {"@odata.id": "/redfish/v1/Systems/1/EthernetInterfaces"},
        "Links": {
            "ManagedBy": [{"@odata.id": "/redfish/v1/Managers/1"}],
            "Chassis": [{"@odata.id": "/redfish/v1/Chassis/1"}],
        },
        "Actions": {"#ComputerSystem.Reset": {
            "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
            "ResetType@Redfish.AllowableValues": profile.reset_types,
        }},
        "Oem": {"Hpe": {
            "@odata.type": "#HpeComputerSystemExt.v2_10_2.HpeComputerSystemExt",
            "PostState": state.post,
            "PowerOnDelay": "Minimum",
            "Actions": {
                "#HpeComputerSystemExt.PowerButton": {
                    "target": "/redfish/v1/Systems/1/Actions/Oem/Hpe/HpeComputerSystemExt.PowerButton",
                    "PushType@Redfish.AllowableValues": ["Press", "PressAndHold"],
                },
                "#HpeComputerSystemExt.SystemReset": {
                    "target": "/redfish/v1/Systems/1/Actions/Oem/Hpe/HpeComputerSystemExt.SystemReset",
                    "ResetType@Redfish.AllowableValues": ["ColdBoot", "AuxCycle"],
                },
            },
        }},
    })
}

/// `PATCH Systems/1`: only `Boot` can be changed. All is checked before anything is changed.
pub(crate) fn patch(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let unknown = |name: &str| Reply::error(profile, 400, "Base", "PropertyNotWritableOrUnknown", &[name]);
    if let Some(name) = body.keys().find(|name| *name != "Boot") {
        return unknown(name);
    }
    let Some(boot) = body.get("Boot").and_then(Value::as_object) else {
        return Reply::error(profile, 400, "Base", "PropertyValueTypeError", &["Boot"]);
    };
    let mut state = server.state();
    if state.post.in_post() && server.config.refuse_override_in_post {
        return Reply::error(profile, 400, "iLO", "UnableToModifyDuringSystemPOST", &[]);
    }
    let mut new = state.boot_override.clone();
    for (name, value) in boot {
        let not_listed = || {
            let value = value.as_str().unwrap_or_default();
            Reply::error(profile, 400, "Base", "PropertyValueNotInList", &[value, name])
        };
        let text = value.as_str();
        match name.as_str() {
            "BootSourceOverrideTarget" => match text {
                Some(target) if profile.boot_targets.contains(&target) => new.target = target.to_owned(),
                _ => return not_listed(),
            },
            "BootSourceOverrideEnabled" => {
                new.enabled = match text {
                    Some("Once") => OverrideEnabled::Once,
                    Some("Continuous") => OverrideEnabled::Continuous,
                    Some("Disabled") => OverrideEnabled::Disabled,
                    _ => return not_listed(),
                }
            }
            "UefiTargetBootSourceOverride" => match text {
                Some("None") => new.uefi_target = None,
                _ => return not_listed(),
            },
            "BootSourceOverrideMode" if server.config.refuse_override_mode => return unknown(name),
            "BootSourceOverrideMode" => match (text, state.boot_mode()) {
                (Some("UEFI"), BootMode::Uefi) | (Some("Legacy"), BootMode::LegacyBios) => {}
                (Some("UEFI" | "Legacy"), _) => {
                    return Reply::error(profile, 400, "iLO", "UnsupportedOperationInLegacyBootMode", &[]);
                }
                _ => return not_listed(),
            },
            _ => return unknown(name),
        }
    }
    if new.target == "None" {
        new.enabled = OverrideEnabled::Disabled;
    } else if new.enabled == OverrideEnabled::Disabled {
        if boot.contains_key("BootSourceOverrideEnabled") {
            new.target = "None".into();
        } else {
            // A target alone is a wish for the next boot.
            new.enabled = OverrideEnabled::Once;
        }
    }
    state.boot_override = new;
    Reply::success(profile)
}

/// `ComputerSystem.Reset`.
pub(crate) fn reset(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    if let Some(name) = body.keys().find(|name| *name != "ResetType") {
        return Reply::error(
            profile,
            400,
            "Base",
            "ActionParameterUnknown",
            &["ComputerSystem.Reset", name],
        );
    }
    let Some(kind) = body.get("ResetType").and_then(Value::as_str) else {
        return Reply::error(
            profile,
            400,
            "Base",
            "ActionParameterMissing",
            &["ComputerSystem.Reset", "ResetType"],
        );
    };
    if !profile.reset_types.contains(&kind) {
        return Reply::error(
            profile,
            400,
            "Base",
            "ActionParameterValueNotInList",
            &[kind, "ResetType", "ComputerSystem.Reset"],
        );
    }
    let power = server.state().power;
    let command = match (kind, power) {
        ("On", PowerState::Off) | ("PushPowerButton", PowerState::Off) => PowerCommand::On,
        ("ForceOff", PowerState::On) => PowerCommand::ForceOff,
        ("GracefulShutdown" | "PushPowerButton", PowerState::On) => PowerCommand::GracefulShutdown,
        ("ForceRestart", PowerState::On) => PowerCommand::ForceRestart,
        ("GracefulRestart", PowerState::On) => PowerCommand::GracefulRestart,
        // A diagnostic interrupt changes nothing that a BMC can see.
        ("Nmi", PowerState::On) => return Reply::success(profile),
        _ => return Reply::error(profile, 400, "iLO", "InvalidOperationForSystemState", &[]),
    };
    send(server, command)
}

/// HPE's power button and cold boot, which clients use to be certain.
pub(crate) fn oem_action(server: &Arc<Server>, request: &Request, action: &str) -> Option<Reply> {
    let profile = server.config.profile;
    let parameter = match action {
        "hpecomputersystemext.powerbutton" => "PushType",
        "hpecomputersystemext.systemreset" => "ResetType",
        _ => return None,
    };
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return Some(reply),
    };
    let Some(value) = body.get(parameter).and_then(Value::as_str) else {
        return Some(Reply::error(
            profile,
            400,
            "Base",
            "ActionParameterMissing",
            &[action, parameter],
        ));
    };
    let power = server.state().power;
    let command = match (parameter, value, power) {
        ("PushType", "Press" | "PressAndHold", PowerState::Off) => PowerCommand::On,
        ("PushType", "Press", PowerState::On) => PowerCommand::GracefulShutdown,
        ("PushType", "PressAndHold", PowerState::On) => PowerCommand::ForceOff,
        ("ResetType", "ColdBoot", PowerState::On) | ("ResetType", "AuxCycle", PowerState::On) => {
            PowerCommand::ForceRestart
        }
        ("ResetType", "ColdBoot" | "AuxCycle", PowerState::Off) => {
            return Some(Reply::error(profile, 400, "iLO", "InvalidOperationForSystemState", &[]));
        }
        _ => {
            return Some(Reply::error(
                profile,
                400,
                "Base",
                "ActionParameterValueNotInList",
                &[value, parameter, action],
            ));
        }
    };
    Some(send(server, command))
}

fn send(server: &Arc<Server>, command: PowerCommand) -> Reply {
    let profile = server.config.profile;
    match server.power.try_send(command) {
        Ok(()) => Reply::success(profile),
        Err(_) => Reply::error(profile, 503, "iLO", "ResetInProgress", &[]),
    }
}

pub(crate) fn bios(server: &Arc<Server>, settings: bool) -> Value {
    let state = server.state();
    let mut attributes = state.bios.clone();
    if settings {
        attributes.extend(state.bios_pending.clone());
    }
    let id = if settings {
        "/redfish/v1/Systems/1/Bios/Settings"
    } else {
        "/redfish/v1/Systems/1/Bios"
    };
    let mut body = json!({
        "@odata.context": "/redfish/v1/$metadata#Bios.Bios",
        "@odata.id": id,
        "@odata.type": "#Bios.v1_0_4.Bios",
        "Id": if settings {"Settings"} else {"Bios"},
        "Name": if settings {"BIOS Pending Settings"} else {"BIOS Current Settings"},
        "AttributeRegistry": "BiosAttributeRegistryU32.v1_2_62",
        "Attributes": attributes,
    });
    if !settings {
        body["@Redfish.Settings"] = json!({
            "@odata.type": "#Settings.v1_0_0.Settings",
            "SettingsObject": {"@odata.id": "/redfish/v1/Systems/1/Bios/Settings"},
        });
    }
    body
}

/// `PATCH Bios/Settings`: takes effect at the next reset.
pub(crate) fn patch_bios(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    if let Some(name) = body.keys().find(|name| *name != "Attributes" && *name != "@odata.etag") {
        return Reply::error(profile, 400, "Base", "PropertyUnknown", &[name]);
    }
    let Some(attributes) = body.get("Attributes").and_then(Value::as_object) else {
        return Reply::error(profile, 400, "Base", "PropertyMissing", &["Attributes"]);
    };
    let mut state = server.state();
    if state.post.in_post() {
        return Reply::error(profile, 400, "iLO", "UnableToModifyDuringSystemPOST", &[]);
    }
    for (name, value) in attributes {
        let allowed: &[&str] = match name.as_str() {
            "BootMode" => &["Uefi", "LegacyBios"],
            "UefiOptimizedBoot" => &["Enabled", "Disabled"],
            "WorkloadProfile" => &["GeneralPowerEfficientCompute", "vRAN", "Custom"],
            _ => return Reply::error(profile, 400, "Base", "PropertyUnknown", &[name]),
        };
        let text = value.as_str().unwrap_or_default();
        if !allowed.contains(&text) {
            return Reply::error(profile, 400, "Base", "PropertyValueNotInList", &[text, name]);
        }
    }
    let mut merged: Map<String, Value> = state.bios.clone().into_iter().collect();
    merged.extend(state.bios_pending.clone());
    merged.extend(attributes.clone());
    if merged.get("BootMode") == Some(&"LegacyBios".into()) && state.secure_boot {
        return Reply::error(profile, 400, "iLO", "UnsupportedOperationInLegacyBootMode", &[]);
    }
    for (name, value) in attributes {
        if state.bios.get(name) == Some(value) {
            state.bios_pending.remove(name);
        } else {
            state.bios_pending.insert(name.clone(), value.clone());
        }
    }
    Reply::error(profile, 200, "iLO", "SystemResetRequired", &[])
}

pub(crate) fn secure_boot(server: &Arc<Server>) -> Value {
    let state = server.state();
    json!({
        "@odata.context": "/redfish/v1/$metadata#SecureBoot.SecureBoot",
        "@odata.id": "/redfish/v1/Systems/1/SecureBoot",
        "@odata.type": "#SecureBoot.v1_0_0.SecureBoot",
        "Id": "SecureBoot",
        "Name": "SecureBoot",
        "SecureBootCurrentBoot": if state.secure_boot_now {"Enabled"} else {"Disabled"},
        "SecureBootEnable": state.secure_boot,
        "SecureBootMode": "UserMode",
        "Actions": {"#SecureBoot.ResetKeys": {
            "target": "/redfish/v1/Systems/1/SecureBoot/Actions/SecureBoot.ResetKeys",
            "ResetKeysType@Redfish.AllowableValues": ["ResetAllKeysToDefault", "DeleteAllKeys"],
        }},
    })
}

pub(crate) fn patch_secure_boot(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    if let Some(name) = body.keys().find(|name| *name != "SecureBootEnable") {
        return Reply::error(profile, 400, "Base", "PropertyNotWritableOrUnknown", &[name]);
    }
    let Some(enable) = body.get("SecureBootEnable").and_then(Value::as_bool) else {
        return Reply::error(profile, 400, "Base", "PropertyValueTypeError", &["SecureBootEnable"]);
    };
    let mut state = server.state();
    if state.boot_mode() == BootMode::LegacyBios {
        return Reply::error(profile, 400, "iLO", "UnsupportedOperationInLegacyBootMode", &[]);
    }
    state.secure_boot = enable;
    Reply::error(profile, 200, "iLO", "SystemResetRequired", &[])
}

/// `SecureBoot.ResetKeys`: the keys themselves are not simulated, deleting them ends secure boot.
pub(crate) fn reset_keys(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    match body.get("ResetKeysType").and_then(Value::as_str) {
        Some("ResetAllKeysToDefault") => {}
        Some("DeleteAllKeys") => server.state().secure_boot = false,
        Some(other) => {
            return Reply::error(
                profile,
                400,
                "Base",
                "ActionParameterValueNotInList",
                &[other, "ResetKeysType", "SecureBoot.ResetKeys"],
            );
        }
        None => {
            return Reply::error(
                profile,
                400,
                "Base",
                "ActionParameterMissing",
                &["SecureBoot.ResetKeys", "ResetKeysType"],
            );
        }
    }
    Reply::error(profile, 200, "iLO", "SystemResetRequired", &[])
}

pub(crate) fn interfaces() -> Value {
    json!({
        "@odata.context": "/redfish/v1/$metadata#EthernetInterfaceCollection.EthernetInterfaceCollection",
        "@odata.id": "/redfish/v1/Systems/1/EthernetInterfaces",
        "@odata.type": "#EthernetInterfaceCollection.EthernetInterfaceCollection",
        "Name": "Ethernet Interfaces",
        "Members": [{"@odata.id": "/redfish/v1/Systems/1/EthernetInterfaces/1"}],
        "Members@odata.count": 1,
    })
}

pub(crate) fn interface(server: &Arc<Server>) -> Value {
    let on = server.state().power == PowerState::On;
    json!({
        "@odata.context": "/redfish/v1/$metadata#EthernetInterface.EthernetInterface",
        "@odata.id": "/redfish/v1/Systems/1/EthernetInterfaces/1",
        "@odata.type": "#EthernetInterface.v1_4_1.EthernetInterface",
        "Id": "1",
        "Name": "",
        "MACAddress": server.mac,
        "PermanentMACAddress": server.mac,
        "LinkStatus": if on {"LinkUp"} else {"NoLink"},
        "SpeedMbps": 1000,
        "FullDuplex": true,
        "Status": {"Health": "OK", "State": if on {"Enabled"} else {"Disabled"}},
    })
}
