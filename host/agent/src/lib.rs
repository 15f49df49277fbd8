//! Client of the deploy agent's command API (ironic-python-agent, and whatever speaks as it does).
//!
//! An agent calls in from a server that we have just booted and names the URL of its own API; that URL is the word of a
//! stranger. So it is checked against the site's networks ([`CallbackPolicy`]), redirects are not followed, every request has
//! a deadline, replies are bounded, and the agent's certificate is pinned as it was at its first heartbeat.
//! What to ask an agent, and when, is decided elsewhere.

mod callback;
mod client;
mod command;
mod error;
mod image;
mod tls;

pub use callback::{CallbackError, CallbackPolicy};
pub use client::{AgentAddress, AgentClient};
pub use command::{AgentStep, CommandFailure, CommandState, CommandStatus, StepList};
pub use error::AgentError;
pub use image::{DiskFormat, ImageInfo};
