//! What keystoneauth reads of a section: `[swift]`, `[glance]`, and `[keystone_authtoken]`, from which both fell back to take
//! their credentials; and the section that names Ironic's own endpoint.

use super::{Row, instead, read, renamed};
use crate::oslo::option::Kind;

const SESSION: &str = "requests have deadlines and retries of their own";
const CERTIFICATE: &str = "no certificate of our own is shown";
const VERSION: &str = "the version that Farrier speaks is asked for";
const OTHER: &str = "a password or an application credential is used";
const TOKENS: &str = "Farrier's API does not take tokens";
const ENDPOINT: &str = "of this section, only endpoint_override is read";

/// The rows of a section with credentials; `$setting` is where they go in farrier.toml.
macro_rules! credentials {
    ($group:literal, $setting:literal) => {
        credentials!($group, $setting,)
    };
    ($group:literal, $setting:literal, $($more:expr),* $(,)?) => {
        &[
            read($group, "auth_type", Kind::Text, None)
                .called(&[renamed($group, "auth_plugin")])
                .how(
                    concat!($setting, ".auth-type"),
                    "password, v3password, v3applicationcredential, v1password or none",
                ),
            read($group, "auth_section", Kind::Text, None).how("", "the section with the credentials"),
            read($group, "auth_url", Kind::Text, None).becomes(concat!($setting, ".auth-url")),
            read($group, "username", Kind::Text, None)
                .called(&[renamed($group, "user_name")])
                .becomes(concat!($setting, ".username")),
            read($group, "user_id", Kind::Text, None).becomes(concat!($setting, ".user-id")),
            read($group, "password", Kind::Text, None)
                .secret()
                .becomes(concat!($setting, ".password")),
            read($group, "project_name", Kind::Text, None)
                .called(&[renamed($group, "tenant_name")])
                .becomes(concat!($setting, ".project")),
            read($group, "project_id", Kind::Text, None)
                .called(&[renamed($group, "tenant_id")])
                .becomes(concat!($setting, ".project-id")),
            read($group, "user_domain_name", Kind::Text, None).becomes(concat!($setting, ".user-domain")),
            read($group, "user_domain_id", Kind::Text, None).becomes(concat!($setting, ".user-domain-id")),
            read($group, "project_domain_name", Kind::Text, None).becomes(concat!($setting, ".project-domain")),
            read($group, "project_domain_id", Kind::Text, None).becomes(concat!($setting, ".project-domain-id")),
            read($group, "default_domain_name", Kind::Text, None)
                .how(concat!($setting, ".user-domain, ", $setting, ".project-domain"), "where they are not set"),
            read($group, "default_domain_id", Kind::Text, None).how(
                concat!($setting, ".user-domain-id, ", $setting, ".project-domain-id"),
                "where they are not set",
            ),
            read($group, "application_credential_id", Kind::Text, None)
                .becomes(concat!($setting, ".application-credential-id")),
            read($group, "application_credential_name", Kind::Text, None)
                .becomes(concat!($setting, ".application-credential-name")),
            read($group, "application_credential_secret", Kind::Text, None)
                .secret()
                .becomes(concat!($setting, ".application-credential-secret")),
            read($group, "region_name", Kind::Text, None).becomes(concat!($setting, ".region")),
            read($group, "cafile", Kind::Text, None).becomes(concat!($setting, ".ca")),
            read($group, "insecure", Kind::Boolean, Some("False")).how(concat!($setting, ".verify"), "the opposite"),
            read($group, "interface", Kind::Text, None)
                .how(concat!($setting, ".interface"), "deprecated: use valid_interfaces"),
            instead($group, "system_scope", OTHER),
            instead($group, "domain_id", OTHER),
            instead($group, "domain_name", OTHER),
            instead($group, "trust_id", OTHER),
            instead($group, "token", OTHER),
            instead($group, "certfile", CERTIFICATE),
            instead($group, "keyfile", CERTIFICATE),
            $($more,)*
        ]
    };
}

/// The rows of a section that names a service.
macro_rules! service {
    ($group:literal, $setting:literal, $($more:expr),* $(,)?) => {
        credentials!(
            $group,
            $setting,
            read($group, "endpoint_override", Kind::Text, None).becomes(concat!($setting, ".endpoint")),
            read($group, "endpoint", Kind::Text, None)
                .how(concat!($setting, ".endpoint"), "with auth_type = none, where endpoint_override is not set"),
            read($group, "valid_interfaces", Kind::List(&[]), Some("internal,public"))
                .how(concat!($setting, ".interface"), "if it is set: the first of them; else public"),
            instead($group, "service_type", VERSION),
            instead($group, "service_name", VERSION),
            instead($group, "version", VERSION),
            instead($group, "min_version", VERSION),
            instead($group, "max_version", VERSION),
            instead($group, "timeout", SESSION),
            instead($group, "connect_retry_delay", SESSION),
            instead($group, "status_code_retries", SESSION),
            instead($group, "status_code_retry_delay", SESSION),
            instead($group, "retriable_status_codes", SESSION),
            instead($group, "collect_timing", SESSION),
            instead($group, "split_loggers", SESSION),
            instead($group, "tls_ciphers", SESSION),
            instead($group, "tls_min_version", SESSION),
            $($more,)*
        )
    };
}

pub(super) const SWIFT: &[Row] = service!(
    "swift",
    "backend",
    read("swift", "swift_max_retries", Kind::Whole(None, None), Some("2")).how("backend.attempts", "and one"),
    read("swift", "connect_retries", Kind::Whole(None, None), None)
        .how("backend.attempts", "and one; where swift_max_retries is not set"),
);

pub(super) const GLANCE: &[Row] = service!(
    "glance",
    "glance",
    instead("glance", "connect_retries", "num_retries is read"),
);

pub(super) const KEYSTONE_AUTHTOKEN: &[Row] = credentials!(
    "keystone_authtoken",
    "backend",
    read("keystone_authtoken", "admin_user", Kind::Text, None).how("backend.username", "where username is not set"),
    read("keystone_authtoken", "admin_password", Kind::Text, None)
        .secret()
        .how("backend.password", "where password is not set"),
    read("keystone_authtoken", "admin_tenant_name", Kind::Text, None)
        .how("backend.project", "where project_name is not set"),
    read("keystone_authtoken", "identity_uri", Kind::Text, None).how("backend.auth-url", "where auth_url is not set"),
    read("keystone_authtoken", "www_authenticate_uri", Kind::Text, None)
        .called(&[renamed("keystone_authtoken", "auth_uri")])
        .how("backend.auth-url", "where identity_uri is not set either"),
    instead("keystone_authtoken", "auth_host", "auth_url or identity_uri is read"),
    instead("keystone_authtoken", "auth_port", "auth_url or identity_uri is read"),
    instead(
        "keystone_authtoken",
        "auth_protocol",
        "auth_url or identity_uri is read"
    ),
    instead("keystone_authtoken", "auth_version", VERSION),
    instead("keystone_authtoken", "admin_token", OTHER),
    instead("keystone_authtoken", "delay_auth_decision", TOKENS),
    instead("keystone_authtoken", "signing_dir", TOKENS),
    instead("keystone_authtoken", "signing_dirname", TOKENS),
    instead("keystone_authtoken", "memcached_servers", TOKENS),
    instead("keystone_authtoken", "memcache_servers", TOKENS),
    instead("keystone_authtoken", "memcache_security_strategy", TOKENS),
    instead("keystone_authtoken", "memcache_secret_key", TOKENS),
    instead("keystone_authtoken", "memcache_use_advanced_pool", TOKENS),
    instead("keystone_authtoken", "token_cache_time", TOKENS),
    instead("keystone_authtoken", "cache", TOKENS),
    instead("keystone_authtoken", "http_connect_timeout", TOKENS),
    instead("keystone_authtoken", "http_request_max_retries", TOKENS),
    instead("keystone_authtoken", "include_service_catalog", TOKENS),
    instead("keystone_authtoken", "enforce_token_bind", TOKENS),
    instead("keystone_authtoken", "hash_algorithms", TOKENS),
    instead("keystone_authtoken", "revocation_cache_time", TOKENS),
    instead("keystone_authtoken", "service_token_roles", TOKENS),
    instead("keystone_authtoken", "service_token_roles_required", TOKENS),
    instead("keystone_authtoken", "service_type", TOKENS),
);

pub(super) const SERVICE_CATALOG: &[Row] = &[
    read("service_catalog", "endpoint_override", Kind::Text, None).how(
        "agent.urls",
        "after [deploy] external_callback_url, before [conductor] api_url",
    ),
    instead("service_catalog", "auth_type", ENDPOINT),
    instead("service_catalog", "auth_plugin", ENDPOINT),
    instead("service_catalog", "auth_section", ENDPOINT),
    instead("service_catalog", "auth_url", ENDPOINT),
    instead("service_catalog", "username", ENDPOINT),
    instead("service_catalog", "user_id", ENDPOINT),
    instead("service_catalog", "password", ENDPOINT),
    instead("service_catalog", "project_name", ENDPOINT),
    instead("service_catalog", "project_id", ENDPOINT),
    instead("service_catalog", "user_domain_name", ENDPOINT),
    instead("service_catalog", "user_domain_id", ENDPOINT),
    instead("service_catalog", "project_domain_name", ENDPOINT),
    instead("service_catalog", "project_domain_id", ENDPOINT),
    instead("service_catalog", "application_credential_id", ENDPOINT),
    instead("service_catalog", "application_credential_name", ENDPOINT),
    instead("service_catalog", "application_credential_secret", ENDPOINT),
    instead("service_catalog", "region_name", ENDPOINT),
    instead("service_catalog", "service_type", ENDPOINT),
    instead("service_catalog", "service_name", ENDPOINT),
    instead("service_catalog", "interface", ENDPOINT),
    instead("service_catalog", "valid_interfaces", ENDPOINT),
    instead("service_catalog", "cafile", ENDPOINT),
    instead("service_catalog", "certfile", ENDPOINT),
    instead("service_catalog", "keyfile", ENDPOINT),
    instead("service_catalog", "insecure", ENDPOINT),
    instead("service_catalog", "timeout", ENDPOINT),
    instead("service_catalog", "version", ENDPOINT),
    instead("service_catalog", "min_version", ENDPOINT),
    instead("service_catalog", "max_version", ENDPOINT),
    instead("service_catalog", "connect_retries", ENDPOINT),
    instead("service_catalog", "connect_retry_delay", ENDPOINT),
    instead("service_catalog", "status_code_retries", ENDPOINT),
    instead("service_catalog", "status_code_retry_delay", ENDPOINT),
    instead("service_catalog", "retriable_status_codes", ENDPOINT),
    instead("service_catalog", "collect_timing", ENDPOINT),
    instead("service_catalog", "split_loggers", ENDPOINT),
    instead("service_catalog", "tls_ciphers", ENDPOINT),
    instead("service_catalog", "tls_min_version", ENDPOINT),
];
