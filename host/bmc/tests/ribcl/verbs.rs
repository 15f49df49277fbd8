//! What each verb says to the BMC, in which order, and what it believes.

use crate::peer::*;
use bmc::{Bmc, BmcError, InsertMedia};
use model::{BootDevice, BootMode, Device, PowerAction, PowerState, Secret};

const URL: &str = "http://10.0.0.1:8080/v/t0k3n/boot.iso";
const INSERT: &str = "<INSERT_VIRTUAL_MEDIA DEVICE=\"CDROM\" IMAGE_URL=\"http://10.0.0.1:8080/v/t0k3n/boot.iso\"/>";
const CONNECT: &str = "<SET_VM_STATUS DEVICE=\"CDROM\"><VM_BOOT_OPTION VALUE=\"CONNECT\"/><VM_WRITE_PROTECT VALUE=\"YES\"/></SET_VM_STATUS>";
const BOOT_ONCE: &str = "<SET_VM_STATUS DEVICE=\"CDROM\"><VM_BOOT_OPTION VALUE=\"BOOT_ONCE\"/><VM_WRITE_PROTECT VALUE=\"YES\"/></SET_VM_STATUS>";
const EJECT: &str = "<EJECT_VIRTUAL_MEDIA DEVICE=\"CDROM\"/>";

fn image() -> InsertMedia {
    InsertMedia {
        url: Secret::new(URL),
        boot_once: false,
        server_certificate: None,
    }
}

fn empty() -> Answer {
    vm(None, "NO_BOOT")
}

/// Takes whatever it is told to insert or eject.
async fn willing() -> Peer {
    let peer = Peer::http().await;
    for command in ["INSERT_VIRTUAL_MEDIA", "SET_VM_STATUS", "EJECT_VIRTUAL_MEDIA"] {
        peer.on(command, [says("")]);
    }
    peer
}

#[tokio::test]
async fn an_image_is_inserted_and_then_connected_and_read_back() {
    for (boot_once, status, option) in [(false, CONNECT, "BOOT_ALWAYS"), (true, BOOT_ONCE, "BOOT_ONCE")] {
        let peer = willing().await;
        peer.on("GET_VM_STATUS", [empty(), vm(Some(URL), option)]);
        let image = InsertMedia { boot_once, ..image() };
        peer.client().insert_media(Device::Cdrom, &image).await.unwrap();
        assert_eq!(peer.changes(), [INSERT, status]);
    }
}

#[tokio::test]
async fn what_is_there_is_ejected_first_and_waited_for_even_if_it_is_the_same_image() {
    for before in ["http://elsewhere/x.iso", URL] {
        let peer = willing().await;
        let held = vm(Some(before), "BOOT_ALWAYS");
        peer.on(
            "GET_VM_STATUS",
            [held.clone(), held.clone(), held, empty(), vm(Some(URL), "BOOT_ALWAYS")],
        );
        peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
        assert_eq!(peer.changes(), [EJECT, INSERT, CONNECT]);
        let seen = peer.seen();
        let at = |command: &str| seen.iter().position(|element| element == command).unwrap();
        assert_eq!(
            at(INSERT) - at(EJECT),
            1 + 3,
            "the insert waits until the slot reads empty: {seen:?}"
        );
    }
}

#[tokio::test]
async fn media_that_never_leave_are_an_error_and_nothing_is_inserted_over_them() {
    let peer = willing().await;
    peer.on("GET_VM_STATUS", [vm(Some(URL), "BOOT_ALWAYS")]);
    let error = peer.client().insert_media(Device::Cdrom, &image()).await.unwrap_err();
    assert!(matches!(error, BmcError::Busy { .. }), "{error}");
    assert_eq!(peer.changes(), [EJECT]);
}

#[tokio::test]
async fn a_yes_without_media_is_an_error_that_says_what_to_check() {
    for after in [
        empty(),
        vm(Some("http://elsewhere/x.iso"), "BOOT_ALWAYS"),
        vm(Some(URL), "NO_BOOT"),
    ] {
        let peer = willing().await;
        peer.on("GET_VM_STATUS", [empty(), after]);
        let error = peer.client().insert_media(Device::Cdrom, &image()).await.unwrap_err();
        assert!(matches!(error, BmcError::Refused { .. }), "{error}");
        assert!(error.to_string().contains("can reach the image server"), "{error}");
        assert!(!error.to_string().contains("t0k3n"), "{error}");
    }
}

#[tokio::test]
async fn an_insert_whose_answer_got_lost_counts_if_it_reads_back() {
    let peer = willing().await;
    peer.on(
        "SET_VM_STATUS",
        [
            Answer::Drop,
            fails(0x0035, "An invalid Virtual Media option has been given."),
        ],
    );
    peer.on("GET_VM_STATUS", [empty(), vm(Some(URL), "BOOT_ALWAYS")]);
    peer.client().insert_media(Device::Cdrom, &image()).await.unwrap();
    assert_eq!(peer.changes(), [INSERT, CONNECT, CONNECT]);
}

#[tokio::test]
async fn a_missing_licence_is_named() {
    for code in [0x003C, 0x002E] {
        let peer = willing().await;
        peer.on("GET_VM_STATUS", [empty()]);
        peer.on("INSERT_VIRTUAL_MEDIA", [fails(code, "Feature not supported")]);
        let error = peer.client().insert_media(Device::Cdrom, &image()).await.unwrap_err();
        assert!(matches!(error, BmcError::License { .. }), "{error}");
        assert!(error.to_string().contains("iLO Advanced"), "{error}");
        assert_eq!(peer.changes(), [INSERT]);
    }
}

#[tokio::test]
async fn a_url_that_ribcl_would_take_apart_is_refused_before_the_bmc_sees_it() {
    let peer = willing().await;
    for url in ["http://h/t0k3n,x.iso", "file:///t0k3n.iso"] {
        let image = InsertMedia {
            url: Secret::new(url),
            ..image()
        };
        let error = peer.client().insert_media(Device::Cdrom, &image).await.unwrap_err();
        assert!(matches!(error, BmcError::Refused { .. }), "{error}");
        assert!(!error.to_string().contains("t0k3n"), "{error}");
    }
    assert_eq!(peer.seen(), [""; 0]);
}

#[tokio::test]
async fn ejecting_an_empty_device_asks_for_nothing() {
    let peer = willing().await;
    peer.on("GET_VM_STATUS", [empty()]);
    peer.client().eject_media(Device::Floppy).await.unwrap();
    assert_eq!(peer.seen(), ["<GET_VM_STATUS DEVICE=\"FLOPPY\"/>"]);
}

#[tokio::test]
async fn media_are_read_as_the_bmc_shows_them() {
    for (answer, inserted, connected, url) in [
        (empty(), false, false, None),
        (vm(Some(URL), "NO_BOOT"), true, false, Some(URL)),
        (vm(Some(URL), "BOOT_ALWAYS"), true, true, Some(URL)),
        (vm(Some(URL), "BOOT_ONCE"), true, true, Some(URL)),
        // After BOOT_ONCE has been used up the option may linger.
        (vm(None, "BOOT_ALWAYS"), false, false, None),
    ] {
        let peer = Peer::http().await;
        peer.on("GET_VM_STATUS", [answer]);
        let media = peer.client().media(Device::Cdrom).await.unwrap();
        assert_eq!(
            (media.inserted, media.connected, media.url.as_deref()),
            (inserted, connected, url)
        );
        assert!(media.write_protected);
    }
}

#[tokio::test]
async fn power_is_changed_only_if_it_is_not_so_already_and_never_toggled() {
    use PowerAction::*;
    for (now, action, want) in [
        ("OFF", On, Some("<SET_HOST_POWER HOST_POWER=\"Yes\"/>")),
        ("ON", On, None),
        ("ON", Off, Some("<HOLD_PWR_BTN TOGGLE=\"NO\"/>")),
        ("OFF", Off, None),
        ("ON", SoftOff, Some("<SET_HOST_POWER HOST_POWER=\"No\"/>")),
        ("OFF", SoftOff, None),
        ("ON", ForceRestart, Some("<RESET_SERVER/>")),
        ("OFF", ForceRestart, Some("<SET_HOST_POWER HOST_POWER=\"Yes\"/>")),
        ("OFF", SoftRestart, Some("<SET_HOST_POWER HOST_POWER=\"Yes\"/>")),
    ] {
        let peer = Peer::http().await;
        peer.on("GET_HOST_POWER_STATUS", [power(now)]);
        for command in ["SET_HOST_POWER", "HOLD_PWR_BTN", "RESET_SERVER"] {
            peer.on(command, [says("")]);
        }
        peer.client().set_power(action).await.unwrap();
        let want: Vec<&str> = want.into_iter().collect();
        assert_eq!(peer.changes(), want, "{action:?} when {now}");
    }
}

#[tokio::test]
async fn an_operating_system_cannot_be_asked_to_restart() {
    let peer = Peer::http().await;
    peer.on("GET_HOST_POWER_STATUS", [power("ON")]);
    let error = peer.client().set_power(PowerAction::SoftRestart).await.unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    assert_eq!(peer.changes(), [""; 0]);
}

#[tokio::test]
async fn a_power_change_whose_answer_got_lost_counts_if_it_reads_back() {
    let peer = Peer::http().await;
    peer.on("GET_HOST_POWER_STATUS", [power("OFF"), power("ON")]);
    peer.on(
        "SET_HOST_POWER",
        [Answer::Drop, fails(0x0077, "Host power is already ON.")],
    );
    peer.client().set_power(PowerAction::On).await.unwrap();
    assert_eq!(peer.changes().len(), 2);
}

#[tokio::test]
async fn the_boot_device_of_the_next_boot_is_named() {
    for (device, name) in [
        (BootDevice::Cdrom, "CDROM"),
        (BootDevice::Floppy, "FLOPPY"),
        (BootDevice::Disk, "HDD"),
        (BootDevice::Network, "NETWORK"),
    ] {
        let peer = Peer::http().await;
        peer.on("SET_ONE_TIME_BOOT", [says("")]);
        peer.client().set_boot_device(device, false).await.unwrap();
        assert_eq!(peer.seen(), [format!("<SET_ONE_TIME_BOOT VALUE=\"{name}\"/>")]);
    }
    let peer = Peer::http().await;
    let error = peer
        .client()
        .set_boot_device(BootDevice::UefiHttp, false)
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn a_persistent_boot_device_comes_first_and_the_others_keep_their_order() {
    let uefi = "<PERSISTENT_BOOT>\r\n<DEVICE VALUE=\"Boot0009\" DESCRIPTION=\"Embedded LOM 1 Port 1 (PXE)\"/>\r\n<DEVICE VALUE=\"Boot000E\" DESCRIPTION=\"HP iLO Virtual USB 2 : HP iLO Virtual USB CD\"/>\r\n</PERSISTENT_BOOT>";
    let bios =
        "<PERSISTENT_BOOT><DEVICE value=\"HDD\"/><DEVICE value='CDROM'/><DEVICE value=\"NETWORK1\"/></PERSISTENT_BOOT>";
    for (order, want) in [
        (
            uefi,
            "<SET_PERSISTENT_BOOT><DEVICE VALUE=\"Boot000E\"/><DEVICE VALUE=\"Boot0009\"/></SET_PERSISTENT_BOOT>",
        ),
        (
            bios,
            "<SET_PERSISTENT_BOOT><DEVICE VALUE=\"CDROM\"/><DEVICE VALUE=\"HDD\"/><DEVICE VALUE=\"NETWORK1\"/></SET_PERSISTENT_BOOT>",
        ),
    ] {
        let peer = Peer::http().await;
        peer.on("GET_PERSISTENT_BOOT", [says(order)]);
        peer.on("SET_PERSISTENT_BOOT", [says("")]);
        peer.client().set_boot_device(BootDevice::Cdrom, true).await.unwrap();
        assert_eq!(peer.changes(), [want]);
    }
}

#[tokio::test]
async fn boot_settings_are_told_in_the_bmcs_words() {
    let peer = Peer::http().await;
    peer.on(
        "GET_ONE_TIME_BOOT",
        [
            says("<ONE_TIME_BOOT><BOOT_TYPE VALUE=\"CDROM\"/></ONE_TIME_BOOT>"),
            says("<ONE_TIME_BOOT><BOOT_TYPE VALUE=\"Normal\"/></ONE_TIME_BOOT>"),
        ],
    );
    peer.on(
        "GET_PERSISTENT_BOOT",
        [says(
            "<PERSISTENT_BOOT><DEVICE VALUE=\"HDD\"/><DEVICE VALUE=\"Boot1\" DESCRIPTION=\"NIC\"/></PERSISTENT_BOOT>",
        )],
    );
    let bmc = peer.client();
    let settings = bmc.boot_settings().await.unwrap();
    assert_eq!(settings.once.as_deref(), Some("CDROM"));
    assert_eq!(settings.order, ["HDD", "Boot1 (NIC)"]);
    assert_eq!(bmc.boot_settings().await.unwrap().once, None);
}

fn mode(command: &str, value: &str) -> Answer {
    says(&format!(
        "<{command}>\r\n<BOOT_MODE VALUE=\"{value}\"/>\r\n</{command}>"
    ))
}

#[tokio::test]
async fn the_boot_mode_is_the_pending_one_and_is_written_only_if_it_changes() {
    for (pending, wanted, written) in [
        ("UEFI", BootMode::Uefi, None),
        ("UEFI", BootMode::Bios, Some("LEGACY")),
        ("LEGACY", BootMode::Uefi, Some("UEFI")),
    ] {
        let peer = Peer::http().await;
        peer.on("GET_PENDING_BOOT_MODE", [mode("GET_PENDING_BOOT_MODE", pending)]);
        peer.on("SET_PENDING_BOOT_MODE", [says("")]);
        let bmc = peer.client();
        let now = bmc.boot_mode().await.unwrap();
        assert_eq!(
            now,
            if pending == "UEFI" {
                BootMode::Uefi
            } else {
                BootMode::Bios
            }
        );
        bmc.set_boot_mode(wanted).await.unwrap();
        let want: Vec<String> = written
            .iter()
            .map(|mode| format!("<SET_PENDING_BOOT_MODE VALUE=\"{mode}\"/>"))
            .collect();
        assert_eq!(peer.changes(), want);
    }
}

#[tokio::test]
async fn a_pending_mode_that_is_unknown_is_the_current_one() {
    let peer = Peer::http().await;
    peer.on("GET_PENDING_BOOT_MODE", [mode("GET_PENDING_BOOT_MODE", "UNKNOWN")]);
    peer.on("GET_CURRENT_BOOT_MODE", [mode("GET_CURRENT_BOOT_MODE", "UEFI")]);
    assert_eq!(peer.client().boot_mode().await.unwrap(), BootMode::Uefi);
}

#[tokio::test]
async fn a_server_that_knows_no_boot_modes_has_a_bios() {
    for answer in [fails(0x003C, "Feature not supported"), fails(0x0001, "Syntax error")] {
        let peer = Peer::http().await;
        for command in ["GET_PENDING_BOOT_MODE", "SET_PENDING_BOOT_MODE"] {
            peer.on(command, [answer.clone()]);
        }
        let bmc = peer.client();
        assert_eq!(bmc.boot_mode().await.unwrap(), BootMode::Bios);
        bmc.set_boot_mode(BootMode::Bios).await.unwrap();
        let error = bmc.set_boot_mode(BootMode::Uefi).await.unwrap_err();
        assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_server_says_who_it_is() {
    let peer = Peer::http().await;
    peer.on(
        "GET_FW_VERSION",
        [says("<GET_FW_VERSION\r\n FIRMWARE_VERSION = \"1.82\"\r\n MANAGEMENT_PROCESSOR = \"iLO3\"\r\n LICENSE_TYPE = \"iLO 3 Advanced\"\r\n />")],
    );
    peer.on(
        "GET_PRODUCT_NAME",
        [says(
            "<GET_PRODUCT_NAME>\r\n<PRODUCT_NAME VALUE =\"ProLiant DL380 G7\"/>\r\n</GET_PRODUCT_NAME>",
        )],
    );
    peer.on(
        "GET_HOST_DATA",
        [says(
            "<GET_HOST_DATA><SMBIOS_RECORD TYPE=\"1\" B64_DATA=\"AAAA\"><FIELD NAME=\"Product Name\" VALUE=\"DL380\"/><FIELD NAME=\"Serial Number\" VALUE=\"CZJ1 \"/></SMBIOS_RECORD>\
             <SMBIOS_RECORD TYPE=\"209\"><FIELD NAME=\"Port\" VALUE=\"1\"/><FIELD NAME=\"MAC\" VALUE=\"AA-BB-CC-00-00-01\"/><FIELD NAME=\"Port\" VALUE=\"iLO\"/><FIELD NAME=\"MAC\" VALUE=\"AA-BB-CC-00-00-FF\"/></SMBIOS_RECORD></GET_HOST_DATA>",
        )],
    );
    let identity = peer.client().identity().await.unwrap();
    assert_eq!(identity.vendor.as_deref(), Some("HPE"));
    assert_eq!(identity.model.as_deref(), Some("ProLiant DL380 G7"));
    assert_eq!(identity.serial.as_deref(), Some("CZJ1"));
    assert_eq!(identity.bmc_model.as_deref(), Some("iLO 3"));
    assert_eq!(identity.bmc_generation, Some(3));
    assert_eq!(identity.bmc_firmware.as_deref(), Some("1.82"));
    assert_eq!(identity.bmc_license.as_deref(), Some("iLO 3 Advanced"));
    let macs: Vec<String> = identity.macs.iter().map(ToString::to_string).collect();
    assert_eq!(macs, ["aa:bb:cc:00:00:01"]);
}

#[tokio::test]
async fn what_an_old_firmware_does_not_know_is_left_out_of_its_identity() {
    let peer = Peer::http().await;
    peer.on(
        "GET_FW_VERSION",
        [says(
            "<GET_FW_VERSION FIRMWARE_VERSION=\"2.29\" MANAGEMENT_PROCESSOR=\"iLO2\"/>",
        )],
    );
    let identity = peer.client().identity().await.unwrap();
    assert_eq!(
        (identity.bmc_generation, identity.model, identity.serial),
        (Some(2), None, None)
    );
}

#[tokio::test]
async fn secure_boot_is_beyond_ribcl_and_nothing_is_sent() {
    let peer = Peer::http().await;
    let bmc = peer.client();
    for error in [
        bmc.secure_boot().await.unwrap_err(),
        bmc.set_secure_boot(true).await.unwrap_err(),
        bmc.raw_redfish("GET", "/redfish/v1/", None).await.unwrap_err(),
    ] {
        assert!(matches!(error, BmcError::Unsupported { .. }), "{error}");
    }
    assert_eq!(peer.seen(), [""; 0]);
}

#[tokio::test]
async fn power_reads_survive_odd_spelling() {
    for (text, want) in [
        ("<GET_HOST_POWER HOST_POWER = 'on' />", PowerState::On),
        ("<GET_HOST_POWER HOST_POWER=\"OFF\">", PowerState::Off),
        ("<GET_HOST_POWER HOST_POWER=\"RESETTING\"/>", PowerState::Unknown),
        ("", PowerState::Unknown),
    ] {
        let peer = Peer::http().await;
        peer.on("GET_HOST_POWER_STATUS", [says(text)]);
        assert_eq!(peer.client().power_state().await.unwrap(), want, "{text}");
    }
}
