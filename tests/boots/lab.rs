//! Where the boot lab is: QEMU, its firmware, kernels, ramdisks, boot loaders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sim::{FloppyDevice, QemuConfig};
use tokio::sync::{Mutex, MutexGuard};

/// One machine at a time: two emulated ones on two processors take longer than one after the other, and time out.
static MACHINE: Mutex<()> = Mutex::const_new(());

/// What the machines are like.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machines {
    /// The small kernel and a virtio floppy: boots in half the time.
    Small,
    /// The full kernel and a USB floppy, as a BMC presents it.
    Usb,
    /// The small kernel; firmware that starts only what is signed. No BMC is simulated in front of it.
    SecureBoot,
}

impl Machines {
    /// As `FARRIER_BOOTS` asks for.
    pub(crate) fn asked() -> Self {
        match std::env::var("FARRIER_BOOTS").as_deref() {
            Err(_) => Self::Small,
            Ok("usb") => Self::Usb,
            Ok("secure-boot") => Self::SecureBoot,
            Ok(other) => panic!("FARRIER_BOOTS is `usb`, `secure-boot` or not set, and not `{other}`"),
        }
    }

    /// Keys of the deploy kernel and ramdisk.
    pub(crate) fn deploy_pair(self) -> (&'static str, &'static str) {
        match self {
            Self::Small | Self::SecureBoot => ("DEPLOY_KERNEL_CLOUD", "DEPLOY_RAMDISK_CLOUD"),
            Self::Usb => ("DEPLOY_KERNEL_FULL", "DEPLOY_RAMDISK_FULL"),
        }
    }
}

/// What the set-up names, by key.
pub(crate) struct Lab(BTreeMap<String, String>);

impl Lab {
    /// The lab of `FARRIER_LAB`, else the repository's own. A test cannot do without it.
    pub(crate) fn new() -> Self {
        let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.lab/lab.env");
        let path = std::env::var_os("FARRIER_LAB").map_or(default, PathBuf::from);
        Self::read(&path).unwrap_or_else(|problem| panic!("{problem}"))
    }

    fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!(
                "the boot lab is not set up: run `make setup` ({}: {error})",
                path.display()
            )
        })?;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Ok(Self(
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ))
    }

    pub(crate) fn value(&self, key: &str) -> &str {
        let value = self.0.get(key);
        value.unwrap_or_else(|| panic!("the boot lab names no {key}: run `make setup`"))
    }

    pub(crate) fn file(&self, key: &str) -> PathBuf {
        let path = PathBuf::from(self.value(key));
        assert!(path.exists(), "{} ({key}) is gone: run `make setup`", path.display());
        path
    }

    pub(crate) fn text(&self, key: &str) -> String {
        self.file(key).to_str().unwrap().to_owned()
    }

    pub(crate) fn qemu_dirs(&self) -> Vec<PathBuf> {
        self.value("QEMU_DATA").split(':').map(PathBuf::from).collect()
    }

    /// QEMU behind a simulated BMC.
    pub(crate) fn qemu(&self) -> QemuConfig {
        let mut qemu = QemuConfig::new(self.file("QEMU"), self.qemu_dirs());
        qemu.ovmf_code = Some(self.file("OVMF_CODE"));
        qemu.ovmf_vars = Some(self.file("OVMF_VARS"));
        qemu.floppy = match Machines::asked() {
            Machines::Small => FloppyDevice::VirtioBlk,
            Machines::Usb => FloppyDevice::Usb,
            Machines::SecureBoot => panic!("no BMC is simulated in front of a machine that enforces Secure Boot"),
        };
        qemu
    }
}

/// Held while a machine runs.
pub(crate) async fn machine() -> MutexGuard<'static, ()> {
    MACHINE.lock().await
}

#[test]
fn without_a_lab_a_test_fails_and_says_how_to_set_it_up() {
    let problem = Lab::read(Path::new("/nowhere/lab.env")).err().unwrap();
    assert!(
        problem.contains("make setup") && problem.contains("/nowhere/lab.env"),
        "{problem}"
    );
}
