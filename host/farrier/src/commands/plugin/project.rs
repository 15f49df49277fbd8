//! A plugin's project: `farrier-plugin.toml` and what lies beside it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use runtime::manifest::Scenario;
use runtime::{Grants, Role};
use serde::Deserialize;

/// The file that makes a folder a plugin's project.
pub(super) const FILE: &str = "farrier-plugin.toml";

/// What a plugin is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Language {
    /// Rust, built by cargo
    Rust,
    /// Python, by componentize-py
    Python,
    /// JavaScript, by componentize-js
    Js,
    /// C, by clang
    C,
}

impl Language {
    #[cfg(test)]
    pub(super) const ALL: [Self; 4] = [Self::Rust, Self::Python, Self::Js, Self::C];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::Js => "js",
            Self::C => "c",
        }
    }

    /// Whether a component imports no more functions than its source calls. Python and JavaScript look functions up while
    /// they run, so their components import all of the role's.
    pub(super) fn imports_what_it_calls(self) -> bool {
        matches!(self, Self::Rust | Self::C)
    }
}

/// `farrier-plugin.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ProjectFile {
    id: String,
    version: String,
    role: String,
    language: Language,
    description: Option<String>,
    required: Option<Grants>,
    optional: Option<Grants>,
}

/// A project, read and checked.
#[derive(Debug)]
pub(super) struct Project {
    /// Where it lies.
    pub(super) folder: PathBuf,
    pub(super) id: String,
    pub(super) version: String,
    pub(super) role: Role,
    pub(super) language: Language,
    pub(super) description: Option<String>,
    /// What it asks for, if it says so.
    pub(super) required: Option<Grants>,
    pub(super) optional: Option<Grants>,
}

impl Project {
    /// Reads the project in a folder.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "could not read {}: is {} a plugin's project? `farrier plugin new` makes one",
                path.display(),
                folder.display()
            )
        })?;
        let file: ProjectFile = toml::from_str(&text).with_context(|| format!("{} is wrong", path.display()))?;
        let Some(role) = Role::parse(&file.role) else {
            let known: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
            bail!(
                "{}: there is no role `{}`; `role` is one of {}",
                path.display(),
                file.role,
                known.join(", ")
            );
        };
        // It names the file that is built.
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
        if file.id.is_empty() || file.id.starts_with('.') || !file.id.chars().all(word) {
            bail!("{}: `id` is made of a-z 0-9 . _ -, as acme.slots", path.display());
        }
        Ok(Self {
            folder: folder.to_owned(),
            id: file.id,
            version: file.version,
            role,
            language: file.language,
            description: file.description,
            required: file.required,
            optional: file.optional,
        })
    }

    /// The component that is built if nothing else is said.
    pub(super) fn component(&self) -> PathBuf {
        self.folder.join(format!("{}.wasm", self.id))
    }

    /// The scenario files in `scenarios/`, by name. They go into the manifest: a host runs them before it uses a new version.
    pub(super) fn scenarios(&self) -> Result<Vec<Scenario>> {
        let folder = self.folder.join("scenarios");
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut scenarios = Vec::new();
        let entries = std::fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))?;
        for entry in entries {
            let path = entry
                .with_context(|| format!("could not read {}", folder.display()))?
                .path();
            if path.extension() != Some(OsStr::new("yaml")) {
                continue;
            }
            let text = std::fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            scenarios.push(Scenario {
                name: name.unwrap_or_default(),
                text,
            });
        }
        scenarios.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(scenarios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        id = "acme.slots"
        version = "0.1.0"
        role = "vmedia"
        language = "c"
        [required]
        bmc = ["eject"]
    "#;

    fn read(text: &str) -> Result<Project> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), text).unwrap();
        Project::read(folder.path())
    }

    #[test]
    fn a_project_is_what_its_file_says() {
        let project = read(GOOD).unwrap();
        assert_eq!((project.role, project.language), (Role::Vmedia, Language::C));
        assert_eq!(project.component(), project.folder.join("acme.slots.wasm"));
        assert_eq!(project.required.unwrap().functions(), ["bmc.eject"]);
    }

    #[test]
    fn a_file_that_is_wrong_is_refused_with_what_is() {
        for (from, to, says) in [
            (
                "\"vmedia\"",
                "\"media\"",
                "backend-selection, vmedia, take-over, vendor",
            ),
            ("acme.slots", "../slots", "`id` is made of"),
            ("\"c\"", "\"cobol\"", "unknown variant `cobol`"),
            ("eject", "explode", "unknown function `explode`"),
            ("version", "versoin", "unknown field `versoin`"),
        ] {
            let error = format!("{:#}", read(&GOOD.replace(from, to)).unwrap_err());
            assert!(error.contains(says), "{error}");
        }
        let nothing = Project::read(tempfile::tempdir().unwrap().path()).unwrap_err();
        assert!(nothing.to_string().contains("farrier plugin new"), "{nothing}");
    }
}
