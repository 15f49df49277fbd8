//! Why a plugin decides for a node, and what it may do there.

use model::{Digest, Node};

use crate::binding;
use crate::call::Runtime;
use crate::catalog::{Bound, Entry, Role};
use crate::change::imported;
use crate::facts;
use crate::{Grants, Match};

/// What holds for one node in one role.
#[derive(Clone, PartialEq, Debug)]
pub struct Explanation {
    /// Which role.
    pub role: Role,
    /// Every entry in the order in which it is tried; the first that matches decides.
    pub rules: Vec<Rule>,
    /// What decides, if anything does.
    pub decides: Option<Decider>,
    /// The node runs an instance: effects on it are denied unless an operator asked for them.
    pub active_node: bool,
}

/// One entry and its rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The entry's name.
    pub entry: String,
    /// Its rule; empty = every node.
    pub matches: Match,
    /// The facts that are not as the rule wants them, in words; empty = it matches.
    pub unmet: Vec<String>,
}

/// The plugin that decides.
#[derive(Clone, PartialEq, Debug)]
pub struct Decider {
    /// The entry's name.
    pub entry: String,
    /// Its id.
    pub id: String,
    /// Of its manifest.
    pub version: Option<String>,
    /// Identity of its bytes.
    pub digest: Digest,
    /// The node keeps this version until it is active or back.
    pub pinned: bool,
    /// Each function that it asks for, and whether it may call it.
    pub functions: Vec<FunctionRight>,
    /// What the site grants, with scopes.
    pub granted: Grants,
    /// The site says nothing of grants: the role's default holds.
    pub granted_by_default: bool,
    /// What the manifest asks for, with scopes.
    pub requested: Option<Grants>,
}

/// Whether a plugin may call a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionRight {
    /// "bmc.eject".
    pub function: String,
    /// What holds.
    pub right: Right,
}

/// What holds for a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// Asked for and granted; scopes may still bound it.
    Allowed,
    /// Asked for and not granted: it answers `denied`.
    NotGranted,
    /// Granted and not asked for: it answers `denied`.
    NotRequested,
}

impl Right {
    /// In a word or two.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::NotGranted => "not granted",
            Self::NotRequested => "not requested",
        }
    }
}

impl Runtime {
    /// For each role: which plugin decides for the node, why, and what it may do.
    pub fn explain(&self, node: &Node) -> Vec<Explanation> {
        Role::ALL
            .into_iter()
            .map(|role| self.explain_role(role, node))
            .collect()
    }

    fn explain_role(&self, role: Role, node: &Node) -> Explanation {
        let inner = &self.inner;
        let catalog = inner.catalog();
        let fact = |key: &str| facts::fact(node, &inner.site_facts, key);
        let rule = |entry: &std::sync::Arc<Entry>| Rule {
            entry: entry.name.clone(),
            matches: entry.active.matches.clone(),
            unmet: binding::unmet(&entry.active.matches, fact),
        };
        let decides = catalog.find(role, 0, node, &inner.site_facts).map(|(_, entry)| {
            let pin = inner
                .pins
                .of(entry, node)
                .filter(|digest| entry.version(*digest).is_some());
            let version = pin.and_then(|digest| entry.version(digest)).unwrap_or(&entry.active);
            decider(entry, version, pin.is_some())
        });
        Explanation {
            role,
            rules: catalog.of_role(role).iter().map(rule).collect(),
            decides,
            active_node: node.provision_state.is_active(),
        }
    }
}

fn decider(entry: &Entry, version: &Bound, pinned: bool) -> Decider {
    let granted = &version.allowed.granted;
    let asked = match &version.allowed.requested {
        Some(requested) => requested.functions(),
        None => {
            let mut asked = imported(&version.plugin.imports).functions();
            // Their scope is the grant's.
            asked.extend(
                version
                    .plugin
                    .imports
                    .iter()
                    .filter(|name| name.starts_with("bmc-raw."))
                    .cloned(),
            );
            asked
        }
    };
    let has = granted.functions();
    let mut functions: Vec<FunctionRight> = asked
        .iter()
        .map(|function| FunctionRight {
            function: function.clone(),
            right: match has.contains(function) {
                true => Right::Allowed,
                false => Right::NotGranted,
            },
        })
        .collect();
    // A default grant is not told function by function: nobody chose it.
    if entry.config.grant.is_some() {
        let unasked = has.iter().filter(|function| !asked.contains(function));
        functions.extend(unasked.map(|function| FunctionRight {
            function: function.clone(),
            right: Right::NotRequested,
        }));
    }
    Decider {
        entry: entry.name.clone(),
        id: version.id.clone(),
        version: version
            .plugin
            .manifest
            .as_ref()
            .map(|manifest| manifest.version.clone()),
        digest: version.plugin.digest,
        pinned,
        functions,
        granted: granted.clone(),
        granted_by_default: entry.config.grant.is_none(),
        requested: version.allowed.requested.clone(),
    }
}
