//! Every verb against a simulated iLO 5 over verified TLS.

use std::time::Duration;

use bmc::redfish::RedfishBmc;
use bmc::{Bmc, BmcConfig, BmcError, Ca, InsertMedia, Tls};
use model::{BmcAddress, BootDevice, BootMode, Device, PowerAction, PowerState, Secret};
use sim::{Running, SimConfig};
use tempfile::TempDir;

use crate::peer::quick;

async fn simulated(change: impl FnOnce(&mut SimConfig)) -> (Running, TempDir) {
    // The simulator fetches media with the process's TLS provider.
    drop(rustls::crypto::ring::default_provider().install_default());
    let folder = TempDir::new().unwrap();
    let mut config = SimConfig::new(folder.path(), "admin", "password");
    config.servers = 1;
    change(&mut config);
    (sim::start(config).await.unwrap(), folder)
}

fn config(running: &Running, password: &str) -> BmcConfig {
    let address = BmcAddress(running.server(0).unwrap().url.clone());
    let ca = Some(Ca::File(running.ca_pem().to_owned()));
    BmcConfig {
        tls: Tls::Verify { ca },
        deadlines: bmc::Deadlines {
            settle: Duration::from_secs(5),
            ..quick()
        },
        ..BmcConfig::new(address, "admin", Secret::new(password))
    }
}

fn client(running: &Running) -> RedfishBmc {
    RedfishBmc::new(config(running, "password")).unwrap()
}

fn image(url: &str) -> InsertMedia {
    InsertMedia {
        url: Secret::new(url),
        boot_once: false,
        server_certificate: None,
    }
}

async fn wait_for(bmc: &RedfishBmc, wanted: PowerState) {
    for _ in 0..400 {
        if bmc.power_state().await.unwrap() == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("never {wanted:?}");
}

#[tokio::test]
async fn a_server_tells_who_it_is() {
    let (running, _folder) = simulated(|_| {}).await;
    let bmc = client(&running);
    let identity = bmc.identity().await.unwrap();
    assert_eq!(identity.vendor.as_deref(), Some("HPE"));
    assert_eq!(identity.model.as_deref(), Some("ProLiant DL360 Gen10"));
    assert!(identity.serial.is_some());
    assert_eq!(identity.bmc_generation, Some(5));
    assert_eq!(identity.bmc_firmware.as_deref(), Some("iLO 5 v2.72"));
    assert_eq!(identity.bmc_license.as_deref(), Some("iLO Advanced"));
    let macs: Vec<String> = identity.macs.iter().map(ToString::to_string).collect();
    assert!(
        macs.contains(&running.server(0).unwrap().mac.to_lowercase()),
        "{macs:?}"
    );
    bmc.close().await;
    running.stop().await;
}

#[tokio::test]
async fn media_go_in_are_replaced_and_come_out() {
    let (running, _folder) = simulated(|_| {}).await;
    let bmc = client(&running);
    for (device, in_sim, ending) in [
        (Device::Cdrom, sim::Device::Cd, "iso"),
        (Device::Floppy, sim::Device::Floppy, "img"),
    ] {
        let (first, second) = (
            format!("http://127.0.0.1:9/a.{ending}"),
            format!("http://127.0.0.1:9/b.{ending}"),
        );
        bmc.eject_media(device).await.unwrap();
        for url in [&first, &second, &second] {
            bmc.insert_media(device, &image(url)).await.unwrap();
            assert_eq!(running.inserted(0, in_sim).unwrap().as_ref(), Some(url));
            let media = bmc.media(device).await.unwrap();
            assert!(media.inserted && media.write_protected, "{media:?}");
            assert_eq!(media.url.as_ref(), Some(url));
        }
    }
    // Neither device threw out the other's media.
    assert!(bmc.media(Device::Cdrom).await.unwrap().inserted);
    for (device, in_sim) in [(Device::Cdrom, sim::Device::Cd), (Device::Floppy, sim::Device::Floppy)] {
        bmc.eject_media(device).await.unwrap();
        assert_eq!(running.inserted(0, in_sim).unwrap(), None);
        bmc.eject_media(device).await.unwrap();
    }
    running.stop().await;
}

#[tokio::test]
async fn boot_once_and_a_certificate_are_taken() {
    let (running, _folder) = simulated(|_| {}).await;
    let bmc = client(&running);
    let pem = std::fs::read_to_string(running.ca_pem()).unwrap();
    let image = InsertMedia {
        boot_once: true,
        server_certificate: Some(pem),
        ..image("https://127.0.0.1:9/a.iso")
    };
    bmc.insert_media(Device::Cdrom, &image).await.unwrap();
    let asked: Vec<String> = running.trace(0).unwrap().into_iter().map(|one| one.path).collect();
    assert!(
        asked
            .iter()
            .any(|path| path.contains("HpeiLOVirtualMedia.InsertVirtualMedia")),
        "{asked:?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn an_image_that_the_slot_does_not_take_is_refused() {
    let (running, _folder) = simulated(|_| {}).await;
    let error = client(&running)
        .insert_media(Device::Cdrom, &image("http://127.0.0.1:9/t0k3n.img"))
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::Refused { .. }), "{error}");
    assert!(!error.to_string().contains("t0k3n"), "{error}");
    running.stop().await;
}

#[tokio::test]
async fn power_goes_where_it_is_told() {
    let (running, _folder) = simulated(|_| {}).await;
    let bmc = client(&running);
    assert_eq!(bmc.power_state().await.unwrap(), PowerState::Off);
    for (action, wanted) in [
        (PowerAction::Off, PowerState::Off),
        (PowerAction::On, PowerState::On),
        (PowerAction::On, PowerState::On),
        (PowerAction::ForceRestart, PowerState::On),
        (PowerAction::SoftRestart, PowerState::On),
        // Nothing runs on it that would hear the request, so it stays on.
        (PowerAction::SoftOff, PowerState::On),
        (PowerAction::Off, PowerState::Off),
        (PowerAction::ForceRestart, PowerState::On),
        (PowerAction::Off, PowerState::Off),
    ] {
        bmc.set_power(action).await.unwrap();
        wait_for(&bmc, wanted).await;
    }
    running.stop().await;
}

#[tokio::test]
async fn boot_settings_are_taken_by_a_bmc_that_refuses_the_override_mode() {
    let (running, _folder) = simulated(|_| {}).await;
    let bmc = client(&running);
    for device in [
        BootDevice::Cdrom,
        BootDevice::Floppy,
        BootDevice::Disk,
        BootDevice::Network,
        BootDevice::UefiHttp,
    ] {
        bmc.set_boot_device(device, false).await.unwrap();
        bmc.set_boot_device(device, true).await.unwrap();
    }
    for mode in [BootMode::Bios, BootMode::Uefi, BootMode::Uefi] {
        bmc.set_boot_mode(mode).await.unwrap();
        assert_eq!(bmc.boot_mode().await.unwrap(), mode);
    }
    for enabled in [true, false, false] {
        bmc.set_secure_boot(enabled).await.unwrap();
        assert_eq!(bmc.secure_boot().await.unwrap(), enabled);
    }
    running.stop().await;
}

#[tokio::test]
async fn a_boot_device_set_during_post_waits_for_its_end() {
    let (running, _folder) = simulated(|_| {}).await;
    let bmc = client(&running);
    bmc.set_power(PowerAction::On).await.unwrap();
    bmc.set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    let trace = running.trace(0).unwrap();
    let refused = trace
        .iter()
        .filter(|one| one.message.as_deref().is_some_and(|id| id.contains("POST")))
        .count();
    assert!(refused > 0, "POST was over too soon for this test");
    running.stop().await;
}

#[tokio::test]
async fn lingering_media_and_failures_are_ridden_out() {
    let (running, _folder) = simulated(|_| {}).await;
    let bmc = client(&running);
    let url = "http://127.0.0.1:9/a.iso";
    bmc.insert_media(Device::Cdrom, &image(url)).await.unwrap();
    running
        .faults()
        .add("[[rule]]\nmethod='POST'\npath='*Eject*'\ntimes=1\nstale-inserted-ms=500\n[[rule]]\nmethod='POST'\npath='*Insert*'\ntimes=2\nstatus=500")
        .unwrap();
    bmc.insert_media(Device::Cdrom, &image(url)).await.unwrap();
    assert_eq!(running.inserted(0, sim::Device::Cd).unwrap().as_deref(), Some(url));
    assert_eq!(
        running
            .faults()
            .applied()
            .iter()
            .map(|(_, times)| *times)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    running.stop().await;
}

#[tokio::test]
async fn media_that_do_not_mount_are_an_error() {
    let (running, _folder) = simulated(|_| {}).await;
    running.faults().add("[[rule]]\npath='*Insert*'\nstatus=204").unwrap();
    let config = BmcConfig {
        deadlines: quick(),
        ..config(&running, "password")
    };
    let error = RedfishBmc::new(config)
        .unwrap()
        .insert_media(Device::Cdrom, &image("http://127.0.0.1:9/a.iso"))
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::Refused { .. }), "{error}");
    running.stop().await;
}

#[tokio::test]
async fn a_full_session_table_is_survived() {
    let (running, _folder) = simulated(|_| {}).await;
    running
        .faults()
        .add("[[rule]]\nmethod='POST'\npath='*/Sessions'\nsession-table-full=true")
        .unwrap();
    let bmc = client(&running);
    bmc.power_state().await.unwrap();
    assert_eq!(bmc.session_uri(), None);
    running.stop().await;
}

#[tokio::test]
async fn a_successor_ends_its_predecessors_session() {
    let (running, _folder) = simulated(|_| {}).await;
    let (old, new) = (client(&running), client(&running));
    old.power_state().await.unwrap();
    let recorded = old.session_uri().unwrap();
    new.delete_session(&recorded).await.unwrap();
    new.delete_session(&recorded).await.unwrap();
    old.power_state().await.unwrap();
    assert_ne!(old.session_uri().unwrap(), recorded, "it had to log in again");
    old.close().await;
    new.close().await;
    running.stop().await;
}

#[tokio::test]
async fn a_wrong_password_is_named_and_a_throttled_login_is_busy() {
    let (running, _folder) = simulated(|_| {}).await;
    let bmc = RedfishBmc::new(config(&running, "wr0ng")).unwrap();
    let mut busy = false;
    for _ in 0..6 {
        let error = bmc.identity().await.unwrap_err();
        assert!(!error.to_string().contains("wr0ng"), "{error}");
        busy |= matches!(error, BmcError::Busy { .. });
        assert!(
            matches!(error, BmcError::Login { .. } | BmcError::Busy { .. }),
            "{error}"
        );
    }
    assert!(busy, "the simulator throttles after three wrong passwords");
    running.stop().await;
}

#[tokio::test]
async fn without_its_ca_the_bmc_is_not_trusted() {
    let (running, _folder) = simulated(|_| {}).await;
    let config = BmcConfig {
        tls: Tls::Verify { ca: None },
        ..config(&running, "password")
    };
    let error = RedfishBmc::new(config).unwrap().identity().await.unwrap_err();
    assert!(error.to_string().contains("ilo_verify_ca"), "{error}");
    assert!(running.trace(0).unwrap().is_empty());
    running.stop().await;
}
