//! One call of a case's function, in a world of its own.

use std::time::{Duration, SystemTime};

use runtime::{CallError, CallFailure, DriverError, Runtime};
use serde_json::Value as Json;

use crate::faults::Fault;
use crate::invocation::Done;
use crate::scenario::{Case, Ending};
use crate::world::{CASE, CaseWorld, Player};

/// How a call ended.
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    /// Cause of an error, reason of a stop.
    pub(crate) cause: String,
    pub(crate) message: String,
    pub(crate) result: Json,
    pub(crate) wall: Duration,
    pub(crate) guest: Duration,
}

impl Ended {
    fn without_call(ending: Ending, cause: &str, message: String) -> Self {
        Self {
            ending,
            cause: cause.to_owned(),
            message,
            result: Json::Null,
            wall: Duration::ZERO,
            guest: Duration::ZERO,
        }
    }

    /// "ok", "error conflict", "trapped cpu-budget", …
    pub(crate) fn outcome(&self) -> String {
        match self.ending {
            Ending::Ok => "ok".to_owned(),
            ending => format!("{} {}", ending.as_str(), self.cause),
        }
    }

    /// The outcome with its message.
    pub(crate) fn described(&self) -> String {
        match self.ending {
            Ending::Ok => "ok".to_owned(),
            _ => format!("{}: {}", self.outcome(), self.message.escape_debug()),
        }
    }
}

/// What a run starts from.
pub(crate) struct Start {
    pub(crate) player: Player,
    pub(crate) clock: SystemTime,
    pub(crate) faults: Vec<Fault>,
}

impl Start {
    /// As the case begins.
    pub(crate) fn of(case: &Case) -> Self {
        Self {
            player: case.player.clone(),
            clock: case.clock,
            faults: Vec::new(),
        }
    }
}

/// Calls the plugin.
pub(crate) async fn play(runtime: &Runtime, case: &Case, start: Start) -> (Ended, CaseWorld) {
    let world = CaseWorld::new(start.player, start.faults, start.clock, case.wall, &case.backends);
    let ended = CASE.scope(world.clone(), call(runtime, case, &world)).await;
    (ended, world)
}

async fn call(runtime: &Runtime, case: &Case, world: &CaseWorld) -> Ended {
    let done = tokio::select! {
        done = case.invocation.call(runtime, &case.context) => done,
        () = world.out_of_time() => {
            let message = CallFailure::WallBudget(case.wall).to_string();
            return Ended::without_call(Ending::Timeout, "wall-budget", message);
        }
    };
    let Some(Done { result, report }) = done else {
        let message = "no plugin of this role is there for the node".to_owned();
        return Ended::without_call(Ending::Error, "not-found", message);
    };
    let (ending, cause, message, result) = match result {
        Ok(result) => (Ending::Ok, String::new(), String::new(), result),
        Err(CallError::Answered(error)) => {
            let denied = matches!(error, DriverError::Denied(_));
            let ending = if denied { Ending::Denied } else { Ending::Error };
            (ending, error.cause().to_owned(), error.to_string(), Json::Null)
        }
        Err(CallError::Failed { failure, .. }) => {
            let timeout = matches!(failure, CallFailure::WallBudget(_));
            let ending = if timeout { Ending::Timeout } else { Ending::Trapped };
            (ending, failure.cause().to_owned(), failure.to_string(), Json::Null)
        }
    };
    Ended {
        ending,
        cause,
        message,
        result,
        wall: report.wall,
        guest: report.cpu,
    }
}
