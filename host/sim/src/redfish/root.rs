//! The service root and what else says where things are.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::profile::{Oem, Profile};
use crate::server::Server;

/// `/redfish`.
pub(super) fn versions() -> Value {
    json!({"v1": "/redfish/v1/"})
}

/// `/redfish/v1/odata`.
pub(super) fn odata() -> Value {
    json!({
        "@odata.context": "/redfish/v1/$metadata",
        "value": [
            {"name": "Service", "kind": "Singleton", "url": "/redfish/v1/"},
            {"name": "Systems", "kind": "Singleton", "url": "/redfish/v1/Systems"},
            {"name": "Managers", "kind": "Singleton", "url": "/redfish/v1/Managers"},
            {"name": "Chassis", "kind": "Singleton", "url": "/redfish/v1/Chassis"},
        ],
    })
}

/// `/redfish/v1/$metadata`: where the schemas of the resources here are published (DSP0266 clause 8.4).
pub(super) fn metadata() -> String {
    const SCHEMAS: &[&str] = &[
        "ServiceRoot",
        "ComputerSystemCollection",
        "ComputerSystem",
        "ChassisCollection",
        "Chassis",
        "ManagerCollection",
        "Manager",
        "VirtualMediaCollection",
        "VirtualMedia",
        "Bios",
        "SecureBoot",
        "EthernetInterfaceCollection",
        "EthernetInterface",
        "SessionService",
        "SessionCollection",
        "Session",
        "TaskService",
        "TaskCollection",
        "Task",
        "MessageRegistryFileCollection",
        "Message",
        "Settings",
    ];
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <edmx:Edmx xmlns:edmx=\"http://docs.oasis-open.org/odata/ns/edmx\" Version=\"4.0\">\n",
    );
    for name in SCHEMAS {
        text.push_str(&format!(
            " <edmx:Reference Uri=\"http://redfish.dmtf.org/schemas/v1/{name}_v1.xml\">\n  <edmx:Include Namespace=\"{name}\"/>\n </edmx:Reference>\n"
        ));
    }
    text.push_str(
        " <edmx:Reference Uri=\"http://redfish.dmtf.org/schemas/v1/RedfishExtensions_v1.xml\">\n  \
         <edmx:Include Namespace=\"RedfishExtensions.v1_0_0\" Alias=\"Redfish\"/>\n </edmx:Reference>\n \
         <edmx:DataServices>\n  <Schema xmlns=\"http://docs.oasis-open.org/odata/ns/edm\" Namespace=\"Service\">\n   \
         <EntityContainer Name=\"Service\" Extends=\"ServiceRoot.v1_5_1.ServiceContainer\"/>\n  </Schema>\n \
         </edmx:DataServices>\n</edmx:Edmx>\n",
    );
    text
}

pub(super) fn root(server: &Arc<Server>) -> Value {
    let profile = server.config.profile;
    let mut root = json!({
        "@odata.context": "/redfish/v1/$metadata#ServiceRoot.ServiceRoot",
        "@odata.id": "/redfish/v1",
        "@odata.type": "#ServiceRoot.v1_5_1.ServiceRoot",
        "Id": "RootService",
        "Name": "Root Service",
        "Product": profile.model,
        "Vendor": profile.vendor,
        "RedfishVersion": profile.redfish.version,
        "UUID": server.uuid,
        "Systems": {"@odata.id": "/redfish/v1/Systems"},
        "Managers": {"@odata.id": "/redfish/v1/Managers"},
        "Chassis": {"@odata.id": "/redfish/v1/Chassis"},
        "SessionService": {"@odata.id": "/redfish/v1/SessionService"},
        "Tasks": {"@odata.id": "/redfish/v1/TaskService"},
        "Registries": {"@odata.id": "/redfish/v1/Registries"},
        "Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}},
    });
    if let Some(oem) = profile.redfish.oem {
        root["Name"] = match oem {
            Oem::Hpe => "HPE RESTful Root Service",
            Oem::Hp => "HP RESTful Root Service",
        }
        .into();
        root["Oem"] = json!({oem.key(): {
            "@odata.type": format!("#{0}ServiceExt.v2_3_0.{0}ServiceExt", oem.prefix()),
            "Manager": [{
                "DefaultLanguage": "en",
                "ManagerFirmwareVersion": profile.firmware.rsplit('v').next(),
                "ManagerType": profile.bmc_model,
                "Status": {"Health": "OK"},
            }],
            "Moniker": {"PRODTAG": format!("HPE {}", profile.bmc_model), "VENDABR": profile.vendor},
        }});
    }
    root
}

/// A collection of one.
pub(super) fn members(kind: &str, folder: &str, id: &str) -> Value {
    json!({
        "@odata.context": format!("/redfish/v1/$metadata#{kind}Collection.{kind}Collection"),
        "@odata.id": format!("/redfish/v1/{folder}"),
        "@odata.type": format!("#{kind}Collection.{kind}Collection"),
        "Name": folder,
        "Members": [{"@odata.id": format!("/redfish/v1/{folder}/{id}")}],
        "Members@odata.count": 1,
    })
}

pub(super) fn chassis(server: &Arc<Server>) -> Value {
    let profile = server.config.profile;
    json!({
        "@odata.context": "/redfish/v1/$metadata#Chassis.Chassis",
        "@odata.id": chassis_path(profile),
        "@odata.type": "#Chassis.v1_10_2.Chassis",
        "Id": profile.redfish.chassis,
        "Name": "Computer System Chassis",
        "ChassisType": "RackMount",
        "Manufacturer": profile.vendor,
        "Model": profile.model,
        "SerialNumber": server.serial_number,
        "Status": {"Health": "OK", "State": "Enabled"},
        "Links": {
            "ComputerSystems": [{"@odata.id": system_path(profile)}],
            "ManagedBy": [{"@odata.id": manager_path(profile)}],
        },
    })
}

pub(super) fn registries() -> Value {
    json!({
        "@odata.context": "/redfish/v1/$metadata#MessageRegistryFileCollection.MessageRegistryFileCollection",
        "@odata.id": "/redfish/v1/Registries",
        "@odata.type": "#MessageRegistryFileCollection.MessageRegistryFileCollection",
        "Name": "Registries",
        "Members": [],
        "Members@odata.count": 0,
    })
}

pub(super) fn system_path(profile: &Profile) -> String {
    format!("/redfish/v1/Systems/{}", profile.redfish.system)
}

pub(super) fn manager_path(profile: &Profile) -> String {
    format!("/redfish/v1/Managers/{}", profile.redfish.manager)
}

pub(super) fn chassis_path(profile: &Profile) -> String {
    format!("/redfish/v1/Chassis/{}", profile.redfish.chassis)
}
