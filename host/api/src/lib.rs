//! The listeners: Ironic's REST API and Farrier's own beside it ([`router`]), the part of it that ramdisks may reach
//! ([`agent_router`]), and the images that BMCs fetch ([`images`]).
//!
//! The only crate that decides a status. Handlers turn requests into typed values, record wishes on node records, wake the
//! conductor and answer; they never do the work. Everything that a client sends is hostile: bodies, queries, heads and waits
//! are bounded.

mod agent;
mod auth;
mod body;
mod drivers;
mod error;
mod events;
mod health;
pub mod images;
mod json_patch;
pub mod listen;
mod nodes;
mod own;
mod plugins;
mod ports;
mod router;
mod secrets;
mod state;
mod time;
pub mod tls;
mod version;

pub use agent::{AcceptHeartbeat, AgentPolicy};
pub use auth::{Auth, Users, UsersError};
pub use router::{agent_router, router, serve};
pub use state::{ApiState, CheckBoot, PackConfigDrive, PluginRefusal, Plugins, Site, VendorMethod, Wake};
