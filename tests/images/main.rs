//! `farrier image` as a tool: what it makes, reads and serves, beside tools that nobody here wrote, and with what it cannot
//! use. Needs no boot lab; the Debian packages that a test needs are named when they are missing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod made;
mod read;
mod remote;
mod run;
mod serve;
mod share;
mod trouble;
