//! Who works on a node, and since when.

use std::fmt;
use std::str::FromStr;

use crate::id::ParseIdError;

/// Name of one running `farrier serve`, unique in its store.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ConductorName(String);

impl ConductorName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ConductorName {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if (1..=255).contains(&text.len()) && text.chars().all(legal) {
            Ok(Self(text.to_owned()))
        } else {
            let rule = "1 to 255 of A-Z a-z 0-9 - . _";
            Err(ParseIdError::new("conductor name", text, rule))
        }
    }
}

impl fmt::Display for ConductorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A conductor's hold on one node. The store refuses a write whose term is not the node's current one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tenure {
    /// Who holds the node.
    pub conductor: ConductorName,
    /// Rises each time that the node changes hands.
    pub term: u64,
}
