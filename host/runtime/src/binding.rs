//! Which plugin decides for which node: rules over facts, first match wins, the built-in last.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What a node's facts must be: equal to a text, or not below a version (`>=6`). Empty matches every node.
pub type Match = BTreeMap<String, String>;

/// Whether a node with these facts is meant. A fact that is missing matches nothing.
pub(crate) fn matches(rule: &Match, fact: impl Fn(&str) -> Option<String>) -> bool {
    rule.iter().all(|(key, wanted)| {
        fact(key).is_some_and(|value| match wanted.strip_prefix(">=") {
            Some(least) => compare_versions(&value, least.trim()).is_some_and(Ordering::is_ge),
            None => value == *wanted,
        })
    })
}

/// What of a rule a node does not meet, in words.
pub(crate) fn unmet(rule: &Match, fact: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let one = |(key, wanted): (&String, &String)| {
        let only = Match::from([(key.clone(), wanted.clone())]);
        if matches(&only, &fact) {
            return None;
        }
        Some(match fact(key) {
            Some(value) => format!("{key} is `{value}`, wanted `{wanted}`"),
            None => format!("{key} is not known, wanted `{wanted}`"),
        })
    };
    rule.iter().filter_map(one).collect()
}

/// Compares `1.10` and `1.9` part by part; `None` if either is no version.
fn compare_versions(left: &str, right: &str) -> Option<Ordering> {
    let parts = |text: &str| {
        text.split('.')
            .map(|part| part.parse::<u64>().ok())
            .collect::<Option<Vec<_>>>()
    };
    let (mut left, mut right) = (parts(left)?, parts(right)?);
    let length = left.len().max(right.len());
    left.resize(length, 0);
    right.resize(length, 0);
    Some(left.cmp(&right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_match_by_text_or_from_a_version_on() {
        let facts = BTreeMap::from([("vendor", "HPE"), ("bmc.generation", "6"), ("bmc.firmware", "1.62")]);
        let check = |rule: &[(&str, &str)]| {
            let rule = rule
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            matches(&rule, |key| facts.get(key).map(|value| (*value).to_owned()))
        };
        assert!(check(&[]));
        assert!(check(&[("vendor", "HPE"), ("bmc.generation", ">=6")]));
        assert!(check(&[("bmc.firmware", ">= 1.9")]));
        assert!(!check(&[("bmc.firmware", ">=1.63")]));
        assert!(!check(&[("vendor", "Dell")]));
        assert!(!check(&[("vendor", ">=5")]));
        assert!(!check(&[("missing", "x")]));
        assert!(check(&[("bmc.generation", ">=5.9.9")]));
    }

    #[test]
    fn what_a_node_does_not_meet_is_told_fact_by_fact() {
        let rule = Match::from([
            ("vendor".to_owned(), "HPE".to_owned()),
            ("bmc.generation".to_owned(), ">=6".to_owned()),
            ("site".to_owned(), "north".to_owned()),
        ]);
        let fact = |key: &str| match key {
            "vendor" => Some("HPE".to_owned()),
            "bmc.generation" => Some("5".to_owned()),
            _ => None,
        };
        assert_eq!(
            unmet(&rule, fact),
            [
                "bmc.generation is `5`, wanted `>=6`",
                "site is not known, wanted `north`"
            ]
        );
    }
}
