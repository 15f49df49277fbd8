//! The boot override: at the system, at its settings resource, or at both in the ways that BMCs have found.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::reply::{Reply, Request};
use super::root::system_path;
use crate::config::BootMode;
use crate::media::ImageUrl;
use crate::profile::{BootPlace, Meaning, Profile};
use crate::server::{BootOverride, OverrideEnabled, Server, State};

/// `Boot` as it is shown where it may be written.
pub(super) fn shown(profile: &Profile, state: &State) -> Value {
    let facts = &profile.redfish.boot;
    let boot = &state.boot_override;
    let mode = match state.boot_mode() {
        BootMode::Uefi => "UEFI",
        BootMode::LegacyBios => "Legacy",
    };
    let targets: Vec<&String> = profile.boot_targets.keys().collect();
    let mut shown = json!({
        "BootSourceOverrideEnabled": boot.enabled,
        "BootSourceOverrideMode": mode,
        "BootSourceOverrideTarget": boot.target,
        "BootSourceOverrideTarget@Redfish.AllowableValues": targets,
        "UefiTargetBootSourceOverride": boot.uefi_target.clone().unwrap_or_else(|| "None".into()),
        "UefiTargetBootSourceOverride@Redfish.AllowableValues": ["None"],
    });
    if facts.enabled != ["Disabled", "Once", "Continuous"] {
        shown["BootSourceOverrideEnabled@Redfish.AllowableValues"] = json!(facts.enabled);
    }
    if facts.http_uri {
        shown["HttpBootUri"] = json!(boot.http_uri);
    }
    shown
}

/// The settings resource.
pub(super) fn settings(server: &Arc<Server>) -> Value {
    let profile = server.config.profile;
    let id = &profile.redfish.boot.settings;
    json!({
        "@odata.context": "/redfish/v1/$metadata#ComputerSystem.ComputerSystem",
        "@odata.id": format!("{}/{id}", system_path(profile)),
        "@odata.type": "#ComputerSystem.v1_10_0.ComputerSystem",
        "Id": id,
        "Name": "Computer System Pending Settings",
        "Boot": shown(profile, &server.state()),
    })
}

/// `PATCH` of the system.
pub(super) fn patch_system(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    match profile.redfish.boot.place {
        BootPlace::System => patch_settings(server, request),
        BootPlace::SettingsIgnored => match checked(server, request) {
            Ok(_) => Reply::success(profile),
            Err(reply) => reply,
        },
        BootPlace::SettingsShown | BootPlace::SettingsOnly => {
            let body = match request.object(profile) {
                Ok(body) => body,
                Err(reply) => return reply,
            };
            let name = body.keys().next().map_or("Boot", String::as_str);
            Reply::says(profile, Meaning::PropertyNotWritable, &[name])
        }
    }
}

/// `PATCH` where it counts: only `Boot` can be changed. All is checked before anything is changed.
pub(super) fn patch_settings(server: &Arc<Server>, request: &Request) -> Reply {
    match checked(server, request) {
        Ok(new) => {
            server.state().boot_override = new;
            Reply::success(server.config.profile)
        }
        Err(reply) => reply,
    }
}

/// What the override would become.
fn checked(server: &Arc<Server>, request: &Request) -> Result<BootOverride, Reply> {
    let profile = server.config.profile;
    let body = request.object(profile)?;
    if let Some(name) = body.keys().find(|name| *name != "Boot") {
        return Err(Reply::says(profile, Meaning::PropertyNotWritable, &[name]));
    }
    let Some(boot) = body.get("Boot").and_then(Value::as_object) else {
        return Err(Reply::says(profile, Meaning::PropertyType, &["Boot"]));
    };
    let state = server.state();
    if state.post.in_post() && profile.redfish.boot.refused_in_post {
        return Err(Reply::says(profile, Meaning::InPost, &[]));
    }
    changed(profile, &state, boot)
}

fn changed(profile: &Profile, state: &State, boot: &Map<String, Value>) -> Result<BootOverride, Reply> {
    let facts = &profile.redfish.boot;
    let mut new = state.boot_override.clone();
    for (name, value) in boot {
        let text = value.as_str();
        let not_listed = || {
            Err(Reply::says(
                profile,
                Meaning::PropertyValue,
                &[text.unwrap_or_default(), name],
            ))
        };
        let unknown = || Err(Reply::says(profile, Meaning::PropertyNotWritable, &[name]));
        match name.as_str() {
            "BootSourceOverrideTarget" => match text {
                Some(target) if profile.boot_targets.contains_key(target) => new.target = target.to_owned(),
                _ => return not_listed(),
            },
            "BootSourceOverrideEnabled" => match text.filter(|text| facts.enabled.iter().any(|one| one == text)) {
                Some("Once") => new.enabled = OverrideEnabled::Once,
                Some("Continuous") => new.enabled = OverrideEnabled::Continuous,
                Some("Disabled") => new.enabled = OverrideEnabled::Disabled,
                _ => return not_listed(),
            },
            "UefiTargetBootSourceOverride" => match text {
                Some("None") => new.uefi_target = None,
                _ => return not_listed(),
            },
            "HttpBootUri" if facts.http_uri => match text {
                Some(uri) if ImageUrl::parse(uri).is_ok() => new.http_uri = Some(uri.to_owned()),
                None if value.is_null() => new.http_uri = None,
                _ => return Err(Reply::says(profile, Meaning::PropertyType, &[name])),
            },
            "BootSourceOverrideMode" if !facts.takes_mode => return unknown(),
            "BootSourceOverrideMode" => match (text, state.boot_mode()) {
                (Some("UEFI"), BootMode::Uefi) | (Some("Legacy"), BootMode::LegacyBios) => {}
                (Some("UEFI" | "Legacy"), _) => return Err(Reply::says(profile, Meaning::LegacyMode, &[])),
                _ => return not_listed(),
            },
            _ => return unknown(),
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
    Ok(new)
}
