//! `Bios` and `SecureBoot`: what the firmware takes over at the next reset.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::reply::{Reply, Request};
use super::root::system_path;
use crate::config::BootMode;
use crate::profile::{Meaning, Profile};
use crate::server::Server;

/// The attributes in force, or with `settings` those of the next boot.
pub(super) fn bios(server: &Arc<Server>, settings: bool) -> Value {
    let profile = server.config.profile;
    let facts = &profile.redfish.bios;
    let state = server.state();
    let mut attributes: Map<String, Value> = state.bios.clone().into_iter().collect();
    let mut mode = state.boot_mode();
    if settings {
        attributes.extend(state.bios_pending.clone());
        mode = state.next_boot_mode();
    }
    if !facts.boot_mode.is_empty() {
        attributes.insert(facts.boot_mode.clone(), mode_value(profile, mode).into());
    }
    let path = system_path(profile) + "/Bios";
    let settings_path = format!("{path}/{}", facts.settings);
    let mut body = json!({
        "@odata.context": "/redfish/v1/$metadata#Bios.Bios",
        "@odata.id": if settings {&settings_path} else {&path},
        "@odata.type": "#Bios.v1_0_4.Bios",
        "Id": if settings {facts.settings.as_str()} else {"Bios"},
        "Name": if settings {"BIOS Pending Settings"} else {"BIOS Current Settings"},
        "AttributeRegistry": "BiosAttributeRegistryU32.v1_2_62",
    });
    if facts.flat {
        body["@odata.type"] = "#HpBios.1.2.0.HpBios".into();
        if let Some(body) = body.as_object_mut() {
            body.extend(attributes);
        }
    } else {
        body["Attributes"] = attributes.into();
    }
    match (settings, facts.flat) {
        (true, _) => {}
        (false, true) => body["links"] = json!({"Settings": {"href": settings_path}}),
        (false, false) => {
            body["@Redfish.Settings"] = json!({
                "@odata.type": "#Settings.v1_0_0.Settings",
                "SettingsObject": {"@odata.id": settings_path},
            });
        }
    }
    body
}

fn mode_value(profile: &Profile, mode: BootMode) -> &str {
    let facts = &profile.redfish.bios;
    match mode {
        BootMode::Uefi => &facts.uefi,
        BootMode::LegacyBios => &facts.legacy,
    }
}

/// `PATCH` of the settings: takes effect at the next reset.
pub(super) fn patch_bios(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    let facts = &profile.redfish.bios;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let attributes = if facts.flat {
        &body
    } else {
        let known = ["Attributes", "@odata.etag", "@Redfish.SettingsApplyTime"];
        if let Some(name) = body.keys().find(|name| !known.contains(&name.as_str())) {
            return Reply::says(profile, Meaning::PropertyUnknown, &[name]);
        }
        match body.get("Attributes").and_then(Value::as_object) {
            Some(attributes) => attributes,
            None => return Reply::says(profile, Meaning::PropertyMissing, &["Attributes"]),
        }
    };
    let mut state = server.state();
    if state.post.in_post() && profile.redfish.boot.refused_in_post {
        return Reply::says(profile, Meaning::InPost, &[]);
    }
    let mut mode = state.next_boot_mode();
    for (name, value) in attributes {
        let text = value.as_str().unwrap_or_default();
        let refused = || Reply::says(profile, Meaning::PropertyValue, &[text, name]);
        if *name == facts.boot_mode {
            mode = match text {
                text if text == facts.uefi => BootMode::Uefi,
                text if text == facts.legacy => BootMode::LegacyBios,
                _ => return refused(),
            };
            continue;
        }
        match facts.attributes.get(name) {
            None => return Reply::says(profile, Meaning::PropertyUnknown, &[name]),
            Some(allowed) if allowed.is_empty() && value.is_string() => {}
            Some(allowed) if allowed.iter().any(|one| one == text) => {}
            Some(_) => return refused(),
        }
    }
    if mode == BootMode::LegacyBios && state.secure_boot {
        return Reply::says(profile, Meaning::LegacyMode, &[]);
    }
    state.set_next_boot_mode(mode);
    for (name, value) in attributes.iter().filter(|(name, _)| **name != facts.boot_mode) {
        if state.bios.get(name) == Some(value) {
            state.bios_pending.remove(name);
        } else {
            state.bios_pending.insert(name.clone(), value.clone());
        }
    }
    Reply::done(profile, Meaning::ResetRequired)
}

pub(super) fn secure_boot(server: &Arc<Server>) -> Value {
    let path = system_path(server.config.profile) + "/SecureBoot";
    let state = server.state();
    json!({
        "@odata.context": "/redfish/v1/$metadata#SecureBoot.SecureBoot",
        "@odata.id": path,
        "@odata.type": "#SecureBoot.v1_0_0.SecureBoot",
        "Id": "SecureBoot",
        "Name": "SecureBoot",
        "SecureBootCurrentBoot": if state.secure_boot_now {"Enabled"} else {"Disabled"},
        "SecureBootEnable": state.secure_boot,
        "SecureBootMode": "UserMode",
        "Actions": {"#SecureBoot.ResetKeys": {
            "target": format!("{path}/Actions/SecureBoot.ResetKeys"),
            "ResetKeysType@Redfish.AllowableValues": ["ResetAllKeysToDefault", "DeleteAllKeys"],
        }},
    })
}

pub(super) fn patch_secure_boot(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    if let Some(name) = body.keys().find(|name| *name != "SecureBootEnable") {
        return Reply::says(profile, Meaning::PropertyNotWritable, &[name]);
    }
    let Some(enable) = body.get("SecureBootEnable").and_then(Value::as_bool) else {
        return Reply::says(profile, Meaning::PropertyType, &["SecureBootEnable"]);
    };
    let mut state = server.state();
    if state.boot_mode() == BootMode::LegacyBios {
        return Reply::says(profile, Meaning::LegacyMode, &[]);
    }
    state.secure_boot = enable;
    Reply::done(profile, Meaning::ResetRequired)
}

/// `SecureBoot.ResetKeys`: the keys themselves are not simulated, deleting them ends secure boot.
pub(super) fn reset_keys(server: &Arc<Server>, request: &Request) -> Reply {
    const NAME: &str = "SecureBoot.ResetKeys";
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    match body.get("ResetKeysType").and_then(Value::as_str) {
        Some("ResetAllKeysToDefault") => {}
        Some("DeleteAllKeys") => server.state().secure_boot = false,
        Some(other) => return Reply::says(profile, Meaning::ParameterValue, &[other, "ResetKeysType", NAME]),
        None => return Reply::says(profile, Meaning::ParameterMissing, &[NAME, "ResetKeysType"]),
    }
    Reply::done(profile, Meaning::ResetRequired)
}
