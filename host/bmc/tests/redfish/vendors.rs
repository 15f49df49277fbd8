//! What other vendors' BMCs do differently: where media and boot settings live, tasks, tags, slots that lie, slots that will
//! not. Each test is one such machine as far as it differs.

use std::sync::Arc;
use std::time::Duration;

use crate::peer::*;
use bmc::redfish::RedfishBmc;
use bmc::{Bmc, BmcConfig, BmcError, Deadlines, InsertMedia};
use model::{BootDevice, Device, PowerState, Secret};
use serde_json::{Value, json};

const URL: &str = "http://10.0.0.1:8080/v/t0k3n/boot.iso";
const BODY: &str = r#"{"Image":"http://10.0.0.1:8080/v/t0k3n/boot.iso"}"#;
const GET_CD: &str = "GET /redfish/v1/Managers/1/VirtualMedia/2";
const GET_SYSTEM: &str = "GET /redfish/v1/Systems/1";
const PATCH_SYSTEM: &str = "PATCH /redfish/v1/Systems/1";
const TASK: &str = "/redfish/v1/TaskService/Tasks/7";

fn image() -> InsertMedia {
    InsertMedia {
        url: Secret::new(URL),
        boot_once: false,
        server_certificate: None,
    }
}

async fn ilo5() -> Peer {
    Peer::start().await.into_ilo5()
}

/// The system, changed.
fn other(change: impl FnOnce(&mut Value)) -> Answer {
    let mut body = system("Off");
    change(&mut body);
    ok(body)
}

fn boot(target: &str, enabled: &str) -> Value {
    json!({"Boot": {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}})
}

fn accepted() -> Answer {
    Answer::Say(202, vec![("location", TASK.to_owned())], String::new())
}

fn task(state: &str) -> Answer {
    ok(json!({"TaskState": state, "TaskStatus": "OK"}))
}

#[tokio::test]
async fn an_insert_that_became_a_task_is_waited_for() {
    for end in [task("Completed"), status(204), ok(json!({"Image": URL}))] {
        let peer = ilo5().await;
        peer.on(
            GET_CD,
            [ok(slot(CD, None)), ok(slot(CD, None)), ok(slot(CD, Some(URL)))],
        );
        peer.on(INSERT, [accepted()]);
        peer.on(
            &format!("GET {TASK}"),
            [status(404), status(202), task("Running"), status(503), end],
        );
        peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
        assert_eq!(peer.changes(), [format!("{INSERT} {BODY}")]);
        let looks = peer.lines().iter().filter(|line| line.ends_with(TASK)).count();
        assert_eq!(looks, 5);
    }
}

#[tokio::test]
async fn a_task_that_failed_is_a_refusal_with_its_reason() {
    let peer = ilo5().await;
    peer.on(INSERT, [accepted()]);
    peer.on(OEM_INSERT, [accepted()]);
    let failed = json!({"TaskState": "Exception", "TaskStatus": "Critical", "Messages": [{"MessageId": "IDRAC.2.8.RAC0720", "Message": "Unable to mount"}]});
    peer.on(&format!("GET {TASK}"), [ok(failed)]);
    let error = peer.client().insert_media(Device::Cdrom, &image()).await.unwrap_err();
    assert!(matches!(error, BmcError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("RAC0720"), "{error}");
    assert!(error.to_string().contains("reaches the image server"), "{error}");
}

#[tokio::test]
async fn a_task_that_never_ends_ends_with_the_verb() {
    let peer = ilo5().await;
    peer.on(INSERT, [accepted()]);
    peer.on(&format!("GET {TASK}"), [task("Running")]);
    let deadlines = Deadlines {
        verb: Duration::from_millis(800),
        ..quick()
    };
    let config = BmcConfig {
        deadlines,
        ..peer.config()
    };
    let error = RedfishBmc::new(config)
        .unwrap()
        .insert_media(Device::Cdrom, &image())
        .await
        .unwrap_err();
    assert!(
        matches!(error, BmcError::Busy { .. } | BmcError::Timeout { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_precondition_is_met_by_weaker_and_weaker_tags() {
    let peer = ilo5().await;
    let Answer::Say(code, _, body) = ok(system("Off")) else {
        unreachable!()
    };
    peer.on(GET_SYSTEM, [Answer::Say(code, vec![("etag", "W/\"9\"".into())], body)]);
    peer.on(PATCH_SYSTEM, [status(412), status(412), status(428), status(200)]);
    peer.client().set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    let seen = peer.seen();
    let patches = seen.iter().filter(|seen| seen.line == PATCH_SYSTEM);
    let tags: Vec<Option<&str>> = patches
        .map(|seen| seen.headers.get("if-match").map(String::as_str))
        .collect();
    assert_eq!(tags, [None, Some("W/\"9\""), Some("\"9\""), Some("*")]);
}

#[tokio::test]
async fn a_precondition_complained_about_after_the_deed_is_no_failure() {
    let peer = ilo5().await;
    let set = other(|system| system["Boot"]["BootSourceOverrideTarget"] = json!("Cd"));
    peer.on(GET_SYSTEM, [ok(system("Off")), ok(system("Off")), set]);
    peer.on(PATCH_SYSTEM, [status(412)]);
    peer.client().set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    // One that stays undone is.
    let peer = ilo5().await;
    peer.on(PATCH_SYSTEM, [status(412)]);
    let error = peer
        .client()
        .set_boot_device(BootDevice::Cdrom, false)
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::Refused { .. }), "{error}");
    assert_eq!(peer.changes().len(), 4);
}

const SETTINGS: &str = "/redfish/v1/Systems/1/SD";

fn with_settings(system: &mut Value) {
    system["@Redfish.Settings"] = json!({"SettingsObject": {"@odata.id": SETTINGS}});
}

#[tokio::test]
async fn a_boot_override_that_only_the_settings_show_is_written_there() {
    let peer = ilo5().await;
    let without = other(|system| {
        with_settings(system);
        system["Boot"] = json!({});
    });
    peer.on(GET_SYSTEM, [without]);
    let shown = json!({"Boot": {"BootSourceOverrideTarget": "None", "BootSourceOverrideTarget@Redfish.AllowableValues": ["UsbCd"]}});
    peer.on(&format!("GET {SETTINGS}"), [ok(shown)]);
    let patch = format!("PATCH {SETTINGS}");
    peer.on(&patch, [status(204)]);
    peer.client().set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    assert_eq!(peer.changes(), [format!("{patch} {}", boot("UsbCd", "Once"))]);
}

#[tokio::test]
async fn a_yes_that_changes_nothing_is_followed_up_at_the_settings() {
    let peer = ilo5().await;
    peer.on(GET_SYSTEM, [other(with_settings)]);
    peer.on(PATCH_SYSTEM, [status(200)]);
    let patch = format!("PATCH {SETTINGS}");
    peer.on(&patch, [status(200)]);
    peer.client().set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    let body = boot("Cd", "Once");
    assert_eq!(
        peer.changes(),
        [format!("{PATCH_SYSTEM} {body}"), format!("{patch} {body}")]
    );
    // One that took is not.
    let peer = ilo5().await;
    let set = other(|system| {
        with_settings(system);
        system["Boot"]["BootSourceOverrideTarget"] = json!("Cd");
    });
    peer.on(GET_SYSTEM, [other(with_settings), other(with_settings), set]);
    peer.on(PATCH_SYSTEM, [status(200)]);
    peer.client().set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    assert_eq!(peer.changes().len(), 1);
}

#[tokio::test]
async fn an_override_that_cannot_last_is_not_asked_to() {
    let peer = ilo5().await;
    let once = other(|system| {
        system["Boot"]["BootSourceOverrideEnabled@Redfish.AllowableValues"] = json!(["Disabled", "Once"])
    });
    peer.on(GET_SYSTEM, [once]);
    let error = peer
        .client()
        .set_boot_device(BootDevice::Cdrom, true)
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    assert_eq!(peer.changes(), [""; 0]);
}

#[tokio::test]
async fn an_old_idrac_boots_the_virtual_cd_by_its_own_attributes() {
    for (firmware, oem) in [("5.10.50.00", true), ("6.10.30.00", false)] {
        let peer = ilo5().await;
        peer.on(
            GET_SYSTEM,
            [other(|system| system["Manufacturer"] = json!("Dell Inc."))],
        );
        peer.on("GET /redfish/v1/Managers/1", [ok(json!({"FirmwareVersion": firmware}))]);
        let patch = "PATCH /redfish/v1/Managers/1/Attributes";
        for request in [patch, PATCH_SYSTEM] {
            peer.on(request, [status(200)]);
        }
        let bmc = peer.client();
        bmc.set_boot_device(BootDevice::Cdrom, false).await.unwrap();
        let own =
            json!({"Attributes": {"ServerBoot.1.BootOnce": "Enabled", "ServerBoot.1.FirstBootDevice": "VCD-DVD"}});
        let want = if oem {
            format!("{patch} {own}")
        } else {
            format!("{PATCH_SYSTEM} {}", boot("Cd", "Once"))
        };
        assert_eq!(peer.changes(), [want], "{firmware}");
        // What the override is good for stays with it.
        bmc.set_boot_device(BootDevice::Network, false).await.unwrap();
        assert_eq!(peer.changes()[1], format!("{PATCH_SYSTEM} {}", boot("Pxe", "Once")));
    }
}

/// Slots by name, all of them for CDs, in this order.
fn slots(peer: &Peer, names: &[&str]) {
    let path = |name: &str| format!("/redfish/v1/Managers/1/VirtualMedia/{name}");
    let members: Vec<Value> = names.iter().map(|name| json!({"@odata.id": path(name)})).collect();
    peer.on(
        "GET /redfish/v1/Managers/1/VirtualMedia",
        [ok(json!({"Members": members}))],
    );
    for name in names {
        peer.on(
            &format!("GET {}", path(name)),
            [ok(json!({"MediaTypes": ["CD", "DVD"], "Inserted": false}))],
        );
    }
}

#[tokio::test]
async fn lenovos_slots_for_urls_come_first_and_are_patched() {
    let peer = ilo5().await;
    peer.on(GET_SYSTEM, [other(|system| system["Manufacturer"] = json!("Lenovo"))]);
    slots(&peer, &["RDOC1", "Remote1", "EXT1", "EXT2"]);
    let ext = "/redfish/v1/Managers/1/VirtualMedia/EXT1";
    let empty = ok(json!({"MediaTypes": ["CD", "DVD"], "Inserted": false}));
    let full = ok(json!({"MediaTypes": ["CD", "DVD"], "Inserted": true, "Image": URL}));
    peer.on(&format!("GET {ext}"), [empty.clone(), empty, full]);
    let patch = format!("PATCH {ext}");
    peer.on(&patch, [status(200)]);
    peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
    let body = json!({"Image": URL, "Inserted": true, "WriteProtected": true});
    assert_eq!(peer.changes(), [format!("{patch} {body}")]);
}

#[tokio::test]
async fn every_slot_of_the_device_is_emptied_and_one_that_is_stuck_is_passed_over() {
    let peer = ilo5().await;
    slots(&peer, &["1", "2", "3"]);
    let at = |name: &str| format!("/redfish/v1/Managers/1/VirtualMedia/{name}");
    let actions = |name: &str| {
        let path = at(name);
        json!({
            "#VirtualMedia.InsertMedia": {"target": format!("{path}/Actions/VirtualMedia.InsertMedia")},
            "#VirtualMedia.EjectMedia": {"target": format!("{path}/Actions/VirtualMedia.EjectMedia")},
        })
    };
    let slot = |name: &str, image: Option<&str>| {
        ok(json!({"MediaTypes": ["CD"], "Inserted": image.is_some(), "Image": image, "Actions": actions(name)}))
    };
    // A remote console holds the first and does not let go; the second is ours for the taking; the third holds an old image.
    peer.on(&format!("GET {}", at("1")), [slot("1", Some("http://console/x.iso"))]);
    peer.on(
        &format!("GET {}", at("2")),
        [slot("2", None), slot("2", None), slot("2", Some(URL))],
    );
    peer.on(
        &format!("GET {}", at("3")),
        [
            slot("3", Some("http://old/x.iso")),
            slot("3", Some("http://old/x.iso")),
            slot("3", None),
        ],
    );
    let action = |name: &str, action: &str| format!("POST {}/Actions/VirtualMedia.{action}", at(name));
    peer.on(&action("1", "EjectMedia"), [status(405)]);
    for request in [action("3", "EjectMedia"), action("2", "InsertMedia")] {
        peer.on(&request, [status(204)]);
    }
    peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
    assert_eq!(
        peer.changes(),
        [
            format!("{} {{}}", action("1", "EjectMedia")),
            format!("{} {{}}", action("3", "EjectMedia")),
            format!("{} {BODY}", action("2", "InsertMedia")),
        ]
    );
}

#[tokio::test]
async fn a_slot_that_shows_nothing_and_holds_something_is_emptied_and_tried_again() {
    for id in ["iLO.2.14.MaxVirtualMediaConnectionEstablished", "IDRAC.2.8.VRM0021"] {
        let peer = ilo5().await;
        // Found, looked at, asked whether it holds ours, emptied; then it holds it.
        let empty = || ok(slot(CD, None));
        peer.on(GET_CD, [empty(), empty(), empty(), empty(), ok(slot(CD, Some(URL)))]);
        peer.on(INSERT, [says_no(400, id, &[]), status(204)]);
        peer.on(EJECT, [status(204)]);
        peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
        let insert = format!("{INSERT} {BODY}");
        assert_eq!(peer.changes(), [insert.clone(), format!("{EJECT} {{}}"), insert]);
    }
}

#[tokio::test]
async fn media_under_the_system_serve_the_device_that_the_manager_has_none_for() {
    let peer = ilo5().await;
    peer.on(
        "GET /redfish/v1/Managers/1/VirtualMedia",
        [ok(json!({"Members": [{"@odata.id": FLOPPY}]}))],
    );
    let path = "/redfish/v1/Systems/1/VirtualMedia/1";
    peer.on(
        GET_SYSTEM,
        [other(|system| {
            system["VirtualMedia"] = json!({"@odata.id": "/redfish/v1/Systems/1/VirtualMedia"})
        })],
    );
    peer.on(
        "GET /redfish/v1/Systems/1/VirtualMedia",
        [ok(json!({"Members": [{"@odata.id": path}]}))],
    );
    let slot = |image: Option<&str>| {
        ok(
            json!({"MediaTypes": ["CD", "DVD", "USBStick"], "Inserted": image.is_some(), "Image": image, "Actions": {
                "#VirtualMedia.InsertMedia": {"target": format!("{path}/Actions/VirtualMedia.InsertMedia")},
            }}),
        )
    };
    peer.on(&format!("GET {path}"), [slot(None), slot(None), slot(Some(URL))]);
    let insert = format!("POST {path}/Actions/VirtualMedia.InsertMedia");
    peer.on(&insert, [status(204)]);
    peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
    assert_eq!(peer.changes(), [format!("{insert} {BODY}")]);
}

#[tokio::test]
async fn the_uefi_http_boot_url_goes_where_the_server_keeps_it() {
    let url = Secret::new("https://10.0.0.1/v/t0k3n/boot.efi");
    let standard = ilo5().await;
    standard.on(
        GET_SYSTEM,
        [other(|system| system["Boot"]["HttpBootUri"] = Value::Null)],
    );
    standard.on(PATCH_SYSTEM, [status(200)]);
    standard.client().set_http_boot_url(&url).await.unwrap();
    assert_eq!(
        standard.changes(),
        [format!(
            "{PATCH_SYSTEM} {}",
            json!({"Boot": {"HttpBootUri": url.expose()}})
        )]
    );

    let hpe = ilo5().await;
    let bios = json!({
        "Attributes": {"UrlBootFile": "", "PreBootNetwork": "EmbNicA", "Dhcpv4": "Enabled"},
        "@Redfish.Settings": {"SettingsObject": {"@odata.id": "/redfish/v1/Systems/1/Bios/Settings"}},
    });
    hpe.on("GET /redfish/v1/Systems/1/Bios", [ok(bios)]);
    hpe.on(
        "GET /redfish/v1/Systems/1/Bios/Settings",
        [ok(json!({"Attributes": {}}))],
    );
    let patch = "PATCH /redfish/v1/Systems/1/Bios/Settings";
    hpe.on(patch, [status(200)]);
    hpe.client().set_http_boot_url(&url).await.unwrap();
    let body = json!({"Attributes": {"PreBootNetwork": "Auto", "UrlBootFile": url.expose()}});
    assert_eq!(hpe.changes(), [format!("{patch} {body}")]);

    let neither = ilo5().await;
    neither.on("GET /redfish/v1/Systems/1/Bios", [ok(json!({"Attributes": {}}))]);
    let error = neither.client().set_http_boot_url(&url).await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    let error = neither
        .client()
        .set_http_boot_url(&Secret::new("tftp://h/t0k3n"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, BmcError::Refused { .. }) && !error.to_string().contains("t0k3n"),
        "{error}"
    );
}

#[tokio::test]
async fn boot_settings_are_told_in_the_bmcs_words() {
    for (enabled, target, once, order) in [
        ("Once", "Cd", Some("Cd"), vec!["Boot0001"]),
        ("Continuous", "Pxe", None, vec!["Pxe", "Boot0001"]),
        ("Disabled", "None", None, vec!["Boot0001"]),
    ] {
        let peer = ilo5().await;
        peer.on(
            GET_SYSTEM,
            [other(|system| {
                system["Boot"] = json!({"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target, "BootOrder": ["Boot0001"]});
            })],
        );
        let settings = peer.client().boot_settings().await.unwrap();
        assert_eq!(
            (settings.once.as_deref(), settings.order),
            (once, order.into_iter().map(str::to_owned).collect())
        );
    }
}

const LOGIN: &str = "POST /redfish/v1/SessionService/Sessions";

#[tokio::test]
async fn a_login_whose_verb_was_given_up_is_used_by_the_next_and_not_lost() {
    let peer = ilo5().await;
    let (open, gate) = tokio::sync::watch::channel(false);
    peer.on(LOGIN, [Answer::After(gate, Box::new(session("t0")))]);
    let bmc = Arc::new(peer.client());
    let verb = tokio::spawn({
        let bmc = Arc::clone(&bmc);
        async move { bmc.power_state().await }
    });
    peer.until(LOGIN).await;
    verb.abort();
    assert!(verb.await.unwrap_err().is_cancelled());
    open.send(true).unwrap();
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::Off);
    assert_eq!(peer.lines().iter().filter(|line| *line == LOGIN).count(), 1);
    bmc.close().await;
    assert_eq!(peer.changes(), ["DELETE /redfish/v1/SessionService/Sessions/t0"]);
}

#[tokio::test]
async fn a_login_that_outlives_every_verb_is_ended_at_the_close() {
    let peer = ilo5().await;
    let (open, gate) = tokio::sync::watch::channel(false);
    peer.on(LOGIN, [Answer::After(gate, Box::new(session("t0")))]);
    let bmc = Arc::new(peer.client());
    let verb = tokio::spawn({
        let bmc = Arc::clone(&bmc);
        async move { bmc.power_state().await }
    });
    peer.until(LOGIN).await;
    verb.abort();
    assert!(verb.await.unwrap_err().is_cancelled());
    let closed = tokio::spawn(async move { bmc.close().await });
    open.send(true).unwrap();
    closed.await.unwrap();
    assert_eq!(peer.changes(), ["DELETE /redfish/v1/SessionService/Sessions/t0"]);
}

#[tokio::test]
async fn a_bmc_that_is_not_there_is_left_alone_after_three_tries() {
    let peer = ilo5().await;
    let deadlines = Deadlines {
        rest: Duration::from_secs(600),
        ..quick()
    };
    let bmc = RedfishBmc::new(BmcConfig {
        deadlines,
        ..peer.config()
    })
    .unwrap();
    peer.on(GET_SYSTEM, [Answer::Drop]);
    for _ in 0..3 {
        bmc.power_state().await.unwrap_err();
    }
    let asked = peer.lines().len();
    let error = bmc.power_state().await.unwrap_err();
    assert!(error.to_string().contains("left alone"), "{error}");
    assert_eq!(peer.lines().len(), asked);
}
