//! The runner itself: every kind of mismatch is reported, every kind of hostile guest and file ends in a clear answer.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

mod files;
mod guests;
mod mismatches;
mod worlds;

use std::path::Path;
use std::sync::OnceLock;

use rehearsal::{CaseReport, Suite, SuiteReport};
use runtime::Engine;

/// A suite over the built-in virtual-media policy with one case, whose keys are given (indented by four).
fn one_case(case: &str) -> String {
    let case: String = case
        .trim_matches('\n')
        .lines()
        .map(|line| format!("    {line}\n"))
        .collect();
    format!("suite: s\nplugin: {{built-in: vmedia}}\ncases:\n  - name: c\n{case}")
}

fn parse(text: &str) -> Result<Suite, rehearsal::ScenarioError> {
    Suite::parse(text, Path::new("s.yaml"))
}

async fn run(text: &str) -> SuiteReport {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| Engine::new(8).unwrap());
    let suite = parse(text).unwrap_or_else(|error| panic!("{error}"));
    rehearsal::run(engine, &suite).await.unwrap()
}

async fn run_case(text: &str) -> CaseReport {
    run(text).await.cases.remove(0)
}
