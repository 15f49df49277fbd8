//! `farrier plugin inspect`: what a component imports and exports, what it asks for, and whether this host takes it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use runtime::{ComponentSource, Engine, Grants, Limits, LoadError, Match, PluginConfig, Role, manifest};
use serde::Serialize;
use sha2::Digest as _;

use super::contract::Surface;
use crate::output::{self, Format, OutputArgs};

/// Largest component that a host takes.
const MAX_COMPONENT: u64 = 64 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The component
    file: PathBuf,
    /// The role that it shall have; default: the one that it was built for
    #[arg(long, value_parser = super::new::role)]
    role: Option<Role>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let bytes = read(&args.file)?;
    let mut about = About::of(&args.file.display().to_string(), &bytes)?;
    about.compatible = Some(compatibility(&args.file, bytes, args.role)?);
    match args.output.format {
        Format::Json => output::json(&about)?,
        Format::Table => about.show(),
    }
    match about.compatible {
        Some(Compatibility { loads: false, .. }) => Err(anyhow!("this host does not take the plugin")),
        _ => Ok(()),
    }
}

/// What can be told of a component.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct About {
    file: String,
    /// By its manifest.
    id: Option<String>,
    version: Option<String>,
    description: Option<String>,
    /// By what it exports.
    role: Option<&'static str>,
    digest: String,
    size_bytes: u64,
    imports: Vec<String>,
    exports: Vec<String>,
    /// Functions that it imports and that a site grants.
    calls: Vec<String>,
    /// By its manifest; `None` if it has none.
    required: Option<Grants>,
    optional: Option<Grants>,
    /// Names of the scenario files in it.
    scenarios: Vec<String>,
    /// What it asks for beyond the grant that its role has if the site says nothing.
    beyond_default_grant: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compatible: Option<Compatibility>,
}

/// Whether this host takes it.
#[derive(Debug, Serialize)]
struct Compatibility {
    loads: bool,
    /// Why not.
    reason: Option<String>,
}

impl About {
    pub(super) fn of(file: &str, bytes: &[u8]) -> Result<Self> {
        let surface = Surface::of(bytes).with_context(|| format!("{file} is no component"))?;
        let manifest = manifest::read(bytes).with_context(|| format!("{file} cannot be used"))?;
        let role = surface.role();
        let beyond = match (&manifest, role) {
            (Some(manifest), Some(role)) => manifest.requested().gaps(&Grants::default_of(role)),
            _ => Vec::new(),
        };
        let (required, optional, scenarios) = match &manifest {
            None => (None, None, Vec::new()),
            Some(manifest) => (
                Some(manifest.required.clone()),
                Some(manifest.optional.clone()),
                manifest.scenarios.iter().map(|one| one.name.clone()).collect(),
            ),
        };
        Ok(Self {
            file: file.to_owned(),
            id: manifest.as_ref().map(|manifest| manifest.id.clone()),
            version: manifest.as_ref().map(|manifest| manifest.version.clone()),
            description: manifest.and_then(|manifest| manifest.description),
            role: role.map(Role::as_str),
            digest: model::Digest(model::Sha256(sha2::Sha256::digest(bytes).into())).to_string(),
            size_bytes: bytes.len() as u64,
            imports: surface.imports,
            exports: surface.exports,
            calls: surface.functions,
            required,
            optional,
            scenarios,
            beyond_default_grant: beyond,
            compatible: None,
        })
    }

    /// As a table.
    pub(super) fn show(&self) {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let list = |list: &[String]| {
            if list.is_empty() {
                "-".to_owned()
            } else {
                list.join("\n")
            }
        };
        let asked = |grants: &Option<Grants>| match grants {
            None => "no manifest: all that it imports".to_owned(),
            Some(grants) => list(&asked(grants)),
        };
        let mut rows = vec![
            ["file".to_owned(), self.file.clone()],
            [
                "plugin".to_owned(),
                format!("{} {}", text(&self.id), text(&self.version)),
            ],
            ["description".to_owned(), text(&self.description)],
            ["role".to_owned(), self.role.unwrap_or("-").to_owned()],
            ["digest".to_owned(), self.digest.clone()],
            ["size".to_owned(), output::bytes(self.size_bytes)],
            ["imports".to_owned(), list(&self.imports)],
            ["exports".to_owned(), list(&self.exports)],
            ["requires".to_owned(), asked(&self.required)],
            ["can do without".to_owned(), asked(&self.optional)],
            ["beyond the default grant".to_owned(), list(&self.beyond_default_grant)],
            ["scenarios".to_owned(), list(&self.scenarios)],
        ];
        if let Some(compatible) = &self.compatible {
            let answer = match &compatible.reason {
                None => "takes it".to_owned(),
                Some(reason) => format!("refuses it: {reason}"),
            };
            rows.push(["this host".to_owned(), answer]);
        }
        output::table(["", ""], rows);
    }
}

/// Grants one a line: functions by name, raw requests by method and path.
fn asked(grants: &Grants) -> Vec<String> {
    let mut lines: Vec<String> = grants.functions();
    lines.retain(|name| !name.starts_with("bmc-raw"));
    let raw = &grants.bmc_raw;
    let methods: Vec<&str> = raw.methods.iter().map(String::as_str).collect();
    lines.extend(
        raw.paths
            .iter()
            .map(|path| format!("bmc-raw: {} {path}", methods.join("/"))),
    );
    lines.extend(raw.ribcl.iter().map(|command| format!("bmc-raw: ribcl {command}")));
    lines.extend(
        grants
            .image
            .sources
            .iter()
            .map(|source| format!("image.sources: {source}")),
    );
    lines.extend(grants.secrets.iter().map(|name| format!("secrets: {name}")));
    lines
}

/// Compiles it and checks it as a host does that loads it, with all that it asks for granted.
fn compatibility(file: &Path, bytes: Vec<u8>, role: Option<Role>) -> Result<Compatibility> {
    let own = Surface::of(&bytes)?.role();
    let Some(role) = role.or(own) else {
        return Ok(Compatibility {
            loads: false,
            reason: Some("it exports no role of the contract".to_owned()),
        });
    };
    let grant = manifest::read(&bytes)?.map(|manifest| manifest.requested());
    let config = PluginConfig {
        role,
        component: ComponentSource::Bytes {
            name: file.display().to_string(),
            bytes: Arc::from(bytes),
        },
        digest: None,
        matches: Match::new(),
        grant,
        limits: Limits::default(),
        settings: serde_json::Value::Null,
    };
    let reason = match Engine::new(1)?.check(&config) {
        Ok(()) => None,
        Err(LoadError::Engine(reason)) => bail!("the plugin host could not be started: {reason}"),
        Err(error) => Some(error.to_string()),
    };
    Ok(Compatibility {
        loads: reason.is_none(),
        reason,
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let could_not = || format!("could not read {}", path.display());
    let size = std::fs::metadata(path).with_context(could_not)?.len();
    if size > MAX_COMPONENT {
        bail!("{} has {size} bytes, and a host takes {MAX_COMPONENT}", path.display());
    }
    std::fs::read(path).with_context(could_not)
}
