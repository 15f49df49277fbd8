//! One ISO, two firmwares: what the image commands made boots in a QEMU that only knows files.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::lab::{self, Lab, Machines};
use crate::tool::{Folder, esp, iso_line, make};

/// No boot may take longer, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
const MAC: &str = "52:54:00:fa:11:e1";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Firmware {
    Bios,
    Uefi,
    /// UEFI that starts only what is signed.
    SecureBoot,
}

/// What the machine takes a boot ISO for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Medium {
    Cd,
    UsbDisk,
    IdeDisk,
}

/// A QEMU process that ends with the test.
pub(crate) struct Machine {
    child: Child,
    serial: std::path::PathBuf,
}

impl Machine {
    pub(crate) fn boot(
        lab: &Lab,
        folder: &Folder,
        firmware: Firmware,
        medium: Medium,
        iso: &str,
        floppy: &str,
    ) -> Self {
        let serial = folder.path().join("serial");
        let mut command = Command::new(lab.file("QEMU"));
        for dir in lab.qemu_dirs() {
            command.arg("-L").arg(dir);
        }
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(["-accel", "tcg", "-m", "512"]);
        command.arg("-serial").arg(format!("file:{}", serial.display()));
        let pflash = match firmware {
            Firmware::Bios => None,
            Firmware::Uefi => Some(("OVMF_CODE", "OVMF_VARS")),
            Firmware::SecureBoot => Some(("OVMF_CODE_SECURE", "OVMF_VARS_SECURE")),
        };
        if let Some((code, template)) = pflash {
            let variables = folder.at("variables.fd");
            std::fs::copy(lab.file(template), &variables).unwrap();
            let code = lab.text(code);
            command.args(["-drive", &format!("if=pflash,format=raw,readonly=on,file={code}")]);
            command.args(["-drive", &format!("if=pflash,format=raw,file={variables}")]);
        }
        let cd_bus = if firmware == Firmware::SecureBoot {
            // Only code in system management mode may change what is trusted.
            command.args(["-global", "driver=cfi.pflash01,property=secure,value=on"]);
            command.args(["-machine", "q35,smm=on"]);
            "ide.0"
        } else {
            command.args(["-machine", "pc"]);
            "ide.1"
        };
        let file = |node: &str, path: &str| {
            // QEMU's IDE disks are never write-protected.
            let read_only = if node == "cd" && medium == Medium::IdeDisk {
                "off"
            } else {
                "on"
            };
            format!("driver=raw,node-name={node},read-only={read_only},file.driver=file,file.filename={path}")
        };
        command.args(["-blockdev", &file("cd", iso)]);
        let device = match medium {
            Medium::Cd => format!("ide-cd,drive=cd,bus={cd_bus},bootindex=1"),
            Medium::IdeDisk => format!("ide-hd,drive=cd,bus={cd_bus},bootindex=1"),
            Medium::UsbDisk => {
                command.args(["-device", "qemu-xhci,id=sticks"]);
                "usb-storage,drive=cd,bus=sticks.0,removable=on,bootindex=1".to_owned()
            }
        };
        command.args(["-device", &device]);
        command.args(["-blockdev", &file("floppy", floppy)]);
        match Machines::asked() {
            Machines::Small | Machines::SecureBoot => command.args(["-device", "virtio-blk-pci,drive=floppy"]),
            Machines::Usb => command.args([
                "-device",
                "qemu-xhci",
                "-device",
                "usb-storage,drive=floppy,removable=on",
            ]),
        };
        command.args(["-netdev", "user,id=net", "-device"]);
        command.arg(format!("virtio-net-pci,netdev=net,romfile=,mac={MAC}"));
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        Self { child, serial }
    }

    pub(crate) fn console(&self) -> String {
        console(&self.serial)
    }

    /// Waits until the ramdisk has said each of these.
    pub(crate) fn says(&mut self, lines: &[&str]) {
        let began = Instant::now();
        loop {
            let console = self.console();
            if lines.iter().all(|line| console.contains(line)) {
                return;
            }
            assert!(!console.contains("cannot go on"), "{console}");
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "QEMU ended: {ended:?}\n{console}");
            assert!(
                began.elapsed() < PATIENCE,
                "{lines:?} is not on the console:\n{console}"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn console(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// An address that a guest can call, and the first line of each request that comes. It knows no node.
pub(crate) fn conductor() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://10.0.2.2:{}", listener.local_addr().unwrap().port());
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
            let mut head = [0; 4096];
            let len = stream.read(&mut head).unwrap_or(0);
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let head = String::from_utf8_lossy(&head[..len]).into_owned();
            let line = head.lines().next().unwrap_or_default().to_owned();
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

/// Boots a boot ISO with this ESP, and a floppy.
fn boots(firmware: Firmware, lab: &Lab, folder: &Folder, esp: &Path) {
    let (iso, floppy) = (folder.at("boot.iso"), folder.at("floppy.img"));
    let (kernel, ramdisk) = Machines::asked().deploy_pair();
    make(&format!(
        "{} --firmware both -o {iso}",
        iso_line(lab, esp, kernel, ramdisk)
    ));
    let (url, requests) = conductor();
    make(&format!("image floppy --param ipa-api-url={url} -o {floppy}"));
    let mut machine = Machine::boot(lab, folder, firmware, Medium::Cd, &iso, &floppy);
    let name = if firmware == Firmware::Bios { "bios" } else { "uefi" };
    machine.says(&[
        &format!(", firmware {name} ["),
        "FARRIER-RAMDISK read the parameters volume /dev/",
    ]);
    // The address that it calls stands on the floppy alone.
    let request = requests.recv_timeout(PATIENCE);
    let console = machine.console();
    let request = request.unwrap_or_else(|_| panic!("nobody called {url}:\n{console}"));
    assert!(
        request.starts_with(&format!("GET /v1/lookup?addresses={MAC} ")),
        "{request}\n{console}"
    );
}

/// What is not signed does not start, so what does start is.
fn signed_boots(lab: &Lab, folder: &Folder, unsigned: &Path) {
    let (iso, floppy) = (folder.at("unsigned.iso"), folder.at("empty.img"));
    let (kernel, ramdisk) = Machines::asked().deploy_pair();
    make(&format!("{} -o {iso}", iso_line(lab, unsigned, kernel, ramdisk)));
    make(&format!("image floppy -o {floppy}"));
    Machine::boot(lab, folder, Firmware::SecureBoot, Medium::Cd, &iso, &floppy).says(&["Access Denied"]);

    let signed = folder.at("signed.img");
    let (shim, grub) = (lab.text("SHIM_EFI_SIGNED"), lab.text("GRUB_EFI_SIGNED"));
    make(&format!("image esp --efi {shim} {grub} -o {signed}"));
    boots(Firmware::SecureBoot, lab, folder, Path::new(&signed));
}

#[tokio::test]
async fn an_iso_and_a_floppy_of_the_command_line_boot_a_bios_machine() {
    let _one = lab::machine().await;
    let boot = || {
        let (lab, folder) = (Lab::new(), Folder::new());
        let esp = esp(&lab, &folder);
        boots(Firmware::Bios, &lab, &folder, &esp);
    };
    tokio::task::spawn_blocking(boot).await.unwrap();
}

#[tokio::test]
async fn the_same_iso_and_floppy_boot_a_uefi_machine() {
    let _one = lab::machine().await;
    let boot = || {
        let (lab, folder) = (Lab::new(), Folder::new());
        let esp = esp(&lab, &folder);
        if Machines::asked() == Machines::SecureBoot {
            signed_boots(&lab, &folder, &esp);
        } else {
            boots(Firmware::Uefi, &lab, &folder, &esp);
        }
    };
    tokio::task::spawn_blocking(boot).await.unwrap();
}
