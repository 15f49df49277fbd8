//! `[agent]`

use super::{Row, instead, read};
use crate::oslo::option::Kind;

const LOGS: &str = "logs of ramdisks are not collected";
const COMMANDS: &str = "commands to agents have deadlines of their own";
const NEUTRON: &str = "Neutron is not asked";

pub(super) const ROWS: &[Row] = &[
    read("agent", "require_tls", Kind::Boolean, Some("True")).becomes("agent.require-tls"),
    instead(
        "agent",
        "verify_ca",
        "the certificate that an agent comes with first is the only one taken from it",
    ),
    instead("agent", "api_ca_file", "put the CA into the ramdisk"),
    instead("agent", "certificates_path", "certificates of agents are in the store"),
    read(
        "agent",
        "image_download_source",
        Kind::Choice(&["swift", "http", "local"]),
        Some("http"),
    )
    .how(
        "agent.image-download-source",
        "swift: images of Glance by temporary URLs, see [glance]",
    ),
    instead("agent", "stream_raw_images", "the agent decides"),
    instead("agent", "memory_consumed_by_agent", "the agent decides"),
    instead(
        "agent",
        "allow_md5_checksum",
        "MD5 is refused as a checksum, since it can be forged: give image_os_hash_algo = sha256",
    ),
    instead("agent", "manage_agent_boot", "Farrier boots the agent"),
    instead("agent", "agent_api_version", "v1 is spoken"),
    instead("agent", "command_timeout", COMMANDS),
    instead("agent", "command_wait_attempts", COMMANDS),
    instead("agent", "command_wait_interval", COMMANDS),
    instead("agent", "max_command_attempts", COMMANDS),
    instead(
        "agent",
        "post_deploy_get_power_state_retries",
        "[conductor] soft_power_off_timeout is read",
    ),
    instead(
        "agent",
        "post_deploy_get_power_state_retry_interval",
        "[conductor] soft_power_off_timeout is read",
    ),
    instead("agent", "deploy_logs_collect", LOGS),
    instead("agent", "deploy_logs_local_path", LOGS),
    instead("agent", "deploy_logs_storage_backend", LOGS),
    instead("agent", "deploy_logs_swift_container", LOGS),
    instead("agent", "deploy_logs_swift_days_to_expire", LOGS),
    instead("agent", "neutron_agent_max_attempts", NEUTRON),
    instead("agent", "neutron_agent_poll_interval", NEUTRON),
    instead("agent", "neutron_agent_status_retry_interval", NEUTRON),
];
