//! `[conductor]`

use super::{Row, former, instead, instead_of, read};
use crate::oslo::option::Kind;

const COUNT: Kind = Kind::Whole(Some(0), None);
const RUNBOOKS: &str = "there are no runbooks";
const TRAITS: &str = "there are no networks that traits choose";
const HISTORY: &str = "a node's events are kept in bounds of their own";
const LEASE: &str = "a lease says which conductors live: [conductor] heartbeat_timeout is read";
const BALANCE: &str = "[conductor] workers_pool_size is read";
const FORMATS: &str = "an image is looked at before a disk is touched, whatever is set";
const CONFIG_DRIVE: &str = "config drives are handed to the agent directly";
const PERIODIC: &str = "waits end when they are over, not at the next look";
const LESSEES: &str = "there are no lessees: who may call the API may use every node";
const STEPS: &str = "steps have the priorities that their makers gave them";

pub(super) const ROWS: &[Row] = &[
    read("conductor", "deploy_callback_timeout", COUNT, Some("1800"))
        .how("conductor.deploy-callback-timeout-s", "0 = 7 days, the longest wait"),
    read("conductor", "clean_callback_timeout", COUNT, Some("1800"))
        .how("conductor.clean-callback-timeout-s", "0 = 7 days"),
    read("conductor", "rescue_callback_timeout", COUNT, Some("1800")).how(
        "conductor.rescue-callback-timeout-s",
        "0 = 7 days; rescue is not carried out by this release",
    ),
    read("conductor", "inspect_wait_timeout", COUNT, Some("1800"))
        .called(&[former("conductor", "inspect_timeout")])
        .how("conductor.inspect-timeout-s", "0 = 7 days"),
    read(
        "conductor",
        "heartbeat_timeout",
        Kind::Whole(None, Some(315_576_000)),
        Some("60"),
    )
    .how(
        "conductor.lease-s",
        "if it is set: how long others wait before they take over; else 10",
    ),
    read(
        "conductor",
        "sync_power_state_interval",
        Kind::Whole(None, None),
        Some("120"),
    )
    .how("conductor.power-sync-interval-s", "0 or less = once a day"),
    read(
        "conductor",
        "power_state_change_timeout",
        Kind::Whole(Some(2), None),
        Some("60"),
    )
    .becomes("conductor.power-timeout-s"),
    read(
        "conductor",
        "soft_power_off_timeout",
        Kind::Whole(Some(1), None),
        Some("600"),
    )
    .becomes("conductor.soft-power-off-timeout-s"),
    read(
        "conductor",
        "workers_pool_size",
        Kind::Whole(Some(3), None),
        Some("300"),
    )
    .how("conductor.workers", "if it is set; else 100"),
    read("conductor", "automated_clean", Kind::Boolean, Some("True"))
        .called(&[former("conductor", "clean_nodes")])
        .becomes("conductor.automated-clean"),
    read("conductor", "conductor_group", Kind::Text, Some("")).becomes("conductor.group"),
    read("conductor", "api_url", Kind::Text, None).how(
        "agent.urls",
        "after [deploy] external_callback_url and [service_catalog] endpoint_override",
    ),
    read(
        "conductor",
        "file_url_allowed_paths",
        Kind::List(&[]),
        Some(super::super::FILE_PATHS),
    )
    .becomes("file-url-allowed-paths"),
    read("conductor", "deploy_kernel", Kind::Text, None).becomes("images.deploy-kernel"),
    read("conductor", "deploy_ramdisk", Kind::Text, None).becomes("images.deploy-ramdisk"),
    read("conductor", "rescue_kernel", Kind::Text, None).becomes("images.rescue-kernel"),
    read("conductor", "rescue_ramdisk", Kind::Text, None).becomes("images.rescue-ramdisk"),
    read("conductor", "bootloader", Kind::Text, None).how("images.esp", "before [DEFAULT] esp_image"),
    read("conductor", "deploy_kernel_by_arch", Kind::Dict, Some("")).becomes("images.by-arch.ARCH.deploy-kernel"),
    read("conductor", "deploy_ramdisk_by_arch", Kind::Dict, Some("")).becomes("images.by-arch.ARCH.deploy-ramdisk"),
    read("conductor", "rescue_kernel_by_arch", Kind::Dict, Some("")).becomes("images.by-arch.ARCH.rescue-kernel"),
    read("conductor", "rescue_ramdisk_by_arch", Kind::Dict, Some("")).becomes("images.by-arch.ARCH.rescue-ramdisk"),
    read("conductor", "bootloader_by_arch", Kind::Dict, Some("")).becomes("images.by-arch.ARCH.esp"),
    read(
        "conductor",
        "force_power_state_during_sync",
        Kind::Boolean,
        Some("True"),
    )
    .always(false, "what the BMC says is adopted"),
    instead(
        "conductor",
        "power_state_sync_max_retries",
        "the next look at the power state is the retry",
    ),
    instead(
        "conductor",
        "power_failure_recovery_interval",
        "the next look at the power state is the retry",
    ),
    instead("conductor", "sync_power_state_workers", BALANCE),
    instead("conductor", "periodic_max_workers", BALANCE),
    instead("conductor", "reserved_workers_pool_percentage", BALANCE),
    instead("conductor", "max_concurrent_deploy", BALANCE),
    instead("conductor", "max_concurrent_clean", BALANCE),
    instead("conductor", "max_concurrent_per_conductor_group", BALANCE),
    instead(
        "conductor",
        "node_locked_retry_attempts",
        "a node is never locked for long",
    ),
    instead(
        "conductor",
        "node_locked_retry_interval",
        "a node is never locked for long",
    ),
    instead("conductor", "heartbeat_interval", LEASE),
    instead("conductor", "conductor_cleanup_interval", LEASE),
    instead("conductor", "conductor_cleanup_timeout", LEASE),
    instead("conductor", "conductor_cleanup_batch_size", LEASE),
    instead(
        "conductor",
        "sync_local_state_interval",
        "nodes are taken over as soon as a lease has lapsed",
    ),
    instead("conductor", "check_provision_state_interval", PERIODIC),
    instead("conductor", "check_rescue_state_interval", PERIODIC),
    instead("conductor", "check_allocations_interval", "there are no allocations"),
    instead(
        "conductor",
        "cache_clean_up_interval",
        "the cache is bounded at each fetch",
    ),
    instead(
        "conductor",
        "clear_image_cache_on_deploy_failure",
        "what is in the cache was verified when it came there",
    ),
    instead(
        "conductor",
        "graceful_shutdown_timeout",
        "steps under way have 10 s to end",
    ),
    instead("conductor", "service_callback_timeout", "there is no servicing"),
    instead("conductor", "max_conductor_wait_step_seconds", "there is no wait step"),
    instead("conductor", "send_sensor_data", "sensor data are not collected"),
    instead(
        "conductor",
        "send_sensor_data_interval",
        "sensor data are not collected",
    ),
    instead(
        "conductor",
        "allow_deleting_available_nodes",
        "available nodes may be deleted",
    ),
    instead(
        "conductor",
        "allow_provisioning_in_maintenance",
        "nodes in maintenance are not deployed",
    ),
    instead(
        "conductor",
        "enable_health_monitoring",
        "BMCs are not asked for their health",
    ),
    instead("conductor", "enable_mdns", "nothing is announced by mDNS"),
    instead(
        "conductor",
        "poweroff_in_cleanfail",
        "a server whose cleaning failed is switched off",
    ),
    instead("conductor", "poweroff_in_servicefail", "there is no servicing"),
    instead(
        "conductor",
        "require_rescue_password_hashed",
        "this release does not carry out rescue",
    ),
    instead(
        "conductor",
        "rescue_password_hash_algorithm",
        "this release does not carry out rescue",
    ),
    instead(
        "conductor",
        "error_on_ramdisk_config_inconsistency",
        "a kernel without a ramdisk is not booted",
    ),
    instead(
        "conductor",
        "permit_child_node_step_async_result",
        "there are no child nodes",
    ),
    instead(
        "conductor",
        "disallowed_deployment_boot_modes",
        "every boot mode may be asked for",
    ),
    instead("conductor", "permitted_image_formats", FORMATS),
    instead("conductor", "conductor_always_validates_images", FORMATS),
    instead("conductor", "disable_deep_image_inspection", FORMATS),
    instead("conductor", "disable_file_checksum", FORMATS),
    instead(
        "conductor",
        "disable_support_for_checksum_files",
        "checksum files are taken",
    ),
    instead(
        "conductor",
        "disable_zstandard_decompression",
        "packed images are unpacked",
    ),
    instead("conductor", "configdrive_swift_container", CONFIG_DRIVE),
    instead("conductor", "configdrive_swift_temp_url_duration", CONFIG_DRIVE),
    instead("conductor", "disable_configdrive_check", CONFIG_DRIVE),
    instead("conductor", "disable_metadata_mtu_check", CONFIG_DRIVE),
    instead("conductor", "node_history", HISTORY),
    instead("conductor", "node_history_max_entries", HISTORY),
    instead("conductor", "node_history_minimum_days", HISTORY),
    instead("conductor", "node_history_cleanup_interval", HISTORY),
    instead("conductor", "node_history_cleanup_batch_count", HISTORY),
    instead("conductor", "record_step_flows_in_history", HISTORY),
    instead("conductor", "log_step_flows_to_syslog", HISTORY),
    instead("conductor", "automatic_lessee", LESSEES),
    instead("conductor", "automatic_lessee_source", LESSEES),
    instead_of("conductor", "clean_step_priority_override", Kind::Dicts, STEPS),
    instead_of("conductor", "verify_step_priority_override", Kind::Dicts, STEPS),
    instead("conductor", "automated_cleaning_runbook", RUNBOOKS),
    instead("conductor", "automated_cleaning_runbook_by_resource_class", RUNBOOKS),
    instead("conductor", "automated_cleaning_runbook_from_node", RUNBOOKS),
    instead("conductor", "automated_cleaning_runbook_validate_traits", RUNBOOKS),
    instead("conductor", "automated_cleaning_step_source", RUNBOOKS),
    instead("conductor", "enable_trait_based_networking", TRAITS),
    instead("conductor", "trait_based_networking_config_file", TRAITS),
    instead("conductor", "trait_based_networking_enable_default_trait", TRAITS),
    instead("conductor", "trait_based_networking_raise_when_no_match", TRAITS),
];
