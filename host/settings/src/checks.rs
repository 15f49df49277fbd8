//! What must hold between settings, and what is worth a word.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;

use crate::machine::Machine;
use crate::section::Report;
use crate::{Auth, BackendKind, BmcTrust, Origin, Reference, Settings, Store, Tls};

pub(crate) fn check(settings: &Settings, machine: &Machine, report: &Report) {
    who_may_use_the_api(settings, report);
    listeners_differ(settings, report);
    waits_outlast_the_lease(settings, report);
    urls_can_be_reached(settings, machine, report);
    nodes_can_boot(settings, report);
    files_are_there(settings, report);
    if let Store::Etcd { endpoints, .. } = &settings.store
        && endpoints.is_empty()
        && report.is_set("store.endpoints")
    {
        let message = "[store] endpoints is empty; name at least one etcd server";
        report.problem(report.origin("store.endpoints"), message.into());
    }
}

fn who_may_use_the_api(settings: &Settings, report: &Report) {
    let listen = settings.api.listen;
    if settings.api.auth == Auth::None && !listen.ip().is_loopback() {
        report.problem(
            report.origin("api.listen"),
            format!(
                "[api] listen = \"{listen}\" lets everybody who reaches it use every server, since auth = \"none\"; listen on 127.0.0.1, or set auth = \"http_basic\" and htpasswd"
            ),
        );
    }
    let basic = matches!(settings.api.auth, Auth::HttpBasic { .. });
    if basic && settings.api.tls.is_none() && !listen.ip().is_loopback() {
        report.warning(
            report.origin("api.auth"),
            "[api] passwords travel unencrypted; set tls-certificate and tls-key, or put a TLS proxy before it".into(),
        );
    }
}

fn listeners_differ(settings: &Settings, report: &Report) {
    let listeners = [
        ("api.listen", "[api] listen", settings.api.listen),
        ("agent.listen", "[agent] listen", settings.agent.listen),
        ("images.listen", "[images] listen", settings.images.listen),
    ];
    for (place, (name, label, address)) in listeners.iter().enumerate() {
        for (_, other_label, other) in &listeners[..place] {
            if collide(*address, *other) {
                report.problem(
                    report.origin(name),
                    format!("{label} = \"{address}\" takes the port of {other_label} = \"{other}\"; give each its own"),
                );
            }
        }
    }
}

fn collide(left: SocketAddr, right: SocketAddr) -> bool {
    let same_ip = left.ip() == right.ip() || left.ip().is_unspecified() || right.ip().is_unspecified();
    left.port() != 0 && left.port() == right.port() && same_ip
}

fn waits_outlast_the_lease(settings: &Settings, report: &Report) {
    let conductor = &settings.conductor;
    let lease = conductor.lease;
    let lease_label = report.label("conductor.lease-s", "[conductor] lease-s");
    let waits = [
        ("deploy-callback-timeout-s", conductor.deploy_callback_timeout),
        ("clean-callback-timeout-s", conductor.clean_callback_timeout),
        ("rescue-callback-timeout-s", conductor.rescue_callback_timeout),
        ("inspect-timeout-s", conductor.inspect_timeout),
    ];
    for (key, wait) in waits {
        if wait > lease {
            continue;
        }
        let name = format!("conductor.{key}");
        let label = report.label(&name, &format!("[conductor] {key}"));
        let (wait, lease) = (wait.as_secs(), lease.as_secs());
        let why = "or a node fails before anybody can take it over";
        // Whichever somebody set is the one to correct.
        if report.is_set(&name) {
            let message = format!("{label} = {wait} must be longer than {lease_label} = {lease}, {why}");
            report.problem(report.origin(&name), message);
        } else {
            let message = format!("{lease_label} = {lease} must be shorter than {label} = {wait}, {why}");
            report.problem(report.origin("conductor.lease-s"), message);
        }
    }
}

fn urls_can_be_reached(settings: &Settings, machine: &Machine, report: &Report) {
    let agent = &settings.agent;
    if agent.urls.is_empty() && !report.is_wrong("agent.urls") && !agent.listen.ip().is_loopback() {
        report.warning(
            report.origin("agent.urls"),
            format!(
                "[agent] urls is not set: ramdisks are told {}; set it where they reach this machine by another address, and wherever there is more than one conductor",
                machine.url_of(agent.listen)
            ),
        );
    }
    let serves = |kind: &BackendKind| matches!(kind, BackendKind::Embedded);
    let is_embedded = settings.backends.iter().any(|backend| serves(&backend.kind));
    let images = &settings.images;
    let is_untold = images.external_url.is_none() && !report.is_wrong("images.external-url");
    if is_embedded && is_untold && !images.listen.ip().is_loopback() {
        report.warning(
            report.origin("images.external-url"),
            format!(
                "[images] external-url is not set: BMCs are told {}; set it where they reach this machine by another address",
                machine.url_of(images.listen)
            ),
        );
    }
}

fn nodes_can_boot(settings: &Settings, report: &Report) {
    if settings.images.esp.is_none() && !report.is_wrong("images.esp") {
        let message = "[images] esp is not set: servers boot in BIOS mode only; `farrier image esp` makes one for UEFI";
        report.warning(report.origin("images.esp"), message.into());
    }
}

/// A regular file that we may read; the reason otherwise.
pub(crate) fn readable(file: &Path) -> Result<(), String> {
    match File::open(file).and_then(|file| file.metadata()) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err("it is not a regular file".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Files that the site names are readable now; better said here than at the first deployment. Defaults are not looked at: a
/// site may never need them.
fn files_are_there(settings: &Settings, report: &Report) {
    let check = |name: &str, label: &str, file: &Path| {
        let origin = report.origin(name);
        if origin == Origin::Default {
            return;
        }
        if let Err(reason) = readable(file) {
            let file = file.display();
            let label = report.label(name, label);
            let message = format!("{label} cannot be read: {file}: {reason}; put the file there, or correct the path");
            report.problem(origin, message);
        }
    };
    let api = &settings.api;
    if let Auth::HttpBasic { htpasswd } = &api.auth {
        check("api.htpasswd", "[api] htpasswd", htpasswd);
    }
    if let Some(Tls { certificate, key }) = &api.tls {
        check("api.tls-certificate", "[api] tls-certificate", certificate);
        check("api.tls-key", "[api] tls-key", key);
    }
    let images = &settings.images;
    if let Some(Tls { certificate, key }) = &images.tls {
        check("images.tls-certificate", "[images] tls-certificate", certificate);
        check("images.tls-key", "[images] tls-key", key);
    }
    check("images.isolinux", "[images] isolinux", &images.isolinux);
    if let Some(file) = &images.ldlinux {
        check("images.ldlinux", "[images] ldlinux", file);
    }
    if let Some(file) = &images.servers.ca {
        check("images.server-ca", "[images] server-ca", file);
    }
    for (key, reference) in images.references() {
        if let Reference::File(file) = reference {
            check(&format!("images.{key}"), &format!("[images] {key}"), file);
        }
    }
    for loader in &settings.netboot.loaders {
        check("netboot.loaders", "[netboot] loaders", &loader.path);
    }
    if let BmcTrust::File(file) = &settings.bmc.trust {
        check("bmc.ca", "[bmc] ca", file);
    }
    if let Some(file) = settings.glance.as_ref().and_then(|glance| glance.access.ca.as_ref()) {
        check("glance.ca", "[glance] ca", file);
    }
    for backend in &settings.backends {
        if let BackendKind::Swift(swift) = &backend.kind
            && let Some(file) = &swift.access.ca
        {
            let name = format!("backend.{}.ca", backend.place);
            check(&name, &format!("[[backend]] {} ca", backend.place), file);
        }
    }
    for plugin in &settings.plugins {
        let name = format!("plugin.{}.component", plugin.place);
        let label = format!("[[plugin]] {} component", plugin.place);
        check(&name, &label, &plugin.component);
    }
}
