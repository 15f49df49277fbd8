//! `[ilo]`

use super::{Row, equal, instead, read};
use crate::oslo::option::Kind;

const STEPS: &str = "no clean step of the iLO runs by itself before a node becomes available";

pub(super) const ROWS: &[Row] = &[
    read("ilo", "client_timeout", Kind::Whole(None, None), Some("60")).becomes("bmc.timeout-s"),
    read("ilo", "client_port", Kind::PORT, Some("443")).becomes("bmc.port"),
    read("ilo", "verify_ca", Kind::Text, Some("True")).how(
        "bmc.verify, bmc.ca",
        "True, False or a PEM file; of a folder, no certificate is taken",
    ),
    read("ilo", "ca_file", Kind::Text, None).how("bmc.ca", "deprecated: use verify_ca, which wins"),
    read("ilo", "use_web_server_for_images", Kind::Boolean, Some("False"))
        .called(&[equal("ilo", "use_http_web_server_for_images")])
        .how(
            "backend",
            "True: a web-root backend for the iLO drivers; False: a swift backend",
        ),
    read("ilo", "swift_ilo_container", Kind::Text, Some("ironic_ilo_container")).becomes("backend.container"),
    read(
        "ilo",
        "swift_object_expiry_timeout",
        Kind::Whole(None, None),
        Some("900"),
    )
    .how(
        "backend.lifetime-s",
        "raised to the longest wait that it serves; where it is not set, as long as that wait",
    ),
    read("ilo", "file_permission", Kind::Whole(None, None), Some("420"))
        .how("backend.mode", "a decimal number, as Ironic reads it: 420 is 0644"),
    read("ilo", "kernel_append_params", Kind::Text, Some("nofb vga=normal"))
        .how("images.kernel-append-params", "%default% stands for the default"),
    read(
        "ilo",
        "default_boot_mode",
        Kind::Choice(&["auto", "bios", "uefi"]),
        Some("auto"),
    )
    .becomes("images.default-boot-mode"),
    instead("ilo", "clean_priority_reset_ilo", STEPS),
    instead("ilo", "clean_priority_reset_bios_to_default", STEPS),
    instead("ilo", "clean_priority_reset_secure_boot_keys_to_default", STEPS),
    instead("ilo", "clean_priority_clear_secure_boot_keys", STEPS),
    instead("ilo", "clean_priority_reset_ilo_credential", STEPS),
    instead(
        "ilo",
        "clean_priority_erase_devices",
        "the ramdisk's own steps erase devices",
    ),
    instead(
        "ilo",
        "oob_erase_devices_job_status_interval",
        "devices are erased by the ramdisk, not by the iLO",
    ),
    instead(
        "ilo",
        "power_retry",
        "the power state is read until [conductor] power_state_change_timeout",
    ),
    instead(
        "ilo",
        "power_wait",
        "the power state is read about once a second while it changes",
    ),
    instead("ilo", "cert_path", "no certificate is kept for the iLO"),
];
