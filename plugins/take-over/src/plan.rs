//! From what a successor saw to what it does. Pure.

use crate::bindings::exports::farrier::driver::take_over::{Artefact, Observation, RepeatKind, Step, UrlState};
use crate::bindings::farrier::driver::types::ArtefactKind;

/// An artefact whose URL ends sooner than this is renewed at once.
const RENEW_BELOW_S: u32 = 900;

/// The plan for a node in this provision state (Ironic's spelling).
pub(crate) fn plan(state: &str, observation: &Observation, reinsert_active_now: bool) -> Vec<Step> {
    match state {
        "wait call-back" | "clean wait" | "inspect wait" | "rescue wait" => waiting(observation),
        "active" | "adopting" | "adopt failed" => active(observation, reinsert_active_now),
        _ => transitional(observation),
    }
}

/// A ramdisk boots or runs: it must find its floppy and its ISO, the same bytes as before.
fn waiting(observation: &Observation) -> Vec<Step> {
    let mut steps = Vec::new();
    // Floppy before CD, as when they were inserted first: a ramdisk must not find the CD without its parameters.
    for kind in [ArtefactKind::Floppy, ArtefactKind::BootIso] {
        let Some(artefact) = find(observation, kind) else {
            continue;
        };
        steps.extend(serve_again(artefact));
        // An agent that has called in runs from memory: taking its media away could only harm it.
        let silent = observation.agent_seen_s_ago.is_none();
        if silent && (artefact.url == UrlState::Dead || !artefact.in_slot) {
            steps.push(Step::Reinsert(kind));
        }
    }
    match &observation.interrupted {
        Some(step) if step.repeat == RepeatKind::Fail => steps.push(give_up(&step.name)),
        Some(_) => steps.extend([Step::ContinueInterruptedStep, Step::WaitForAgent]),
        None => steps.push(Step::WaitForAgent),
    }
    steps
}

/// Somebody's instance runs: the bytes come back, the server is not touched.
fn active(observation: &Observation, reinsert_now: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(iso) = find(observation, ArtefactKind::BootIso) {
        steps.extend(serve_again(iso));
        if iso.url == UrlState::Dead {
            let empty = observation.cdrom.as_ref().is_some_and(|media| !media.inserted);
            if empty || (reinsert_now && iso.in_slot) {
                steps.push(Step::Reinsert(ArtefactKind::BootIso));
            } else if iso.in_slot || observation.cdrom.is_none() {
                steps.push(Step::DeferReinsert(ArtefactKind::BootIso));
            }
            // Else the slot holds something that somebody else put there: it stays.
        }
    }
    // Whatever the predecessor was doing to an active node was an operator's wish, which stands in the record still.
    if let Some(step) = &observation.interrupted
        && step.repeat != RepeatKind::Fail
    {
        steps.push(Step::ContinueInterruptedStep);
    }
    steps
}

/// The predecessor was at work: serve what exists and go on where it stopped, or give up where that is unsafe.
fn transitional(observation: &Observation) -> Vec<Step> {
    let mut steps: Vec<Step> = observation.artefacts.iter().flat_map(serve_again).collect();
    match &observation.interrupted {
        Some(step) if step.repeat == RepeatKind::Fail => steps.push(give_up(&step.name)),
        Some(_) => steps.push(Step::ContinueInterruptedStep),
        None => {}
    }
    steps
}

fn serve_again(artefact: &Artefact) -> Vec<Step> {
    let mut steps = vec![Step::Regenerate(artefact.kind)];
    if artefact.expires_in_s.is_some_and(|left| left < RENEW_BELOW_S) {
        steps.push(Step::Renew(artefact.kind));
    }
    steps
}

fn give_up(step: &str) -> Step {
    Step::Fail(format!(
        "the conductor died in the middle of `{step}`, which must not be repeated: check the server, then start again"
    ))
}

fn find(observation: &Observation, kind: ArtefactKind) -> Option<&Artefact> {
    observation.artefacts.iter().find(|artefact| artefact.kind == kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::exports::farrier::driver::take_over::InterruptedStep;
    use crate::bindings::farrier::driver::types::{Media, PowerState};

    fn artefact(kind: ArtefactKind, url: UrlState, in_slot: bool) -> Artefact {
        let backend = "embedded".to_owned();
        Artefact {
            kind,
            backend,
            url,
            in_slot,
            expires_in_s: None,
            bytes_read: None,
        }
    }

    fn media(inserted: bool) -> Option<Media> {
        Some(Media {
            inserted,
            connected: inserted,
            write_protected: true,
            artefact: None,
            url: None,
        })
    }

    fn seen(artefacts: Vec<Artefact>) -> Observation {
        Observation {
            previous_conductor: "a".to_owned(),
            power: PowerState::On,
            cdrom: media(true),
            floppy: media(true),
            artefacts,
            agent_seen_s_ago: None,
            interrupted: None,
        }
    }

    fn interrupted(repeat: RepeatKind) -> Option<InterruptedStep> {
        Some(InterruptedStep {
            name: "write-image".to_owned(),
            repeat,
        })
    }

    #[track_caller]
    fn check(state: &str, observation: &Observation, expected: &str) {
        let steps: Vec<String> = plan(state, observation, false).iter().map(spell).collect();
        assert_eq!(steps.join(", "), expected, "in `{state}`");
    }

    fn spell(step: &Step) -> String {
        let kind = |kind: &ArtefactKind| {
            if *kind == ArtefactKind::Floppy { "floppy" } else { "iso" }
        };
        match step {
            Step::Regenerate(what) => format!("regenerate {}", kind(what)),
            Step::Renew(what) => format!("renew {}", kind(what)),
            Step::Reinsert(what) => format!("reinsert {}", kind(what)),
            Step::DeferReinsert(what) => format!("defer {}", kind(what)),
            Step::ContinueInterruptedStep => "continue".to_owned(),
            Step::WaitForAgent => "wait".to_owned(),
            Step::Fail(_) => "fail".to_owned(),
        }
    }

    #[test]
    fn a_waiting_node_gets_its_media_back_unless_its_agent_has_called_in() {
        use ArtefactKind::{BootIso, Floppy};
        let dead = vec![
            artefact(BootIso, UrlState::Dead, true),
            artefact(Floppy, UrlState::Dead, true),
        ];
        check(
            "wait call-back",
            &seen(dead.clone()),
            "regenerate floppy, reinsert floppy, regenerate iso, reinsert iso, wait",
        );
        let called = Observation {
            agent_seen_s_ago: Some(5),
            ..seen(dead)
        };
        check("clean wait", &called, "regenerate floppy, regenerate iso, wait");
        let serving = vec![
            artefact(Floppy, UrlState::Serving, true),
            artefact(BootIso, UrlState::Serving, false),
        ];
        check(
            "wait call-back",
            &seen(serving),
            "regenerate floppy, regenerate iso, reinsert iso, wait",
        );
        check("inspect wait", &seen(vec![]), "wait");
    }

    #[test]
    fn an_active_node_is_served_again_and_never_touched_unless_its_slot_is_empty() {
        let iso = |url, in_slot| vec![artefact(ArtefactKind::BootIso, url, in_slot)];
        check("active", &seen(iso(UrlState::Serving, true)), "regenerate iso");
        check("active", &seen(iso(UrlState::Unknown, true)), "regenerate iso");
        check("active", &seen(iso(UrlState::Dead, true)), "regenerate iso, defer iso");
        let empty = Observation {
            cdrom: media(false),
            ..seen(iso(UrlState::Dead, false))
        };
        check("active", &empty, "regenerate iso, reinsert iso");
        check("active", &seen(iso(UrlState::Dead, false)), "regenerate iso");
        let silent = Observation {
            cdrom: None,
            ..seen(iso(UrlState::Dead, false))
        };
        check("active", &silent, "regenerate iso, defer iso");
        check("active", &seen(vec![]), "");
    }

    #[test]
    fn a_site_may_choose_to_reinsert_into_active_nodes() {
        let dead = seen(vec![artefact(ArtefactKind::BootIso, UrlState::Dead, true)]);
        let steps: Vec<String> = plan("active", &dead, true).iter().map(spell).collect();
        assert_eq!(steps, ["regenerate iso", "reinsert iso"]);
    }

    #[test]
    fn an_interrupted_step_goes_on_unless_it_must_not_be_repeated() {
        for (repeat, expected) in [
            (RepeatKind::Repeat, "continue"),
            (RepeatKind::ObserveThenContinue, "continue"),
            (RepeatKind::Fail, "fail"),
        ] {
            let observation = Observation {
                interrupted: interrupted(repeat),
                ..seen(vec![])
            };
            check("deploying", &observation, expected);
        }
        check("available", &seen(vec![]), "");
    }

    #[test]
    fn what_is_about_to_expire_is_renewed() {
        let mut floppy = artefact(ArtefactKind::Floppy, UrlState::Serving, true);
        floppy.expires_in_s = Some(30);
        check("deploying", &seen(vec![floppy]), "regenerate floppy, renew floppy");
    }
}
