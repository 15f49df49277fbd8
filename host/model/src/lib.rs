//! The nouns that every room shares: nodes and their states, servers' power and media, artefacts, digests, secrets.
//!
//! Nothing here does I/O and nothing here is serialisable: the store, the API and the wire each have shapes of their own.

mod artefact;
mod conductor;
mod digest;
mod id;
mod network;
mod node;
mod secret;
mod server;
mod state;
pub mod take_over;

pub use artefact::{ArtefactKind, ArtefactName};
pub use conductor::{ConductorName, Tenure};
pub use digest::{Digest, ParseDigestError, Sha256};
pub use id::{MacAddress, NodeId, NodeName, ParseIdError};
pub use network::{Network, ParseNetworkError};
pub use node::{AgentContact, BootInterface, Driver, Fault, Fields, Node, Port, Wish};
pub use secret::Secret;
pub use server::{BmcAddress, BootDevice, BootMode, Device, Media, PowerAction, PowerState, ServerIdentity};
pub use state::{ProvisionState, UnknownState, Verb};
