//! RIS at `/rest/v1`, the forerunner of Redfish on iLO 4: links under `links`, actions posted to the resource itself, a collection
//! that lists `Member`, and errors of its own shape. The service behind it is the same one: requests are put in Redfish's words
//! and its answers in those of RIS.

mod resources;

use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use serde_json::{Map, Value, json};

use crate::faults::Effect;
use crate::profile::{Meaning, Profile, Protocol};
use crate::redfish;
use crate::redfish::reply::{Reply, Request};
use crate::server::Server;

const READ: &str = "GET, HEAD";

/// Answers one request.
pub(crate) fn answer(server: &Arc<Server>, request: &Request, fault: &Effect) -> Reply {
    let mut reply = route(server, request, fault);
    let profile = server.config.profile;
    if let Some(body) = &mut reply.body
        && let Some(error) = body.get("error").cloned()
    {
        *body = extended_error(profile, error);
    }
    reply.headers.push(("X_HP-CHRP-Service-Version", "1.0.3".to_owned()));
    reply
}

fn route(server: &Arc<Server>, request: &Request, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    let full = request.route();
    let route = full.strip_prefix("/rest").unwrap_or_default();
    let method = request.method.as_str();
    if matches!(route, "" | "/v1") && matches!(method, "GET" | "HEAD") {
        return Reply::resource(profile, resources::root(server), READ);
    }
    if route == "/v1/sessions" && method == "POST" {
        return log_in(server, request, fault);
    }
    // Everything else is for those who are logged in.
    let known = as_redfish(profile, route);
    let known = match known {
        Some(path) => path,
        None => {
            let asked = redfish_request(request, "GET", "/redfish/v1/Systems".to_owned(), None);
            let reply = redfish::answer(server, &asked, fault);
            return if reply.status == 401 {
                reply
            } else {
                missing(profile, request)
            };
        }
    };
    match method {
        "GET" | "HEAD" => get(server, request, route, &known, fault),
        "PATCH" => patch(server, request, route, &known, fault),
        "POST" => post(server, request, &known, fault),
        "DELETE" if route.starts_with("/v1/sessions/") => {
            let asked = redfish_request(request, "DELETE", known, None);
            redfish::answer(server, &asked, fault)
        }
        _ => Reply::says(profile, Meaning::NotAllowed, &[]),
    }
}

/// The Redfish resource behind a route below `/rest`.
fn as_redfish(profile: &Profile, route: &str) -> Option<String> {
    let facts = &profile.redfish;
    let (system, manager) = (&facts.system, &facts.manager);
    let path = match route.strip_prefix("/v1")? {
        "/systems" => "Systems".to_owned(),
        "/systems/1" => format!("Systems/{system}"),
        "/systems/1/bios" | "/systems/1/bios/boot" => format!("Systems/{system}/Bios"),
        "/systems/1/bios/settings" => format!("Systems/{system}/Bios/{}", facts.bios.settings),
        "/systems/1/secureboot" => format!("Systems/{system}/SecureBoot"),
        "/managers" => "Managers".to_owned(),
        "/managers/1" => format!("Managers/{manager}"),
        "/managers/1/virtualmedia" => format!("Managers/{manager}/VirtualMedia"),
        "/sessions" => "SessionService/Sessions".to_owned(),
        other => {
            if let Some(id) = other.strip_prefix("/sessions/") {
                format!("SessionService/Sessions/{id}")
            } else {
                let id = other.strip_prefix("/managers/1/virtualmedia/")?;
                let slot = profile.slots.iter().find(|slot| slot.id.eq_ignore_ascii_case(id))?;
                format!("Managers/{manager}/VirtualMedia/{}", slot.id)
            }
        }
    };
    Some(format!("/redfish/v1/{path}"))
}

/// The same login in a request of Redfish's own; conditions are ours to check, since tags differ.
fn redfish_request(request: &Request, method: &str, path: String, body: Option<&Value>) -> Request {
    let mut headers: HeaderMap = request.headers.clone();
    headers.remove(IF_MATCH);
    headers.remove(IF_NONE_MATCH);
    if body.is_some() {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    Request {
        method: method.to_owned(),
        path,
        headers,
        body: body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
    }
}

/// A resource as RIS shows it, or why not.
fn shown(server: &Arc<Server>, request: &Request, route: &str, path: &str, fault: &Effect) -> Result<Reply, Reply> {
    let profile = server.config.profile;
    let asked = redfish_request(request, "GET", path.to_owned(), None);
    let reply = redfish::answer(server, &asked, fault);
    let body = match (reply.status, reply.body) {
        (200, Some(body)) => body,
        (status, body) => {
            return Err(Reply {
                status,
                body,
                ..Reply::says(profile, Meaning::Missing, &[&request.path])
            });
        }
    };
    let (resource, allow) = resources::of(server, route, &body).ok_or_else(|| missing(profile, request))?;
    Ok(Reply::resource(profile, resource, allow))
}

fn get(server: &Arc<Server>, request: &Request, route: &str, path: &str, fault: &Effect) -> Reply {
    let mut reply = match shown(server, request, route, path, fault) {
        Ok(reply) | Err(reply) => reply,
    };
    if reply.status == 200 && tag(&reply).is_some_and(|tag| request.header("if-none-match") == Some(tag)) {
        reply.status = 304;
        reply.body = None;
    }
    reply
}

fn tag(reply: &Reply) -> Option<&str> {
    let found = reply.headers.iter().find(|(name, _)| *name == "ETag");
    found.map(|(_, tag)| tag.as_str()).filter(|tag| !tag.is_empty())
}

fn patch(server: &Arc<Server>, request: &Request, route: &str, path: &str, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    let now = match shown(server, request, route, path, fault) {
        Ok(reply) => reply,
        Err(reply) => return reply,
    };
    if !now.allow.is_some_and(|allow| allow.contains("PATCH")) {
        let mut reply = Reply::says(profile, Meaning::NotAllowed, &[]);
        reply.allow = now.allow;
        return reply;
    }
    let wanted = request.header("if-match").filter(|wanted| *wanted != "*");
    if wanted.is_some_and(|wanted| tag(&now) != Some(wanted)) {
        return Reply::says(profile, Meaning::Precondition, &[]);
    }
    let mut body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let facts = &profile.redfish.bios;
    // proliantutils has always written "uefi", and iLO 4 takes it.
    if let Some(mode) = body.get_mut(&facts.boot_mode) {
        let text = mode.as_str().unwrap_or_default();
        let known = [&facts.uefi, &facts.legacy]
            .into_iter()
            .find(|known| text.eq_ignore_ascii_case(known));
        if let Some(known) = known {
            *mode = known.clone().into();
        }
    }
    let body = if path.contains("/Bios/") && !facts.flat {
        json!({ "Attributes": body })
    } else {
        Value::Object(body)
    };
    let asked = redfish_request(request, "PATCH", path.to_owned(), Some(&body));
    redfish::answer(server, &asked, fault)
}

/// An action is posted to its resource and named in the body; HPE's own ones say `"Target": "/Oem/Hp"`.
fn post(server: &Arc<Server>, request: &Request, path: &str, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    let asked = redfish_request(request, "GET", path.to_owned(), None);
    let there = redfish::answer(server, &asked, fault);
    if there.status != 200 {
        return there;
    }
    let mut body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let Some(Value::String(action)) = body.remove("Action") else {
        return Reply::says(profile, Meaning::PropertyMissing, &["Action"]);
    };
    let own = match body.remove("Target") {
        None => false,
        Some(target) if target == "/Oem/Hp" => true,
        Some(other) => {
            let other = other.as_str().unwrap_or_default();
            return Reply::says(profile, Meaning::PropertyValue, &[other, "Target"]);
        }
    };
    let is_slot = path.contains("/VirtualMedia/");
    let target = match (action.as_str(), own) {
        ("Reset", false) if path.contains("/Systems/") => "ComputerSystem.Reset",
        ("Reset", false) if path.contains("/Managers/") && !is_slot => "Manager.Reset",
        ("PowerButton", true) if path.contains("/Systems/") => "Oem/Hp/ComputerSystemExt.PowerButton",
        ("SystemReset", true) if path.contains("/Systems/") => "Oem/Hp/ComputerSystemExt.SystemReset",
        ("InsertVirtualMedia", true) if is_slot => "Oem/Hp/HpiLOVirtualMedia.InsertVirtualMedia",
        ("EjectVirtualMedia", true) if is_slot => "Oem/Hp/HpiLOVirtualMedia.EjectVirtualMedia",
        _ => return Reply::says(profile, Meaning::PropertyValue, &[&action, "Action"]),
    };
    let asked = redfish_request(
        request,
        "POST",
        format!("{path}/Actions/{target}"),
        Some(&Value::Object(body)),
    );
    let reply = redfish::answer(server, &asked, fault);
    // An action that this firmware has not is no path of RIS that could be missing.
    match reply.status {
        404 | 405 => Reply::says(profile, Meaning::PropertyValue, &[&action, "Action"]),
        _ => reply,
    }
}

fn log_in(server: &Arc<Server>, request: &Request, fault: &Effect) -> Reply {
    let asked = Request {
        method: "POST".to_owned(),
        path: "/redfish/v1/SessionService/Sessions".to_owned(),
        headers: request.headers.clone(),
        body: request.body.clone(),
    };
    let mut reply = redfish::answer(server, &asked, fault);
    for (name, value) in &mut reply.headers {
        if *name == "Location" {
            *value = value.replace("/redfish/v1/SessionService/", "/rest/v1/");
        }
    }
    if reply.status == 201
        && let Some(session) = reply.body.take()
    {
        let id = session.get("Id").and_then(Value::as_str).unwrap_or_default();
        reply.body = Some(resources::session(&session, id));
    }
    reply
}

fn missing(profile: &Profile, request: &Request) -> Reply {
    Reply::says(profile, Meaning::Missing, &[&request.path])
}

/// The error document of RIS; where Redfish is spoken as well, its own one stands beside it.
fn extended_error(profile: &Profile, error: Value) -> Value {
    let infos = error.get("@Message.ExtendedInfo").and_then(Value::as_array).cloned();
    let messages: Vec<Value> = infos
        .unwrap_or_default()
        .iter()
        .map(|info| {
            let mut message = Map::new();
            message.insert("MessageID".into(), info.get("MessageId").cloned().unwrap_or_default());
            if let Some(arguments) = info.get("MessageArgs") {
                message.insert("MessageArgs".into(), arguments.clone());
            }
            Value::Object(message)
        })
        .collect();
    let mut document = json!({
        "Type": "ExtendedError.1.0.0",
        "Name": "Extended Error Information",
        "Messages": messages,
    });
    if profile.speaks(Protocol::Redfish) {
        document["error"] = error;
    }
    document
}
