//! The Redfish service of one simulated BMC: which path does what.
//!
//! Pure of sockets: a request in, a reply out. Serving is in [`crate::serve`]. What differs between models is read from the
//! profile; nothing here knows a model.

mod actions;
mod firmware;
mod insert;
mod manager;
mod override_place;
pub(crate) mod reply;
mod root;
mod session;
mod system;
mod task;
mod vmedia;
mod wording;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::manager::reset_bmc;
use crate::faults::Effect;
use crate::profile::{BootPlace, IfMatch, Meaning, MediaPlace, Profile, Slash};
use crate::redfish::reply::{Reply, Request};
use crate::server::Server;

const READ: &str = "GET, HEAD";
const CHANGE: &str = "GET, HEAD, PATCH";

/// What a resource is, how it is read and what may be done to it.
struct Resource {
    allow: &'static str,
    body: Value,
}

/// Answers one request.
pub(crate) fn answer(server: &Arc<Server>, request: &Request, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    if let Some(reply) = before(profile, request) {
        return reply;
    }
    let method = request.method.as_str();
    let full = request.route();
    let public = matches!(
        full.as_str(),
        "/redfish" | "/redfish/v1" | "/redfish/v1/odata" | "/redfish/v1/$metadata"
    ) || (method == "POST" && full == "/redfish/v1/sessionservice/sessions");
    if !public && let Err(reply) = session::authorise(server, request) {
        return reply;
    }
    let Some(route) = canonical(profile, &full) else {
        return missing(server, request);
    };
    if method == "POST" {
        return post(server, request, &route, fault);
    }
    if route == "/$metadata" && matches!(method, "GET" | "HEAD") {
        return Reply::text("application/xml", root::metadata(), READ);
    }
    let Some(resource) = find(server, &route) else {
        if actions::exists(profile, &route) {
            return not_allowed(server, "POST");
        }
        return missing(server, request);
    };
    let allowed = resource.allow.split(", ").any(|allowed| allowed == method);
    match method {
        "GET" | "HEAD" => {
            let mut reply = Reply::resource(profile, resource.body, resource.allow);
            let etag = reply.headers.first().map(|(_, etag)| etag.as_str());
            if etag.is_some_and(|etag| !etag.is_empty()) && request.header("if-none-match") == etag {
                reply.status = 304;
                reply.body = None;
            }
            reply
        }
        "PATCH" if allowed => patch(server, request, &route, &resource.body, fault),
        "DELETE" if allowed => route
            .strip_prefix("/sessionservice/sessions/")
            .and_then(|id| session::delete(server, id))
            .unwrap_or_else(|| missing(server, request)),
        _ => not_allowed(server, resource.allow),
    }
}

/// What is refused or sent elsewhere before anybody asks who it is.
fn before(profile: &Profile, request: &Request) -> Option<Reply> {
    let path = request.path.split(['?', '#']).next().unwrap_or_default();
    if profile.redfish.slash == Slash::Redirect && !path.ends_with('/') && path.starts_with("/redfish/v1") {
        return Some(Reply::moved(format!("{path}/")));
    }
    let identity_only = request
        .header("accept-encoding")
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("identity"));
    let route = request.route();
    let mut refused = profile.redfish.identity_refused.iter();
    if identity_only && refused.any(|prefix| route.starts_with(prefix.as_str())) {
        return Some(Reply::says(profile, Meaning::NotAcceptable, &[]));
    }
    None
}

/// The route below `/redfish/v1` with `*` for the ids of this service's system, manager and chassis; `/redfish` itself is `..`.
/// `None`: it is none of its paths.
fn canonical(profile: &Profile, route: &str) -> Option<String> {
    let facts = &profile.redfish;
    let rest = match route.strip_prefix("/redfish/v1") {
        Some(rest) => rest,
        None => return (route == "/redfish").then(|| "..".to_owned()),
    };
    let mut parts = rest.splitn(4, '/');
    let (empty, folder, id, more) = (parts.next()?, parts.next(), parts.next(), parts.next());
    if !empty.is_empty() {
        return None;
    }
    let wanted = match folder {
        Some("systems") => &facts.system,
        Some("managers") => &facts.manager,
        Some("chassis") => &facts.chassis,
        _ => return Some(rest.to_owned()),
    };
    let folder = folder.unwrap_or_default();
    match (id, more) {
        (None, _) => Some(rest.to_owned()),
        (Some(id), _) if !id.eq_ignore_ascii_case(wanted) => None,
        (Some(_), None) => Some(format!("/{folder}/*")),
        (Some(_), Some(more)) => Some(format!("/{folder}/*/{more}")),
    }
}

fn missing(server: &Arc<Server>, request: &Request) -> Reply {
    Reply::says(server.config.profile, Meaning::Missing, &[&request.path])
}

fn not_allowed(server: &Arc<Server>, allow: &'static str) -> Reply {
    let mut reply = Reply::says(server.config.profile, Meaning::NotAllowed, &[]);
    reply.allow = Some(allow);
    reply
}

fn find(server: &Arc<Server>, route: &str) -> Option<Resource> {
    let profile = server.config.profile;
    let facts = &profile.redfish;
    let read = |body: Value| Some(Resource { allow: READ, body });
    let change = |body: Value| Some(Resource { allow: CHANGE, body });
    match route {
        ".." => read(root::versions()),
        "" => read(root::root(server)),
        "/odata" => read(root::odata()),
        "/systems" => read(root::members("ComputerSystem", "Systems", &facts.system)),
        "/systems/*" => change(system::resource(server)),
        "/systems/*/bios" => read(firmware::bios(server, false)),
        "/systems/*/secureboot" if facts.bios.secure_boot => change(firmware::secure_boot(server)),
        "/systems/*/ethernetinterfaces" => read(system::interfaces(profile)),
        "/systems/*/ethernetinterfaces/1" => read(system::interface(server)),
        "/chassis" => read(root::members("Chassis", "Chassis", &facts.chassis)),
        "/chassis/*" => read(root::chassis(server)),
        "/managers" => read(root::members("Manager", "Managers", &facts.manager)),
        "/managers/*" => read(manager::resource(server)),
        "/managers/*/attributes" if facts.boot.first_device.is_some() => change(manager::attributes(server)?),
        "/managers/*/licenseservice" if facts.oem.is_some() => read(manager::licences(profile)),
        "/managers/*/licenseservice/1" if facts.oem.is_some() => read(manager::licence(server)),
        "/registries" => read(root::registries()),
        "/taskservice" => read(task::service()),
        "/taskservice/tasks" => read(task::collection(server)),
        "/sessionservice" => read(session::service()),
        "/sessionservice/sessions" => Some(Resource {
            allow: "GET, HEAD, POST",
            body: session::collection(server),
        }),
        _ => below(server, route),
    }
}

/// Paths with a part that is data.
fn below(server: &Arc<Server>, route: &str) -> Option<Resource> {
    let profile = server.config.profile;
    if let Some(id) = route.strip_prefix("/sessionservice/sessions/") {
        return Some(Resource {
            allow: "GET, HEAD, DELETE",
            body: session::one(server, id)?,
        });
    }
    if let Some(id) = route.strip_prefix("/taskservice/tasks/") {
        return Some(Resource {
            allow: READ,
            body: task::one(server, id)?,
        });
    }
    if is_boot_settings(profile, route) {
        return Some(Resource {
            allow: CHANGE,
            body: override_place::settings(server),
        });
    }
    if is_bios_settings(profile, route) {
        return Some(Resource {
            allow: CHANGE,
            body: firmware::bios(server, true),
        });
    }
    let (place, rest) = media_route(profile, route)?;
    if rest.is_empty() {
        return Some(Resource {
            allow: READ,
            body: vmedia::collection(profile, place),
        });
    }
    Some(Resource {
        allow: CHANGE,
        body: vmedia::resource(server, place, slot(profile, rest)?)?,
    })
}

fn is_boot_settings(profile: &Profile, route: &str) -> bool {
    let boot = &profile.redfish.boot;
    let id = route.strip_prefix("/systems/*/");
    boot.place != BootPlace::System && id.is_some_and(|id| id.eq_ignore_ascii_case(&boot.settings))
}

fn is_bios_settings(profile: &Profile, route: &str) -> bool {
    let id = route.strip_prefix("/systems/*/bios/");
    id.is_some_and(|id| id.eq_ignore_ascii_case(&profile.redfish.bios.settings))
}

/// Whose virtual media a route is among, and the rest of it.
fn media_route<'a>(profile: &Profile, route: &'a str) -> Option<(MediaPlace, &'a str)> {
    let places = [
        (MediaPlace::Managers, "/managers/*"),
        (MediaPlace::Systems, "/systems/*"),
    ];
    let (place, rest) = places
        .into_iter()
        .find_map(|(place, prefix)| Some((place, route.strip_prefix(prefix)?)))?;
    let rest = rest.strip_prefix("/virtualmedia")?;
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
    profile.redfish.media_under.contains(&place).then_some((place, rest))
}

fn slot(profile: &Profile, id: &str) -> Option<usize> {
    profile.slots.iter().position(|slot| slot.id.eq_ignore_ascii_case(id))
}

/// A change, with what `If-Match` means here around it.
fn patch(server: &Arc<Server>, request: &Request, route: &str, body: &Value, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    let says = |meaning| Reply::says(profile, meaning, &[]);
    let wanted = request.header("if-match");
    match (profile.redfish.if_match, wanted) {
        (IfMatch::Ignored, _) | (IfMatch::Checked | IfMatch::RequiredLate, None) => {}
        (IfMatch::Required, None) => return says(Meaning::PreconditionNeeded),
        (_, Some(wanted)) if !reply::matches(profile, body, wanted) => return says(Meaning::Precondition),
        (_, Some(_)) => {}
    }
    let reply = patch_resource(server, request, route, fault);
    let late = profile.redfish.if_match == IfMatch::RequiredLate && wanted.is_none();
    if late && reply.status < 300 {
        return says(Meaning::Precondition);
    }
    reply
}

fn patch_resource(server: &Arc<Server>, request: &Request, route: &str, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    if is_boot_settings(profile, route) {
        return override_place::patch_settings(server, request);
    }
    if is_bios_settings(profile, route) {
        return firmware::patch_bios(server, request);
    }
    match route {
        "/systems/*" => override_place::patch_system(server, request),
        "/systems/*/secureboot" => firmware::patch_secure_boot(server, request),
        "/managers/*/attributes" => manager::patch_attributes(server, request),
        _ => match media_route(profile, route).and_then(|(_, id)| slot(profile, id)) {
            Some(index) => insert::patch(server, request, index, fault),
            None => missing(server, request),
        },
    }
}

fn post(server: &Arc<Server>, request: &Request, route: &str, fault: &Effect) -> Reply {
    if route == "/sessionservice/sessions" {
        return session::create(server, request, *fault == Effect::SessionTableFull);
    }
    actions::run(server, request, route, fault).unwrap_or_else(|| match find(server, route) {
        Some(resource) => not_allowed(server, resource.allow),
        None => missing(server, request),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_service_s_own_ids_are_paths_of_it() {
        let dell = Profile::by_name("dell").unwrap();
        for (route, want) in [
            ("/redfish", Some("..")),
            ("/redfish/v1", Some("")),
            ("/redfish/v1/systems", Some("/systems")),
            ("/redfish/v1/systems/system.embedded.1/bios", Some("/systems/*/bios")),
            ("/redfish/v1/systems/1", None),
            ("/redfish/v1x", None),
            ("/rest/v1", None),
            (
                "/redfish/v1/managers/idrac.embedded.1/virtualmedia/cd",
                Some("/managers/*/virtualmedia/cd"),
            ),
        ] {
            assert_eq!(canonical(dell, route).as_deref(), want, "{route}");
        }
        let place = |route| media_route(dell, route).map(|(_, rest)| rest);
        assert_eq!(place("/managers/*/virtualmedia/cd"), Some("cd"));
        assert_eq!(place("/managers/*/virtualmedia"), Some(""));
        assert_eq!(place("/managers/*/virtualmediax"), None);
        assert_eq!(place("/systems/*/virtualmedia/1"), None);
    }
}
