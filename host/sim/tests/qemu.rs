//! A real QEMU behind the BMC. What it boots is a few bytes of real-mode code that speak on the serial port, so a boot
//! takes a second even when emulated.

#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as its body may")]

mod support;

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use sim::{BootKind, BootMode, BootOutcome, BootTarget, Device, PowerState, QemuConfig};
use support::*;

/// QEMU as the laboratory's environment file or `PATH` has it.
fn qemu() -> QemuConfig {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join(".lab/lab.env")).unwrap_or_default();
    let value = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    let Some(binary) = value("QEMU") else {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .map(|folder| folder.join("qemu-system-x86_64"))
            .find(|path| path.exists());
        let binary = found.expect("the tool `qemu-system-x86_64` is needed: run tests/lab/setup.sh");
        return QemuConfig::new(binary, Vec::new());
    };
    let folders = value("QEMU_DATA").unwrap_or_default();
    let folders = folders.split(':').filter(|folder| !folder.is_empty());
    QemuConfig::new(binary, folders.map(PathBuf::from).collect())
}

/// A boot sector that writes `text` to the first serial port and then does `last`.
fn boot_code(text: &str, last: &[u8]) -> Vec<u8> {
    let mut code = vec![0xba, 0xf8, 0x03]; // mov dx, 0x3f8
    for byte in text.bytes() {
        code.extend([0xb0, byte, 0xee]); // mov al, byte; out dx, al
    }
    code.extend(last);
    code.extend([0xf4, 0xeb, 0xfd]); // hlt; jmp back to it
    code.resize(510, 0);
    code.extend([0x55, 0xaa]);
    code
}

/// mov dx, 0xcf9; mov al, 6; out dx, al: resets the machine.
const RESET_MACHINE: &[u8] = &[0xba, 0xf9, 0x0c, 0xb0, 0x06, 0xee];
/// mov dx, 0x604; mov ax, 0x2000; out dx, ax: ACPI soft-off.
const POWER_OFF: &[u8] = &[0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef];

/// A CD whose boot image is that code (El Torito, no emulation).
fn boot_cd(code: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 64 * 2048];
    let sector = |index: usize| index * 2048;
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(sector(16), b"\x01CD001\x01");
    put(sector(17), b"\x00CD001\x01EL TORITO SPECIFICATION");
    put(sector(17) + 71, &20_u32.to_le_bytes());
    put(sector(18), b"\xffCD001\x01");
    put(sector(20), &[1]);
    put(sector(20) + 30, &[0x55, 0xaa]);
    let sum = 0_u16.wrapping_sub(0xaa55_u16.wrapping_add(1));
    put(sector(20) + 28, &sum.to_le_bytes());
    put(sector(20) + 32, &[0x88, 0, 0, 0, 0, 0, 1, 0]);
    put(sector(20) + 40, &21_u32.to_le_bytes());
    put(sector(21), code);
    image
}

async fn machine() -> Lab {
    lab(|config| {
        config.boot = vec![BootKind::Qemu(qemu())];
        config.boot_mode = Some(BootMode::LegacyBios);
    })
    .await
}

fn serial(lab: &Lab) -> String {
    let path = &lab.running.server(0).unwrap().serial_log;
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

async fn says(lab: &Lab, text: &str) {
    until(|| {
        let boot = lab.running.last_boot(0).unwrap();
        let failed = matches!(
            boot,
            Some(sim::LastBoot {
                outcome: BootOutcome::Failed { .. },
                ..
            })
        );
        assert!(!failed, "{boot:?} {}", qemu_log(lab));
        serial(lab).contains(text).then_some(())
    })
    .await;
}

fn qemu_log(lab: &Lab) -> String {
    let path = lab.folder.path().join("server-0/qemu.log");
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Puts a boot sector on the disk; a disk of one sector is none to the firmware.
fn write_disk(lab: &Lab, mut code: Vec<u8>) {
    code.resize(1 << 20, 0);
    std::fs::write(&lab.running.server(0).unwrap().disk, code).unwrap();
}

async fn is_off(lab: &Lab) {
    until(|| (lab.running.power(0).unwrap() == PowerState::Off).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_boots_a_cd_read_by_ranges_then_its_disk_then_switches_off() {
    let lab = machine().await;
    let images = Http::images(&[
        ("/c.iso", boot_cd(&boot_code("<cd>", RESET_MACHINE))),
        ("/p.img", floppy("IR-VFD-DEV", "a=b")),
    ])
    .await;
    write_disk(&lab, boot_code("<disk>", POWER_OFF));
    lab.insert(FLOPPY, &images.url("/p.img")).await;
    lab.insert(CD, &images.url("/c.iso")).await;
    let mark = json!({"Oem": {"Hpe": {"BootOnNextServerReset": true}}});
    ok(lab.patch(CD, mark).await);
    lab.boot_once("Cd").await;
    lab.reset("On").await;
    // The CD resets the machine, which ejects it: it was there for one boot. The disk switches the machine off.
    says(&lab, "<disk>").await;
    is_off(&lab).await;
    assert_eq!(serial(&lab), "<cd><disk>");
    let boot = lab.running.last_boot(0).unwrap().unwrap();
    assert_eq!(
        (boot.number, boot.device, boot.outcome),
        (2, Some(BootTarget::Hdd), BootOutcome::Started)
    );

    let cd = lab.running.media_reads(0, Device::Cd).unwrap().remove(0);
    assert!(cd.bytes > 0 && cd.errors == 0, "{cd:?}");
    for request in images.seen() {
        assert!(
            request.head.contains("\r\nHost: 127.0.0.1\r\nRange: bytes=0000"),
            "{}",
            request.head
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bmc_resets_ejects_and_cuts_the_power_of_a_running_guest() {
    let lab = machine().await;
    let images = Http::images(&[("/c.iso", boot_cd(&boot_code("<cd>", &[])))]).await;
    write_disk(&lab, boot_code("<disk>", &[]));
    lab.insert(CD, &images.url("/c.iso")).await;
    lab.boot_once("Cd").await;
    lab.reset("On").await;
    says(&lab, "<cd>").await;
    lab.eject(CD).await;
    lab.reset("ForceRestart").await;
    says(&lab, "<cd><disk>").await;
    // An image inserted while the guest runs is read at the next reset.
    lab.insert(CD, &images.url("/c.iso")).await;
    lab.boot_once("Cd").await;
    lab.reset("ForceRestart").await;
    says(&lab, "<cd><disk><cd>").await;
    lab.reset("ForceOff").await;
    is_off(&lab).await;
    lab.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_machine_waits_before_its_firmware() {
    let lab = machine().await;
    write_disk(&lab, boot_code("<disk>", &[]));
    lab.running.hold_agent(0, true).unwrap();
    lab.reset("On").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(lab.running.last_boot(0).unwrap().is_none());
    lab.running.hold_agent(0, false).unwrap();
    says(&lab, "<disk>").await;
}

#[tokio::test]
async fn a_missing_qemu_is_a_failed_boot_and_not_a_hang() {
    let lab = lab(|config| {
        let qemu = QemuConfig::new("/nonexistent/qemu", Vec::new());
        config.boot = vec![BootKind::Qemu(qemu)];
    })
    .await;
    lab.reset("On").await;
    let boot = lab.boot_number(1).await;
    assert!(matches!(boot.outcome, BootOutcome::Failed { .. }), "{boot:?}");
    is_off(&lab).await;
    let system = lab.request(Method::GET, SYSTEM).send().await.unwrap();
    assert_eq!(system.status(), 200);
}
