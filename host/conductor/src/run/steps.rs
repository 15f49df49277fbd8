//! Carrying out one step: journalled, tried again within its deadline, and what it means if it fails.

use std::time::{Duration, SystemTime};

use model::{ArtefactKind, Node, PowerAction, PowerState};
use nodes::Record;

use super::moves::{Learned, add_error, does_not_work, left, works_again};
use super::worker::{Guard, Stop, Trouble, Worker, within};
use crate::Errand;
use crate::parameters;
use crate::step::Step;

/// Cleaning up one thing must leave time for the next.
const CLEAN_UP_TRIES: u32 = 4;

/// How long cleaning up one thing may take where a BMC in trouble had an operator call the work off.
const HURRY: Duration = Duration::from_secs(15);

/// How far a step is.
pub(super) enum Progress {
    /// Done; this was learned.
    Done(Vec<Learned>),
    /// The agent is at work on it.
    Running {
        /// The agent's command.
        command: String,
        /// How far it is, where known.
        percent: Option<u8>,
    },
}

impl Worker {
    /// Carries out the step that the record names.
    pub(super) async fn step(&mut self, record: Record, step: Step) -> Result<(), Stop> {
        let hurried = step.is_clean_up() && self.memory.hurried;
        let (limit, tries) = match hurried {
            true => (HURRY, 0),
            false => (self.shared.config.timeouts.work, CLEAN_UP_TRIES),
        };
        let limit = left(record.node.deadline, limit);
        let what = format!("the step `{}`", step.as_str());
        let called_off = self.called_off();
        // What the step has begun on a BMC or a backend runs to its own end; the step itself is dropped as at a time-out.
        let mut outcome = tokio::select! {
            biased;
            outcome = within(limit, &what, self.carry_out(&record, step)) => outcome,
            () = called_off => Err(Stop::Again.into()),
        };
        if step.is_clean_up() && self.memory.attempts >= tries {
            outcome = outcome.map_err(|trouble| match trouble {
                Trouble::Retry { problem, .. } => Trouble::Failed(problem),
                other => other,
            });
        }
        match outcome {
            Ok(Progress::Done(learned)) => self.advance(&record, step, learned).await,
            Ok(Progress::Running { command, percent }) => {
                let now = SystemTime::now();
                self.memory.forget_problem();
                self.memory.seen.polled = Some((now, now + self.shared.config.agent_poll));
                let edit = |node: &mut Node| {
                    works_again(node);
                    node.agent_command = Some(command.clone());
                    node.step_percent = percent.or(node.step_percent);
                };
                self.change(&record, Guard::Fact, edit).await?;
                Ok(())
            }
            Err(Trouble::Retry { after, problem }) => {
                tracing::info!(node = %self.id, step = step.as_str(), problem, "the step will be tried again");
                self.memory.back_off(self.shared.config.retry, after, SystemTime::now());
                let attempts = self.memory.attempts;
                if self.memory.seen.problem.as_ref() != Some(&problem) || attempts.is_power_of_two() {
                    // Whoever wonders why nothing moves finds the reason, and not a thousand times.
                    let message = format!("{}, try {attempts}: {problem}; it will be tried again", step.as_str());
                    self.tell("retry", &message).await;
                }
                if !step.is_clean_up() {
                    let trouble = |node: &mut Node| does_not_work(node, step, &problem);
                    self.change(&record, Guard::Decision, trouble).await?;
                }
                self.memory.seen.problem = Some(problem);
                Ok(())
            }
            Err(Trouble::Failed(problem)) if step.is_clean_up() => {
                // What cannot be cleaned up must not keep the rest from being so.
                let noted = |node: &mut Node| add_error(node, &problem);
                let record = self.change(&record, Guard::Fact, noted).await?;
                self.advance(&record, step, Vec::new()).await
            }
            Err(Trouble::Failed(problem)) => self.fail(&record, &problem).await,
            Err(Trouble::Stop(stop)) => Err(stop),
        }
    }

    async fn carry_out(&mut self, record: &Record, step: Step) -> Result<Progress, Trouble> {
        let done = |learned| Ok(Progress::Done(learned));
        match step {
            Step::Verify => done(self.verify(record).await?),
            Step::DeploySteps => done(self.deploy_steps(record).await?),
            Step::WriteImage => self.write_image(record).await,
            Step::CleanSteps => self.clean_steps(record).await,
            Step::AgentPowerOff => done(self.agent_power_off(record).await?),
            _ => {
                let effect = self.begin_effect(step).await?;
                let outcome = self.act(record, step).await;
                self.end_effect(effect, &outcome).await;
                done(outcome?)
            }
        }
    }

    /// Steps whose effect is on the BMC, the media or the ramdisk, and over when they return.
    async fn act(&mut self, record: &Record, step: Step) -> Result<Vec<Learned>, Trouble> {
        let errand = self.errand(record, false);
        let hands = self.shared.hands.clone();
        let timeout = self.shared.config.timeouts.power;
        match step {
            Step::PowerOff | Step::FailPowerOff | Step::AbortPowerOff => {
                return self.reach(&errand, PowerState::Off, timeout).await;
            }
            Step::BootRamdisk => {
                self.note_reads(&errand).await?;
                return self.reach(&errand, PowerState::On, timeout).await;
            }
            Step::BootInstance => {
                return self.reach(&errand, PowerState::On, timeout).await;
            }
            Step::PrepareRamdisk => {
                let ports = hands.store.ports(Some(&self.id)).await?;
                let parameters = parameters::ramdisk(&record.node, &ports, &self.shared.config.agent_urls);
                hands.policies.prepare_ramdisk(&errand, &parameters).await?;
            }
            Step::AbortCleanUp if self.memory.hurried => {
                // The policy may hang on the slots. What the floppy holds must not lie about all the same.
                let floppy = hands.publications.withdraw(&errand, ArtefactKind::Floppy).await;
                hands.publications.release_instance_image(&errand).await;
                hands.policies.clean_up_ramdisk(&errand).await?;
                floppy?;
            }
            Step::CleanUpRamdisk | Step::FailCleanUp | Step::AbortCleanUp => {
                hands.publications.release_instance_image(&errand).await;
                hands.policies.clean_up_ramdisk(&errand).await?;
            }
            Step::PrepareInstance => hands.policies.prepare_instance(&errand).await?,
            Step::CleanUpInstance => hands.policies.clean_up_instance(&errand).await?,
            Step::Withdraw => {
                for kind in ArtefactKind::ALL {
                    hands.publications.withdraw(&errand, kind).await?;
                }
            }
            Step::Sync => self.flush(record).await?,
            // Carried out elsewhere.
            Step::Verify
            | Step::DeploySteps
            | Step::WriteImage
            | Step::CleanSteps
            | Step::AgentPowerOff
            | Step::Power
            | Step::BootIntoIso => {}
        }
        Ok(Vec::new())
    }

    /// Who answers at the BMC, with these credentials; reads only.
    async fn verify(&self, record: &Record) -> Result<Vec<Learned>, Trouble> {
        let errand = self.errand(record, false);
        let power = &self.shared.hands.power;
        let identity = power.identity(&errand).await?;
        let state = power.power_state(&errand).await?;
        let mut learned = vec![Learned::Identity(Box::new(identity)), Learned::Power(state)];
        // Not every BMC tells it, and nothing depends on it here.
        if let Ok(mode) = power.boot_mode(&errand).await {
            learned.push(Learned::BootMode(mode));
        }
        Ok(learned)
    }

    /// Power on or off, absolutely: asks for it if it is not so, and waits until it is.
    pub(super) async fn reach(
        &self,
        errand: &Errand,
        target: PowerState,
        within: Duration,
    ) -> Result<Vec<Learned>, Trouble> {
        let power = &self.shared.hands.power;
        if power.power_state(errand).await? != target {
            let action = match target {
                PowerState::On => PowerAction::On,
                PowerState::Off | PowerState::Unknown => PowerAction::Off,
            };
            power.set_power(errand, action).await?;
            if !self.wait_for_power(errand, target, within).await? {
                return Err(Trouble::Retry {
                    after: None,
                    problem: format!(
                        "the server did not power {} within {} s",
                        if target == PowerState::On { "on" } else { "off" },
                        within.as_secs()
                    ),
                });
            }
        }
        Ok(vec![Learned::Power(target)])
    }

    /// Reads the power until it is `target`; false = not in time. A BMC that is busy meanwhile is asked again.
    pub(super) async fn wait_for_power(
        &self,
        errand: &Errand,
        target: PowerState,
        within: Duration,
    ) -> Result<bool, Trouble> {
        let deadline = left(errand.node.deadline, within);
        let deadline = tokio::time::Instant::now() + deadline;
        loop {
            match self.shared.hands.power.power_state(errand).await.map_err(Trouble::from) {
                Ok(state) if state == target => return Ok(true),
                Ok(_) | Err(Trouble::Retry { .. }) => {}
                Err(trouble) => return Err(trouble),
            }
            if tokio::time::Instant::now() >= deadline {
                return Ok(false);
            }
            tokio::time::sleep(self.shared.config.power_poll).await;
        }
    }
}
