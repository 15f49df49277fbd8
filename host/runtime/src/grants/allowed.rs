//! What one plugin may do on this site: what it asks for, and of that what it was granted.

use super::{Given, Grants};
use crate::DriverError;
use crate::calls::HostCall;

/// Both sides. A host call must be in both; scopes that are patterns are held against both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed {
    pub(crate) granted: Grants,
    /// `None`: it has no manifest, so it asks for what it imports, in any scope.
    pub(crate) requested: Option<Grants>,
}

impl Allowed {
    /// Refuses what was not granted, and what was not asked for.
    pub(crate) fn check(&self, call: &HostCall, given: &Given) -> Result<(), DriverError> {
        self.granted.check(call, given)?;
        match &self.requested {
            Some(requested) => requested.check(call, given),
            None => Ok(()),
        }
    }

    /// Whether this backend may be offered to the plugin.
    pub(crate) fn allows_backend(&self, id: &str) -> bool {
        self.granted.allows_backend(id) && self.requested.as_ref().is_none_or(|asked| asked.allows_backend(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Device;

    #[test]
    fn a_call_must_be_asked_for_and_granted() {
        let grants = |json: &str| serde_json::from_str::<Grants>(json).unwrap();
        let allowed = Allowed {
            granted: grants(r#"{"bmc":["eject"],"storage":{"backends":["a","b"]}}"#),
            requested: Some(grants(
                r#"{"bmc":["eject","media-state"],"storage":{"backends":["b","c"]}}"#,
            )),
        };
        let check = |call: HostCall| allowed.check(&call, &Given::default());
        assert_eq!(check(HostCall::Eject { device: Device::Cdrom }), Ok(()));
        let denied = |name: &str| Err(DriverError::Denied(name.to_owned()));
        let state = HostCall::MediaState { device: Device::Cdrom };
        assert_eq!(check(state), denied("bmc.media-state"), "not granted");
        let unasked = Allowed {
            requested: Some(Grants::default()),
            ..allowed.clone()
        };
        let eject = HostCall::Eject { device: Device::Cdrom };
        assert_eq!(unasked.check(&eject, &Given::default()), denied("bmc.eject"));
        let backends: Vec<&str> = ["a", "b", "c"]
            .into_iter()
            .filter(|id| allowed.allows_backend(id))
            .collect();
        assert_eq!(backends, ["b"]);
    }
}
