//! {{name}}: how media get into a server's slots.
//!
//! One function is its own: an empty slot is not ejected, since some BMCs answer that with an error. All others go to the
//! next plugin down the chain, whose last is Farrier's own.

wit_bindgen::generate!({ path: "wit", world: "vmedia-plugin" });

use exports::farrier::driver::vmedia::Guest;
use farrier::driver::bmc;
use farrier::driver::image::Parameter;
use farrier::driver::inventory::Node;
use farrier::driver::log::{self, Level};
use farrier::driver::storage::Location;
use farrier::driver::types::{Device, Error};
use farrier::driver::vmedia_service as next;

struct Plugin;

impl Guest for Plugin {
    fn detach(node: &Node, device: Device) -> Result<(), Error> {
        if !bmc::media_state(node, device)?.inserted {
            log::event(Level::Info, "the slot is empty already", &[]);
            return Ok(());
        }
        next::detach(node, device)
    }

    fn prepare_ramdisk(node: &Node, parameters: Vec<Parameter>) -> Result<(), Error> {
        next::prepare_ramdisk(node, &parameters)
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

    fn boot_into_iso(node: &Node, iso: &Location) -> Result<(), Error> {
        next::boot_into_iso(node, iso)
    }
}

export!(Plugin);
