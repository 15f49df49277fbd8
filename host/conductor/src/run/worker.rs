//! The work on one node: look, decide, act, until there is nothing to do for now.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent::AgentError;
use model::{Node, NodeId};
use nodes::{NodeRef, Outcome, Record, StoreError, Writer};
use tokio::sync::Notify;

use super::Shared;
use super::memory::Memory;
use crate::decide::{Action, Seen, calls_off, decide};
use crate::machine::is_busy;
use crate::step::{Step, spell};
use crate::{CallError, Errand, ErrorClass};

/// How long one look at a BMC may take that nothing has to wait for.
pub(super) const LOOK: Duration = Duration::from_secs(10);

/// How the work ended.
pub(super) enum Ended {
    /// Nothing to do until something changes or the pause is over.
    Rest {
        /// `None` = only until something changes.
        pause: Option<Duration>,
        /// Nothing is under way on the node.
        settled: bool,
    },
    /// Somebody else holds the node, or it is gone.
    Lost,
    /// This conductor's lease is over.
    LeaseLost,
}

/// What keeps the work from going on.
#[derive(Debug)]
pub(super) enum Stop {
    /// The record changed under a decision: decide again.
    Again,
    /// Somebody else holds the node, or it is gone.
    Lost,
    /// This conductor's lease is over.
    LeaseLost,
    /// It ends too soon for what was to be done.
    LeaseEnding,
    /// The store failed.
    Store(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::VersionConflict { .. } => Self::Again,
            StoreError::StaleTerm { .. } | StoreError::NotFound { .. } => Self::Lost,
            StoreError::LeaseLost { .. } => Self::LeaseLost,
            other => Self::Store(other),
        }
    }
}

/// Why a step did not work out.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Worth another try.
    Retry {
        /// Not before, where the other side says.
        after: Option<Duration>,
        /// For people.
        problem: String,
    },
    /// Fails the state.
    Failed(String),
    /// Not the step's fault.
    Stop(Stop),
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Stop(error.into())
    }
}

impl From<CallError> for Trouble {
    fn from(error: CallError) -> Self {
        let problem = error.message;
        match error.class {
            ErrorClass::Retry(after) => Self::Retry { after, problem },
            ErrorClass::Fail => Self::Failed(problem),
            ErrorClass::LeaseEnding => Self::Stop(Stop::LeaseEnding),
        }
    }
}

impl From<AgentError> for Trouble {
    fn from(error: AgentError) -> Self {
        let problem = error.to_string();
        match error.is_transient() {
            true => Self::Retry { after: None, problem },
            false => Self::Failed(problem),
        }
    }
}

/// Whether a write is still right if the record was changed meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// It follows from a decision: only if what was decided on is as it was.
    Decision,
    /// It records what has happened, whatever else changed.
    Fact,
}

/// One node's worker, for one task.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) id: NodeId,
    pub(super) memory: Memory,
    /// Somebody may have changed the record while this works.
    knock: Arc<Notify>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, id: NodeId, memory: Memory, knock: Arc<Notify>) -> Self {
        Self {
            shared,
            id,
            memory,
            knock,
        }
    }

    /// Works until there is nothing to do for now.
    pub(super) async fn run(mut self) -> (NodeId, Memory, Ended) {
        let ended = loop {
            match self.turn().await {
                Ok(None) | Err(Stop::Again) => {}
                Ok(Some(ended)) => break ended,
                Err(Stop::Lost) => break Ended::Lost,
                Err(Stop::LeaseLost) => break Ended::LeaseLost,
                Err(Stop::LeaseEnding) => break unsettled(self.shared.config.lease / 5),
                Err(Stop::Store(error)) => {
                    tracing::warn!(node = %self.id, %error, "the store failed; trying again");
                    break unsettled(self.shared.config.retry);
                }
            }
        };
        (self.id, self.memory, ended)
    }

    /// One look, one action. `Some` = enough for now.
    async fn turn(&mut self) -> Result<Option<Ended>, Stop> {
        if self.shared.lease.window().is_none() {
            return Ok(Some(Ended::LeaseLost));
        }
        let record = self.read().await?;
        if self.shared.draining.is_cancelled() {
            return Ok(Some(unsettled(self.shared.config.retry)));
        }
        let now = SystemTime::now();
        let node = &record.node;
        if self.memory.succession.is_some() && !node.maintenance {
            return match self.succeed(record).await? {
                Some(until) => Ok(Some(unsettled(pause(until, now)))),
                None => Ok(None),
            };
        }
        match decide(node, now, &self.memory.seen, &self.shared.rules) {
            Action::Idle { until } => {
                let settled = !is_busy(node.provision_state)
                    && !node.provision_state.waits_for_agent()
                    && self.memory.succession.is_none()
                    && node.wish.is_none()
                    && node.step.is_none();
                let pause = until.map(|until| pause(until, now));
                return Ok(Some(Ended::Rest { pause, settled }));
            }
            Action::Begin(verb) => self.begin(&record, verb).await?,
            Action::Refuse(reason) => self.refuse(&record, &reason).await?,
            Action::Step(step) => self.step(record, step).await?,
            Action::Resume => self.resume(&record).await?,
            Action::ReadProgress => self.read_progress(&record).await?,
            Action::BootAgain => self.boot_again(&record).await?,
            Action::Done => self.done(&record, Guard::Decision, Vec::new()).await?,
            Action::Fail(reason) => self.fail(&record, &reason).await?,
            Action::FinishFailure => {
                let problem = "cleaning up took too long as well: look after power and virtual media by hand";
                self.finish_failure(&record, Some(problem)).await?;
            }
            Action::Power(action) => self.power(record, action).await?,
            Action::BootIntoIso(url) => self.boot_into_iso(record, &url).await?,
            Action::DropInterrupted => self.drop_interrupted(&record).await?,
            Action::SyncPower => self.sync_power(&record).await?,
        }
        Ok(None)
    }

    /// The record as it is now, if the node is still ours.
    pub(super) async fn read(&mut self) -> Result<Record, Stop> {
        let record = self.shared.hands.store.node(&NodeRef::Id(self.id)).await?;
        let record = record.ok_or(Stop::Lost)?;
        let tenure = &self.memory.tenure;
        if record.owner.as_ref() != Some(&tenure.conductor) || record.term != tenure.term {
            return Err(Stop::Lost);
        }
        self.memory.version = record.version;
        Ok(record)
    }

    /// Ends once a user has called off what this works on.
    pub(super) fn called_off(&self) -> impl Future<Output = ()> + use<> {
        let (store, knock) = (self.shared.hands.store.clone(), self.knock.clone());
        let (id, seen) = (self.id, self.memory.seen.clone());
        async move {
            loop {
                knock.notified().await;
                // A store that does not answer is asked at the next knock; the work itself will notice.
                if let Ok(Some(record)) = store.node(&NodeRef::Id(id)).await
                    && is_called_off(&record.node, &seen)
                {
                    return;
                }
            }
        }
    }

    /// Writes an edit of the record. Whoever changed it meanwhile keeps his changes.
    pub(super) async fn change(
        &mut self,
        record: &Record,
        guard: Guard,
        edit: impl Fn(&mut Node) + Send + Sync,
    ) -> Result<Record, Stop> {
        let writer = Writer::Conductor(self.memory.tenure.clone());
        let mut fresh = record.clone();
        loop {
            let mut edited = fresh.clone();
            edit(&mut edited.node);
            if edited.node == fresh.node {
                return Ok(fresh);
            }
            match self.shared.hands.store.update_node(&edited, &writer).await {
                Ok(written) => {
                    self.memory.version = written.version;
                    return Ok(written);
                }
                Err(StoreError::VersionConflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            fresh = self.read().await?;
            if guard == Guard::Decision && basis(&fresh.node) != basis(&record.node) {
                return Err(Stop::Again);
            }
        }
    }

    /// Tells people; that nobody could be told stops nothing.
    pub(super) async fn tell(&self, kind: &str, message: &str) {
        let me = &self.shared.config.name;
        let told = self
            .shared
            .hands
            .store
            .append_event(Some(&self.id), Some(me), kind, message)
            .await;
        if let Err(error) = told {
            tracing::warn!(node = %self.id, %error, message, "an event could not be recorded");
        }
    }

    /// The errand of a call about the node as it is in this record.
    pub(super) fn errand(&self, record: &Record, by_operator: bool) -> Errand {
        Errand {
            node: record.node.clone(),
            tenure: self.memory.tenure.clone(),
            by_operator,
        }
    }

    /// Journals that a step begins.
    pub(super) async fn begin_effect(&self, step: Step) -> Result<u64, Stop> {
        let action = format!("step.{}", step.as_str());
        let tenure = &self.memory.tenure;
        let store = &self.shared.hands.store;
        Ok(store
            .begin_effect(&self.id, tenure, &action, spell(step.repeat()))
            .await?)
    }

    /// Journals how it ended.
    pub(super) async fn end_effect<T>(&self, effect: u64, outcome: &Result<T, Trouble>) {
        let outcome = match outcome {
            Ok(_) => Outcome::Done,
            Err(Trouble::Retry { problem, .. } | Trouble::Failed(problem)) => Outcome::Failed(problem.clone()),
            Err(Trouble::Stop(Stop::LeaseEnding)) => Outcome::Failed("not begun: the lease ends too soon".to_owned()),
            // What became of it is not known.
            Err(Trouble::Stop(_)) => return,
        };
        if let Err(error) = self.shared.hands.store.end_effect(effect, &outcome).await {
            tracing::warn!(node = %self.id, %error, "the end of an effect could not be journalled");
        }
    }
}

/// Gives up on something that should have ended by itself. What it had begun on a BMC or a backend may still happen.
pub(super) async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    match tokio::time::timeout(limit, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Trouble::Retry {
            after: None,
            problem: format!("{what} did not end within {} s", limit.as_secs()),
        }),
    }
}

/// Agents are asked about clean steps in short calls, between which it is decided whether one is under way.
fn is_called_off(node: &Node, seen: &Seen) -> bool {
    let cleans = node.step.as_deref().and_then(Step::parse) == Some(Step::CleanSteps);
    !cleans && calls_off(node, seen).is_some()
}

/// What decisions rest on that users or other calls may change.
fn basis(node: &Node) -> impl PartialEq + '_ {
    (
        node.provision_state,
        &node.step,
        &node.wish,
        node.maintenance,
        &node.instance_info,
        node.driver,
    )
}

fn pause(until: SystemTime, now: SystemTime) -> Duration {
    until
        .duration_since(now)
        .unwrap_or_default()
        .max(Duration::from_millis(2))
}

fn unsettled(pause: Duration) -> Ended {
    Ended::Rest {
        pause: Some(pause),
        settled: false,
    }
}
