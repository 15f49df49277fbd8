//! Booting what was deployed: from disk, or from a boot ISO that stays in the slot (`iscsi_ilo`).

use crate::bindings::farrier::driver::bmc::{self, BootDevice};
use crate::bindings::farrier::driver::config;
use crate::bindings::farrier::driver::image::{self, BootIsoSpec, IsoSource};
use crate::bindings::farrier::driver::inventory::Node;
use crate::bindings::farrier::driver::storage::{self, Location};
use crate::bindings::farrier::driver::types::{ArtefactKind, Device, Error};
use crate::{ramdisk, slots, wishes};

/// Takes the ramdisk's media away and makes the instance boot from now on.
pub(crate) fn prepare(node: &Node) -> Result<(), Error> {
    let boot_mode = wishes::boot_mode(node)?;
    ramdisk::clean_up(node)?;
    wishes::apply_boot_mode(node, boot_mode)?;
    wishes::apply_secure_boot(node)?;
    if node.fact("driver").is_none_or(|driver| driver != "iscsi_ilo") {
        return bmc::set_boot_device(node, BootDevice::Disk, true);
    }
    let (iso, artefact) = boot_iso(node)?;
    slots::put(node, Device::Cdrom, &iso, artefact)?;
    let always = bmc::set_boot_device(node, BootDevice::Cdrom, true);
    slots::undo_on_error(node, &[Device::Cdrom], always)
}

/// The instance is going away: so do its media.
pub(crate) fn clean_up(node: &Node) -> Result<(), Error> {
    ramdisk::clean_up(node)?;
    wishes::undo_secure_boot(node)
}

/// A ready ISO that the user named, or one made from the instance's kernel and ramdisk, which never expires.
fn boot_iso(node: &Node) -> Result<(Location, Option<ArtefactKind>), Error> {
    let ready = ["boot_iso", "ilo_boot_iso"]
        .into_iter()
        .find_map(|key| node.instance_info(key));
    if let Some(ready) = ready {
        let url = wishes::text("instance_info.boot_iso", &ready)?;
        return Ok((storage::external(&url)?, None));
    }
    let kernel_arguments = wishes::instance_kernel_arguments(
        node.instance_info("root_uuid_or_disk_id").as_deref(),
        node.instance_info("kernel_append_params").as_deref(),
        config::get("/instance-kernel-append-params").as_deref(),
    )?;
    let spec = BootIsoSpec {
        source: IsoSource::Instance,
        label: None,
        kernel_arguments,
        parameters: vec![],
        files: vec![],
        boot_modes: None,
    };
    let iso = image::build_boot_iso(node, &spec)?;
    Ok((storage::publish(node, &iso, 0)?, Some(ArtefactKind::BootIso)))
}
