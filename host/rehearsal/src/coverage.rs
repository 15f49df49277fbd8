//! Which errors a plugin has met: each function of the host that it imports and that can fail, with each cause.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::faults::CAUSES;
use crate::functions::FUNCTIONS;
use crate::report::SuiteReport;
use crate::sweep::Pairs;

/// Functions that can fail, each with the causes that it failed with in some run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Met(BTreeMap<&'static str, BTreeSet<&'static str>>);

impl Met {
    /// Nothing yet, of what these imports can fail with. What `vmedia-service` fails with are the host calls of the next
    /// plugin down the chain.
    pub(crate) fn of_imports(imports: &[String]) -> Self {
        let can_fail = FUNCTIONS.iter().map(|function| function.name);
        let imported = can_fail.filter(|name| imports.iter().any(|import| import == name));
        Self(imported.map(|name| (name, BTreeSet::new())).collect())
    }

    /// What a plugin further down a chain meets is not this one's.
    pub(crate) fn add(&mut self, pairs: &Pairs) {
        for (function, cause) in pairs {
            if let Some(causes) = self.0.get_mut(function) {
                causes.insert(*cause);
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        for (function, causes) in &other.0 {
            self.0.entry(*function).or_default().extend(causes);
        }
    }
}

/// How much of what can go wrong for one plugin did go wrong in a rehearsal.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Coverage {
    /// The plugin.
    pub plugin: String,
    /// Identity of its bytes.
    pub digest: String,
    /// Pairs of a host function that it imports and a cause of an error.
    pub pairs: usize,
    /// Of these, how many it met.
    pub met: usize,
    /// The rest: causes by function.
    pub missing: BTreeMap<String, Vec<String>>,
}

impl Coverage {
    /// Part of the pairs that was met; 100 if it imports nothing that can fail.
    pub fn percent(&self) -> f64 {
        if self.pairs == 0 {
            return 100.0;
        }
        let parts = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        parts(self.met) * 100.0 / parts(self.pairs)
    }
}

/// The coverage of each plugin by all of its suites together.
pub fn coverage(suites: &[SuiteReport]) -> Vec<Coverage> {
    let mut plugins: BTreeMap<(&str, &str), Met> = BTreeMap::new();
    for suite in suites {
        let met = plugins
            .entry((suite.plugin.as_str(), suite.digest.as_str()))
            .or_default();
        met.merge(&suite.coverage);
    }
    let of = |((plugin, digest), met): ((&str, &str), Met)| {
        let mut missing = BTreeMap::new();
        for (function, causes) in &met.0 {
            let left = CAUSES.iter().filter(|cause| !causes.contains(**cause));
            let left: Vec<String> = left.map(|cause| (*cause).to_owned()).collect();
            if !left.is_empty() {
                missing.insert((*function).to_owned(), left);
            }
        }
        let pairs = met.0.len() * CAUSES.len();
        let missed: usize = missing.values().map(Vec::len).sum();
        Coverage {
            plugin: plugin.to_owned(),
            digest: digest.to_owned(),
            pairs,
            met: pairs - missed,
            missing,
        }
    };
    plugins.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(digest: &str, pairs: &[(&'static str, &'static str)]) -> SuiteReport {
        let imports = ["bmc.eject", "bmc.insert", "clock.now-ms", "vmedia-service.attach"];
        let mut coverage = Met::of_imports(&imports.map(str::to_owned));
        coverage.add(&pairs.iter().copied().collect());
        SuiteReport {
            suite: "s".to_owned(),
            file: "s.yaml".to_owned(),
            plugin: "p".to_owned(),
            digest: digest.to_owned(),
            cases: vec![],
            coverage,
        }
    }

    #[test]
    fn suites_of_one_plugin_are_counted_together_and_only_what_it_imports_counts() {
        let of_one: Vec<_> = CAUSES.iter().map(|cause| ("bmc.eject", *cause)).collect();
        let reports = [
            suite("a", &of_one),
            suite("a", &[("bmc.insert", "timeout"), ("power.set", "timeout")]),
            suite("b", &[]),
        ];
        let all = coverage(&reports);
        assert_eq!((all[0].pairs, all[0].met), (18, 10));
        assert_eq!(all[0].missing.keys().collect::<Vec<_>>(), ["bmc.insert"]);
        assert_eq!(all[0].missing["bmc.insert"].len(), 8);
        assert!((all[0].percent() - 55.5).abs() < 0.1);
        assert_eq!((all[1].met, all[1].missing.len()), (0, 2));
    }
}
