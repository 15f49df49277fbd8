//! Power, by absolute verbs only: what is already so is a success, and nothing is ever toggled.

use model::{PowerAction, PowerState};
use reqwest::Method;
use serde_json::{Value, json};

use super::Dialect;
use super::json::{link, text, texts};
use super::turn::{Again, Turn};
use crate::BmcError;

impl Turn {
    pub(super) async fn power_state(&mut self) -> Result<PowerState, BmcError> {
        Ok(state(&self.system().await?.1))
    }

    pub(super) async fn set_power(&mut self, action: PowerAction) -> Result<(), BmcError> {
        let (path, system) = self.system().await?;
        let Some(wishes) = wishes(action, state(&system)) else {
            return Ok(());
        };
        let (target, body) = match (
            text(&system, &["Actions", "#ComputerSystem.Reset", "target"]),
            self.bmc.dialect,
        ) {
            (Some(target), _) => {
                let allowed = self.allowed_resets(&system).await?;
                let kind = self.choose(wishes, allowed.as_deref())?;
                (target.to_owned(), json!({"ResetType": kind}))
            }
            (None, Dialect::Ris) => (path, self.ris_reset(&system, action, wishes)?),
            (None, Dialect::Redfish) => {
                return Err(self.unsupported("its system offers no ComputerSystem.Reset"));
            }
        };
        // A restart that is sent twice restarts twice.
        let again = match action {
            PowerAction::On | PowerAction::Off | PowerAction::SoftOff => Again::Freely,
            PowerAction::ForceRestart | PowerAction::SoftRestart => Again::IfUndone,
        };
        match self.change(Method::POST, &target, &body, again).await {
            Ok(_) => Ok(()),
            Err(why) => {
                // A lost answer may have been a yes, and the server may have got there by itself.
                let wanted = match action {
                    PowerAction::On => PowerState::On,
                    PowerAction::Off | PowerAction::SoftOff => PowerState::Off,
                    PowerAction::ForceRestart | PowerAction::SoftRestart => return Err(self.unchanged(why)),
                };
                match self.power_state().await {
                    Ok(now) if now == wanted => Ok(()),
                    _ => Err(self.unchanged(why)),
                }
            }
        }
    }

    /// The first wish that is allowed; the first one where nothing is said about it.
    fn choose(&self, wishes: &[&'static str], allowed: Option<&[String]>) -> Result<&'static str, BmcError> {
        let Some(allowed) = allowed else {
            return Ok(wishes[0]);
        };
        let chosen = wishes.iter().find(|wish| allowed.iter().any(|name| name == *wish));
        chosen.copied().ok_or_else(|| {
            let (allowed, wishes) = (allowed.join(", "), wishes.join(" or "));
            self.unsupported(format!("it allows {allowed} and not {wishes}"))
        })
    }

    /// RIS takes actions at the resource itself. An iLO 4 that cannot force off by a reset holds the button down, which ends in
    /// "off" from wherever it starts; it is never pressed for a moment, since that may mean "on".
    fn ris_reset(&self, system: &Value, action: PowerAction, wishes: &[&'static str]) -> Result<Value, BmcError> {
        let allowed = ris_resets(system);
        match self.choose(wishes, allowed.as_deref()) {
            Ok(kind) => Ok(json!({"Action": "Reset", "ResetType": kind})),
            Err(_) if action == PowerAction::Off => {
                Ok(json!({"Action": "PowerButton", "Target": "/Oem/Hp", "PushType": "PressAndHold"}))
            }
            Err(error) => Err(error),
        }
    }

    async fn allowed_resets(&mut self, system: &Value) -> Result<Option<Vec<String>>, BmcError> {
        const ACTION: [&str; 2] = ["Actions", "#ComputerSystem.Reset"];
        let [a, b] = ACTION;
        if let Some(allowed) = texts(system, &[a, b, "ResetType@Redfish.AllowableValues"]) {
            return Ok(Some(allowed));
        }
        let info = text(system, &[a, b, "@Redfish.ActionInfo"]).map(str::to_owned);
        let Some(info) = info.or_else(|| link(system, &[a, b, "@Redfish.ActionInfo"])) else {
            return Ok(None);
        };
        let info = self.get(&info).await?;
        let parameters = info.get("Parameters").and_then(Value::as_array);
        let reset = parameters
            .into_iter()
            .flatten()
            .find(|parameter| text(parameter, &["Name"]) == Some("ResetType"));
        Ok(reset.and_then(|parameter| texts(parameter, &["AllowableValues"])))
    }
}

/// `AvailableActions` of RIS.
fn ris_resets(system: &Value) -> Option<Vec<String>> {
    let actions = system.get("AvailableActions").and_then(Value::as_array)?;
    let reset = actions
        .iter()
        .find(|action| text(action, &["Action"]) == Some("Reset"))?;
    let capabilities = reset.get("Capabilities").and_then(Value::as_array)?;
    let kinds = capabilities
        .iter()
        .find(|of| text(of, &["PropertyName"]) == Some("ResetType"))?;
    texts(kinds, &["AllowableValues"])
}

fn state(system: &Value) -> PowerState {
    // Early firmwares of iLO 4 call it `Power`.
    match text(system, &["PowerState"]).or_else(|| text(system, &["Power"])) {
        Some("On") => PowerState::On,
        Some("Off") => PowerState::Off,
        // PoweringOn, PoweringOff, Paused, or nothing at all.
        _ => PowerState::Unknown,
    }
}

/// The reset types that do it, best first; `None` if there is nothing to do.
fn wishes(action: PowerAction, now: PowerState) -> Option<&'static [&'static str]> {
    match (action, now) {
        (PowerAction::On, PowerState::On) | (PowerAction::Off | PowerAction::SoftOff, PowerState::Off) => None,
        // A server that is off cannot be reset; what is meant is that it starts.
        (PowerAction::On, _) | (PowerAction::ForceRestart | PowerAction::SoftRestart, PowerState::Off) => {
            Some(&["On", "ForceOn"])
        }
        (PowerAction::Off, _) => Some(&["ForceOff"]),
        (PowerAction::SoftOff, _) => Some(&["GracefulShutdown"]),
        (PowerAction::ForceRestart, _) => Some(&["ForceRestart"]),
        (PowerAction::SoftRestart, _) => Some(&["GracefulRestart"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_reads_before_it_writes_and_never_toggles() {
        use PowerAction::*;
        let off = PowerState::Off;
        for (action, now, want) in [
            (On, PowerState::On, None),
            (On, off, Some("On")),
            (On, PowerState::Unknown, Some("On")),
            (Off, off, None),
            (Off, PowerState::On, Some("ForceOff")),
            (Off, PowerState::Unknown, Some("ForceOff")),
            (SoftOff, off, None),
            (SoftOff, PowerState::On, Some("GracefulShutdown")),
            (ForceRestart, PowerState::On, Some("ForceRestart")),
            (ForceRestart, off, Some("On")),
            (SoftRestart, PowerState::On, Some("GracefulRestart")),
            (SoftRestart, off, Some("On")),
        ] {
            assert_eq!(wishes(action, now).map(|wishes| wishes[0]), want, "{action:?} {now:?}");
        }
    }
}
