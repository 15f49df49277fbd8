//! Every verb by RIS against simulated iLOs 4, one from before Redfish and one that has both, judged by what each was sent.

use std::time::Duration;

use crate::peer::quick;
use bmc::redfish::RedfishBmc;
use bmc::{Bmc, BmcConfig, BmcError, Ca, InsertMedia, Tls};
use model::{BmcAddress, BootDevice, BootMode, Device, PowerAction, PowerState, Secret};
use serde_json::{Value, json};
use sim::{Profile, Running, SimConfig};
use tempfile::TempDir;

const ISO: &str = "http://127.0.0.1:9/v/t0k3n/boot.iso";
const IMG: &str = "http://127.0.0.1:9/v/t0k3n/floppy.img";
const SYSTEM: &str = "/rest/v1/Systems/1";

async fn simulated(profile: &str, change: impl FnOnce(&mut SimConfig)) -> (Running, RedfishBmc, TempDir) {
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = TempDir::new().unwrap();
    let mut config = SimConfig::new(folder.path(), "admin", "password");
    config.profile = Profile::by_name(profile).unwrap();
    config.disk_bytes = 1 << 20;
    config.timing.post = Duration::from_millis(50);
    change(&mut config);
    let running = sim::start(config).await.unwrap();
    let bmc = client(&running, "password");
    (running, bmc, folder)
}

fn client(running: &Running, password: &str) -> RedfishBmc {
    let address = BmcAddress(running.server(0).unwrap().url.clone());
    let ca = Some(Ca::File(running.ca_pem().to_owned()));
    let config = BmcConfig {
        tls: Tls::Verify { ca },
        deadlines: bmc::Deadlines {
            settle: Duration::from_secs(10),
            // As long as what passes is waited for.
            verb: Duration::from_secs(12),
            ..quick()
        },
        ..BmcConfig::new(address, "admin", Secret::new(password))
    };
    RedfishBmc::ris(config).unwrap()
}

fn image(url: &str, boot_once: bool) -> InsertMedia {
    InsertMedia {
        url: Secret::new(url),
        boot_once,
        server_certificate: None,
    }
}

/// What changed something since the last call: method, path and body.
fn changes(running: &Running, seen: &mut usize) -> Vec<(String, String, Value)> {
    let trace = running.trace(0).unwrap();
    let new = trace[*seen..].iter().filter(|exchange| exchange.method != "GET");
    let new = new
        .map(|exchange| {
            let body = exchange.body.clone().unwrap_or_default();
            (exchange.method.clone(), exchange.path.clone(), body)
        })
        .collect();
    *seen = trace.len();
    new
}

fn change(method: &str, path: &str, body: Value) -> (String, String, Value) {
    (method.to_owned(), path.to_owned(), body)
}

async fn until_power(bmc: &RedfishBmc, wanted: PowerState) {
    for _ in 0..600 {
        if bmc.power_state().await.unwrap() == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("never {wanted:?}");
}

#[tokio::test]
async fn media_are_written_in_and_out_before_firmware_2_30_and_acted_in_and_out_after() {
    for profile in ["ilo4-ris", "ilo4"] {
        let (running, bmc, _folder) = simulated(profile, |_| {}).await;
        let mut seen = 0;
        for (device, slot, url, in_sim) in [
            (
                Device::Cdrom,
                "/rest/v1/Managers/1/VirtualMedia/2",
                ISO,
                sim::Device::Cd,
            ),
            (
                Device::Floppy,
                "/rest/v1/Managers/1/VirtualMedia/1",
                IMG,
                sim::Device::Floppy,
            ),
        ] {
            let (put_in, take_out) = if profile == "ilo4-ris" {
                (
                    change("PATCH", slot, json!({"Image": url})),
                    change("PATCH", slot, json!({"Image": null})),
                )
            } else {
                (
                    change(
                        "POST",
                        slot,
                        json!({"Action": "InsertVirtualMedia", "Target": "/Oem/Hp", "Image": url}),
                    ),
                    change(
                        "POST",
                        slot,
                        json!({"Action": "EjectVirtualMedia", "Target": "/Oem/Hp"}),
                    ),
                )
            };
            let once = change("PATCH", slot, json!({"Oem": {"Hp": {"BootOnNextServerReset": true}}}));
            bmc.insert_media(device, &image(url, false)).await.unwrap();
            assert_eq!(changes(&running, &mut seen), std::slice::from_ref(&put_in), "{profile}");
            assert_eq!(running.inserted(0, in_sim).unwrap().as_deref(), Some(url));
            let media = bmc.media(device).await.unwrap();
            assert!(media.inserted && media.connected, "{profile}: {media:?}");
            bmc.insert_media(device, &image(url, true)).await.unwrap();
            assert_eq!(
                changes(&running, &mut seen),
                [take_out.clone(), put_in, once],
                "{profile}"
            );
            bmc.eject_media(device).await.unwrap();
            assert_eq!(changes(&running, &mut seen), [take_out], "{profile}");
            assert_eq!(running.inserted(0, in_sim).unwrap(), None);
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn power_boot_and_firmware_settings_are_what_was_set() {
    for profile in ["ilo4-ris", "ilo4"] {
        let (running, bmc, _folder) = simulated(profile, |_| {}).await;
        let mut seen = 0;
        let boot = |target: &str, enabled: &str| {
            let boot = json!({"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled});
            change("PATCH", SYSTEM, json!({"Boot": boot}))
        };
        bmc.set_boot_device(BootDevice::Cdrom, false).await.unwrap();
        assert_eq!(bmc.boot_settings().await.unwrap().once.as_deref(), Some("Cd"));
        bmc.set_boot_device(BootDevice::Disk, true).await.unwrap();
        assert_eq!(
            bmc.boot_settings().await.unwrap().order.first().map(String::as_str),
            Some("Hdd")
        );
        assert_eq!(
            changes(&running, &mut seen),
            [boot("Cd", "Once"), boot("Hdd", "Continuous")]
        );

        assert_eq!(bmc.boot_mode().await.unwrap(), BootMode::Uefi);
        bmc.set_boot_mode(BootMode::Bios).await.unwrap();
        assert_eq!(bmc.boot_mode().await.unwrap(), BootMode::Bios);
        bmc.set_boot_mode(BootMode::Uefi).await.unwrap();
        bmc.set_secure_boot(true).await.unwrap();
        assert!(bmc.secure_boot().await.unwrap());
        let settings = "/rest/v1/systems/1/bios/Settings";
        assert_eq!(
            changes(&running, &mut seen),
            [
                change("PATCH", settings, json!({"BootMode": "LegacyBios"})),
                change("PATCH", settings, json!({"BootMode": "Uefi"})),
                change(
                    "PATCH",
                    "/rest/v1/Systems/1/SecureBoot",
                    json!({"SecureBootEnable": true})
                ),
            ]
        );

        let reset = |kind: &str| change("POST", SYSTEM, json!({"Action": "Reset", "ResetType": kind}));
        for (action, now, want) in [
            (PowerAction::On, PowerState::On, "On"),
            (PowerAction::ForceRestart, PowerState::On, "ForceRestart"),
            (PowerAction::Off, PowerState::Off, "ForceOff"),
        ] {
            bmc.set_power(action).await.unwrap();
            until_power(&bmc, now).await;
            assert_eq!(changes(&running, &mut seen), [reset(want)], "{profile}");
        }
        assert_eq!(running.sessions(0).unwrap(), 0);
        running.stop().await;
    }
}

#[tokio::test]
async fn an_ilo_4_says_who_it_is_by_ris() {
    for (profile, firmware) in [("ilo4-ris", "iLO 4 v2.20"), ("ilo4", "iLO 4 v2.82")] {
        let (running, bmc, _folder) = simulated(profile, |_| {}).await;
        let identity = bmc.identity().await.unwrap();
        assert_eq!(identity.model.as_deref(), Some("ProLiant DL360 Gen9"));
        assert_eq!(identity.bmc_firmware.as_deref(), Some(firmware));
        assert_eq!(identity.bmc_generation, Some(4));
        assert_eq!(identity.bmc_license.as_deref(), Some("iLO 4 Advanced"));
        let macs: Vec<String> = identity.macs.iter().map(ToString::to_string).collect();
        assert_eq!(macs, [running.server(0).unwrap().mac.clone()]);
        running.stop().await;
    }
}

#[tokio::test]
async fn refusals_of_ris_are_typed_as_those_of_redfish_are() {
    let (running, bmc, _folder) = simulated("ilo4-ris", |config| config.unlicensed = true).await;
    let error = bmc.insert_media(Device::Cdrom, &image(ISO, false)).await.unwrap_err();
    assert!(matches!(error, BmcError::License { .. }), "{error}");
    let error = client(&running, "wrong").power_state().await.unwrap_err();
    assert!(matches!(error, BmcError::Login { .. }), "{error}");
    // Redfish is not there.
    let trace = running.trace(0).unwrap();
    assert!(
        trace.iter().all(|exchange| exchange.path.starts_with("/rest/v1")),
        "{trace:?}"
    );
    running.stop().await;

    let (running, bmc, _folder) = simulated("ilo4-ris", |config| config.timing.post = Duration::from_secs(600)).await;
    bmc.set_power(PowerAction::On).await.unwrap();
    until_power(&bmc, PowerState::On).await;
    let error = bmc.set_boot_device(BootDevice::Cdrom, false).await.unwrap_err();
    assert!(matches!(error, BmcError::Busy { .. }), "{error}");
    running.stop().await;
}
