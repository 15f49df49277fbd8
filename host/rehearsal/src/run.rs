//! Running a suite: each case under a runtime of its own over the scripted world, then what happened against what is expected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use runtime::{
    CallError, CallFailure, DriverError, Engine, LoadError, Match, PluginConfig, Runtime, RuntimeConfig, Unobserved,
};
use serde_json::Value as Json;

use crate::calls::differences;
use crate::functions::means;
use crate::invocation::Done;
use crate::report::{CaseReport, SuiteReport, micros};
use crate::scenario::{Case, Ending, Expect, Suite};
use crate::world::{ScriptedWorld, State};

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
}

/// How a call ended.
struct Ended {
    ending: Ending,
    /// Cause of an error, reason of a stop.
    cause: String,
    message: String,
    result: Json,
    wall: Duration,
    guest: Duration,
}

/// Runs every case, one after the other.
pub async fn run(engine: &Engine, suite: &Suite) -> Result<SuiteReport, RunError> {
    let mut report = SuiteReport {
        suite: suite.name.clone(),
        file: suite.file.clone(),
        plugin: String::new(),
        digest: String::new(),
        cases: Vec::with_capacity(suite.cases.len()),
    };
    for case in &suite.cases {
        let world = ScriptedWorld::new(case.script.clone(), case.clock, case.wall, case.backends.clone());
        let runtime = Runtime::new(
            engine,
            config(suite, case),
            Arc::new(world.clone()),
            Arc::new(Unobserved),
        )
        .await
        .map_err(|source| RunError::Load {
            file: suite.file.clone(),
            source,
        })?;
        if report.plugin.is_empty()
            && let Some(plugin) = runtime.plugins().into_iter().find(|plugin| plugin.role == suite.role)
        {
            report.plugin = plugin.id;
            report.digest = plugin.digest.to_string();
        }
        let ended = call(&runtime, &world, case).await;
        report.cases.push(judge(case, &ended, &world.state()));
    }
    Ok(report)
}

fn config(suite: &Suite, case: &Case) -> RuntimeConfig {
    let mut config = RuntimeConfig {
        reinsert_active_now: case.site.get("reinsert-active").is_some_and(|choice| choice == "now"),
        site_facts: case.site.clone(),
        ..RuntimeConfig::default()
    };
    match &suite.component {
        None => config.built_in_settings = BTreeMap::from([(suite.role, case.settings.clone())]),
        Some(component) => config.plugins.push(PluginConfig {
            role: suite.role,
            component: component.clone(),
            digest: None,
            matches: Match::new(),
            grant: case.grants.clone(),
            limits: case.limits.clone(),
            settings: case.settings.clone(),
        }),
    }
    config
}

async fn call(runtime: &Runtime, world: &ScriptedWorld, case: &Case) -> Ended {
    let context = Arc::new(case.context.clone());
    let Some(done) = (tokio::select! {
        done = case.invocation.call(runtime, &context) => done,
        () = world.out_of_time() => return Ended {
            ending: Ending::Timeout,
            cause: "wall-budget".to_owned(),
            message: CallFailure::WallBudget(case.wall).to_string(),
            result: Json::Null,
            wall: Duration::ZERO,
            guest: Duration::ZERO,
        },
    }) else {
        return Ended {
            ending: Ending::Error,
            cause: "not-found".to_owned(),
            message: "no plugin of this role is there for the node".to_owned(),
            result: Json::Null,
            wall: Duration::ZERO,
            guest: Duration::ZERO,
        };
    };
    let Done { result, report } = done;
    let (ending, cause, message, result) = match result {
        Ok(result) => (Ending::Ok, String::new(), String::new(), result),
        Err(CallError::Answered(error)) => {
            let denied = matches!(error, DriverError::Denied(_));
            let ending = if denied { Ending::Denied } else { Ending::Error };
            (ending, error.cause().to_owned(), error.to_string(), Json::Null)
        }
        Err(CallError::Failed { failure, .. }) => {
            let timeout = matches!(failure, CallFailure::WallBudget(_));
            let ending = if timeout { Ending::Timeout } else { Ending::Trapped };
            (ending, failure.cause().to_owned(), failure.to_string(), Json::Null)
        }
    };
    Ended {
        ending,
        cause,
        message,
        result,
        wall: report.wall,
        guest: report.cpu,
    }
}

fn judge(case: &Case, ended: &Ended, state: &State) -> CaseReport {
    let mut failures = Vec::new();
    if let Some((explanation, more)) = &state.unlisted {
        let more = if *more > 0 {
            format!("\n  and {more} more after it that no entry answers")
        } else {
            String::new()
        };
        failures.push(format!("{explanation}{more}"));
    }
    failures.extend(ending(&case.expect, ended));
    let unused = state.script.unused();
    if !unused.is_empty() {
        failures.push(format!(
            "the plugin did not call  {}",
            unused.join("\n                         ")
        ));
    }
    failures.extend(counts(&case.expect, state));
    let outcome = match ended.ending {
        Ending::Ok => "ok".to_owned(),
        ending => format!("{} {}", ending.as_str(), ended.cause),
    };
    CaseReport {
        name: case.name.clone(),
        line: case.line,
        passed: failures.is_empty(),
        outcome,
        failures,
        calls: state.trace.clone(),
        wall_us: micros(ended.wall),
        guest_us: micros(ended.guest),
    }
}

/// What is otherwise about how the call ended.
fn ending(expect: &Expect, ended: &Ended) -> Vec<String> {
    let described = match ended.ending {
        Ending::Ok => "ok".to_owned(),
        ending => format!("{} {}: {}", ending.as_str(), ended.cause, ended.message.escape_debug()),
    };
    if ended.ending != expect.outcome {
        return vec![format!(
            "expected outcome    {}\n  it was              {described}",
            expect.outcome.as_str()
        )];
    }
    let mut failures = Vec::new();
    for (what, wanted) in [("error", &expect.error), ("reason", &expect.reason)] {
        if let Some(wanted) = wanted.as_ref().filter(|wanted| **wanted != ended.cause) {
            failures.push(format!(
                "expected {what:<10} {wanted}\n  it was              {described}"
            ));
        }
    }
    if let Some(part) = expect.message.as_ref().filter(|part| !ended.message.contains(*part)) {
        failures.push(format!("expected in message {part}\n  it was              {described}"));
    }
    if let Some(wanted) = &expect.result {
        let lines = differences(wanted, &ended.result);
        if !lines.is_empty() {
            let result = crate::calls::show(&ended.result);
            let lines = lines.join("\n  difference          ");
            failures.push(format!("the result was      {result}\n  difference          {lines}"));
        }
    }
    failures
}

/// What is otherwise about how often the host was called.
fn counts(expect: &Expect, state: &State) -> Vec<String> {
    let count = |name: &str| -> u32 {
        let counts = state.counts.iter().filter(|(function, _)| means(name, function));
        counts.map(|(_, count)| count).sum()
    };
    let calls = expect.calls.iter().map(|(name, wanted)| (name, *wanted));
    let never = expect.never.iter().map(|name| (name, 0));
    calls
        .chain(never)
        .filter_map(|(name, wanted)| {
            let found = count(name);
            (found != wanted).then(|| match wanted {
                0 => format!("`{name}` must never be called, and was called {}", times(found)),
                _ => format!(
                    "`{name}` must be called {}, and was called {}",
                    times(wanted),
                    times(found)
                ),
            })
        })
        .collect()
}

fn times(count: u32) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
