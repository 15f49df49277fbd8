//! `[pxe]`

use super::{Row, instead, read, renamed};
use crate::oslo::option::Kind;

const TFTP: &str = "there is no TFTP: iPXE fetches over HTTP";
const TEMPLATES: &str = "scripts are made without templates";
const IMAGES: &str = "kernels and ramdisks are in the cache in the data folder";

pub(super) const ROWS: &[Row] = &[
    read("pxe", "kernel_append_params", Kind::Text, Some("nofb vga=normal"))
        .called(&[renamed("pxe", "pxe_append_params")])
        .how(
            "netboot.kernel-append-params, images.instance-kernel-append-params",
            "%default% stands for the default",
        ),
    read("pxe", "ipxe_bootfile_name", Kind::Text, Some("undionly.kpxe")).becomes("netboot.bios-bootfile"),
    read("pxe", "uefi_ipxe_bootfile_name", Kind::Text, Some("snponly.efi")).becomes("netboot.uefi-bootfile"),
    read("pxe", "ipxe_bootfile_name_by_arch", Kind::Dict, Some("")).becomes("netboot.bootfile-by-arch"),
    read("pxe", "loader_file_paths", Kind::Dict, Some("")).how("netboot.loaders", "those whose files are there"),
    read("pxe", "ipxe_timeout", Kind::Whole(None, None), Some("0"))
        .how("netboot.timeout-ms", "in seconds; 0 = as iPXE has it"),
    read("pxe", "image_cache_size", Kind::Whole(None, None), Some("20480"))
        .how("images.cache.max-bytes", "in MiB; see [deploy] iso_cache_size"),
    read("pxe", "image_cache_ttl", Kind::Whole(None, None), Some("10080"))
        .how("images.cache.max-age-minutes", "see [deploy] iso_cache_ttl"),
    instead(
        "pxe",
        "ipxe_enabled",
        "[DEFAULT] enabled_boot_interfaces names ilo-ipxe or does not",
    ),
    instead("pxe", "ipxe_boot_script", TEMPLATES),
    instead("pxe", "ipxe_config_template", TEMPLATES),
    instead("pxe", "ipxe_fallback_script", TEMPLATES),
    instead("pxe", "pxe_config_template", TEMPLATES),
    instead("pxe", "pxe_config_template_by_arch", TEMPLATES),
    instead("pxe", "uefi_pxe_config_template", TEMPLATES),
    instead("pxe", "initial_grub_template", TEMPLATES),
    instead(
        "pxe",
        "ipxe_use_swift",
        "kernels and ramdisks come from the conductor or the web server",
    ),
    instead("pxe", "tftp_server", TFTP),
    instead("pxe", "tftp_root", TFTP),
    instead("pxe", "tftp_master_path", TFTP),
    instead("pxe", "pxe_bootfile_name", TFTP),
    instead("pxe", "pxe_bootfile_name_by_arch", TFTP),
    instead("pxe", "uefi_pxe_bootfile_name", TFTP),
    instead("pxe", "pxe_config_subdir", TFTP),
    instead("pxe", "dir_permission", "folders have the permissions of the process"),
    instead("pxe", "file_permission", "[ilo] file_permission is read"),
    instead("pxe", "images_path", IMAGES),
    instead("pxe", "instance_master_path", IMAGES),
    instead("pxe", "default_ephemeral_format", "there is no ephemeral partition"),
    instead("pxe", "disk_devices", "the agent chooses the disk by root_device"),
    instead("pxe", "ip_version", "addresses say it themselves"),
    instead(
        "pxe",
        "boot_retry_timeout",
        "[conductor] deploy_callback_timeout is read",
    ),
    instead(
        "pxe",
        "boot_retry_check_interval",
        "[conductor] deploy_callback_timeout is read",
    ),
    instead(
        "pxe",
        "enable_netboot_fallback",
        "nothing is booted that nobody asked for",
    ),
];
