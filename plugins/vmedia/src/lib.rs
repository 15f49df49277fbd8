//! The default policy for virtual media: how a ramdisk, an instance or an operator's ISO gets into a server's slots.
//!
//! Power is never touched here: the conductor calls these functions with the server off or about to be reset.
//! Settings: `ramdisk-lifetime-s` (how long floppy and deploy ISO must be fetchable; never less than the wait for the
//! ramdisk), `kernel-append-params`, `instance-kernel-append-params`.

mod bindings;
mod instance;
mod ramdisk;
mod slots;
mod wishes;

use bindings::exports::farrier::driver::vmedia::Guest;
use bindings::farrier::driver::bmc::{self, BootDevice};
use bindings::farrier::driver::image::Parameter;
use bindings::farrier::driver::inventory::Node;
use bindings::farrier::driver::storage::Location;
use bindings::farrier::driver::types::{Device, Error};

struct Plugin;

impl Guest for Plugin {
    fn prepare_ramdisk(node: &Node, parameters: Vec<Parameter>) -> Result<(), Error> {
        ramdisk::prepare(node, parameters)
    }

    fn clean_up_ramdisk(node: &Node) -> Result<(), Error> {
        ramdisk::clean_up(node)
    }

    fn prepare_instance(node: &Node) -> Result<(), Error> {
        instance::prepare(node)
    }

    fn clean_up_instance(node: &Node) -> Result<(), Error> {
        instance::clean_up(node)
    }

    fn attach(node: &Node, device: Device, location: &Location) -> Result<(), Error> {
        slots::put(node, device, location, None)
    }

    fn detach(node: &Node, device: Device) -> Result<(), Error> {
        bmc::eject(node, device)
    }

    fn boot_into_iso(node: &Node, iso: &Location) -> Result<(), Error> {
        slots::put(node, Device::Cdrom, iso, None)?;
        let once = bmc::set_boot_device(node, BootDevice::Cdrom, false);
        slots::undo_on_error(node, &[Device::Cdrom], once)
    }
}

#[expect(unsafe_code, reason = "generated: exported functions cross the component boundary")]
mod exports {
    use crate::Plugin;
    crate::bindings::export!(Plugin with_types_in crate::bindings);
}
