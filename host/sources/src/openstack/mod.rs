//! OpenStack's identity service and clients that it vouches for: Keystone v3 and the v1 authentication of Swift's tempauth.
//!
//! ```no_run
//! use model::Secret;
//! use reqwest::Method;
//! use sources::openstack::{Client, Credential, Identity, IdentityConfig, Member, Named};
//!
//! # async fn example() -> Result<(), sources::openstack::OpenStackError> {
//! let default = || Named::Name("Default".into());
//! let identity = Identity::new(IdentityConfig::new(
//!     "https://keystone.example:5000/v3",
//!     Credential::Password {
//!         user: Member::Name { name: "ironic".into(), domain: default() },
//!         password: Secret::new("…"),
//!         project: Member::Name { name: "service".into(), domain: default() },
//!     },
//! )?)?;
//! let client = Client::new(identity);
//! let request = client.request("object-store", Method::PUT, &["ironic_ilo_container"]).await?;
//! let answer = client.send(request).await?;
//! println!("{}", answer.status());
//! # Ok(())
//! # }
//! ```
//!
//! The crates that talk to OpenStack know no v1 authentication and bring a client per service; what is needed here is a
//! token, an endpoint and a request. Not here: what is asked of Swift or Glance (for publishing, see `storage`).

mod catalog;
mod client;
mod credential;
mod error;
pub(crate) mod glance;
mod identity;
mod login;

pub use client::{Client, read};
pub use credential::{ApplicationCredential, Credential, Member, Named};
pub use error::OpenStackError;
pub use glance::GlanceImage;
pub use identity::{Identity, IdentityConfig, Interface, Limits, Token};
