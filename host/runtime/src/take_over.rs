//! What a successor saw, what a plan may say, and which plans the host refuses.

use model::{ArtefactKind, PowerState};

use crate::CallFailure;
use crate::calls::Media;

/// Most steps of a plan.
const MAX_STEPS: usize = 32;
/// Longest reason, in bytes.
const MAX_REASON: usize = 4096;

/// What a successor saw before it touched anything.
#[derive(Clone, PartialEq, Debug)]
pub struct Observation {
    /// Who had the node.
    pub previous_conductor: String,
    /// Power now.
    pub power: PowerState,
    /// Virtual CD, if the BMC answers.
    pub cdrom: Option<Media>,
    /// Virtual floppy.
    pub floppy: Option<Media>,
    /// What is on record as published.
    pub artefacts: Vec<ObservedArtefact>,
    /// When the agent called last.
    pub agent_seen_s_ago: Option<u32>,
    /// What the predecessor was in the middle of.
    pub interrupted: Option<InterruptedStep>,
}

/// A published artefact as a successor sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObservedArtefact {
    /// What it is.
    pub kind: ArtefactKind,
    /// Backend's id.
    pub backend: String,
    /// Whether its URL works.
    pub url: UrlState,
    /// The device holds exactly this URL.
    pub in_slot: bool,
    /// When its URL ends.
    pub expires_in_s: Option<u32>,
    /// Bytes that were read of it, where known.
    pub bytes_read: Option<u64>,
}

/// Whether a URL works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UrlState {
    /// It answers.
    Serving,
    /// It does not.
    Dead,
    /// Could not be found out.
    Unknown,
}

/// A step that a predecessor began and did not end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterruptedStep {
    /// Its name.
    pub name: String,
    /// What repeating it means.
    pub repeat: Repeat,
}

/// What repeating a step means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeat {
    /// Twice is the same as once.
    Repeat,
    /// Ask first what became of it.
    ObserveThenContinue,
    /// Never repeat blindly.
    Fail,
}

/// One step of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Serve it again from its recipe under the same name.
    Regenerate(ArtefactKind),
    /// Make its URL live longer.
    Renew(ArtefactKind),
    /// Insert again now.
    Reinsert(ArtefactKind),
    /// Insert again at the next power-off or reset.
    DeferReinsert(ArtefactKind),
    /// Go on with what was interrupted.
    ContinueInterruptedStep,
    /// Wait for the agent.
    WaitForAgent,
    /// Give up on the node.
    Fail(String),
}

/// Refuses a plan that names what is not there, or that would touch an active server. `reinsert_now`: the site wants dead
/// media of active servers replaced at once.
pub(crate) fn check(
    plan: &[Step],
    observation: &Observation,
    is_active: bool,
    reinsert_now: bool,
) -> Result<(), CallFailure> {
    let refuse = |reason: String| Err(CallFailure::Unusable(reason));
    if plan.len() > MAX_STEPS {
        return refuse(format!(
            "the plan has {} steps, and {MAX_STEPS} are allowed",
            plan.len()
        ));
    }
    for step in plan {
        match step {
            Step::Regenerate(kind) | Step::Renew(kind) | Step::Reinsert(kind) | Step::DeferReinsert(kind) => {
                if !observation.artefacts.iter().any(|artefact| artefact.kind == *kind) {
                    return refuse(format!("the plan names a {kind}, and none is on record"));
                }
            }
            Step::ContinueInterruptedStep => match &observation.interrupted {
                None => return refuse("the plan continues a step, and none was interrupted".to_owned()),
                Some(step) if step.repeat == Repeat::Fail => {
                    return refuse(format!(
                        "the plan continues `{}`, which must not be repeated",
                        step.name
                    ));
                }
                Some(_) => {}
            },
            Step::Fail(reason) if reason.len() > MAX_REASON => {
                return refuse(format!("the plan's reason is longer than {MAX_REASON} bytes"));
            }
            Step::WaitForAgent | Step::Fail(_) => {}
        }
        if let Step::Reinsert(kind) = step
            && is_active
            && !reinsert_now
            && !slot_is_empty(observation, *kind)
        {
            return refuse(format!(
                "the plan inserts a {kind} into an active server whose slot is not known to be empty"
            ));
        }
    }
    Ok(())
}

fn slot_is_empty(observation: &Observation, kind: ArtefactKind) -> bool {
    let media = match kind.device() {
        Some(model::Device::Floppy) => &observation.floppy,
        Some(model::Device::Cdrom) => &observation.cdrom,
        None => return false,
    };
    media.as_ref().is_some_and(|media| !media.inserted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_would_touch_an_active_server_is_refused() {
        let iso = ArtefactKind::BootIso;
        let observed = |inserted| Observation {
            previous_conductor: "a".into(),
            power: PowerState::On,
            cdrom: Some(Media {
                inserted,
                ..Media::default()
            }),
            floppy: None,
            artefacts: vec![ObservedArtefact {
                kind: iso,
                backend: "embedded".into(),
                url: UrlState::Dead,
                in_slot: inserted,
                expires_in_s: None,
                bytes_read: None,
            }],
            agent_seen_s_ago: None,
            interrupted: Some(InterruptedStep {
                name: "erase".into(),
                repeat: Repeat::Fail,
            }),
        };
        let ok = |step, observation: &Observation, active, now| check(&[step], observation, active, now).is_ok();
        assert!(ok(Step::Regenerate(iso), &observed(true), true, false));
        assert!(ok(Step::Reinsert(iso), &observed(false), true, false));
        assert!(!ok(Step::Reinsert(iso), &observed(true), true, false));
        assert!(ok(Step::Reinsert(iso), &observed(true), true, true));
        assert!(ok(Step::Reinsert(iso), &observed(true), false, false));
        let silent = Observation {
            cdrom: None,
            ..observed(true)
        };
        assert!(!ok(Step::Reinsert(iso), &silent, true, false));
        assert!(!ok(Step::Renew(ArtefactKind::Floppy), &observed(true), false, false));
        assert!(!ok(Step::ContinueInterruptedStep, &observed(true), false, false));
        let endless = vec![Step::WaitForAgent; MAX_STEPS + 1];
        assert!(check(&endless, &observed(true), false, false).is_err());
    }
}
