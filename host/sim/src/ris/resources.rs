//! The resources of RIS, made of what the Redfish service shows of the same things.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::READ;
use crate::profile::{BootTarget, InsertWay, Protocol};
use crate::server::{BootOnReset, Server};

const CHANGE: &str = "GET, HEAD, PATCH";
const ACT: &str = "GET, HEAD, POST, PATCH";

/// What UEFI boots from, by its structured name.
const SOURCES: &[(BootTarget, &str, &str)] = &[
    (
        BootTarget::Cd,
        "CD.Virtual.2.1",
        "iLO Virtual USB 2 : HP iLO Virtual USB CD/DVD ROM",
    ),
    (
        BootTarget::Usb,
        "FD.Virtual.1.1",
        "iLO Virtual USB 1 : HP iLO Virtual USB Key",
    ),
    (
        BootTarget::Hdd,
        "HD.Emb.1.2",
        "Embedded RAID 1 : Smart Array P440ar Controller - 279.37 GiB, RAID 1 Logical Drive(Target:0, Lun:0)",
    ),
    (
        BootTarget::Pxe,
        "NIC.LOM.1.1.IPv4",
        "Embedded LOM 1 Port 1 : HP Ethernet 1Gb 4-port 331i Adapter - NIC (PXE IPv4) ",
    ),
];

/// The service root, for anybody.
pub(super) fn root(server: &Server) -> Value {
    let profile = server.config.profile;
    json!({
        "Type": "ServiceRoot.1.0.0",
        "Name": "HP RESTful Root Service",
        "ServiceVersion": "1.0.0",
        "Time": crate::trace::now(),
        "UUID": server.uuid,
        "Oem": {"Hp": {
            "Type": "HpiLOServiceExt.1.0.0",
            "Manager": [{"ManagerType": profile.bmc_model, "ManagerFirmwareVersion": number(&profile.firmware)}],
        }},
        "links": {
            "self": {"href": "/rest/v1"},
            "Systems": {"href": "/rest/v1/Systems"},
            "Managers": {"href": "/rest/v1/Managers"},
            "Sessions": {"href": "/rest/v1/Sessions"},
        },
    })
}

/// The resource at a route below `/rest`, from the Redfish one, and what may be done to it.
pub(super) fn of(server: &Arc<Server>, route: &str, redfish: &Value) -> Option<(Value, &'static str)> {
    Some(match route.strip_prefix("/v1")? {
        "/systems" => (
            collection("ComputerSystem", "/rest/v1/Systems", &["1".to_owned()]),
            READ,
        ),
        "/systems/1" => (system(server, redfish), ACT),
        "/systems/1/bios" => (bios(redfish, "/rest/v1/systems/1/bios"), READ),
        "/systems/1/bios/settings" => (bios(redfish, "/rest/v1/systems/1/bios/Settings"), CHANGE),
        "/systems/1/bios/boot" => (boot(server), READ),
        "/systems/1/secureboot" => (secure_boot(redfish), CHANGE),
        "/managers" => (collection("Manager", "/rest/v1/Managers", &["1".to_owned()]), READ),
        "/managers/1" => (manager(server), "GET, HEAD, POST"),
        "/managers/1/virtualmedia" => {
            let ids: Vec<String> = server.config.profile.slots.iter().map(|slot| slot.id.clone()).collect();
            (
                collection("VirtualMedia", "/rest/v1/Managers/1/VirtualMedia", &ids),
                READ,
            )
        }
        "/sessions" => (
            collection("Session", "/rest/v1/Sessions", &members(redfish)),
            "GET, HEAD, POST",
        ),
        other => match other.strip_prefix("/sessions/") {
            Some(_) => (session(redfish, redfish.get("Id")?.as_str()?), "GET, HEAD, DELETE"),
            None => {
                let allow = if has_actions(server) { ACT } else { CHANGE };
                (slot(server, redfish)?, allow)
            }
        },
    })
}

fn members(redfish: &Value) -> Vec<String> {
    let members = redfish.get("Members").and_then(Value::as_array);
    let paths = members
        .into_iter()
        .flatten()
        .filter_map(|member| member.get("@odata.id")?.as_str());
    paths
        .map(|path| path.rsplit('/').next().unwrap_or_default().to_owned())
        .collect()
}

fn collection(kind: &str, path: &str, ids: &[String]) -> Value {
    let members: Vec<Value> = ids.iter().map(|id| json!({"href": format!("{path}/{id}")})).collect();
    json!({
        "Type": "Collection.1.0.0",
        "MemberType": format!("{kind}.1"),
        "Name": path.rsplit('/').next(),
        "Total": members.len(),
        "links": {"self": {"href": path}, "Member": members},
    })
}

fn system(server: &Server, redfish: &Value) -> Value {
    let profile = server.config.profile;
    let of = |key: &str| redfish.get(key).cloned().unwrap_or_default();
    let boot = |key: &str| {
        redfish
            .get("Boot")
            .and_then(|boot| boot.get(key))
            .cloned()
            .unwrap_or_default()
    };
    let names: Vec<&str> = SOURCES.iter().map(|(_, name, _)| *name).collect();
    let action = |name: &str, property: &str, values: &[&str]| {
        json!({"Action": name, "Capabilities": [
            {"PropertyName": property, "AllowableValues": values},
            {"PropertyName": "Target", "AllowableValues": ["/Oem/Hp"]},
        ]})
    };
    let version = json!({"VersionString": profile.bios_version});
    let mut system = json!({
        "Type": "ComputerSystem.1.0.0",
        "Name": "Computer System",
        "Description": "Computer System View",
        "AssetTag": "",
        "Manufacturer": profile.vendor,
        "Model": of("Model"),
        "SerialNumber": of("SerialNumber"),
        "SKU": of("SKU"),
        "UUID": of("UUID"),
        "SystemType": "Physical",
        "Power": of("PowerState"),
        "Status": of("Status"),
        "Bios": {"Current": version},
        "Memory": {"TotalSystemMemoryGB": 16},
        "Processors": {"Count": 1, "Status": {"HealthRollUp": "OK"}},
        "HostCorrelation": {"HostMACAddress": [server.mac], "HostName": "", "IPAddress": [""]},
        "Boot": {
            "BootSourceOverrideEnabled": boot("BootSourceOverrideEnabled"),
            "BootSourceOverrideTarget": boot("BootSourceOverrideTarget"),
            "BootSourceOverrideSupported": boot("BootSourceOverrideTarget@Redfish.AllowableValues"),
            "UefiTargetBootSourceOverride": "None",
            "UefiTargetBootSourceOverrideSupported": names,
        },
        "AvailableActions": [{"Action": "Reset", "Capabilities": [
            {"PropertyName": "ResetType", "AllowableValues": profile.reset_types},
        ]}],
        "Oem": {"Hp": {
            "Type": "HpComputerSystemExt.1.0.0",
            "PostState": server.state().post,
            "PowerOnDelay": "Minimum",
            "Bios": {"Current": version, "UefiClass": 2},
            "AvailableActions": [
                action("PowerButton", "PushType", &["Press", "PressAndHold"]),
                action("SystemReset", "ResetType", &["ColdBoot"]),
            ],
            "links": {
                "BIOS": {"href": "/rest/v1/systems/1/bios"},
                "SecureBoot": {"href": "/rest/v1/Systems/1/SecureBoot"},
            },
        }},
        "links": {
            "self": {"href": "/rest/v1/Systems/1"},
            "ManagedBy": [{"href": "/rest/v1/Managers/1"}],
        },
    });
    if profile.speaks(Protocol::Redfish) {
        system["PowerState"] = of("PowerState");
    }
    system
}

/// Attributes at the top, beside what every resource has.
fn bios(redfish: &Value, path: &str) -> Value {
    let flat = Map::new();
    let attributes = match redfish.get("Attributes") {
        Some(Value::Object(attributes)) => attributes,
        _ => redfish.as_object().unwrap_or(&flat),
    };
    let own = ["Id", "Name", "Description", "Actions", "links", "Links", "Oem", "Type"];
    let mut resource: Map<String, Value> = attributes
        .iter()
        .filter(|(name, _)| !name.contains('@') && !own.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    resource.insert("Type".into(), "HpBios.1.2.0".into());
    resource.insert("Name".into(), "BIOS Settings".into());
    let mut links = json!({"self": {"href": path}});
    if !path.ends_with("/Settings") {
        links["Settings"] = json!({"href": "/rest/v1/systems/1/bios/Settings"});
        links["Boot"] = json!({"href": "/rest/v1/systems/1/bios/Boot"});
    }
    resource.insert("links".into(), links);
    Value::Object(resource)
}

fn boot(server: &Server) -> Value {
    let mut order = server.state().boot_order.clone();
    order.extend(SOURCES.iter().map(|(target, ..)| *target));
    let mut names: Vec<&str> = Vec::new();
    for target in order {
        let found = SOURCES.iter().find(|(of, ..)| *of == target).map(|(_, name, _)| *name);
        names.extend(found.filter(|name| !names.contains(name)));
    }
    let sources: Vec<Value> = SOURCES
        .iter()
        .map(|(_, name, text)| json!({"StructuredBootString": name, "BootString": text}))
        .collect();
    json!({
        "Type": "HpServerBootSettings.1.2.0",
        "Name": "Boot Order Settings",
        "BootSources": sources,
        "DefaultBootOrder": ["Floppy", "Cd", "Usb", "EmbeddedStorage", "EmbeddedFlexLOM"],
        "PersistentBootConfigOrder": names,
        "links": {"self": {"href": "/rest/v1/systems/1/bios/Boot"}},
    })
}

fn secure_boot(redfish: &Value) -> Value {
    let now = redfish.get("SecureBootCurrentBoot").and_then(Value::as_str);
    json!({
        "Type": "HpSecureBoot.1.0.0",
        "Name": "SecureBoot",
        "SecureBootCurrentState": now == Some("Enabled"),
        "SecureBootEnable": redfish.get("SecureBootEnable"),
        "ResetAllKeys": false,
        "ResetToDefaultKeys": false,
        "links": {"self": {"href": "/rest/v1/Systems/1/SecureBoot"}},
    })
}

fn manager(server: &Server) -> Value {
    let profile = server.config.profile;
    let version = number(&profile.firmware);
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    let count = |digits: &str| digits.parse::<u32>().unwrap_or(0);
    json!({
        "Type": "Manager.1.0.0",
        "Name": "Manager",
        "Description": "Manager View",
        "ManagerType": "BMC",
        "Model": profile.bmc_model,
        "UUID": server.uuid,
        "Status": {"State": "Enabled"},
        "Firmware": {"Current": {"VersionString": profile.firmware}},
        "AvailableActions": [{"Action": "Reset"}],
        "Oem": {"Hp": {
            "Type": "HpiLO.1.0.0",
            "Firmware": {"Current": {
                "Date": profile.ribcl.firmware_date,
                "DebugBuild": false,
                "MajorVersion": count(major),
                "MinorVersion": count(minor),
                "VersionString": profile.firmware,
            }},
            "License": {
                "LicenseKey": "XXXXX-XXXXX-XXXXX-XXXXX-XXXXX",
                "LicenseString": server.licence(),
                "LicenseType": "Perpetual",
            },
        }},
        "links": {
            "self": {"href": "/rest/v1/Managers/1"},
            "ManagerForServers": [{"href": "/rest/v1/Systems/1"}],
            "VirtualMedia": {"href": "/rest/v1/Managers/1/VirtualMedia"},
        },
    })
}

fn slot(server: &Server, redfish: &Value) -> Option<Value> {
    let id = redfish.get("Id")?.as_str()?;
    let index = server.config.profile.slots.iter().position(|slot| slot.id == id)?;
    let of = |key: &str| redfish.get(key).cloned().unwrap_or_default();
    let boots = {
        let state = server.state();
        let held = state.slots.get(index).and_then(|slot| slot.inserted.as_ref());
        held.is_some_and(|held| held.boot_on_reset == BootOnReset::Next)
    };
    let mut own = json!({"Type": "HpiLOVirtualMedia.1.0.0", "BootOnNextServerReset": boots});
    if has_actions(server) {
        let target = json!({"PropertyName": "Target", "AllowableValues": ["/Oem/Hp"]});
        own["AvailableActions"] = json!([
            {"Action": "InsertVirtualMedia", "Capabilities": [target, {"PropertyName": "Image"}]},
            {"Action": "EjectVirtualMedia", "Capabilities": [target]},
        ]);
    }
    Some(json!({
        "Type": "VirtualMedia.1.0.0",
        "Name": "VirtualMedia",
        "Description": "Virtual Removable Media",
        "MediaTypes": of("MediaTypes"),
        "Image": of("Image"),
        "ImageName": of("ImageName"),
        "Inserted": of("Inserted"),
        "ConnectedVia": of("ConnectedVia"),
        "WriteProtected": of("WriteProtected"),
        "Oem": {"Hp": own},
        "links": {"self": {"href": format!("/rest/v1/Managers/1/VirtualMedia/{id}")}},
    }))
}

/// Whether this firmware has HPE's own actions.
fn has_actions(server: &Server) -> bool {
    server.config.profile.redfish.insert.ways.contains(&InsertWay::Oem)
}

pub(super) fn session(redfish: &Value, id: &str) -> Value {
    json!({
        "Type": "Session.1.0.0",
        "Name": "User Session",
        "Description": "Manager User Session",
        "UserName": redfish.get("UserName"),
        "links": {"self": {"href": format!("/rest/v1/Sessions/{id}")}},
    })
}

/// The number in "iLO 4 v2.20".
fn number(firmware: &str) -> &str {
    firmware.rsplit(" v").next().unwrap_or(firmware)
}
