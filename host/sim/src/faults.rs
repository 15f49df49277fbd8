//! What goes wrong on purpose: rules read from a TOML file and applied to BMC requests and to the BMC's reads of media.
//!
//! Each `[[rule]]` says what it meets, which of that it spares first (`skip`) and how often it then hits (`times`), and what
//! happens. The first rule that is due wins; `name` is what the trace calls it.
//!
//! It meets requests by `server`, `method`, `path` (with `*` for any run of characters; an RIBCL command is the path
//! `/ribcl/COMMAND`) and `contains`, a text of the body. With `on = "media"` it meets reads of images, by `server`, `device`
//! (`cd`, `floppy`), `method` and `path` of the image's URL. What is absent means all.
//!
//! | effect | what happens |
//! |---|---|
//! | `delay-ms` | it takes longer; by itself or before any other effect |
//! | `status`, with `body` or `message` and `headers` | this answer, and nothing is done; an RIBCL command fails with `status = 200`, `message = "0x0023"` |
//! | `hang` | no answer, ever |
//! | `drop` | the connection is closed; nothing is done |
//! | `reset = "request"` / `"answer"` | the connection is reset before anything is done / in the middle of the answer |
//! | `truncate` | it is done, and the body breaks off after so many bytes |
//! | `split` | it is done, and the body comes in chunks of so many bytes |
//! | `content` | it is done, and the body is `garbage`, `html`, `wrong-type`, `empty` or `unfinished` |
//! | `stale` | a read is answered as it was when the rule was first due |
//! | `stale-inserted-ms` | after this eject the slot still says `Inserted` for so long |
//! | `session-table-full` | a login is refused |
//! | `not-mounted` | an insert is agreed to, and nothing is mounted |
//! | `bmc-reset` | it is done, and the BMC resets itself instead of answering: sessions and media are lost |
//! | `clock-skew-s` | the BMC's clock jumps: sessions that are then too old are over, and `Date` is wrong |
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

pub(crate) mod deliver;
mod effect;
mod rule;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

pub(crate) use self::effect::{AnswerBody, Content, Delivery, Effect, ResetAt, garbage};
use self::rule::{On, RuleSpec};
use crate::error::SimError;
use crate::profile::Device;

/// A fault file may not be bigger than this.
const FILE_CAP: u64 = 1 << 20;
/// Rules of all files together.
const RULES_CAP: usize = 10_000;
/// Answers that one stale rule remembers.
const STALE_KEPT: usize = 4096;

/// An ordered list of fault rules with their counters. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Arc<Mutex<Vec<Arc<Rule>>>>,
}

#[derive(Debug)]
struct Rule {
    spec: RuleSpec,
    name: String,
    effect: Effect,
    seen: AtomicU64,
    applied: AtomicU64,
    /// What reads said when a stale rule first met them.
    stale: Mutex<HashMap<(usize, String), Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultFile {
    #[serde(default)]
    rule: Vec<Spanned<RuleSpec>>,
}

/// A request as rules see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) server: usize,
    pub(crate) method: &'a str,
    /// Without its query; `/ribcl/COMMAND` for RIBCL.
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
}

/// A rule that hits one request.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    /// Name for the trace.
    pub(crate) name: String,
    pub(crate) delay: Option<Duration>,
    pub(crate) effect: Effect,
    rule: Arc<Rule>,
}

impl Applied {
    /// What a read says now, or said when this rule first met it, if the rule makes reads stale.
    pub(crate) fn stale(&self, server: usize, key: &str, now: Value) -> Value {
        if self.effect != Effect::Stale {
            return now;
        }
        let mut kept = self.rule.stale.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= STALE_KEPT {
            kept.clear();
        }
        kept.entry((server, key.to_owned())).or_insert(now).clone()
    }
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
        let faults = Self::none();
        faults.extend(&text).map_err(wrong)?;
        Ok(faults)
    }

    /// Reads rules from TOML text.
    pub fn parse(text: &str) -> Result<Self, SimError> {
        let faults = Self::none();
        faults.add(text)?;
        Ok(faults)
    }

    /// Adds the rules in `text` behind the present ones, also while servers run.
    pub fn add(&self, text: &str) -> Result<(), SimError> {
        self.extend(text).map_err(SimError::Faults)
    }

    fn extend(&self, text: &str) -> Result<(), String> {
        let file: FaultFile = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut rules = self.lock();
        if rules.len().saturating_add(file.rule.len()) > RULES_CAP {
            return Err(format!("more than {RULES_CAP} rules"));
        }
        let mut added = Vec::new();
        for spec in file.rule {
            let line = 1 + text.get(..spec.span().start).unwrap_or(text).matches('\n').count();
            let spec = spec.into_inner();
            let number = rules.len() + added.len() + 1;
            let name = spec.name.clone().unwrap_or_else(|| format!("rule {number}"));
            let effect = spec
                .effect()
                .map_err(|reason| format!("line {line}: {name}: {reason}"))?;
            added.push(Arc::new(Rule {
                spec,
                name,
                effect,
                seen: AtomicU64::new(0),
                applied: AtomicU64::new(0),
                stale: Mutex::default(),
            }));
        }
        rules.extend(added);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Rule>>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes every rule.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// How often each rule was applied, in file order, with its name.
    pub fn applied(&self) -> Vec<(String, u64)> {
        let rules = self.lock();
        let count = |rule: &Arc<Rule>| (rule.name.clone(), rule.applied.load(Ordering::Relaxed));
        rules.iter().map(count).collect()
    }

    /// The first rule that meets this request and is due. Counts every match.
    pub(crate) fn apply(&self, asked: &Asked<'_>) -> Option<Applied> {
        self.first(|spec| {
            spec.on == On::Request
                && spec.meets(asked.server, asked.method, asked.path)
                && spec.contains.as_deref().is_none_or(|text| holds(asked.body, text))
        })
    }

    /// The same for a read of an image; `path` is that of its URL.
    pub(crate) fn apply_to_read(&self, server: usize, device: Device, method: &str, path: &str) -> Option<Applied> {
        self.first(|spec| {
            spec.on == On::Media
                && spec.meets(server, method, path)
                && spec.device.is_none_or(|wanted| wanted == device)
        })
    }

    fn first(&self, meets: impl Fn(&RuleSpec) -> bool) -> Option<Applied> {
        let rules = self.lock();
        for rule in rules.iter().filter(|rule| meets(&rule.spec)) {
            let spec = &rule.spec;
            let seen = rule.seen.fetch_add(1, Ordering::Relaxed);
            let due = seen >= spec.skip && spec.times.is_none_or(|times| seen < spec.skip.saturating_add(times));
            if due {
                rule.applied.fetch_add(1, Ordering::Relaxed);
                return Some(Applied {
                    name: rule.name.clone(),
                    delay: spec.delay_ms.map(Duration::from_millis),
                    effect: rule.effect.clone(),
                    rule: Arc::clone(rule),
                });
            }
        }
        None
    }
}

impl RuleSpec {
    fn meets(&self, server: usize, method: &str, path: &str) -> bool {
        let wanted = self.method.as_deref();
        self.server.is_none_or(|wanted| wanted == server)
            && wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(method))
            && self.path.as_deref().is_none_or(|wanted| glob(wanted, path))
    }
}

/// Whether the text stands in these bytes.
fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
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
mod tests;
