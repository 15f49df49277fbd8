//! The site's plugins: loaded, checked, compiled once, and bound to nodes by rules.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use model::{Digest, Node, Sha256};
use serde_json::Value;
use sha2::Digest as _;

use crate::binding::{self, Match};
use crate::component::{self, Plugin};
use crate::engine::Engine;
use crate::facts::{self, SiteFacts};
use crate::{Grants, Limits, LoadError};

/// Largest component: a Python guest has 38 MB.
const MAX_COMPONENT: usize = 64 << 20;

/// What a plugin is used for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Chooses a backend.
    BackendSelection,
    /// Boots by virtual media.
    Vmedia,
    /// Plans a take-over.
    TakeOver,
    /// A vendor's own methods.
    Vendor,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 4] = [Self::BackendSelection, Self::Vmedia, Self::TakeOver, Self::Vendor];

    /// Its name in the site file and in the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BackendSelection => "backend-selection",
            Self::Vmedia => "vmedia",
            Self::TakeOver => "take-over",
            Self::Vendor => "vendor",
        }
    }

    /// The role of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a component comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ComponentSource {
    /// A file.
    File(PathBuf),
    /// Bytes, with a name for messages.
    Bytes {
        /// "built-in", …
        name: String,
        /// The component.
        bytes: Arc<[u8]>,
    },
}

impl ComponentSource {
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Bytes { name, .. } => name.clone(),
        }
    }
}

/// One `[[plugin]]` entry.
#[derive(Clone, Debug)]
pub struct PluginConfig {
    /// What it is used for.
    pub role: Role,
    /// The component.
    pub component: ComponentSource,
    /// If given, nothing else is loaded.
    pub digest: Option<Digest>,
    /// For which nodes; empty = for all.
    pub matches: Match,
    /// `None` = the role's default.
    pub grant: Option<Grants>,
    /// What a call may use.
    pub limits: Limits,
    /// The plugin's own settings, a JSON object.
    pub settings: Value,
}

/// A plugin as the site has it, for pages.
#[derive(Clone, PartialEq, Debug)]
pub struct PluginInfo {
    /// Its name: the component's file name without ending, or `built-in:<role>`.
    pub id: String,
    /// What it is used for.
    pub role: Role,
    /// Identity of its bytes.
    pub digest: Digest,
    /// For which nodes.
    pub matches: Match,
    /// It is part of Farrier.
    pub built_in: bool,
}

/// A plugin with what one site entry says of it.
#[derive(Clone)]
pub(crate) struct Bound {
    pub(crate) id: String,
    /// Where the component came from, for messages.
    pub(crate) place: String,
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) role: Role,
    pub(crate) matches: Match,
    pub(crate) grants: Grants,
    pub(crate) limits: Limits,
    pub(crate) settings: Value,
    pub(crate) built_in: bool,
}

/// All plugins of the site, by role in the order of the site file, the built-in last.
pub(crate) struct Catalog {
    engine: Engine,
    bound: BTreeMap<Role, Vec<Arc<Bound>>>,
}

impl Catalog {
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine,
            bound: BTreeMap::new(),
        }
    }

    /// Loads one entry behind those that are there already.
    pub(crate) fn add(&mut self, config: &PluginConfig, built_in: bool) -> Result<(), LoadError> {
        let place = config.component.name();
        if !config.settings.is_object() && !config.settings.is_null() {
            return Err(LoadError::Settings { place });
        }
        let bytes = read(&config.component)?;
        let digest = Digest(Sha256(sha2::Sha256::digest(&bytes).into()));
        if let Some(wanted) = config.digest
            && wanted != digest
        {
            return Err(LoadError::Digest {
                place,
                found: digest,
                wanted,
            });
        }
        let key = (config.role, digest);
        let plugin = {
            // Held while compiling: who wants the same component meanwhile gets this one.
            let mut compiled = self.engine.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
            match compiled.get(&key) {
                Some(plugin) => Arc::clone(plugin),
                None => {
                    let plugin = component::compile(&self.engine.0.wasmtime, &place, digest, &bytes, config.role)?;
                    Arc::clone(compiled.entry(key).or_insert(Arc::new(plugin)))
                }
            }
        };
        component::fits(plugin.pre.component(), &place, &config.limits)?;
        let bound = Arc::new(Bound {
            id: plugin_id(&config.component, config.role, built_in),
            place,
            plugin,
            role: config.role,
            matches: config.matches.clone(),
            grants: config.grant.clone().unwrap_or_else(|| Grants::default_of(config.role)),
            limits: config.limits.clone(),
            settings: config.settings.clone(),
            built_in,
        });
        self.bound.entry(config.role).or_default().push(bound);
        Ok(())
    }

    /// The first plugin of the role, from number `from` on, whose rule matches the node; with its number.
    pub(crate) fn find(&self, role: Role, from: usize, node: &Node, site: &SiteFacts) -> Option<(usize, Arc<Bound>)> {
        let list = self.bound.get(&role)?;
        let fact = |key: &str| facts::fact(node, site, key);
        list.iter()
            .enumerate()
            .skip(from)
            .find(|(_, bound)| binding::matches(&bound.matches, fact))
            .map(|(number, bound)| (number, Arc::clone(bound)))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Bound>> {
        self.bound.values().flatten()
    }

    pub(crate) fn list(&self) -> Vec<PluginInfo> {
        self.all()
            .map(|bound| PluginInfo {
                id: bound.id.clone(),
                role: bound.role,
                digest: bound.plugin.digest,
                matches: bound.matches.clone(),
                built_in: bound.built_in,
            })
            .collect()
    }
}

fn read(component: &ComponentSource) -> Result<Arc<[u8]>, LoadError> {
    let place = component.name();
    let bytes: Arc<[u8]> = match component {
        ComponentSource::Bytes { bytes, .. } => Arc::clone(bytes),
        ComponentSource::File(path) => {
            let failed = |source| LoadError::Read {
                place: place.clone(),
                source,
            };
            let size = std::fs::metadata(path).map_err(failed)?.len();
            if size > MAX_COMPONENT as u64 {
                return Err(LoadError::TooLarge {
                    place,
                    size,
                    most: MAX_COMPONENT,
                });
            }
            std::fs::read(path).map_err(failed)?.into()
        }
    };
    if bytes.len() > MAX_COMPONENT {
        return Err(LoadError::TooLarge {
            place,
            size: bytes.len() as u64,
            most: MAX_COMPONENT,
        });
    }
    Ok(bytes)
}

fn plugin_id(component: &ComponentSource, role: Role, built_in: bool) -> String {
    match component {
        _ if built_in => format!("built-in:{role}"),
        ComponentSource::File(path) => path
            .file_stem()
            .map_or_else(|| role.to_string(), |stem| stem.to_string_lossy().into_owned()),
        ComponentSource::Bytes { name, .. } => name.clone(),
    }
}
