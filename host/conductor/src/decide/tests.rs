//! Every rule is a row: a state, what is special about node and sight, and the action.

use ProvisionState as S;
use model::Verb;

use super::*;
use crate::testing::{at, node};

const NOW: u64 = 1000;

fn seen() -> Seen {
    Seen {
        mutate_from: at(0),
        retry_at: at(0),
        polled: None,
        agent_heard: at(NOW - 1),
        power_due: at(NOW + 60),
        progress_due: at(NOW + 2),
        problem: None,
        unread_since: None,
    }
}

fn rules() -> Rules {
    Rules {
        agent_silence: Duration::from_secs(300),
        automated_clean: true,
        fetch_alarm: Some(Duration::from_secs(100)),
    }
}

/// One row: a state and what is special about node and sight, and the action.
#[track_caller]
fn check(state: S, special: impl FnOnce(&mut Node, &mut Seen, &mut Rules), expected: &Action) {
    let (mut node, mut seen, mut rules) = (node(), seen(), rules());
    node.provision_state = state;
    special(&mut node, &mut seen, &mut rules);
    let action = decide(&node, at(NOW), &seen, &rules);
    let same = match (&action, expected) {
        // Reasons are checked by their part.
        (Action::Fail(found), Action::Fail(part)) | (Action::Refuse(found), Action::Refuse(part)) => {
            found.contains(part.as_str())
        }
        _ => action == *expected,
    };
    assert!(same, "{state}: {action:?}, not {expected:?}");
}

fn ask(verb: Verb) -> Option<Wish> {
    let config_drive = None;
    Some(Wish::Provision { verb, config_drive })
}

fn idle(seconds: u64) -> Action {
    let until = Some(at(seconds));
    Action::Idle { until }
}

fn rest() -> Action {
    Action::Idle { until: None }
}

fn iso() -> Option<Wish> {
    let url = "http://h/i.iso".to_owned();
    Some(Wish::BootIntoIso { url })
}

#[test]
fn a_settled_node_rests_until_its_power_is_due() {
    for state in [
        S::Enroll,
        S::Manageable,
        S::Available,
        S::Active,
        S::DeployFailed,
        S::CleanFailed,
        S::Error,
    ] {
        check(state, |_, _, _| (), &idle(NOW + 60));
        check(state, |_, seen, _| seen.power_due = at(NOW), &Action::SyncPower);
    }
}

#[test]
fn wishes_are_begun_refused_or_kept_waiting() {
    check(
        S::Available,
        |node, _, _| node.wish = ask(Verb::Active),
        &Action::Begin(Verb::Active),
    );
    check(
        S::Enroll,
        |node, _, _| node.wish = ask(Verb::Active),
        &Action::Refuse("possible are: manage".into()),
    );
    check(
        S::DeployWait,
        |node, _, _| node.wish = ask(Verb::Abort),
        &Action::Begin(Verb::Abort),
    );
    // While the conductor is at work, it goes on with that.
    check(
        S::Deploying,
        |node, _, _| {
            node.step = Some("power-off".to_owned());
            node.wish = Some(Wish::Power(PowerAction::Off));
        },
        &Action::Step(Step::PowerOff),
    );
    check(
        S::DeployWait,
        |node, _, _| {
            node.step = Some("power-off-after-failure".to_owned());
            node.wish = ask(Verb::Deleted);
        },
        &Action::Step(Step::FailPowerOff),
    );
    check(
        S::Active,
        |node, _, _| node.wish = Some(Wish::Power(PowerAction::Off)),
        &Action::Power(PowerAction::Off),
    );
    check(
        S::DeployWait,
        |node, _, _| node.wish = Some(Wish::Power(PowerAction::ForceRestart)),
        &Action::Power(PowerAction::ForceRestart),
    );
    check(
        S::Active,
        |node, seen, _| {
            node.wish = Some(Wish::Power(PowerAction::Off));
            seen.mutate_from = at(NOW + 9);
        },
        &idle(NOW + 9),
    );
}

#[test]
fn work_is_called_off_but_not_in_the_middle_of_a_clean_step_nor_while_it_is_cleaned_up_after() {
    let at_work = |state: S, step: &'static str, verb: Verb, expected: &Action| {
        let wished = |node: &mut Node, _: &mut Seen, _: &mut Rules| {
            node.step = Some(step.to_owned());
            node.wish = ask(verb);
        };
        check(state, wished, expected);
    };
    for (state, step, verb) in [
        (S::Verifying, "verify", Verb::Abort),
        (S::Deploying, "power-off", Verb::Abort),
        (S::Deploying, "write-image", Verb::Deleted),
        (S::Cleaning, "prepare-ramdisk", Verb::Abort),
        (S::Deleting, "withdraw", Verb::Abort),
    ] {
        at_work(state, step, verb, &Action::Begin(verb));
    }
    at_work(S::Cleaning, "power-off", Verb::Deleted, &Action::Step(Step::PowerOff));
    at_work(
        S::Deploying,
        "power-off-after-abort",
        Verb::Deleted,
        &Action::Step(Step::AbortPowerOff),
    );
    let erasing = |node: &mut Node| {
        node.step = Some("clean-steps".to_owned());
        node.agent_command = Some("7".to_owned());
        node.wish = ask(Verb::Abort);
    };
    check(S::Cleaning, |node, _, _| erasing(node), &Action::Step(Step::CleanSteps));
    check(
        S::Cleaning,
        |node, seen, _| {
            erasing(node);
            seen.problem = Some("the agent does not answer".into());
        },
        &Action::Begin(Verb::Abort),
    );
    // In maintenance work can be stopped and nothing else.
    for (verb, expected) in [(Verb::Abort, Action::Begin(Verb::Abort)), (Verb::Deleted, rest())] {
        check(
            S::Deploying,
            |node, _, _| {
                node.step = Some("power-off".to_owned());
                node.wish = ask(verb);
                node.maintenance = true;
            },
            &expected,
        );
    }
}

#[test]
fn a_server_that_reads_nothing_of_what_it_was_given_is_booted_once_more_and_only_then() {
    let unread = |node: &mut Node, seen: &mut Seen| {
        node.deadline = Some(at(NOW + 50));
        seen.unread_since = Some(at(NOW - 100));
    };
    for state in [S::DeployWait, S::CleanWait] {
        check(state, |node, seen, _| unread(node, seen), &Action::BootAgain);
        let exceptions: [fn(&mut Node, &mut Seen, &mut Rules); 7] = [
            |_, seen, _| seen.unread_since = Some(at(NOW - 99)),
            |_, seen, _| seen.unread_since = None,
            |node, _, _| node.step_percent = Some(0),
            |node, _, _| node.boot_repeated = true,
            |_, seen, _| seen.mutate_from = at(NOW + 1),
            |_, _, rules| rules.fetch_alarm = None,
            |_, _, rules| rules.fetch_alarm = Some(Duration::from_secs(101)),
        ];
        for exception in exceptions {
            check(
                state,
                |node, seen, rules| {
                    unread(node, seen);
                    exception(node, seen, rules);
                },
                &idle(NOW + 2),
            );
        }
    }
    check(S::Active, |node, seen, _| unread(node, seen), &idle(NOW + 60));
    check(
        S::DeployWait,
        |node, seen, _| {
            unread(node, seen);
            node.deadline = Some(at(NOW));
        },
        &Action::Fail("nothing of its boot ISO was read".into()),
    );
}

#[test]
fn an_operators_iso_boots_only_where_nothing_is_under_way() {
    let boot = Action::BootIntoIso("http://h/i.iso".to_owned());
    for state in [S::Manageable, S::Active] {
        check(state, |node, _, _| node.wish = iso(), &boot);
    }
    for state in [S::Available, S::DeployWait, S::Enroll] {
        check(
            state,
            |node, _, _| node.wish = iso(),
            &Action::Refuse("boot_into_iso".into()),
        );
    }
    check(
        S::Available,
        |node, _, _| {
            node.wish = iso();
            node.maintenance = true;
        },
        &boot,
    );
}

#[test]
fn nothing_is_done_to_a_node_in_maintenance_but_what_an_operator_asks_for() {
    for state in [
        S::Available,
        S::Active,
        S::Deploying,
        S::DeployWait,
        S::Cleaning,
        S::Deleting,
    ] {
        check(
            state,
            |node, seen, _| {
                node.maintenance = true;
                node.step = Some("power-off".to_owned());
                node.deadline = Some(at(1));
                node.agent.last_heartbeat = Some(at(NOW));
                seen.power_due = at(0);
            },
            &rest(),
        );
    }
    let maintained = |wish: Option<Wish>| {
        move |node: &mut Node, _: &mut Seen, _: &mut Rules| {
            node.maintenance = true;
            node.wish = wish;
        }
    };
    check(S::Available, maintained(ask(Verb::Active)), &rest());
    check(
        S::CleanFailed,
        maintained(ask(Verb::Manage)),
        &Action::Begin(Verb::Manage),
    );
    check(
        S::Active,
        maintained(Some(Wish::Power(PowerAction::On))),
        &Action::Power(PowerAction::On),
    );
    check(
        S::Active,
        |node, seen, _| {
            node.maintenance = true;
            node.fault = Some(Fault::PowerFailure);
            seen.power_due = at(NOW);
        },
        &Action::SyncPower,
    );
}

#[test]
fn a_busy_state_carries_out_the_step_that_its_record_names() {
    check(
        S::Verifying,
        |node, _, _| node.step = Some("verify".into()),
        &Action::Step(Step::Verify),
    );
    check(
        S::Deploying,
        |node, _, _| node.step = Some("prepare-ramdisk".into()),
        &Action::Step(Step::PrepareRamdisk),
    );
    check(
        S::Deleting,
        |node, _, _| node.step = Some("withdraw".into()),
        &Action::Step(Step::Withdraw),
    );
    check(S::Cleaning, |_, _, rules| rules.automated_clean = false, &Action::Done);
    check(S::Cleaning, |_, _, _| (), &Action::Fail("names no step".into()));
    check(
        S::Deploying,
        |node, _, _| node.step = Some("dance".into()),
        &Action::Fail("`dance` is unknown".into()),
    );
}

#[test]
fn a_step_waits_for_its_back_off_and_for_a_predecessors_last_request_but_not_past_its_deadline() {
    let off = |node: &mut Node| {
        node.step = Some("power-off".into());
        node.deadline = Some(at(NOW + 50));
    };
    check(
        S::Deploying,
        |node, seen, _| {
            off(node);
            seen.retry_at = at(NOW + 5);
        },
        &idle(NOW + 5),
    );
    check(
        S::Deploying,
        |node, seen, _| {
            off(node);
            seen.mutate_from = at(NOW + 99);
        },
        &idle(NOW + 50),
    );
    check(
        S::Deploying,
        |node, seen, _| {
            off(node);
            node.deadline = Some(at(NOW));
            seen.problem = Some("10.0.0.1 is busy".into());
        },
        &Action::Fail("`power-off` was not done in time; last: 10.0.0.1 is busy".into()),
    );
}

#[test]
fn an_agent_at_work_is_asked_by_interval_and_when_it_calls_in() {
    let writing = |node: &mut Node, seen: &mut Seen| {
        node.step = Some("write-image".into());
        seen.polled = Some((at(NOW - 1), at(NOW + 1)));
    };
    check(S::Deploying, |node, seen, _| writing(node, seen), &idle(NOW + 1));
    check(
        S::Deploying,
        |node, seen, _| {
            writing(node, seen);
            seen.polled = Some((at(NOW - 2), at(NOW)));
        },
        &Action::Step(Step::WriteImage),
    );
    check(
        S::Deploying,
        |node, seen, _| {
            writing(node, seen);
            node.agent.last_heartbeat = Some(at(NOW));
        },
        &Action::Step(Step::WriteImage),
    );
    check(
        S::Deploying,
        |node, seen, _| {
            writing(node, seen);
            seen.agent_heard = at(NOW - 301);
        },
        &Action::Fail("has not been heard for 301 s".into()),
    );
    // Powering off by agent is not disturbed by its silence.
    check(
        S::Deploying,
        |node, seen, _| {
            node.step = Some("agent-power-off".into());
            seen.agent_heard = at(0);
        },
        &Action::Step(Step::AgentPowerOff),
    );
}

#[test]
fn a_wait_ends_with_a_heartbeat_or_its_deadline() {
    for state in [S::DeployWait, S::CleanWait] {
        let soon = |node: &mut Node| node.deadline = Some(at(NOW + 1));
        check(state, |node, _, _| soon(node), &idle(NOW + 1));
        check(
            state,
            |node, seen, _| {
                soon(node);
                seen.progress_due = at(NOW);
            },
            &Action::ReadProgress,
        );
        check(
            state,
            |node, _, _| {
                soon(node);
                node.agent.last_heartbeat = Some(at(NOW - 5));
                node.agent.callback_url = Some("https://10.0.0.9".into());
            },
            &Action::Resume,
        );
        check(
            state,
            |node, _, _| {
                node.deadline = Some(at(NOW));
                node.step_percent = Some(40);
            },
            &Action::Fail("40 % of its boot ISO was read".into()),
        );
    }
}

#[test]
fn cleaning_up_after_a_failure_goes_on_until_its_own_deadline() {
    let failing = |node: &mut Node| node.step = Some("clean-up-after-failure".into());
    check(
        S::Deploying,
        |node, _, _| failing(node),
        &Action::Step(Step::FailCleanUp),
    );
    check(
        S::CleanWait,
        |node, _, _| {
            failing(node);
            node.deadline = Some(at(NOW));
        },
        &Action::FinishFailure,
    );
}

#[test]
fn an_operators_request_that_another_conductor_began_is_never_repeated() {
    for step in ["power", "boot-into-iso"] {
        check(
            S::Active,
            |node, _, _| {
                node.step = Some(step.into());
                node.wish = Some(Wish::Power(PowerAction::ForceRestart));
            },
            &Action::DropInterrupted,
        );
    }
}
