//! `Managers`: the BMC itself, its licence, and Dell's attributes.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::reply::{Reply, Request};
use super::root::{chassis_path, manager_path, system_path};
use crate::profile::{FirstBootDevice, Meaning, MediaPlace, Profile};
use crate::server::Server;

const FIRST: &str = "ServerBoot.1.FirstBootDevice";
const ONCE: &str = "ServerBoot.1.BootOnce";

pub(super) fn resource(server: &Arc<Server>) -> Value {
    let profile = server.config.profile;
    let path = manager_path(profile);
    let mut manager = json!({
        "@odata.context": "/redfish/v1/$metadata#Manager.Manager",
        "@odata.id": path,
        "@odata.type": "#Manager.v1_5_1.Manager",
        "Id": profile.redfish.manager,
        "Name": "Manager",
        "ManagerType": "BMC",
        "Model": profile.bmc_model,
        "FirmwareVersion": profile.firmware,
        "UUID": server.uuid,
        "Status": {"Health": "OK", "State": "Enabled"},
        "Links": {
            "ManagerForServers": [{"@odata.id": system_path(profile)}],
            "ManagerForChassis": [{"@odata.id": chassis_path(profile)}],
        },
        "Actions": {"#Manager.Reset": {
            "target": format!("{path}/Actions/Manager.Reset"),
            "ResetType@Redfish.AllowableValues": ["ForceRestart", "GracefulRestart"],
        }},
    });
    if profile.redfish.media_under.contains(&MediaPlace::Managers) {
        manager["VirtualMedia"] = json!({"@odata.id": format!("{path}/VirtualMedia")});
    }
    if let Some(oem) = profile.redfish.oem {
        manager["Oem"] = json!({oem.key(): {
            "@odata.type": format!("#{0}.v2_7_1.{0}", oem.prefix()),
            "License": {
                "LicenseKey": "XXXXX-XXXXX-XXXXX-XXXXX-XXXXX",
                "LicenseString": server.licence(),
                "LicenseType": "Perpetual",
            },
            "Links": {"LicenseService": {"@odata.id": format!("{path}/LicenseService")}},
        }});
    }
    manager
}

pub(super) fn licences(profile: &Profile) -> Value {
    let path = manager_path(profile) + "/LicenseService";
    json!({
        "@odata.id": path,
        "@odata.type": "#HpeiLOLicenseCollection.HpeiLOLicenseCollection",
        "Name": "Manager License Service Collection",
        "Members": [{"@odata.id": format!("{path}/1")}],
        "Members@odata.count": 1,
    })
}

pub(super) fn licence(server: &Arc<Server>) -> Value {
    json!({
        "@odata.id": manager_path(server.config.profile) + "/LicenseService/1",
        "@odata.type": "#HpeiLOLicense.v2_3_0.HpeiLOLicense",
        "Id": "1",
        "Name": "iLO License",
        "License": server.licence(),
        "LicenseType": "Perpetual",
    })
}

/// Dell's attributes of the manager, as far as they choose the boot device.
pub(super) fn attributes(server: &Arc<Server>) -> Option<Value> {
    let profile = server.config.profile;
    profile.redfish.boot.first_device.as_ref()?;
    let state = server.state();
    let (value, once) = state.first_device.clone().unwrap_or_else(|| ("Normal".into(), true));
    Some(json!({
        "@odata.context": "/redfish/v1/$metadata#DellAttributes.DellAttributes",
        "@odata.id": manager_path(profile) + "/Attributes",
        "@odata.type": "#DellAttributes.v1_0_0.DellAttributes",
        "Id": "iDRACAttributes",
        "Name": "OEMAttributeRegistry",
        "Attributes": {FIRST: value, ONCE: if once {"Enabled"} else {"Disabled"}},
    }))
}

pub(super) fn patch_attributes(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let Some(attributes) = body.get("Attributes").and_then(Value::as_object) else {
        return Reply::says(profile, Meaning::PropertyMissing, &["Attributes"]);
    };
    let Some(names) = &profile.redfish.boot.first_device else {
        return Reply::says(profile, Meaning::Missing, &[&request.path]);
    };
    let mut state = server.state();
    let (mut value, mut once) = state.first_device.clone().unwrap_or_else(|| ("Normal".into(), true));
    for (name, given) in attributes {
        let text = given.as_str().unwrap_or_default();
        let refused = || Reply::says(profile, Meaning::PropertyValue, &[text, name]);
        match name.as_str() {
            FIRST if takes(names, text) => value = text.to_owned(),
            ONCE if matches!(text, "Enabled" | "Disabled") => once = text == "Enabled",
            FIRST | ONCE => return refused(),
            _ => return Reply::says(profile, Meaning::PropertyUnknown, &[name]),
        }
    }
    state.first_device = (value != "Normal").then_some((value, once));
    Reply::success(profile)
}

fn takes(names: &FirstBootDevice, value: &str) -> bool {
    value == names.cd || value == names.floppy || names.others.iter().any(|other| other == value)
}

/// `Manager.Reset`: the BMC forgets sessions, most forget their media, and it is deaf for a while. The server runs on.
pub(super) fn reset(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    if let Some(name) = body.keys().find(|name| *name != "ResetType") {
        return Reply::says(profile, Meaning::ParameterUnknown, &["Manager.Reset", name]);
    }
    reset_bmc(server);
    Reply::done(profile, Meaning::ResetInProgress)
}

/// What a reset of the BMC does, whoever asked for it.
pub(crate) fn reset_bmc(server: &Server) {
    let profile = server.config.profile;
    let mut state = server.state();
    state.sessions.clear();
    state.tasks.clear();
    if !profile.redfish.bmc_reset_keeps_media {
        for index in 0..profile.slots.len() {
            state.eject(index);
        }
    }
    state.deaf_until = Some(Instant::now() + server.config.timing.bmc_reset);
    drop(state);
    server.media_changed.notify_one();
}
