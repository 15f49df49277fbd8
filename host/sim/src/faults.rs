//! What goes wrong on purpose: rules read from a TOML file and applied to BMC requests.
//!
//! Each `[[rule]]` says which requests it meets (`server`, `method`, `path` with `*` for any run of characters; absent
//! means all), which of those it spares first (`skip`) and how many it then hits (`times`), and what happens to them:
//! `status` with `body` or with `message` (a message id), `hang`, `drop`, `truncate` (bytes of the reply's body),
//! `stale-inserted-ms` (after an eject), `session-table-full`, `not-mounted` (an insert that lies), and `delay-ms` by
//! itself or before any of them. The first rule that is due wins; `name` is what the trace calls it.
//!
//! ```
//! let faults = sim::Faults::parse(r#"
//!     [[rule]]
//!     server = 0
//!     method = "POST"
//!     path = "/redfish/v1/Managers/1/VirtualMedia/*/Actions/*"
//!     times = 2
//!     status = 500
//! "#).unwrap();
//! ```

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;

use crate::error::SimError;

/// A fault file may not be bigger than this.
const FILE_CAP: u64 = 1 << 20;

/// An ordered list of fault rules with their counters. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Arc<Mutex<Vec<Arc<Rule>>>>,
}

#[derive(Debug)]
struct Rule {
    spec: RuleSpec,
    seen: AtomicU64,
    applied: AtomicU64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    #[serde(default)]
    rule: Vec<RuleSpec>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleSpec {
    name: Option<String>,
    server: Option<usize>,
    method: Option<String>,
    path: Option<String>,
    #[serde(default)]
    skip: u64,
    times: Option<u64>,
    status: Option<u16>,
    body: Option<String>,
    message: Option<String>,
    delay_ms: Option<u64>,
    #[serde(default)]
    hang: bool,
    #[serde(default)]
    drop: bool,
    truncate: Option<usize>,
    stale_inserted_ms: Option<u64>,
    #[serde(default)]
    session_table_full: bool,
    #[serde(default)]
    not_mounted: bool,
}

/// What a matching rule does to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// Name for the trace.
    pub(crate) name: String,
    pub(crate) delay: Option<Duration>,
    pub(crate) effect: Effect,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Only the delay.
    None,
    /// Answer this instead of doing anything.
    Answer { status: u16, body: AnswerBody },
    /// Never answer.
    Hang,
    /// Close the connection instead of answering; the request was not carried out.
    Drop,
    /// Carry it out and cut the reply's body after this many bytes.
    Truncate(usize),
    /// Carry it out; the slot keeps saying `Inserted` for this long.
    StaleInserted(Duration),
    /// Refuse a new session as if the table were full.
    SessionTableFull,
    /// Say yes to an insert and mount nothing.
    NotMounted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerBody {
    /// Text as given.
    Text(String),
    /// An error document with this message id.
    Message(String),
    Empty,
}

impl Faults {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads rules from a TOML file of at most 1 MiB.
    pub fn load(path: &Path) -> Result<Self, SimError> {
        let wrong = |reason: String| SimError::Faults(format!("{}: {reason}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if size > FILE_CAP {
            return Err(wrong(format!("{size} bytes; at most {FILE_CAP} are read")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text).map_err(|error| wrong(error.to_string()))
    }

    /// Reads rules from TOML text.
    pub fn parse(text: &str) -> Result<Self, SimError> {
        let faults = Self::none();
        faults.add(text)?;
        Ok(faults)
    }

    /// Adds the rules in `text` behind the present ones, also while servers run.
    pub fn add(&self, text: &str) -> Result<(), SimError> {
        let file: FaultFile = toml::from_str(text).map_err(|error| SimError::Faults(error.to_string()))?;
        let mut added = Vec::new();
        for (index, spec) in file.rule.into_iter().enumerate() {
            check(&spec).map_err(|reason| {
                let name = spec.name.clone().unwrap_or_else(|| format!("{}", index + 1));
                SimError::Faults(format!("rule {name}: {reason}"))
            })?;
            added.push(Arc::new(Rule {
                spec,
                seen: AtomicU64::new(0),
                applied: AtomicU64::new(0),
            }));
        }
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).extend(added);
        Ok(())
    }

    /// Removes every rule.
    pub fn clear(&self) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// How often each rule was applied, in file order, with its name.
    pub fn applied(&self) -> Vec<(String, u64)> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules
            .iter()
            .enumerate()
            .map(|(index, rule)| (rule.name(index), rule.applied.load(Ordering::Relaxed)))
            .collect()
    }

    /// The first rule that matches and is due. Counts every match.
    pub(crate) fn apply(&self, server: usize, method: &str, path: &str) -> Option<Applied> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, rule) in rules.iter().enumerate() {
            let spec = &rule.spec;
            let hit = spec.server.is_none_or(|wanted| wanted == server)
                && spec
                    .method
                    .as_deref()
                    .is_none_or(|wanted| wanted.eq_ignore_ascii_case(method))
                && spec.path.as_deref().is_none_or(|wanted| glob(wanted, path));
            if !hit {
                continue;
            }
            let seen = rule.seen.fetch_add(1, Ordering::Relaxed);
            let due = seen >= spec.skip && spec.times.is_none_or(|times| seen < spec.skip.saturating_add(times));
            if due {
                rule.applied.fetch_add(1, Ordering::Relaxed);
                return Some(Applied {
                    name: rule.name(index),
                    delay: spec.delay_ms.map(Duration::from_millis),
                    effect: effect(spec),
                });
            }
        }
        None
    }
}

impl Rule {
    fn name(&self, index: usize) -> String {
        self.spec.name.clone().unwrap_or_else(|| format!("rule {}", index + 1))
    }
}

fn check(spec: &RuleSpec) -> Result<(), String> {
    let effects = usize::from(spec.status.is_some())
        + usize::from(spec.hang)
        + usize::from(spec.drop)
        + usize::from(spec.truncate.is_some())
        + usize::from(spec.stale_inserted_ms.is_some())
        + usize::from(spec.session_table_full)
        + usize::from(spec.not_mounted);
    if effects > 1 {
        return Err("has several effects; give one of status, hang, drop, truncate, stale-inserted-ms, session-table-full, not-mounted".into());
    }
    if effects == 0 && spec.delay_ms.is_none() {
        return Err("has no effect; give one, or delay-ms".into());
    }
    if let Some(status) = spec.status
        && !(200..600).contains(&status)
    {
        return Err(format!("status {status} is not an HTTP status that ends a request"));
    }
    if spec.status.is_none() && (spec.body.is_some() || spec.message.is_some()) {
        return Err("body and message need a status".into());
    }
    if spec.body.is_some() && spec.message.is_some() {
        return Err("give body or message, not both".into());
    }
    if let Some(path) = &spec.path
        && !path.starts_with(['/', '*'])
    {
        return Err(format!("path {path:?} must start with / or *"));
    }
    Ok(())
}

fn effect(spec: &RuleSpec) -> Effect {
    if let Some(status) = spec.status {
        let body = match (&spec.body, &spec.message) {
            (Some(text), _) => AnswerBody::Text(text.clone()),
            (None, Some(id)) => AnswerBody::Message(id.clone()),
            (None, None) => AnswerBody::Empty,
        };
        Effect::Answer { status, body }
    } else if spec.hang {
        Effect::Hang
    } else if spec.drop {
        Effect::Drop
    } else if let Some(bytes) = spec.truncate {
        Effect::Truncate(bytes)
    } else if let Some(ms) = spec.stale_inserted_ms {
        Effect::StaleInserted(Duration::from_millis(ms))
    } else if spec.session_table_full {
        Effect::SessionTableFull
    } else if spec.not_mounted {
        Effect::NotMounted
    } else {
        Effect::None
    }
}

/// `*` stands for any run of characters, slashes too; all else for itself. A trailing slash does not count.
fn glob(pattern: &str, path: &str) -> bool {
    let trim = |text: &str| text.strip_suffix('/').unwrap_or(text).to_ascii_lowercase();
    let (pattern, path) = (trim(pattern), trim(path));
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run_of_characters() {
        for (pattern, path, want) in [
            ("/a/*/c", "/a/b/c", true),
            ("/a/*/c", "/a/b/d/c/", true),
            ("/a/*/c", "/a/c", false),
            ("/a*", "/a", true),
            ("*", "/x", true),
            ("/a", "/a/b", false),
            ("/A/b", "/a/B", true),
            ("*x*x", "/x", false),
        ] {
            assert_eq!(glob(pattern, path), want, "{pattern} on {path}");
        }
    }

    #[test]
    fn a_rule_skips_then_applies_then_is_spent() {
        let faults = Faults::parse("[[rule]]\nskip = 1\ntimes = 2\nstatus = 500").unwrap();
        let hits: Vec<bool> = (0..5).map(|_| faults.apply(0, "GET", "/x").is_some()).collect();
        assert_eq!(hits, [false, true, true, false, false]);
        assert_eq!(faults.applied(), [("rule 1".to_owned(), 2)]);
    }

    #[test]
    fn rules_that_say_nothing_or_too_much_are_refused() {
        for text in [
            "[[rule]]\nserver = 1",
            "[[rule]]\nstatus = 500\nhang = true",
            "[[rule]]\nstatus = 99",
            "[[rule]]\nbody = 'x'\nhang = true",
            "[[rule]]\nhang = true\npath = 'x'",
            "[[rule]]\nhangs = true",
        ] {
            assert!(Faults::parse(text).is_err(), "{text}");
        }
    }
}
