//! Power, boot device, firmware mode, secure boot and identity.
use crate::peer::*;
use bmc::{Bmc, BmcError};
use model::{BootDevice, BootMode, PowerAction};
use serde_json::{Value, json};

const GET_SYSTEM: &str = "GET /redfish/v1/Systems/1";
const PATCH_SYSTEM: &str = "PATCH /redfish/v1/Systems/1";
const PATCH_BIOS: &str = "PATCH /redfish/v1/Systems/1/Bios/Settings";
const PATCH_SECURE: &str = "PATCH /redfish/v1/Systems/1/SecureBoot";

async fn ilo5() -> Peer {
    Peer::start().await.into_ilo5()
}

fn bios(peer: &Peer, current: &str, pending: &str) {
    let settings = json!({"SettingsObject": {"@odata.id": "/redfish/v1/Systems/1/Bios/Settings"}});
    peer.on(
        "GET /redfish/v1/Systems/1/Bios",
        [ok(
            json!({"Attributes": {"BootMode": current}, "@Redfish.Settings": settings}),
        )],
    );
    peer.on(
        "GET /redfish/v1/Systems/1/Bios/Settings",
        [ok(json!({"Attributes": {"BootMode": pending}}))],
    );
}

#[tokio::test]
async fn power_is_changed_only_if_it_is_not_so_already() {
    for (now, action, want) in [
        ("Off", PowerAction::On, Some("On")),
        ("On", PowerAction::On, None),
        ("On", PowerAction::Off, Some("ForceOff")),
        ("Off", PowerAction::Off, None),
        ("On", PowerAction::SoftOff, Some("GracefulShutdown")),
        ("Off", PowerAction::SoftOff, None),
        ("On", PowerAction::ForceRestart, Some("ForceRestart")),
        ("Off", PowerAction::ForceRestart, Some("On")),
    ] {
        let peer = ilo5().await;
        peer.on(GET_SYSTEM, [ok(system(now))]);
        peer.on(RESET, [status(200)]);
        peer.client().set_power(action).await.unwrap();
        let want: Vec<String> = want
            .iter()
            .map(|kind| format!("{RESET} {}", json!({"ResetType": kind})))
            .collect();
        assert_eq!(peer.changes(), want, "{action:?} when {now}");
    }
}

#[tokio::test]
async fn a_reset_that_is_not_allowed_is_not_sent() {
    let peer = ilo5().await;
    peer.on(GET_SYSTEM, [ok(system("On"))]);
    let error = peer.client().set_power(PowerAction::SoftRestart).await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("GracefulRestart"), "{error}");
    assert_eq!(peer.changes(), [""; 0]);
}

#[tokio::test]
async fn allowed_resets_are_also_read_from_the_action_info() {
    let peer = ilo5().await;
    let mut off = system("Off");
    off["Actions"]["#ComputerSystem.Reset"] = json!({
        "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
        "@Redfish.ActionInfo": "/redfish/v1/Systems/1/ResetActionInfo",
    });
    peer.on(GET_SYSTEM, [ok(off)]);
    peer.on(
        "GET /redfish/v1/Systems/1/ResetActionInfo",
        [ok(
            json!({"Parameters": [{"Name": "ResetType", "AllowableValues": ["ForceOn", "ForceOff"]}]}),
        )],
    );
    peer.on(RESET, [status(204)]);
    peer.client().set_power(PowerAction::On).await.unwrap();
    assert_eq!(peer.changes(), [format!(r#"{RESET} {{"ResetType":"ForceOn"}}"#)]);
}

#[tokio::test]
async fn a_power_change_whose_answer_got_lost_counts_if_it_reads_back() {
    let peer = ilo5().await;
    peer.on(GET_SYSTEM, [ok(system("Off")), ok(system("Off")), ok(system("On"))]);
    peer.on(RESET, [status(500)]);
    // Discovery reads the system once, the verb once, and the read-back finds it on.
    peer.client().set_power(PowerAction::On).await.unwrap();
    assert_eq!(peer.changes().len(), 3);
}

#[tokio::test]
async fn the_boot_device_is_set_by_target_and_enabled_alone() {
    for (device, persistent, target, enabled) in [
        (BootDevice::Cdrom, false, "Cd", "Once"),
        (BootDevice::Cdrom, true, "Cd", "Continuous"),
        (BootDevice::Floppy, false, "Usb", "Once"),
        (BootDevice::Disk, true, "Hdd", "Continuous"),
        (BootDevice::Network, false, "Pxe", "Once"),
        (BootDevice::UefiHttp, false, "UefiHttp", "Once"),
    ] {
        let peer = ilo5().await;
        peer.on(PATCH_SYSTEM, [status(200)]);
        peer.client().set_boot_device(device, persistent).await.unwrap();
        let body = json!({"Boot": {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}});
        assert_eq!(peer.changes(), [format!("{PATCH_SYSTEM} {body}")]);
    }
}

#[tokio::test]
async fn a_boot_device_refused_during_post_is_set_afterwards() {
    let peer = ilo5().await;
    let post = says_no(400, "iLO.2.14.UnableToModifyDuringSystemPOST", &[]);
    peer.on(PATCH_SYSTEM, [post.clone(), post, status(200)]);
    peer.client().set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    assert_eq!(peer.changes().len(), 3);
}

#[tokio::test]
async fn a_boot_device_goes_to_the_settings_resource_where_the_system_will_not_take_it() {
    let peer = ilo5().await;
    let mut off = system("Off");
    off["@Redfish.Settings"] = json!({"SettingsObject": {"@odata.id": "/redfish/v1/Systems/1/SD"}});
    peer.on(GET_SYSTEM, [ok(off)]);
    peer.on(
        PATCH_SYSTEM,
        [says_no(400, "Base.1.4.PropertyNotWritableOrUnknown", &["Boot"])],
    );
    peer.on("PATCH /redfish/v1/Systems/1/SD", [status(204)]);
    peer.client().set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    assert_eq!(peer.changes().len(), 2);
}

#[tokio::test]
async fn a_boot_device_that_is_not_offered_is_unsupported() {
    let peer = ilo5().await;
    let mut off = system("Off");
    off["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"] = json!(["None", "Hdd"]);
    peer.on(GET_SYSTEM, [ok(off)]);
    let error = peer
        .client()
        .set_boot_device(BootDevice::Cdrom, false)
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    assert_eq!(peer.changes(), [""; 0]);
}

#[tokio::test]
async fn the_boot_mode_is_what_the_next_boot_will_use_and_is_written_only_if_it_changes() {
    for (current, pending, wanted, written) in [
        ("Uefi", "Uefi", BootMode::Uefi, None),
        ("Uefi", "Uefi", BootMode::Bios, Some("LegacyBios")),
        ("Uefi", "LegacyBios", BootMode::Bios, None),
        ("Uefi", "LegacyBios", BootMode::Uefi, Some("Uefi")),
        ("LegacyBios", "LegacyBios", BootMode::Uefi, Some("Uefi")),
    ] {
        let peer = ilo5().await;
        bios(&peer, current, pending);
        peer.on(PATCH_BIOS, [status(200)]);
        let bmc = peer.client();
        let next = if pending == "Uefi" {
            BootMode::Uefi
        } else {
            BootMode::Bios
        };
        assert_eq!(bmc.boot_mode().await.unwrap(), next);
        bmc.set_boot_mode(wanted).await.unwrap();
        let want: Vec<String> = written
            .iter()
            .map(|mode| format!("{PATCH_BIOS} {}", json!({"Attributes": {"BootMode": mode}})))
            .collect();
        assert_eq!(peer.changes(), want, "{current} {pending} {wanted:?}");
    }
}

#[tokio::test]
async fn a_boot_mode_that_nobody_tells_is_unsupported() {
    let peer = ilo5().await;
    peer.on("GET /redfish/v1/Systems/1/Bios", [ok(json!({}))]);
    let bmc = peer.client();
    assert!(matches!(
        bmc.boot_mode().await.unwrap_err(),
        BmcError::Unsupported { .. }
    ));
    assert!(matches!(
        bmc.set_boot_mode(BootMode::Uefi).await.unwrap_err(),
        BmcError::Unsupported { .. }
    ));
}

#[tokio::test]
async fn secure_boot_is_written_only_if_it_changes() {
    for (now, wanted, written) in [(false, true, true), (true, true, false), (true, false, true)] {
        let peer = ilo5().await;
        peer.on(
            "GET /redfish/v1/Systems/1/SecureBoot",
            [ok(json!({"SecureBootEnable": now}))],
        );
        peer.on(PATCH_SECURE, [status(200)]);
        let bmc = peer.client();
        assert_eq!(bmc.secure_boot().await.unwrap(), now);
        bmc.set_secure_boot(wanted).await.unwrap();
        let want = format!("{PATCH_SECURE} {}", json!({"SecureBootEnable": wanted}));
        assert_eq!(peer.changes(), if written { vec![want] } else { vec![] });
    }
}

#[tokio::test]
async fn a_server_says_who_it_is() {
    let peer = ilo5().await;
    let link = |id: u8| json!({"@odata.id": format!("/redfish/v1/Systems/1/EthernetInterfaces/{id}")});
    peer.on(
        "GET /redfish/v1/Systems/1/EthernetInterfaces",
        [ok(json!({"Members": [link(1), link(2), link(3)]}))],
    );
    for (id, port) in [
        (1, json!({"MACAddress": "AA:BB:CC:00:00:01"})),
        (
            2,
            json!({"MACAddress": "aa:bb:cc:00:00:99", "PermanentMACAddress": "aa:bb:cc:00:00:02"}),
        ),
        (3, json!({"MACAddress": "N/A"})),
    ] {
        peer.on(
            &format!("GET /redfish/v1/Systems/1/EthernetInterfaces/{id}"),
            [ok(port)],
        );
    }
    let identity = peer.client().identity().await.unwrap();
    assert_eq!(identity.vendor.as_deref(), Some("HPE"));
    assert_eq!(identity.model.as_deref(), Some("ProLiant DL360 Gen10"));
    assert_eq!(identity.serial.as_deref(), Some("CZJ1"));
    assert_eq!(identity.bmc_model.as_deref(), Some("iLO 5"));
    assert_eq!(identity.bmc_generation, Some(5));
    assert_eq!(identity.bmc_firmware.as_deref(), Some("iLO 5 v2.72"));
    assert_eq!(identity.bmc_license.as_deref(), Some("iLO Advanced"));
    let macs: Vec<String> = identity.macs.iter().map(ToString::to_string).collect();
    assert_eq!(macs, ["aa:bb:cc:00:00:01", "aa:bb:cc:00:00:02"]);
}

#[tokio::test]
async fn an_identity_full_of_nonsense_is_cut_and_not_a_panic() {
    let peer = ilo5().await;
    let mut strange = system("Off");
    strange["Manufacturer"] = json!("x".repeat(100_000));
    strange["Model"] = json!({"a": [1, 2]});
    strange["SerialNumber"] = Value::Null;
    strange["EthernetInterfaces"] = json!(7);
    strange["Links"] = json!([]);
    peer.on(GET_SYSTEM, [ok(strange)]);
    peer.on("GET /redfish/v1/Managers", [ok(json!({"Members": "none"}))]);
    let identity = peer.client().identity().await.unwrap();
    assert_eq!(identity.vendor.unwrap().len(), 256);
    assert_eq!(
        (identity.model, identity.serial, identity.bmc_model),
        (None, None, None)
    );
}
