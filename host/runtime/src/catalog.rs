//! The site's plugins as they are at one moment: which versions there are, which is used, and for which nodes. A catalog never
//! changes; a swap puts another in its place, and calls that have begun keep theirs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use model::{Digest, Node};
use serde_json::Value;

use crate::binding::{self, Match};
use crate::component::Plugin;
use crate::facts::{self, SiteFacts};
use crate::grants::Allowed;
use crate::{Grants, Limits};

/// Earlier versions that are kept for nodes on their way to active.
const HELD: usize = 4;

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
    /// The path or name, for messages.
    pub(crate) fn name(&self) -> String {
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
    /// Its id: of its manifest, else the component's file name without ending; or `built-in:<role>`.
    pub id: String,
    /// Names the entry of the site file: the id, with `#2`, `#3` … where the role has several of that id.
    pub entry: String,
    /// What it is used for.
    pub role: Role,
    /// Of its manifest.
    pub version: Option<String>,
    /// Identity of its bytes.
    pub digest: Digest,
    /// For which nodes.
    pub matches: Match,
    /// It is part of Farrier.
    pub built_in: bool,
    /// Its answers are only compared.
    pub shadow: bool,
    /// What the site grants it.
    pub granted: Grants,
    /// The site says nothing of grants, so it has the role's default.
    pub granted_by_default: bool,
    /// What it asks for by its manifest; `None` = it has none, and asks for what it imports.
    pub requested: Option<Grants>,
    /// Functions of the host that it imports.
    pub imports: Vec<String>,
    /// The version to which it goes back when this one fails.
    pub last_good: Option<Digest>,
    /// Versions that are not used again by themselves, with the reason.
    pub quarantined: BTreeMap<Digest, String>,
}

/// One version of a plugin with what one site entry says of it.
#[derive(Clone)]
pub(crate) struct Bound {
    pub(crate) id: String,
    /// See [`PluginInfo::entry`].
    pub(crate) entry: String,
    /// Where the component came from, for messages.
    pub(crate) place: String,
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) role: Role,
    pub(crate) matches: Match,
    pub(crate) allowed: Allowed,
    pub(crate) limits: Limits,
    pub(crate) settings: Value,
    pub(crate) built_in: bool,
}

/// One `[[plugin]]` entry with its versions.
#[derive(Clone)]
pub(crate) struct Entry {
    /// See [`PluginInfo::entry`].
    pub(crate) name: String,
    pub(crate) config: Arc<PluginConfig>,
    /// What the site file's component was when it was last taken in.
    pub(crate) file: Digest,
    /// Decides for nodes that begin something now.
    pub(crate) active: Arc<Bound>,
    pub(crate) last_good: Option<Arc<Bound>>,
    /// Earlier versions, newest first, for nodes that began with them.
    pub(crate) held: Vec<Arc<Bound>>,
    pub(crate) quarantined: BTreeMap<Digest, String>,
}

impl Entry {
    pub(crate) fn new(name: String, config: PluginConfig, active: Arc<Bound>) -> Self {
        Self {
            name,
            config: Arc::new(config),
            file: active.plugin.digest,
            active,
            last_good: None,
            held: Vec::new(),
            quarantined: BTreeMap::new(),
        }
    }

    /// The version of this digest, unless it is quarantined.
    pub(crate) fn version(&self, digest: Digest) -> Option<&Arc<Bound>> {
        std::iter::once(&self.active)
            .chain(&self.last_good)
            .chain(&self.held)
            .find(|bound| bound.plugin.digest == digest && !self.quarantined.contains_key(&digest))
    }

    /// The entry with another active version; what was active is the one to go back to.
    pub(crate) fn switched(&self, to: Arc<Bound>) -> Self {
        let mut next = self.clone();
        let from = std::mem::replace(&mut next.active, to);
        next.quarantined.remove(&next.active.plugin.digest);
        next.held.retain(|held| held.plugin.digest != from.plugin.digest);
        next.held.insert(0, Arc::clone(&from));
        next.held.truncate(HELD);
        if !next.quarantined.contains_key(&from.plugin.digest) {
            next.last_good = Some(from);
        }
        next
    }

    /// The entry back at its last good version, with the active one in quarantine; `None` if there is no other good one.
    pub(crate) fn rolled_back(&self, why: &str) -> Option<Self> {
        let good = self.last_good.clone()?;
        if good.plugin.digest == self.active.plugin.digest {
            return None;
        }
        let mut next = self.clone();
        next.quarantined.insert(self.active.plugin.digest, why.to_owned());
        next.active = good;
        next.last_good = None;
        Some(next)
    }

    fn info(&self, shadow: bool) -> PluginInfo {
        let active = &self.active;
        PluginInfo {
            id: active.id.clone(),
            entry: self.name.clone(),
            role: active.role,
            version: active.plugin.manifest.as_ref().map(|manifest| manifest.version.clone()),
            digest: active.plugin.digest,
            matches: active.matches.clone(),
            built_in: active.built_in,
            shadow,
            granted: active.allowed.granted.clone(),
            granted_by_default: self.config.grant.is_none(),
            requested: active.allowed.requested.clone(),
            imports: active.plugin.imports.clone(),
            last_good: self.last_good.as_ref().map(|good| good.plugin.digest),
            quarantined: self.quarantined.clone(),
        }
    }
}

/// All plugins of the site, by role in the order of the site file, the built-in last.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    entries: BTreeMap<Role, Vec<Arc<Entry>>>,
    /// Those whose answers are only compared.
    shadows: BTreeMap<Role, Vec<Arc<Entry>>>,
}

impl Catalog {
    /// Adds an entry behind those that are there already.
    pub(crate) fn add(&mut self, entry: Entry) {
        self.entries.entry(entry.config.role).or_default().push(Arc::new(entry));
    }

    pub(crate) fn add_shadow(&mut self, entry: Entry) {
        self.shadows.entry(entry.config.role).or_default().push(Arc::new(entry));
    }

    /// A name for another entry of this id.
    pub(crate) fn name_for(&self, role: Role, id: &str, shadow: bool) -> String {
        let list = if shadow {
            self.shadows.get(&role)
        } else {
            self.entries.get(&role)
        };
        let same = list.into_iter().flatten().filter(|entry| entry.active.id == id).count();
        let suffix = if same == 0 {
            String::new()
        } else {
            format!("#{}", same + 1)
        };
        format!("{id}{suffix}")
    }

    /// The first entry of the role, from number `from` on, whose rule matches the node; with its number.
    pub(crate) fn find(&self, role: Role, from: usize, node: &Node, site: &SiteFacts) -> Option<(usize, &Arc<Entry>)> {
        let fact = |key: &str| facts::fact(node, site, key);
        self.of_role(role)
            .iter()
            .enumerate()
            .skip(from)
            .find(|(_, entry)| binding::matches(&entry.active.matches, fact))
    }

    /// The shadow that watches over calls of this role for the node.
    pub(crate) fn shadow(&self, role: Role, node: &Node, site: &SiteFacts) -> Option<&Arc<Bound>> {
        let list = self.shadows.get(&role)?;
        let fact = |key: &str| facts::fact(node, site, key);
        let found = list
            .iter()
            .find(|entry| binding::matches(&entry.active.matches, fact))?;
        Some(&found.active)
    }

    pub(crate) fn of_role(&self, role: Role) -> &[Arc<Entry>] {
        self.entries.get(&role).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values().chain(self.shadows.values()).flatten()
    }

    /// The entry of this name that decides.
    pub(crate) fn entry(&self, role: Option<Role>, name: &str) -> Option<&Arc<Entry>> {
        let of_role = |entry: &&Arc<Entry>| role.is_none_or(|role| entry.config.role == role);
        self.entries
            .values()
            .flatten()
            .filter(of_role)
            .find(|entry| entry.name == name)
    }

    /// The catalog with this entry in place of the one of its role and name.
    pub(crate) fn with(&self, entry: Entry) -> Self {
        let mut next = self.clone();
        let list = next.entries.entry(entry.config.role).or_default();
        if let Some(place) = list.iter_mut().find(|there| there.name == entry.name) {
            *place = Arc::new(entry);
        }
        next
    }

    pub(crate) fn list(&self) -> Vec<PluginInfo> {
        let decide = self.entries.values().flatten().map(|entry| entry.info(false));
        let watch = self.shadows.values().flatten().map(|entry| entry.info(true));
        decide.chain(watch).collect()
    }
}
