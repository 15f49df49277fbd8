//! Media go in and out: by action, by HPE's own action, or by writing the properties.
//!
//! An insert fetches nothing; that the image exists shows only when something reads it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use serde_json::{Map, Value, json};

use super::reply::{Reply, Request};
use super::task;
use crate::faults::Effect;
use crate::media::{ImageUrl, Medium, ReadRules};
use crate::profile::{InsertWay, Meaning, Oem, Profile, SlotProfile};
use crate::server::{BootOnReset, Inserted, Server, Slot};
use crate::tls::{self, Trust};
use crate::trace::reads::ReadWatch;

/// How something was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Action(InsertWay),
    Patch,
}

/// An insert that keeps to the rules.
struct Order {
    image: String,
    url: ImageUrl,
    write_protected: bool,
    tls: Arc<ClientConfig>,
}

pub(super) fn insert(server: &Arc<Server>, request: &Request, index: usize, asked: Asked, fault: &Effect) -> Reply {
    match request.object(server.config.profile) {
        Ok(body) => insert_body(server, request, &body, index, asked, fault),
        Err(reply) => reply,
    }
}

fn insert_body(
    server: &Arc<Server>,
    request: &Request,
    body: &Map<String, Value>,
    index: usize,
    asked: Asked,
    fault: &Effect,
) -> Reply {
    let profile = server.config.profile;
    let facts = &profile.redfish.insert;
    let Some(slot) = profile.slots.get(index) else {
        return Reply::says(profile, Meaning::Missing, &[&request.path]);
    };
    if !server.media_licensed() {
        return Reply::says(profile, Meaning::Licence, &[]);
    }
    if !slot.by_url {
        return Reply::says(profile, Meaning::ConsoleOnly, &[]);
    }
    let order = match read(server, request, body, slot, asked) {
        Ok(order) => order,
        Err(reply) => return reply,
    };
    let mut state = server.state();
    let held = &state.slots[index];
    let claims = held.inserted.is_some() || held.stale.as_ref().is_some_and(|(_, until)| Instant::now() < *until);
    if claims && facts.refuses_occupied {
        return Reply::says(profile, Meaning::Occupied, &[]);
    }
    let device = slot.device_for(&order.image);
    let medium = (*fault != Effect::NotMounted).then(|| {
        let rules = ReadRules {
            device,
            shape: &profile.media_client,
            deadline: server.config.timing.media_read,
            tls: order.tls,
            watch: Some(ReadWatch::new(server, device)),
        };
        Arc::new(Medium::new(&order.image, order.url, rules))
    });
    if let Some(medium) = &medium {
        state.remember_reads(Arc::clone(medium.record()));
    }
    state.slots[index] = Slot {
        inserted: Some(Inserted {
            device,
            image: crate::trace::without_credentials(&order.image).unwrap_or(order.image),
            write_protected: order.write_protected,
            boot_on_reset: BootOnReset::No,
            medium,
            waiting: None,
        }),
        ..Slot::default()
    };
    drop(state);
    server.media_changed.notify_one();
    if facts.task {
        task::accept(server)
    } else {
        Reply::success(profile)
    }
}

/// Reads what is asked for and refuses what this one refuses.
fn read(
    server: &Server,
    request: &Request,
    body: &Map<String, Value>,
    slot: &SlotProfile,
    asked: Asked,
) -> Result<Order, Reply> {
    let profile = server.config.profile;
    let facts = &profile.redfish.insert;
    let action = match (asked, profile.redfish.oem) {
        (Asked::Action(InsertWay::Oem), Some(Oem::Hpe)) => "HpeiLOVirtualMedia.InsertVirtualMedia",
        (Asked::Action(InsertWay::Oem), _) => "HpiLOVirtualMedia.InsertVirtualMedia",
        (_, Some(_)) => "VirtualMedia.InsertMedia",
        (_, None) => request.plain_path(),
    };
    let mut write_protected = true;
    let mut certificate = None;
    for (name, value) in body {
        if name == "Image" {
            continue;
        }
        let known = match asked {
            Asked::Action(InsertWay::Oem) => {
                (name == "WriteProtected" && profile.redfish.oem == Some(Oem::Hpe))
                    || (name == "Certificate" && profile.redfish.oem == Some(Oem::Hpe))
            }
            Asked::Action(_) | Asked::Patch => facts.takes.contains(name),
        };
        if !known {
            return Err(match asked {
                Asked::Patch => Reply::says(profile, Meaning::PropertyUnknown, &[name]),
                Asked::Action(_) => Reply::says(profile, Meaning::ParameterUnknown, &[action, name]),
            });
        }
        let fits = match name.as_str() {
            "WriteProtected" => value.is_boolean(),
            "Inserted" => *value == Value::Bool(true),
            "TransferProtocolType" => matches!(value.as_str(), Some("HTTP" | "HTTPS")),
            "TransferMethod" => matches!(value.as_str(), Some("Stream")),
            _ => value.is_string(),
        };
        if !fits {
            return Err(Reply::says(profile, Meaning::ParameterType, &[name, action]));
        }
        match name.as_str() {
            "WriteProtected" => write_protected = *value == Value::Bool(true),
            "Certificate" => certificate = value.as_str(),
            _ => {}
        }
    }
    let image = match body.get("Image") {
        Some(Value::String(image)) => image,
        _ => return Err(Reply::says(profile, Meaning::ParameterMissing, &[action, "Image"])),
    };
    needed(profile, body, action)?;
    if !write_protected && !facts.writable {
        return Err(Reply::says(profile, Meaning::NotWritable, &["WriteProtected", action]));
    }
    let url = image_url(profile, slot, image).ok_or_else(|| {
        let shown: String = image.chars().take(64).collect();
        Reply::says(profile, Meaning::ImageRefused, &[&shown, "Image", action])
    })?;
    Ok(Order {
        image: image.clone(),
        url,
        write_protected,
        tls: trust(server, certificate)?,
    })
}

/// Complains of the first group of needed parameters that is not there as a whole.
fn needed(profile: &Profile, body: &Map<String, Value>, action: &str) -> Result<(), Reply> {
    for group in &profile.redfish.insert.needs {
        let missing: Vec<[&str; 2]> = group
            .iter()
            .filter(|name| !body.contains_key(*name))
            .map(|name| [action, name.as_str()])
            .collect();
        if !missing.is_empty() {
            let messages: Vec<(Meaning, &[&str])> = missing
                .iter()
                .map(|arguments| (Meaning::ParameterMissing, &arguments[..]))
                .collect();
            return Err(Reply::says_all(profile, &messages));
        }
    }
    Ok(())
}

/// The URL, if this one takes such.
fn image_url(profile: &Profile, slot: &SlotProfile, image: &str) -> Option<ImageUrl> {
    let rules = &profile.url;
    let lower = image.to_ascii_lowercase();
    let scheme = lower.split(':').next().unwrap_or_default();
    let ending = slot.endings.is_empty() || slot.endings.iter().any(|ending| lower.ends_with(ending.as_str()));
    let plain = !image.contains(|c: char| rules.forbidden.contains(c));
    let fits = image.chars().count() <= rules.longest && rules.schemes.iter().any(|known| known == scheme);
    if !(ending && plain && fits) {
        return None;
    }
    let anonymous = crate::trace::without_credentials(image).is_none();
    ImageUrl::parse(image).ok().filter(|_| anonymous || rules.credentials)
}

fn trust(server: &Server, certificate: Option<&str>) -> Result<Arc<ClientConfig>, Reply> {
    let profile = server.config.profile;
    match certificate {
        Some(pem) => tls::client(Trust::Only(pem)).map_err(|_| Reply::says(profile, Meaning::Certificate, &[])),
        None if server.config.verify_media_tls || profile.media_client.verify => {
            Ok(Arc::clone(&server.media_tls_strict))
        }
        None => Ok(Arc::clone(&server.media_tls)),
    }
}

pub(super) fn eject(server: &Arc<Server>, request: &Request, index: usize, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    let body = if profile.redfish.insert.eject_needs_body {
        request.object(profile)
    } else {
        request.optional_object(profile)
    };
    let body = match body {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    if let Some(name) = body.keys().next() {
        return Reply::says(profile, Meaning::ParameterUnknown, &["VirtualMedia.EjectMedia", name]);
    }
    take_out(server, index, fault)
}

fn take_out(server: &Arc<Server>, index: usize, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    let facts = &profile.redfish.insert;
    let mut state = server.state();
    let slot = &mut state.slots[index];
    let Some(inserted) = slot.inserted.take() else {
        if facts.refuses_idle_eject || facts.hides_idle_actions {
            return Reply::says(profile, Meaning::Idle, &[]);
        }
        return Reply::success(profile);
    };
    let lingers = match fault {
        Effect::StaleInserted(time) => *time,
        _ => Duration::from_millis(facts.lingers_ms),
    };
    if !lingers.is_zero() {
        slot.stale = Some((inserted.image.clone(), Instant::now() + lingers));
    }
    if facts.leaves_image {
        slot.left = Some(inserted.image);
    }
    drop(state);
    server.media_changed.notify_one();
    if facts.task {
        task::accept(server)
    } else {
        Reply::success(profile)
    }
}

/// `PATCH` of a slot: HPE's one-boot mark, and media where that is a way.
pub(super) fn patch(server: &Arc<Server>, request: &Request, index: usize, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let media = ["Image", "Inserted", "WriteProtected"];
    if media.iter().any(|name| body.contains_key(*name)) {
        if !profile.redfish.insert.ways.contains(&InsertWay::Patch) {
            let name = body.keys().next().map(String::as_str).unwrap_or_default();
            return Reply::says(profile, Meaning::PropertyNotWritable, &[name]);
        }
        return patch_media(server, request, &body, index, fault);
    }
    match profile.redfish.oem {
        Some(oem) => mark(server, &body, oem, index),
        None => {
            let name = body.keys().next().map(String::as_str).unwrap_or_default();
            Reply::says(profile, Meaning::PropertyUnknown, &[name])
        }
    }
}

/// Nothing in `Image` is an eject, anything else an insert.
fn patch_media(
    server: &Arc<Server>,
    request: &Request,
    body: &Map<String, Value>,
    index: usize,
    fault: &Effect,
) -> Reply {
    let profile = server.config.profile;
    let out = body.get("Image") == Some(&Value::Null)
        || (!body.contains_key("Image") && body.get("Inserted") == Some(&json!(false)));
    if !out {
        return insert_body(server, request, body, index, Asked::Patch, fault);
    }
    let takes = &profile.redfish.insert.takes;
    if let Some(name) = body.keys().find(|name| *name != "Image" && !takes.contains(name)) {
        return Reply::says(profile, Meaning::PropertyUnknown, &[name]);
    }
    take_out(server, index, fault)
}

/// HPE's mark that an image is for one boot; only while something is inserted.
fn mark(server: &Arc<Server>, body: &Map<String, Value>, oem: Oem, index: usize) -> Reply {
    let profile = server.config.profile;
    if let Some(name) = body.keys().find(|name| *name != "Oem") {
        return Reply::says(profile, Meaning::PropertyUnknown, &[name]);
    }
    let part = body.get("Oem").and_then(|part| part.get(oem.key()));
    let Some(boot) = part
        .and_then(|part| part.get("BootOnNextServerReset"))
        .and_then(Value::as_bool)
    else {
        return Reply::says(profile, Meaning::PropertyMissing, &["BootOnNextServerReset"]);
    };
    let mut state = server.state();
    let Some(inserted) = &mut state.slots[index].inserted else {
        return Reply::says(profile, Meaning::Idle, &[]);
    };
    inserted.boot_on_reset = if boot { BootOnReset::Next } else { BootOnReset::No };
    Reply::success(profile)
}
