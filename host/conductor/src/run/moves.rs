//! Moves of a node between provision states and steps; each is one write of the record, and an event.

use std::time::{Duration, SystemTime};

use model::{
    AgentContact, ArtefactKind, BootMode, Driver, Fault, Node, PowerState, ProvisionState, Secret, ServerIdentity, Verb,
    Wish,
};
use nodes::Record;

use super::worker::{Guard, LOOK, Stop, Trouble, Worker};
use crate::BootImage;
use crate::heartbeat::fresh_token;
use crate::instance::{CONFIG_DRIVE, instance};
use crate::machine::{self, Move};
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
    /// Begins what a user asked for; checks first that it can work.
    pub(super) async fn begin(&mut self, record: &Record, verb: Verb) -> Result<(), Stop> {
        let state = record.node.provision_state;
        let Some(to) = machine::next(state, Move::Ask(verb)) else {
            return Ok(());
        };
        let given = match &record.node.wish {
            Some(Wish::Provision { config_drive, .. }) => config_drive.clone(),
            _ => None,
        };
        let now = SystemTime::now();
        self.memory.forget_step(now);
        let prepare = now + self.shared.config.timeouts.prepare;
        let start = |node: &mut Node| {
            node.wish = None;
            node.last_error = None;
            node.target_provision_state = machine::target(verb);
            stand(node, to, now);
        };
        match verb {
            Verb::Abort => {
                let reason = "aborted by an operator";
                return self.clean_up(record, Step::AbortPowerOff, reason).await;
            }
            Verb::Active | Verb::Rebuild => {
                // A rebuild without a config drive keeps the one of the first deployment.
                let kept = record.node.secrets.get(CONFIG_DRIVE).filter(|_| verb == Verb::Rebuild);
                let drive = given.or_else(|| kept.cloned());
                let wanted = match instance(&record.node, drive.as_ref()) {
                    Ok(instance) => instance,
                    Err(error) => return self.refuse_deployment(record, verb, &error.to_string()).await,
                };
                let by_ramdisk = wanted.image.is_some();
                let mut boots = Vec::new();
                boots.extend(by_ramdisk.then_some(BootImage::Ramdisk));
                boots.extend((record.node.driver == Driver::IscsiIlo).then_some(BootImage::Instance));
                let mode = match self.check_boot(record, &boots).await? {
                    Ok(mode) => mode,
                    Err(reason) => return self.refuse_deployment(record, verb, &reason).await,
                };
                let edit = |node: &mut Node| {
                    start(node);
                    unfault(node);
                    node.boot_mode = mode.or(node.boot_mode);
                    node.secrets.remove(CONFIG_DRIVE);
                    if let Some(drive) = &drive {
                        node.secrets.insert(CONFIG_DRIVE.to_owned(), drive.clone());
                    }
                    set_out(node, by_ramdisk.then(fresh_token), prepare);
                };
                self.go(record, Guard::Decision, to, verb.as_str(), edit).await?;
            }
            Verb::Deleted => {
                let edit = |node: &mut Node| {
                    start(node);
                    unfault(node);
                    set_out(node, None, prepare);
                };
                self.go(record, Guard::Decision, to, verb.as_str(), edit).await?;
            }
            Verb::Provide => {
                let cleans = self.shared.rules.automated_clean;
                let boots: &[_] = if cleans { &[BootImage::Ramdisk] } else { &[] };
                let mode = match self.check_boot(record, boots).await? {
                    Ok(mode) => mode,
                    Err(reason) => return self.refuse(record, &reason).await,
                };
                let edit = |node: &mut Node| {
                    start(node);
                    node.boot_mode = mode.or(node.boot_mode);
                    if cleans {
                        set_out(node, Some(fresh_token()), prepare);
                    }
                };
                self.go(record, Guard::Decision, to, verb.as_str(), edit).await?;
            }
            _ => {
                let edit = |node: &mut Node| {
                    start(node);
                    if to == ProvisionState::Verifying {
                        node.step = Some(Step::Verify.as_str().to_owned());
                        node.deadline = Some(prepare);
                    } else {
                        settle(node);
                        if node.fault == Some(Fault::CleanFailure) {
                            node.fault = None;
                        }
                    }
                };
                self.go(record, Guard::Decision, to, verb.as_str(), edit).await?;
            }
        }
        Ok(())
    }

    /// Whether these images can be made for the server's firmware: its boot mode, where the BMC tells it, or why not. A BMC
    /// that does not answer is waited for by the work itself.
    async fn check_boot(&self, record: &Record, images: &[BootImage]) -> Result<Result<Option<BootMode>, String>, Stop> {
        if images.is_empty() {
            return Ok(Ok(None));
        }
        let errand = self.errand(record, false);
        let hands = &self.shared.hands;
        let mode = tokio::time::timeout(LOOK, hands.power.boot_mode(&errand)).await;
        let mode = mode.ok().and_then(Result::ok);
        for image in images {
            match hands.policies.check_boot(&errand, *image, mode).await.map_err(Trouble::from) {
                // What does not answer now is asked again when the image is made.
                Ok(()) | Err(Trouble::Retry { .. }) => {}
                Err(Trouble::Failed(reason)) => return Ok(Err(reason)),
                Err(Trouble::Stop(stop)) => return Err(stop),
            }
        }
        Ok(Ok(mode))
    }

    /// A deployment that cannot work fails before anything is touched.
    async fn refuse_deployment(&mut self, record: &Record, verb: Verb, reason: &str) -> Result<(), Stop> {
        if record.node.provision_state == ProvisionState::Active {
            // The instance runs on as it is.
            return self.refuse(record, reason).await;
        }
        let now = SystemTime::now();
        let to = ProvisionState::DeployFailed;
        let edit = |node: &mut Node| {
            node.wish = None;
            node.last_error = Some(reason.to_owned());
            node.target_provision_state = machine::target(verb);
            stand(node, to, now);
        };
        self.go(record, Guard::Decision, to, reason, edit).await.map(|_| ())
    }

    /// Drops a wish, with the reason.
    pub(super) async fn refuse(&mut self, record: &Record, reason: &str) -> Result<(), Stop> {
        let edit = |node: &mut Node| {
            node.wish = None;
            node.last_error = Some(reason.to_owned());
        };
        self.change(record, Guard::Decision, edit).await?;
        self.tell("refused", reason).await;
        Ok(())
    }

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
        };
        self.go(record, Guard::Decision, to, "the ramdisk called back", edit)
            .await?;
        Ok(())
    }

    /// How much of its boot ISO the server has read.
    pub(super) async fn read_progress(&mut self, record: &Record) -> Result<(), Stop> {
        self.memory.seen.progress_due = SystemTime::now() + self.shared.config.agent_poll;
        let publications = &self.shared.hands.publications;
        let Some((read, size)) = publications.read_progress(&record.node, ArtefactKind::BootIso).await else {
            return Ok(());
        };
        let percent = u128::from(read) * 100 / u128::from(size.max(1));
        let percent = u8::try_from(percent.min(100)).unwrap_or(100);
        let edit = |node: &mut Node| node.step_percent = Some(percent);
        self.change(record, Guard::Decision, edit).await?;
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
                let now = SystemTime::now();
                self.memory.forget_step(now);
                let edit = |node: &mut Node| {
                    let target = node.target_provision_state;
                    stand(node, to, now);
                    settle(node);
                    node.target_provision_state = target;
                    node.last_error = Some(reason.to_owned());
                };
                self.go(record, Guard::Fact, to, reason, edit).await?;
                Ok(())
            }
            _ => self.clean_up(record, Step::FailPowerOff, reason).await,
        }
    }

    /// Begins to clean up after a failure or an abort; the state stays as it is until that is done.
    async fn clean_up(&mut self, record: &Record, first: Step, reason: &str) -> Result<(), Stop> {
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
    async fn go(
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
fn stand(node: &mut Node, to: ProvisionState, now: SystemTime) {
    node.provision_state = to;
    node.provision_updated_at = now;
    node.step_percent = None;
    node.agent_command = None;
}

/// The node's work begins with the server off; `token` is that of the ramdisk to boot, if one is.
fn set_out(node: &mut Node, token: Option<Secret>, deadline: SystemTime) {
    set_out_empty(node);
    node.agent.token = token;
    node.step = Some(Step::PowerOff.as_str().to_owned());
    node.deadline = Some(deadline);
}

fn set_out_empty(node: &mut Node) {
    node.agent = AgentContact::default();
    node.step = None;
    node.step_percent = None;
    node.agent_command = None;
    node.deadline = None;
}

/// Nothing is under way any more.
fn settle(node: &mut Node) {
    set_out_empty(node);
    node.target_provision_state = None;
}

/// What was to be done at the next reset is void once the instance goes.
fn unfault(node: &mut Node) {
    if node.fault == Some(Fault::MediaStale) {
        node.fault = None;
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
