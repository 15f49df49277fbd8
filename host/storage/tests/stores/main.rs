//! Backends over object stores, against real ones: Swift with version 1 authentication and with Keystone, and S3 as Swift's
//! `s3api` speaks it, which checks signatures.

#[cfg(test)]
mod common;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod keystone;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod large;
#[cfg(test)]
mod nginx;
#[cfg(test)]
#[path = "../../../../tests/support/peers.rs"]
mod peers;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod relay;
#[cfg(test)]
mod s3;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod swift;
