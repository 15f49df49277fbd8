//! RIBCL's commands as data: in which wrapper each stands, what it takes, and what a refusal of it means. One row a command;
//! whoever needs another adds a row.

/// One command.
#[derive(Debug)]
pub(crate) struct Command {
    /// Element name.
    pub(crate) name: &'static str,
    /// The element around it.
    pub(crate) wrapper: &'static str,
    /// It changes something: `MODE="write"` on the wrapper.
    pub(crate) writes: bool,
    /// Twice does what once does.
    pub(crate) repeatable: bool,
    /// Firmware answers "feature not supported" when the licence does not cover it.
    pub(crate) licensed: bool,
    /// What it takes.
    pub(crate) parameters: &'static [Parameter],
}

/// One thing that a command takes.
#[derive(Debug)]
pub(crate) struct Parameter {
    /// Attribute or element name.
    pub(crate) name: &'static str,
    /// Where it is written.
    pub(crate) place: Place,
    /// It cannot be left out.
    pub(crate) required: bool,
}

/// Where a parameter is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// `<COMMAND NAME="value"/>`
    Attribute,
    /// `<COMMAND><NAME VALUE="value"/></COMMAND>`
    Child,
    /// The same, as often as it is given, in the order given.
    Children,
}

const RIB: &str = "RIB_INFO";
const SERVER: &str = "SERVER_INFO";

const fn reads(wrapper: &'static str, name: &'static str, parameters: &'static [Parameter]) -> Command {
    Command {
        name,
        wrapper,
        writes: false,
        repeatable: true,
        licensed: false,
        parameters,
    }
}

const fn writes(wrapper: &'static str, name: &'static str, parameters: &'static [Parameter]) -> Command {
    Command {
        writes: true,
        ..reads(wrapper, name, parameters)
    }
}

/// The licence decides whether there is virtual media at all.
const fn licensed(command: Command) -> Command {
    Command {
        licensed: true,
        ..command
    }
}

/// Twice is not once.
const fn once(command: Command) -> Command {
    Command {
        repeatable: false,
        ..command
    }
}

const fn needs(name: &'static str, place: Place) -> Parameter {
    Parameter {
        name,
        place,
        required: true,
    }
}

const fn takes(name: &'static str, place: Place) -> Parameter {
    Parameter {
        name,
        place,
        required: false,
    }
}

use Place::{Attribute, Child, Children};

/// `CDROM` or `FLOPPY`.
const DEVICE: Parameter = needs("DEVICE", Attribute);
const VALUE: Parameter = needs("VALUE", Attribute);

/// All of them.
pub(crate) static COMMANDS: &[Command] = &[
    licensed(writes(
        RIB,
        "INSERT_VIRTUAL_MEDIA",
        &[DEVICE, needs("IMAGE_URL", Attribute)],
    )),
    licensed(writes(
        RIB,
        "SET_VM_STATUS",
        &[DEVICE, takes("VM_BOOT_OPTION", Child), takes("VM_WRITE_PROTECT", Child)],
    )),
    licensed(writes(RIB, "EJECT_VIRTUAL_MEDIA", &[DEVICE])),
    licensed(reads(RIB, "GET_VM_STATUS", &[DEVICE])),
    reads(RIB, "GET_FW_VERSION", &[]),
    reads(RIB, "GET_ALL_LICENSES", &[]),
    reads(RIB, "GET_NETWORK_SETTINGS", &[]),
    reads(RIB, "GET_GLOBAL_SETTINGS", &[]),
    once(writes(RIB, "RESET_RIB", &[])),
    reads(SERVER, "GET_PRODUCT_NAME", &[]),
    reads(SERVER, "GET_SERVER_NAME", &[]),
    reads(SERVER, "GET_HOST_DATA", &[]),
    reads(SERVER, "GET_EMBEDDED_HEALTH", &[]),
    reads(SERVER, "GET_UID_STATUS", &[]),
    reads(SERVER, "GET_HOST_POWER_STATUS", &[]),
    reads(SERVER, "GET_ONE_TIME_BOOT", &[]),
    reads(SERVER, "GET_PERSISTENT_BOOT", &[]),
    reads(SERVER, "GET_PENDING_BOOT_MODE", &[]),
    reads(SERVER, "GET_CURRENT_BOOT_MODE", &[]),
    reads(SERVER, "GET_SUPPORTED_BOOT_MODE", &[]),
    writes(SERVER, "SET_HOST_POWER", &[needs("HOST_POWER", Attribute)]),
    once(writes(SERVER, "RESET_SERVER", &[])),
    writes(SERVER, "HOLD_PWR_BTN", &[takes("TOGGLE", Attribute)]),
    writes(SERVER, "UID_CONTROL", &[needs("UID", Attribute)]),
    writes(SERVER, "SET_ONE_TIME_BOOT", &[VALUE]),
    writes(SERVER, "SET_PENDING_BOOT_MODE", &[VALUE]),
    writes(SERVER, "SET_PERSISTENT_BOOT", &[needs("DEVICE", Children)]),
];

/// The row of a command; its name in any case.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_command_stands_once_and_says_in_its_name_what_it_does() {
        let names: BTreeSet<&str> = COMMANDS.iter().map(|command| command.name).collect();
        assert_eq!(names.len(), COMMANDS.len());
        for command in COMMANDS {
            assert_eq!(command.writes, !command.name.starts_with("GET_"), "{}", command.name);
        }
        assert_eq!(find("get_vm_status").map(|command| command.name), Some("GET_VM_STATUS"));
        assert!(find("GET_VM_STATUS/><RESET_SERVER").is_none());
    }
}
