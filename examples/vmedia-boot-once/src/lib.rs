//! How does a site change the way in which media get into its servers? With a `vmedia` plugin like this one.
//!
//! It prepares a ramdisk in its own order: the CD goes in before the floppy, and the BMC is told to boot it once with its
//! own flag (HPE's `BootOnNextServerReset`) rather than by a boot device. All else goes down the chain, to the built-in
//! policy. See README.md for how to build it and switch it on.

mod bindings;

use bindings::exports::farrier::driver::vmedia::Guest;
use bindings::farrier::driver::bmc::{self, InsertOptions};
use bindings::farrier::driver::image::{self, BootIsoSpec, FloppySpec, IsoSource, Parameter};
use bindings::farrier::driver::inventory::Node;
use bindings::farrier::driver::log::{self, Level};
use bindings::farrier::driver::storage::{self, Location};
use bindings::farrier::driver::types::{Device, Error};
use bindings::farrier::driver::vmedia_service as next;

/// Long enough for the slowest server of this site to call back.
const LIFETIME_S: u32 = 3600;

struct Plugin;

impl Guest for Plugin {
    fn prepare_ramdisk(node: &Node, parameters: Vec<Parameter>) -> Result<(), Error> {
        let floppy = image::build_floppy(
            node,
            &FloppySpec {
                label: None,
                parameters,
                files: vec![],
            },
        )?;
        let iso = image::build_boot_iso(
            node,
            &BootIsoSpec {
                source: IsoSource::Deploy,
                label: None,
                kernel_arguments: None,
                parameters: vec![],
                files: vec![],
                boot_modes: None,
            },
        )?;
        let iso = storage::publish(node, &iso, LIFETIME_S)?;
        let floppy = storage::publish(node, &floppy, LIFETIME_S)?;
        log::event(
            Level::Info,
            "inserting the CD, to be booted once, before the floppy",
            &[],
        );
        insert(node, Device::Cdrom, &iso, true)?;
        insert(node, Device::Floppy, &floppy, false).inspect_err(|_| {
            // A CD without its floppy would boot a ramdisk that cannot find its conductor.
            let _ = bmc::eject(node, Device::Cdrom);
        })
    }

    fn clean_up_ramdisk(node: &Node) -> Result<(), Error> {
        next::clean_up_ramdisk(node)
    }

    fn prepare_instance(node: &Node) -> Result<(), Error> {
        next::prepare_instance(node)
    }

    fn clean_up_instance(node: &Node) -> Result<(), Error> {
        next::clean_up_instance(node)
    }

    fn attach(node: &Node, device: Device, location: &Location) -> Result<(), Error> {
        next::attach(node, device, location)
    }

    fn detach(node: &Node, device: Device) -> Result<(), Error> {
        next::detach(node, device)
    }

    fn boot_into_iso(node: &Node, iso: &Location) -> Result<(), Error> {
        next::boot_into_iso(node, iso)
    }
}

fn insert(node: &Node, device: Device, location: &Location, boot_once: bool) -> Result<(), Error> {
    let options = InsertOptions {
        write_protected: true,
        boot_once,
        server_certificate: None,
    };
    bmc::insert(node, device, location, &options)
}

#[expect(unsafe_code, reason = "generated: exported functions cross the component boundary")]
mod exports {
    use crate::Plugin;
    crate::bindings::export!(Plugin with_types_in crate::bindings);
}
