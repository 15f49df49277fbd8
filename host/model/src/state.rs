//! Ironic's provision states and the verbs that ask for them, in Ironic's spelling.

use std::fmt;
use std::str::FromStr;

macro_rules! spelled {
    ($(#[$doc:meta])* $name:ident, $kind:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The API's spelling.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownState;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| UnknownState {
                    kind: $kind,
                    text: text.chars().take(80).collect(),
                    known: Self::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

/// The text names no state or verb that we know.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown {kind} `{text}`; known are: {known}")]
pub struct UnknownState {
    /// "provision state", "verb", …
    pub kind: &'static str,
    /// What was given.
    pub text: String,
    /// All that would have been accepted.
    pub known: String,
}

spelled! {
    /// Where a node stands in Ironic's provision state machine.
    ProvisionState, "provision state" {
        /// Known, credentials not checked yet.
        Enroll = "enroll",
        /// Checking the BMC's credentials.
        Verifying = "verifying",
        /// Under management, not available for deployment.
        Manageable = "manageable",
        /// A ramdisk is being prepared to clean the node, or is cleaning it.
        Cleaning = "cleaning",
        /// Waiting for the cleaning ramdisk to call back.
        CleanWait = "clean wait",
        /// Cleaning failed; the node is in maintenance.
        CleanFailed = "clean failed",
        /// Ready to be deployed.
        Available = "available",
        /// The conductor is working on the deployment.
        Deploying = "deploying",
        /// Waiting for the deploy ramdisk to call back.
        DeployWait = "wait call-back",
        /// Deployment failed.
        DeployFailed = "deploy failed",
        /// An instance runs.
        Active = "active",
        /// The instance is being torn down.
        Deleting = "deleting",
        /// Tearing down failed.
        Error = "error",
        /// Inspection in progress.
        Inspecting = "inspecting",
        /// Waiting for the inspection ramdisk.
        InspectWait = "inspect wait",
        /// Inspection failed.
        InspectFailed = "inspect failed",
        /// Taking in a server that already runs an instance.
        Adopting = "adopting",
        /// Adoption failed.
        AdoptFailed = "adopt failed",
        /// Preparing the rescue ramdisk.
        Rescuing = "rescuing",
        /// Waiting for the rescue ramdisk.
        RescueWait = "rescue wait",
        /// The rescue ramdisk runs.
        Rescue = "rescue",
        /// Rescue failed.
        RescueFailed = "rescue failed",
        /// Going back to the instance.
        Unrescuing = "unrescuing",
        /// Going back failed.
        UnrescueFailed = "unrescue failed",
    }
}

spelled! {
    /// What `PUT …/states/provision` can ask for (`target`).
    Verb, "provision verb" {
        /// enroll → manageable, available → manageable, and out of some failures.
        Manage = "manage",
        /// manageable → (cleaning) → available.
        Provide = "provide",
        /// available → active (also spelled `deploy`).
        Active = "active",
        /// active → active, keeping the node's identity.
        Rebuild = "rebuild",
        /// active → available (also spelled `undeploy`).
        Deleted = "deleted",
        /// manageable → inspecting.
        Inspect = "inspect",
        /// Stop waiting.
        Abort = "abort",
        /// manageable → active without deploying.
        Adopt = "adopt",
        /// manageable → cleaning with given steps.
        Clean = "clean",
        /// active → rescue.
        Rescue = "rescue",
        /// rescue → active.
        Unrescue = "unrescue",
    }
}

impl ProvisionState {
    /// The server runs (or is) somebody's instance: power, media and boot mode are not ours to touch.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Active | Self::Adopting | Self::AdoptFailed)
    }

    /// A conductor is at work on the node.
    pub fn is_busy(self) -> bool {
        matches!(
            self,
            Self::Verifying
                | Self::Cleaning
                | Self::Deploying
                | Self::Deleting
                | Self::Inspecting
                | Self::Adopting
                | Self::Rescuing
                | Self::Unrescuing
        )
    }

    /// A ramdisk of ours runs or is about to call back.
    pub fn waits_for_agent(self) -> bool {
        matches!(
            self,
            Self::DeployWait | Self::CleanWait | Self::InspectWait | Self::RescueWait
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_parse_what_they_print_and_refusals_list_what_is_known() {
        for state in ProvisionState::ALL {
            assert_eq!(state.as_str().parse(), Ok(*state));
        }
        let refusal = "sleeping".parse::<ProvisionState>().unwrap_err().to_string();
        assert!(
            refusal.contains("`sleeping`") && refusal.contains("wait call-back"),
            "{refusal}"
        );
    }
}
