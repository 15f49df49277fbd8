//! Schedules, leases, decides and runs what happens to nodes. Only this crate moves a provision state.
//!
//! [`machine`] and `decide` are pure: a record, what was seen and the time go in, the next action comes out. The running
//! conductor ([`Conductor::start`]) carries it out through the traits [`Policies`], [`Power`] and [`Publications`], each step
//! named on the record before it begins, so that a successor can go on from there. What a user asks for arrives as a wish on
//! the record; handlers of the API check it with [`machine::accepts`] and heartbeats with [`heartbeat::accept`].

pub mod config_drive;
mod decide;
mod hands;
pub mod heartbeat;
mod instance;
mod lease;
pub mod machine;
mod parameters;
mod run;
mod schedule;
mod step;
#[cfg(test)]
mod testing;
mod wanted;

pub use hands::{
    BootImage, CallError, Errand, ErrorClass, Observation, ObservedArtefact, Parameter, ParameterValue, Policies,
    Power, Publications,
};
pub use instance::{InstanceError, validate_instance, validate_with};
pub use lease::LeaseClock;
pub use run::{Conductor, ConductorConfig, Hands, Running, StartError, Timeouts, Waker};
pub use schedule::home;
pub use wanted::{WantedChecksum, WantedFormat, WantedImage};
