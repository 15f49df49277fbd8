//! The Redfish client against a peer that scripts every answer and records every request.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod conversation;
mod corpus;
mod emulator;
mod ilo5;
mod matrix;
mod media;
mod peer;
mod probe;
mod record;
mod ris;
mod ris_simulated;
mod server;
mod tls;
mod vendors;
