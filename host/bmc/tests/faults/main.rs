//! The clients against simulated BMCs on which everything goes wrong, against recordings of them, and against many at once.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod images;
mod known;
mod many;
mod replay;
mod support;
mod sweep;
