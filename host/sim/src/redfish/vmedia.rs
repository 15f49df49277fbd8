//! `Managers/1/VirtualMedia`: the slots and their standard and OEM actions.
//!
//! An insert fetches nothing; that the image exists shows only when something reads it.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::faults::Effect;
use crate::media::{ImageUrl, Medium, ReadRules};
use crate::profile::{Profile, SlotProfile};
use crate::redfish::reply::{Reply, Request};
use crate::server::{BootOnReset, Inserted, Server};
use crate::tls::{self, Trust};

pub(crate) fn collection(profile: &Profile) -> Value {
    let members: Vec<Value> = profile
        .slots
        .iter()
        .map(|slot| json!({"@odata.id": path(slot)}))
        .collect();
    json!({
        "@odata.context": "/redfish/v1/$metadata#VirtualMediaCollection.VirtualMediaCollection",
        "@odata.id": "/redfish/v1/Managers/1/VirtualMedia",
        "@odata.type": "#VirtualMediaCollection.VirtualMediaCollection",
        "Description": "iLO Virtual Media Services Settings",
        "Name": "Virtual Media Services",
        "Members@odata.count": members.len(),
        "Members": members,
    })
}

fn path(slot: &SlotProfile) -> String {
    format!("/redfish/v1/Managers/1/VirtualMedia/{}", slot.id)
}

pub(crate) fn resource(server: &Arc<Server>, index: usize) -> Option<Value> {
    let profile = server.config.profile.slots.get(index)?;
    let mut state = server.state();
    let slot = state.slots.get_mut(index)?;
    if slot.stale.as_ref().is_some_and(|(_, until)| Instant::now() >= *until) {
        slot.stale = None;
    }
    let (image, write_protected, boot) = match (&slot.inserted, &slot.stale) {
        (Some(inserted), _) => (
            inserted.image.clone(),
            inserted.write_protected,
            inserted.boot_on_reset == BootOnReset::Next,
        ),
        (None, Some((image, _))) => (image.clone(), true, false),
        (None, None) => (String::new(), false, false),
    };
    let inserted = !image.is_empty();
    let actions = path(profile) + "/Actions";
    Some(json!({
        "@odata.context": "/redfish/v1/$metadata#VirtualMedia.VirtualMedia",
        "@odata.id": path(profile),
        "@odata.type": "#VirtualMedia.v1_3_0.VirtualMedia",
        "Id": profile.id,
        "Name": "VirtualMedia",
        "Description": "Virtual Removable Media",
        "MediaTypes": profile.media_types,
        "ConnectedVia": if inserted {"URI"} else {"NotConnected"},
        "Image": image,
        "ImageName": image.rsplit('/').next().unwrap_or_default(),
        "Inserted": inserted,
        "WriteProtected": write_protected,
        "TransferProtocolType": if inserted {
            Value::from(if image.starts_with("https") {"HTTPS"} else {"HTTP"})
        } else {
            Value::Null
        },
        "Actions": {
            "#VirtualMedia.EjectMedia": {"target": format!("{actions}/VirtualMedia.EjectMedia")},
            "#VirtualMedia.InsertMedia": {"target": format!("{actions}/VirtualMedia.InsertMedia")},
        },
        "Oem": {"Hpe": {
            "@odata.type": "#HpeiLOVirtualMedia.v2_2_0.HpeiLOVirtualMedia",
            "BootOnNextServerReset": boot,
            "Actions": {
                "#HpeiLOVirtualMedia.EjectVirtualMedia": {
                    "target": format!("{actions}/Oem/Hpe/HpeiLOVirtualMedia.EjectVirtualMedia"),
                },
                "#HpeiLOVirtualMedia.InsertVirtualMedia": {
                    "target": format!("{actions}/Oem/Hpe/HpeiLOVirtualMedia.InsertVirtualMedia"),
                },
            },
        }},
    }))
}

/// One of the four actions of a slot, by the lower-case end of its path.
pub(crate) fn action(
    server: &Arc<Server>,
    request: &Request,
    index: usize,
    name: &str,
    fault: &Effect,
) -> Option<Reply> {
    let slot = server.config.profile.slots.get(index)?;
    Some(match name {
        "virtualmedia.insertmedia" => insert(server, request, index, slot, false, fault),
        "oem/hpe/hpeilovirtualmedia.insertvirtualmedia" => insert(server, request, index, slot, true, fault),
        "virtualmedia.ejectmedia" | "oem/hpe/hpeilovirtualmedia.ejectvirtualmedia" => {
            eject(server, request, index, fault)
        }
        _ => return None,
    })
}

fn insert(
    server: &Arc<Server>,
    request: &Request,
    index: usize,
    slot: &SlotProfile,
    oem: bool,
    fault: &Effect,
) -> Reply {
    let profile = server.config.profile;
    let action = if oem {
        "HpeiLOVirtualMedia.InsertVirtualMedia"
    } else {
        "VirtualMedia.InsertMedia"
    };
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let mut write_protected = true;
    let mut certificate = None;
    for (name, value) in &body {
        let mistyped = || Reply::error(profile, 400, "Base", "ActionParameterValueTypeError", &[name, action]);
        match (name.as_str(), oem) {
            ("Image", _) => {}
            ("WriteProtected", _) => match value.as_bool() {
                Some(value) => write_protected = value,
                None => return mistyped(),
            },
            ("Inserted", false) => match value.as_bool() {
                Some(true) => {}
                _ => return mistyped(),
            },
            ("TransferProtocolType", false) => match value.as_str() {
                Some("HTTP" | "HTTPS") => {}
                _ => return mistyped(),
            },
            ("Certificate", true) => match value.as_str() {
                Some(pem) => certificate = Some(pem.to_owned()),
                None => return mistyped(),
            },
            _ => {
                return Reply::error(profile, 400, "Base", "ActionParameterUnknown", &[action, name]);
            }
        }
    }
    let Some(image) = body.get("Image").and_then(Value::as_str) else {
        return Reply::error(profile, 400, "Base", "ActionParameterMissing", &[action, "Image"]);
    };
    let refused = || {
        let shown: String = image.chars().take(64).collect();
        Reply::error(
            profile,
            400,
            "Base",
            "ActionParameterValueFormatError",
            &[&shown, "Image", action],
        )
    };
    if image.chars().count() > profile.url_cap {
        return refused();
    }
    let Ok(url) = ImageUrl::parse(image) else {
        return refused();
    };
    let lower = image.to_ascii_lowercase();
    if !slot.endings.iter().any(|ending| lower.ends_with(ending)) {
        return refused();
    }
    let tls = match certificate {
        Some(pem) => match tls::client(Trust::Only(&pem)) {
            Ok(config) => config,
            Err(_) => return Reply::error(profile, 400, "iLO", "InvalidCertificate", &[]),
        },
        None if server.config.verify_media_tls => Arc::clone(&server.media_tls_strict),
        None => Arc::clone(&server.media_tls),
    };
    let mut state = server.state();
    if state.slots[index].inserted.is_some() {
        return Reply::error(profile, 400, "iLO", "MaxVirtualMediaConnectionEstablished", &[]);
    }
    let medium = (*fault != Effect::NotMounted).then(|| {
        let rules = ReadRules {
            device: slot.device,
            first_read: slot.sector,
            largest_read: profile.media_read,
            deadline: server.config.timing.media_read,
            tls,
        };
        Arc::new(Medium::new(image, url, rules))
    });
    if let Some(medium) = &medium {
        state.remember_reads(Arc::clone(medium.record()));
    }
    state.slots[index].stale = None;
    state.slots[index].inserted = Some(Inserted {
        image: crate::trace::without_credentials(image).unwrap_or_else(|| image.to_owned()),
        write_protected,
        boot_on_reset: BootOnReset::No,
        medium,
    });
    drop(state);
    server.media_changed.notify_one();
    Reply::success(profile)
}

fn eject(server: &Arc<Server>, request: &Request, index: usize, fault: &Effect) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    if let Some(name) = body.keys().next() {
        return Reply::error(
            profile,
            400,
            "Base",
            "ActionParameterUnknown",
            &["VirtualMedia.EjectMedia", name],
        );
    }
    let mut state = server.state();
    let Some(inserted) = state.slots[index].inserted.take() else {
        return Reply::error(profile, 400, "iLO", "NoVirtualMediaConnectionAvailable", &[]);
    };
    if let Effect::StaleInserted(time) = fault {
        state.slots[index].stale = Some((inserted.image, Instant::now() + *time));
    }
    drop(state);
    server.media_changed.notify_one();
    Reply::success(profile)
}

/// `PATCH`: only HPE's one-boot mark can be changed, and only while something is inserted.
pub(crate) fn patch(server: &Arc<Server>, request: &Request, index: usize) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    if body.contains_key("Image") || body.contains_key("Inserted") || body.contains_key("WriteProtected") {
        let name = body.keys().next().map(String::as_str).unwrap_or_default();
        return Reply::error(profile, 400, "Base", "PropertyNotWritableOrUnknown", &[name]);
    }
    if let Some(name) = body.keys().find(|name| *name != "Oem") {
        return Reply::error(profile, 400, "Base", "PropertyUnknown", &[name]);
    }
    let hpe = body.get("Oem").and_then(|oem| oem.get(profile.oem));
    let Some(boot) = hpe
        .and_then(|hpe| hpe.get("BootOnNextServerReset"))
        .and_then(Value::as_bool)
    else {
        return Reply::error(profile, 400, "Base", "PropertyMissing", &["BootOnNextServerReset"]);
    };
    let mut state = server.state();
    let Some(inserted) = &mut state.slots[index].inserted else {
        return Reply::error(profile, 400, "iLO", "NoVirtualMediaConnectionAvailable", &[]);
    };
    inserted.boot_on_reset = if boot { BootOnReset::Next } else { BootOnReset::No };
    Reply::success(profile)
}
