//! Two versions of a plugin in the same cases: where they decide differently. A decision is how a call ends, what it gives,
//! and what it asks the host to make or to change, in that order; what it looks at is its own affair.

use runtime::{Engine, LoadError};
use serde::Serialize;

use crate::calls::show;
use crate::play::{Ended, Start, play};
use crate::run::RunError;
use crate::scenario::{Case, Suite};
use crate::stage::Runtimes;
use crate::world::State;

/// Where two versions differ in one scenario file.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Comparison {
    /// Name of the suite.
    pub suite: String,
    /// The scenario file.
    pub file: String,
    /// Identity of the earlier version, as `sha256:…`.
    pub old: String,
    /// Identity of the later one.
    pub new: String,
    /// Cases that both were put into.
    pub cases: usize,
    /// Those in which they decided differently.
    pub differences: Vec<Difference>,
}

/// One case in which two versions decided differently.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Difference {
    /// The case.
    pub case: String,
    /// Where it stands in the file.
    pub line: u64,
    /// What each decided: lines that only the old version has begin with `-`, those of the new one with `+`, those of both
    /// with a space.
    pub lines: Vec<String>,
}

/// Puts two versions of a plugin into each case. Both suites come from the same file ([`Suite::read_for`]).
pub async fn compare(engine: &Engine, old: &Suite, new: &Suite) -> Result<Comparison, RunError> {
    let mut comparison = Comparison {
        suite: new.name.clone(),
        file: new.file.clone(),
        old: String::new(),
        new: String::new(),
        cases: 0,
        differences: Vec::new(),
    };
    let refused = |source| RunError::Load {
        file: new.file.clone(),
        source,
    };
    let (before, after) = (Runtimes::new(engine, old), Runtimes::new(engine, new));
    for (old, new) in old.cases.iter().zip(&new.cases) {
        let (old_digest, was) = decided(&before, old).await.map_err(refused)?;
        let (new_digest, is) = decided(&after, new).await.map_err(refused)?;
        comparison.cases += 1;
        (comparison.old, comparison.new) = (old_digest, new_digest);
        if was != is {
            comparison.differences.push(Difference {
                case: new.name.clone(),
                line: new.line,
                lines: lines(&was, &is),
            });
        }
    }
    Ok(comparison)
}

/// The digest of the plugin, and its decisions one a line.
async fn decided(stage: &Runtimes, case: &Case) -> Result<(String, Vec<String>), LoadError> {
    let runtime = stage.of(case).await?;
    let digest = stage.plugin(&runtime).map(|plugin| plugin.digest.to_string());
    let (ended, world) = play(&runtime, case, Start::of(case)).await;
    let lines = decisions(&ended, &world.state());
    Ok((digest.unwrap_or_default(), lines))
}

fn decisions(ended: &Ended, state: &State) -> Vec<String> {
    let mut lines: Vec<String> = state.decisions().map(str::to_owned).collect();
    lines.push(format!("outcome {}", ended.described()));
    if !ended.result.is_null() {
        lines.push(format!("result {}", show(&ended.result)));
    }
    lines
}

/// A difference by longest common subsequence; the lists have at most as many lines as a call may make host calls.
fn lines(old: &[String], new: &[String]) -> Vec<String> {
    // Most cells of the table; beyond, the lists stand whole, one after the other.
    const MOST: usize = 4_000_000;
    let (rows, columns) = (old.len() + 1, new.len() + 1);
    let mut all = Vec::new();
    if rows.saturating_mul(columns) > MOST {
        all.extend(old.iter().map(|line| format!("- {line}")));
        all.extend(new.iter().map(|line| format!("+ {line}")));
        return all;
    }
    let mut common = vec![0_u32; rows * columns];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * columns + j] = if old[i] == new[j] {
                common[(i + 1) * columns + j + 1] + 1
            } else {
                common[(i + 1) * columns + j].max(common[i * columns + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            all.push(format!("  {}", old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[(i + 1) * columns + j] >= common[i * columns + j + 1]) {
            all.push(format!("- {}", old[i]));
            i += 1;
        } else {
            all.push(format!("+ {}", new[j]));
            j += 1;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_decide_stands_between_what_one_does() {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            lines(&list("eject build insert ok"), &list("build publish insert ok")),
            ["- eject", "  build", "+ publish", "  insert", "  ok"]
        );
        assert_eq!(lines(&list("a"), &list("b")), ["- a", "+ b"]);
        assert!(lines(&[], &[]).is_empty());
    }
}
