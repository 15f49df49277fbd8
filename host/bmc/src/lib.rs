//! The dialogue with a server's management controller: few verbs, each with a deadline and typed errors.
//!
//! The verbs are absolute, so repeating one is harmless. Transports live in modules of their own (`redfish`); what differs
//! between vendors and firmwares is data in `quirks`. No policy lives here: what to insert and when is decided elsewhere.
//!
//! ```no_run
//! use bmc::redfish::RedfishBmc;
//! use bmc::{Bmc, BmcConfig, Ca, InsertMedia, Tls};
//! use model::{BmcAddress, BootDevice, Device, PowerAction, Secret};
//!
//! # async fn boot() -> Result<(), bmc::BmcError> {
//! let address = BmcAddress("https://10.1.2.3".into());
//! let bmc = RedfishBmc::new(BmcConfig {
//!     tls: Tls::Verify { ca: Some(Ca::File("/etc/farrier/ilo-ca.pem".into())) },
//!     ..BmcConfig::new(address, "admin", Secret::new("secret"))
//! })?;
//! let image = InsertMedia {
//!     url: Secret::new("http://10.1.0.1/boot.iso"),
//!     boot_once: false,
//!     server_certificate: None,
//! };
//! bmc.insert_media(Device::Cdrom, &image).await?;
//! bmc.set_boot_device(BootDevice::Cdrom, false).await?;
//! bmc.set_power(PowerAction::On).await?;
//! bmc.close().await;
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use async_trait::async_trait;
use model::{BootDevice, BootMode, Device, Media, PowerAction, PowerState, ServerIdentity};

mod access;
mod backoff;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gate;
mod http;
mod image_url;
mod names;
pub mod probe;
mod probed;
mod quirks;
pub mod record;
pub mod redfish;
pub mod ribcl;
mod scrub;
mod text;
pub mod trace;

pub use access::{BmcConfig, Ca, Deadlines, Protocols, Tls};
pub use error::BmcError;
pub use probed::ProbedBmc;
pub use quirks::takes_url_queries;

/// The BMC of one server.
#[async_trait]
pub trait Bmc: Send + Sync {
    /// Who the server is; also the check of address, certificate and credentials.
    async fn identity(&self) -> Result<ServerIdentity, BmcError>;
    /// Power as it is now.
    async fn power_state(&self) -> Result<PowerState, BmcError>;
    /// Asks for a power change and returns once the BMC took the request; already there is a success.
    async fn set_power(&self, action: PowerAction) -> Result<(), BmcError>;
    /// What a virtual device holds.
    async fn media(&self, device: Device) -> Result<Media, BmcError>;
    /// Puts `image` into the device, write-protected: ejects what is there, inserts, reads back.
    async fn insert_media(&self, device: Device, image: &InsertMedia) -> Result<(), BmcError>;
    /// Empties the device; an empty one is a success.
    async fn eject_media(&self, device: Device) -> Result<(), BmcError>;
    /// What the server boots from next (`persistent`: from now on).
    async fn set_boot_device(&self, device: BootDevice, persistent: bool) -> Result<(), BmcError>;
    /// What the server will boot from, in the BMC's own words.
    async fn boot_settings(&self) -> Result<BootSettings, BmcError> {
        Err(without(names::BOOT_SETTINGS))
    }
    /// Where UEFI HTTP boot fetches from; the boot device is set apart.
    async fn set_http_boot_url(&self, url: &model::Secret) -> Result<(), BmcError> {
        let _ = url;
        Err(without(names::SET_HTTP_BOOT))
    }
    /// The firmware mode that the next boot will use.
    async fn boot_mode(&self) -> Result<BootMode, BmcError>;
    /// Changes the firmware mode at the next boot.
    async fn set_boot_mode(&self, mode: BootMode) -> Result<(), BmcError>;
    /// Whether secure boot is on.
    async fn secure_boot(&self) -> Result<bool, BmcError>;
    /// Switches secure boot at the next boot.
    async fn set_secure_boot(&self, enabled: bool) -> Result<(), BmcError>;
    /// One Redfish request as given, path under `/redfish/v1`, on the BMC's own origin; for vendor extensions.
    async fn raw_redfish(&self, method: &str, path: &str, body: Option<&str>) -> Result<RawReply, BmcError>;
    /// One RIBCL command by name; the wrapper, the envelope and the login are added. An argument is an attribute, or a child
    /// element that bears it as its `VALUE`. Returns what was asked for as well-formed XML. For vendor extensions.
    async fn raw_ribcl(&self, command: &str, arguments: &[(String, String)]) -> Result<String, BmcError> {
        let _ = (command, arguments);
        Err(without(names::RAW))
    }
    /// Ends the session, if there is one.
    async fn close(&self);
}

/// Of a function that a transport does not have.
fn without(action: &'static str) -> BmcError {
    BmcError::Unsupported {
        address: model::BmcAddress("the BMC".to_owned()),
        action,
        reason: "the protocol that it is spoken to by has no such function".to_owned(),
    }
}

/// What a server will boot from, in the BMC's own words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BootSettings {
    /// The device of the next boot alone, if one is set.
    pub once: Option<String>,
    /// What is tried otherwise, first to last.
    pub order: Vec<String>,
}

/// What to insert.
#[derive(Clone, Debug)]
pub struct InsertMedia {
    /// The URL that the BMC fetches; secret, since its path is.
    pub url: model::Secret,
    /// Boot it on the next reset and eject it on the one after (HPE `BootOnNextServerReset`).
    pub boot_once: bool,
    /// PEM certificate of an https server that the BMC should trust, where it takes one.
    pub server_certificate: Option<String>,
}

/// Reply to [`Bmc::raw_redfish`].
#[derive(Clone, Debug)]
pub struct RawReply {
    /// HTTP status.
    pub status: u16,
    /// Headers as the BMC sent them.
    pub headers: Vec<(String, String)>,
    /// Body, at most 1 MiB.
    pub body: String,
}

/// How long a request that changes something may still run. Since a BMC cannot be fenced, a conductor lets a mutating
/// request start only if it must end before the conductor's lease does.
pub trait Fence: Send + Sync {
    /// Time that a mutating request may take from now on; `None` = it may not be sent any more.
    fn window(&self) -> Option<Duration>;
}

/// No fence: for a tool that runs on its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unfenced;

impl Fence for Unfenced {
    fn window(&self) -> Option<Duration> {
        Some(Duration::MAX)
    }
}
