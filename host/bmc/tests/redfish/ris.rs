//! RIS, Redfish's forerunner on iLO 4: other links, writes instead of actions, the same verbs.

use crate::peer::*;
use bmc::redfish::RedfishBmc;
use bmc::{Bmc, BmcError, InsertMedia};
use model::{BootDevice, BootMode, Device, PowerAction, PowerState, Secret};
use serde_json::{Value, json};

const URL: &str = "http://10.0.0.1:8080/v/t0k3n/boot.iso";
const GET_SYSTEM: &str = "GET /rest/v1/Systems/1";
const POST_SYSTEM: &str = "POST /rest/v1/Systems/1";
const PATCH_SYSTEM: &str = "PATCH /rest/v1/Systems/1";
const CD: &str = "/rest/v1/Managers/1/VirtualMedia/2";
const PATCH_CD: &str = "PATCH /rest/v1/Managers/1/VirtualMedia/2";
const GET_CD: &str = "GET /rest/v1/Managers/1/VirtualMedia/2";

fn system(power: &str, resets: &[&str]) -> Value {
    json!({
        "Type": "ComputerSystem.0.9.5", "Manufacturer": "HP", "Model": "ProLiant DL360 Gen9", "SerialNumber": "CZJ4",
        "Power": power,
        "HostCorrelation": {"HostMACAddress": ["aa:bb:cc:00:00:01", "N/A"]},
        "Boot": {
            "BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None",
            "BootSourceOverrideSupported": ["None", "Cd", "Hdd", "Usb", "Pxe"],
        },
        "AvailableActions": [
            {"Action": "Reset", "Capabilities": [{"PropertyName": "ResetType", "AllowableValues": resets}]},
        ],
        "links": {"ManagedBy": [{"href": "/rest/v1/Managers/1"}]},
        "Oem": {"Hp": {"links": {
            "BIOS": {"href": "/rest/v1/systems/1/bios"}, "SecureBoot": {"href": "/rest/v1/Systems/1/SecureBoot"},
        }}},
    })
}

const RESETS: [&str; 4] = ["On", "ForceOff", "ForceRestart", "PushPowerButton"];

fn slot(image: Option<&str>) -> Value {
    json!({
        "MediaTypes": ["CD", "DVD"], "Image": image, "Inserted": image.is_some(), "WriteProtected": true,
        "ConnectedVia": if image.is_some() { "URI" } else { "NotConnected" },
        "Oem": {"Hp": {"BootOnNextServerReset": false}},
    })
}

async fn ilo4(power: &str) -> Peer {
    let peer = Peer::start().await;
    let get = |path: &str, body: Value| peer.on(&format!("GET {path}"), [ok(body)]);
    let member = |path: &str| json!({"links": {"Member": [{"href": path}]}});
    get(
        "/rest/v1",
        json!({"Type": "ServiceRoot.1.0.0", "links": {"Systems": {"href": "/rest/v1/Systems"}, "Managers": {"href": "/rest/v1/Managers"}}}),
    );
    get("/rest/v1/Systems", member("/rest/v1/Systems/1"));
    get("/rest/v1/Systems/1", system(power, &RESETS));
    get(
        "/rest/v1/Managers/1",
        json!({
            "Model": "iLO 4", "Firmware": {"Current": {"VersionString": "iLO 4 v2.20"}},
            "Oem": {"Hp": {"License": {"LicenseString": "iLO 4 Advanced"}}},
            "links": {"VirtualMedia": {"href": "/rest/v1/Managers/1/VirtualMedia"}},
        }),
    );
    get(
        "/rest/v1/Managers/1/VirtualMedia",
        json!({"links": {"Member": [{"href": "/rest/v1/Managers/1/VirtualMedia/1"}, {"href": CD}]}}),
    );
    get(
        "/rest/v1/Managers/1/VirtualMedia/1",
        json!({"MediaTypes": ["Floppy", "USBStick"], "Inserted": false}),
    );
    get(CD, slot(None));
    peer
}

fn client(peer: &Peer) -> RedfishBmc {
    RedfishBmc::ris(peer.config()).unwrap()
}

fn image(boot_once: bool) -> InsertMedia {
    InsertMedia {
        url: Secret::new(URL),
        boot_once,
        server_certificate: None,
    }
}

#[tokio::test]
async fn an_image_is_written_alone_and_ejected_by_writing_none() {
    let peer = ilo4("Off").await;
    peer.on(
        GET_CD,
        [
            ok(slot(None)),
            ok(slot(Some("http://old/x.iso"))),
            ok(slot(None)),
            ok(slot(Some(URL))),
        ],
    );
    peer.on(PATCH_CD, [status(200)]);
    client(&peer).insert_media(Device::Cdrom, &image(false)).await.unwrap();
    assert_eq!(
        peer.changes(),
        [
            format!("{PATCH_CD} {}", json!({"Image": null})),
            format!("{PATCH_CD} {}", json!({"Image": URL}))
        ]
    );
}

#[tokio::test]
async fn boot_once_is_written_in_hps_old_namespace() {
    let peer = ilo4("Off").await;
    peer.on(GET_CD, [ok(slot(None)), ok(slot(None)), ok(slot(Some(URL)))]);
    peer.on(PATCH_CD, [status(200)]);
    client(&peer).insert_media(Device::Cdrom, &image(true)).await.unwrap();
    let once = json!({"Oem": {"Hp": {"BootOnNextServerReset": true}}});
    assert_eq!(
        peer.changes(),
        [
            format!("{PATCH_CD} {}", json!({"Image": URL})),
            format!("{PATCH_CD} {once}")
        ]
    );
}

#[tokio::test]
async fn hps_own_action_is_taken_at_the_slot_where_it_is_offered() {
    let peer = ilo4("Off").await;
    let with = |image| {
        let mut slot = slot(image);
        slot["Oem"]["Hp"]["AvailableActions"] =
            json!([{"Action": "InsertVirtualMedia"}, {"Action": "EjectVirtualMedia"}]);
        ok(slot)
    };
    let post = format!("POST {CD}");
    peer.on(
        GET_CD,
        [with(None), with(Some("http://old/x.iso")), with(None), with(Some(URL))],
    );
    peer.on(&post, [status(200)]);
    client(&peer).insert_media(Device::Cdrom, &image(false)).await.unwrap();
    assert_eq!(
        peer.changes(),
        [
            format!("{post} {}", json!({"Action": "EjectVirtualMedia", "Target": "/Oem/Hp"})),
            format!(
                "{post} {}",
                json!({"Action": "InsertVirtualMedia", "Image": URL, "Target": "/Oem/Hp"})
            ),
        ]
    );
}

#[tokio::test]
async fn a_missing_licence_is_named() {
    let peer = ilo4("Off").await;
    let body = json!({"Messages": [{"MessageID": "iLO.0.10.LicenseKeyRequired"}], "Type": "ExtendedError.1.0.0"});
    peer.on(PATCH_CD, [Answer::Say(400, vec![], body.to_string())]);
    let error = client(&peer)
        .insert_media(Device::Cdrom, &image(false))
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::License { .. }), "{error}");
}

#[tokio::test]
async fn no_session_is_opened_and_none_is_left() {
    let peer = ilo4("On").await;
    let bmc = client(&peer);
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::On);
    bmc.close().await;
    assert_eq!(bmc.session_uri(), None);
    for seen in peer.seen() {
        assert!(seen.line.starts_with("GET /rest/v1"), "{}", seen.line);
        assert!(seen.headers["authorization"].starts_with("Basic "));
    }
}

#[tokio::test]
async fn power_is_changed_at_the_system_itself_and_never_toggled() {
    use PowerAction::*;
    let reset = |kind: &str| Some(json!({"Action": "Reset", "ResetType": kind}));
    let held = Some(json!({"Action": "PowerButton", "Target": "/Oem/Hp", "PushType": "PressAndHold"}));
    for (now, action, resets, want) in [
        ("Off", On, &RESETS[..], reset("On")),
        ("On", On, &RESETS, None),
        ("On", Off, &RESETS, reset("ForceOff")),
        ("On", Off, &["On", "PushPowerButton"], held),
        ("Off", Off, &RESETS, None),
        ("On", ForceRestart, &RESETS, reset("ForceRestart")),
    ] {
        let peer = ilo4(now).await;
        peer.on(GET_SYSTEM, [ok(system(now, resets))]);
        peer.on(POST_SYSTEM, [status(200)]);
        client(&peer).set_power(action).await.unwrap();
        let want: Vec<String> = want.iter().map(|body| format!("{POST_SYSTEM} {body}")).collect();
        assert_eq!(peer.changes(), want, "{action:?} when {now}");
    }
    let peer = ilo4("On").await;
    let error = client(&peer).set_power(SoftOff).await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    assert_eq!(peer.changes(), [""; 0]);
}

#[tokio::test]
async fn the_boot_device_is_one_that_is_supported() {
    let peer = ilo4("Off").await;
    peer.on(PATCH_SYSTEM, [status(200)]);
    let bmc = client(&peer);
    bmc.set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    bmc.set_boot_device(BootDevice::Disk, true).await.unwrap();
    let body = |target: &str, enabled: &str| {
        let boot = json!({"Boot": {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}});
        format!("{PATCH_SYSTEM} {boot}")
    };
    assert_eq!(peer.changes(), [body("Cd", "Once"), body("Hdd", "Continuous")]);
    let error = bmc.set_boot_device(BootDevice::UefiHttp, false).await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn the_boot_mode_is_a_flat_attribute_of_the_bios_settings() {
    let peer = ilo4("Off").await;
    peer.on(
        "GET /rest/v1/systems/1/bios",
        [ok(
            json!({"BootMode": "LegacyBios", "links": {"Settings": {"href": "/rest/v1/systems/1/bios/Settings"}}}),
        )],
    );
    peer.on(
        "GET /rest/v1/systems/1/bios/Settings",
        [ok(json!({"BootMode": "LegacyBios"}))],
    );
    let patch = "PATCH /rest/v1/systems/1/bios/Settings";
    peer.on(patch, [status(200)]);
    let bmc = client(&peer);
    assert_eq!(bmc.boot_mode().await.unwrap(), BootMode::Bios);
    bmc.set_boot_mode(BootMode::Bios).await.unwrap();
    bmc.set_boot_mode(BootMode::Uefi).await.unwrap();
    assert_eq!(peer.changes(), [format!("{patch} {}", json!({"BootMode": "Uefi"}))]);
}

#[tokio::test]
async fn secure_boot_is_found_under_hps_links() {
    let peer = ilo4("Off").await;
    peer.on(
        "GET /rest/v1/Systems/1/SecureBoot",
        [ok(json!({"SecureBootEnable": false}))],
    );
    let patch = "PATCH /rest/v1/Systems/1/SecureBoot";
    peer.on(patch, [status(200)]);
    let bmc = client(&peer);
    assert!(!bmc.secure_boot().await.unwrap());
    bmc.set_secure_boot(true).await.unwrap();
    assert_eq!(
        peer.changes(),
        [format!("{patch} {}", json!({"SecureBootEnable": true}))]
    );
}

#[tokio::test]
async fn a_server_says_who_it_is() {
    let peer = ilo4("Off").await;
    let identity = client(&peer).identity().await.unwrap();
    assert_eq!(identity.model.as_deref(), Some("ProLiant DL360 Gen9"));
    assert_eq!(identity.bmc_firmware.as_deref(), Some("iLO 4 v2.20"));
    assert_eq!(identity.bmc_generation, Some(4));
    assert_eq!(identity.bmc_license.as_deref(), Some("iLO 4 Advanced"));
    let macs: Vec<String> = identity.macs.iter().map(ToString::to_string).collect();
    assert_eq!(macs, ["aa:bb:cc:00:00:01"]);
}

#[tokio::test]
async fn raw_requests_stay_under_rest_v1() {
    let peer = ilo4("Off").await;
    let bmc = client(&peer);
    assert_eq!(
        bmc.raw_redfish("GET", "/rest/v1/Systems/1", None).await.unwrap().status,
        200
    );
    for path in ["/redfish/v1/", "/rest/v12", "/rest/v1/../../xmldata"] {
        let error = bmc.raw_redfish("GET", path, None).await.unwrap_err();
        assert!(matches!(error, BmcError::Refused { .. }), "{path}: {error}");
    }
}

#[tokio::test]
async fn a_machine_without_ris_says_so() {
    let peer = Peer::start().await;
    let error = client(&peer).power_state().await.unwrap_err();
    assert!(error.to_string().contains("/rest/v1"), "{error}");
}
