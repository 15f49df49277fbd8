//! The command line of one QEMU process.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::config::{BootMode, FloppyDevice, QemuConfig};
use crate::profile::BootTarget;
use crate::qemu::position;
use crate::server::Server;

/// Port that the deploy agent listens on inside the guest.
const AGENT_PORT: u16 = 9999;

/// What one QEMU process is started with.
pub(crate) struct Launch<'a> {
    pub(crate) server: &'a Server,
    pub(crate) config: &'a QemuConfig,
    pub(crate) order: &'a [BootTarget],
    pub(crate) mode: BootMode,
    pub(crate) sockets: &'a TempDir,
    pub(crate) port: u16,
    pub(crate) callback: &'a str,
}

/// A command for this program that the kernel kills when our process dies, however it dies; util-linux's `setpriv` asks for
/// that. Where it is missing, a simulator that is killed leaves its machines running.
fn dying_with_us(binary: &Path) -> Command {
    const SETPRIV: &str = "/usr/bin/setpriv";
    if !Path::new(SETPRIV).exists() {
        return Command::new(binary);
    }
    let mut command = Command::new(SETPRIV);
    command.args(["--pdeathsig", "KILL", "--"]).arg(binary);
    command
}

impl Launch<'_> {
    /// Starts it stopped; it is killed when the child is dropped.
    pub(crate) fn spawn(&self) -> Result<Child, String> {
        let files = &self.server.files;
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(files.folder.join("qemu.log"))
            .map_err(|error| format!("qemu.log: {error}"))?;
        let arguments = self.arguments()?;
        let binary = &self.config.binary;
        if !binary.exists() {
            return Err(format!("there is no QEMU at {}", binary.display()));
        }
        dying_with_us(binary)
            .args(arguments)
            .envs(self.config.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", binary.display()))
    }

    fn arguments(&self) -> Result<Vec<OsString>, String> {
        let server = self.server;
        let profile = server.config.profile;
        let mut args: Vec<OsString> = Vec::new();
        for folder in &self.config.firmware_dirs {
            args.extend(["-L".into(), folder.into()]);
        }
        let memory = self.config.memory_mib.to_string();
        let accelerator = if self.config.kvm { "kvm" } else { "tcg" };
        args.extend(
            [
                "-nodefaults",
                "-no-user-config",
                "-no-reboot",
                "-S",
                "-display",
                "none",
                "-machine",
                "pc",
                "-smp",
                "1",
                "-m",
                &memory,
                "-accel",
                accelerator,
                "-uuid",
                &server.uuid,
            ]
            .map(OsString::from),
        );
        let index = |target| match position(self.order, target) {
            Some(index) => format!(",bootindex={index}"),
            None => String::new(),
        };
        let mut option = |name: &str, value: String| args.extend([name.into(), value.into()]);
        option(
            "-smbios",
            format!(
                "type=1,manufacturer={},product={},serial={}",
                escape(&profile.vendor),
                escape(&profile.model),
                server.serial_number
            ),
        );
        option("-smbios", format!("type=3,asset={}", escape(self.callback)));
        option(
            "-chardev",
            format!("file,id=serial0,append=on,path={}", path(&server.files.serial)),
        );
        option("-serial", "chardev:serial0".into());
        option(
            "-qmp",
            format!("unix:{},server=on,wait=off", path(&self.sockets.path().join("qmp"))),
        );
        option(
            "-drive",
            format!(
                "if=none,id=disk0,format=raw,cache=unsafe,file={}",
                path(&server.files.disk)
            ),
        );
        option(
            "-device",
            format!("virtio-blk-pci,drive=disk0,id=disk{}", index(BootTarget::Hdd)),
        );
        option("-device", format!("ide-cd,id=cd,bus=ide.1{}", index(BootTarget::Cd)));
        if self.config.floppy == FloppyDevice::Usb {
            option("-device", "qemu-xhci,id=xhci".into());
        }
        option(
            "-netdev",
            match &server.config.bootfile {
                Some(url) => format!(
                    "user,id=n0,hostfwd=tcp:127.0.0.1:{}-:{AGENT_PORT},bootfile={url}",
                    self.port
                ),
                None => format!("user,id=n0,hostfwd=tcp:127.0.0.1:{}-:{AGENT_PORT}", self.port),
            },
        );
        // The card's own ROM is iPXE, for both firmwares. Left out where it is not booted from: it takes its time.
        let rom = match index(BootTarget::Pxe) {
            booted if booted.is_empty() => ",romfile=".to_owned(),
            booted => booted,
        };
        option("-device", format!("virtio-net-pci,netdev=n0,mac={}{rom}", server.mac));
        if self.mode == BootMode::Uefi {
            let missing = "UEFI boots need the OVMF code and variables files in the QEMU settings";
            let code = self.config.ovmf_code.as_ref().ok_or(missing)?;
            let template = self.config.ovmf_vars.as_ref().ok_or(missing)?;
            let vars = server.files.folder.join("ovmf-vars.fd");
            if !vars.exists() {
                std::fs::copy(template, &vars)
                    .map_err(|error| format!("cannot copy {}: {error}", template.display()))?;
            }
            option(
                "-drive",
                format!("if=pflash,format=raw,readonly=on,file={}", path(code)),
            );
            option("-drive", format!("if=pflash,format=raw,file={}", path(&vars)));
        }
        Ok(args)
    }
}

/// QEMU splits options at commas; a doubled one stands for itself.
fn escape(text: &str) -> String {
    text.replace(',', ",,")
}

fn path(path: &Path) -> String {
    escape(&path.display().to_string())
}
