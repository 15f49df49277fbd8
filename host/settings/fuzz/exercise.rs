//! What fuzzers feed: the readers of `ironic.conf` and of `farrier.toml`. A panic is a finding; and so is a mistake without a
//! message.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use settings::{Files, Machine, Overrides, Secrets, Settings};

/// An `ironic.conf`.
pub(crate) fn ini(text: &[u8]) {
    load(text, |path| Files {
        site: None,
        ironic: vec![path],
    });
}

/// A `farrier.toml`.
pub(crate) fn toml(text: &[u8]) {
    load(text, |path| Files {
        site: Some(path),
        ironic: Vec::new(),
    });
}

fn load(text: &[u8], files: impl FnOnce(PathBuf) -> Files) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("settings");
    std::fs::write(&path, text).expect("room");
    let machine = Machine {
        host_name: "fuzz".to_owned(),
        address: Ipv4Addr::new(192, 0, 2, 1).into(),
    };
    match Settings::load_on(&files(path), &Overrides::default(), &machine) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                let _ = warning.to_string();
            }
            for entry in loaded.entries() {
                let _ = entry.value.to_string();
            }
            // What could be read can be written as a site file.
            loaded.migrated(&machine, &Secrets::Inline).expect("it is whole");
        }
        Err(error) => {
            assert!(!error.problems.is_empty(), "refused, and nobody knows why");
            let _ = error.to_string();
        }
    }
}
