//! Booting the deploy, clean, inspection or rescue ramdisk.

use crate::bindings::farrier::driver::bmc::{self, BootDevice};
use crate::bindings::farrier::driver::config;
use crate::bindings::farrier::driver::image::{self, BootIsoSpec, FloppySpec, IsoSource, Parameter};
use crate::bindings::farrier::driver::inventory::Node;
use crate::bindings::farrier::driver::storage;
use crate::bindings::farrier::driver::types::{ArtefactKind, Device, Error};
use crate::{slots, wishes};

/// Floppy with the parameters and boot ISO: built, published, inserted; the next boot is from the CD.
pub(crate) fn prepare(node: &Node, parameters: Vec<Parameter>) -> Result<(), Error> {
    let boot_mode = wishes::boot_mode(node)?;
    let lifetime_s = wishes::lifetime_s(
        node.fact("site.callback-timeout-s").as_deref(),
        config::get("/ramdisk-lifetime-s").as_deref(),
    );
    let floppy = image::build_floppy(
        node,
        &FloppySpec {
            label: None,
            parameters,
            files: vec![],
        },
    )?;
    let iso = image::build_boot_iso(node, &boot_iso(node))?;
    let floppy = storage::publish(node, &floppy, lifetime_s)?;
    let iso = storage::publish(node, &iso, lifetime_s)?;

    wishes::apply_boot_mode(node, boot_mode)?;
    // Both slots are emptied before either is filled: a firmware must not boot what an earlier run left behind.
    bmc::eject(node, Device::Floppy)?;
    bmc::eject(node, Device::Cdrom)?;
    // Floppy first: a ramdisk that finds its CD without the parameters gives up.
    slots::put(node, Device::Floppy, &floppy, Some(ArtefactKind::Floppy))?;
    let cdrom = slots::put(node, Device::Cdrom, &iso, Some(ArtefactKind::BootIso));
    slots::undo_on_error(node, &[Device::Floppy], cdrom)?;
    let once = bmc::set_boot_device(node, BootDevice::Cdrom, false);
    slots::undo_on_error(node, &[Device::Cdrom, Device::Floppy], once)
}

/// Media out, floppy and boot ISO withdrawn. Each is tried, whatever became of the others; the first error is returned.
pub(crate) fn clean_up(node: &Node) -> Result<(), Error> {
    let done = [
        bmc::eject(node, Device::Cdrom),
        bmc::eject(node, Device::Floppy),
        // The floppy holds the agent's token, so it goes even if a slot could not be emptied.
        storage::withdraw(node, ArtefactKind::Floppy),
        storage::withdraw(node, ArtefactKind::BootIso),
    ];
    done.into_iter().collect()
}

fn boot_iso(node: &Node) -> BootIsoSpec {
    let rescue = matches!(node.provision_state().as_str(), "rescuing" | "rescue wait");
    let kernel_arguments = wishes::kernel_arguments(
        node.instance_info("kernel_append_params")
            .or_else(|| node.driver_info("kernel_append_params"))
            .as_deref(),
        config::get("/kernel-append-params").as_deref(),
    );
    BootIsoSpec {
        source: if rescue { IsoSource::Rescue } else { IsoSource::Deploy },
        label: None,
        kernel_arguments,
        parameters: vec![],
        files: vec![],
        boot_modes: None,
    }
}
