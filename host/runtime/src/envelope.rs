//! What no grant can allow: a server that runs somebody's instance is left alone, unless an operator's request began the call.

use crate::calls::HostCall;
use crate::{CallContext, DriverError};

/// What the envelope says of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Go on.
    Allowed,
    /// Never on an active node.
    Forbidden,
    /// Only while the slot is empty: look first.
    IfSlotIsEmpty,
    /// Only if no other bytes are replaced.
    IfNothingIsReplaced,
}

/// The answer to what is forbidden.
pub(crate) fn refusal() -> DriverError {
    DriverError::Denied("active node".to_owned())
}

/// Decides without looking at the world.
pub(crate) fn verdict(call: &HostCall, context: &CallContext) -> Verdict {
    if context.by_operator || !context.node.provision_state.is_active() {
        return Verdict::Allowed;
    }
    match call {
        HostCall::Eject { .. }
        | HostCall::SetBootDevice { .. }
        | HostCall::SetBootMode { .. }
        | HostCall::SetSecureBoot { .. }
        | HostCall::SetPower { .. }
        // What an instance boots from must not vanish under it either.
        | HostCall::Withdraw { .. } => Verdict::Forbidden,
        HostCall::Insert { .. } => Verdict::IfSlotIsEmpty,
        HostCall::Publish { .. } => Verdict::IfNothingIsReplaced,
        HostCall::Redfish { .. } | HostCall::Ribcl { .. } if call.is_effect() => Verdict::Forbidden,
        // Reads, and calls of other plugins: those have an envelope of their own.
        _ => Verdict::Allowed,
    }
}
