//! `[api]`

use super::{Row, former, instead, read};
use crate::oslo::option::Kind;

pub(super) const ROWS: &[Row] = &[
    read("api", "host_ip", Kind::Host, Some("0.0.0.0")).how(
        "api.listen, agent.listen, images.listen",
        "without http_basic, the API itself stays on loopback and ramdisks are answered here",
    ),
    read("api", "port", Kind::PORT, Some("6385")).becomes("api.listen, agent.listen"),
    read("api", "enable_ssl_api", Kind::Boolean, Some("False")).becomes("api.tls-certificate, api.tls-key"),
    read("api", "cert_file", Kind::Text, None)
        .called(&[former("ssl", "cert_file")])
        .how("api.tls-certificate", "where enable_ssl_api is True"),
    read("api", "key_file", Kind::Text, None)
        .called(&[former("ssl", "key_file")])
        .how("api.tls-key", "where enable_ssl_api is True"),
    read("api", "public_endpoint", Kind::Text, None).becomes("api.public-url"),
    read("api", "ramdisk_heartbeat_timeout", Kind::Whole(None, None), Some("300"))
        .called(&[former("DEFAULT", "ramdisk_heartbeat_timeout")])
        .becomes("agent.heartbeat-timeout-s"),
    read("api", "restrict_lookup", Kind::Boolean, Some("True"))
        .called(&[former("DEFAULT", "restrict_lookup")])
        .always(true, "only nodes that wait for their ramdisk are found"),
    instead("api", "unix_socket", "the API listens on an address"),
    instead("api", "unix_socket_mode", "the API listens on an address"),
    instead("api", "api_workers", "one process answers all requests"),
    instead("api", "max_limit", "lists have a limit of their own"),
    instead("api", "middleware", "there is none"),
    instead("api", "network_data_schema", "network data are handed on as they are"),
    instead(
        "api",
        "project_admin_can_manage_own_nodes",
        "who may call the API may use every node",
    ),
    instead("api", "response_validation", "answers are typed"),
    instead(
        "api",
        "disallowed_enrollment_boot_modes",
        "every boot mode may be asked for",
    ),
];
