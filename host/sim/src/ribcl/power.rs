//! Power, the BMC's own reset, and the light that marks a server.

use super::Run;
use super::read::Element;
use super::write::UNLISTED;
use crate::server::{PowerCommand, PowerState};

type Done = Result<(), String>;

pub(super) fn status(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let state = match run.server.state().power {
        PowerState::On => "ON",
        PowerState::Off => "OFF",
    };
    run.answer
        .payload(&format!("<GET_HOST_POWER\n    HOST_POWER=\"{state}\"\n    />\n"));
    Ok(())
}

/// "No" is a press of the button for a moment, which asks the operating system to shut down.
pub(super) fn set_host_power(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    let on = boolean(element, "HOST_POWER")?;
    let power = run.server.state().power;
    match (on, power) {
        (true, PowerState::On) => run.answer.remark("Host power is already ON."),
        (false, PowerState::Off) => run.answer.remark("Host power is already OFF."),
        (true, PowerState::Off) => command(run, PowerCommand::On, "No error"),
        (false, PowerState::On) => command(run, PowerCommand::GracefulShutdown, "No error"),
    }
    Ok(())
}

/// `TOGGLE="No"` keeps a server that is off from being switched on.
pub(super) fn hold_button(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    let toggles = match element.attribute("TOGGLE") {
        None => true,
        Some(_) => boolean(element, "TOGGLE")?,
    };
    let power = run.server.state().power;
    match (power, toggles) {
        (PowerState::On, _) => command(run, PowerCommand::ForceOff, "No error"),
        (PowerState::Off, true) => command(run, PowerCommand::On, "No error"),
        (PowerState::Off, false) => run.answer.remark("Host power is already OFF."),
    }
    Ok(())
}

pub(super) fn press_button(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let power = run.server.state().power;
    match power {
        PowerState::On => command(run, PowerCommand::GracefulShutdown, "No error"),
        PowerState::Off => command(run, PowerCommand::On, "No error"),
    }
    Ok(())
}

pub(super) fn reset_server(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let power = run.server.state().power;
    match power {
        PowerState::On => command(run, PowerCommand::ForceRestart, "Server being reset."),
        PowerState::Off => run.answer.fail(UNLISTED, "Server is currently powered off."),
    }
    Ok(())
}

fn command(run: &mut Run<'_>, command: PowerCommand, done: &str) {
    match run.server.power.try_send(command) {
        Ok(()) => run.answer.remark(done),
        Err(_) => run.answer.fail(UNLISTED, "Power management is busy. Try again later."),
    }
}

pub(super) fn reset_bmc(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    run.resets = true;
    run.answer
        .inform("Integrated Lights-Out will reset at the end of the script.");
    Ok(())
}

pub(super) fn uid(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let state = if run.server.state().ribcl.uid { "ON" } else { "OFF" };
    run.answer.payload(&format!("<GET_UID_STATUS UID=\"{state}\"/>\n"));
    Ok(())
}

pub(super) fn set_uid(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    let on = boolean(element, "UID")?;
    run.server.state().ribcl.uid = on;
    run.answer.fine();
    Ok(())
}

/// What RIBCL takes for yes and no.
fn boolean(element: &Element, name: &str) -> Result<bool, String> {
    let value = element.attribute(name).ok_or_else(|| element.name.clone())?;
    match value.to_ascii_lowercase().as_str() {
        "yes" | "y" | "true" | "t" | "1" => Ok(true),
        "no" | "n" | "false" | "f" | "0" => Ok(false),
        _ => Err(value),
    }
}
