//! Where the API, the ramdisks' part of it and the image server listen, and by which URLs they are reached.
//!
//! Ironic's API is one listener for everybody. Without passwords, ours stays on loopback; then the ramdisks' part of it takes
//! the place where ramdisks expect it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::draft::{Draft, Range};
use super::site::texts;
use crate::tree::{Origin, Raw};

const AGENT_PORT: u16 = 6387;
const IMAGES_PORT: u16 = 6386;

pub(super) fn translate(draft: &mut Draft<'_>) {
    if let Some(ip) = host_ip(draft) {
        listeners(draft, ip);
    }
    tls(draft);
    match draft.text("api", "public_endpoint") {
        // By each request's own address, which is what we do.
        Some("request") | None => {}
        Some(_) => draft.copy("api", "public_endpoint", "api.public-url"),
    }
    let heartbeat = Range {
        least: 5,
        most: 3600,
        never: None,
        unit: "seconds",
    };
    draft.copy_number(
        "api",
        "ramdisk_heartbeat_timeout",
        "agent.heartbeat-timeout-s",
        &heartbeat,
    );
    draft.copy_boolean("agent", "require_tls", "agent.require-tls");
    draft.copy("agent", "image_download_source", "agent.image-download-source");
    agent_url(draft);
}

fn host_ip(draft: &Draft<'_>) -> Option<IpAddr> {
    if draft.is_wrong(&[("api", "host_ip"), ("api", "port")]) {
        return None;
    }
    let text = draft.text_or_default("api", "host_ip");
    match text.parse() {
        Ok(ip) => Some(ip),
        Err(_) if text == "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        Err(_) => {
            let message = "[api] host_ip must be an IP address; Farrier looks no name up before it listens";
            draft.report.problem(draft.origin("api", "host_ip"), message.to_owned());
            None
        }
    }
}

fn listeners(draft: &mut Draft<'_>, ip: IpAddr) {
    let port = u16::try_from(draft.whole_or_default("api", "port")).unwrap_or(6385);
    let set = |option| draft.origin("api", option);
    let origin = match set("host_ip") {
        Origin::Default => set("port"),
        set => set,
    };
    let has_passwords = has_passwords(draft);
    let api = match has_passwords || ip.is_loopback() {
        true => SocketAddr::new(ip, port),
        false => SocketAddr::new(loopback(ip), port),
    };
    draft.put("api.listen", Raw::Text(api.to_string()), origin.clone());
    let agent = match api.ip() == ip {
        true => Some(SocketAddr::new(ip, AGENT_PORT)),
        false => {
            if draft.site.find("api.listen").is_none() {
                stays_on_loopback(draft, api);
            }
            let own = if ip.is_unspecified() { draft.machine.address } else { ip };
            // A machine with no address but loopback has ramdisks there as well.
            (!own.is_loopback()).then(|| SocketAddr::new(own, port))
        }
    };
    if let Some(agent) = agent {
        draft.put("agent.listen", Raw::Text(agent.to_string()), origin.clone());
    }
    draft.put(
        "images.listen",
        Raw::Text(SocketAddr::new(ip, IMAGES_PORT).to_string()),
        origin,
    );
    if draft.site.find("images.listen").is_none()
        && let Some(my_ip) = draft.text("DEFAULT", "my_ip")
    {
        let authority = match my_ip.parse::<Ipv6Addr>() {
            Ok(ip) => format!("[{ip}]"),
            Err(_) => my_ip.to_owned(),
        };
        let url = Raw::Text(format!("http://{authority}:{IMAGES_PORT}"));
        draft.put("images.external-url", url, draft.origin("DEFAULT", "my_ip"));
    }
}

/// Whether users of the API give a password, by the site file or by ironic.conf; and sets the latter.
fn has_passwords(draft: &mut Draft<'_>) -> bool {
    if let Some(item) = draft.site.find("api.auth") {
        return matches!(&item.raw, Raw::Text(auth) if auth == "http_basic");
    }
    let basic = draft.text_or_default("DEFAULT", "auth_strategy") == "http_basic";
    let origin = draft.origin("DEFAULT", "auth_strategy");
    let auth = if basic { "http_basic" } else { "none" };
    draft.put("api.auth", Raw::Text(auth.to_owned()), origin.clone());
    if basic {
        let file = draft.text_or_default("DEFAULT", "http_basic_auth_user_file").to_owned();
        let named = match (draft.origin("DEFAULT", "http_basic_auth_user_file"), origin) {
            // The default counts since passwords were asked for there.
            (Origin::Default, Origin::Option { file, line, .. }) => Origin::Option {
                file,
                line,
                option: "[DEFAULT] http_basic_auth_user_file".into(),
            },
            (set, _) => set,
        };
        draft.put("api.htpasswd", Raw::Text(file), named);
    }
    basic
}

fn stays_on_loopback(draft: &Draft<'_>, api: SocketAddr) {
    let remedy = "set auth_strategy = http_basic and http_basic_auth_user_file in [DEFAULT] for others to use it";
    let message = match (draft.text("DEFAULT", "auth_strategy"), draft.text("api", "host_ip")) {
        (Some("keystone"), _) => format!(
            "[DEFAULT] auth_strategy = keystone is not offered: the API listens at {api} alone, and asks nobody there for a password; {remedy}"
        ),
        (Some(_), _) => format!(
            "[DEFAULT] auth_strategy = noauth lets everybody use every server: the API listens at {api} alone; {remedy}"
        ),
        (None, Some(_)) => format!(
            "[api] host_ip is not where the API listens, which nobody needs a password for: it is at {api} alone; {remedy}"
        ),
        (None, None) => return,
    };
    let origin = match draft.origin("DEFAULT", "auth_strategy") {
        Origin::Default => draft.origin("api", "host_ip"),
        set => set,
    };
    draft.report.warning(origin, message);
}

fn loopback(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

fn tls(draft: &mut Draft<'_>) {
    if draft.boolean("api", "enable_ssl_api") != Some(true) {
        return;
    }
    for (option, setting) in [("cert_file", "api.tls-certificate"), ("key_file", "api.tls-key")] {
        match draft.text("api", option) {
            Some(_) => draft.copy("api", option, setting),
            None if draft.site.find(setting).is_some() || draft.is_wrong(&[("api", option)]) => {}
            None => draft.report.problem(
                draft.origin("api", "enable_ssl_api"),
                format!("[api] enable_ssl_api = True needs [api] {option} beside it; name the PEM file"),
            ),
        }
    }
}

/// The first that is set.
fn agent_url(draft: &mut Draft<'_>) {
    let places = [
        ("deploy", "external_callback_url"),
        ("service_catalog", "endpoint_override"),
        ("conductor", "api_url"),
    ];
    for (group, name) in places {
        if let Some(url) = draft.text(group, name) {
            let url = vec![url.to_owned()];
            let origin = draft.origin(group, name);
            draft.put("agent.urls", texts(url, &origin), origin);
            return;
        }
    }
}
