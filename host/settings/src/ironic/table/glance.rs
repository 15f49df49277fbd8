//! `[glance]`, beside the credentials

use super::{Row, former, instead, read};
use crate::oslo::option::Kind;

pub(super) const ROWS: &[Row] = &[
    read("glance", "glance_api_servers", Kind::List(&[]), None).how(
        "glance.endpoint",
        "deprecated: use endpoint_override, which wins; the first one is taken",
    ),
    read("glance", "num_retries", Kind::Whole(None, None), Some("0"))
        .called(&[former("glance", "glance_num_retries")])
        .how("glance.attempts", "and one, if it is set"),
    read("glance", "swift_temp_url_key", Kind::Text, None)
        .secret()
        .becomes("glance.swift.temp-url-key"),
    read(
        "glance",
        "swift_temp_url_duration",
        Kind::Whole(None, None),
        Some("1200"),
    )
    .becomes("glance.swift.temp-url-duration-s"),
    read("glance", "swift_endpoint_url", Kind::Uri, None).becomes("glance.swift.endpoint"),
    read("glance", "swift_api_version", Kind::Text, Some("v1")).becomes("glance.swift.api-version"),
    read("glance", "swift_account", Kind::Text, None).becomes("glance.swift.account"),
    read("glance", "swift_account_prefix", Kind::Text, Some("AUTH")).becomes("glance.swift.account-prefix"),
    read("glance", "swift_container", Kind::Text, Some("glance")).becomes("glance.swift.container"),
    read(
        "glance",
        "swift_store_multiple_containers_seed",
        Kind::Whole(None, None),
        Some("0"),
    )
    .becomes("glance.swift.containers-seed"),
    read("glance", "swift_temp_url_cache_enabled", Kind::Boolean, Some("False")).becomes("glance.swift.temp-url-cache"),
    read(
        "glance",
        "swift_temp_url_expected_download_start_delay",
        Kind::Whole(Some(0), None),
        Some("0"),
    )
    .becomes("glance.swift.download-start-delay-s"),
    instead("glance", "temp_url_endpoint_type", "temporary URLs are those of Swift"),
    instead("glance", "allowed_direct_url_schemes", "direct URLs are not followed"),
    instead("glance", "glance_host", "endpoint_override is read"),
    instead("glance", "glance_port", "endpoint_override is read"),
    instead("glance", "glance_protocol", "endpoint_override is read"),
    instead("glance", "glance_api_insecure", "insecure is read"),
    instead("glance", "glance_cafile", "cafile is read"),
    instead("glance", "auth_strategy", "auth_type is read"),
];
