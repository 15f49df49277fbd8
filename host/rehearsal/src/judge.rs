//! What happened against what a case expects, in words that say what to look at.

use crate::calls::differences;
use crate::functions::means;
use crate::play::Ended;
use crate::scenario::{Case, Expect};
use crate::world::{Player, State};

/// What is otherwise than the case says; empty = it passed.
pub(crate) fn judge(case: &Case, ended: &Ended, state: &State) -> Vec<String> {
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
    match &state.player {
        Player::Script(script) => {
            let unused = script.unused();
            if !unused.is_empty() {
                failures.push(format!(
                    "the plugin did not call  {}",
                    unused.join("\n                         ")
                ));
            }
        }
        Player::Machine(machine) => {
            if let Some(wanted) = &case.expect.world {
                let lines = differences(wanted, &machine.view());
                if !lines.is_empty() {
                    failures.push(format!(
                        "the world is otherwise afterwards\n  difference          {}",
                        lines.join("\n  difference          ")
                    ));
                }
            }
        }
    }
    failures.extend(counts(&case.expect, state));
    failures
}

/// What is otherwise about how the call ended.
fn ending(expect: &Expect, ended: &Ended) -> Vec<String> {
    let described = ended.described();
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
