//! Taking a node over from a conductor that died.
//!
//! First reads only: power, media, what is published, what was under way. Then the site's take-over plugin says what to do;
//! its plan is checked ([`check_plan`]). What only serves bytes again is done at once; what changes anything on the BMC waits
//! until no request of the predecessor can be under way any more.

use std::time::SystemTime;

use model::take_over::{InterruptedStep, PlanStep, Repeat, check_plan};
use model::{ArtefactKind, ConductorName, Device, Fault, Node};
use nodes::Record;

use super::moves::add_error;
use super::worker::{Guard, LOOK, Stop, Trouble, Worker, within};
use crate::machine::is_busy;
use crate::step::Step;
use crate::{CallError, Errand, Observation};

/// How often a take-over is tried before the node goes on without what does not work.
const TRIES: u32 = 6;

/// A take-over under way.
pub(super) struct Succession {
    from: ConductorName,
    /// What was done, for people.
    done: Vec<String>,
    /// What is left of the plan once the predecessor's last request is over; `None` = no plan yet.
    left: Option<Vec<PlanStep>>,
}

impl Succession {
    pub(super) fn new(from: ConductorName) -> Self {
        Self {
            from,
            done: Vec::new(),
            left: None,
        }
    }
}

impl Worker {
    /// Goes on with the take-over. `Some` = not before that time.
    pub(super) async fn succeed(&mut self, record: Record) -> Result<Option<SystemTime>, Stop> {
        let Some(mut succession) = self.memory.succession.take() else {
            return Ok(None);
        };
        let limit = self.shared.config.timeouts.clean_up;
        let planned = succession.left.take();
        let outcome = within(limit, "a step of it", async {
            match planned {
                None => self.observe_and_plan(&record, &mut succession).await,
                Some(left) => self.carry_on(&record, left, &mut succession).await,
            }
        })
        .await;
        match outcome {
            Ok(Some(until)) => {
                self.memory.succession = Some(succession);
                Ok(Some(until))
            }
            Ok(None) => Ok(None),
            Err(Trouble::Retry { after, problem }) if self.memory.attempts < TRIES => {
                tracing::info!(node = %self.id, problem, "the take-over will be tried again");
                self.memory.back_off(self.shared.config.retry, after, SystemTime::now());
                let until = self.memory.seen.retry_at;
                self.memory.succession = Some(succession);
                Ok(Some(until))
            }
            Err(Trouble::Retry { problem, .. } | Trouble::Failed(problem)) => {
                self.give_up(&record, succession, &problem).await?;
                Ok(None)
            }
            Err(Trouble::Stop(stop)) => {
                self.memory.succession = Some(succession);
                Err(stop)
            }
        }
    }

    /// Reads, asks the plugin, serves again what is to be served.
    async fn observe_and_plan(
        &mut self,
        record: &Record,
        succession: &mut Succession,
    ) -> Result<Option<SystemTime>, Trouble> {
        let errand = self.errand(record, false);
        let node = &record.node;
        let state = node.provision_state;
        let mut observation = self.observe(&errand, succession).await?;
        let served = self.serve_boot_files(&errand, &mut observation).await?;
        let concerned = state.waits_for_agent() || is_busy(state) || !observation.artefacts.is_empty();
        if !concerned {
            succession.done = served;
            self.withdraw_unrecorded(&errand, succession).await;
            self.report(succession).await;
            return Ok(None);
        }
        let published = observation.published();
        let plan = self.shared.hands.policies.plan_take_over(&errand, &observation).await?;
        let now_allowed = self.shared.config.reinsert_active_now;
        check_plan(&observation.sight(state, &published), &plan, now_allowed)
            .map_err(|refusal| Trouble::Failed(refusal.to_string()))?;
        let mut left = Vec::new();
        succession.done = served;
        for step in plan {
            match step {
                PlanStep::Regenerate(kind) => {
                    let moved = self.shared.hands.publications.regenerate(&errand, kind).await?;
                    succession.done.push(PlanStep::Regenerate(kind).spell());
                    if moved {
                        self.follow_url(record, &observation, kind, &mut left, succession)
                            .await?;
                    }
                }
                PlanStep::Renew(kind) => {
                    self.shared.hands.publications.renew(&errand, kind).await?;
                    succession.done.push(PlanStep::Renew(kind).spell());
                }
                PlanStep::DeferReinsert(kind) => self.mark_stale(record, kind, succession).await?,
                later => left.push(later),
            }
        }
        let mut seen = Vec::new();
        left.retain(|step: &PlanStep| {
            !seen.contains(step) && {
                seen.push(step.clone());
                true
            }
        });
        succession.left = Some(left);
        Ok(Some(self.memory.seen.mutate_from))
    }

    /// What a server boots over the network is the host's own affair: it is served again without a plugin being asked, and
    /// nothing changes on the BMC. Tells what was done.
    async fn serve_boot_files(&self, errand: &Errand, observation: &mut Observation) -> Result<Vec<String>, Trouble> {
        let mut done = Vec::new();
        for artefact in observation
            .artefacts
            .extract_if(.., |artefact| artefact.kind.device().is_none())
        {
            self.shared.hands.publications.regenerate(errand, artefact.kind).await?;
            done.push(PlanStep::Regenerate(artefact.kind).spell());
        }
        Ok(done)
    }

    /// The bytes are served again, but under another URL than the slot holds.
    async fn follow_url(
        &mut self,
        record: &Record,
        observation: &Observation,
        kind: ArtefactKind,
        left: &mut Vec<PlanStep>,
        succession: &mut Succession,
    ) -> Result<(), Trouble> {
        let state = record.node.provision_state;
        let reinsert = PlanStep::Reinsert(kind);
        let in_slot = observation
            .artefacts
            .iter()
            .any(|artefact| artefact.kind == kind && artefact.in_slot);
        let step = record.node.step.as_deref().and_then(Step::parse);
        // What the server is about to boot from.
        let boots = in_slot && matches!(step, Some(Step::BootRamdisk | Step::BootInstance));
        let runs_instance = step == Some(Step::BootInstance) && observation.power != model::PowerState::Off;
        if state.is_active() && in_slot && self.shared.config.reinsert_active_now {
            left.push(reinsert);
        } else if in_slot && (state.is_active() || runs_instance) {
            self.mark_stale(record, kind, succession).await?;
        } else if state.waits_for_agent() || boots {
            let mut alone = vec![reinsert.clone()];
            alone.extend(boots.then_some(PlanStep::ContinueInterruptedStep));
            let published = observation.published();
            if check_plan(&observation.sight(state, &published), &alone, false).is_ok() {
                left.push(reinsert);
            }
        }
        Ok(())
    }

    /// An active node's slot holds a URL that nobody serves: an alarm, and a re-insertion at the next reset.
    async fn mark_stale(
        &mut self,
        record: &Record,
        kind: ArtefactKind,
        succession: &mut Succession,
    ) -> Result<(), Trouble> {
        let stale = |node: &mut Node| node.fault = Some(Fault::MediaStale);
        self.change(record, Guard::Fact, stale).await?;
        let step = PlanStep::DeferReinsert(kind).spell();
        if !succession.done.contains(&step) {
            let message = format!(
                "the {kind} in the slot is no longer served under its URL; it is inserted again at the next power-off or reset"
            );
            self.tell("media-stale", &message).await;
            succession.done.push(step);
        }
        Ok(())
    }

    /// The rest of the plan; nobody else can be changing anything on the BMC any more.
    async fn carry_on(
        &mut self,
        record: &Record,
        mut left: Vec<PlanStep>,
        succession: &mut Succession,
    ) -> Result<Option<SystemTime>, Trouble> {
        if SystemTime::now() < self.memory.seen.mutate_from {
            succession.left = Some(left);
            return Ok(Some(self.memory.seen.mutate_from));
        }
        let errand = self.errand(record, false);
        self.withdraw_unrecorded(&errand, succession).await;
        while let Some(step) = left.first().cloned() {
            match &step {
                PlanStep::Reinsert(kind) => {
                    if let Err(error) = self.shared.hands.publications.reinsert(&errand, *kind).await {
                        succession.left = Some(left);
                        return Err(error.into());
                    }
                }
                PlanStep::WaitForAgent => self.grant_time(record).await?,
                PlanStep::Fail(reason) => {
                    succession.done.push(step.spell());
                    self.report(succession).await;
                    let reason = format!("after the take-over from {}: {reason}", succession.from);
                    self.fail(record, &reason).await?;
                    return Ok(None);
                }
                PlanStep::ContinueInterruptedStep => self.grant_time(record).await?,
                PlanStep::Regenerate(_) | PlanStep::Renew(_) | PlanStep::DeferReinsert(_) => {}
            }
            succession.done.push(step.spell());
            left.remove(0);
        }
        self.report(succession).await;
        self.memory.forget_step(SystemTime::now());
        Ok(None)
    }

    /// What the predecessor published without recording it. What cannot be taken out now is looked for at the next take-over.
    async fn withdraw_unrecorded(&self, errand: &Errand, succession: &mut Succession) {
        match self.shared.hands.publications.withdraw_unrecorded(errand).await {
            Ok(gone) => succession
                .done
                .extend(gone.iter().map(|what| format!("withdraw {what}"))),
            Err(error) => tracing::warn!(node = %self.id, %error, "what was published and not recorded is left behind"),
        }
    }

    /// The time in which nobody listened must not end the wait.
    async fn grant_time(&mut self, record: &Record) -> Result<(), Stop> {
        let least = SystemTime::now() + self.shared.config.timeouts.agent_silence;
        let edit = |node: &mut Node| node.deadline = node.deadline.map(|deadline| deadline.max(least));
        self.change(record, Guard::Fact, edit).await?;
        Ok(())
    }

    /// What a successor sees before it touches anything. A BMC that does not answer is seen as such.
    async fn observe(&self, errand: &Errand, succession: &Succession) -> Result<Observation, Trouble> {
        let power = &self.shared.hands.power;
        let node = &errand.node;
        let seen_power = seen(power.power_state(errand)).await;
        // One that does not answer is not asked on: the bytes are to be served again soon.
        let (cdrom, floppy) = match seen_power {
            None => (None, None),
            Some(_) => (
                seen(power.media(errand, Device::Cdrom)).await,
                seen(power.media(errand, Device::Floppy)).await,
            ),
        };
        let heard = node.agent.last_heartbeat;
        Ok(Observation {
            previous_conductor: succession.from.to_string(),
            power: seen_power.unwrap_or(model::PowerState::Unknown),
            cdrom,
            floppy,
            artefacts: self.shared.hands.publications.observe(errand).await?,
            agent_seen_ago: heard.map(|heard| heard.elapsed().unwrap_or_default()),
            interrupted: self.interrupted(node).await?,
        })
    }

    /// What the predecessor was in the middle of: the step that the record names. How it may be repeated is in the journal as
    /// well, for a step that only another version knows.
    async fn interrupted(&self, node: &Node) -> Result<Option<InterruptedStep>, Trouble> {
        let Some(name) = node
            .step
            .clone()
            .filter(|_| is_busy(node.provision_state) || node.provision_state.waits_for_agent())
        else {
            return Ok(None);
        };
        if let Some(step) = Step::parse(&name) {
            let repeat = step.repeat();
            return Ok(Some(InterruptedStep { name, repeat }));
        }
        let action = format!("step.{name}");
        let effects = self.shared.hands.store.effects(&self.id, 50).await?;
        let effect = effects.iter().find(|effect| effect.action == action);
        let repeat = match effect.map(|effect| effect.detail.as_str()) {
            Some("repeat") => Repeat::Repeat,
            Some("observe-then-continue") => Repeat::ObserveThenContinue,
            _ => Repeat::Fail,
        };
        Ok(Some(InterruptedStep { name, repeat }))
    }

    /// No plan, or one that cannot be carried out. What runs is left alone; what was half done fails.
    async fn give_up(&mut self, record: &Record, mut succession: Succession, problem: &str) -> Result<(), Stop> {
        let errand = self.errand(record, false);
        self.withdraw_unrecorded(&errand, &mut succession).await;
        let reason = format!("the take-over from {} did not work out: {problem}", succession.from);
        self.tell("take-over", &reason).await;
        self.memory.forget_step(SystemTime::now());
        if is_busy(record.node.provision_state) {
            return self.fail(record, &reason).await;
        }
        self.change(record, Guard::Fact, |node| add_error(node, &reason))
            .await?;
        Ok(())
    }

    async fn report(&self, succession: &Succession) {
        let what = match succession.done.is_empty() {
            true => "nothing had to be done".to_owned(),
            false => succession.done.join(", "),
        };
        let tenure = &self.memory.tenure;
        let message = format!("{} took over from {}: {what}", tenure.conductor, succession.from);
        tracing::info!(node = %self.id, term = tenure.term, message, "take-over");
        self.tell("take-over", &message).await;
    }
}

/// What a look at a BMC found; nothing if it failed or took too long.
async fn seen<T>(look: impl Future<Output = Result<T, CallError>>) -> Option<T> {
    tokio::time::timeout(LOOK, look).await.ok()?.ok()
}
