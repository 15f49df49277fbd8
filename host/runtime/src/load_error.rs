//! Why a plugin was not loaded. Every message says what to do.

use model::Digest;

use crate::Role;

/// Why a component was not loaded. Each says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("could not read the plugin {place}: check the path `component` in farrier.toml")]
    Read {
        /// Which file.
        place: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// It is too large.
    #[error("the plugin {place} has {size} bytes, and {most} are allowed: strip it, or leave its runtime out")]
    TooLarge {
        /// Which file.
        place: String,
        /// Its size.
        size: u64,
        /// The most.
        most: usize,
    },
    /// It is another component than the site asked for.
    #[error("the plugin {place} is {found}, and farrier.toml wants {wanted}: use the right file or correct `digest`")]
    Digest {
        /// Which file.
        place: String,
        /// Its digest.
        found: Digest,
        /// The one in the site file.
        wanted: Digest,
    },
    /// It is a core module.
    #[error(
        "the plugin {place} is a core module, not a component: in Rust build it for wasm32-unknown-unknown with \
         RUSTFLAGS=\"-C linker=wasm-component-ld\"; for other languages `wasm-tools component new` makes one of it"
    )]
    CoreModule {
        /// Which file.
        place: String,
    },
    /// It does not compile.
    #[error("the plugin {place} is not a valid component: {reason}")]
    Invalid {
        /// Which file.
        place: String,
        /// The compiler's words.
        reason: String,
    },
    /// It wants WASI.
    #[error(
        "the plugin {place} imports {interfaces}, and no WASI interface is offered: in Rust build it for \
         wasm32-unknown-unknown (not wasm32-wasip2); in Python add --stub-wasi; in JavaScript disable all features \
         (`--disable all`); in C leave stdio out"
    )]
    Wasi {
        /// Which file.
        place: String,
        /// What it imports.
        interfaces: String,
    },
    /// It was built for another version of the contract.
    #[error(
        "the plugin {place} needs {needs}, this host offers {offers}: build it against that version, or update Farrier"
    )]
    Version {
        /// Which file.
        place: String,
        /// Package and version, as `farrier:driver@0.3`.
        needs: String,
        /// What there is, as `0.1`.
        offers: &'static str,
    },
    /// It imports what its role does not have.
    #[error("the plugin {place} imports {interface}, which a plugin of the role `{role}` does not have: {remedy}")]
    Import {
        /// Which file.
        place: String,
        /// What it imports.
        interface: String,
        /// Its role in the site file.
        role: Role,
        /// What to do.
        remedy: String,
    },
    /// It does not export what its role must.
    #[error(
        "the plugin {place} does not export {export}: build it for the world `{role}-plugin`, or correct `role` in farrier.toml"
    )]
    Export {
        /// Which file.
        place: String,
        /// What is missing.
        export: String,
        /// Its role in the site file.
        role: Role,
    },
    /// Types differ from the contract's.
    #[error("the plugin {place} does not fit the contract: {reason}; build it against the released files in wit/")]
    Types {
        /// Which file.
        place: String,
        /// What differs.
        reason: String,
    },
    /// It would never fit into the pool or its limits.
    #[error("the plugin {place} needs {figure}, and {most} are allowed: {remedy}")]
    TooBig {
        /// Which file.
        place: String,
        /// "12910592 bytes of memory".
        figure: String,
        /// The most.
        most: String,
        /// What to do.
        remedy: String,
    },
    /// There is no engine to run it on.
    #[error("the plugin host could not be started: {0}")]
    Engine(String),
    /// It could not be started.
    #[error("the plugin {place} could not be started: {reason}")]
    Start {
        /// Which file.
        place: String,
        /// Why.
        reason: String,
    },
    /// What it says of itself cannot be read, or cannot be meant.
    #[error("the plugin {place} cannot be used")]
    Manifest {
        /// Which file.
        place: String,
        /// What is wrong.
        #[source]
        source: crate::manifest::ManifestError,
    },
    /// It was built for another role.
    #[error(
        "the plugin {place} is for the role `{found}`, and farrier.toml gives it the role `{role}`: correct `role` there"
    )]
    Role {
        /// Which file.
        place: String,
        /// In its manifest.
        found: Role,
        /// In the site file.
        role: Role,
    },
    /// It requires more than the site grants it.
    #[error(
        "the plugin {place} requires what it is not granted: {}; add that to its `grant` in farrier.toml, or leave the \
         plugin out", gaps.join(", ")
    )]
    Gaps {
        /// Which file.
        place: String,
        /// Every one, by the name that a denial has.
        gaps: Vec<String>,
    },
    /// It has failed here before.
    #[error(
        "the plugin {place} is quarantined ({reason}), and no good version of it is left: `farrier plugin use --again` \
         takes it back, or name another file"
    )]
    Quarantined {
        /// Which file.
        place: String,
        /// Why.
        reason: String,
    },
    /// The folder where versions are kept cannot be used.
    #[error("could not use the folder {place} for plugins: {remedy}")]
    Folder {
        /// Which folder.
        place: String,
        /// What to do.
        remedy: String,
        /// The cause.
        #[source]
        source: Option<std::io::Error>,
    },
    /// The settings are no JSON object.
    #[error("`settings` of the plugin {place} must be a table")]
    Settings {
        /// Which file.
        place: String,
    },
}
