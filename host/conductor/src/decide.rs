//! What to do next about a node. Pure: the record, what was seen, and the time go in; one action comes out.

use std::time::{Duration, SystemTime};

use model::{BootInterface, Fault, Node, PowerAction, ProvisionState, Verb, Wish};

use crate::machine::{self, is_busy};
use crate::step::Step;

/// The settings that decisions depend on.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// How long an agent may be silent while it is needed.
    pub(crate) agent_silence: Duration,
    /// Nodes are cleaned before they become available.
    pub(crate) automated_clean: bool,
    /// How long a server may read nothing of what it was given to boot; `None` = as long as its ramdisk is waited for.
    pub(crate) fetch_alarm: Option<Duration>,
}

/// What this conductor knows beside the record; lost when it dies.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Nothing on the BMC is changed before (a predecessor's last request may still arrive there).
    pub(crate) mutate_from: SystemTime,
    /// The step is not tried again before.
    pub(crate) retry_at: SystemTime,
    /// The agent was asked at the first time, and is asked again at the second, or as soon as it calls in.
    pub(crate) polled: Option<(SystemTime, SystemTime)>,
    /// When the agent answered last, or when this conductor took the node.
    pub(crate) agent_heard: SystemTime,
    /// When power is to be read next.
    pub(crate) power_due: SystemTime,
    /// When the progress of a booting ramdisk is to be read next.
    pub(crate) progress_due: SystemTime,
    /// Why the step did not work out so far.
    pub(crate) problem: Option<String>,
    /// Nothing has been read of what the server was given to boot, although it is served and counted here: since when.
    pub(crate) unread_since: Option<SystemTime>,
}

/// What to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Nothing, until the record changes or the time has come.
    Idle {
        /// When to decide again at the latest.
        until: Option<SystemTime>,
    },
    /// Begin what a user asked for.
    Begin(Verb),
    /// Drop a wish that cannot be fulfilled, and say why.
    Refuse(String),
    /// Carry out this step.
    Step(Step),
    /// The ramdisk has called back.
    Resume,
    /// See how far the ramdisk's boot is.
    ReadProgress,
    /// The server booted something else: boot the ramdisk once more.
    BootAgain,
    /// The state has no work.
    Done,
    /// The state's work failed: clean up.
    Fail(String),
    /// Cleaning up took too long as well: into the failed state.
    FinishFailure,
    /// Change the server's power for an operator.
    Power(PowerAction),
    /// Boot an operator's ISO.
    BootIntoIso(String),
    /// Drop an operator's request that a predecessor had begun: it must not be repeated blindly.
    DropInterrupted,
    /// Read the power and adopt it.
    SyncPower,
}

/// The next action.
pub(crate) fn decide(node: &Node, now: SystemTime, seen: &Seen, rules: &Rules) -> Action {
    let step = node.step.as_deref().and_then(Step::parse);
    if matches!(step, Some(Step::Power | Step::BootIntoIso)) {
        return Action::DropInterrupted;
    }
    if let Some(action) = wish(node, now, seen, step) {
        return action;
    }
    if node.maintenance {
        return match node.fault {
            Some(Fault::PowerFailure) if !is_busy(node.provision_state) => sync_power(now, seen),
            _ => Action::Idle { until: None },
        };
    }
    if let Some(step) = step.filter(|step| step.is_clean_up()) {
        return match node.deadline {
            Some(deadline) if deadline <= now => Action::FinishFailure,
            deadline => not_before(now, seen, deadline, Action::Step(step)),
        };
    }
    if is_busy(node.provision_state) {
        return busy(node, step, now, seen, rules);
    }
    if node.provision_state.waits_for_agent() {
        return wait(node, now, seen, rules);
    }
    sync_power(now, seen)
}

/// Whether what a user asked for stops the work that the node's state is about. A clean step that the ramdisk is in the middle
/// of ends first: a disk that is half erased by its own firmware may be of no use to anybody.
pub(crate) fn calls_off(node: &Node, seen: &Seen) -> Option<Verb> {
    let Some(Wish::Provision { verb, .. }) = &node.wish else {
        return None;
    };
    let state = node.provision_state;
    let step = node.step.as_deref().and_then(Step::parse);
    let erases = step == Some(Step::CleanSteps) && node.agent_command.is_some() && seen.problem.is_none();
    let stops = is_busy(state) && !erases && !step.is_some_and(Step::is_clean_up);
    let may = !node.maintenance || machine::accepts_in_maintenance(*verb);
    (stops && may && machine::accepts(state, *verb).is_ok()).then_some(*verb)
}

/// What a user asked for, if it can be begun now. While the conductor is at work on the node, a wish waits, unless it is to
/// stop that work.
fn wish(node: &Node, now: SystemTime, seen: &Seen, step: Option<Step>) -> Option<Action> {
    let wish = node.wish.as_ref()?;
    let state = node.provision_state;
    if is_busy(state) {
        return calls_off(node, seen).map(Action::Begin);
    }
    if step.is_some_and(Step::is_clean_up) {
        return None;
    }
    let mutating = |action| {
        let waiting = seen.mutate_from > now;
        let until = Some(seen.mutate_from);
        Some(if waiting { Action::Idle { until } } else { action })
    };
    match wish {
        Wish::Provision { verb, .. } => match machine::accepts(state, *verb) {
            Err(refusal) => Some(Action::Refuse(refusal.to_string())),
            Ok(()) if node.maintenance && !machine::accepts_in_maintenance(*verb) => None,
            Ok(()) => Some(Action::Begin(*verb)),
        },
        Wish::Power(action) => mutating(Action::Power(*action)),
        Wish::BootIntoIso { url } => {
            let free = matches!(state, ProvisionState::Manageable | ProvisionState::Active);
            if free || (node.maintenance && !state.waits_for_agent()) {
                return mutating(Action::BootIntoIso(url.clone()));
            }
            Some(Action::Refuse(format!(
                "boot_into_iso is not possible in state `{state}`: the node must be manageable, active or in maintenance"
            )))
        }
    }
}

fn busy(node: &Node, step: Option<Step>, now: SystemTime, seen: &Seen, rules: &Rules) -> Action {
    let state = node.provision_state;
    let Some(step) = step else {
        return match &node.step {
            None if state == ProvisionState::Cleaning && !rules.automated_clean => Action::Done,
            None => Action::Fail(format!("the record of this node in state `{state}` names no step")),
            Some(name) => Action::Fail(format!("the step `{name}` is unknown to this version of Farrier")),
        };
    };
    let because = |text: String| match &seen.problem {
        Some(problem) => Action::Fail(format!("{text}; last: {problem}")),
        None => Action::Fail(text),
    };
    if node.deadline.is_some_and(|deadline| deadline <= now) {
        return because(format!("the step `{}` was not done in time", step.as_str()));
    }
    if step.needs_agent() {
        let heard = node
            .agent
            .last_heartbeat
            .map_or(seen.agent_heard, |beat| beat.max(seen.agent_heard));
        let silent = now.duration_since(heard).unwrap_or_default();
        if silent > rules.agent_silence {
            return because(format!(
                "the ramdisk's agent has not been heard for {} s in step `{}`",
                silent.as_secs(),
                step.as_str()
            ));
        }
        if let Some((asked, again)) = seen.polled {
            let called_in = node.agent.last_heartbeat.is_some_and(|beat| beat > asked);
            if again > now && !called_in {
                return Action::Idle { until: Some(again) };
            }
        }
    }
    not_before(now, seen, node.deadline, Action::Step(step))
}

fn wait(node: &Node, now: SystemTime, seen: &Seen, rules: &Rules) -> Action {
    if node.agent.last_heartbeat.is_some() && node.agent.callback_url.is_some() {
        return Action::Resume;
    }
    match node.deadline {
        Some(deadline) if deadline <= now => Action::Fail(no_call_back(node, seen)),
        _ if is_unread(node, now, seen, rules) => Action::BootAgain,
        _ if seen.progress_due <= now => Action::ReadProgress,
        deadline => Action::Idle {
            until: earlier(deadline, Some(seen.progress_due)),
        },
    }
}

fn no_call_back(node: &Node, seen: &Seen) -> String {
    let (files, from) = match node.boot_interface {
        BootInterface::IloVirtualMedia => ("boot ISO was", "virtual media"),
        BootInterface::IloIpxe => ("boot files were", "the network by iPXE"),
    };
    let boot = match (node.step_percent, seen.unread_since) {
        (Some(percent), _) => format!("{percent} % of its {files} read"),
        (None, Some(_)) => format!("nothing of its {files} read"),
        (None, None) => "nothing is known of its boot".to_owned(),
    };
    format!(
        "the ramdisk did not call back in time ({boot}); see on the server's console whether it booted from {from} and \
         reaches one of [agent] urls"
    )
}

/// Whether the server has had its time to read what it was given to boot, and has not. It is given one more boot, never two.
fn is_unread(node: &Node, now: SystemTime, seen: &Seen, rules: &Rules) -> bool {
    let (Some(patience), Some(since)) = (rules.fetch_alarm, seen.unread_since) else {
        return false;
    };
    let unread = node.step_percent.is_none() && since + patience <= now;
    unread && !node.boot_repeated && seen.mutate_from <= now
}

fn sync_power(now: SystemTime, seen: &Seen) -> Action {
    if seen.power_due <= now {
        return Action::SyncPower;
    }
    let until = Some(seen.power_due);
    Action::Idle { until }
}

/// The action, unless it has to wait: for a back-off or for a predecessor's last request.
fn not_before(now: SystemTime, seen: &Seen, deadline: Option<SystemTime>, action: Action) -> Action {
    let from = seen.retry_at.max(seen.mutate_from);
    if from <= now {
        return action;
    }
    Action::Idle {
        until: earlier(deadline, Some(from)),
    }
}

fn earlier(a: Option<SystemTime>, b: Option<SystemTime>) -> Option<SystemTime> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
