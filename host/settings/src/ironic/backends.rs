//! Where images are published: Swift unless the flag says the web server, as the iLO drivers have it; the other drivers by a
//! flag of their own.

use std::collections::BTreeMap;

use super::credentials::{Credentials, credentials};
use super::draft::Draft;
use crate::tree::{Item, Origin, Raw, Table};

/// For which drivers a backend is; all, if there is only one.
const ILO: &str = "ilo";
const REDFISH: &str = "redfish";

pub(super) fn translate(draft: &mut Draft<'_>) {
    glance(draft);
    let decisive = [
        ("ilo", "use_web_server_for_images"),
        ("redfish", "use_swift"),
        ("deploy", "http_root"),
        ("deploy", "http_url"),
        ("deploy", "external_http_url"),
    ];
    if draft.site.find("backend").is_some() || draft.is_wrong(&decisive) {
        return;
    }
    let mut backends = Vec::new();
    let flag = draft.boolean("ilo", "use_web_server_for_images").unwrap_or(false);
    let has_redfish = match draft.list("DEFAULT", "enabled_hardware_types") {
        Some(types) => types.iter().any(|name| name == REDFISH),
        // It is there if nobody says otherwise; and was not when drivers were enabled by that option.
        None => draft.set("DEFAULT", "enabled_drivers").is_none(),
    };
    let web_for_ilo = flag.then(|| web_root(draft, true)).flatten();
    let swift_for_ilo = match flag {
        true => None,
        false => swift(draft, "ilo", "swift_ilo_container", true),
    };
    let ilo = web_for_ilo.or(swift_for_ilo);
    if has_redfish {
        let redfish = match draft.boolean("redfish", "use_swift").unwrap_or(false) {
            true => swift(draft, "redfish", "swift_container", false),
            false => web_root(draft, false).or_else(|| Some(embedded(draft))),
        };
        match (ilo, redfish) {
            // One place for all.
            (Some(ilo), Some(redfish)) if ilo.is_same(&redfish) => backends.push(ilo),
            (ilo, redfish) => {
                backends.extend(ilo.map(|backend| backend.only_for(ILO)));
                backends.extend(redfish.map(|backend| backend.renamed().only_for(REDFISH)));
            }
        }
    } else {
        backends.extend(ilo);
    }
    // None: what is missing has been told.
    if !backends.is_empty() {
        let origin = backends[0].origin.clone();
        let items = backends.into_iter().map(Draught::into_item).collect();
        draft.put("backend", Raw::List(items), origin);
    }
}

/// A backend in the making.
struct Draught {
    kind: &'static str,
    entries: BTreeMap<String, Item>,
    origin: Origin,
}

impl Draught {
    fn new(id: &str, kind: &'static str, origin: Origin) -> Self {
        let mut backend = Self {
            kind,
            entries: BTreeMap::new(),
            origin: origin.clone(),
        };
        backend.put("id", Raw::Text(id.to_owned()), origin.clone());
        backend.put("kind", Raw::Text(kind.to_owned()), origin);
        backend
    }

    fn put(&mut self, key: &str, raw: Raw, origin: Origin) {
        self.entries.insert(key.to_owned(), Item { raw, origin });
    }

    /// The same place; credentials are the same for all.
    fn is_same(&self, other: &Self) -> bool {
        let text = |backend: &Self, key: &str| match backend.entries.get(key).map(|item| &item.raw) {
            Some(Raw::Text(text)) => text.clone(),
            _ => String::new(),
        };
        self.kind == other.kind
            && ["container", "root", "url"]
                .iter()
                .all(|key| text(self, key) == text(other, key))
    }

    fn only_for(mut self, drivers: &str) -> Self {
        let origin = self.origin.clone();
        let item = Item {
            raw: Raw::Text(drivers.to_owned()),
            origin: origin.clone(),
        };
        self.put("drivers", Raw::List(vec![item]), origin);
        self
    }

    /// Under an id of its own beside one of the same kind.
    fn renamed(mut self) -> Self {
        let origin = self.origin.clone();
        let id = format!("{}-{REDFISH}", self.kind);
        self.put("id", Raw::Text(id), origin);
        self
    }

    fn into_item(self) -> Item {
        Item {
            raw: Raw::Table(Table { entries: self.entries }),
            origin: self.origin,
        }
    }
}

fn embedded(draft: &Draft<'_>) -> Draught {
    Draught::new("embedded", "embedded", draft.origin("redfish", "use_swift"))
}

/// The web server; nothing if its URL is not set, which is a problem where it has been asked for.
fn web_root(draft: &Draft<'_>, is_asked_for: bool) -> Option<Draught> {
    let flag = draft.origin("ilo", "use_web_server_for_images");
    let (url, url_at) = match draft.text("deploy", "external_http_url") {
        Some(url) => (url, draft.origin("deploy", "external_http_url")),
        None => match draft.text("deploy", "http_url") {
            Some(url) => (url, draft.origin("deploy", "http_url")),
            None => {
                if is_asked_for {
                    let label = flag.option().unwrap_or_default();
                    let message = format!(
                        "{label} = True needs [deploy] http_url; set it to the URL of the folder {} as BMCs see it",
                        draft.text_or_default("deploy", "http_root")
                    );
                    draft.report.problem(flag, message);
                }
                return None;
            }
        },
    };
    let mut backend = Draught::new("web-root", "web-root", if is_asked_for { flag } else { url_at.clone() });
    let root = draft.text_or_default("deploy", "http_root").to_owned();
    backend.put("root", Raw::Text(root), draft.origin("deploy", "http_root"));
    backend.put("url", Raw::Text(url.to_owned()), url_at);
    if let Some((mode, origin)) = file_mode(draft) {
        backend.put("mode", Raw::Text(mode), origin);
    }
    Some(backend)
}

/// Ironic's number is decimal, whatever it looks like.
fn file_mode(draft: &Draft<'_>) -> Option<(String, Origin)> {
    let (mode, group) = [ILO, REDFISH]
        .into_iter()
        .find_map(|group| Some((draft.whole(group, "file_permission")?, group)))?;
    let origin = draft.origin(group, "file_permission");
    if (0..=0o777).contains(&mode) && mode & 0o600 == 0o600 {
        return Some((format!("{mode:04o}"), origin));
    }
    let meant = u32::from_str_radix(&mode.to_string(), 8)
        .ok()
        .filter(|meant| *meant <= 0o777);
    let remedy = match meant {
        Some(meant) => format!("; it is a decimal number: for permissions 0{mode} write {meant}"),
        None => String::new(),
    };
    draft.report.warning(
        origin,
        format!(
            "[{group}] file_permission = {mode} is no permissions of a file that we could write: 0644 is taken{remedy}"
        ),
    );
    None
}

/// Swift; what is missing for it is a problem.
fn swift(draft: &Draft<'_>, group: &'static str, container: &'static str, is_default: bool) -> Option<Draught> {
    let flag = match is_default {
        true => draft.origin("ilo", "use_web_server_for_images"),
        false => draft.origin("redfish", "use_swift"),
    };
    let entries = match credentials(draft, "swift") {
        Credentials::Given(entries) => entries,
        Credentials::Wrong => return None,
        Credentials::Absent => {
            let place = match flag {
                Origin::Default => draft.near(&["swift", "keystone_authtoken", "ilo"]),
                set => set,
            };
            let (why, other) = match is_default {
                true => (
                    "[ilo] use_web_server_for_images is not True, so that the iLO drivers' images go to Swift",
                    "set [ilo] use_web_server_for_images = True with [deploy] http_root and http_url",
                ),
                false => (
                    "[redfish] use_swift is True",
                    "set [redfish] use_swift = False with [deploy] http_root and http_url",
                ),
            };
            let message = format!(
                "{why}, and [swift] has no credentials; set auth_type, auth_url, username, password and project_name there, or {other}"
            );
            draft.report.problem(place, message);
            return None;
        }
    };
    let mut backend = Draught::new("swift", "swift", flag);
    for (key, raw, origin) in entries {
        backend.put(key, raw, origin);
    }
    let name = draft.text_or_default(group, container).to_owned();
    backend.put("container", Raw::Text(name), draft.origin(group, container));
    if let Some(seconds) = draft.whole(group, "swift_object_expiry_timeout") {
        let origin = draft.origin(group, "swift_object_expiry_timeout");
        let seconds = seconds.clamp(1, 366 * 24 * 60 * 60);
        backend.put("lifetime-s", Raw::Integer(seconds), origin);
    }
    for option in ["swift_max_retries", "connect_retries"] {
        if let Some(retries) = draft.whole("swift", option) {
            let attempts = Raw::Integer(retries.clamp(0, 99) + 1);
            backend.put("attempts", attempts, draft.origin("swift", option));
            break;
        }
    }
    Some(backend)
}

/// Images may be named by their Glance identifier where there are credentials for it.
fn glance(draft: &mut Draft<'_>) {
    let entries = match credentials(draft, "glance") {
        Credentials::Given(entries) => entries,
        Credentials::Wrong | Credentials::Absent => return,
    };
    for (key, raw, origin) in entries {
        draft.put(&format!("glance.{key}"), raw, origin);
    }
    if draft.tree.find("glance.endpoint").is_none()
        && let Some(first) = draft.list("glance", "glance_api_servers").unwrap_or_default().first()
    {
        let url = match first.contains("://") {
            true => first.clone(),
            false => format!("http://{first}"),
        };
        let origin = draft.origin("glance", "glance_api_servers");
        draft.put("glance.endpoint", Raw::Text(url), origin);
    }
    if let Some(retries) = draft.whole("glance", "num_retries") {
        let attempts = Raw::Integer(retries.clamp(0, 99) + 1);
        draft.put("glance.attempts", attempts, draft.origin("glance", "num_retries"));
    }
    for (option, setting) in [
        ("swift_temp_url_key", "temp-url-key"),
        ("swift_endpoint_url", "endpoint"),
        ("swift_api_version", "api-version"),
        ("swift_account", "account"),
        ("swift_account_prefix", "account-prefix"),
        ("swift_container", "container"),
    ] {
        draft.copy("glance", option, &format!("glance.swift.{setting}"));
    }
    let seconds = super::draft::Range {
        least: 1,
        most: 366 * 24 * 60 * 60,
        never: None,
        unit: "seconds",
    };
    draft.copy_number(
        "glance",
        "swift_temp_url_duration",
        "glance.swift.temp-url-duration-s",
        &seconds,
    );
    draft.copy_boolean("glance", "swift_temp_url_cache_enabled", "glance.swift.temp-url-cache");
    let delay = super::draft::Range { least: 0, ..seconds };
    draft.copy_number(
        "glance",
        "swift_temp_url_expected_download_start_delay",
        "glance.swift.download-start-delay-s",
        &delay,
    );
    let seed = super::draft::Range {
        least: 0,
        most: 32,
        never: None,
        unit: "characters",
    };
    draft.copy_number(
        "glance",
        "swift_store_multiple_containers_seed",
        "glance.swift.containers-seed",
        &seed,
    );
}
