//! Every verb against every simulated BMC that speaks Redfish. What each verb came to, what it changed, in which order and with
//! which bodies, and what it looked at, stands in a file per profile; `UPDATE_EXPECT=1` writes them anew.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use bmc::redfish::RedfishBmc;
use bmc::{Bmc, BmcConfig, BmcError, Ca, Deadlines, InsertMedia, Tls};
use model::{BmcAddress, BootDevice, BootMode, Device, PowerAction, PowerState, Secret};
use sim::{Exchange, Profile, Running, SimConfig};
use tempfile::TempDir;

use crate::peer::quick;

/// One BMC, its client, and what has been told so far.
struct Talk {
    running: Running,
    bmc: RedfishBmc,
    seen: usize,
    report: String,
    _folder: TempDir,
}

impl Talk {
    async fn start(profile: &'static Profile) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let folder = TempDir::new().unwrap();
        let mut config = SimConfig::new(folder.path(), "admin", "password");
        config.profile = profile;
        config.disk_bytes = 1 << 20;
        let running = sim::start(config).await.unwrap();
        let server = running.server(0).unwrap();
        let bmc = RedfishBmc::new(BmcConfig {
            tls: Tls::Verify {
                ca: Some(Ca::File(running.ca_pem().to_owned())),
            },
            deadlines: Deadlines {
                settle: Duration::from_secs(20),
                ..quick()
            },
            ..BmcConfig::new(BmcAddress(server.url.clone()), "admin", Secret::new("password"))
        })
        .unwrap();
        Self {
            running,
            bmc,
            seen: 0,
            report: String::new(),
            _folder: folder,
        }
    }

    /// Writes down what a verb came to and what was asked for it.
    fn told<T: std::fmt::Debug>(&mut self, verb: &str, result: Result<T, BmcError>) {
        let outcome = match result {
            Ok(value) => format!("{value:?}"),
            Err(error) => format!("{error:?}").split(' ').next().unwrap_or_default().to_owned(),
        };
        let outcome = outcome.replace(&self.running.server(0).unwrap().url, "URL");
        writeln!(self.report, "{verb}: {outcome}").unwrap();
        let trace = self.running.trace(0).unwrap();
        let new = &trace[self.seen..];
        let mut looks: Vec<&str> = Vec::new();
        for one in new {
            if one.method == "GET" {
                let path = one.path.strip_prefix("/redfish/v1").unwrap_or(&one.path);
                if !looks.contains(&path) {
                    looks.push(path);
                }
            } else {
                writeln!(self.report, "  {}", change(one)).unwrap();
            }
        }
        if !looks.is_empty() {
            writeln!(self.report, "  looked at {}", looks.join(" ")).unwrap();
        }
        self.seen = trace.len();
    }

    /// Writes down what the server itself knows.
    fn truth(&mut self) {
        let held = |device| {
            self.running
                .inserted(0, device)
                .unwrap()
                .unwrap_or_else(|| "nothing".into())
        };
        let (cd, floppy) = (held(sim::Device::Cd), held(sim::Device::Floppy));
        writeln!(self.report, "  in truth: CD {cd}, floppy {floppy}").unwrap();
    }

    async fn insert(&mut self, device: Device, name: &str, boot_once: bool) {
        let image = InsertMedia {
            url: Secret::new(format!("http://127.0.0.1:1/v/{name}")),
            boot_once,
            server_certificate: None,
        };
        let result = self.bmc.insert_media(device, &image).await;
        self.told(&format!("insert {device:?} {name}"), result);
        let media = self.bmc.media(device).await;
        self.told(
            "media",
            media.map(|media| (media.inserted, media.write_protected, media.url)),
        );
        self.truth();
    }

    async fn eject(&mut self, device: Device) {
        let result = self.bmc.eject_media(device).await;
        self.told(&format!("eject {device:?}"), result);
        self.truth();
    }

    async fn power(&mut self, action: PowerAction, wanted: PowerState) {
        let boots = self.boots();
        let result = self.bmc.set_power(action).await;
        self.told(&format!("power {action:?}"), result);
        for _ in 0..2000 {
            let state = self.bmc.power_state().await.unwrap();
            let booted = !matches!(action, PowerAction::ForceRestart) || self.boots() > boots;
            if state == wanted && booted {
                self.seen = self.running.trace(0).unwrap().len();
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{action:?} never led to {wanted:?}:\n{}", self.report);
    }

    fn boots(&self) -> u64 {
        self.running.last_boot(0).unwrap().map_or(0, |boot| boot.number)
    }
}

fn change(one: &Exchange) -> String {
    let body = one.body.as_ref().map(|body| format!(" {body}")).unwrap_or_default();
    let status = one.status.unwrap_or_default();
    let message = one.message.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
    let path = one.path.strip_prefix("/redfish/v1").unwrap_or(&one.path);
    format!("{} {path}{body} -> {status}{message}", one.method)
}

async fn every_verb(profile: &str) -> String {
    let mut talk = Talk::start(Profile::by_name(profile).unwrap()).await;
    let identity = talk.bmc.identity().await.map(|identity| {
        let macs = identity.macs.len();
        (
            identity.vendor,
            identity.model,
            identity.bmc_generation,
            identity.bmc_license,
            macs,
        )
    });
    talk.told("identity", identity);
    let power = talk.bmc.power_state().await;
    talk.told("power state", power);

    talk.eject(Device::Cdrom).await;
    talk.insert(Device::Cdrom, "a.iso", false).await;
    talk.insert(Device::Cdrom, "b.iso", false).await;
    talk.insert(Device::Floppy, "f.img", false).await;
    talk.insert(Device::Cdrom, "once.iso", true).await;
    talk.eject(Device::Cdrom).await;
    talk.eject(Device::Floppy).await;

    for device in [
        BootDevice::Cdrom,
        BootDevice::Floppy,
        BootDevice::Disk,
        BootDevice::Network,
        BootDevice::UefiHttp,
    ] {
        for persistent in [false, true] {
            let result = talk.bmc.set_boot_device(device, persistent).await;
            let how = if persistent { "from now on" } else { "once" };
            talk.told(&format!("boot {device:?} {how}"), result);
        }
        let settings = talk.bmc.boot_settings().await;
        talk.told("boot settings", settings.map(|of| (of.once, of.order)));
    }
    let url = Secret::new("http://127.0.0.1:1/boot.efi");
    let result = talk.bmc.set_http_boot_url(&url).await;
    talk.told("HTTP boot URL", result);
    for mode in [BootMode::Bios, BootMode::Bios, BootMode::Uefi] {
        let result = talk.bmc.set_boot_mode(mode).await;
        talk.told(&format!("set boot mode {mode:?}"), result);
        let now = talk.bmc.boot_mode().await;
        talk.told("boot mode", now);
    }
    for enabled in [true, true, false] {
        let result = talk.bmc.set_secure_boot(enabled).await;
        talk.told(&format!("set secure boot {enabled}"), result);
        let now = talk.bmc.secure_boot().await;
        talk.told("secure boot", now);
    }
    for (action, wanted) in [
        (PowerAction::Off, PowerState::Off),
        (PowerAction::On, PowerState::On),
        (PowerAction::On, PowerState::On),
        (PowerAction::ForceRestart, PowerState::On),
        (PowerAction::SoftRestart, PowerState::On),
        (PowerAction::SoftOff, PowerState::On),
        (PowerAction::Off, PowerState::Off),
    ] {
        talk.power(action, wanted).await;
    }
    let raw = talk.bmc.raw_redfish("GET", "/redfish/v1/Systems", None).await;
    talk.told("raw Redfish", raw.map(|reply| reply.status));
    let raw = talk.bmc.raw_ribcl("GET_FW_VERSION", &[]).await;
    talk.told("raw RIBCL", raw);
    talk.bmc.close().await;
    talk.told("close", Ok(()));
    assert_eq!(talk.running.sessions(0).unwrap(), 0, "{profile} keeps a session");
    talk.running.stop().await;
    talk.report
}

async fn check(profile: &str) {
    let told = every_verb(profile).await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/redfish/profiles/{profile}.txt"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &told).unwrap();
    }
    let wanted = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let differs = told.lines().zip(wanted.lines()).find(|(told, wanted)| told != wanted);
    assert!(
        told == wanted,
        "{profile} differs first at {differs:?}; all of it:\n{told}"
    );
}

macro_rules! matrix {
    ($($test:ident $profile:literal)*) => {$(
        #[tokio::test]
        async fn $test() {
            check($profile).await;
        }
    )*};
}

matrix! {
    every_verb_against_an_ilo4 "ilo4"
    every_verb_against_an_ilo5 "ilo5"
    every_verb_against_an_ilo6 "ilo6"
    every_verb_against_an_ilo7 "ilo7"
    every_verb_against_a_plain_service "generic"
    every_verb_against_a_dell "dell"
    every_verb_against_a_supermicro "supermicro"
    every_verb_against_a_lenovo "lenovo"
    every_verb_against_an_ami "ami"
}

/// Firmwares that differ from the one of the profile in a way that a client must master.
const VARIANTS: &[(&str, &str)] = &[
    (
        "an iLO 5 before 1.40 wants slashes",
        "like = 'ilo5'\n[redfish]\nslash = 'redirect'",
    ),
    (
        "an iLO 4 up to 2.30 takes media by PATCH alone",
        "like = 'ilo4'\n[redfish.insert]\nways = ['patch']",
    ),
    (
        "an iDRAC 9 from 6.00 on boots the virtual CD as Cd, and its media are at both places",
        "like = 'dell'\nfirmware = '6.10.30.00'\n[boot-targets]\nCd = 'cd'\n[redfish]\nmedia-under = ['managers', 'systems']",
    ),
    (
        "an iDRAC 10 has media under the system and its override at the settings",
        "like = 'dell'\nfirmware = '1.20.25.00'\n[boot-targets]\nCd = 'cd'\n[redfish]\nmedia-under = ['systems']\n[redfish.boot]\nplace = 'settings-only'",
    ),
    (
        "a Supermicro ARS-111GL-NHR calls it Cd",
        "like = 'supermicro'\nmodel = 'ARS-111GL-NHR-LCC'\n[boot-targets]\nCd = 'cd'\nUsbCd = 'absent'",
    ),
    (
        "tags that never match unless stripped",
        "like = 'generic'\n[redfish]\netag = 'weak-by-the-book'\nif-match = 'required'",
    ),
    (
        "tags that are empty",
        "like = 'generic'\n[redfish]\netag = 'empty'\nif-match = 'required'",
    ),
    (
        "no tags where they are wanted",
        "like = 'generic'\n[redfish]\netag = 'missing'\nif-match = 'required'",
    ),
    (
        "a complaint about the tag after the deed",
        "like = 'generic'\n[redfish]\nif-match = 'required-late'",
    ),
    (
        "only the image's name is shown",
        "like = 'generic'\n[redfish.insert]\nshows-name-only = true",
    ),
    (
        "a slot that lingers and refuses meanwhile",
        "like = 'generic'\n[redfish.insert]\nrefuses-occupied = true\nlingers-ms = 200",
    ),
];

#[tokio::test]
async fn every_variant_takes_a_cd_boots_it_once_and_gives_it_back() {
    for (what, text) in VARIANTS {
        let talk = Talk::start(Profile::parse(text).unwrap()).await;
        let held = || talk.running.inserted(0, sim::Device::Cd).unwrap();
        for name in ["a.iso", "b.iso"] {
            let url = format!("http://127.0.0.1:1/{name}");
            let image = InsertMedia {
                url: Secret::new(url.clone()),
                boot_once: false,
                server_certificate: None,
            };
            let inserted = talk.bmc.insert_media(Device::Cdrom, &image).await;
            inserted.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(held().as_deref(), Some(url.as_str()), "{what}");
        }
        let chosen = talk.bmc.set_boot_device(BootDevice::Cdrom, false).await;
        chosen.unwrap_or_else(|error| panic!("{what}: {error}"));
        let settings = talk.bmc.boot_settings().await.unwrap();
        assert!(settings.once.is_some(), "{what}: {settings:?}");
        talk.bmc.set_power(PowerAction::On).await.unwrap();
        let mut boot = None;
        for _ in 0..2000 {
            boot = talk.running.last_boot(0).unwrap();
            if boot.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let Some(sim::BootOutcome::Failed { reason }) = boot.as_ref().map(|boot| boot.outcome.clone()) else {
            panic!("{what}: {boot:?}")
        };
        // Nobody serves the image; that it was tried first is what counts.
        assert!(reason.starts_with("cd: "), "{what}: {reason}");
        let ejected = talk.bmc.eject_media(Device::Cdrom).await;
        ejected.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(held(), None, "{what}");
        talk.bmc.close().await;
        assert_eq!(talk.running.sessions(0).unwrap(), 0, "{what}");
        talk.running.stop().await;
    }
}
