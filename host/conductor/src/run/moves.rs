//! Moves of a node between provision states and steps; each is one write of the record, and an event.

use std::time::{Duration, SystemTime};

use model::{AgentContact, BootMode, Fault, Node, PowerState, ProvisionState, Secret, ServerIdentity};
use nodes::Record;

use super::unread::BOOTED_AGAIN;
use super::worker::{Guard, Stop, Worker};
use crate::heartbeat::fresh_token;
use crate::instance::{CONFIG_DRIVE, instance};
use crate::machine::{self, Move};
use crate::parameters;
use crate::step::{After, Step};

/// What a step found out about the server.
pub(super) enum Learned {
    /// Its power.
    Power(PowerState),
    /// Its firmware mode.
    BootMode(BootMode),
    /// Who it is.
    Identity(Box<ServerIdentity>),
}

impl Worker {
    /// The ramdisk has called back: its work begins.
    pub(super) async fn resume(&mut self, record: &Record) -> Result<(), Stop> {
        let state = record.node.provision_state;
        let Some(to) = machine::next(state, Move::Resume) else {
            return Ok(());
        };
        let first = match to {
            ProvisionState::Cleaning => Step::CleanSteps,
            _ => Step::DeploySteps,
        };
        let now = SystemTime::now();
        self.memory.forget_step(now);
        let deadline = now + self.shared.config.timeouts.work;
        let edit = |node: &mut Node| {
            stand(node, to, now);
            node.step = Some(first.as_str().to_owned());
            node.deadline = Some(deadline);
            node.boot_repeated = false;
            node.last_error = None;
        };
        self.go(record, Guard::Decision, to, "the ramdisk called back", edit)
            .await?;
        Ok(())
    }

    /// A step is done: on to what comes after it.
    pub(super) async fn advance(&mut self, record: &Record, step: Step, learned: Vec<Learned>) -> Result<(), Stop> {
        let state = record.node.provision_state;
        let now = SystemTime::now();
        self.memory.forget_step(now);
        match step.after(state, has_ramdisk(&record.node)) {
            After::Done => self.done(record, Guard::Fact, learned).await,
            After::Failed => {
                let record = self.change(record, Guard::Fact, |node| learn(node, &learned)).await?;
                self.finish_failure(&record, None).await
            }
            After::Step(next) => {
                let timeouts = &self.shared.config.timeouts;
                // The ramdisk's own time is over once it has done its work.
                let deadline = (next == Step::AgentPowerOff).then_some(now + timeouts.prepare);
                let edit = |node: &mut Node| {
                    learn(node, &learned);
                    works_again(node);
                    if next == Step::PrepareRamdisk {
                        // The server is off: whatever has called in does not run any more.
                        let token = node.agent.token.take();
                        node.agent = AgentContact {
                            token,
                            ..AgentContact::default()
                        };
                    }
                    node.step = Some(next.as_str().to_owned());
                    node.step_percent = None;
                    node.agent_command = None;
                    node.deadline = deadline.or(node.deadline);
                };
                self.change(record, Guard::Fact, edit).await?;
                Ok(())
            }
            After::Wait => {
                let Some(to) = machine::next(state, Move::Wait) else {
                    return Ok(());
                };
                self.memory.seen.progress_due = now;
                let timeouts = &self.shared.config.timeouts;
                let wait = match to {
                    ProvisionState::CleanWait => timeouts.clean_callback,
                    _ => timeouts.callback,
                };
                let deadline = now + wait;
                let edit = |node: &mut Node| {
                    learn(node, &learned);
                    works_again(node);
                    stand(node, to, now);
                    node.step = None;
                    node.deadline = Some(deadline);
                };
                self.go(record, Guard::Fact, to, "the server boots its ramdisk", edit)
                    .await?;
                Ok(())
            }
        }
    }

    /// The state's work is done.
    pub(super) async fn done(&mut self, record: &Record, guard: Guard, learned: Vec<Learned>) -> Result<(), Stop> {
        let state = record.node.provision_state;
        let Some(to) = machine::next(state, Move::Done) else {
            return Ok(());
        };
        let now = SystemTime::now();
        let prepare = now + self.shared.config.timeouts.prepare;
        let cleans = self.shared.rules.automated_clean;
        let edit = |node: &mut Node| {
            learn(node, &learned);
            stand(node, to, now);
            if state == ProvisionState::Deleting {
                node.instance_info.clear();
                node.secrets.remove(CONFIG_DRIVE);
            }
            match to {
                // Torn down, and now to be cleaned; without cleaning the next decision moves it on.
                ProvisionState::Cleaning if cleans => set_out(node, Some(fresh_token()), prepare),
                ProvisionState::Cleaning => set_out_empty(node),
                _ => {
                    settle(node);
                    node.last_error = None;
                }
            }
        };
        self.go(record, guard, to, "done", edit).await?;
        Ok(())
    }

    /// The state's work failed.
    pub(super) async fn fail(&mut self, record: &Record, reason: &str) -> Result<(), Stop> {
        let state = record.node.provision_state;
        match state {
            // Nothing was touched, or all that could be has been tried.
            ProvisionState::Verifying | ProvisionState::Deleting => {
                let Some(to) = machine::next(state, Move::Fail) else {
                    return Ok(());
                };
                self.end_in_failure(record, Guard::Fact, to, reason).await
            }
            _ => {
                self.memory.hurried = false;
                self.clean_up(record, Step::FailPowerOff, reason).await
            }
        }
    }

    /// Into a failed state, with nothing to clean up. A wish that led there is fulfilled.
    pub(super) async fn end_in_failure(
        &mut self,
        record: &Record,
        guard: Guard,
        to: ProvisionState,
        reason: &str,
    ) -> Result<(), Stop> {
        let now = SystemTime::now();
        self.memory.forget_step(now);
        let edit = |node: &mut Node| {
            let target = node.target_provision_state;
            if guard == Guard::Decision {
                node.wish = None;
            }
            stand(node, to, now);
            settle(node);
            node.target_provision_state = target;
            node.last_error = Some(reason.to_owned());
        };
        self.go(record, guard, to, reason, edit).await.map(drop)
    }

    /// Begins to clean up after a failure or an abort; the state stays as it is until that is done.
    pub(super) async fn clean_up(&mut self, record: &Record, first: Step, reason: &str) -> Result<(), Stop> {
        let now = SystemTime::now();
        self.memory.forget_step(now);
        let deadline = now + self.shared.config.timeouts.clean_up;
        let guard = if first == Step::AbortPowerOff {
            Guard::Decision
        } else {
            Guard::Fact
        };
        let edit = |node: &mut Node| {
            if first == Step::AbortPowerOff {
                node.wish = None;
            }
            node.last_error = Some(reason.to_owned());
            node.step = Some(first.as_str().to_owned());
            node.step_percent = None;
            node.agent_command = None;
            node.deadline = Some(deadline);
        };
        self.change(record, guard, edit).await?;
        self.tell("failed", reason).await;
        Ok(())
    }

    /// Cleaned up as far as possible: into the failed state. `problem`: what could not be cleaned up.
    pub(super) async fn finish_failure(&mut self, record: &Record, problem: Option<&str>) -> Result<(), Stop> {
        let state = record.node.provision_state;
        let Some(to) = machine::next(state, Move::Fail) else {
            return Ok(());
        };
        let aborted = matches!(
            record.node.step.as_deref().and_then(Step::parse),
            Some(Step::AbortPowerOff | Step::AbortCleanUp)
        );
        let now = SystemTime::now();
        let edit = |node: &mut Node| {
            let target = node.target_provision_state;
            if let Some(problem) = problem {
                add_error(node, problem);
            }
            stand(node, to, now);
            settle(node);
            node.target_provision_state = target;
            if to == ProvisionState::CleanFailed && !aborted {
                node.maintenance = true;
                node.maintenance_reason.clone_from(&node.last_error);
                node.fault = Some(Fault::CleanFailure);
            }
        };
        let reason = record.node.last_error.clone().unwrap_or_default();
        self.go(record, Guard::Fact, to, &reason, edit).await?;
        Ok(())
    }

    /// Writes a move and tells of it.
    pub(super) async fn go(
        &mut self,
        record: &Record,
        guard: Guard,
        to: ProvisionState,
        why: &str,
        edit: impl Fn(&mut Node) + Send + Sync,
    ) -> Result<Record, Stop> {
        let from = record.node.provision_state;
        let written = self.change(record, guard, edit).await?;
        tracing::info!(node = %self.id, %from, %to, why, "provision state");
        self.tell("provision-state", &format!("{from} → {to}: {why}")).await;
        Ok(written)
    }
}

/// Whether a ramdisk carries the work out: always, but for an instance that runs from its boot ISO alone.
fn has_ramdisk(node: &Node) -> bool {
    let alone = || instance(node, None).is_ok_and(|instance| instance.image.is_none());
    node.provision_state != ProvisionState::Deploying || !alone()
}

/// The node now stands in this state.
pub(super) fn stand(node: &mut Node, to: ProvisionState, now: SystemTime) {
    node.provision_state = to;
    node.provision_updated_at = now;
    node.step_percent = None;
    node.agent_command = None;
}

/// The node's work begins with the server off; `token` is that of the ramdisk to boot, if one is. What boots over the network can
/// be read by everybody there: such a ramdisk gets a token when it looks its node up.
pub(super) fn set_out(node: &mut Node, token: Option<Secret>, deadline: SystemTime) {
    set_out_empty(node);
    node.agent.token = token.filter(|_| parameters::carry_token(node));
    node.step = Some(Step::PowerOff.as_str().to_owned());
    node.deadline = Some(deadline);
}

fn set_out_empty(node: &mut Node) {
    node.agent = AgentContact::default();
    node.boot_repeated = false;
    node.step = None;
    node.step_percent = None;
    node.agent_command = None;
    node.deadline = None;
}

/// Nothing is under way any more.
pub(super) fn settle(node: &mut Node) {
    set_out_empty(node);
    node.target_provision_state = None;
}

/// What was to be done at the next reset is void once the instance goes.
pub(super) fn unfault(node: &mut Node) {
    if node.fault == Some(Fault::MediaStale) {
        node.fault = None;
    }
}

/// How `last_error` begins while a step that did not work out is tried again.
const TRYING: &str = "trying again: ";

/// Whoever looks at the node sees why it does not get on.
pub(super) fn does_not_work(node: &mut Node, step: Step, problem: &str) {
    node.last_error = Some(format!("{TRYING}{}: {problem}", step.as_str()));
}

/// It gets on again; that its ramdisk had to be booted once more stays to be seen until that calls back.
pub(super) fn works_again(node: &mut Node) {
    if node.last_error.as_ref().is_some_and(|error| error.starts_with(TRYING)) {
        node.last_error = node.boot_repeated.then(|| BOOTED_AGAIN.to_owned());
    }
}

/// Adds a problem to what went wrong first.
pub(super) fn add_error(node: &mut Node, problem: &str) {
    node.last_error = Some(match node.last_error.take() {
        Some(first) => format!("{first}; moreover {problem}"),
        None => problem.to_owned(),
    });
}

/// Keeps what was found out.
pub(super) fn learn(node: &mut Node, learned: &[Learned]) {
    for fact in learned {
        match fact {
            Learned::Power(power) => node.power_state = Some(*power),
            Learned::BootMode(mode) => node.boot_mode = Some(*mode),
            Learned::Identity(identity) => {
                let generation = identity.bmc_generation.map(|generation| generation.to_string());
                let facts = [
                    ("vendor", &identity.vendor),
                    ("model", &identity.model),
                    ("serial", &identity.serial),
                    ("bmc.model", &identity.bmc_model),
                    ("bmc.generation", &generation),
                    ("bmc.firmware", &identity.bmc_firmware),
                    ("bmc.license", &identity.bmc_license),
                ];
                for (key, value) in facts {
                    if let Some(value) = value {
                        node.facts.insert(key.to_owned(), value.clone());
                    }
                }
            }
        }
    }
}

/// How long until a moment; zero if it is over.
pub(super) fn left(deadline: Option<SystemTime>, at_most: Duration) -> Duration {
    match deadline {
        Some(deadline) => deadline
            .duration_since(SystemTime::now())
            .unwrap_or_default()
            .min(at_most),
        None => at_most,
    }
}
