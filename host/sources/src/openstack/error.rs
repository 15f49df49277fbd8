//! Why OpenStack was of no help.

use std::time::Duration;

/// One variant per thing that a caller does differently. URLs stand in it without credentials and query. Clones are for all
/// who wait for one token.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStackError {
    /// A setting is wrong.
    #[error("OpenStack cannot be used: {reason}")]
    Settings {
        /// Which, and what a right one looks like.
        reason: String,
    },
    /// The service cannot be reached, or broke the connection.
    #[error("{url} could not be reached: {reason}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// Down to the failing layer.
        reason: String,
    },
    /// It took too long.
    #[error("{url} did not answer within {after:.0?}")]
    Timeout {
        /// What was asked.
        url: String,
        /// How long was waited.
        after: Duration,
    },
    /// The identity service does not know us, or a service does not take its token.
    #[error("{url} does not let us in ({reason}): check user, password and project of {who}")]
    Unauthorized {
        /// What was asked.
        url: String,
        /// What it said.
        reason: String,
        /// As whom we came, without secrets.
        who: String,
    },
    /// There is no such service in the catalogue.
    #[error(
        "the service catalogue of {url} has no {interface} endpoint of `{service}`{region}: it has {found}; add one, or set the endpoint"
    )]
    NoEndpoint {
        /// The identity service.
        url: String,
        /// Service type that was looked for ("object-store", "image").
        service: String,
        /// Interface that was looked for.
        interface: &'static str,
        /// " in region `X`", or nothing.
        region: String,
        /// What there is.
        found: String,
    },
    /// It answered with an error that is no refusal to let us in.
    #[error("{url} answers HTTP {status}{reason}")]
    Status {
        /// What was asked.
        url: String,
        /// HTTP status.
        status: u16,
        /// ": what it said", with what that asks for; or nothing.
        reason: String,
    },
    /// What it answered makes no sense.
    #[error("{url} answers nonsense: {reason}")]
    Malformed {
        /// What was asked.
        url: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// A request to a server that the catalogue does not name. Nothing was sent: whoever has the token can act for us.
    #[error("{url} is none of the catalogue's endpoints, and no token is sent there")]
    ForeignOrigin {
        /// What was to be asked.
        url: String,
    },
}

impl OpenStackError {
    /// Whether the same might work later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } => true,
            Self::Status { status, .. } => *status >= 500 || matches!(status, 408 | 429),
            _ => false,
        }
    }
}
