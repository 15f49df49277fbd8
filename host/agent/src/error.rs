//! Why an agent did not answer as it should.

use std::time::Duration;

use crate::CallbackError;

/// One variant per thing that a caller does differently. No message holds the agent's token.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The site does not let us connect there.
    #[error("the agent may not be called: {0}")]
    NotAllowed(#[source] CallbackError),
    /// The certificate that the agent announced is none, or a client cannot be made of it.
    #[error("the agent at {host} announced a certificate that cannot be used: {reason}")]
    Certificate {
        /// Where.
        host: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answers, or TLS failed.
    #[error("the agent at {host} could not be reached for {command}: {reason}")]
    Unreachable {
        /// Where.
        host: String,
        /// What we asked.
        command: String,
        /// Down to the failing layer.
        reason: String,
    },
    /// It took longer than it may.
    #[error("the agent at {host} did not answer {command} within {after:.0?}")]
    Timeout {
        /// Where.
        host: String,
        /// What we asked.
        command: String,
        /// The deadline.
        after: Duration,
    },
    /// It is still at work on an earlier command: ask again later.
    #[error("the agent at {host} is busy and did not take {command}")]
    Busy {
        /// Where.
        host: String,
        /// What we asked.
        command: String,
    },
    /// It does not take our token: another ramdisk runs there than the one that we booted.
    #[error(
        "the agent at {host} refused our token for {command}: it is not the ramdisk that was booted for this deployment"
    )]
    Token {
        /// Where.
        host: String,
        /// What we asked.
        command: String,
    },
    /// A definite no.
    #[error("the agent at {host} refused {command}: {reason}")]
    Refused {
        /// Where.
        host: String,
        /// What we asked.
        command: String,
        /// In its words.
        reason: String,
    },
    /// The answer makes no sense.
    #[error("the agent at {host} answered {command} with something unintelligible: {reason}")]
    Protocol {
        /// Where.
        host: String,
        /// What we asked.
        command: String,
        /// What was wrong with it.
        reason: String,
    },
}

impl AgentError {
    /// Worth asking again within the deadline of what it is for.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Busy { .. } => true,
            Self::NotAllowed(_)
            | Self::Certificate { .. }
            | Self::Token { .. }
            | Self::Refused { .. }
            | Self::Protocol { .. } => false,
        }
    }
}
