//! What a take-over plan may do. Pure.
//!
//! A plan comes from a plugin, so it is checked before any of it is carried out: an active server is never powered, its boot
//! mode never changed, its media never ejected; a ramdisk that runs keeps its media.

use model::{ArtefactKind, Device, Media, ProvisionState};

use crate::machine::is_busy;
use crate::{Observation, PlanStep, Repeat};

/// Longest plan.
const STEPS: usize = 32;

/// Why a plan is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the take-over plan was refused: {reason}; nothing of it was done")]
pub(crate) struct PlanRefusal {
    /// Which step, and why not.
    pub(crate) reason: String,
}

/// Whether the plan may be carried out on a node in this state. `reinsert_now`: the site chose to insert into occupied slots
/// of active nodes.
pub(crate) fn check_plan(
    state: ProvisionState,
    observation: &Observation,
    plan: &[PlanStep],
    reinsert_now: bool,
) -> Result<(), PlanRefusal> {
    let refuse = |reason: String| Err(PlanRefusal { reason });
    if plan.len() > STEPS {
        return refuse(format!("it has {} steps, at most {STEPS} are allowed", plan.len()));
    }
    for step in plan {
        let problem = match step {
            PlanStep::Regenerate(kind) | PlanStep::Renew(kind) => unpublished(observation, *kind),
            PlanStep::Reinsert(kind) => unpublished(observation, *kind)
                .or_else(|| occupied(state, slot(observation, kind.device()), reinsert_now))
                .or_else(|| under_a_ramdisk(state, observation)),
            PlanStep::DeferReinsert(kind) => unpublished(observation, *kind)
                .or_else(|| (!state.is_active()).then(|| format!("the node is not active but `{state}`"))),
            PlanStep::ContinueInterruptedStep => match &observation.interrupted {
                _ if state.is_active() => Some("the node is active".to_owned()),
                None => Some("no step was interrupted".to_owned()),
                Some(step) if step.repeat == Repeat::Fail => Some(format!("`{}` must never be repeated", step.name)),
                Some(_) => None,
            },
            PlanStep::WaitForAgent => {
                let waits = state.waits_for_agent() || is_busy(state);
                (!waits).then(|| format!("no ramdisk runs in state `{state}`"))
            }
            PlanStep::Fail(_) => {
                let can_fail = state.waits_for_agent() || is_busy(state);
                (!can_fail).then(|| format!("a node in state `{state}` has nothing to fail"))
            }
        };
        if let Some(problem) = problem {
            return refuse(format!("{}: {problem}", spell(step)));
        }
    }
    let decides = |step: &PlanStep| {
        matches!(
            step,
            PlanStep::ContinueInterruptedStep | PlanStep::WaitForAgent | PlanStep::Fail(_)
        )
    };
    if is_busy(state) && observation.interrupted.is_some() && !plan.iter().any(decides) {
        let reason = "it does not say whether to continue the interrupted step, to wait for the agent or to fail";
        return refuse(reason.to_owned());
    }
    Ok(())
}

/// What a plan's step is called for people.
pub(crate) fn spell(step: &PlanStep) -> String {
    match step {
        PlanStep::Regenerate(kind) => format!("regenerate {kind}"),
        PlanStep::Renew(kind) => format!("renew {kind}"),
        PlanStep::Reinsert(kind) => format!("re-insert {kind}"),
        PlanStep::DeferReinsert(kind) => format!("re-insert {kind} at the next reset"),
        PlanStep::ContinueInterruptedStep => "continue the interrupted step".to_owned(),
        PlanStep::WaitForAgent => "wait for the agent".to_owned(),
        PlanStep::Fail(reason) => format!("fail: {}", reason.chars().take(500).collect::<String>()),
    }
}

fn unpublished(observation: &Observation, kind: ArtefactKind) -> Option<String> {
    let known = observation.artefacts.iter().any(|artefact| artefact.kind == kind);
    (!known).then(|| format!("no {kind} is published for the node"))
}

fn slot(observation: &Observation, device: Option<Device>) -> Option<&Media> {
    match device? {
        Device::Cdrom => observation.cdrom.as_ref(),
        Device::Floppy => observation.floppy.as_ref(),
    }
}

/// Inserting into an occupied slot ejects what is in it; a slot that could not be read counts as occupied.
fn occupied(state: ProvisionState, slot: Option<&Media>, reinsert_now: bool) -> Option<String> {
    if !state.is_active() || reinsert_now || slot.is_some_and(|media| !media.inserted) {
        return None;
    }
    let why = match slot {
        Some(_) => "holds something",
        None => "could not be read",
    };
    Some(format!("the node is active and the slot {why}"))
}

/// Ejecting under a running ramdisk corrupts its file system.
fn under_a_ramdisk(state: ProvisionState, observation: &Observation) -> Option<String> {
    let runs = !state.is_active() && observation.agent_seen_ago.is_some();
    let powered = observation.power != model::PowerState::Off;
    (runs && powered).then(|| "the ramdisk has called in already and may have it mounted".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ProvisionState as S;
    use model::{PowerState, Secret};

    use super::*;
    use crate::{InterruptedStep, ObservedArtefact, UrlState};

    fn empty() -> Option<Media> {
        Some(Media::default())
    }

    fn full() -> Option<Media> {
        Some(Media {
            inserted: true,
            ..Media::default()
        })
    }

    fn observed(cdrom: Option<Media>, agent_seen: bool) -> Observation {
        let artefact = |kind| ObservedArtefact {
            kind,
            backend: "local".to_owned(),
            url: UrlState::Dead,
            address: Secret::new("http://dead"),
            in_slot: true,
            expires: None,
            bytes_read: None,
        };
        Observation {
            previous_conductor: "a".to_owned(),
            power: PowerState::On,
            cdrom: cdrom.clone(),
            floppy: cdrom,
            artefacts: vec![artefact(ArtefactKind::Floppy), artefact(ArtefactKind::BootIso)],
            agent_seen_ago: agent_seen.then_some(Duration::from_secs(3)),
            interrupted: Some(InterruptedStep {
                name: "write-image".to_owned(),
                repeat: Repeat::ObserveThenContinue,
            }),
        }
    }

    #[test]
    fn an_active_node_is_served_again_and_inserted_only_into_an_empty_slot() {
        use PlanStep as P;
        let iso = ArtefactKind::BootIso;
        for (cdrom, plan, site_now, allowed) in [
            (full(), vec![P::Regenerate(iso), P::Renew(iso)], false, true),
            (full(), vec![P::Regenerate(iso), P::DeferReinsert(iso)], false, true),
            (empty(), vec![P::Reinsert(iso)], false, true),
            (full(), vec![P::Reinsert(iso)], false, false),
            (None, vec![P::Reinsert(iso)], false, false),
            (full(), vec![P::Reinsert(iso)], true, true),
            (full(), vec![P::ContinueInterruptedStep], false, false),
            (full(), vec![P::ContinueInterruptedStep], true, false),
            (full(), vec![P::Fail("x".to_owned())], false, false),
            (full(), vec![P::WaitForAgent], false, false),
            (full(), vec![P::Regenerate(ArtefactKind::ConfigDrive)], false, false),
            (full(), vec![], false, true),
            (full(), vec![P::Renew(iso); 33], false, false),
        ] {
            let verdict = check_plan(S::Active, &observed(cdrom, false), &plan, site_now);
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
            assert!(check_plan(state, &observed(full(), false), &plan, false).is_ok());
            assert!(check_plan(state, &observed(full(), true), &plan, false).is_err());
        }
        let defer = [PlanStep::DeferReinsert(ArtefactKind::BootIso)];
        assert!(check_plan(S::DeployWait, &observed(full(), false), &defer, false).is_err());
    }

    #[test]
    fn a_busy_state_needs_a_word_on_its_interrupted_step() {
        let mut seen = observed(full(), false);
        assert!(check_plan(S::Deploying, &seen, &[], false).is_err());
        for word in [
            PlanStep::ContinueInterruptedStep,
            PlanStep::WaitForAgent,
            PlanStep::Fail("x".to_owned()),
        ] {
            assert!(check_plan(S::Deploying, &seen, &[word], false).is_ok());
        }
        seen.interrupted.as_mut().unwrap().repeat = Repeat::Fail;
        let refusal = check_plan(S::Deploying, &seen, &[PlanStep::ContinueInterruptedStep], false).unwrap_err();
        assert!(refusal.to_string().contains("must never be repeated"), "{refusal}");
        seen.interrupted = None;
        assert!(check_plan(S::Deploying, &seen, &[PlanStep::ContinueInterruptedStep], false).is_err());
        assert!(check_plan(S::Available, &seen, &[PlanStep::Fail("x".to_owned())], false).is_err());
    }
}
