//! `Systems`: the server as its BMC shows it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::override_place;
use super::root::{chassis_path, manager_path, system_path};
use crate::profile::{BootPlace, MediaPlace, Oem, Profile};
use crate::server::{PowerState, Server};

pub(super) fn resource(server: &Arc<Server>) -> Value {
    let profile = server.config.profile;
    let facts = &profile.redfish;
    let path = system_path(profile);
    let state = server.state();
    let mut system = json!({
        "@odata.context": "/redfish/v1/$metadata#ComputerSystem.ComputerSystem",
        "@odata.id": path,
        "@odata.type": "#ComputerSystem.v1_10_0.ComputerSystem",
        "Id": facts.system,
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
        "EthernetInterfaces": {"@odata.id": format!("{path}/EthernetInterfaces")},
        "Links": {
            "ManagedBy": [{"@odata.id": manager_path(profile)}],
            "Chassis": [{"@odata.id": chassis_path(profile)}],
        },
        "Actions": {"#ComputerSystem.Reset": {
            "target": format!("{path}/Actions/ComputerSystem.Reset"),
            "ResetType@Redfish.AllowableValues": profile.reset_types,
        }},
    });
    system["Boot"] = match facts.boot.place {
        BootPlace::SettingsOnly => json!({}),
        BootPlace::SettingsShown | BootPlace::SettingsIgnored | BootPlace::System => {
            override_place::shown(profile, &state)
        }
    };
    if facts.boot.place != BootPlace::System {
        let settings = format!("{path}/{}", facts.boot.settings);
        system["@Redfish.Settings"] = json!({
            "@odata.type": "#Settings.v1_0_0.Settings",
            "SettingsObject": {"@odata.id": settings},
        });
    }
    if facts.media_under.contains(&MediaPlace::Systems) {
        system["VirtualMedia"] = json!({"@odata.id": format!("{path}/VirtualMedia")});
    }
    if !facts.bios.flat {
        system["Bios"] = json!({"@odata.id": format!("{path}/Bios")});
        if facts.bios.secure_boot {
            system["SecureBoot"] = json!({"@odata.id": format!("{path}/SecureBoot")});
        }
    }
    if let Some(oem) = facts.oem {
        system["Oem"] = extension(oem, &path, facts.bios.flat, json!(state.post));
    }
    system
}

/// HPE's part of a system.
fn extension(oem: Oem, path: &str, links: bool, post: Value) -> Value {
    let (kind, schema) = match oem {
        Oem::Hpe => (
            "HpeComputerSystemExt",
            "#HpeComputerSystemExt.v2_10_2.HpeComputerSystemExt",
        ),
        Oem::Hp => ("ComputerSystemExt", "#HpComputerSystemExt.1.2.2.HpComputerSystemExt"),
    };
    let listed = match oem {
        Oem::Hpe => "HpeComputerSystemExt",
        Oem::Hp => "HpComputerSystemExt",
    };
    let target = |action: &str| format!("{path}/Actions/Oem/{}/{kind}.{action}", oem.key());
    let mut part = json!({
        "@odata.type": schema,
        "PostState": post,
        "PowerOnDelay": "Minimum",
        "Actions": {
            format!("#{listed}.PowerButton"): {
                "target": target("PowerButton"),
                "PushType@Redfish.AllowableValues": ["Press", "PressAndHold"],
            },
            format!("#{listed}.SystemReset"): {
                "target": target("SystemReset"),
                "ResetType@Redfish.AllowableValues": ["ColdBoot", "AuxCycle"],
            },
        },
    });
    if links {
        part["Links"] = json!({
            "BIOS": {"@odata.id": format!("{path}/Bios")},
            "SecureBoot": {"@odata.id": format!("{path}/SecureBoot")},
        });
    }
    json!({oem.key(): part})
}

pub(super) fn interfaces(profile: &Profile) -> Value {
    let path = system_path(profile) + "/EthernetInterfaces";
    json!({
        "@odata.context": "/redfish/v1/$metadata#EthernetInterfaceCollection.EthernetInterfaceCollection",
        "@odata.id": path,
        "@odata.type": "#EthernetInterfaceCollection.EthernetInterfaceCollection",
        "Name": "Ethernet Interfaces",
        "Members": [{"@odata.id": format!("{path}/1")}],
        "Members@odata.count": 1,
    })
}

pub(super) fn interface(server: &Arc<Server>) -> Value {
    let on = server.state().power == PowerState::On;
    json!({
        "@odata.context": "/redfish/v1/$metadata#EthernetInterface.EthernetInterface",
        "@odata.id": system_path(server.config.profile) + "/EthernetInterfaces/1",
        "@odata.type": "#EthernetInterface.v1_4_1.EthernetInterface",
        "Id": "1",
        "Name": "Ethernet Interface",
        "MACAddress": server.mac,
        "PermanentMACAddress": server.mac,
        "LinkStatus": if on {"LinkUp"} else {"NoLink"},
        "SpeedMbps": 1000,
        "FullDuplex": true,
        "Status": {"Health": "OK", "State": if on {"Enabled"} else {"Disabled"}},
    })
}
