//! Ironic's provision state machine, as far as this conductor drives it. Pure.

use model::{ProvisionState, UnknownState, Verb};

/// What moves a node from one state to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// A user asks.
    Ask(Verb),
    /// A ramdisk was started and has to call back.
    Wait,
    /// It called back.
    Resume,
    /// Its server read nothing of what it was given to boot: once more from the beginning.
    Again,
    /// The state's work is done.
    Done,
    /// The state's work failed.
    Fail,
}

/// Verbs that this conductor carries out.
const VERBS: [Verb; 6] = [
    Verb::Manage,
    Verb::Provide,
    Verb::Active,
    Verb::Rebuild,
    Verb::Deleted,
    Verb::Abort,
];

/// Where the move leads; `None` = there is no such move.
pub(crate) fn next(state: ProvisionState, by: Move) -> Option<ProvisionState> {
    use ProvisionState as S;
    Some(match (state, by) {
        (S::Enroll, Move::Ask(Verb::Manage)) => S::Verifying,
        (S::Verifying, Move::Done) => S::Manageable,
        (S::Verifying, Move::Fail | Move::Ask(Verb::Abort)) => S::Enroll,

        (S::Manageable, Move::Ask(Verb::Provide)) => S::Cleaning,
        (S::Available | S::CleanFailed | S::InspectFailed | S::AdoptFailed, Move::Ask(Verb::Manage)) => S::Manageable,

        (S::Available | S::DeployFailed, Move::Ask(Verb::Active)) => S::Deploying,
        (S::Active | S::DeployFailed | S::Error, Move::Ask(Verb::Rebuild)) => S::Deploying,
        (S::Deploying, Move::Wait) => S::DeployWait,
        (S::DeployWait, Move::Resume | Move::Again) => S::Deploying,
        (S::Deploying, Move::Done) => S::Active,
        (S::Deploying | S::DeployWait, Move::Fail) => S::DeployFailed,
        (S::Deploying | S::DeployWait, Move::Ask(Verb::Abort)) => S::DeployFailed,

        (S::Active | S::Deploying | S::DeployWait | S::DeployFailed | S::Error, Move::Ask(Verb::Deleted)) => {
            S::Deleting
        }
        (S::Deleting, Move::Done) => S::Cleaning,
        (S::Deleting, Move::Fail | Move::Ask(Verb::Abort)) => S::Error,

        (S::Cleaning, Move::Wait) => S::CleanWait,
        (S::CleanWait, Move::Resume | Move::Again) => S::Cleaning,
        (S::Cleaning, Move::Done) => S::Available,
        (S::Cleaning | S::CleanWait, Move::Fail) => S::CleanFailed,
        (S::Cleaning | S::CleanWait, Move::Ask(Verb::Abort)) => S::CleanFailed,
        _ => return None,
    })
}

/// What a verb aims at (`target_provision_state`); `abort` aims at nothing.
pub(crate) fn target(verb: Verb) -> Option<ProvisionState> {
    match verb {
        Verb::Manage => Some(ProvisionState::Manageable),
        Verb::Provide | Verb::Deleted | Verb::Clean => Some(ProvisionState::Available),
        Verb::Active | Verb::Rebuild | Verb::Adopt | Verb::Unrescue => Some(ProvisionState::Active),
        Verb::Inspect => Some(ProvisionState::Manageable),
        Verb::Rescue => Some(ProvisionState::Rescue),
        Verb::Abort => None,
    }
}

/// The conductor is at work: of users' requests only those are taken that stop it ([`accepts`]); others may be later.
pub fn is_busy(state: ProvisionState) -> bool {
    state.is_busy()
}

/// Why a verb is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{verb}` is not possible in state `{state}`; {}", possible(.allowed))]
pub struct Refusal {
    /// Where the node stands.
    pub state: ProvisionState,
    /// What was asked.
    pub verb: Verb,
    /// What could be asked instead.
    pub allowed: Vec<Verb>,
}

fn possible(allowed: &[Verb]) -> String {
    if allowed.is_empty() {
        return "wait until its work is done".to_owned();
    }
    let names: Vec<_> = allowed.iter().map(|verb| verb.as_str()).collect();
    format!("possible are: {}", names.join(", "))
}

/// Whether a node in this state takes this verb.
pub fn accepts(state: ProvisionState, verb: Verb) -> Result<(), Refusal> {
    if next(state, Move::Ask(verb)).is_some() {
        return Ok(());
    }
    let allowed = VERBS.into_iter().filter(|verb| next(state, Move::Ask(*verb)).is_some());
    Err(Refusal {
        state,
        verb,
        allowed: allowed.collect(),
    })
}

/// Whether a verb is carried out on a node in maintenance. Others wait there until the maintenance ends, so a user is better
/// told so at once.
pub fn accepts_in_maintenance(verb: Verb) -> bool {
    matches!(verb, Verb::Manage | Verb::Abort)
}

/// Reads a verb in either of Ironic's spellings: `active` or `deploy`, `deleted` or `undeploy`, the others by their name.
pub fn parse_verb(text: &str) -> Result<Verb, UnknownState> {
    match text {
        "deploy" => Ok(Verb::Active),
        "undeploy" => Ok(Verb::Deleted),
        _ => text.parse(),
    }
}

#[cfg(test)]
mod tests {
    use ProvisionState as S;

    use super::*;

    #[test]
    fn each_state_takes_the_verbs_that_ironic_lets_it_take() {
        let none: &[Verb] = &[];
        for (state, verbs) in [
            (S::Enroll, &[Verb::Manage][..]),
            (S::Verifying, &[Verb::Abort]),
            (S::Manageable, &[Verb::Provide]),
            (S::Cleaning, &[Verb::Abort]),
            (S::Adopting, none),
            (S::CleanWait, &[Verb::Abort]),
            (S::CleanFailed, &[Verb::Manage]),
            (S::Available, &[Verb::Manage, Verb::Active]),
            // Beyond Ironic, which has a user wait here: work that a broken BMC holds up can be stopped.
            (S::Deploying, &[Verb::Deleted, Verb::Abort]),
            (S::DeployWait, &[Verb::Deleted, Verb::Abort]),
            (S::DeployFailed, &[Verb::Active, Verb::Rebuild, Verb::Deleted]),
            (S::Active, &[Verb::Rebuild, Verb::Deleted]),
            (S::Deleting, &[Verb::Abort]),
            (S::Error, &[Verb::Rebuild, Verb::Deleted]),
        ] {
            for verb in Verb::ALL {
                match accepts(state, *verb) {
                    Ok(()) => assert!(verbs.contains(verb), "{state} takes {verb}"),
                    Err(refusal) => {
                        assert!(!verbs.contains(verb), "{state} refuses {verb}");
                        assert_eq!(refusal.allowed, verbs, "{state}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_refusal_says_what_could_be_asked_instead() {
        let refusal = accepts(S::Available, Verb::Deleted).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "`deleted` is not possible in state `available`; possible are: manage, active"
        );
        let busy = accepts(S::Deploying, Verb::Active).unwrap_err();
        assert!(busy.to_string().ends_with("possible are: deleted, abort"), "{busy}");
        assert!(is_busy(busy.state));
        let busy = accepts(S::Adopting, Verb::Active).unwrap_err();
        assert!(busy.to_string().ends_with("wait until its work is done"), "{busy}");
    }

    #[test]
    fn the_main_path_leads_round() {
        let mut state = S::Enroll;
        for (by, to) in [
            (Move::Ask(Verb::Manage), S::Verifying),
            (Move::Done, S::Manageable),
            (Move::Ask(Verb::Provide), S::Cleaning),
            (Move::Wait, S::CleanWait),
            (Move::Resume, S::Cleaning),
            (Move::Done, S::Available),
            (Move::Ask(Verb::Active), S::Deploying),
            (Move::Wait, S::DeployWait),
            (Move::Resume, S::Deploying),
            (Move::Done, S::Active),
            (Move::Ask(Verb::Rebuild), S::Deploying),
            (Move::Fail, S::DeployFailed),
            (Move::Ask(Verb::Deleted), S::Deleting),
            (Move::Fail, S::Error),
            (Move::Ask(Verb::Deleted), S::Deleting),
            (Move::Done, S::Cleaning),
            (Move::Wait, S::CleanWait),
            (Move::Fail, S::CleanFailed),
            (Move::Ask(Verb::Manage), S::Manageable),
        ] {
            assert_eq!(next(state, by), Some(to), "{state} {by:?}");
            state = to;
        }
    }

    #[test]
    fn every_busy_state_can_fail_and_every_wait_can_end() {
        for state in [
            S::Verifying,
            S::Cleaning,
            S::Deploying,
            S::Deleting,
            S::CleanWait,
            S::DeployWait,
        ] {
            let failed = next(state, Move::Fail).unwrap();
            assert!(
                !is_busy(failed) && !failed.waits_for_agent(),
                "{state} fails into {failed}"
            );
        }
    }

    #[test]
    fn verbs_have_both_of_their_spellings() {
        for (text, verb) in [
            ("active", Verb::Active),
            ("deploy", Verb::Active),
            ("deleted", Verb::Deleted),
            ("undeploy", Verb::Deleted),
            ("rebuild", Verb::Rebuild),
            ("provide", Verb::Provide),
        ] {
            assert_eq!(parse_verb(text), Ok(verb));
        }
        assert!(parse_verb("Deploy").is_err());
    }
}
