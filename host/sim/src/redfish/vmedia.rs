//! `VirtualMedia`: the slots as they are shown.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::root::{manager_path, system_path};
use crate::profile::{InsertWay, MediaPlace, Oem, Profile};
use crate::server::{BootOnReset, Server, Slot};

pub(super) fn collection(profile: &Profile, place: MediaPlace) -> Value {
    let folder = folder(profile, place);
    let members: Vec<Value> = profile
        .slots
        .iter()
        .map(|slot| json!({"@odata.id": format!("{folder}/{}", slot.id)}))
        .collect();
    json!({
        "@odata.context": "/redfish/v1/$metadata#VirtualMediaCollection.VirtualMediaCollection",
        "@odata.id": folder,
        "@odata.type": "#VirtualMediaCollection.VirtualMediaCollection",
        "Description": "Virtual Media Services Settings",
        "Name": "Virtual Media Services",
        "Members@odata.count": members.len(),
        "Members": members,
    })
}

fn folder(profile: &Profile, place: MediaPlace) -> String {
    match place {
        MediaPlace::Managers => manager_path(profile) + "/VirtualMedia",
        MediaPlace::Systems => system_path(profile) + "/VirtualMedia",
    }
}

/// What a slot claims to hold, whether it does or not.
struct Claim {
    inserted: bool,
    image: String,
    write_protected: bool,
    boots_next: bool,
}

impl Claim {
    fn of(slot: &mut Slot) -> Self {
        if slot.stale.as_ref().is_some_and(|(_, until)| Instant::now() >= *until) {
            slot.stale = None;
        }
        match (&slot.inserted, &slot.stale) {
            (Some(inserted), _) => Self {
                inserted: true,
                image: inserted.image.clone(),
                write_protected: inserted.write_protected,
                boots_next: inserted.boot_on_reset == BootOnReset::Next,
            },
            (None, Some((image, _))) => Self {
                inserted: true,
                image: image.clone(),
                write_protected: true,
                boots_next: false,
            },
            (None, None) => Self {
                inserted: false,
                image: slot.left.clone().unwrap_or_default(),
                write_protected: false,
                boots_next: false,
            },
        }
    }
}

pub(super) fn resource(server: &Arc<Server>, place: MediaPlace, index: usize) -> Option<Value> {
    let profile = server.config.profile;
    let slot = profile.slots.get(index)?;
    let facts = &profile.redfish;
    let claim = Claim::of(server.state().slots.get_mut(index)?);
    let path = format!("{}/{}", folder(profile, place), slot.id);
    let name = claim.image.rsplit('/').next().unwrap_or_default().to_owned();
    let protocol = if claim.image.starts_with("https") {
        "HTTPS"
    } else {
        "HTTP"
    };
    let nothing = if facts.oem.is_some() {
        Value::from("")
    } else {
        Value::Null
    };
    let told = |text: &str| if text.is_empty() { nothing.clone() } else { text.into() };
    let mut body = json!({
        "@odata.context": "/redfish/v1/$metadata#VirtualMedia.VirtualMedia",
        "@odata.id": path,
        "@odata.type": "#VirtualMedia.v1_3_0.VirtualMedia",
        "Id": slot.id,
        "Name": "VirtualMedia",
        "Description": "Virtual Removable Media",
        "MediaTypes": slot.media_types,
        "ConnectedVia": if claim.inserted {"URI"} else {"NotConnected"},
        "Image": told(if facts.insert.shows_name_only {&name} else {&claim.image}),
        "ImageName": told(&name),
        "Inserted": claim.inserted,
        "WriteProtected": claim.write_protected,
        "TransferProtocolType": if claim.inserted {Value::from(protocol)} else {Value::Null},
    });
    let actions = format!("{path}/Actions");
    let hides = facts.insert.hides_idle_actions;
    if facts.insert.ways.contains(&InsertWay::Action) {
        let mut listed = Map::new();
        let mut list = |name: &str| {
            let target = format!("{actions}/VirtualMedia.{name}");
            listed.insert(format!("#VirtualMedia.{name}"), json!({"target": target}));
        };
        if claim.inserted || !hides {
            list("EjectMedia");
        }
        if slot.by_url {
            list("InsertMedia");
        }
        body["Actions"] = listed.into();
    }
    if let Some(oem) = facts.oem {
        let ways = facts.insert.ways.contains(&InsertWay::Oem);
        body["Oem"] = json!({oem.key(): extension(oem, &actions, ways, claim.boots_next)});
    }
    Some(body)
}

/// HPE's part of a slot.
fn extension(oem: Oem, actions: &str, listed: bool, boots_next: bool) -> Value {
    let schema = format!("{}VirtualMedia", oem.prefix());
    let version = match oem {
        Oem::Hpe => "v2_2_0",
        Oem::Hp => "1.0.0",
    };
    let mut part = json!({
        "@odata.type": format!("#{schema}.{version}.{schema}"),
        "BootOnNextServerReset": boots_next,
    });
    if listed {
        let target = |name: &str| json!({"target": format!("{actions}/Oem/{}/{schema}.{name}", oem.key())});
        part["Actions"] = json!({
            format!("#{schema}.EjectVirtualMedia"): target("EjectVirtualMedia"),
            format!("#{schema}.InsertVirtualMedia"): target("InsertVirtualMedia"),
        });
    }
    part
}
