//! Faults that are put into a run: which host call is answered with which error, and whether it was done all the same.

use runtime::DriverError;

/// The causes of the contract, in its order.
pub(crate) const CAUSES: &[&str] = &[
    "denied",
    "invalid",
    "not-found",
    "conflict",
    "unsupported",
    "timeout",
    "budget",
    "unreachable",
    "other",
];

/// Code of the error that stands for all codes.
const CODE: &str = "rehearsed-fault";

/// One host call that goes wrong.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Fault {
    /// Which call of the run, counted from 0.
    pub(crate) at: usize,
    pub(crate) error: DriverError,
    /// It was done, and only its answer was lost.
    pub(crate) done: bool,
}

/// An error of this cause.
pub(crate) fn error(cause: &str) -> DriverError {
    let text = || format!("{cause}, by the fault sweep");
    match cause {
        "denied" => DriverError::Denied(text()),
        "invalid" => DriverError::Invalid(text()),
        "not-found" => DriverError::NotFound(text()),
        "conflict" => DriverError::Conflict(text()),
        "unsupported" => DriverError::Unsupported(text()),
        "timeout" => DriverError::Timeout(text()),
        "budget" => DriverError::Budget(text()),
        "unreachable" => DriverError::Unreachable(text()),
        _ => DriverError::other(CODE, "an error with a code of its own, by the fault sweep"),
    }
}

/// The cause of an error in the list above.
pub(crate) fn cause(error: &DriverError) -> &'static str {
    match error {
        DriverError::Denied(_) => "denied",
        DriverError::Invalid(_) => "invalid",
        DriverError::NotFound(_) => "not-found",
        DriverError::Conflict(_) => "conflict",
        DriverError::Unsupported(_) => "unsupported",
        DriverError::Timeout(_) => "timeout",
        DriverError::Budget(_) => "budget",
        DriverError::Unreachable(_) => "unreachable",
        DriverError::Other { .. } => "other",
    }
}

/// Whether the answer of an effect can be lost with this error after it was done.
pub(crate) fn may_come_after(cause: &str) -> bool {
    matches!(cause, "timeout" | "unreachable" | "other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_error() {
        for wanted in CAUSES {
            assert_eq!(cause(&error(wanted)), *wanted);
        }
    }
}
