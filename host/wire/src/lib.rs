//! JSON shapes that the API answers with and clients read: Ironic's REST as far as Farrier serves it ([`ironic`]), and
//! Farrier's own under `/farrier/v1` ([`farrier`]).
//!
//! Only shapes: no rule, no default that means something, no I/O. Times are text in RFC 3339, UTC, with microseconds. Readers
//! are lenient: a field that is absent (`?fields=` leaves most out) reads as empty.

pub mod farrier;
pub mod ironic;
