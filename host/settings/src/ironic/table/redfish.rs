//! `[redfish]`

use super::{Row, instead, read};
use crate::oslo::option::Kind;

const DIALOGUE: &str = "the dialogue with the BMC has its own deadlines and retries";
const FIRMWARE: &str = "firmware is not updated";
const INSPECTION: &str = "inspection has no hooks";

pub(super) const ROWS: &[Row] = &[
    read("redfish", "use_swift", Kind::Boolean, Some("False")).how(
        "backend",
        "True: a swift backend for the Redfish drivers; False: the web server if [deploy] http_url is set, else the conductor itself",
    ),
    read("redfish", "swift_container", Kind::Text, Some("ironic_redfish_container")).becomes("backend.container"),
    read("redfish", "swift_object_expiry_timeout", Kind::Whole(None, None), Some("900"))
        .how("backend.lifetime-s", "as [ilo] swift_object_expiry_timeout"),
    read("redfish", "kernel_append_params", Kind::Text, Some("nofb vga=normal")).how(
        "images.redfish-kernel-append-params",
        "%default% stands for the default",
    ),
    read("redfish", "file_permission", Kind::Whole(None, None), Some("420"))
        .how("backend.mode", "where [ilo] file_permission is not set"),
    instead("redfish", "verify_ca", "[ilo] verify_ca is read, for all drivers"),
    instead("redfish", "auth_type", "a session is opened where the BMC has sessions"),
    instead("redfish", "connect_timeout", DIALOGUE),
    instead("redfish", "connection_attempts", DIALOGUE),
    instead("redfish", "connection_retry_interval", DIALOGUE),
    instead("redfish", "connection_cache_size", DIALOGUE),
    instead("redfish", "post_boot_retry_attempts", DIALOGUE),
    instead("redfish", "post_boot_retry_delay", DIALOGUE),
    instead("redfish", "boot_mode_config_timeout", DIALOGUE),
    instead("redfish", "enable_verify_bmc_clock", "the BMC's clock is not set"),
    instead("redfish", "firmware_source", FIRMWARE),
    instead("redfish", "firmware_update_bmc_timeout", FIRMWARE),
    instead("redfish", "firmware_update_bmc_version_check_interval", FIRMWARE),
    instead("redfish", "firmware_update_fail_interval", FIRMWARE),
    instead("redfish", "firmware_update_nic_starting_wait", FIRMWARE),
    instead("redfish", "firmware_update_overall_timeout", FIRMWARE),
    instead("redfish", "firmware_update_reboot_delay", FIRMWARE),
    instead("redfish", "firmware_update_required_successes", FIRMWARE),
    instead("redfish", "firmware_update_resource_validation_timeout", FIRMWARE),
    instead("redfish", "firmware_update_status_interval", FIRMWARE),
    instead("redfish", "firmware_update_validation_interval", FIRMWARE),
    instead("redfish", "firmware_update_wait_unresponsive_bmc", FIRMWARE),
    instead("redfish", "default_inspection_hooks", INSPECTION),
    instead("redfish", "inspection_hooks", INSPECTION),
    instead("redfish", "raid_config_fail_interval", "RAID is not configured"),
    instead("redfish", "raid_config_status_interval", "RAID is not configured"),
];
