//! Where QEMU, its firmware and the boot files are: from the file that the set-up script writes, else Debian's own places.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sim::{FloppyDevice, QemuConfig};

/// What the set-up script found or built, by name.
pub(crate) struct Lab(BTreeMap<String, String>);

impl Lab {
    /// Reads `KEY=VALUE` lines.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("could not read {} (made by `make setup`)", path.display()))?;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Ok(Self(
            pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ))
    }

    /// No set-up: what Debian's packages put in place.
    pub(crate) fn debian() -> Self {
        let places = [
            ("QEMU", "/usr/bin/qemu-system-x86_64"),
            ("QEMU_DATA", "/usr/share/qemu:/usr/share/seabios:/usr/lib/ipxe/qemu"),
            ("OVMF_CODE", "/usr/share/OVMF/OVMF_CODE_4M.fd"),
            ("OVMF_VARS", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
        ];
        Self(places.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
    }

    /// The value of a name.
    pub(crate) fn value(&self, key: &str) -> Result<&str> {
        let value = self
            .0
            .get(key)
            .with_context(|| format!("the set-up names no {key}; run `make setup` again"))?;
        Ok(value)
    }

    /// A file that must be there.
    pub(crate) fn file(&self, key: &str) -> Result<PathBuf> {
        let path = PathBuf::from(self.value(key)?);
        if !path.exists() {
            bail!("{key} should be at {} and is not; run `make setup`", path.display());
        }
        Ok(path)
    }

    /// How to run QEMU with what is here.
    pub(crate) fn qemu(&self, floppy: FloppyDevice) -> Result<QemuConfig> {
        let dirs = self
            .value("QEMU_DATA")?
            .split(':')
            .map(PathBuf::from)
            .filter(|dir| dir.is_dir());
        let mut qemu = QemuConfig::new(self.file("QEMU")?, dirs.collect());
        qemu.ovmf_code = self.file("OVMF_CODE").ok();
        qemu.ovmf_vars = self.file("OVMF_VARS").ok();
        qemu.floppy = floppy;
        Ok(qemu)
    }
}

/// Where the set-up's file is.
#[derive(clap::Args)]
pub(crate) struct LabArgs {
    /// File with the places of QEMU and boot files, made by the set-up; default: Debian's own places
    #[arg(long = "lab", env = "FARRIER_LAB", value_name = "FILE")]
    path: Option<PathBuf>,
}

impl LabArgs {
    pub(crate) fn lab(&self) -> Result<Lab> {
        self.path.as_deref().map_or_else(|| Ok(Lab::debian()), Lab::read)
    }
}

/// What stands behind simulated BMCs.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Boot {
    /// Real machines under QEMU
    Qemu,
    /// The boot is played by the simulator
    Protocol,
}
