//! Stories over the real binary: `farrier serve` as a process, simulated servers that speak Redfish and the deploy agent's
//! protocol, an HTTP server with the disk image, and a client of the API. Each test's name is what it claims.
//!
//! Nothing waits for a fixed time: [`wait::until`] looks until a condition holds, and fails after a bound. Each story has a
//! folder and loopback addresses of its own, so they run at the same time.

#![expect(clippy::print_stderr, reason = "a story that fails shows the conductors' logs")]

mod bad_bmc;
mod bad_images;
mod bad_settings;
mod bad_store;
mod client;
mod commands;
mod conductor;
mod deploying;
mod disk_images;
mod envelope;
mod full_disk;
mod image_listener;
mod image_server;
mod interruptions;
mod ironic_settings;
mod loaders;
mod membership;
mod netboot;
mod object_stores;
#[path = "../support/peers.rs"]
mod peers;
mod plugins;
mod requests;
mod secrets;
mod site;
mod take_over_active;
mod take_over_waiting;
mod unread;
mod wait;
mod waits;
