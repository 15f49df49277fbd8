//! The keys of a scenario file. Every mapping refuses keys that it does not know.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value as Json;
use serde_saphyr::Spanned;

use super::Ending;
use crate::invocation::CandidateFile;
use crate::node::NodeFile;
use crate::script::Order;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SuiteFile {
    pub(super) suite: String,
    pub(super) plugin: Spanned<Json>,
    pub(super) grants: Option<Spanned<Json>>,
    pub(super) settings: Option<Spanned<Json>>,
    pub(super) clock: Option<Spanned<String>>,
    /// Facts of the site (`callback-timeout-s`).
    #[serde(default)]
    pub(super) site: BTreeMap<String, String>,
    /// Backends that the world has.
    pub(super) backends: Option<Vec<CandidateFile>>,
    pub(super) limits: Option<Spanned<LimitsFile>>,
    #[serde(default)]
    pub(super) defaults: DefaultsFile,
    pub(super) cases: Vec<Spanned<CaseFile>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DefaultsFile {
    #[serde(default)]
    pub(super) node: NodeFile,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LimitsFile {
    pub(super) cpu_ms: Option<u64>,
    pub(super) wall_s: Option<u32>,
    pub(super) memory: Option<u64>,
    pub(super) host_calls: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct CaseFile {
    pub(super) name: Spanned<String>,
    pub(super) call: Spanned<String>,
    pub(super) args: Option<Spanned<Json>>,
    pub(super) node: Option<Spanned<NodeFile>>,
    /// An operator's request led to the call: an active node may be touched.
    #[serde(default)]
    pub(super) by_operator: bool,
    pub(super) grants: Option<Spanned<Json>>,
    pub(super) settings: Option<Spanned<Json>>,
    pub(super) clock: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) site: BTreeMap<String, String>,
    pub(super) backends: Option<Vec<CandidateFile>>,
    pub(super) limits: Option<Spanned<LimitsFile>>,
    #[serde(default)]
    pub(super) order: Order,
    #[serde(default)]
    pub(super) host: Vec<Spanned<ExchangeFile>>,
    pub(super) expect: Spanned<ExpectFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExchangeFile {
    pub(super) on: Spanned<String>,
    pub(super) with: Option<Spanned<Json>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) reply: Option<Spanned<Json>>,
    pub(super) error: Option<Spanned<Json>>,
    pub(super) times: Option<u32>,
}

/// `reply: null` is a reply.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Spanned<Json>>, D::Error> {
    Spanned::deserialize(deserializer).map(Some)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectFile {
    pub(super) outcome: Option<Ending>,
    /// Cause of the error, or its code.
    pub(super) error: Option<String>,
    /// A part of its text.
    pub(super) message: Option<String>,
    /// Why the plugin was stopped.
    pub(super) reason: Option<String>,
    pub(super) result: Option<Json>,
    #[serde(default)]
    pub(super) calls: BTreeMap<String, u32>,
    #[serde(default)]
    pub(super) never: Vec<Spanned<String>>,
}
