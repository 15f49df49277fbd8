//! What is told when another version of a plugin takes over, and why one does not.

use std::time::SystemTime;

use model::Digest;

use crate::{Grants, LoadError, Role};

/// Another version decides.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// When.
    pub at: SystemTime,
    /// What the plugin is used for.
    pub role: Role,
    /// Which entry of the site file.
    pub entry: String,
    /// What decided so far.
    pub from: VersionInfo,
    /// What decides now.
    pub to: VersionInfo,
    /// In words.
    pub why: String,
    /// Nobody asked for it: the version before has failed.
    pub automatic: bool,
    /// How the two differ in what they ask for.
    pub grants: GrantDiff,
}

/// A version of a plugin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionInfo {
    /// Identity of its bytes.
    pub digest: Digest,
    /// Of its manifest.
    pub version: Option<String>,
}

/// How what two versions ask for differs. Versions without a manifest are compared by what they import.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GrantDiff {
    /// The new one asks for it, the old one did not.
    pub more: Vec<String>,
    /// The old one asked for it, the new one does not.
    pub less: Vec<String>,
    /// The new one asks for it, and the site does not grant it.
    pub denied: Vec<String>,
}

/// Why a version was not taken into use. What decided so far goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwapError {
    /// There is no such entry.
    #[error("there is no plugin `{entry}` that could be swapped; there are: {known}")]
    Unknown {
        /// What was asked for.
        entry: String,
        /// What there is.
        known: String,
    },
    /// Two roles have an entry of this name.
    #[error("`{entry}` is there in several roles: name the role too")]
    Ambiguous {
        /// What was asked for.
        entry: String,
    },
    /// It could not be loaded.
    #[error("the new version was refused")]
    Refused(#[source] LoadError),
    /// It is another plugin.
    #[error("`{found}` is another plugin than `{entry}`: give it an entry of its own in farrier.toml")]
    OtherPlugin {
        /// The entry.
        entry: String,
        /// The id in the manifest of what was given.
        found: String,
    },
    /// It has failed here before.
    #[error("{digest} is quarantined: {why}; `farrier plugin use --again` takes it back")]
    Quarantined {
        /// Which version.
        digest: Digest,
        /// Why.
        why: String,
    },
    /// A scenario that it brings does not pass.
    #[error("the new version does not pass its own scenarios: {0}")]
    Scenarios(String),
    /// There is nothing to go back to.
    #[error("`{entry}` has no earlier good version")]
    NoGoodVersion {
        /// The entry.
        entry: String,
    },
    /// A thread of the host failed.
    #[error("the host failed: {0}")]
    Host(String),
}

impl GrantDiff {
    pub(crate) fn of(from: (&Option<Grants>, &[String]), to: (&Option<Grants>, &[String]), granted: &Grants) -> Self {
        let asked = |(requested, imports): (&Option<Grants>, &[String])| match requested {
            Some(requested) => requested.clone(),
            None => imported(imports),
        };
        let (old, new) = (asked(from), asked(to));
        Self {
            more: new.gaps(&old),
            less: old.gaps(&new),
            denied: new.gaps(granted),
        }
    }
}

/// What a component without a manifest asks for.
pub(crate) fn imported(imports: &[String]) -> Grants {
    let mut grants = Grants::default();
    for name in imports {
        // Functions that need no grant, and raw requests, whose scope nobody has told.
        let _ = grants.add(name);
    }
    grants
}
