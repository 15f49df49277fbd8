//! One room's trait to another room's type. Nothing is decided here.

pub(crate) mod backends;
mod boot_check;
mod boot_sources;
mod config_drive;
mod errors;
mod glance_urls;
mod instance_images;
mod netboot;
mod openstack;
mod owned_bmc;
mod plugin_gate;
mod plugin_pages;
mod plugins;
mod policies;
mod power;
mod publications;
mod readers;
mod recording;
mod records;
mod servers;
mod site;
mod source_cache;
mod unrecorded;

pub(crate) use site::{Site, existing_store};
pub(crate) use source_cache::{Pins, open as open_sources, pins};
