//! What a site lets a plugin do. Log, clock, settings and facts are always there; the rest is granted by function, with
//! bounds on backends, sources, secrets and raw requests. What was not granted answers `denied` with the grant's name.

mod allowed;
mod functions;
mod sets;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use functions::{BMC, IMAGE, POWER, STATE, STORAGE, VMEDIA_SERVICE};

pub(crate) use allowed::Allowed;
pub use functions::Functions;

use crate::calls::{HostCall, IsoSource, Parameter, Value};
use crate::glob;
use crate::{DriverError, Role};

/// What a plugin may do. The empty one (`grant = {}`) allows nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Grants {
    /// `state = ["get", "put"]`.
    #[serde(deserialize_with = "functions::state", skip_serializing_if = "Functions::is_empty")]
    pub state: Functions,
    /// `image = { functions = […], sources = ["https://images.example/**"] }`.
    #[serde(skip_serializing_if = "is_default")]
    pub image: ImageGrant,
    /// `storage = { functions = […], backends = ["local"], max-lifetime-s = 3600 }`.
    #[serde(skip_serializing_if = "is_default")]
    pub storage: StorageGrant,
    /// Names of secrets that it may put into parameters, besides those that came with the call.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub secrets: BTreeSet<String>,
    /// `bmc = ["media-state", "insert"]`.
    #[serde(deserialize_with = "functions::bmc", skip_serializing_if = "Functions::is_empty")]
    pub bmc: Functions,
    /// `power = ["state-of"]`.
    #[serde(deserialize_with = "functions::power", skip_serializing_if = "Functions::is_empty")]
    pub power: Functions,
    /// `bmc-raw = { methods = ["GET"], paths = ["/redfish/v1/Managers/*"], ribcl = ["GET_VM_STATUS"] }`.
    #[serde(skip_serializing_if = "is_default")]
    pub bmc_raw: RawGrant,
    /// `vmedia-service = ["attach"]`.
    #[serde(
        deserialize_with = "functions::vmedia_service",
        skip_serializing_if = "Functions::is_empty"
    )]
    pub vmedia_service: Functions,
}

/// Building images.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ImageGrant {
    /// Which functions.
    pub functions: Functions,
    /// References outside the node's own fields, as patterns: `*` within a path segment, `**` across them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
}

/// Publishing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StorageGrant {
    /// Which functions.
    pub functions: Functions,
    /// Which backends; `None` = every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backends: Option<BTreeSet<String>>,
    /// Longest lifetime that it may ask for; `None` = any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lifetime_s: Option<u32>,
}

/// The raw dialogue with the BMC.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RawGrant {
    /// HTTP methods of Redfish requests.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub methods: BTreeSet<String>,
    /// Paths of Redfish requests, as patterns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// RIBCL commands.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ribcl: BTreeSet<String>,
}

/// What came with a call and may be handed on without a grant, since the caller has chosen it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) secrets: BTreeSet<String>,
    pub(crate) urls: BTreeSet<String>,
}

impl Grants {
    /// What a plugin of this role has if the site says nothing: all but the raw dialogue, secrets and outside sources.
    pub fn default_of(role: Role) -> Self {
        match role {
            Role::BackendSelection | Role::TakeOver => Self::default(),
            Role::Vmedia | Role::Vendor => Self {
                state: Functions::all(STATE),
                image: ImageGrant {
                    functions: Functions::all(IMAGE),
                    sources: vec![],
                },
                storage: StorageGrant {
                    functions: Functions::all(STORAGE),
                    backends: None,
                    max_lifetime_s: None,
                },
                secrets: BTreeSet::new(),
                bmc: Functions::all(BMC),
                power: if role == Role::Vendor {
                    Functions::all(POWER)
                } else {
                    Functions::default()
                },
                bmc_raw: RawGrant::default(),
                vmedia_service: Functions::all(VMEDIA_SERVICE),
            },
        }
    }

    /// Whether this backend may be offered to the plugin.
    pub(crate) fn allows_backend(&self, id: &str) -> bool {
        self.storage
            .backends
            .as_ref()
            .is_none_or(|backends| backends.contains(id))
    }

    /// Refuses what was not granted.
    pub(crate) fn check(&self, call: &HostCall, given: &Given) -> Result<(), DriverError> {
        let (interface, function) = call.name().split_once('.').unwrap_or((call.name(), ""));
        let granted = match interface {
            "log" | "clock" | "config" | "node" => true,
            "state" => self.state.has(function),
            "image" => self.image.functions.has(function),
            "storage" => self.storage.functions.has(function),
            "bmc" => self.bmc.has(function),
            "power" => self.power.has(function),
            "vmedia-service" => self.vmedia_service.has(function),
            // Its own arms below decide.
            "bmc-raw" => true,
            _ => false,
        };
        if !granted {
            return Err(DriverError::Denied(call.name().to_owned()));
        }
        match call {
            HostCall::BuildFloppy { spec } => self.check_secrets(&spec.parameters, given),
            HostCall::BuildBootIso { spec } => {
                if let IsoSource::Iso(reference) = &spec.source {
                    self.check_source(reference, given)?;
                }
                self.check_secrets(&spec.parameters, given)
            }
            HostCall::NextPrepareRamdisk { parameters } => self.check_secrets(parameters, given),
            HostCall::External { url } => self.check_source(url, given),
            HostCall::Publish { minimum_lifetime_s, .. } | HostCall::Renew { minimum_lifetime_s, .. } => {
                self.check_lifetime(*minimum_lifetime_s)
            }
            HostCall::Redfish { method, path, .. } => {
                let granted = self.bmc_raw.methods.contains(method)
                    && self.bmc_raw.paths.iter().any(|pattern| glob::matches(pattern, path));
                if granted {
                    Ok(())
                } else {
                    Err(DriverError::Denied(format!("bmc-raw: {method} {path}")))
                }
            }
            HostCall::Ribcl { command, .. } => {
                let granted = self.bmc_raw.ribcl.contains(command);
                if granted {
                    Ok(())
                } else {
                    Err(DriverError::Denied(format!("bmc-raw: ribcl {command}")))
                }
            }
            _ => Ok(()),
        }
    }

    fn check_secrets(&self, parameters: &[Parameter], given: &Given) -> Result<(), DriverError> {
        for parameter in parameters {
            if let Value::Secret(name) = &parameter.value
                && !self.secrets.contains(name)
                && !given.secrets.contains(name)
            {
                return Err(DriverError::Denied(format!("secrets: {name}")));
            }
        }
        Ok(())
    }

    fn check_source(&self, reference: &str, given: &Given) -> Result<(), DriverError> {
        let granted = given.urls.contains(reference)
            || self
                .image
                .sources
                .iter()
                .any(|pattern| glob::matches(pattern, reference));
        if granted {
            Ok(())
        } else {
            Err(DriverError::Denied("image.sources".to_owned()))
        }
    }

    fn check_lifetime(&self, seconds: u32) -> Result<(), DriverError> {
        match self.storage.max_lifetime_s {
            // 0 asks for one without an end.
            Some(most) if seconds > most || seconds == 0 => {
                Err(DriverError::Denied("storage.max-lifetime-s".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Device;

    fn grants(json: &str) -> Grants {
        serde_json::from_str(json).unwrap()
    }

    fn eject() -> HostCall {
        HostCall::Eject { device: Device::Cdrom }
    }

    #[test]
    fn what_is_not_granted_is_denied_by_its_name() {
        let check = |grants: &Grants, call: HostCall| grants.check(&call, &Given::default());
        let denied = |name: &str| Err(DriverError::Denied(name.to_owned()));
        assert_eq!(check(&grants("{}"), eject()), denied("bmc.eject"));
        assert_eq!(check(&grants(r#"{"bmc":["insert"]}"#), eject()), denied("bmc.eject"));
        assert_eq!(check(&grants(r#"{"bmc":["eject"]}"#), eject()), Ok(()));
        assert_eq!(check(&grants("{}"), HostCall::Now), Ok(()));
        let publish = |seconds| HostCall::Publish {
            image: crate::calls::ImageHandle(0),
            minimum_lifetime_s: seconds,
            backend: None,
        };
        let bounded = grants(r#"{"storage":{"backends":["local"],"max-lifetime-s":3600}}"#);
        assert_eq!(check(&bounded, publish(3600)), Ok(()));
        assert_eq!(check(&bounded, publish(3601)), denied("storage.max-lifetime-s"));
        assert_eq!(check(&bounded, publish(0)), denied("storage.max-lifetime-s"));
        assert!(bounded.allows_backend("local") && !bounded.allows_backend("swift"));
    }

    #[test]
    fn raw_requests_need_method_and_path_or_the_command() {
        let grants = grants(
            r#"{"bmc-raw":{"methods":["GET"],"paths":["/redfish/v1/Managers/*/Oem/**"],"ribcl":["GET_VM_STATUS"]}}"#,
        );
        let redfish = |method: &str, path: &str| {
            let call = HostCall::Redfish {
                method: method.into(),
                path: path.into(),
                body: None,
            };
            grants.check(&call, &Given::default()).is_ok()
        };
        assert!(redfish("GET", "/redfish/v1/Managers/1/Oem/Hpe/x"));
        assert!(!redfish("POST", "/redfish/v1/Managers/1/Oem/Hpe/x"));
        assert!(!redfish("GET", "/redfish/v1/Managers/1"));
        let ribcl = |command: &str| {
            let call = HostCall::Ribcl {
                command: command.into(),
                attributes: vec![],
            };
            grants.check(&call, &Given::default()).is_ok()
        };
        assert!(ribcl("GET_VM_STATUS") && !ribcl("RESET_SERVER"));
    }

    #[test]
    fn what_came_with_the_call_may_be_handed_on_and_nothing_else_by_default() {
        let grants = Grants::default_of(Role::Vmedia);
        let secret = |name: &str| HostCall::NextPrepareRamdisk {
            parameters: vec![Parameter {
                key: "k".into(),
                value: Value::Secret(name.into()),
            }],
        };
        let given = Given {
            secrets: ["agent-token".to_owned()].into(),
            urls: ["http://a/x.iso".to_owned()].into(),
        };
        assert_eq!(grants.check(&secret("agent-token"), &given), Ok(()));
        assert!(grants.check(&secret("agent-token"), &Given::default()).is_err());
        assert!(grants.check(&secret("other"), &given).is_err());
        let external = |url: &str| HostCall::External { url: url.into() };
        assert_eq!(grants.check(&external("http://a/x.iso"), &given), Ok(()));
        assert_eq!(
            grants.check(&external("http://b/x.iso"), &given),
            Err(DriverError::Denied("image.sources".into()))
        );
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_that_exist() {
        let error = serde_json::from_str::<Grants>(r#"{"bmc":["explode"]}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("`explode`") && error.contains("media-state"), "{error}");
        assert!(serde_json::from_str::<Grants>(r#"{"network":[]}"#).is_err());
        assert!(serde_json::from_str::<Grants>(r#"{"storage":{"backend":[]}}"#).is_err());
    }
}
