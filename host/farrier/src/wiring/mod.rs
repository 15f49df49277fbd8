//! One room's trait to another room's type. Nothing is decided here.

mod boot_check;
mod boot_sources;
mod errors;
mod owned_bmc;
mod plugins;
mod policies;
mod power;
mod publications;
mod readers;
mod records;
mod servers;
mod site;
mod unrecorded;

pub(crate) use site::Site;
