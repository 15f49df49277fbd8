//! One call of a plugin as it goes on record, and the scenario file that comes of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::SystemTime;

use model::{ArtefactKind, Node, Secret};
use runtime::{
    CallContext, CallError, CallFailure, Candidate, DriverError, HostCall, LocationInfo, Media, Renewal, Reply,
    SiteFacts,
};
use serde_json::{Map, Value as Json, json};

use super::{RecordedPlugin, scrub};
use crate::calls::arguments;

/// Most exchanges of one recording; a call may make as many host calls.
const MOST: usize = 10_000;

pub(super) struct Tape {
    plugin: String,
    began: SystemTime,
    node: Node,
    by_operator: bool,
    function: String,
    arguments: Json,
    exchanges: Vec<Json>,
    backends: Vec<Json>,
    images: u32,
    locations: u32,
    /// Names of locations that came from outside or from another session.
    urls: Vec<(Secret, u32)>,
}

impl Tape {
    pub(super) fn new(context: &CallContext, plugin: &str, began: SystemTime) -> Self {
        Self {
            plugin: plugin.to_owned(),
            began,
            node: context.node.clone(),
            by_operator: context.by_operator,
            function: String::new(),
            arguments: Json::Null,
            exchanges: Vec::new(),
            backends: Vec::new(),
            images: 0,
            locations: 0,
            urls: Vec::new(),
        }
    }

    pub(super) fn plugin(&self) -> &str {
        &self.plugin
    }

    pub(super) fn next_image(&mut self) -> u32 {
        self.images += 1;
        self.images
    }

    pub(super) fn next_location(&mut self) -> u32 {
        self.locations += 1;
        self.locations
    }

    pub(super) fn known(&mut self, url: &Secret, name: u32) {
        self.urls.push((url.clone(), name));
    }

    /// The name of a location that is taken in: its old one, if it has been handed down.
    pub(super) fn accepted(&mut self, url: &Secret) -> u32 {
        if let Some((_, name)) = self.urls.iter().find(|(known, _)| known == url) {
            return *name;
        }
        let name = self.next_location();
        self.known(url, name);
        name
    }

    /// The call that the host makes. What it is about is named by its URL.
    pub(super) fn enter(&mut self, function: &str, mut arguments: Json, locations: &BTreeMap<u32, u32>) {
        if let Some(map) = arguments.as_object_mut()
            && let Some(location) = map.remove("location").and_then(|handle| handle.as_u64())
        {
            let name = u32::try_from(location).ok().and_then(|handle| locations.get(&handle));
            let url = self.urls.iter().find(|(_, known)| Some(known) == name);
            let url = url.map_or("", |(url, _)| url.expose());
            map.insert("url".to_owned(), scrub::text(url).into());
        }
        self.function = function.to_owned();
        self.arguments = scrub::kept(arguments);
    }

    pub(super) fn offer(&mut self, candidates: &[Candidate]) {
        self.backends = candidates.iter().map(Candidate::told).collect();
    }

    pub(super) fn add(&mut self, call: &HostCall, result: &Result<Reply, DriverError>) {
        if self.exchanges.len() == MOST {
            return;
        }
        let mut entry = Map::from_iter([("on".to_owned(), json!(call.name()))]);
        let mut with = scrub::compared(arguments(call));
        if let Some(map) = with.as_object_mut() {
            // Which backend it becomes is the decision of another plugin.
            map.remove("backend");
            map.retain(|_, value| !value.is_null() && !value.as_array().is_some_and(Vec::is_empty));
            if !map.is_empty() {
                entry.insert("with".to_owned(), with);
            }
        }
        match result {
            Ok(Reply::Done) => {}
            Ok(reply) => {
                entry.insert("reply".to_owned(), scrub::kept(told(reply)));
            }
            Err(error) => {
                entry.insert("error".to_owned(), told_error(error));
            }
        }
        self.exchanges.push(Json::Object(entry));
    }

    pub(super) fn file_name(&self, number: u64) -> String {
        let id = self.node.id.to_string();
        format!("{number:05}-{}-{}.yaml", self.function, &id[..id.len().min(8)])
    }

    /// The scenario file.
    pub(super) fn scenario(
        &self,
        plugin: Option<&RecordedPlugin>,
        site: &SiteFacts,
        result: Result<Json, &CallError>,
    ) -> String {
        let name = self.node.name.as_ref().map_or("", |name| name.as_str());
        let built_in = self.plugin.strip_prefix("built-in:");
        let mut text = format!(
            "# Recorded from `{}`. Secrets were left out; read it before you give it away.\n",
            self.plugin
        );
        let mut line = |indent: &str, key: &str, value: &Json| {
            // JSON is YAML. Writing into a text cannot fail.
            let _ = writeln!(text, "{indent}{key}: {value}");
        };
        line("", "suite", &json!(format!("{} of {name}, recorded", self.function)));
        let at = plugin.map_or_else(
            || json!({ "built-in": built_in.unwrap_or(&self.plugin) }),
            |plugin| plugin.plugin.clone(),
        );
        line("", "plugin", &at);
        if let Some(plugin) = plugin {
            if let Some(grants) = &plugin.grants {
                line("", "grants", grants);
            }
            if plugin.settings.as_object().is_some_and(|settings| !settings.is_empty()) {
                line("", "settings", &scrub::kept(plugin.settings.clone()));
            }
        }
        if !site.is_empty() {
            line("", "site", &json!(site));
        }
        if let Ok(clock) = jiff::Timestamp::try_from(self.began) {
            line("", "clock", &json!(format!("{clock:.3}")));
        }
        text.push_str("cases:\n  - name: recorded\n");
        let mut line = |key: &str, value: &Json| {
            let _ = writeln!(text, "    {key}: {value}");
        };
        line("call", &json!(self.function));
        line("args", &self.arguments);
        line("node", &told_node(&self.node));
        if self.by_operator {
            line("by-operator", &json!(true));
        }
        if !self.backends.is_empty() {
            line("backends", &json!(self.backends));
        }
        line("expect", &expectation(result));
        if self.exchanges.is_empty() {
            return text;
        }
        text.push_str("    host:\n");
        for exchange in &self.exchanges {
            let _ = writeln!(text, "      - {exchange}");
        }
        text
    }
}

fn expectation(result: Result<Json, &CallError>) -> Json {
    match result {
        Ok(Json::Null) => json!({ "outcome": "ok" }),
        Ok(result) => json!({ "outcome": "ok", "result": scrub::compared(result) }),
        Err(CallError::Answered(DriverError::Denied(_))) => json!({ "outcome": "denied" }),
        Err(CallError::Answered(error)) => json!({ "outcome": "error", "error": error.cause() }),
        Err(CallError::Failed {
            failure: CallFailure::WallBudget(_),
            ..
        }) => json!({ "outcome": "timeout" }),
        Err(CallError::Failed { failure, .. }) => json!({ "outcome": "trapped", "reason": failure.cause() }),
    }
}

fn told_node(node: &Node) -> Json {
    let fields = |fields: &model::Fields| scrub::kept(json!(fields));
    let mut told = json!({
        "id": node.id.to_string(),
        "driver": node.driver.as_str(),
        "conductor-group": node.conductor_group,
        "provision-state": node.provision_state.as_str(),
        "facts": node.facts,
        "driver-info": fields(&node.driver_info),
        "instance-info": fields(&node.instance_info),
        "properties": fields(&node.properties),
    });
    if let Some(map) = told.as_object_mut() {
        if let Some(name) = &node.name {
            map.insert("name".to_owned(), name.as_str().into());
        }
        if let Some(mode) = node.boot_mode {
            map.insert("boot-mode".to_owned(), mode.as_str().into());
        }
        map.retain(|_, value| !value.as_object().is_some_and(Map::is_empty) && *value != json!(""));
    }
    told
}

/// As an entry's `reply` has it.
fn told(reply: &Reply) -> Json {
    match reply {
        Reply::Done => json!("ok"),
        Reply::Number(number) => json!(number),
        Reply::Flag(flag) => json!(flag),
        Reply::Text(text) => json!(text),
        Reply::MaybeText(text) => json!(text),
        Reply::Facts(facts) => json!(facts),
        Reply::Value(None) | Reply::MaybeLocation(None) => json!("none"),
        Reply::Value(Some(value)) => json!({ "version": value.version, "value": value.value }),
        Reply::Image(handle, info) => {
            json!({ "name": format!("image#{}", handle.0), "size": info.size, "digest": info.digest })
        }
        Reply::Location(handle, info) | Reply::MaybeLocation(Some((handle, info))) => told_location(handle.0, info),
        Reply::Renewal(renewal) => json!(match renewal {
            Renewal::Extended => "extended",
            Renewal::UrlChanged => "url-changed",
            Renewal::NotPossible => "not-possible",
        }),
        Reply::Media(media) => told_media(media),
        Reply::BootMode(mode) => json!(mode.as_str()),
        Reply::Power(state) => json!(match state {
            model::PowerState::On => "on",
            model::PowerState::Off => "off",
            model::PowerState::Unknown => "unknown",
        }),
        Reply::Raw(raw) => {
            let headers: BTreeMap<&String, &String> = raw.headers.iter().map(|(name, value)| (name, value)).collect();
            json!({ "status": raw.status, "headers": headers, "body": raw.body })
        }
    }
}

fn told_location(number: u32, info: &LocationInfo) -> Json {
    let mut told = json!({ "name": format!("location#{number}"), "display": info.display });
    if let Some(map) = told.as_object_mut() {
        if info.backend != "external" {
            map.insert("backend".to_owned(), json!(info.backend));
        }
        if let Some(digest) = &info.digest {
            map.insert("digest".to_owned(), json!(digest));
        }
        if let Some(expires) = info.expires_ms {
            map.insert("expires-ms".to_owned(), json!(expires));
        }
    }
    told
}

fn told_media(media: &Media) -> Json {
    let mut told = json!({
        "inserted": media.inserted, "connected": media.connected, "write-protected": media.write_protected,
    });
    if let Some(map) = told.as_object_mut() {
        // What goes into no slot is in none.
        if let Some(kind) = media.artefact.filter(|kind: &ArtefactKind| kind.device().is_some()) {
            map.insert("artefact".to_owned(), json!(kind.as_str()));
        }
        if let Some(url) = &media.url {
            map.insert("url".to_owned(), json!(url));
        }
    }
    told
}

fn told_error(error: &DriverError) -> Json {
    match error {
        DriverError::Other {
            code,
            message,
            retry_after_ms,
        } => {
            let mut detail = json!({ "code": code, "message": scrub::text(message) });
            if let (Some(map), Some(ms)) = (detail.as_object_mut(), retry_after_ms) {
                map.insert("retry-after-ms".to_owned(), json!(ms));
            }
            json!({ "other": detail })
        }
        error => {
            let text = match error {
                DriverError::Denied(what) => what.clone(),
                error => error.to_string(),
            };
            json!({ error.cause(): scrub::text(&text) })
        }
    }
}
