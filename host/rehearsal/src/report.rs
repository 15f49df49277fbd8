//! What running a suite gave.

use std::time::Duration;

use serde::Serialize;

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
}

impl SuiteReport {
    /// Cases that failed.
    pub fn failed(&self) -> usize {
        self.cases.iter().filter(|case| !case.passed).count()
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
