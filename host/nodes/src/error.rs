//! Why the store refused or failed.

/// One variant per thing that a caller does differently.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody wrote the record since it was read: read again and decide again.
    #[error("node {node} was changed by somebody else meanwhile; read it again")]
    VersionConflict {
        /// Which node.
        node: String,
    },
    /// The writer no longer holds the node.
    #[error("conductor {conductor} no longer holds node {node} (its term {term} is over)")]
    StaleTerm {
        /// Which node.
        node: String,
        /// Who wanted to write.
        conductor: String,
        /// With which term.
        term: u64,
    },
    /// The conductor's lease ran out.
    #[error("the lease of conductor {conductor} ran out")]
    LeaseLost {
        /// Whose.
        conductor: String,
    },
    /// A name, a UUID or an address is taken.
    #[error("{what} `{value}` is taken already{by}")]
    Duplicate {
        /// "node name", "node UUID", "MAC address".
        what: &'static str,
        /// Which.
        value: String,
        /// " by node …" where known, else empty.
        by: String,
    },
    /// No such thing.
    #[error("there is no {what} `{value}`")]
    NotFound {
        /// "node", "port", …
        what: &'static str,
        /// Which.
        value: String,
    },
    /// A live process has this conductor's name.
    #[error("a conductor named `{name}` is alive already; give this one another [conductor] name or stop the other")]
    NameInUse {
        /// The name.
        name: String,
    },
    /// Conductors of one site must agree on a setting.
    #[error("[agent] urls differ: this conductor has {ours}, the site has {theirs}; make them equal")]
    SiteMismatch {
        /// This conductor's list.
        ours: String,
        /// The list of the conductors that are alive.
        theirs: String,
    },
    /// A plugin's value has another version than expected.
    #[error("the value `{key}` has version {found}, not the expected one")]
    ValueConflict {
        /// Which value.
        key: String,
        /// Its version; 0 = absent.
        found: u64,
    },
    /// It does not fit.
    #[error("{what} is too big for the store: {reason}")]
    TooBig {
        /// "the record of node …", "the value `…`".
        what: String,
        /// What is over which limit.
        reason: String,
    },
    /// The key that secrets are sealed with cannot be used.
    #[error("the secret key {path} cannot be used: {reason}")]
    Key {
        /// Its file.
        path: String,
        /// Why, and what to do.
        reason: String,
    },
    /// What the disk holds cannot be understood, or not be unsealed with this key.
    #[error("{place} cannot be read: {reason}")]
    Corrupt {
        /// Which file or record.
        place: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The database itself failed (disk full, I/O error, locked too long).
    #[error("the store at {place} could not {action}: {reason}")]
    Database {
        /// Which file.
        place: String,
        /// What we tried.
        action: &'static str,
        /// In the database's words, with the remedy where there is one.
        reason: String,
    },
}
