//! What a component says of itself: its id, version and role, and which functions of the host it asks for.
//!
//! The manifest is JSON in the custom section `farrier:manifest` of the component, so the component's digest covers it; its
//! form stands in `wit/README.md`. A component without one asks for all that it imports.

use serde::{Deserialize, Serialize};

use crate::{Grants, Role, section};

/// Name of the custom section.
pub const SECTION: &str = "farrier:manifest";

/// Largest section: scenarios travel in it.
const MAX_SIZE: usize = 1 << 20;
const MAX_SCENARIOS: usize = 64;
/// Largest id, version and scenario's name, in characters.
const MAX_WORD: usize = 64;
const MAX_DESCRIPTION: usize = 1000;

/// What stands in the section [`SECTION`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Manifest {
    /// Form of the manifest.
    pub format: Format,
    /// Which plugin: a-z 0-9 . _ -, at most 64 characters ("acme.gen11-media").
    pub id: String,
    /// Which version of it: digits first, then 0-9 a-z A-Z . + - ("1.4.0").
    pub version: String,
    /// The role whose world it was built for.
    #[serde(with = "role")]
    pub role: Role,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Without any of these it is not loaded. The words are those of `grant` in the site file.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub required: Grants,
    /// Without these it can do with the answer `denied`.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub optional: Grants,
    /// Scenario files that each version of it must pass before it is used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<Scenario>,
}

/// The one form that there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Format;

/// A scenario file, as `farrier plugin test` reads it; its `plugin` is not looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Name of the file, for messages.
    pub name: String,
    /// The YAML text.
    pub text: String,
}

/// Why a manifest was not read or written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("its manifest is wrong: {0}; build it again with `farrier plugin build`")]
pub struct ManifestError(String);

/// The manifest of a component; `None` if it has none.
pub fn read(component: &[u8]) -> Result<Option<Manifest>, ManifestError> {
    let Some(data) = section::read(component, SECTION).map_err(ManifestError)? else {
        return Ok(None);
    };
    if data.len() > MAX_SIZE {
        return Err(ManifestError(format!("{} bytes, at most {MAX_SIZE}", data.len())));
    }
    let manifest: Manifest = serde_json::from_slice(data).map_err(|error| ManifestError(error.to_string()))?;
    manifest.check()?;
    Ok(Some(manifest))
}

/// Whether the sections of a component can be walked.
pub(crate) fn is_whole(component: &[u8]) -> bool {
    section::read(component, SECTION).is_ok()
}

/// The component with this manifest, instead of any that it had.
pub fn write(component: &[u8], manifest: &Manifest) -> Result<Vec<u8>, ManifestError> {
    manifest.check()?;
    let data = serde_json::to_vec(manifest).map_err(|error| ManifestError(error.to_string()))?;
    if data.len() > MAX_SIZE {
        return Err(ManifestError(format!("{} bytes, at most {MAX_SIZE}", data.len())));
    }
    section::write(component, SECTION, &data).map_err(ManifestError)
}

impl Manifest {
    /// All that it asks for.
    pub fn requested(&self) -> Grants {
        self.required.union(&self.optional)
    }

    /// Whether a plugin of this role can have what it asks for; `interfaces` are those of the role.
    pub(crate) fn fits(&self, interfaces: &[&str]) -> Result<(), ManifestError> {
        let has = |name: &String| {
            let interface = name.split_once('.').map_or(name.as_str(), |(interface, _)| interface);
            interfaces.contains(&interface)
        };
        match self.requested().functions().into_iter().find(|name| !has(name)) {
            None => Ok(()),
            Some(name) => Err(ManifestError(format!(
                "it asks for `{name}`, which a plugin of the role `{}` does not have",
                self.role
            ))),
        }
    }

    fn check(&self) -> Result<(), ManifestError> {
        let wrong = |what: String| Err(ManifestError(what));
        let word = |text: &str, allowed: fn(char) -> bool| {
            !text.is_empty() && text.chars().count() <= MAX_WORD && text.chars().all(allowed)
        };
        if !word(&self.id, |c| {
            c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c)
        }) || !self.id.starts_with(|c: char| c.is_ascii_alphanumeric())
        {
            return wrong(format!(
                "`id` is at most {MAX_WORD} of a-z 0-9 . _ - and begins with a letter or digit"
            ));
        }
        if !word(&self.version, |c| c.is_ascii_alphanumeric() || ".+-".contains(c))
            || !self.version.starts_with(|c: char| c.is_ascii_digit())
        {
            return wrong(format!(
                "`version` is at most {MAX_WORD} of 0-9 a-z A-Z . + - and begins with a digit"
            ));
        }
        if self
            .description
            .as_ref()
            .is_some_and(|text| text.chars().count() > MAX_DESCRIPTION)
        {
            return wrong(format!("`description` has more than {MAX_DESCRIPTION} characters"));
        }
        if self.scenarios.len() > MAX_SCENARIOS {
            return wrong(format!("it has more than {MAX_SCENARIOS} scenario files"));
        }
        let named = |scenario: &Scenario| word(&scenario.name, |c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if !self.scenarios.iter().all(named) {
            return wrong(format!(
                "a scenario's `name` is a file's name without a folder: at most {MAX_WORD} of 0-9 a-z A-Z . _ -"
            ));
        }
        Ok(())
    }
}

impl TryFrom<u32> for Format {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        match number {
            1 => Ok(Self),
            other => Err(format!("`format` is {other}, and this Farrier reads 1: update Farrier")),
        }
    }
}

impl From<Format> for u32 {
    fn from(_: Format) -> Self {
        1
    }
}

mod role {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Role;

    pub(super) fn serialize<S: Serializer>(role: &Role, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(role.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Role, D::Error> {
        let text = String::deserialize(deserializer)?;
        Role::parse(&text).ok_or_else(|| {
            let known: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
            D::Error::custom(format!("`role` is one of {}", known.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Manifest {
        serde_json::from_str(
            r#"{
                "format": 1, "id": "acme.gen11-media", "version": "1.4.0", "role": "vmedia",
                "description": "Boots Gen11 once.",
                "required": {"bmc": ["insert", "eject"]},
                "optional": {"bmc": ["media-state"], "storage": {"backends": ["local"]}},
                "scenarios": [{"name": "slots.yaml", "text": "suite: slots\n"}]
            }"#,
        )
        .unwrap()
    }

    #[test]
    fn a_manifest_reads_back_as_it_was_written() {
        let component = wat::parse_str("(component)").unwrap();
        assert_eq!(read(&component), Ok(None));
        let written = write(&component, &example()).unwrap();
        assert_eq!(read(&written), Ok(Some(example())));
        let newer = Manifest {
            version: "1.5.0".to_owned(),
            ..example()
        };
        let again = write(&written, &newer).unwrap();
        assert_eq!(read(&again), Ok(Some(newer)));
        assert_eq!(written.len(), again.len(), "the old one is gone");
    }

    #[test]
    fn what_is_requested_is_what_is_required_and_what_is_optional() {
        let functions = example().requested().functions();
        let expected = [
            "storage.publish",
            "storage.find",
            "storage.renew",
            "storage.withdraw",
            "storage.external",
            "bmc.media-state",
            "bmc.insert",
            "bmc.eject",
        ];
        assert_eq!(functions.len(), expected.len(), "{functions:?}");
        assert!(expected.iter().all(|name| functions.contains(&(*name).to_owned())));
    }

    #[test]
    fn a_wrong_manifest_is_refused_with_what_is_wrong() {
        let component = wat::parse_str("(component)").unwrap();
        let json = serde_json::to_value(example()).unwrap();
        for (key, value, words) in [
            ("format", serde_json::json!(2), "this Farrier reads 1"),
            ("id", serde_json::json!("Acme"), "`id` is at most"),
            ("id", serde_json::json!("../x"), "`id` is at most"),
            ("version", serde_json::json!("v1"), "`version` is at most"),
            ("role", serde_json::json!("thief"), "`role` is one of backend-selection"),
            (
                "required",
                serde_json::json!({"bmc": ["explode"]}),
                "unknown function `explode`",
            ),
            ("colour", serde_json::json!("red"), "unknown field `colour`"),
            (
                "scenarios",
                serde_json::json!([{"name": "../x", "text": ""}]),
                "a file's name without a folder",
            ),
        ] {
            let mut json = json.clone();
            json[key] = value;
            let bytes = section::write(&component, SECTION, json.to_string().as_bytes()).unwrap();
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.contains(words), "{key}: {error}");
        }
        let bytes = section::write(&component, SECTION, b"not json").unwrap();
        assert!(read(&bytes).is_err());
        let bytes = section::write(&component, SECTION, &vec![b' '; MAX_SIZE + 1]).unwrap();
        assert!(read(&bytes).unwrap_err().to_string().contains("at most 1048576"));
    }
}
