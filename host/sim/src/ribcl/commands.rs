//! Which commands there are, in which wrapper, and what carries each out.

use super::read::Element;
use super::{Run, boot, identity, media, power};

/// One command.
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) wrapper: &'static str,
    /// It takes `MODE="write"`.
    pub(super) writes: bool,
    /// The licence decides whether there is such a thing.
    pub(super) licensed: bool,
    /// Answers with exactly one document at least. The error is the word that makes no sense, after nothing was answered.
    pub(super) run: Action,
}

type Action = fn(&mut Run<'_>, &Element, &[Element]) -> Result<(), String>;

const RIB: &str = "RIB_INFO";
const SERVER: &str = "SERVER_INFO";
const USER: &str = "USER_INFO";

const fn reads(wrapper: &'static str, name: &'static str, run: Action) -> Command {
    Command {
        name,
        wrapper,
        writes: false,
        licensed: false,
        run,
    }
}

const fn writes(wrapper: &'static str, name: &'static str, run: Action) -> Command {
    Command {
        writes: true,
        ..reads(wrapper, name, run)
    }
}

const fn licensed(command: Command) -> Command {
    Command {
        licensed: true,
        ..command
    }
}

static COMMANDS: &[Command] = &[
    licensed(reads(RIB, "GET_VM_STATUS", media::status)),
    licensed(writes(RIB, "SET_VM_STATUS", media::set_status)),
    licensed(writes(RIB, "INSERT_VIRTUAL_MEDIA", media::insert)),
    licensed(writes(RIB, "EJECT_VIRTUAL_MEDIA", media::eject)),
    reads(RIB, "GET_FW_VERSION", identity::firmware),
    reads(RIB, "GET_ALL_LICENSES", identity::licences),
    reads(RIB, "GET_NETWORK_SETTINGS", identity::network),
    writes(RIB, "RESET_RIB", power::reset_bmc),
    reads(SERVER, "GET_PRODUCT_NAME", identity::product),
    reads(SERVER, "GET_SERVER_NAME", identity::server_name),
    reads(SERVER, "GET_HOST_DATA", identity::host_data),
    reads(SERVER, "GET_EMBEDDED_HEALTH", identity::health),
    reads(SERVER, "GET_UID_STATUS", power::uid),
    writes(SERVER, "UID_CONTROL", power::set_uid),
    reads(SERVER, "GET_HOST_POWER_STATUS", power::status),
    writes(SERVER, "SET_HOST_POWER", power::set_host_power),
    writes(SERVER, "HOLD_PWR_BTN", power::hold_button),
    writes(SERVER, "PRESS_PWR_BTN", power::press_button),
    writes(SERVER, "RESET_SERVER", power::reset_server),
    writes(SERVER, "COLD_BOOT_SERVER", power::reset_server),
    writes(SERVER, "WARM_BOOT_SERVER", power::reset_server),
    reads(SERVER, "GET_ONE_TIME_BOOT", boot::once),
    writes(SERVER, "SET_ONE_TIME_BOOT", boot::set_once),
    reads(SERVER, "GET_PERSISTENT_BOOT", boot::order),
    writes(SERVER, "SET_PERSISTENT_BOOT", boot::set_order),
    reads(SERVER, "GET_CURRENT_BOOT_MODE", boot::current_mode),
    reads(SERVER, "GET_PENDING_BOOT_MODE", boot::pending_mode),
    reads(SERVER, "GET_SUPPORTED_BOOT_MODE", boot::supported_mode),
    writes(SERVER, "SET_PENDING_BOOT_MODE", boot::set_mode),
    reads(USER, "GET_USER", identity::user),
];

/// Whether commands stand in this.
pub(super) fn is_wrapper(name: &str) -> bool {
    [RIB, SERVER, USER].contains(&name)
}

/// The command of that name in that wrapper. Case matters.
pub(super) fn find(name: &str, wrapper: &str) -> Option<&'static Command> {
    COMMANDS
        .iter()
        .find(|command| command.name == name && command.wrapper == wrapper)
}
