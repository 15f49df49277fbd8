//! Images that the binary makes, read by tools that nobody here wrote and booted by QEMU; and real machines deployed by
//! the real conductor, in BIOS and in UEFI mode.
//!
//! Needs the boot lab (`make setup`). The machines take the small kernel and a virtio floppy, which boot in half the time;
//! `make soak` runs the same on other machines: [`lab::Machines`].

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod deploy;
mod firmware;
mod floppy;
mod hybrid;
mod ipxe;
mod iso;
mod lab;
#[path = "../support/peers.rs"]
mod peers;
#[path = "../images/run.rs"]
mod run;
mod site;
mod take_over;
mod tool;
mod trouble;
