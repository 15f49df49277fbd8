//! Every verb against simulated iLOs 2 to 5, judged by what each was sent.

use std::time::Duration;

use crate::peer::quick;
use bmc::probe::{Transport, probe};
use bmc::ribcl::RibclBmc;
use bmc::trace::Form;
use bmc::{Bmc, BmcConfig, BmcError, Ca, InsertMedia, Protocols, Tls};
use model::{BmcAddress, BootDevice, BootMode, Device, PowerAction, PowerState, Secret};
use sim::{Profile, Running, SimConfig};
use tempfile::TempDir;

const PASSWORD: &str = "hunter2&\"<'>";
/// Nobody listens there: what was looked for shows in the record of the reads.
const ISO: &str = "http://127.0.0.1:9/v/t0k3n/boot.iso";
const IMG: &str = "http://127.0.0.1:9/v/t0k3n/floppy.img";
const ILOS: [&str; 4] = ["ilo2", "ilo3", "ilo4", "ilo5"];

struct Ilo {
    running: Running,
    legacy: bool,
    form: Form,
    _folder: TempDir,
}

impl Ilo {
    async fn start(profile: &str, change: impl FnOnce(&mut SimConfig)) -> Self {
        // The simulator fetches media with the process's TLS provider.
        drop(rustls::crypto::ring::default_provider().install_default());
        let folder = TempDir::new().unwrap();
        let mut config = SimConfig::new(folder.path(), "admin", PASSWORD);
        config.profile = Profile::by_name(profile).unwrap();
        config.disk_bytes = 1 << 20;
        config.timing.post = Duration::from_millis(50);
        change(&mut config);
        Self {
            running: sim::start(config).await.unwrap(),
            legacy: matches!(profile, "ilo2" | "ilo3"),
            form: if profile == "ilo2" { Form::Raw } else { Form::Http },
            _folder: folder,
        }
    }

    fn config(&self) -> BmcConfig {
        let address = BmcAddress(self.running.server(0).unwrap().url.clone());
        let ca = Some(Ca::File(self.running.ca_pem().to_owned()));
        BmcConfig {
            tls: Tls::Verify { ca },
            protocols: if self.legacy {
                Protocols::Legacy
            } else {
                Protocols::Modern
            },
            deadlines: bmc::Deadlines {
                settle: Duration::from_secs(10),
                ..quick()
            },
            ..BmcConfig::new(address, "admin", Secret::new(PASSWORD))
        }
    }

    fn client(&self) -> RibclBmc {
        RibclBmc::new(self.config(), self.form).unwrap()
    }

    /// The commands since the last call, those that only read left out.
    fn changes(&self, seen: &mut usize) -> Vec<String> {
        let commands = self.commands();
        let new = commands[*seen..].iter().filter(|command| !command.starts_with("<GET_"));
        let new = new.cloned().collect();
        *seen = commands.len();
        new
    }

    fn commands(&self) -> Vec<String> {
        let trace = self.running.trace(0).unwrap().into_iter();
        trace
            .filter_map(|exchange| Some(exchange.body?.as_str()?.to_owned()))
            .collect()
    }
}

fn image(url: &str, boot_once: bool) -> InsertMedia {
    InsertMedia {
        url: Secret::new(url),
        boot_once,
        server_certificate: None,
    }
}

async fn until_power(bmc: &RibclBmc, wanted: PowerState) {
    for _ in 0..600 {
        if bmc.power_state().await.unwrap() == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("never {wanted:?}");
}

#[tokio::test]
async fn a_server_says_who_it_is() {
    for (profile, model, firmware, license, generation) in [
        ("ilo2", "ProLiant DL360 G6", "2.29", "iLO 2 Advanced", 2),
        ("ilo3", "ProLiant BL460c G7", "1.82", "iLO 3 Advanced", 3),
        ("ilo4", "ProLiant DL360 Gen9", "2.82", "iLO 4 Advanced", 4),
        ("ilo5", "ProLiant DL360 Gen10", "2.72", "iLO Advanced", 5),
    ] {
        let ilo = Ilo::start(profile, |_| {}).await;
        let identity = ilo.client().identity().await.unwrap();
        assert_eq!(identity.model.as_deref(), Some(model));
        assert_eq!(identity.bmc_firmware.as_deref(), Some(firmware));
        assert_eq!(identity.bmc_license.as_deref(), Some(license));
        assert_eq!(identity.bmc_generation, Some(generation));
        assert!(
            identity.serial.is_some_and(|serial| serial.starts_with("MXQ")),
            "trimmed"
        );
        let macs: Vec<String> = identity.macs.iter().map(ToString::to_string).collect();
        assert_eq!(macs, [ilo.running.server(0).unwrap().mac.clone()], "not the iLO's own");
        assert_eq!(
            ilo.commands(),
            ["<GET_FW_VERSION/>", "<GET_PRODUCT_NAME/>", "<GET_HOST_DATA/>"]
        );
        ilo.running.stop().await;
    }
}

#[tokio::test]
async fn media_go_in_are_connected_replaced_and_come_out() {
    for profile in ILOS {
        let ilo = Ilo::start(profile, |_| {}).await;
        let (bmc, mut seen) = (ilo.client(), 0);
        for (device, name, slot, url) in [
            (Device::Cdrom, "CDROM", sim::Device::Cd, ISO),
            (Device::Floppy, "FLOPPY", sim::Device::Floppy, IMG),
        ] {
            let insert = format!("<INSERT_VIRTUAL_MEDIA DEVICE=\"{name}\" IMAGE_URL=\"{url}\"/>");
            let eject = format!("<EJECT_VIRTUAL_MEDIA DEVICE=\"{name}\"/>");
            let set = |option: &str| {
                format!(
                    "<SET_VM_STATUS DEVICE=\"{name}\"><VM_BOOT_OPTION VALUE=\"{option}\"/><VM_WRITE_PROTECT VALUE=\"YES\"/></SET_VM_STATUS>"
                )
            };
            assert!(!bmc.media(device).await.unwrap().inserted);
            bmc.eject_media(device).await.unwrap();
            assert_eq!(ilo.changes(&mut seen), [""; 0], "{profile}: nothing to eject");

            bmc.insert_media(device, &image(url, false)).await.unwrap();
            assert_eq!(ilo.changes(&mut seen), [insert.clone(), set("CONNECT")], "{profile}");
            let media = bmc.media(device).await.unwrap();
            assert!(
                media.inserted && media.connected && media.write_protected,
                "{profile}: {media:?}"
            );
            assert_eq!(media.url.as_deref(), Some(url));
            assert_eq!(ilo.running.inserted(0, slot).unwrap().as_deref(), Some(url));
            let mut looked = 0;
            for _ in 0..400 {
                looked = ilo.running.media_reads(0, slot).unwrap()[0].errors;
                if looked > 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
            assert_eq!(looked, 1, "{profile}: CONNECT fetches");

            bmc.insert_media(device, &image(url, true)).await.unwrap();
            assert_eq!(
                ilo.changes(&mut seen),
                [eject.clone(), insert, set("BOOT_ONCE")],
                "{profile}"
            );
            bmc.eject_media(device).await.unwrap();
            assert_eq!(ilo.changes(&mut seen), [eject], "{profile}");
            assert_eq!(ilo.running.inserted(0, slot).unwrap(), None);
        }
        ilo.running.stop().await;
    }
}

#[tokio::test]
async fn what_boots_once_is_gone_after_the_second_boot() {
    let ilo = Ilo::start("ilo4", |_| {}).await;
    let bmc = ilo.client();
    bmc.insert_media(Device::Cdrom, &image(ISO, true)).await.unwrap();
    bmc.set_power(PowerAction::On).await.unwrap();
    let boots = async |number| {
        for _ in 0..600 {
            if ilo
                .running
                .last_boot(0)
                .unwrap()
                .is_some_and(|boot| boot.number == number)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("boot {number} never came");
    };
    boots(1).await;
    assert!(bmc.media(Device::Cdrom).await.unwrap().inserted);
    assert!(
        ilo.running.media_reads(0, sim::Device::Cd).unwrap()[0].errors > 0,
        "the firmware tried it"
    );
    bmc.set_power(PowerAction::ForceRestart).await.unwrap();
    boots(2).await;
    assert!(!bmc.media(Device::Cdrom).await.unwrap().inserted);
    let status = bmc
        .raw_ribcl("GET_VM_STATUS", &[("DEVICE".into(), "CDROM".into())])
        .await
        .unwrap();
    assert!(status.contains("BOOT_OPTION=\"NO_BOOT\""), "{status}");
    ilo.running.stop().await;
}

#[tokio::test]
async fn boot_device_and_order_are_what_was_set() {
    for profile in ILOS {
        let ilo = Ilo::start(profile, |_| {}).await;
        let (bmc, mut seen) = (ilo.client(), 0);
        for (device, name) in [
            (BootDevice::Cdrom, "CDROM"),
            (BootDevice::Network, "NETWORK"),
            (BootDevice::Disk, "HDD"),
        ] {
            bmc.set_boot_device(device, false).await.unwrap();
            assert_eq!(
                ilo.changes(&mut seen),
                [format!("<SET_ONE_TIME_BOOT VALUE=\"{name}\"/>")],
                "{profile}"
            );
            assert_eq!(
                bmc.boot_settings().await.unwrap().once.as_deref(),
                Some(name),
                "{profile}"
            );
        }
        bmc.set_boot_device(BootDevice::Disk, true).await.unwrap();
        let order: &[&str] = match profile {
            "ilo2" | "ilo3" => &["HDD", "CDROM", "USB", "NETWORK"],
            _ => &["Boot0007", "Boot000B", "Boot000A", "Boot0009"],
        };
        let devices: String = order.iter().map(|name| format!("<DEVICE VALUE=\"{name}\"/>")).collect();
        assert_eq!(
            ilo.changes(&mut seen),
            [format!("<SET_PERSISTENT_BOOT>{devices}</SET_PERSISTENT_BOOT>")],
            "{profile}"
        );
        let shown = bmc.boot_settings().await.unwrap().order;
        assert!(shown[0].starts_with(order[0]), "{profile}: {shown:?}");
        assert_eq!(shown.len(), 4, "{profile}: {shown:?}");
        ilo.running.stop().await;
    }
}

#[tokio::test]
async fn the_boot_mode_is_pending_where_there_is_one() {
    for profile in ["ilo4", "ilo5"] {
        let ilo = Ilo::start(profile, |_| {}).await;
        let (bmc, mut seen) = (ilo.client(), 0);
        assert_eq!(bmc.boot_mode().await.unwrap(), BootMode::Uefi);
        bmc.set_boot_mode(BootMode::Uefi).await.unwrap();
        assert_eq!(ilo.changes(&mut seen), [""; 0]);
        bmc.set_boot_mode(BootMode::Bios).await.unwrap();
        assert_eq!(ilo.changes(&mut seen), ["<SET_PENDING_BOOT_MODE VALUE=\"LEGACY\"/>"]);
        assert_eq!(bmc.boot_mode().await.unwrap(), BootMode::Bios);
        let current = bmc.raw_ribcl("GET_CURRENT_BOOT_MODE", &[]).await.unwrap();
        assert!(current.contains("VALUE=\"UEFI\""), "{current}");
        ilo.running.stop().await;
    }
    for profile in ["ilo2", "ilo3"] {
        let ilo = Ilo::start(profile, |_| {}).await;
        let bmc = ilo.client();
        assert_eq!(bmc.boot_mode().await.unwrap(), BootMode::Bios);
        let error = bmc.set_boot_mode(BootMode::Uefi).await.unwrap_err();
        assert!(matches!(error, BmcError::Unsupported { .. }), "{profile}: {error}");
        for error in [
            bmc.secure_boot().await.unwrap_err(),
            bmc.set_secure_boot(true).await.unwrap_err(),
        ] {
            assert!(matches!(error, BmcError::Unsupported { .. }), "{profile}: {error}");
        }
        ilo.running.stop().await;
    }
}

#[tokio::test]
async fn power_is_switched_by_absolute_commands() {
    for profile in ILOS {
        let ilo = Ilo::start(profile, |_| {}).await;
        let (bmc, mut seen) = (ilo.client(), 0);
        assert_eq!(bmc.power_state().await.unwrap(), PowerState::Off);
        for (action, now, want) in [
            (PowerAction::Off, PowerState::Off, None),
            (
                PowerAction::On,
                PowerState::On,
                Some("<SET_HOST_POWER HOST_POWER=\"Yes\"/>"),
            ),
            (PowerAction::On, PowerState::On, None),
            (PowerAction::ForceRestart, PowerState::On, Some("<RESET_SERVER/>")),
            (PowerAction::Off, PowerState::Off, Some("<HOLD_PWR_BTN TOGGLE=\"NO\"/>")),
        ] {
            bmc.set_power(action).await.unwrap();
            until_power(&bmc, now).await;
            let want: Vec<&str> = want.into_iter().collect();
            assert_eq!(ilo.changes(&mut seen), want, "{profile}: {action:?}");
        }
        ilo.running.stop().await;
    }
}

/// Answers travel in chunks of every size, cut within tags, and each is read the same.
#[tokio::test]
async fn chunks_that_split_tags_are_put_together() {
    let ilo = Ilo::start("ilo4", |_| {}).await;
    let bmc = ilo.client();
    let first = bmc.raw_ribcl("GET_HOST_DATA", &[]).await.unwrap();
    for _ in 0..20 {
        assert_eq!(bmc.raw_ribcl("GET_HOST_DATA", &[]).await.unwrap(), first);
    }
    ilo.running.stop().await;
}

#[tokio::test]
async fn every_status_is_a_typed_error_and_successes_after_it_do_not_hide_it() {
    for profile in ["ilo2", "ilo4"] {
        let ilo = Ilo::start(profile, |_| {}).await;
        let bmc = ilo.client();
        for (code, want) in [
            ("0x0001", "unsupported"),
            ("0x000A", "login"),
            ("0x0023", "login"),
            ("0x002E", "license"),
            ("0x0035", "refused"),
            ("0x003C", "license"),
            ("0x005F", "login"),
            ("0x006D", "refused"),
            ("0x0088", "busy"),
        ] {
            let rule = format!("[[rule]]\npath = \"/ribcl/GET_VM_STATUS\"\nstatus = 200\nmessage = \"{code}\"\n");
            ilo.running.faults().clear();
            ilo.running.faults().add(&rule).unwrap();
            let got = match bmc.media(Device::Cdrom).await.unwrap_err() {
                BmcError::Unsupported { .. } => "unsupported",
                BmcError::Login { .. } => "login",
                BmcError::License { .. } => "license",
                BmcError::Refused { .. } => "refused",
                BmcError::Busy { .. } => "busy",
                other => panic!("{profile} {code}: {other}"),
            };
            assert_eq!(got, want, "{profile} {code}");
            let trace = ilo.running.trace(0).unwrap();
            let told = trace.last().unwrap().message.clone().unwrap();
            assert!(told.starts_with(code), "{told}");
        }
        ilo.running.stop().await;
    }
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named() {
    let unlicensed = Ilo::start("ilo4", |config| config.unlicensed = true).await;
    let error = unlicensed
        .client()
        .insert_media(Device::Cdrom, &image(ISO, false))
        .await
        .unwrap_err();
    assert!(matches!(error, BmcError::License { .. }), "{error}");
    let identity = unlicensed.client().identity().await.unwrap();
    assert_eq!(identity.bmc_license.as_deref(), Some("iLO 4 Standard"));
    unlicensed.running.stop().await;

    for profile in ILOS {
        let ilo = Ilo::start(profile, |_| {}).await;
        let config = BmcConfig {
            password: Secret::new("wrong"),
            ..ilo.config()
        };
        let error = RibclBmc::new(config, ilo.form)
            .unwrap()
            .power_state()
            .await
            .unwrap_err();
        assert!(matches!(error, BmcError::Login { .. }), "{profile}: {error}");
        let trace = ilo.running.trace(0).unwrap();
        assert_eq!(
            trace.last().unwrap().message.as_deref(),
            Some("0x005F Login failed."),
            "{profile}"
        );
        ilo.running.stop().await;
    }
}

#[tokio::test]
async fn a_boot_device_during_post_is_told_as_what_passes() {
    let ilo = Ilo::start("ilo4", |config| config.timing.post = Duration::from_secs(600)).await;
    let bmc = ilo.client();
    bmc.set_power(PowerAction::On).await.unwrap();
    until_power(&bmc, PowerState::On).await;
    let error = bmc.set_boot_device(BootDevice::Cdrom, false).await.unwrap_err();
    assert!(matches!(error, BmcError::Busy { .. }), "{error}");
    ilo.running.stop().await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again_and_a_change_read_back() {
    for profile in ["ilo2", "ilo4"] {
        let ilo = Ilo::start(profile, |_| {}).await;
        let rules = "[[rule]]\npath = \"/ribcl/GET_HOST_POWER_STATUS\"\ntimes = 2\ntruncate = 300\n\
                     [[rule]]\npath = \"/ribcl/SET_HOST_POWER\"\ntimes = 1\ndrop = true\n";
        ilo.running.faults().add(rules).unwrap();
        let bmc = ilo.client();
        bmc.set_power(PowerAction::On).await.unwrap();
        until_power(&bmc, PowerState::On).await;
        let commands = ilo.commands();
        let set = commands
            .iter()
            .filter(|command| command.starts_with("<SET_HOST_POWER"))
            .count();
        assert_eq!(&commands[..3], ["<GET_HOST_POWER_STATUS/>"; 3], "{profile}");
        assert_eq!(set, 2, "{profile}: {commands:?}");
        ilo.running.stop().await;
    }
}

#[tokio::test]
async fn modern_tls_alone_does_not_reach_what_is_older() {
    for profile in ["ilo2", "ilo3"] {
        let ilo = Ilo::start(profile, |_| {}).await;
        let config = BmcConfig {
            protocols: Protocols::Modern,
            ..ilo.config()
        };
        let error = RibclBmc::new(config, Form::Http)
            .unwrap()
            .power_state()
            .await
            .unwrap_err();
        assert!(matches!(error, BmcError::Unreachable { .. }), "{profile}: {error}");
        assert!(ilo.running.trace(0).unwrap().is_empty());
        ilo.running.stop().await;
    }
}

#[tokio::test]
async fn a_probe_finds_what_each_of_them_speaks() {
    for (profile, transport) in [
        ("ilo2", Transport::RibclRaw),
        ("ilo3", Transport::Ribcl),
        ("ilo4-ris", Transport::Ris),
        ("ilo4", Transport::Redfish),
        ("ilo5", Transport::Redfish),
    ] {
        let ilo = Ilo::start(profile, |_| {}).await;
        let found = probe(&ilo.config()).await.unwrap();
        assert_eq!(found.transport, transport, "{profile}: {:?}", found.findings);
        assert!(
            found.capabilities.cdrom.is_ok() && found.capabilities.floppy.is_ok(),
            "{profile}"
        );
        assert!(found.capabilities.boot_once, "{profile}");
        assert_eq!(ilo.running.sessions(0).unwrap(), 0, "{profile}: none is left");
        ilo.running.stop().await;
    }
}
