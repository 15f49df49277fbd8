//! `[deploy]`

use super::{Row, equal, former, instead, read, renamed};
use crate::oslo::option::Kind;

const ERASING: &str = "the ramdisk's own clean steps and their own settings erase devices";

pub(super) const ROWS: &[Row] = &[
    read("deploy", "http_root", Kind::Text, Some("/httpboot"))
        .called(&[equal("deploy", "http_server_root"), former("pxe", "http_root")])
        .how(
            "backend.root, netboot.root",
            "the backend's where the web server is in use",
        ),
    read("deploy", "http_url", Kind::Uri, None)
        .called(&[equal("deploy", "http_server_url"), former("pxe", "http_url")])
        .how(
            "backend.url, netboot.url",
            "kept with its path; must be set where the web server is in use",
        ),
    read("deploy", "external_http_url", Kind::Uri, None).how("backend.url", "what BMCs are told instead of http_url"),
    read("deploy", "external_callback_url", Kind::Uri, None).how(
        "agent.urls",
        "before [service_catalog] endpoint_override and [conductor] api_url",
    ),
    read("deploy", "iso_cache_size", Kind::Whole(None, None), Some("20480")).how(
        "images.cache.max-bytes",
        "in MiB; there is one cache: [pxe] image_cache_size is added",
    ),
    read("deploy", "iso_cache_ttl", Kind::Whole(None, None), Some("10080")).how(
        "images.cache.max-age-minutes",
        "the longer one of this and [pxe] image_cache_ttl",
    ),
    read(
        "deploy",
        "image_server_auth_strategy",
        Kind::Choice(&["noauth", "http_basic"]),
        Some("noauth"),
    )
    .how(
        "images.server-user",
        "http_basic: image_server_user and its password are used",
    ),
    read("deploy", "image_server_user", Kind::Text, None).becomes("images.server-user"),
    read("deploy", "image_server_password", Kind::Text, None)
        .secret()
        .becomes("images.server-password"),
    read("deploy", "configdrive_use_object_store", Kind::Boolean, Some("False"))
        .called(&[renamed("conductor", "configdrive_use_swift")])
        .always(false, "config drives are handed to the agent directly"),
    read("deploy", "fast_track", Kind::Boolean, Some("False"))
        .always(false, "a server is always booted into the ramdisk anew"),
    read("deploy", "power_off_after_deploy_failure", Kind::Boolean, Some("True"))
        .always(true, "a server whose deployment failed is switched off"),
    instead(
        "deploy",
        "fast_track_timeout",
        "a server is always booted into the ramdisk anew",
    ),
    instead(
        "deploy",
        "default_boot_mode",
        "[ilo] default_boot_mode is read, for all drivers",
    ),
    instead(
        "deploy",
        "iso_master_path",
        "the cache is in the data folder, and cannot be switched off",
    ),
    instead(
        "deploy",
        "http_image_subdir",
        "images that an agent cannot fetch itself are served from the cache",
    ),
    instead(
        "deploy",
        "ramdisk_image_download_source",
        "boot ISOs are laid out by the conductor and served from the backend",
    ),
    instead(
        "deploy",
        "create_configuration_priority",
        "RAID is not configured while cleaning",
    ),
    instead(
        "deploy",
        "delete_configuration_priority",
        "RAID is not configured while cleaning",
    ),
    instead("deploy", "erase_devices_priority", ERASING),
    instead("deploy", "erase_devices_metadata_priority", ERASING),
    instead("deploy", "shred_random_overwrite_iterations", ERASING),
    instead("deploy", "shred_final_overwrite_with_zeros", ERASING),
    instead("deploy", "continue_if_disk_secure_erase_fails", ERASING),
    instead("deploy", "disk_erasure_concurrency", ERASING),
    instead("deploy", "enable_ata_secure_erase", ERASING),
    instead("deploy", "enable_nvme_secure_erase", ERASING),
    instead("deploy", "erase_skip_read_only", ERASING),
];
