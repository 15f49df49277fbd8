//! What a host function answers a plugin with, and how a call as a whole can end.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A cause that a plugin or a caller acts on; the same list as `error` in the contract.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriverError {
    /// Not granted to this plugin, or forbidden by the envelope; the text names which.
    #[error("denied: {0}")]
    Denied(String),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// Busy BMC, version mismatch: worth another try later.
    #[error("{0}")]
    Conflict(String),
    /// The BMC or the backend cannot.
    #[error("{0}")]
    Unsupported(String),
    /// It took longer than it may.
    #[error("{0}")]
    Timeout(String),
    /// A limit of the call ran out; the text names it.
    #[error("{0}")]
    Budget(String),
    /// Nobody answers.
    #[error("{0}")]
    Unreachable(String),
    /// Anything else, by a stable code.
    #[error("{message}")]
    Other {
        /// Stable and machine-readable ("ilo-license-required").
        code: String,
        /// For people.
        message: String,
        /// When to try again, if that helps.
        retry_after_ms: Option<u32>,
    },
}

/// Code of [`DriverError::Other`] where the caller's hold on the node is over or about to end: a successor goes on.
pub const LEASE_ENDING: &str = "lease-ending";

impl DriverError {
    /// An error with a code of its own.
    pub fn other(code: &str, message: impl Into<String>) -> Self {
        Self::Other {
            code: code.to_owned(),
            message: message.into(),
            retry_after_ms: None,
        }
    }

    /// The cause in one word, for metrics and reports.
    pub fn cause(&self) -> &str {
        match self {
            Self::Denied(_) => "denied",
            Self::Invalid(_) => "invalid",
            Self::NotFound(_) => "not-found",
            Self::Conflict(_) => "conflict",
            Self::Unsupported(_) => "unsupported",
            Self::Timeout(_) => "timeout",
            Self::Budget(_) => "budget",
            Self::Unreachable(_) => "unreachable",
            Self::Other { code, .. } => code,
        }
    }
}

/// Why a plugin was stopped or its answer thrown away. Nothing else is harmed: the store is dropped, effects under way end
/// in tasks of their own.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallFailure {
    /// It trapped or panicked.
    #[error("it trapped: {0}")]
    Trapped(String),
    /// It computed for too long.
    #[error("it used more than {0:?} of CPU time (limit `cpu-ms`)")]
    CpuBudget(Duration),
    /// The call took too long.
    #[error("the call took longer than {0:?} (limit `wall-s`)")]
    WallBudget(Duration),
    /// It wanted too much memory.
    #[error("it wanted more than {0} bytes of memory (limit `memory`)")]
    Memory(usize),
    /// It wanted too many table entries.
    #[error("it wanted more than {0} table entries")]
    Tables(usize),
    /// It went on calling the host after it was told to stop.
    #[error("it called the host more than {0} times (limit `host-calls`)")]
    HostCalls(u32),
    /// It moved too many bytes through a function that cannot fail.
    #[error("it moved more than {0} bytes to and from the host (limit `host-bytes`)")]
    HostBytes(u64),
    /// Its answer cannot be used.
    #[error("its answer cannot be used: {0}")]
    Unusable(String),
    /// As many calls as may run at once are running.
    #[error("{permits} calls are running already, which is as many as may run at once: try again")]
    Busy {
        /// How many may run at once.
        permits: usize,
    },
    /// It could not be started.
    #[error("it could not be started: {0}")]
    NotStarted(String),
    /// A shadow asked for what the call that it watches never learned.
    #[error("it asked for {0}, which the call that it runs along with did not")]
    Diverged(String),
}

impl CallFailure {
    /// The failure in one word, for metrics and reports.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::Trapped(_) => "trapped",
            Self::CpuBudget(_) => "cpu-budget",
            Self::WallBudget(_) => "wall-budget",
            Self::Memory(_) => "memory",
            Self::Tables(_) => "tables",
            Self::HostCalls(_) => "host-calls",
            Self::HostBytes(_) => "host-bytes",
            Self::Unusable(_) => "unusable-answer",
            Self::Busy { .. } => "busy",
            Self::NotStarted(_) => "not-started",
            Self::Diverged(_) => "diverged",
        }
    }
}

/// How a call to a plugin ended, if it did not succeed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// The plugin answered with an error: an ordinary answer.
    #[error("{0}")]
    Answered(DriverError),
    /// The plugin was stopped.
    #[error("plugin `{plugin}` was stopped in `{function}`: {failure}")]
    Failed {
        /// Which plugin.
        plugin: String,
        /// Which of its functions.
        function: &'static str,
        /// Why.
        failure: CallFailure,
    },
}

/// For messages: names in a component are its author's, of any length and with any character.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 300;
    let mut short: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        short.push('…');
    }
    short
}
