//! What is wrong with a site's settings, or only doubtful.

use std::fmt;

use crate::tree::Origin;

/// One wrong setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where it was set.
    pub origin: Origin,
    /// Which setting, what is wrong, and the remedy.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Default => f.write_str(&self.message),
            origin => write!(f, "{origin}: {}", self.message),
        }
    }
}

/// A setting that works, but perhaps not as meant. Prints like a [`Problem`].
pub type Warning = Problem;

/// The settings cannot be used; prints every problem, a line each.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", lines(.problems))]
pub struct SettingsError {
    /// Never empty.
    pub problems: Vec<Problem>,
    /// What would work, but perhaps not as meant.
    pub warnings: Vec<Warning>,
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<_> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}
