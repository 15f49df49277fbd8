//! What a successor saw, as a plugin is told. Which plans are refused is written in [`model::take_over`].

pub use model::take_over::{InterruptedStep, PlanStep as Step, Repeat, UrlState};
use model::take_over::{Sight, check_plan};
use model::{ArtefactKind, PowerState, ProvisionState};

use crate::CallFailure;
use crate::calls::Media;

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

/// Refuses a plan that no conductor would carry out. `reinsert_now`: the site wants dead media of active servers replaced at
/// once.
pub(crate) fn check(
    plan: &[Step],
    seen: &Observation,
    state: ProvisionState,
    reinsert_now: bool,
) -> Result<(), CallFailure> {
    let published: Vec<ArtefactKind> = seen.artefacts.iter().map(|artefact| artefact.kind).collect();
    let holds = |slot: &Option<Media>| slot.as_ref().map(|media| media.inserted);
    let sight = Sight {
        state,
        power: seen.power,
        cdrom: holds(&seen.cdrom),
        floppy: holds(&seen.floppy),
        published: &published,
        agent_seen: seen.agent_seen_s_ago.is_some(),
        interrupted: seen.interrupted.as_ref(),
    };
    check_plan(&sight, plan, reinsert_now).map_err(|refusal| CallFailure::Unusable(refusal.reason))
}
