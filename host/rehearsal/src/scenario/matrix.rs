//! One case for each combination of values under `matrix`.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::calls::show;
use crate::nearest::unknown;
use crate::node::NodeFile;
use crate::reply::typed;

/// Most combinations of one case.
const MOST: usize = 500;

/// Keys of a node by themselves.
const FIELDS: &[&str] = &[
    "name",
    "driver",
    "conductor-group",
    "provision-state",
    "power-state",
    "boot-mode",
];
/// Keys of a node that hold a mapping: `facts.vendor`.
const MAPS: &[&str] = &["facts", "driver-info", "instance-info", "properties"];

/// One combination: what a case's name gets, and what lies over its node.
#[derive(Clone, Default)]
pub(super) struct Combination {
    pub(super) suffix: String,
    pub(super) node: NodeFile,
}

/// Every combination, the last key's values changing fastest. Without a matrix there is one, which changes nothing.
pub(super) fn combinations(matrix: &BTreeMap<String, Vec<Json>>) -> Result<Vec<Combination>, String> {
    let mut all = vec![(Vec::new(), NodeFile::default())];
    for (key, values) in matrix {
        if values.is_empty() {
            return Err(format!("`{key}` has no values"));
        }
        if all.len().saturating_mul(values.len()) > MOST {
            return Err(format!("`matrix` has more than {MOST} combinations"));
        }
        let mut next = Vec::with_capacity(all.len() * values.len());
        for (words, node) in &all {
            for value in values {
                let over = field(key, value)?;
                let mut words: Vec<String> = words.clone();
                words.push(format!("{key}={}", show(value)));
                next.push((words, over.laid_over(node)));
            }
        }
        all = next;
    }
    let named = |(words, node): (Vec<String>, NodeFile)| Combination {
        suffix: if words.is_empty() {
            String::new()
        } else {
            format!(" [{}]", words.join(", "))
        },
        node,
    };
    Ok(all.into_iter().map(named).collect())
}

fn field(key: &str, value: &Json) -> Result<NodeFile, String> {
    let node = match key.split_once('.') {
        // Facts are texts; a number is one as it is written.
        Some(("facts", fact)) => {
            let text = match value {
                Json::String(text) => text.clone(),
                Json::Number(_) | Json::Bool(_) => value.to_string(),
                _ => return Err(format!("`{key}`: a fact is a text, not {}", show(value))),
            };
            json!({ "facts": { fact: text } })
        }
        Some((map, entry)) if MAPS.contains(&map) => json!({ map: { entry: value } }),
        None if FIELDS.contains(&key) => json!({ key: value }),
        _ => {
            let mut known = FIELDS.to_vec();
            known.extend(["facts.…", "driver-info.…", "instance-info.…", "properties.…"]);
            return Err(unknown("key of a node", key, &known));
        }
    };
    typed(node).map_err(|message| format!("`{key}`: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suffixes(matrix: Json) -> Result<Vec<String>, String> {
        let matrix: BTreeMap<String, Vec<Json>> = serde_json::from_value(matrix).unwrap();
        let all = combinations(&matrix)?;
        Ok(all.into_iter().map(|combination| combination.suffix).collect())
    }

    #[test]
    fn every_combination_is_named_by_its_values() {
        assert_eq!(suffixes(json!({})).unwrap(), [""]);
        let four =
            suffixes(json!({"facts.vendor": ["HPE", "Dell Inc."], "driver": ["agent_ilo", "iscsi_ilo"]})).unwrap();
        assert_eq!(four.len(), 4);
        assert_eq!(four[1], " [driver=agent_ilo, facts.vendor=\"Dell Inc.\"]");
    }

    #[test]
    fn what_is_no_key_or_value_of_a_node_or_too_much_is_refused() {
        for (matrix, says) in [
            (json!({"fact.vendor": ["a"]}), "unknown key of a node `fact.vendor`"),
            (json!({"drivr": ["a"]}), "did you mean `driver`?"),
            (json!({"driver": []}), "has no values"),
            (json!({"facts.a": [{"b": 1}]}), "a fact is a text"),
            (json!({"boot-mode": ["uefy"]}), "did you mean `uefi`?"),
        ] {
            let error = suffixes(matrix).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let many: Vec<usize> = (0..30).collect();
        let error = suffixes(json!({"facts.a": many, "facts.b": many})).unwrap_err();
        assert!(error.contains("more than 500"), "{error}");
    }
}
