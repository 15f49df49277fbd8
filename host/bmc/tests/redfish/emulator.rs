//! sushy-emulator, a Redfish BMC that nobody here wrote: its media live under the system, it has no sessions, and it fetches what
//! is inserted.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::peer::{Answer, Peer, quick};
use bmc::probe::{Transport, probe};
use bmc::{Bmc, BmcConfig, BmcError, Deadlines, InsertMedia, ProbedBmc};
use model::{BmcAddress, BootDevice, BootMode, Device, PowerAction, PowerState, Secret};

/// How long it may take to come up: a Python program on a busy machine.
const START: Duration = Duration::from_secs(120);
const UUID: &str = "da69abcc-dae0-4913-9a7b-d344043097c0";

struct Emulator {
    child: Child,
    address: BmcAddress,
    _folder: tempfile::TempDir,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that the set-up installs.
fn lab(key: &str) -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.lab/lab.env");
    let file = std::env::var_os("FARRIER_LAB").map_or(default, PathBuf::from);
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("the lab is not set up: run `make setup` ({}: {error})", file.display()));
    let found = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let path = PathBuf::from(found.unwrap_or_else(|| panic!("the lab names no {key}: run `make setup`")));
    assert!(path.exists(), "{} is gone: run `make setup`", path.display());
    path
}

impl Emulator {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("emulator.py");
        let state = folder.path().display();
        let text = format!(
            "SUSHY_EMULATOR_FAKE_DRIVER = True\nSUSHY_EMULATOR_STATE_DIR = '{state}'\n\
             SUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': '{UUID}', 'name': 'fake', 'power_state': 'Off', 'fake': True, 'nics': [{{'mac': '00:5c:52:31:3a:9c', 'ip': '172.22.0.100'}}]}}]\n"
        );
        std::fs::write(&config, text).unwrap();
        // A port that was free a moment ago; another one if somebody else was quicker.
        for _ in 0..5 {
            let port = {
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                listener.local_addr().unwrap().port()
            };
            let log = std::fs::File::create(folder.path().join("log")).unwrap();
            let mut child = Command::new(lab("SUSHY_EMULATOR"))
                .args(["--fake", "-i", "127.0.0.1", "-p", &port.to_string(), "--config"])
                .arg(&config)
                .env("TMPDIR", folder.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap();
            let start = Instant::now();
            loop {
                if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                    return Self {
                        child,
                        address: BmcAddress(format!("http://127.0.0.1:{port}")),
                        _folder: folder,
                    };
                }
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                assert!(start.elapsed() < START, "sushy-emulator does not come up");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        panic!("sushy-emulator found no port in five tries");
    }

    fn config(&self) -> BmcConfig {
        BmcConfig {
            deadlines: Deadlines {
                request: Duration::from_secs(60),
                verb: Duration::from_secs(120),
                settle: Duration::from_secs(30),
                ..quick()
            },
            ..BmcConfig::new(self.address.clone(), "admin", Secret::new("password"))
        }
    }
}

#[tokio::test]
async fn a_bmc_that_nobody_here_wrote_is_driven_through_insert_boot_and_eject() {
    let emulator = Emulator::start().await;
    let images = Peer::start().await;
    images.on("GET /v/boot.iso", [Answer::Bytes(200, vec![7; 64 << 10])]);
    let url = format!("{}/v/boot.iso", images.address);
    let found = probe(&emulator.config()).await.unwrap();
    assert_eq!(found.transport, Transport::Redfish);
    assert_eq!(found.identity.vendor.as_deref(), Some("Sushy Emulator"));
    assert_eq!(
        found.identity.macs.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["00:5c:52:31:3a:9c"]
    );

    let bmc = ProbedBmc::new(emulator.config(), None).unwrap();
    let image = InsertMedia {
        url: Secret::new(&url),
        boot_once: false,
        server_certificate: None,
    };
    for _ in 0..2 {
        bmc.insert_media(Device::Cdrom, &image).await.unwrap();
        let media = bmc.media(Device::Cdrom).await.unwrap();
        assert!(media.inserted, "{media:?}");
    }
    assert_eq!(
        images.lines(),
        ["GET /v/boot.iso", "GET /v/boot.iso"],
        "fetched anew each time"
    );

    bmc.set_boot_device(BootDevice::Cdrom, false).await.unwrap();
    assert_eq!(bmc.boot_mode().await.unwrap(), BootMode::Uefi);
    bmc.set_power(PowerAction::On).await.unwrap();
    let start = Instant::now();
    while bmc.power_state().await.unwrap() != PowerState::On {
        assert!(start.elapsed() < START, "never on");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bmc.set_power(PowerAction::On).await.unwrap();
    bmc.set_power(PowerAction::Off).await.unwrap();
    let start = Instant::now();
    while bmc.power_state().await.unwrap() != PowerState::Off {
        assert!(start.elapsed() < START, "never off");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bmc.set_boot_device(BootDevice::Disk, true).await.unwrap();
    assert_eq!(
        bmc.boot_settings().await.unwrap().order.first().map(String::as_str),
        Some("Hdd")
    );

    for _ in 0..2 {
        bmc.eject_media(Device::Cdrom).await.unwrap();
        assert!(!bmc.media(Device::Cdrom).await.unwrap().inserted);
    }
    // An image that it cannot fetch is no success.
    let missing = InsertMedia {
        url: Secret::new(format!("{}/v/t0k3n.iso", images.address)),
        ..image
    };
    let error = bmc.insert_media(Device::Cdrom, &missing).await.unwrap_err();
    assert!(
        matches!(error, BmcError::Refused { .. } | BmcError::Busy { .. }),
        "{error}"
    );
    assert!(!error.to_string().contains("t0k3n"), "{error}");
    bmc.close().await;
}
