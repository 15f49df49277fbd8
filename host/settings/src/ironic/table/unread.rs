//! Sections of Ironic and of its libraries that Farrier has no use for.

/// A section without effect.
#[derive(Debug)]
pub(crate) struct Unread {
    /// Its name.
    pub(crate) group: &'static str,
    /// What Farrier does instead.
    pub(crate) instead: &'static str,
}

const fn unread(group: &'static str, instead: &'static str) -> Unread {
    Unread { group, instead }
}

const RPC: &str = "conductors talk to one another through the store alone";
const OWN_DRIVERS: &str = "there is no driver for such servers";
const INSPECTION: &str = "servers are inspected by their BMC or by the agent, without an inspector";
const NETWORKS: &str = "networks are not changed: network_interface is noop";
const METRICS: &str = "metrics are at /metrics";
const TRACES: &str = "calls are not profiled";
const FILES: &str = "images are served over HTTP";

/// In the order of their names.
pub(crate) const UNREAD: &[Unread] = &[
    unread("agent_containers", "the agent decides"),
    unread("amt", OWN_DRIVERS),
    unread("anaconda", "instances are written as images"),
    unread("ansible", "instances are written by the agent"),
    unread("audit", "who did what is in the log, as farrier::audit"),
    unread(
        "audit_middleware_notifications",
        "who did what is in the log, as farrier::audit",
    ),
    unread("auto_discovery", "nodes are enrolled by users"),
    unread("cifs", FILES),
    unread("cimc", OWN_DRIVERS),
    unread("cinder", "servers do not boot from volumes"),
    unread("cisco_ucs", OWN_DRIVERS),
    unread("console", "there are no consoles"),
    unread("cors", "put a proxy before the API for browsers of other sites"),
    unread(
        "database",
        "Farrier keeps records of its own, see [store] of farrier.toml",
    ),
    unread("dhcp", "run a DHCP server beside Farrier"),
    unread("disk_partitioner", "disks are written by the agent"),
    unread("disk_utils", "disks are written by the agent"),
    unread("dnsmasq", "run a DHCP server beside Farrier"),
    unread("drac", OWN_DRIVERS),
    unread("errors", "answers hold no traces"),
    unread("exception", "answers hold no traces"),
    unread("fake", OWN_DRIVERS),
    unread("healthcheck", "/healthz and /readyz are always there"),
    unread("ibmc", OWN_DRIVERS),
    unread("iboot", OWN_DRIVERS),
    unread("inspection_rules", INSPECTION),
    unread("inspector", INSPECTION),
    unread("inventory", INSPECTION),
    unread("ipmi", OWN_DRIVERS),
    unread("irmc", OWN_DRIVERS),
    unread("ironic_networking", NETWORKS),
    unread("ironic_networking_json_rpc", NETWORKS),
    unread("iscsi", "instances are written by the agent"),
    unread("json_rpc", RPC),
    unread("keystone", "[swift] region_name is read"),
    unread("local_rpc", RPC),
    unread("matchmaker_redis", RPC),
    unread("mdns", "nothing is announced by mDNS"),
    unread("metrics", METRICS),
    unread("metrics_statsd", METRICS),
    unread("molds", "there are no configuration molds"),
    unread("neutron", NETWORKS),
    unread("nfs", FILES),
    unread("nova", "Nova is not told of power changes"),
    unread("oci", "images of container registries are not fetched"),
    unread("oneview", OWN_DRIVERS),
    unread("oslo_concurrency", "the store keeps what must not happen twice apart"),
    unread("oslo_limit", "there are no quotas"),
    unread("oslo_messaging_amqp", RPC),
    unread("oslo_messaging_kafka", RPC),
    unread("oslo_messaging_notifications", "events are at /farrier/v1/events"),
    unread("oslo_messaging_rabbit", RPC),
    unread("oslo_messaging_zmq", RPC),
    unread(
        "oslo_middleware",
        "put a proxy before the API for what headers are to say",
    ),
    unread("oslo_policy", "who may call the API may use every node"),
    unread(
        "oslo_reports",
        "a process that misbehaves is asked by its metrics and its log",
    ),
    unread("oslo_versionedobjects", "records carry their own version"),
    unread("profiler", TRACES),
    unread("profiler_jaeger", TRACES),
    unread("profiler_otlp", TRACES),
    unread("pxe_filter", INSPECTION),
    unread("seamicro", OWN_DRIVERS),
    unread("sensor_data", "sensor data are not collected"),
    unread("snmp", OWN_DRIVERS),
    unread("ssh", OWN_DRIVERS),
    unread("ssl", "[api] cert_file and key_file are read"),
    unread("virtualbox", OWN_DRIVERS),
    unread("vnc", "there are no consoles"),
    unread("watcher", "settings are read at the start"),
    unread("xclarity", OWN_DRIVERS),
];
