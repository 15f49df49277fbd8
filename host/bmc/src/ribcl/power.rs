//! Power by RIBCL, absolute throughout: the state is read first, and no button is pressed that might mean the opposite.

use model::{PowerAction, PowerState};

use super::talk::Talk;
use crate::BmcError;

impl Talk<'_> {
    pub(super) async fn power_state(&mut self) -> Result<PowerState, BmcError> {
        let answer = self.call("GET_HOST_POWER_STATUS", &[]).await?;
        let state = answer.attribute("HOST_POWER").map(str::to_ascii_uppercase);
        Ok(match state.as_deref() {
            Some("ON") => PowerState::On,
            Some("OFF") => PowerState::Off,
            _ => PowerState::Unknown,
        })
    }

    pub(super) async fn set_power(&mut self, action: PowerAction) -> Result<(), BmcError> {
        let now = self.power_state().await?;
        let (wanted, command, arguments): (_, _, &[(&str, &str)]) = match (action, now) {
            (PowerAction::On, PowerState::On) | (PowerAction::Off | PowerAction::SoftOff, PowerState::Off) => {
                return Ok(());
            }
            // A server that is off cannot be reset; what is meant is that it starts.
            (PowerAction::On, _) | (PowerAction::ForceRestart | PowerAction::SoftRestart, PowerState::Off) => {
                (Some(PowerState::On), "SET_HOST_POWER", &[("HOST_POWER", "Yes")])
            }
            // Held down, it ends in "off" from wherever it starts; `TOGGLE="NO"` keeps it from powering on again.
            (PowerAction::Off, _) => (Some(PowerState::Off), "HOLD_PWR_BTN", &[("TOGGLE", "NO")]),
            (PowerAction::SoftOff, _) => (Some(PowerState::Off), "SET_HOST_POWER", &[("HOST_POWER", "No")]),
            (PowerAction::ForceRestart, _) => (None, "RESET_SERVER", &[]),
            (PowerAction::SoftRestart, _) => {
                let reason = "RIBCL cannot ask the operating system to restart: shut down, then power on";
                return Err(self.unsupported(reason));
            }
        };
        match self.call(command, arguments).await {
            Ok(_) => Ok(()),
            // A lost answer may have been a yes, and the server may have got there by itself.
            Err(error) => match self.power_state().await {
                Ok(now) if Some(now) == wanted => Ok(()),
                _ => Err(error),
            },
        }
    }
}
