//! Sweeps: the same call again and again, each time with something else gone wrong. After each run it must hold that
//! - the call had a typed outcome: it was neither stopped nor did it outlast its time,
//! - nothing in the world has changed that the journal does not name,
//! - a clean run after it ends where a run without any fault ends.

mod grants;

use std::collections::BTreeSet;
use std::time::SystemTime;

use runtime::{LoadError, Runtime};
use serde_json::Value as Json;

use crate::calls::differences;
use crate::faults::{self, CAUSES, Fault};
use crate::machine::{Machine, Names, unnamed};
use crate::play::{Ended, Start, play};
use crate::report::SweepReport;
use crate::scenario::{Case, Ending};
use crate::stage::Runtimes;
use crate::world::{Asked, CaseWorld, Player, State};

/// Failures of one sweep that are told in full.
const TOLD: usize = 10;
/// A run with many faults takes other ways than the clean one: so many calls more may be hit.
const DETOUR: usize = 6;

/// Functions that answered with an error, with its cause.
pub(crate) type Pairs = BTreeSet<(&'static str, &'static str)>;

/// The run without a fault.
pub(crate) struct Base {
    start: Machine,
    asked: Vec<Asked>,
    outcome: String,
    result: Json,
    end: Json,
}

/// What a sweep gave.
pub(crate) struct Swept {
    pub(crate) report: SweepReport,
    pub(crate) failures: Vec<String>,
    pub(crate) met: Pairs,
}

impl Base {
    /// `None` if the case has no world.
    pub(crate) fn of(case: &Case, ended: &Ended, state: &State) -> Option<Self> {
        let (Player::Machine(start), Player::Machine(end)) = (&case.player, &state.player) else {
            return None;
        };
        Some(Self {
            start: Machine::clone(start),
            asked: state.asked.clone(),
            outcome: ended.outcome(),
            result: ended.result.clone(),
            end: end.end(),
        })
    }
}

/// Every sweep that the case asks for.
pub(crate) async fn run(
    stage: &Runtimes,
    runtime: &Runtime,
    case: &Case,
    base: &Base,
) -> Result<Vec<Swept>, LoadError> {
    let mut all = Vec::new();
    if case.sweep.faults {
        all.push(single_faults(runtime, case, base).await);
    }
    if case.sweep.storms > 0 {
        all.push(storms(runtime, case, base).await);
    }
    if case.sweep.grants {
        all.push(grants::sweep(stage, runtime, case, base).await?);
    }
    Ok(all)
}

/// Every host call with every cause in turn; where its effect can outlive its answer, also that.
async fn single_faults(runtime: &Runtime, case: &Case, base: &Base) -> Swept {
    let mut sweep = Tally::new("faults");
    for (at, asked) in base.asked.iter().enumerate() {
        for cause in CAUSES {
            let both = asked.changes && faults::may_come_after(cause);
            for done in [false, true].into_iter().take(if both { 2 } else { 1 }) {
                let error = faults::error(cause);
                let about = || {
                    let lost = if done { ", though it was done" } else { "" };
                    format!("call {} ({}) answered `{cause}`{lost}", at + 1, asked.function)
                };
                let fault = Fault { at, error, done };
                let (problems, met) = try_it(runtime, runtime, case, base, vec![fault]).await;
                sweep.add(problems, met, about);
            }
        }
    }
    sweep.end()
}

/// Several faults at once, drawn by the seed: the same ones each time.
async fn storms(runtime: &Runtime, case: &Case, base: &Base) -> Swept {
    let mut sweep = Tally::new("storms");
    let mut draw = Names(case.seed ^ 0x5707_2a5e_ed00_0001);
    let mut below = |most: usize| usize::try_from(draw.next() % most.max(1) as u64).unwrap_or_default();
    for storm in 0..case.sweep.storms {
        let mut faults = Vec::new();
        for at in 0..base.asked.len() + DETOUR {
            if below(3) > 0 {
                continue;
            }
            let cause = CAUSES[below(CAUSES.len())];
            let done = faults::may_come_after(cause) && below(2) == 0;
            faults.push(Fault {
                at,
                error: faults::error(cause),
                done,
            });
        }
        let list = faults.iter().map(|fault| {
            let done = if fault.done { " (done)" } else { "" };
            format!("{} {}{done}", fault.at + 1, faults::cause(&fault.error))
        });
        let list = list.collect::<Vec<_>>().join(", ");
        let (problems, met) = try_it(runtime, runtime, case, base, faults).await;
        sweep.add(problems, met, || format!("storm {} (calls {list})", storm + 1));
    }
    sweep.end()
}

/// One run with faults under `runtime`, and a clean one after it under `clean`; what must hold and does not.
async fn try_it(
    runtime: &Runtime,
    clean: &Runtime,
    case: &Case,
    base: &Base,
    faults: Vec<Fault>,
) -> (Vec<String>, Pairs) {
    let mut start = Start::of(case);
    start.faults = faults;
    let (ended, world) = play(runtime, case, start).await;
    let mut problems = typed(&ended);
    let (after, clock, met) = {
        let state = world.state();
        let Player::Machine(after) = &state.player else {
            return (problems, Pairs::new());
        };
        let unnamed = unnamed(&base.start, after, &state.journal);
        problems.extend(
            unnamed
                .into_iter()
                .map(|line| format!("no journal entry names that {line}")),
        );
        (Machine::clone(after), state.now(), state.failed.clone())
    };
    if case.sweep.re_run {
        problems.extend(re_run(clean, case, base, after, clock).await);
    }
    (problems, met)
}

fn typed(ended: &Ended) -> Vec<String> {
    match ended.ending {
        Ending::Ok | Ending::Error | Ending::Denied => vec![],
        Ending::Trapped | Ending::Timeout => {
            vec![format!("the call had no typed outcome: it was {}", ended.described())]
        }
    }
}

/// A clean run on what a faulted one left.
async fn re_run(runtime: &Runtime, case: &Case, base: &Base, left: Machine, clock: SystemTime) -> Option<String> {
    let start = Start {
        player: Player::Machine(Box::new(left)),
        clock,
        faults: Vec::new(),
    };
    let (ended, world) = play(runtime, case, start).await;
    differs(base, &ended, &world).map(|how| format!("a clean run after it ends elsewhere: {how}"))
}

/// How a run ended otherwise than the one without a fault.
fn differs(base: &Base, ended: &Ended, world: &CaseWorld) -> Option<String> {
    if ended.outcome() != base.outcome {
        return Some(format!("{}, not {}", ended.described(), base.outcome));
    }
    if ended.result != base.result {
        return Some(differences(&base.result, &ended.result).join("; "));
    }
    let state = world.state();
    let Player::Machine(machine) = &state.player else {
        return None;
    };
    let end = machine.end();
    if end == base.end {
        return None;
    }
    let mut lines = differences(&base.end, &end);
    if lines.is_empty() {
        // Something is there that an unfaulted run does not leave.
        lines = differences(&end, &base.end);
        return Some(format!("the other way round, {}", lines.join("; ")));
    }
    Some(lines.join("; "))
}

/// Counts the runs of a sweep.
struct Tally {
    report: SweepReport,
    failures: Vec<String>,
    met: Pairs,
}

impl Tally {
    fn new(kind: &'static str) -> Self {
        Self {
            report: SweepReport {
                kind,
                runs: 0,
                failed: 0,
            },
            failures: Vec::new(),
            met: Pairs::new(),
        }
    }

    fn add(&mut self, problems: Vec<String>, met: Pairs, about: impl FnOnce() -> String) {
        self.report.runs += 1;
        self.met.extend(met);
        if problems.is_empty() {
            return;
        }
        self.report.failed += 1;
        if self.failures.len() < TOLD {
            let kind = self.report.kind;
            self.failures
                .push(format!("sweep of {kind}: {}\n  {}", about(), problems.join("\n  ")));
        }
    }

    fn end(mut self) -> Swept {
        let untold = self.report.failed.saturating_sub(TOLD);
        if untold > 0 {
            self.failures
                .push(format!("sweep of {}: {untold} more runs failed", self.report.kind));
        }
        Swept {
            report: self.report,
            failures: self.failures,
            met: self.met,
        }
    }
}
