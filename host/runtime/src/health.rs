//! Counts the failures of each version: too many in a window and it is taken out of use.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::Digest;

use crate::catalog::{Bound, Role};
use crate::{CallFailure, CallReport};

/// When a version is given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RollbackRule {
    /// So many failures …
    pub failures: u32,
    /// … within this time.
    pub window: Duration,
}

impl Default for RollbackRule {
    fn default() -> Self {
        Self {
            failures: 3,
            window: Duration::from_secs(600),
        }
    }
}

/// By role, entry and version.
#[derive(Default)]
pub(crate) struct Health(Mutex<BTreeMap<(Role, String, Digest), VecDeque<Instant>>>);

impl Health {
    /// Notes a failure; true if that was one too many. Counting begins anew then.
    pub(crate) fn failed(&self, rule: RollbackRule, bound: &Bound, now: Instant) -> bool {
        let key = (bound.role, bound.entry.clone(), bound.plugin.digest);
        let mut versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = versions.entry(key.clone()).or_default();
        failures.push_back(now);
        while failures
            .front()
            .is_some_and(|first| now.saturating_duration_since(*first) > rule.window)
        {
            failures.pop_front();
        }
        let many = failures.len() >= usize::try_from(rule.failures.max(1)).unwrap_or(usize::MAX);
        if many {
            versions.remove(&key);
        }
        many
    }
}

/// Whether the plugin is to blame: it trapped, overran a budget of its own, or gave what the host cannot use. Time that passed
/// while it waited for the host is none of these.
pub(crate) fn is_failure(failure: &CallFailure, report: &CallReport, bound: &Bound) -> bool {
    match failure {
        CallFailure::Trapped(_)
        | CallFailure::CpuBudget(_)
        | CallFailure::Memory(_)
        | CallFailure::Tables(_)
        | CallFailure::HostBytes(_)
        | CallFailure::Unusable(_)
        | CallFailure::NotStarted(_) => true,
        // A nested call may find that those before it have used up what they share.
        CallFailure::HostCalls(_) => report.host_calls > bound.limits.host_calls,
        CallFailure::WallBudget(_) | CallFailure::Busy { .. } | CallFailure::Diverged(_) => false,
    }
}
