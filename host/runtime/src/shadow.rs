//! A version of a plugin that is tried beside the one that decides: it runs after a call on what that call learned. What it
//! would have done is compared with what was done; it does nothing.

mod echo;
mod recording;

use std::time::SystemTime;

use model::{Digest, NodeId};

pub(crate) use echo::{Echo, EchoSession};
pub(crate) use recording::Recording;

/// What a shadow would have done otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShadowReport {
    /// When the call that it ran along with began.
    pub at: SystemTime,
    /// Number of that call.
    pub call: u64,
    /// For which node.
    pub node: NodeId,
    /// Which function.
    pub function: &'static str,
    /// The plugin that decided.
    pub active: String,
    /// Which bytes of it.
    pub active_digest: Digest,
    /// The shadow.
    pub shadow: String,
    /// Which bytes of it.
    pub shadow_digest: Digest,
    /// What came of it.
    pub verdict: Verdict,
}

/// What came of a shadow's run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It would have done and answered the same.
    Same,
    /// It would have done or answered something else, each in words.
    Differs(Vec<String>),
    /// It asked for something that the call never learned, so nobody knows what it would have done: which function.
    Diverged(String),
    /// It was stopped: why.
    Failed(String),
}

/// What one sequence of deeds has and the other has not, in order: `-` only the active one did, `+` only the shadow.
pub(crate) fn differences(active: &[String], shadow: &[String]) -> Vec<String> {
    // The longest common subsequence: both have at most as many deeds as a call may make host calls.
    let (rows, columns) = (active.len(), shadow.len());
    let mut longest = vec![vec![0_u32; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            longest[row][column] = match active[row] == shadow[column] {
                true => longest[row + 1][column + 1] + 1,
                false => longest[row + 1][column].max(longest[row][column + 1]),
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    let mut found = Vec::new();
    while row < rows || column < columns {
        if row < rows && column < columns && active[row] == shadow[column] {
            (row, column) = (row + 1, column + 1);
        } else if column == columns || row < rows && longest[row + 1][column] >= longest[row][column + 1] {
            found.push(format!("- {}", active[row]));
            row += 1;
        } else {
            found.push(format!("+ {}", shadow[column]));
            column += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_what_one_has_and_the_other_has_not() {
        let check = |active: &str, shadow: &str, expected: &[&str]| {
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(
                differences(&words(active), &words(shadow)),
                expected,
                "{active} | {shadow}"
            );
        };
        check("a b c", "a b c", &[]);
        check("a b c", "a c", &["- b"]);
        check("a c", "a b c", &["+ b"]);
        check("a b c", "a x c", &["- b", "+ x"]);
        check("", "a", &["+ a"]);
        check("a a", "a", &["- a"]);
        check("a b", "b a", &["- a", "+ a"]);
    }
}
