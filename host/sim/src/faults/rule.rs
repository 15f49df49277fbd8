//! One rule of a fault file: what it may say, and what is wrong with one that says too little or too much.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::effect::{AnswerBody, Content, Effect, ResetAt};
use crate::profile::Device;

/// Longest delay, linger or skew: a day, so that a slip of the finger is an error and not a hung test.
const LONGEST_MS: u64 = 86_400_000;

/// A rule as it stands in the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RuleSpec {
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) on: On,
    pub(super) server: Option<usize>,
    pub(super) method: Option<String>,
    pub(super) path: Option<String>,
    pub(super) contains: Option<String>,
    pub(super) device: Option<Device>,
    #[serde(default)]
    pub(super) skip: u64,
    pub(super) times: Option<u64>,
    pub(super) delay_ms: Option<u64>,
    status: Option<u16>,
    body: Option<String>,
    message: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    hang: bool,
    #[serde(default)]
    drop: bool,
    reset: Option<ResetAt>,
    truncate: Option<usize>,
    split: Option<usize>,
    content: Option<Content>,
    #[serde(default)]
    stale: bool,
    stale_inserted_ms: Option<u64>,
    #[serde(default)]
    session_table_full: bool,
    #[serde(default)]
    not_mounted: bool,
    #[serde(default)]
    bmc_reset: bool,
    clock_skew_s: Option<i64>,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum On {
    /// Requests to the BMC.
    #[default]
    Request,
    /// Reads of an image by the BMC.
    Media,
}

impl RuleSpec {
    /// What it does; or why it cannot be meant so.
    pub(super) fn effect(&self) -> Result<Effect, String> {
        self.check_match()?;
        for (name, ms) in [
            ("delay-ms", self.delay_ms),
            ("stale-inserted-ms", self.stale_inserted_ms),
        ] {
            if ms.is_some_and(|ms| ms > LONGEST_MS) {
                return Err(format!("{name} is more than a day ({LONGEST_MS})"));
            }
        }
        self.check_answer()?;
        let mut effects = self.effects();
        let effect = match (effects.pop(), effects.pop()) {
            (Some((name, _)), Some((other, _))) => {
                return Err(format!(
                    "has both {other} and {name}: give one effect, and a second rule for the other"
                ));
            }
            (Some((_, effect)), None) => effect,
            (None, _) if self.delay_ms.is_some() => Effect::None,
            (None, _) => {
                return Err(
                    "has no effect: give one of delay-ms, status, hang, drop, reset, truncate, split, content, stale, \
                     stale-inserted-ms, session-table-full, not-mounted, bmc-reset, clock-skew-s"
                        .into(),
                );
            }
        };
        if self.on == On::Media {
            check_media(&effect)?;
        }
        Ok(effect)
    }

    fn check_match(&self) -> Result<(), String> {
        if let Some(path) = &self.path
            && !path.starts_with(['/', '*'])
        {
            return Err(format!("path {path:?} must start with / or *"));
        }
        if let Some(method) = &self.method
            && (method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic()))
        {
            return Err(format!(
                "{method:?} is no method: give one such as \"POST\", or \"RAW\" for iLO 2's form of RIBCL"
            ));
        }
        if self.contains.as_deref() == Some("") {
            return Err("contains is empty, which stands in every request: leave it out".into());
        }
        if self.times == Some(0) {
            return Err("times is 0: the rule would never apply".into());
        }
        match self.on {
            On::Request if self.device.is_some() => Err("device is for rules with on = \"media\"".into()),
            On::Media if self.contains.is_some() => Err("reads of media have no body for contains to look at".into()),
            On::Request | On::Media => Ok(()),
        }
    }

    fn check_answer(&self) -> Result<(), String> {
        let Some(status) = self.status else {
            return match self.body.is_some() || self.message.is_some() || !self.headers.is_empty() {
                true => Err("body, message and headers need a status".into()),
                false => Ok(()),
            };
        };
        if !(200..600).contains(&status) {
            return Err(format!("status {status} is not an HTTP status that ends a request"));
        }
        if self.body.is_some() && self.message.is_some() {
            return Err("give body or message, not both".into());
        }
        for (name, value) in &self.headers {
            let header = hyper::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
            if !header || hyper::header::HeaderValue::from_str(value).is_err() {
                return Err(format!("{name:?} = {value:?} is no HTTP header"));
            }
        }
        Ok(())
    }

    fn effects(&self) -> Vec<(&'static str, Effect)> {
        let mut effects = Vec::new();
        if let Some(status) = self.status {
            let body = match (&self.body, &self.message) {
                (Some(text), _) => AnswerBody::Text(text.clone()),
                (None, Some(id)) => AnswerBody::Message(id.clone()),
                (None, None) => AnswerBody::Empty,
            };
            let headers = self.headers.clone().into_iter().collect();
            effects.push(("status", Effect::Answer { status, body, headers }));
        }
        let flags = [
            ("hang", self.hang, Effect::Hang),
            ("drop", self.drop, Effect::Drop),
            ("stale", self.stale, Effect::Stale),
            ("session-table-full", self.session_table_full, Effect::SessionTableFull),
            ("not-mounted", self.not_mounted, Effect::NotMounted),
            ("bmc-reset", self.bmc_reset, Effect::BmcReset),
        ];
        effects.extend(
            flags
                .into_iter()
                .filter(|(_, set, _)| *set)
                .map(|(name, _, effect)| (name, effect)),
        );
        effects.extend(self.reset.map(|at| ("reset", Effect::Reset(at))));
        effects.extend(self.truncate.map(|bytes| ("truncate", Effect::Truncate(bytes))));
        // A chunk of nothing would end the answer.
        effects.extend(self.split.map(|bytes| ("split", Effect::Split(bytes.max(1)))));
        effects.extend(self.content.map(|content| ("content", Effect::Content(content))));
        let linger = self.stale_inserted_ms.map(Duration::from_millis);
        effects.extend(linger.map(|linger| ("stale-inserted-ms", Effect::StaleInserted(linger))));
        effects.extend(self.clock_skew_s.map(|skew| ("clock-skew-s", Effect::ClockSkew(skew))));
        effects
    }
}

fn check_media(effect: &Effect) -> Result<(), String> {
    match effect {
        Effect::None | Effect::Hang | Effect::Drop | Effect::Truncate(_) | Effect::Content(Content::Garbage) => Ok(()),
        _ => Err("reads of media take only delay-ms, hang, drop, truncate and content = \"garbage\"".into()),
    }
}
