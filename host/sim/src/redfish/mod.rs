//! The Redfish service of one simulated BMC: which path does what.
//!
//! Pure of sockets: a request in, a reply out. Serving is in [`crate::serve`].

pub(crate) mod reply;
mod session;
mod system;
mod vmedia;

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::faults::Effect;
use crate::redfish::reply::{Reply, Request};
use crate::server::Server;

/// What a resource is, how it is read and what may be done to it.
struct Resource {
    allow: &'static str,
    body: Value,
}

/// Answers one request.
pub(crate) fn answer(server: &Arc<Server>, request: &Request, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    let route = request.route();
    let method = request.method.as_str();
    let public = matches!(
        route.as_str(),
        "/redfish" | "/redfish/v1" | "/redfish/v1/odata" | "/redfish/v1/$metadata"
    ) || (method == "POST" && route == "/redfish/v1/sessionservice/sessions");
    if !public && let Err(reply) = session::authorise(server, request) {
        return reply;
    }
    if method == "POST" {
        return post(server, request, &route, fault);
    }
    let Some(resource) = find(server, &route) else {
        if post_target(server, &route) {
            return not_allowed(server, "POST");
        }
        return missing(server, request);
    };
    let allowed = resource.allow.split(", ").any(|allowed| allowed == method);
    match method {
        "GET" | "HEAD" => {
            let mut reply = Reply::resource(resource.body, resource.allow);
            let etag = reply.headers.first().map(|(_, etag)| etag.clone());
            if etag.is_some() && request.header("if-none-match").map(str::to_owned) == etag {
                reply.status = 304;
                reply.body = None;
            }
            reply
        }
        "PATCH" if allowed => {
            if let Some(wanted) = request.header("if-match")
                && wanted != "*"
                && wanted != reply::etag(&resource.body)
            {
                return Reply::error(profile, 412, "Base", "PreconditionFailed", &[]);
            }
            patch(server, request, &route)
        }
        "DELETE" if allowed => route
            .strip_prefix("/redfish/v1/sessionservice/sessions/")
            .and_then(|id| session::delete(server, id))
            .unwrap_or_else(|| missing(server, request)),
        _ => not_allowed(server, resource.allow),
    }
}

fn missing(server: &Arc<Server>, request: &Request) -> Reply {
    Reply::error(
        server.config.profile,
        404,
        "Base",
        "ResourceMissingAtURI",
        &[&request.path],
    )
}

fn not_allowed(server: &Arc<Server>, allow: &'static str) -> Reply {
    let mut reply = Reply::error(server.config.profile, 405, "iLO", "UnsupportedOperation", &[]);
    reply.allow = Some(allow);
    reply
}

fn find(server: &Arc<Server>, route: &str) -> Option<Resource> {
    const READ: &str = "GET, HEAD";
    const CHANGE: &str = "GET, HEAD, PATCH";
    let profile = server.config.profile;
    let read = |body: Value| Some(Resource { allow: READ, body });
    let change = |body: Value| Some(Resource { allow: CHANGE, body });
    let rest = match route.strip_prefix("/redfish/v1") {
        Some(rest) => rest,
        None if route == "/redfish" => return read(json!({"v1": "/redfish/v1/"})),
        None => return None,
    };
    match rest {
        "" => read(root(server)),
        "/odata" => read(json!({
            "@odata.context": "/redfish/v1/$metadata",
            "value": [
                {"name": "Service", "kind": "Singleton", "url": "/redfish/v1/"},
                {"name": "Systems", "kind": "Singleton", "url": "/redfish/v1/Systems"},
                {"name": "Managers", "kind": "Singleton", "url": "/redfish/v1/Managers"},
            ],
        })),
        "/systems" => read(members("ComputerSystem", "Systems")),
        "/systems/1" => change(system::resource(server)),
        "/systems/1/bios" => read(system::bios(server, false)),
        "/systems/1/bios/settings" => change(system::bios(server, true)),
        "/systems/1/secureboot" => change(system::secure_boot(server)),
        "/systems/1/ethernetinterfaces" => read(system::interfaces()),
        "/systems/1/ethernetinterfaces/1" => read(system::interface(server)),
        "/chassis" => read(members("Chassis", "Chassis")),
        "/chassis/1" => read(json!({
            "@odata.id": "/redfish/v1/Chassis/1",
            "@odata.type": "#Chassis.v1_10_2.Chassis",
            "Id": "1",
            "Name": "Computer System Chassis",
            "ChassisType": "RackMount",
            "Manufacturer": profile.vendor,
            "Model": profile.model,
            "SerialNumber": server.serial_number,
        })),
        "/managers" => read(members("Manager", "Managers")),
        "/managers/1" => read(manager(server)),
        "/managers/1/licenseservice" => read(json!({
            "@odata.id": "/redfish/v1/Managers/1/LicenseService",
            "@odata.type": "#HpeiLOLicenseCollection.HpeiLOLicenseCollection",
            "Name": "Manager License Service Collection",
            "Members": [{"@odata.id": "/redfish/v1/Managers/1/LicenseService/1"}],
            "Members@odata.count": 1,
        })),
        "/managers/1/licenseservice/1" => read(json!({
            "@odata.id": "/redfish/v1/Managers/1/LicenseService/1",
            "@odata.type": "#HpeiLOLicense.v2_3_0.HpeiLOLicense",
            "Id": "1",
            "Name": "iLO License",
            "License": profile.licence,
            "LicenseType": "Perpetual",
        })),
        "/managers/1/virtualmedia" => read(vmedia::collection(profile)),
        "/sessionservice" => read(session::service()),
        "/sessionservice/sessions" => Some(Resource {
            allow: "GET, HEAD, POST",
            body: session::collection(server),
        }),
        _ => {
            if let Some(id) = rest.strip_prefix("/sessionservice/sessions/") {
                let body = session::one(server, id)?;
                return Some(Resource {
                    allow: "GET, HEAD, DELETE",
                    body,
                });
            }
            let id = rest.strip_prefix("/managers/1/virtualmedia/")?;
            change(vmedia::resource(server, slot(server, id)?)?)
        }
    }
}

fn slot(server: &Arc<Server>, id: &str) -> Option<usize> {
    let slots = server.config.profile.slots;
    slots.iter().position(|slot| slot.id.eq_ignore_ascii_case(id))
}

fn patch(server: &Arc<Server>, request: &Request, route: &str) -> Reply {
    match route {
        "/redfish/v1/systems/1" => system::patch(server, request),
        "/redfish/v1/systems/1/bios/settings" => system::patch_bios(server, request),
        "/redfish/v1/systems/1/secureboot" => system::patch_secure_boot(server, request),
        _ => {
            let id = route.rsplit('/').next().unwrap_or_default();
            match slot(server, id) {
                Some(index) => vmedia::patch(server, request, index),
                None => missing(server, request),
            }
        }
    }
}

/// Whether `route` is an action, for telling 404 from 405.
fn post_target(server: &Arc<Server>, route: &str) -> bool {
    let profile = server.config.profile;
    matches!(
        route,
        "/redfish/v1/systems/1/actions/computersystem.reset"
            | "/redfish/v1/managers/1/actions/manager.reset"
            | "/redfish/v1/systems/1/secureboot/actions/secureboot.resetkeys"
    ) || profile.slots.iter().any(|slot| {
        let actions = format!("/redfish/v1/managers/1/virtualmedia/{}/actions/", slot.id);
        route.strip_prefix(&actions).is_some_and(|name| name.ends_with("media"))
    })
}

fn post(server: &Arc<Server>, request: &Request, route: &str, fault: &Effect) -> Reply {
    match route {
        "/redfish/v1/sessionservice/sessions" => {
            return session::create(server, request, *fault == Effect::SessionTableFull);
        }
        "/redfish/v1/systems/1/actions/computersystem.reset" => {
            return system::reset(server, request);
        }
        "/redfish/v1/systems/1/secureboot/actions/secureboot.resetkeys" => {
            return system::reset_keys(server, request);
        }
        "/redfish/v1/managers/1/actions/manager.reset" => return reset_manager(server, request),
        _ => {}
    }
    let done = if let Some(action) = route.strip_prefix("/redfish/v1/systems/1/actions/oem/hpe/") {
        system::oem_action(server, request, action)
    } else {
        route
            .strip_prefix("/redfish/v1/managers/1/virtualmedia/")
            .and_then(|rest| rest.split_once("/actions/"))
            .and_then(|(id, name)| vmedia::action(server, request, slot(server, id)?, name, fault))
    };
    done.unwrap_or_else(|| match find(server, route) {
        Some(resource) => not_allowed(server, resource.allow),
        None => missing(server, request),
    })
}

/// `Manager.Reset`: the BMC forgets sessions and scripted media and is deaf for a while. The server runs on.
fn reset_manager(server: &Arc<Server>, request: &Request) -> Reply {
    let profile = server.config.profile;
    if let Err(reply) = request.object(profile) {
        return reply;
    }
    let mut state = server.state();
    state.sessions.clear();
    for index in 0..profile.slots.len() {
        state.eject(index);
    }
    state.deaf_until = Some(Instant::now() + server.config.timing.bmc_reset);
    drop(state);
    server.media_changed.notify_one();
    Reply::error(profile, 200, "iLO", "ResetInProgress", &[])
}

fn members(kind: &str, folder: &str) -> Value {
    json!({
        "@odata.context": format!("/redfish/v1/$metadata#{kind}Collection.{kind}Collection"),
        "@odata.id": format!("/redfish/v1/{folder}"),
        "@odata.type": format!("#{kind}Collection.{kind}Collection"),
        "Name": folder,
        "Members": [{"@odata.id": format!("/redfish/v1/{folder}/1")}],
        "Members@odata.count": 1,
    })
}

fn root(server: &Arc<Server>) -> Value {
    let profile = server.config.profile;
    json!({
        "@odata.context": "/redfish/v1/$metadata#ServiceRoot.ServiceRoot",
        "@odata.id": "/redfish/v1",
        "@odata.type": "#ServiceRoot.v1_5_1.ServiceRoot",
        "Id": "RootService",
        "Name": "HPE RESTful Root Service",
        "Product": profile.model,
        "Vendor": profile.vendor,
        "RedfishVersion": "1.6.0",
        "UUID": server.uuid,
        "Systems": {"@odata.id": "/redfish/v1/Systems"},
        "Managers": {"@odata.id": "/redfish/v1/Managers"},
        "Chassis": {"@odata.id": "/redfish/v1/Chassis"},
        "SessionService": {"@odata.id": "/redfish/v1/SessionService"},
        "Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}},
        "Oem": {profile.oem: {
            "@odata.type": "#HpeiLOServiceExt.v2_3_0.HpeiLOServiceExt",
            "Manager": [{
                "DefaultLanguage": "en",
                "ManagerFirmwareVersion": profile.firmware.rsplit('v').next(),
                "ManagerType": "iLO 5",
                "Status": {"Health": "OK"},
            }],
            "Moniker": {"PRODTAG": "HPE iLO 5", "VENDABR": profile.vendor},
        }},
    })
}

fn manager(server: &Arc<Server>) -> Value {
    let profile = server.config.profile;
    json!({
        "@odata.context": "/redfish/v1/$metadata#Manager.Manager",
        "@odata.id": "/redfish/v1/Managers/1",
        "@odata.type": "#Manager.v1_5_1.Manager",
        "Id": "1",
        "Name": "Manager",
        "ManagerType": "BMC",
        "Model": "iLO 5",
        "FirmwareVersion": profile.firmware,
        "UUID": server.uuid,
        "Status": {"Health": "OK", "State": "Enabled"},
        "VirtualMedia": {"@odata.id": "/redfish/v1/Managers/1/VirtualMedia"},
        "Links": {
            "ManagerForServers": [{"@odata.id": "/redfish/v1/Systems/1"}],
            "ManagerInChassis": [{"@odata.id": "/redfish/v1/Chassis/1"}],
        },
        "Actions": {"#Manager.Reset": {
            "target": "/redfish/v1/Managers/1/Actions/Manager.Reset",
            "ResetType@Redfish.AllowableValues": ["ForceRestart", "GracefulRestart"],
        }},
        "Oem": {profile.oem: {
            "@odata.type": "#HpeiLO.v2_7_1.HpeiLO",
            "License": {
                "LicenseKey": "XXXXX-XXXXX-XXXXX-XXXXX-XXXXX",
                "LicenseString": profile.licence,
                "LicenseType": "Perpetual",
            },
            "Links": {"LicenseService": {"@odata.id": "/redfish/v1/Managers/1/LicenseService"}},
        }},
    })
}
