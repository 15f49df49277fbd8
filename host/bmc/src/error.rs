//! Why a BMC did not do what it was asked.

use std::time::Duration;

use model::BmcAddress;

/// One variant per thing that a caller does differently.
#[derive(Debug, thiserror::Error)]
pub enum BmcError {
    /// The address, the CA or another setting is wrong: nothing was sent, and nothing will change until it is corrected.
    #[error("the settings of BMC {address} are wrong: {reason}")]
    Settings {
        /// As it was given, without credentials.
        address: BmcAddress,
        /// Which setting, and what a right one looks like.
        reason: String,
    },
    /// Wrong user, password or too few privileges.
    #[error("{address} refused the login to {action}: check user name, password and privileges of the BMC account")]
    Login {
        /// Where.
        address: BmcAddress,
        /// What we tried.
        action: &'static str,
    },
    /// The licence does not cover it.
    #[error("{address} cannot {action} with its licence: install one that covers virtual media (iLO Advanced)")]
    License {
        /// Where.
        address: BmcAddress,
        /// What we tried.
        action: &'static str,
    },
    /// Busy, in POST, resetting, session table full: worth another try.
    #[error("{address} is busy and did not {action}: {reason}")]
    Busy {
        /// Where.
        address: BmcAddress,
        /// What we tried.
        action: &'static str,
        /// In the BMC's words.
        reason: String,
        /// When to try again, if the BMC says.
        retry_after: Option<Duration>,
    },
    /// The BMC has no such function.
    #[error("{address} has no means to {action}: {reason}")]
    Unsupported {
        /// Where.
        address: BmcAddress,
        /// What we tried.
        action: &'static str,
        /// What is missing.
        reason: String,
    },
    /// Nobody answers, the name does not resolve, or TLS failed.
    #[error("{address} could not be reached to {action}: {reason}")]
    Unreachable {
        /// Where.
        address: BmcAddress,
        /// What we tried.
        action: &'static str,
        /// Down to the failing layer, with the remedy where there is one.
        reason: String,
    },
    /// It took longer than it may. A change may still happen: read before deciding.
    #[error("{address} did not {action} within {after:.0?}")]
    Timeout {
        /// Where.
        address: BmcAddress,
        /// What we tried.
        action: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// A definite no.
    #[error("{address} refused to {action}: {reason}")]
    Refused {
        /// Where.
        address: BmcAddress,
        /// What we tried.
        action: &'static str,
        /// In the BMC's words, without secrets.
        reason: String,
    },
    /// The answer makes no sense.
    #[error("{address} gave no intelligible answer when asked to {action}: {reason}")]
    Protocol {
        /// Where.
        address: BmcAddress,
        /// What we tried.
        action: &'static str,
        /// What was wrong with it.
        reason: String,
    },
    /// Our own lease is about to end: nothing was sent.
    #[error("did not ask {address} to {action}: this conductor's lease ends too soon")]
    LeaseEnding {
        /// Where.
        address: BmcAddress,
        /// What we wanted.
        action: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever tells the same problem once only must not be fooled by how much of a lease was left.
    #[test]
    fn deadlines_are_told_in_whole_seconds() {
        let said = |nanos| {
            let error = BmcError::Timeout {
                address: BmcAddress("https://192.0.2.1".to_owned()),
                action: "insert the virtual CD",
                after: Duration::from_nanos(nanos),
            };
            error.to_string()
        };
        assert_eq!(
            said(2_271_652_528),
            "https://192.0.2.1 did not insert the virtual CD within 2s"
        );
        assert_eq!(said(2_271_652_528), said(2_018_000_001));
    }
}
