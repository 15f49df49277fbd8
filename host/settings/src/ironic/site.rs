//! The conductor, its data, its drivers and how it talks to BMCs.

use model::BootInterface;

use super::draft::{Draft, Range};
use super::{FILE_PATHS, STATE_PATH};
use crate::tree::{Item, Origin, Raw};

const WEEK: i64 = 7 * 24 * 60 * 60;
const DAY: i64 = 24 * 60 * 60;

pub(super) fn translate(draft: &mut Draft<'_>) {
    data(draft);
    conductor(draft);
    drivers(draft);
    bmc(draft);
}

fn data(draft: &mut Draft<'_>) {
    let state = draft.text("DEFAULT", "state_path").unwrap_or(STATE_PATH);
    let folder = format!("{}/farrier", state.trim_end_matches('/'));
    let origin = draft.origin("DEFAULT", "state_path");
    draft.put("data-dir", Raw::Text(folder), origin);
    let paths = draft.list("conductor", "file_url_allowed_paths");
    let paths = paths.unwrap_or_else(|| FILE_PATHS.split(',').map(str::to_owned).collect());
    let origin = draft.origin("conductor", "file_url_allowed_paths");
    draft.put("file-url-allowed-paths", texts(paths, &origin), origin);
}

fn conductor(draft: &mut Draft<'_>) {
    draft.copy("DEFAULT", "host", "conductor.name");
    draft.copy("conductor", "conductor_group", "conductor.group");
    draft.copy_boolean("conductor", "automated_clean", "conductor.automated-clean");
    let wait = Range {
        least: 1,
        most: WEEK,
        never: Some(WEEK),
        unit: "seconds",
    };
    for (option, setting) in [
        ("deploy_callback_timeout", "conductor.deploy-callback-timeout-s"),
        ("clean_callback_timeout", "conductor.clean-callback-timeout-s"),
        ("rescue_callback_timeout", "conductor.rescue-callback-timeout-s"),
        ("inspect_wait_timeout", "conductor.inspect-timeout-s"),
    ] {
        draft.copy_number("conductor", option, setting, &wait);
    }
    let span = |least, most, never| Range {
        least,
        most,
        never,
        unit: "seconds",
    };
    for (option, setting, range) in [
        ("heartbeat_timeout", "conductor.lease-s", span(1, 3600, None)),
        (
            "sync_power_state_interval",
            "conductor.power-sync-interval-s",
            span(1, DAY, Some(DAY)),
        ),
        (
            "power_state_change_timeout",
            "conductor.power-timeout-s",
            span(2, DAY, None),
        ),
        (
            "soft_power_off_timeout",
            "conductor.soft-power-off-timeout-s",
            span(1, DAY, None),
        ),
    ] {
        draft.copy_number("conductor", option, setting, &range);
    }
    let workers = Range {
        least: 1,
        most: 10_000,
        never: None,
        unit: "nodes at the same time",
    };
    draft.copy_number("conductor", "workers_pool_size", "conductor.workers", &workers);
}

fn drivers(draft: &mut Draft<'_>) {
    let types = draft.list("DEFAULT", "enabled_hardware_types");
    let classic = draft.list("DEFAULT", "enabled_drivers");
    if types.is_some() || classic.is_some() {
        let origin = match types {
            Some(_) => draft.origin("DEFAULT", "enabled_hardware_types"),
            None => draft.origin("DEFAULT", "enabled_drivers"),
        };
        let mut enabled: Vec<String> = types.into_iter().chain(classic).flatten().collect();
        // Hardware types took the place of the drivers of former times.
        if enabled.iter().any(|name| name == "ilo" || name == "ilo5") {
            enabled.extend(["agent_ilo".to_owned(), "iscsi_ilo".to_owned()]);
        }
        let mut seen = Vec::new();
        enabled.retain(|name| {
            !name.is_empty() && !seen.contains(name) && {
                seen.push(name.clone());
                true
            }
        });
        if !enabled.iter().any(|name| name.contains("ilo") || name == "redfish") {
            let message = "names no driver that Farrier has; add ilo, ilo5 or redfish, or nodes of other drivers stay where they are";
            let label = origin.option().unwrap_or_default();
            draft.report.warning(origin.clone(), format!("{label} {message}"));
        }
        draft.put("drivers.enabled", texts(enabled, &origin), origin);
    }
    boot_interfaces(draft);
}

/// Those that Farrier has. Where none is left, nobody meant that nothing can be booted: all are offered.
fn boot_interfaces(draft: &mut Draft<'_>) {
    let is_known = |name: &String| name.parse::<BootInterface>().is_ok();
    let all = BootInterface::ALL.map(BootInterface::as_str).join(", ");
    if let Some(names) = draft.list("DEFAULT", "enabled_boot_interfaces") {
        let origin = draft.origin("DEFAULT", "enabled_boot_interfaces");
        let (known, strange): (Vec<_>, Vec<_>) = names.into_iter().partition(is_known);
        if known.is_empty() {
            let message = format!(
                "[DEFAULT] enabled_boot_interfaces names none that Farrier has: all of them are offered ({all})"
            );
            draft.report.warning(origin, message);
        } else {
            if !strange.is_empty() {
                let strange = cut(&strange.join(", "));
                let message = format!(
                    "[DEFAULT] enabled_boot_interfaces names {strange} beside what Farrier has ({all}): nodes that ask for them are refused"
                );
                draft.report.warning(origin.clone(), message);
            }
            draft.put("drivers.boot-interfaces", texts(known, &origin), origin);
        }
    }
    if let Some(name) = draft.text("DEFAULT", "default_boot_interface").map(str::to_owned) {
        let origin = draft.origin("DEFAULT", "default_boot_interface");
        if is_known(&name) {
            draft.put("drivers.default-boot-interface", Raw::Text(name), origin);
        } else {
            let message = format!(
                "[DEFAULT] default_boot_interface = {} is none that Farrier has ({all}): nodes boot by virtual media where they say nothing",
                cut(&name)
            );
            draft.report.warning(origin, message);
        }
    }
}

/// For a message.
fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

fn bmc(draft: &mut Draft<'_>) {
    let port = Range {
        least: 1,
        most: 65_535,
        never: Some(443),
        unit: "a port",
    };
    draft.copy_number("ilo", "client_port", "bmc.port", &port);
    let timeout = Range {
        least: 1,
        most: 3600,
        never: None,
        unit: "seconds",
    };
    draft.copy_number("ilo", "client_timeout", "bmc.timeout-s", &timeout);
    if let Some(verify) = draft.text("ilo", "verify_ca").map(str::to_owned) {
        let origin = draft.origin("ilo", "verify_ca");
        match truth(&verify) {
            Some(truth) => draft.put("bmc.verify", Raw::Boolean(truth), origin),
            None => certificate(draft, &verify, "bmc.ca", origin),
        }
    } else if let Some(file) = draft.text("ilo", "ca_file").map(str::to_owned) {
        let origin = draft.origin("ilo", "ca_file");
        let message = "[ilo] ca_file is deprecated; write it as [ilo] verify_ca";
        draft.report.warning(origin.clone(), message.to_owned());
        certificate(draft, &file, "bmc.ca", origin);
    }
}

/// A file of certificates; Ironic also takes a folder of them.
pub(super) fn certificate(draft: &mut Draft<'_>, path: &str, setting: &str, origin: Origin) {
    if std::path::Path::new(path).is_dir() {
        let label = origin.option().unwrap_or_default();
        let message = format!(
            "{label} is a folder: certificates are checked against the machine's authorities alone; name one PEM file"
        );
        draft.report.warning(origin, message);
        return;
    }
    draft.put(setting, Raw::Text(path.to_owned()), origin);
}

/// A word for true or false; anything else is a path.
pub(super) fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// A list of texts that all came from there.
pub(super) fn texts(values: Vec<String>, origin: &Origin) -> Raw {
    let item = |value| Item {
        raw: Raw::Text(value),
        origin: origin.clone(),
    };
    Raw::List(values.into_iter().map(item).collect())
}
