//! Running a suite: its cases side by side, each in a world of its own, with the sweeps that they ask for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use runtime::{Engine, LoadError};
use tokio::task::JoinSet;

use crate::coverage::Met;
use crate::judge::judge;
use crate::play::{Start, play};
use crate::report::{CaseReport, SuiteReport, micros};
use crate::scenario::{Case, Suite};
use crate::stage::Runtimes;
use crate::sweep;

/// Why a suite could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The host refuses the plugin.
    #[error("{file}: the plugin was refused")]
    Load {
        /// The scenario file.
        file: String,
        /// Why.
        #[source]
        source: LoadError,
    },
    /// The rehearsal itself failed.
    #[error("{file}: the rehearsal itself failed: report this")]
    Inside {
        /// The scenario file.
        file: String,
        /// How.
        #[source]
        source: tokio::task::JoinError,
    },
}

/// Runs every case; the report has them in the order of the file.
pub async fn run(engine: &Engine, suite: &Suite) -> Result<SuiteReport, RunError> {
    let refused = |source| RunError::Load {
        file: suite.file.clone(),
        source,
    };
    let stage = Arc::new(Runtimes::new(engine, suite));
    let mut report = SuiteReport {
        suite: suite.name.clone(),
        file: suite.file.clone(),
        plugin: String::new(),
        digest: String::new(),
        cases: Vec::with_capacity(suite.cases.len()),
        coverage: Met::default(),
    };
    // Before anything runs: a plugin that is refused is refused for every case.
    if let Some(first) = suite.cases.first() {
        let runtime = stage.of(first).await.map_err(refused)?;
        if let Some(plugin) = stage.plugin(&runtime) {
            report.plugin = plugin.id;
            report.digest = plugin.digest.to_string();
            report.coverage = Met::of_imports(&plugin.imports);
        }
    }
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let cases: Arc<[Arc<Case>]> = suite.cases.clone().into();
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..workers.min(cases.len()) {
        let (stage, cases, next) = (Arc::clone(&stage), Arc::clone(&cases), Arc::clone(&next));
        tasks.spawn(async move {
            let mut done = Vec::new();
            while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < cases.len()) {
                done.push((number, one(&stage, &cases[number]).await?));
            }
            Ok::<_, LoadError>(done)
        });
    }
    let mut all = Vec::with_capacity(suite.cases.len());
    while let Some(done) = tasks.join_next().await {
        let done = done.map_err(|source| RunError::Inside {
            file: suite.file.clone(),
            source,
        })?;
        all.extend(done.map_err(refused)?);
    }
    all.sort_unstable_by_key(|(number, _)| *number);
    for (_, (case, met)) in all {
        report.coverage.add(&met);
        report.cases.push(case);
    }
    Ok(report)
}

/// A case with its sweeps, and the errors that its plugin met.
async fn one(stage: &Runtimes, case: &Case) -> Result<(CaseReport, sweep::Pairs), LoadError> {
    let runtime = stage.of(case).await?;
    let (ended, world) = play(&runtime, case, Start::of(case)).await;
    let (failures, calls, mut met, base) = {
        let state = world.state();
        let base = sweep::Base::of(case, &ended, &state);
        (
            judge(case, &ended, &state),
            state.trace.clone(),
            state.failed.clone(),
            base,
        )
    };
    let mut report = CaseReport {
        name: case.name.clone(),
        line: case.line,
        passed: true,
        outcome: ended.outcome(),
        failures,
        calls,
        wall_us: micros(ended.wall),
        guest_us: micros(ended.guest),
        sweeps: Vec::new(),
    };
    // What goes wrong without a fault would go wrong in each run of a sweep.
    if let Some(base) = base.filter(|_| report.failures.is_empty()) {
        for swept in sweep::run(stage, &runtime, case, &base).await? {
            met.extend(swept.met);
            report.failures.extend(swept.failures);
            report.sweeps.push(swept.report);
        }
    }
    report.passed = report.failures.is_empty();
    Ok((report, met))
}
