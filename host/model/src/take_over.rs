//! Taking a node over: what a plan may say, and which plans are refused whoever made them. Pure.
//!
//! A plan comes from a plugin, so it is checked before any of it is carried out: an active server is never powered, its boot
//! mode never changed, its media never ejected; a ramdisk that runs keeps its media. The runtime asks here when a plugin answers
//! (so that a rehearsal refuses what a site would), the conductor before it acts.

use crate::{ArtefactKind, Device, PowerState, ProvisionState};

/// Longest plan.
const STEPS: usize = 32;
/// Longest reason to give up, in bytes.
const REASON: usize = 4096;

/// One step of a take-over plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanStep {
    /// Serve it again from its recipe under the same name.
    Regenerate(ArtefactKind),
    /// Make its URL live longer.
    Renew(ArtefactKind),
    /// Insert again now.
    Reinsert(ArtefactKind),
    /// Record `media-stale`, insert again at the next power-off or reset.
    DeferReinsert(ArtefactKind),
    /// Go on with what was interrupted, as its [`Repeat`] says.
    ContinueInterruptedStep,
    /// Wait for the agent to call in.
    WaitForAgent,
    /// Give up on the node with this reason.
    Fail(String),
}

/// A step that a predecessor began and did not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptedStep {
    /// Its name.
    pub name: String,
    /// What repeating it means.
    pub repeat: Repeat,
}

/// What repeating a step means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Twice is the same as once.
    Repeat,
    /// Ask first what became of it.
    ObserveThenContinue,
    /// Never repeat blindly.
    Fail,
}

/// Whether a URL works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlState {
    /// It answers.
    Serving,
    /// It does not.
    Dead,
    /// Could not be found out.
    Unknown,
}

/// What a plan is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight<'a> {
    /// Where the node stands.
    pub state: ProvisionState,
    /// Power now.
    pub power: PowerState,
    /// Whether the virtual CD holds something; `None` = its BMC does not tell.
    pub cdrom: Option<bool>,
    /// The same of the virtual floppy.
    pub floppy: Option<bool>,
    /// What is on record as published.
    pub published: &'a [ArtefactKind],
    /// The ramdisk has called in.
    pub agent_seen: bool,
    /// What the predecessor was in the middle of.
    pub interrupted: Option<&'a InterruptedStep>,
}

/// Why a plan is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the take-over plan was refused: {reason}; nothing of it was done")]
pub struct PlanRefusal {
    /// Which step, and why not.
    pub reason: String,
}

/// Whether the plan may be carried out. `reinsert_now`: the site chose to insert into occupied slots of active nodes.
pub fn check_plan(sight: &Sight<'_>, plan: &[PlanStep], reinsert_now: bool) -> Result<(), PlanRefusal> {
    let refuse = |reason: String| Err(PlanRefusal { reason });
    let state = sight.state;
    if plan.len() > STEPS {
        return refuse(format!("it has {} steps, at most {STEPS} are allowed", plan.len()));
    }
    let works = state.waits_for_agent() || state.is_busy();
    for step in plan {
        let problem = match step {
            PlanStep::Regenerate(kind) | PlanStep::Renew(kind) => sight.unpublished(*kind),
            PlanStep::Reinsert(kind) => sight
                .unpublished(*kind)
                .or_else(|| sight.occupied(*kind, reinsert_now))
                .or_else(|| sight.under_a_ramdisk()),
            PlanStep::DeferReinsert(kind) => sight
                .unpublished(*kind)
                .or_else(|| (!state.is_active()).then(|| format!("the node is not active but `{state}`"))),
            PlanStep::ContinueInterruptedStep => match sight.interrupted {
                _ if state.is_active() => Some("the node is active".to_owned()),
                None => Some("no step was interrupted".to_owned()),
                Some(step) if step.repeat == Repeat::Fail => Some(format!("`{}` must never be repeated", step.name)),
                Some(_) => None,
            },
            PlanStep::WaitForAgent => (!works).then(|| format!("no ramdisk runs in state `{state}`")),
            PlanStep::Fail(reason) if reason.len() > REASON => {
                Some(format!("its reason is longer than {REASON} bytes"))
            }
            PlanStep::Fail(_) => (!works).then(|| format!("a node in state `{state}` has nothing to fail")),
        };
        if let Some(problem) = problem {
            return refuse(format!("{}: {problem}", step.spell()));
        }
    }
    let decides = |step: &PlanStep| {
        matches!(
            step,
            PlanStep::ContinueInterruptedStep | PlanStep::WaitForAgent | PlanStep::Fail(_)
        )
    };
    if state.is_busy() && sight.interrupted.is_some() && !plan.iter().any(decides) {
        let reason = "it does not say whether to continue the interrupted step, to wait for the agent or to fail";
        return refuse(reason.to_owned());
    }
    Ok(())
}

impl PlanStep {
    /// What it is called for people.
    pub fn spell(&self) -> String {
        match self {
            Self::Regenerate(kind) => format!("regenerate {kind}"),
            Self::Renew(kind) => format!("renew {kind}"),
            Self::Reinsert(kind) => format!("re-insert {kind}"),
            Self::DeferReinsert(kind) => format!("re-insert {kind} at the next reset"),
            Self::ContinueInterruptedStep => "continue the interrupted step".to_owned(),
            Self::WaitForAgent => "wait for the agent".to_owned(),
            Self::Fail(reason) => format!("fail: {}", reason.chars().take(500).collect::<String>()),
        }
    }
}

impl Sight<'_> {
    fn unpublished(&self, kind: ArtefactKind) -> Option<String> {
        let known = self.published.contains(&kind);
        (!known).then(|| format!("no {kind} is published for the node"))
    }

    /// Inserting into an occupied slot ejects what is in it; a slot that could not be read counts as occupied.
    fn occupied(&self, kind: ArtefactKind, reinsert_now: bool) -> Option<String> {
        let Some(device) = kind.device() else {
            return Some(format!("a {kind} is not inserted anywhere"));
        };
        let slot = match device {
            Device::Cdrom => self.cdrom,
            Device::Floppy => self.floppy,
        };
        if !self.state.is_active() || reinsert_now || slot == Some(false) {
            return None;
        }
        let why = match slot {
            Some(_) => "holds something",
            None => "could not be read",
        };
        Some(format!("the node is active and the slot {why}"))
    }

    /// Ejecting under a running ramdisk corrupts its file system.
    fn under_a_ramdisk(&self) -> Option<String> {
        let runs = !self.state.is_active() && self.agent_seen && self.power != PowerState::Off;
        runs.then(|| "the ramdisk has called in already and may have it mounted".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use ProvisionState as S;

    use super::*;

    const PUBLISHED: [ArtefactKind; 2] = [ArtefactKind::Floppy, ArtefactKind::BootIso];

    fn seen(state: S, slots: Option<bool>, agent_seen: bool, interrupted: Option<&InterruptedStep>) -> Sight<'_> {
        Sight {
            state,
            power: PowerState::On,
            cdrom: slots,
            floppy: slots,
            published: &PUBLISHED,
            agent_seen,
            interrupted,
        }
    }

    fn writing(repeat: Repeat) -> InterruptedStep {
        let name = "write-image".to_owned();
        InterruptedStep { name, repeat }
    }

    #[test]
    fn an_active_node_is_served_again_and_inserted_only_into_an_empty_slot() {
        use PlanStep as P;
        let iso = ArtefactKind::BootIso;
        let step = writing(Repeat::ObserveThenContinue);
        let (empty, full) = (Some(false), Some(true));
        for (cdrom, plan, site_now, allowed) in [
            (full, vec![P::Regenerate(iso), P::Renew(iso)], false, true),
            (full, vec![P::Regenerate(iso), P::DeferReinsert(iso)], false, true),
            (empty, vec![P::Reinsert(iso)], false, true),
            (full, vec![P::Reinsert(iso)], false, false),
            (None, vec![P::Reinsert(iso)], false, false),
            (full, vec![P::Reinsert(iso)], true, true),
            (full, vec![P::ContinueInterruptedStep], false, false),
            (full, vec![P::ContinueInterruptedStep], true, false),
            (full, vec![P::Fail("x".to_owned())], false, false),
            (full, vec![P::WaitForAgent], false, false),
            (full, vec![P::Regenerate(ArtefactKind::ConfigDrive)], false, false),
            (full, vec![], false, true),
            (full, vec![P::Renew(iso); 33], false, false),
        ] {
            let verdict = check_plan(&seen(S::Active, cdrom, false, Some(&step)), &plan, site_now);
            assert_eq!(verdict.is_ok(), allowed, "{plan:?} {verdict:?}");
        }
    }

    #[test]
    fn a_waiting_ramdisk_keeps_its_media_once_it_has_called_in() {
        let plan = [
            PlanStep::Regenerate(ArtefactKind::Floppy),
            PlanStep::Reinsert(ArtefactKind::Floppy),
            PlanStep::WaitForAgent,
        ];
        for state in [S::DeployWait, S::CleanWait] {
            let check = |agent_seen| check_plan(&seen(state, Some(true), agent_seen, None), &plan, false);
            assert!(check(false).is_ok() && check(true).is_err());
            let off = Sight {
                power: PowerState::Off,
                ..seen(state, Some(true), true, None)
            };
            assert!(check_plan(&off, &plan, false).is_ok(), "it does not run");
        }
        let defer = [PlanStep::DeferReinsert(ArtefactKind::BootIso)];
        assert!(check_plan(&seen(S::DeployWait, Some(true), false, None), &defer, false).is_err());
    }

    #[test]
    fn a_busy_state_needs_a_word_on_its_interrupted_step() {
        let step = writing(Repeat::ObserveThenContinue);
        let check = |state, interrupted, plan: &[PlanStep]| {
            check_plan(&seen(state, Some(true), false, interrupted), plan, false)
        };
        assert!(check(S::Deploying, Some(&step), &[]).is_err());
        for word in [
            PlanStep::ContinueInterruptedStep,
            PlanStep::WaitForAgent,
            PlanStep::Fail("x".to_owned()),
        ] {
            assert!(check(S::Deploying, Some(&step), &[word]).is_ok());
        }
        let never = writing(Repeat::Fail);
        let go_on = [PlanStep::ContinueInterruptedStep];
        let refusal = check(S::Deploying, Some(&never), &go_on).unwrap_err();
        assert!(refusal.to_string().contains("must never be repeated"), "{refusal}");
        assert!(check(S::Deploying, None, &go_on).is_err());
        assert!(check(S::Available, Some(&step), &[PlanStep::Fail("x".to_owned())]).is_err());
        let endless = PlanStep::Fail("x".repeat(REASON + 1));
        assert!(check(S::Deploying, Some(&step), &[endless]).is_err());
    }
}
