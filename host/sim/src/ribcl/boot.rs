//! What the server boots from, and its firmware mode.

use super::Run;
use super::read::Element;
use super::write::{NOT_SUPPORTED, UNLISTED, escaped};
use crate::config::BootMode;
use crate::profile::{BootForm, BootMeaning, BootModes, BootTarget};
use crate::server::{OverrideEnabled, State};

type Done = Result<(), String>;

/// Names of boot devices, and what firmware boots for each. FLOPPY and USB are one device to the servers behind.
const DEVICES: &[(&str, BootTarget)] = &[
    ("CDROM", BootTarget::Cd),
    ("USB", BootTarget::Usb),
    ("FLOPPY", BootTarget::Usb),
    ("HDD", BootTarget::Hdd),
    ("NETWORK", BootTarget::Pxe),
    ("NETWORK1", BootTarget::Pxe),
    ("RBSU", BootTarget::Setup),
];

/// What UEFI calls them.
const OPTIONS: &[(&str, BootTarget, &str)] = &[
    (
        "Boot000B",
        BootTarget::Cd,
        "iLO Virtual USB 2 : HP iLO Virtual USB CD/DVD ROM",
    ),
    (
        "Boot000A",
        BootTarget::Usb,
        "iLO Virtual USB 1 : HP iLO Virtual USB Key",
    ),
    (
        "Boot0007",
        BootTarget::Hdd,
        "Embedded RAID 1 : Smart Array P440ar Controller - 279.37 GiB, RAID 1 Logical Drive(Target:0, Lun:0)",
    ),
    (
        "Boot0009",
        BootTarget::Pxe,
        "Embedded LOM 1 Port 1 : HP Ethernet 1Gb 4-port 331i Adapter - NIC (PXE IPv4) ",
    ),
];

pub(super) fn once(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let profile = run.server.config.profile;
    let now = {
        let state = run.server.state();
        let boot = &state.boot_override;
        let meaning = profile
            .boot_targets
            .get(&boot.target)
            .and_then(|meaning| meaning.target());
        meaning.filter(|_| boot.enabled == OverrideEnabled::Once)
    };
    let name = now.and_then(|target| DEVICES.iter().find(|(_, of)| *of == target));
    run.answer.payload(&match profile.ribcl.boot_form {
        BootForm::Attributes => format!(
            "<GET_ONE_TIME_BOOT>\n<BOOT_TYPE DEVICE=\"{}\"/>\n</GET_ONE_TIME_BOOT>\n",
            name.map_or("NORMAL", |(name, _)| name)
        ),
        BootForm::Elements => format!(
            "<ONE_TIME_BOOT>\n<BOOT_TYPE VALUE=\"{}\"/>\n</ONE_TIME_BOOT>\n",
            name.map_or("Normal", |(name, _)| name)
        ),
    });
    Ok(())
}

pub(super) fn set_once(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    let value = element.attribute("VALUE").ok_or_else(|| element.name.clone())?;
    let wanted = if value.eq_ignore_ascii_case("NORMAL") {
        None
    } else {
        Some(target(&value).ok_or(value)?)
    };
    if in_post(run) {
        return Ok(());
    }
    let targets = &run.server.config.profile.boot_targets;
    let named = targets
        .iter()
        .find(|(_, meaning)| meaning.target() == wanted && **meaning != BootMeaning::Absent);
    let mut state = run.server.state();
    let boot = &mut state.boot_override;
    match (wanted, named) {
        (None, _) => {
            boot.target = "None".into();
            boot.enabled = OverrideEnabled::Disabled;
        }
        (Some(_), Some((name, _))) => {
            boot.target = name.clone();
            boot.enabled = OverrideEnabled::Once;
        }
        (Some(_), None) => {
            drop(state);
            run.answer
                .fail(NOT_SUPPORTED, "Feature not supported - SET_ONE_TIME_BOOT");
            return Ok(());
        }
    }
    drop(state);
    run.answer.fine();
    Ok(())
}

pub(super) fn order(run: &mut Run<'_>, _: &Element, _: &[Element]) -> Done {
    let (order, mode) = {
        let state = run.server.state();
        (whole_order(&state), state.boot_mode())
    };
    let plain = |target: &BootTarget| DEVICES.iter().find(|(_, of)| of == target).map(|(name, _)| *name);
    let text = match (run.server.config.profile.ribcl.boot_form, mode) {
        (BootForm::Attributes, _) => {
            let places = order.iter().filter_map(plain).zip(1..);
            let places: Vec<String> = places.map(|(name, place)| format!("{name} = \"{place}\"")).collect();
            format!("<GET_PERSISTENT_BOOT\n    {}\n    />\n", places.join(" "))
        }
        (BootForm::Elements, BootMode::LegacyBios) => {
            let devices = order.iter().filter_map(plain);
            let devices: String = devices.map(|name| format!("<DEVICE value=\"{name}\"/>\n")).collect();
            format!("<PERSISTENT_BOOT>\n{devices}</PERSISTENT_BOOT>\n")
        }
        (BootForm::Elements, BootMode::Uefi) => {
            let options = order
                .iter()
                .filter_map(|target| OPTIONS.iter().find(|(_, of, _)| of == target));
            let devices: String = options
                .map(|(name, _, about)| format!("<DEVICE value=\"{name}\" DESCRIPTION=\"{}\"/>\n", escaped(about)))
                .collect();
            format!("<PERSISTENT_BOOT>\n{devices}</PERSISTENT_BOOT>\n")
        }
    };
    run.answer.payload(&text);
    Ok(())
}

/// What is not named keeps its place behind what is.
pub(super) fn set_order(run: &mut Run<'_>, element: &Element, children: &[Element]) -> Done {
    let mut order = Vec::new();
    for child in children {
        let value = child.attribute("VALUE").filter(|_| child.name == "DEVICE");
        let value = value.ok_or_else(|| child.name.clone())?;
        order.push(
            target(&value)
                .filter(|target| *target != BootTarget::Setup)
                .ok_or(value)?,
        );
    }
    if order.is_empty() {
        return Err(element.name.clone());
    }
    if in_post(run) {
        return Ok(());
    }
    let mut state = run.server.state();
    order.extend(whole_order(&state));
    let mut seen = Vec::new();
    order.retain(|target| {
        let new = !seen.contains(target);
        seen.push(*target);
        new
    });
    state.boot_order = order;
    drop(state);
    run.answer.fine();
    Ok(())
}

pub(super) fn current_mode(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    let mode = run.server.state().boot_mode();
    tell_mode(run, element, "BOOT_MODE", mode_name(mode))
}

pub(super) fn pending_mode(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    let mode = run.server.state().next_boot_mode();
    tell_mode(run, element, "BOOT_MODE", mode_name(mode))
}

pub(super) fn supported_mode(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    tell_mode(run, element, "SUPPORTED_BOOT_MODE", "LEGACY_UEFI")
}

pub(super) fn set_mode(run: &mut Run<'_>, element: &Element, _: &[Element]) -> Done {
    if !knows_modes(run, element)? {
        return Ok(());
    }
    let value = element.attribute("VALUE").ok_or_else(|| element.name.clone())?;
    let mode = match value.to_ascii_uppercase().as_str() {
        "UEFI" => BootMode::Uefi,
        "LEGACY" => BootMode::LegacyBios,
        _ => return Err(value),
    };
    if in_post(run) {
        return Ok(());
    }
    run.server.state().set_next_boot_mode(mode);
    run.answer.fine();
    Ok(())
}

fn tell_mode(run: &mut Run<'_>, element: &Element, inner: &str, value: &str) -> Done {
    if knows_modes(run, element)? {
        let name = &element.name;
        run.answer
            .payload(&format!("<{name}>\n    <{inner} VALUE=\"{value}\"/>\n</{name}>\n"));
    }
    Ok(())
}

/// `Ok(false)`: it was answered that there is no such feature.
fn knows_modes(run: &mut Run<'_>, element: &Element) -> Result<bool, String> {
    match run.server.config.profile.ribcl.boot_modes {
        BootModes::Both => Ok(true),
        BootModes::Unknown => Err(element.name.clone()),
        BootModes::Unsupported => {
            let message = format!("Feature not supported - {}", element.name);
            run.answer.fail(NOT_SUPPORTED, &message);
            Ok(false)
        }
    }
}

fn mode_name(mode: BootMode) -> &'static str {
    match mode {
        BootMode::Uefi => "UEFI",
        BootMode::LegacyBios => "LEGACY",
    }
}

/// Whether it was answered that firmware variables cannot be reached during POST.
fn in_post(run: &mut Run<'_>) -> bool {
    let refused = run.server.config.profile.redfish.boot.refused_in_post && run.server.state().post.in_post();
    if refused {
        run.answer.fail(UNLISTED, "Post in progress, EV unavailable.");
    }
    refused
}

/// The boot order with what it leaves out at its end, as firmware lists it.
fn whole_order(state: &State) -> Vec<BootTarget> {
    let mut order = state.boot_order.clone();
    for (_, target, _) in OPTIONS {
        if !order.contains(target) {
            order.push(*target);
        }
    }
    order
}

fn target(value: &str) -> Option<BootTarget> {
    let device = DEVICES.iter().find(|(name, _)| value.eq_ignore_ascii_case(name));
    let option = OPTIONS.iter().find(|(name, ..)| value.eq_ignore_ascii_case(name));
    device
        .map(|(_, target)| *target)
        .or(option.map(|(_, target, _)| *target))
}
