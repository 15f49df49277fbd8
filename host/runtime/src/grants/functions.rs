//! The names of functions, and grants as they stand in site files and manifests.

use std::collections::BTreeSet;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{ImageGrant, StorageGrant};

pub(super) const STATE: &[&str] = &["get", "put", "delete"];
pub(super) const IMAGE: &[&str] = &["build-floppy", "build-boot-iso"];
pub(super) const STORAGE: &[&str] = &["publish", "find", "renew", "withdraw", "external"];
pub(super) const BMC: &[&str] = &[
    "media-state",
    "insert",
    "eject",
    "set-boot-device",
    "boot-mode-of",
    "set-boot-mode",
    "secure-boot-of",
    "set-secure-boot",
];
pub(super) const POWER: &[&str] = &["state-of", "set"];
pub(super) const VMEDIA_SERVICE: &[&str] = &[
    "prepare-ramdisk",
    "clean-up-ramdisk",
    "prepare-instance",
    "clean-up-instance",
    "attach",
    "detach",
    "boot-into-iso",
];

/// Functions of one interface.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Functions(pub(super) BTreeSet<&'static str>);

impl Functions {
    pub(super) fn all(known: &[&'static str]) -> Self {
        Self(known.iter().copied().collect())
    }

    pub(super) fn has(&self, function: &str) -> bool {
        self.0.contains(function)
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn functions<'de, D: Deserializer<'de>>(
    deserializer: D,
    known: &'static [&'static str],
) -> Result<Functions, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    pick(&names, known).map_err(D::Error::custom)
}

pub(super) fn pick(names: &[String], known: &'static [&'static str]) -> Result<Functions, String> {
    let one = |name: &String| {
        known
            .iter()
            .copied()
            .find(|function| function == name)
            .ok_or_else(|| format!("unknown function `{name}`; known are: {}", known.join(", ")))
    };
    names.iter().map(one).collect::<Result<_, _>>().map(Functions)
}

pub(super) fn state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Functions, D::Error> {
    functions(deserializer, STATE)
}

pub(super) fn bmc<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Functions, D::Error> {
    functions(deserializer, BMC)
}

pub(super) fn power<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Functions, D::Error> {
    functions(deserializer, POWER)
}

pub(super) fn vmedia_service<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Functions, D::Error> {
    functions(deserializer, VMEDIA_SERVICE)
}

// A table without `functions` grants all of them: it is there to bound them.
impl<'de> Deserialize<'de> for ImageGrant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct Table {
            functions: Option<Vec<String>>,
            #[serde(default)]
            sources: Vec<String>,
        }
        let table = Table::deserialize(deserializer)?;
        let functions = table
            .functions
            .map_or_else(|| Ok(Functions::all(IMAGE)), |names| pick(&names, IMAGE));
        Ok(Self {
            functions: functions.map_err(D::Error::custom)?,
            sources: table.sources,
        })
    }
}

impl<'de> Deserialize<'de> for StorageGrant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct Table {
            functions: Option<Vec<String>>,
            backends: Option<BTreeSet<String>>,
            max_lifetime_s: Option<u32>,
        }
        let table = Table::deserialize(deserializer)?;
        let functions = table
            .functions
            .map_or_else(|| Ok(Functions::all(STORAGE)), |names| pick(&names, STORAGE));
        Ok(Self {
            functions: functions.map_err(D::Error::custom)?,
            backends: table.backends,
            max_lifetime_s: table.max_lifetime_s,
        })
    }
}
