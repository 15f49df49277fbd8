//! The RIBCL client against a peer that scripts every answer and records every command, over plain HTTP, over TLS 1.0, and
//! in iLO 2's raw form.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod conversation;
mod corpus;
mod legacy;
mod peer;
mod probe;
mod simulated;
mod verbs;
