//! What running a suite gave.

use std::time::Duration;

use serde::Serialize;

use crate::coverage::Met;

/// Results of one scenario file.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SuiteReport {
    /// Name of the suite.
    pub suite: String,
    /// The scenario file.
    pub file: String,
    /// The plugin: its path, or `built-in:<role>`.
    pub plugin: String,
    /// Identity of the plugin's bytes, as `sha256:…`.
    pub digest: String,
    /// Each case, in the order of the file.
    pub cases: Vec<CaseReport>,
    /// Errors that the plugin met, by the host's functions that it imports and that can fail.
    pub coverage: Met,
}

/// Result of one case.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CaseReport {
    /// Its name.
    pub name: String,
    /// Where it stands in the file.
    pub line: u64,
    /// It did what the scenario says.
    pub passed: bool,
    /// How the call ended: "ok", "error conflict", "trapped cpu-budget", …
    pub outcome: String,
    /// What was otherwise than the scenario says; each may have several lines.
    pub failures: Vec<String>,
    /// What the plugin asked of the host, in order, with the answers.
    pub calls: Vec<String>,
    /// Time from the call to its answer, in microseconds.
    pub wall_us: u64,
    /// CPU time in the plugin, in microseconds.
    pub guest_us: u64,
    /// What was tried besides the case itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sweeps: Vec<SweepReport>,
}

/// What a sweep of a case gave.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SweepReport {
    /// "faults", "storms" or "grants".
    pub kind: &'static str,
    /// Runs with something gone wrong; each may have been followed by a clean one.
    pub runs: usize,
    /// Runs after which not everything held that must.
    pub failed: usize,
}

impl SuiteReport {
    /// Cases that failed.
    pub fn failed(&self) -> usize {
        self.cases.iter().filter(|case| !case.passed).count()
    }

    /// Calls of the plugin with something gone wrong, over all sweeps.
    pub fn sweep_runs(&self) -> usize {
        let sweeps = self.cases.iter().flat_map(|case| &case.sweeps);
        sweeps.map(|sweep| sweep.runs).sum()
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
