//! One module for each version of the contract that this host offers: bindings and conversions, nothing else.

pub(crate) mod v0_1;
