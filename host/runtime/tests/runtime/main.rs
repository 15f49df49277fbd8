//! The plugin host with compiled guests over a world in memory, and its live world over small doubles.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod built_in;
mod contract;
mod envelope;
mod live;
mod loading;
mod misbehaviour;
mod shadow;
mod support;
mod swap;
mod swapped;
mod vendor;
mod world;
