//! What RIBCL's status codes mean to a caller, as data.

use model::BmcAddress;

use super::answer::Status;
use super::commands::Command;
use crate::{BmcError, text};

/// What can be done about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    /// User, password or privileges.
    Login,
    /// The licence.
    License,
    /// Again, later.
    Busy,
    /// This firmware knows no such command.
    Unknown,
    /// The licence where the command needs one, else the firmware or the server.
    NotSupported,
    /// A definite no.
    Refused,
}

/// The codes that are told apart; every other one is a definite no.
static CODES: &[(u32, Cause)] = &[
    // "Syntax error" is also the answer to a command that a firmware does not know, or knows in another wrapper.
    (0x0001, Cause::Unknown),
    (0x000A, Cause::Login),
    (0x0023, Cause::Login),
    (0x002E, Cause::License),
    (0x0035, Cause::Refused),
    (0x003C, Cause::NotSupported),
    (0x005F, Cause::Login),
    (0x006D, Cause::Refused),
    (0x0088, Cause::Busy),
];

/// Words of a message that tell more than a code that is not listed.
static WORDS: &[(&str, Cause)] = &[
    ("license", Cause::License),
    ("licence", Cause::License),
    ("privilege", Cause::Login),
    ("try again", Cause::Busy),
    ("busy", Cause::Busy),
    ("in progress", Cause::Busy),
    ("not supported", Cause::NotSupported),
];

/// What a failure means.
pub(super) fn cause(status: &Status) -> Cause {
    let message = status.message.to_ascii_lowercase();
    if let Some((_, cause)) = CODES.iter().find(|(code, _)| *code == status.code) {
        return *cause;
    }
    let told = WORDS.iter().find(|(word, _)| message.contains(word));
    told.map_or(Cause::Refused, |(_, cause)| *cause)
}

/// The error that a caller sees.
pub(super) fn error(
    status: &Status,
    command: &Command,
    address: &BmcAddress,
    action: &'static str,
    hide: &[String],
) -> BmcError {
    let address = address.clone();
    let message = text::fit(&status.message, hide);
    let name = command.name;
    let reason = format!("status 0x{:04X} to {name}: {message}", status.code);
    match cause(status) {
        Cause::Login => BmcError::Login { address, action },
        Cause::License => BmcError::License { address, action },
        Cause::NotSupported if command.licensed => BmcError::License { address, action },
        Cause::Busy => BmcError::Busy {
            address,
            action,
            reason,
            retry_after: None,
        },
        Cause::Unknown | Cause::NotSupported => BmcError::Unsupported {
            address,
            action,
            reason,
        },
        Cause::Refused => BmcError::Refused {
            address,
            action,
            reason,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::commands::find;
    use super::*;

    fn kind(code: u32, message: &str, command: &str) -> &'static str {
        let status = Status {
            code,
            message: message.to_owned(),
        };
        let address = BmcAddress("https://192.0.2.1".to_owned());
        match error(&status, find(command).unwrap(), &address, "answer", &[]) {
            BmcError::Login { .. } => "login",
            BmcError::License { .. } => "license",
            BmcError::Busy { .. } => "busy",
            BmcError::Unsupported { .. } => "unsupported",
            BmcError::Refused { .. } => "refused",
            other => panic!("{other}"),
        }
    }

    #[test]
    fn every_code_becomes_what_a_caller_can_do_about_it() {
        for (code, message, command, want) in [
            (0x0001, "Syntax error: Line #0: ", "GET_PRODUCT_NAME", "unsupported"),
            (0x000A, "User NOT found.", "GET_FW_VERSION", "login"),
            (
                0x0023,
                "User does NOT have correct privilege for action.",
                "SET_HOST_POWER",
                "login",
            ),
            (0x002E, "License key error.", "INSERT_VIRTUAL_MEDIA", "license"),
            (
                0x0035,
                "An invalid Virtual Media option has been given.",
                "SET_VM_STATUS",
                "refused",
            ),
            (0x003C, "Feature not supported", "INSERT_VIRTUAL_MEDIA", "license"),
            (0x003C, "Feature not supported", "GET_VM_STATUS", "license"),
            (0x003C, "Feature not supported", "GET_PENDING_BOOT_MODE", "unsupported"),
            (0x005F, "Login failed.", "GET_FW_VERSION", "login"),
            (0x006D, "Not configured.", "GET_HOST_DATA", "refused"),
            (0x0088, "Generating a CSR.", "GET_FW_VERSION", "busy"),
            (0x0FFF, "iLO is busy, try again later", "GET_FW_VERSION", "busy"),
            (0x0FFF, "This needs an Advanced License", "GET_FW_VERSION", "license"),
            (0x0FFF, "who knows", "GET_FW_VERSION", "refused"),
        ] {
            assert_eq!(kind(code, message, command), want, "{code:#06x} {message} {command}");
        }
    }
}
