//! The steps inside a provision state: their names on the record, their order, and what repeating each means. Pure.
//!
//! A step's name is written before the step begins, so the record names what was under way when a conductor died.

use model::ProvisionState;
use model::take_over::Repeat;

macro_rules! steps {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $repeat:ident;)*) => {
        /// One step.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Step { $($(#[$doc])* $variant,)* }

        impl Step {
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name on the record and in the journal.
            pub(crate) fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What repeating it means.
            pub(crate) fn repeat(self) -> Repeat {
                match self { $(Self::$variant => Repeat::$repeat,)* }
            }

            /// The step of that name.
            pub(crate) fn parse(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

steps! {
    /// Checks address, certificate and credentials of the BMC.
    Verify = "verify", Repeat;
    /// Server off, before media are touched.
    PowerOff = "power-off", Repeat;
    /// Media in, boot device set.
    PrepareRamdisk = "prepare-ramdisk", Repeat;
    /// Server on; then its ramdisk has to call back.
    BootRamdisk = "boot-ramdisk", Repeat;
    /// Asks the ramdisk what it can do for a deployment.
    DeploySteps = "deploy-steps", Repeat;
    /// The ramdisk writes the image.
    WriteImage = "write-image", ObserveThenContinue;
    /// The ramdisk flushes its disk caches.
    Sync = "sync", Repeat;
    /// The ramdisk runs its clean steps, one after the other.
    CleanSteps = "clean-steps", ObserveThenContinue;
    /// The ramdisk powers the server off; if it does not, the BMC does.
    AgentPowerOff = "agent-power-off", ObserveThenContinue;
    /// Media out, floppy withdrawn.
    CleanUpRamdisk = "clean-up-ramdisk", Repeat;
    /// Boot device or instance media set.
    PrepareInstance = "prepare-instance", Repeat;
    /// Server on, into its instance.
    BootInstance = "boot-instance", Repeat;
    /// Instance media out.
    CleanUpInstance = "clean-up-instance", Repeat;
    /// Everything published for the node taken back.
    Withdraw = "withdraw", Repeat;
    /// After a failure: server off.
    FailPowerOff = "power-off-after-failure", Repeat;
    /// After a failure: media out, floppy withdrawn.
    FailCleanUp = "clean-up-after-failure", Repeat;
    /// After an abort: server off.
    AbortPowerOff = "power-off-after-abort", Repeat;
    /// After an abort: media out, floppy withdrawn.
    AbortCleanUp = "clean-up-after-abort", Repeat;
    /// An operator's power request.
    Power = "power", Fail;
    /// An operator's ISO is booted.
    BootIntoIso = "boot-into-iso", Fail;
}

/// What comes after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum After {
    /// The next step.
    Step(Step),
    /// The ramdisk has to call back.
    Wait,
    /// The state's work is done.
    Done,
    /// What was to be cleaned up after a failure or an abort is.
    Failed,
}

impl Step {
    /// What comes after it in this state. `by_ramdisk`: a deployment that a ramdisk carries out (otherwise the instance
    /// runs from its boot ISO alone).
    pub(crate) fn after(self, state: ProvisionState, by_ramdisk: bool) -> After {
        use ProvisionState as S;
        After::Step(match (state, self) {
            (_, Self::FailPowerOff) => Self::FailCleanUp,
            (_, Self::AbortPowerOff) => Self::AbortCleanUp,
            (_, Self::FailCleanUp | Self::AbortCleanUp) => return After::Failed,

            (S::Deleting, Self::PowerOff) => Self::CleanUpRamdisk,
            (S::Deleting, Self::CleanUpRamdisk) => Self::CleanUpInstance,
            (S::Deleting, Self::CleanUpInstance) => Self::Withdraw,

            (S::Deploying, Self::PowerOff) if !by_ramdisk => Self::PrepareInstance,
            (_, Self::PowerOff) => Self::PrepareRamdisk,
            (_, Self::PrepareRamdisk) => Self::BootRamdisk,
            (_, Self::BootRamdisk) => return After::Wait,
            (_, Self::DeploySteps) => Self::WriteImage,
            (_, Self::WriteImage) => Self::Sync,
            (_, Self::Sync | Self::CleanSteps) => Self::AgentPowerOff,
            (_, Self::AgentPowerOff) => Self::CleanUpRamdisk,
            (S::Deploying, Self::CleanUpRamdisk) => Self::PrepareInstance,
            (_, Self::PrepareInstance) => Self::BootInstance,
            (
                _,
                Self::Verify
                | Self::CleanUpRamdisk
                | Self::BootInstance
                | Self::CleanUpInstance
                | Self::Withdraw
                | Self::Power
                | Self::BootIntoIso,
            ) => return After::Done,
        })
    }

    /// The step needs the ramdisk's agent to answer.
    pub(crate) fn needs_agent(self) -> bool {
        matches!(
            self,
            Self::DeploySteps | Self::WriteImage | Self::Sync | Self::CleanSteps
        )
    }

    /// Cleaning up after a failure or an abort: nothing stops it, and it cannot fail the state again.
    pub(crate) fn is_clean_up(self) -> bool {
        matches!(
            self,
            Self::FailPowerOff | Self::FailCleanUp | Self::AbortPowerOff | Self::AbortCleanUp
        )
    }
}

/// How a [`Repeat`] is spelled in the journal.
pub(crate) fn spell(repeat: Repeat) -> &'static str {
    match repeat {
        Repeat::Repeat => "repeat",
        Repeat::ObserveThenContinue => "observe-then-continue",
        Repeat::Fail => "fail",
    }
}

#[cfg(test)]
mod tests {
    use ProvisionState as S;

    use super::*;

    fn path(state: S, first: Step, by_ramdisk: bool) -> (Vec<&'static str>, After) {
        let mut names = vec![first.as_str()];
        let mut step = first;
        loop {
            match step.after(state, by_ramdisk) {
                After::Step(next) => {
                    names.push(next.as_str());
                    step = next;
                    assert!(names.len() < 20, "{names:?}");
                }
                end => return (names, end),
            }
        }
    }

    #[test]
    fn each_state_has_its_order_of_steps() {
        let prepare = vec!["power-off", "prepare-ramdisk", "boot-ramdisk"];
        assert_eq!(path(S::Deploying, Step::PowerOff, true), (prepare.clone(), After::Wait));
        assert_eq!(path(S::Cleaning, Step::PowerOff, true), (prepare, After::Wait));
        let deploy = [
            "deploy-steps",
            "write-image",
            "sync",
            "agent-power-off",
            "clean-up-ramdisk",
        ];
        let boot = ["prepare-instance", "boot-instance"];
        assert_eq!(
            path(S::Deploying, Step::DeploySteps, true),
            ([&deploy[..], &boot].concat(), After::Done)
        );
        assert_eq!(
            path(S::Deploying, Step::PowerOff, false),
            ([&["power-off"][..], &boot].concat(), After::Done)
        );
        let clean = vec!["clean-steps", "agent-power-off", "clean-up-ramdisk"];
        assert_eq!(path(S::Cleaning, Step::CleanSteps, true), (clean, After::Done));
        let delete = vec!["power-off", "clean-up-ramdisk", "clean-up-instance", "withdraw"];
        assert_eq!(path(S::Deleting, Step::PowerOff, true), (delete, After::Done));
        let fail = vec!["power-off-after-failure", "clean-up-after-failure"];
        assert_eq!(path(S::DeployWait, Step::FailPowerOff, true), (fail, After::Failed));
    }

    #[test]
    fn steps_parse_what_they_print() {
        for step in Step::ALL {
            assert_eq!(Step::parse(step.as_str()), Some(*step));
        }
        assert_eq!(Step::parse("dance"), None);
    }
}
