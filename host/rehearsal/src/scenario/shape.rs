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
    /// The world of cases that have no `host`.
    pub(super) world: Option<Spanned<Json>>,
    /// Where whatever a world makes up comes from.
    #[serde(default)]
    pub(super) seed: u64,
    pub(super) sweep: Option<Spanned<SweepFile>>,
    pub(super) matrix: Option<Spanned<BTreeMap<String, Vec<Json>>>>,
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
    pub(super) world: Option<Spanned<Json>>,
    pub(super) seed: Option<u64>,
    pub(super) sweep: Option<Spanned<SweepFile>>,
    pub(super) matrix: Option<Spanned<BTreeMap<String, Vec<Json>>>>,
    #[serde(default)]
    pub(super) order: Order,
    pub(super) host: Option<Spanned<Vec<Spanned<ExchangeFile>>>>,
    pub(super) expect: Spanned<ExpectFile>,
}

/// What is tried besides the case itself.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct SweepFile {
    /// Every host call fails with every cause in turn.
    pub(super) faults: bool,
    /// Every grant is taken away in turn.
    pub(super) grants: bool,
    /// So many runs with several faults at once, drawn by the seed.
    pub(super) storms: u32,
    /// `false`: a second, clean run need not end where an unfaulted one ends.
    pub(super) re_run: Option<bool>,
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
    /// How the world stands afterwards; only what is named is compared.
    pub(super) world: Option<Json>,
    #[serde(default)]
    pub(super) calls: BTreeMap<String, u32>,
    #[serde(default)]
    pub(super) never: Vec<Spanned<String>>,
}
