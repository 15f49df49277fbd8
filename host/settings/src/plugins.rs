//! `[[plugin]]`: which plugin decides what, for which nodes, and what it may.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use model::Digest;
use serde_json::Value;

use crate::entries::{Out, word};
use crate::nearest::nearest;
use crate::section::Section;
use crate::tree::{Item, Origin, Raw, Table};
use crate::values::{Size, shown};

/// One plugin of the site. Two are the same wherever they are in their files.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// What it is used for.
    pub role: Role,
    /// The component's file.
    pub component: PathBuf,
    /// Nothing else is loaded.
    pub digest: Option<Digest>,
    /// What a node's facts must be (`match`), a text or `>=` a version each; empty = every node. The values are never looked
    /// at here.
    pub facts: BTreeMap<String, String>,
    /// Whether its answers count.
    pub mode: Mode,
    /// What it may: as JSON, in the words of the site file; the plugin host knows the functions. `None` = the default of its role.
    pub grant: Option<Value>,
    /// Bounds of each call.
    pub limits: Limits,
    /// Its own settings, as a JSON object.
    pub settings: Value,
    /// Where it is in the file, for what is found out later.
    pub origin: Origin,
    /// Which one it is in the file, from 1.
    pub(crate) place: usize,
}

impl PartialEq for Plugin {
    fn eq(&self, other: &Self) -> bool {
        let parts = |plugin: &Self| {
            let Self {
                role,
                component,
                digest,
                facts,
                mode,
                grant,
                limits,
                settings,
                origin: _,
                place: _,
            } = plugin.clone();
            (role, component, digest, facts, mode, grant, limits, settings)
        };
        parts(self) == parts(other)
    }
}

/// What a plugin is used for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Chooses the backend of an artefact.
    BackendSelection,
    /// Gets media in and out.
    Vmedia,
    /// Plans what a successor does.
    TakeOver,
    /// Answers vendor calls.
    Vendor,
}

const ROLES: &[(&str, Role)] = &[
    ("backend-selection", Role::BackendSelection),
    ("vmedia", Role::Vmedia),
    ("take-over", Role::TakeOver),
    ("vendor", Role::Vendor),
];

/// Whether a plugin's answers count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// They decide.
    Enforce,
    /// They are compared with those of the one that decides.
    Shadow,
}

const MODES: &[(&str, Mode)] = &[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];

/// Bounds of each call; `None` = the plugin host's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Time that it computes.
    pub cpu: Option<Duration>,
    /// Time from the call to its answer.
    pub wall: Option<Duration>,
    /// Calls of host functions.
    pub host_calls: Option<u32>,
    /// Bytes to and from the host.
    pub host_bytes: Option<u64>,
    /// Images and locations at a time.
    pub handles: Option<u32>,
    /// Bytes of log.
    pub log_bytes: Option<u64>,
}

pub(crate) fn take(sections: Vec<Section<'_>>) -> Vec<Plugin> {
    let numbered = (1..).zip(sections);
    numbered.filter_map(|(place, section)| plugin(section, place)).collect()
}

fn plugin(mut section: Section<'_>, place: usize) -> Option<Plugin> {
    let origin = section.origin.clone();
    let role = if section.is_absent("role") {
        let remedy = "set it to one of: backend-selection, vmedia, take-over, vendor";
        section.required::<String>("role", remedy);
        None
    } else {
        section.choice("role", ROLES)
    };
    let component = section.required("component", "name the component's file (.wasm)");
    let digest = section.value("digest");
    let facts = section.section("match");
    let facts = conditions(facts);
    let mode = section.choice("mode", MODES).unwrap_or(Mode::Enforce);
    let grant = section.item("grant").and_then(|item| grant(&section, item));
    let limits = limits(section.section("limits"));
    let settings = section.item("settings");
    let settings = match settings {
        None => Value::Object(serde_json::Map::new()),
        Some(item) if matches!(item.raw, Raw::Table(_)) => json(item.raw),
        Some(item) => {
            let reason = format!("{} must be a table", shown(&item.raw));
            section.problem("settings", &reason);
            Value::Null
        }
    };
    section.end();
    Some(Plugin {
        role: role?,
        component: component?,
        digest,
        facts,
        mode,
        grant,
        limits,
        settings,
        origin,
        place,
    })
}

/// `match`. A fact's name has dots in it: `"bmc.generation" = "6"` and `bmc.generation = "6"` are the same.
fn conditions(mut section: Section<'_>) -> BTreeMap<String, String> {
    fn flatten(section: &Section<'_>, name: String, item: Item, facts: &mut BTreeMap<String, String>) {
        let text = match item.raw {
            Raw::Text(text) => text,
            Raw::Integer(number) => number.to_string(),
            Raw::Boolean(truth) => truth.to_string(),
            Raw::Table(table) => {
                for (key, item) in table.entries {
                    flatten(section, format!("{name}.{key}"), item, facts);
                }
                return;
            }
            other => {
                let reason = format!("{} must be a text like \"HPE\" or \">=6\"", shown(&other));
                section.problem_at(item.origin, &name, &reason);
                return;
            }
        };
        facts.insert(name, text);
    }
    let mut facts = BTreeMap::new();
    for (key, item) in section.rest() {
        flatten(&section, key, item, &mut facts);
    }
    facts
}

/// The interfaces that a grant can name.
const GRANTS: &[&str] = &[
    "bmc",
    "bmc-raw",
    "image",
    "power",
    "secrets",
    "state",
    "storage",
    "vmedia-service",
];

fn grant(section: &Section<'_>, item: Item) -> Option<Value> {
    let Raw::Table(table) = &item.raw else {
        let reason = format!(
            "{} must be a table; {{}} grants nothing, and no grant at all the role's default",
            shown(&item.raw)
        );
        section.problem("grant", &reason);
        return None;
    };
    for (key, granted) in &table.entries {
        if GRANTS.contains(&key.as_str()) {
            continue;
        }
        let remedy = match nearest(key, GRANTS) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("known here: {}", GRANTS.join(", ")),
        };
        let reason = format!("names `{key}`, which is no grant; {remedy}");
        section.problem_at(granted.origin.clone(), "grant", &reason);
    }
    Some(json(item.raw))
}

fn limits(mut section: Section<'_>) -> Limits {
    let count = |number: Option<u64>| number.and_then(|number| u32::try_from(number).ok());
    let bytes = |size: Option<Size>| size.map(|size| size.0);
    let most = u64::from(u32::MAX);
    let limits = Limits {
        memory: bytes(section.value("memory")),
        cpu: section.number("cpu-ms", 1..=3_600_000).map(Duration::from_millis),
        wall: section.number("wall-s", 1..=86_400).map(Duration::from_secs),
        host_calls: count(section.number("host-calls", 1..=most)),
        host_bytes: bytes(section.value("host-bytes")),
        handles: count(section.number("handles", 1..=most)),
        log_bytes: bytes(section.value("log-bytes")),
    };
    section.end();
    limits
}

fn json(raw: Raw) -> Value {
    match raw {
        Raw::Text(text) | Raw::Moment(text) => text.into(),
        // No reader puts one into a plugin's table, and none would go to a plugin.
        Raw::Secret(_) => Value::Null,
        Raw::Integer(number) => number.into(),
        Raw::Float(number) => number.into(),
        Raw::Boolean(truth) => truth.into(),
        Raw::List(items) => items.into_iter().map(|item| json(item.raw)).collect(),
        Raw::Table(Table { entries }) => {
            let entries = entries.into_iter();
            Value::Object(entries.map(|(key, item)| (key, json(item.raw))).collect())
        }
    }
}

impl Plugin {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self {
            role,
            component,
            digest,
            facts,
            mode,
            grant,
            limits,
            settings,
            origin: _,
            place: _,
        } = self;
        out.put("role", word(ROLES, role));
        out.put("component", component);
        out.put("digest", digest.as_ref().map(ToString::to_string));
        let facts: serde_json::Map<String, Value> = facts
            .iter()
            .map(|(fact, value)| (fact.clone(), value.as_str().into()))
            .collect();
        out.put(
            "match",
            Some(Value::Object(facts)).filter(|facts| *facts != Value::Object(Default::default())),
        );
        out.put("mode", word(MODES, mode));
        out.put("grant", grant.clone());
        out.section("limits", |out| limits.write(out));
        out.put(
            "settings",
            Some(settings.clone()).filter(|given| *given != Value::Object(Default::default())),
        );
    }
}

impl Limits {
    fn write(&self, out: &mut Out) {
        let Self {
            memory,
            cpu,
            wall,
            host_calls,
            host_bytes,
            handles,
            log_bytes,
        } = self;
        out.put("memory", *memory);
        out.put(
            "cpu-ms",
            cpu.map(|cpu| u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX)),
        );
        out.put("wall-s", *wall);
        out.put("host-calls", *host_calls);
        out.put("host-bytes", *host_bytes);
        out.put("handles", *handles);
        out.put("log-bytes", *log_bytes);
    }
}
