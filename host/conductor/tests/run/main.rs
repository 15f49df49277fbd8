//! The running conductor over a real store, with servers, agents and policies that record what is done to them.
//!
//! The world in here is no kinder than the real one: it notes as a violation whatever a site must never see (a call by
//! somebody who no longer holds the node, two calls at once, power or media of an active server touched unasked, media taken
//! from under a running ramdisk), and every test ends by asking for violations.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

mod agent_sim;
mod called_off;
mod deploy;
mod failures;
mod hands;
mod lease;
mod netboot;
mod operator;
mod scale;
mod site;
mod take_over;
mod unread;
mod world;
