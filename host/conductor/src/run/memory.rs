//! What a conductor remembers of a node between two looks at it, beside the record; lost when it dies.

use std::time::{Duration, SystemTime};

use agent::{AgentAddress, AgentClient, StepList};
use model::{NodeId, Tenure};
use nodes::Claim;

use super::ConductorConfig;
use super::succession::Succession;
use crate::decide::Seen;

/// Beside the record.
pub(super) struct Memory {
    /// This conductor's hold on the node.
    pub(super) tenure: Tenure,
    /// Version of the record when it was read or written last.
    pub(super) version: u64,
    /// For decisions.
    pub(super) seen: Seen,
    /// How often the step has been tried in vain.
    pub(super) attempts: u32,
    /// What is cleaned up was called off while it was in trouble: it is not tried again and again.
    pub(super) hurried: bool,
    /// What had been read of the boot ISO before the server was powered on.
    pub(super) read_before: u64,
    /// Others may have served what the server boots: nothing can be told from what was read here.
    pub(super) read_elsewhere: bool,
    /// When this conductor took the node: it counts what is read from then on.
    pub(super) since: SystemTime,
    /// How often power could not be read in a row.
    pub(super) power_failures: u32,
    /// The clean steps that the ramdisk offers.
    pub(super) clean_steps: Option<StepList>,
    /// A client of the ramdisk's agent, and for whom it was made.
    pub(super) agent: Option<(AgentAddress, AgentClient)>,
    /// The take-over that is not finished.
    pub(super) succession: Option<Succession>,
}

impl Memory {
    /// Of a node that was just claimed.
    pub(super) fn of(claim: &Claim, config: &ConductorConfig, now: SystemTime) -> Self {
        let tenure = Tenure {
            conductor: config.name.clone(),
            term: claim.record.term,
        };
        let mut memory = Self::new(&claim.record.node.id, tenure, config, now);
        memory.version = claim.record.version;
        if let Some(predecessor) = &claim.predecessor {
            memory.seen.mutate_from = now + claim.predecessor_lease_left + config.longest_request;
            memory.succession = Some(Succession::new(predecessor.clone()));
        }
        memory
    }

    /// Of a node of which nothing is remembered.
    pub(super) fn new(id: &NodeId, tenure: Tenure, config: &ConductorConfig, now: SystemTime) -> Self {
        Self {
            tenure,
            version: 0,
            seen: Seen {
                mutate_from: now,
                retry_at: now,
                polled: None,
                agent_heard: now,
                power_due: now + spread(id, config.power_sync),
                progress_due: now,
                problem: None,
                unread_since: None,
            },
            attempts: 0,
            hurried: false,
            read_before: 0,
            read_elsewhere: false,
            since: now,
            power_failures: 0,
            clean_steps: None,
            agent: None,
            succession: None,
        }
    }

    /// The step is another one now: nothing of the old one counts any more.
    pub(super) fn forget_step(&mut self, now: SystemTime) {
        self.attempts = 0;
        self.seen.retry_at = now;
        self.seen.polled = None;
        self.seen.problem = None;
        self.seen.unread_since = None;
        self.read_elsewhere = false;
        self.clean_steps = None;
    }

    /// The step goes on well.
    pub(super) fn forget_problem(&mut self) {
        self.attempts = 0;
        self.seen.problem = None;
    }

    /// A try failed: when to try again.
    pub(super) fn back_off(&mut self, first: Duration, asked: Option<Duration>, now: SystemTime) {
        let pause = first * (1 << self.attempts.min(4));
        self.attempts = self.attempts.saturating_add(1);
        self.seen.retry_at = now + asked.unwrap_or_default().max(jittered(pause));
    }
}

/// Between half of it and all of it, so that nodes that failed together do not try again together.
pub(super) fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..=1.0))
}

/// A node's own place in an interval, so that ten thousand nodes are not read in the same second.
fn spread(node: &NodeId, interval: Duration) -> Duration {
    let [first, second, ..] = *node.as_bytes();
    interval.mul_f64(f64::from(u16::from_be_bytes([first, second])) / f64::from(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_never_shorter_than_asked_for() {
        let first = Duration::from_secs(1);
        let now = SystemTime::UNIX_EPOCH;
        let claim = Claim {
            record: nodes::Record {
                node: crate::testing::node(),
                version: 1,
                owner: None,
                term: 1,
                created_at: now,
                updated_at: now,
            },
            predecessor: None,
            predecessor_lease_left: Duration::ZERO,
        };
        let mut memory = Memory::of(&claim, &ConductorConfig::new("a".parse().unwrap()), now);
        for expected in [1, 2, 4, 8, 16, 16, 16] {
            memory.back_off(first, None, now);
            let pause = memory.seen.retry_at.duration_since(now).unwrap().as_secs_f64();
            assert!(
                (f64::from(expected) / 2.0..=f64::from(expected)).contains(&pause),
                "{expected}: {pause}"
            );
        }
        memory.back_off(first, Some(Duration::from_secs(99)), now);
        assert_eq!(memory.seen.retry_at, now + Duration::from_secs(99));
        memory.forget_step(now);
        assert_eq!((memory.attempts, memory.seen.retry_at), (0, now));
    }
}
