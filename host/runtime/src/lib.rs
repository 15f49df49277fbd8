//! The plugin host: the only crate that knows Wasmtime.
//!
//! A [`Runtime`] holds the site's plugins, compiled once. Each call gets a fresh store from a cached pre-instance; every
//! host call of the guest goes through one broker: grants → budget → envelope → journal → do → journal its result. A guest
//! that traps, spins, hoards or asks for what it was not granted ends its own call with a typed error and nothing else.
//! Image bytes and secrets never enter a guest.
//!
//! What the world is stands behind [`World`]: [`live`] is the real one.

mod abi;
mod binding;
mod broker;
mod call;
mod calls;
mod catalog;
mod change;
mod check;
mod compiled;
mod component;
mod engine;
mod envelope;
mod error;
mod explain;
mod facts;
mod glob;
mod grants;
mod health;
mod inspect;
mod limits;
pub mod live;
mod load;
mod load_error;
pub mod manifest;
mod nouns;
mod parts;
mod pins;
mod report;
mod run;
mod section;
mod shadow;
mod start;
mod swap;
mod take_over;
mod told;
mod versions;
mod watched;
mod world;

pub use binding::Match;
pub use call::{Called, Runtime, RuntimeConfig, VendorMethod};
pub use calls::{
    BootIsoSpec, FloppySpec, HostCall, ImageHandle, ImageInfo, InsertOptions, IsoSource, Level, LocationHandle,
    LocationInfo, Media, Parameter, RawReply, Renewal, Reply, SmallFile, Value, Versioned,
};
pub use catalog::{ComponentSource, PluginConfig, PluginInfo, Role};
pub use change::{Change, GrantDiff, SwapError, VersionInfo};
pub use engine::Engine;
pub use error::{CallError, CallFailure, DriverError, LEASE_ENDING};
pub use explain::{Decider, Explanation, FunctionRight, Right, Rule};
pub use facts::{SiteFacts, capability};
pub use grants::{Functions, Grants, ImageGrant, RawGrant, StorageGrant};
pub use health::RollbackRule;
pub use inspect::{Inspection, Needs, inspect};
pub use limits::Limits;
pub use load::built_in;
pub use load_error::LoadError;
pub use report::{CallReport, Observer, Outcome, Unobserved};
pub use shadow::{ShadowReport, Verdict};
pub use swap::{Gate, SeenFiles, Trial};
pub use take_over::{InterruptedStep, Observation, ObservedArtefact, Repeat, Step, UrlState};
pub use told::told_step;
pub use world::{CallContext, Candidate, Choice, Location, Placement, Request, Session, World};
