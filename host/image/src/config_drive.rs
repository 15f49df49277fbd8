//! Config drives: what cloud-init and its like mount by its label and read `openstack/latest/` from.

use std::fmt;

use serde_json::Value;

use crate::content::Content;
use crate::fat::{FatError, FatShape, FatSpec, fat};
use crate::iso9660::{IsoError, IsoSpec, iso};
use crate::layout::Layout;

/// The label that a config drive is found by.
pub const CONFIG_DRIVE_LABEL: &str = "config-2";
/// The folder that every reader knows.
const LATEST: &str = "openstack/latest";

/// A config drive to make.
#[derive(Clone, Debug)]
pub struct ConfigDriveSpec {
    /// `meta_data.json`: an object with a string `uuid`, by which a system tells whether it has seen this drive before.
    pub meta_data: Content,
    /// `user_data`: any bytes (cloud-config, a script, an Ignition file).
    pub user_data: Option<Content>,
    /// `network_data.json`: an object.
    pub network_data: Option<Content>,
    /// `vendor_data.json`: JSON of any kind.
    pub vendor_data: Option<Content>,
    /// Other files, by path, as `openstack/content/0000`.
    pub files: Vec<(String, Content)>,
    /// What it is written as.
    pub volume: ConfigDriveVolume,
}

/// What a config drive is written as. Readers take both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigDriveVolume {
    /// A FAT volume.
    Fat {
        /// Its bytes; `None` = the smallest usual size that takes the files.
        size: Option<u64>,
    },
    /// An ISO.
    Iso,
}

/// Why a config drive cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigDriveError {
    /// A file is not the JSON that its readers expect. What stands there is not quoted, since it may be a secret.
    #[error("{file} is no JSON at line {line}, column {column}; mend it there")]
    NotJson {
        /// Which file.
        file: &'static str,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A file holds JSON of another kind.
    #[error("{file} must be a JSON object, {{…}}")]
    NotAnObject {
        /// Which file.
        file: &'static str,
    },
    /// cloud-init refuses a drive whose metadata names no instance.
    #[error("meta_data.json has no \"uuid\" with a text: add one, since cloud-init refuses a drive without it")]
    NoUuid,
    /// The FAT volume cannot be made.
    #[error(transparent)]
    Fat(#[from] FatError),
    /// The ISO cannot be made.
    #[error(transparent)]
    Iso(#[from] IsoError),
}

/// Makes a config drive. JSON that is given as bytes is checked; what stays a source is taken as it is.
pub fn config_drive(spec: &ConfigDriveSpec) -> Result<Layout, ConfigDriveError> {
    let meta_data = object("meta_data.json", Some(&spec.meta_data))?;
    if meta_data.is_some_and(|meta_data| meta_data["uuid"].as_str().is_none_or(str::is_empty)) {
        return Err(ConfigDriveError::NoUuid);
    }
    object("network_data.json", spec.network_data.as_ref())?;
    json("vendor_data.json", spec.vendor_data.as_ref())?;
    let named = [
        ("meta_data.json", Some(&spec.meta_data)),
        ("network_data.json", spec.network_data.as_ref()),
        ("user_data", spec.user_data.as_ref()),
        ("vendor_data.json", spec.vendor_data.as_ref()),
    ];
    let mut files: Vec<(String, Content)> = named
        .into_iter()
        .filter_map(|(name, content)| Some((format!("{LATEST}/{name}"), content?.clone())))
        .collect();
    files.extend(spec.files.iter().cloned());
    let label = CONFIG_DRIVE_LABEL.to_owned();
    Ok(match spec.volume {
        ConfigDriveVolume::Fat { size } => fat(&FatSpec {
            label,
            files,
            size,
            shape: FatShape::Disk,
        })?,
        ConfigDriveVolume::Iso => iso(&IsoSpec { label, files })?,
    })
}

/// The file as JSON, if its bytes are at hand.
fn json(file: &'static str, content: Option<&Content>) -> Result<Option<Value>, ConfigDriveError> {
    let Some(Content::Literal(bytes)) = content else {
        return Ok(None);
    };
    let parsed = serde_json::from_slice(bytes);
    parsed.map(Some).map_err(|error| ConfigDriveError::NotJson {
        file,
        line: error.line(),
        column: error.column(),
    })
}

fn object(file: &'static str, content: Option<&Content>) -> Result<Option<Value>, ConfigDriveError> {
    match json(file, content)? {
        Some(value) if !value.is_object() => Err(ConfigDriveError::NotAnObject { file }),
        parsed => Ok(parsed),
    }
}

impl fmt::Display for ConfigDriveVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fat { .. } => "FAT",
            Self::Iso => "ISO",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn spec(meta_data: &str) -> ConfigDriveSpec {
        ConfigDriveSpec {
            meta_data: Bytes::from(meta_data.to_owned()).into(),
            user_data: None,
            network_data: None,
            vendor_data: None,
            files: Vec::new(),
            volume: ConfigDriveVolume::Fat { size: None },
        }
    }

    #[test]
    fn what_its_readers_would_choke_on_is_refused_without_quoting_it() {
        let no_json = ConfigDriveError::NotJson {
            file: "meta_data.json",
            line: 2,
            column: 9,
        };
        for (meta_data, wanted) in [
            ("{\"uuid\": \"\",\n\"hunter2}", no_json),
            ("[1]", ConfigDriveError::NotAnObject { file: "meta_data.json" }),
            ("{}", ConfigDriveError::NoUuid),
            ("{\"uuid\": 7}", ConfigDriveError::NoUuid),
            ("{\"uuid\": \"\"}", ConfigDriveError::NoUuid),
        ] {
            let error = config_drive(&spec(meta_data)).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
            assert_eq!(error, wanted, "{meta_data}");
        }
        let mut other = spec("{\"uuid\": \"u\"}");
        assert!(config_drive(&other).is_ok());
        other.network_data = Some(Bytes::from_static(b"[]").into());
        let wanted = ConfigDriveError::NotAnObject {
            file: "network_data.json",
        };
        assert_eq!(config_drive(&other).unwrap_err(), wanted);
        other.network_data = Some(Bytes::from_static(b"{}").into());
        other.vendor_data = Some(Bytes::from_static(b"x").into());
        assert!(matches!(
            config_drive(&other),
            Err(ConfigDriveError::NotJson {
                file: "vendor_data.json",
                ..
            })
        ));
    }

    #[test]
    fn another_file_cannot_take_the_place_of_one_that_its_readers_know() {
        for volume in [ConfigDriveVolume::Fat { size: None }, ConfigDriveVolume::Iso] {
            let mut spec = spec("{\"uuid\": \"u\"}");
            spec.volume = volume;
            spec.files = vec![("openstack/latest/meta_data.json".into(), Bytes::new().into())];
            assert!(config_drive(&spec).is_err(), "{volume}");
        }
    }
}
