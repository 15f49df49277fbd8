//! Simulated BMCs in one process: a service per server that is as strict as the real one, and behind it either a machine
//! without a CPU that makes the traffic of firmware and deploy agent, or a real QEMU.
//!
//! ```no_run
//! # async fn example() -> Result<(), sim::SimError> {
//! let mut config = sim::SimConfig::new("/tmp/sim", "admin", "password");
//! config.servers = 2;
//! let running = sim::start(config).await?;
//! println!("{} trusts {}", running.server(0)?.url, running.ca_pem().display());
//! running.stop().await;
//! # Ok(()) }
//! ```
//!
//! Not here: everything that only reads images for its own ends.

mod config;
mod error;
mod faults;
mod machine;
mod media;
mod nbd;
mod profile;
mod protocol;
mod qemu;
mod redfish;
mod replay;
mod ribcl;
mod ris;
mod running;
mod serve;
mod server;
mod tls;
mod trace;

pub use config::{BootKind, BootMode, FloppyDevice, QemuConfig, SimConfig, Timing};
pub use error::SimError;
pub use faults::Faults;
pub use media::MediaReads;
pub use profile::{BootTarget, Device, Profile, Protocol, SlotProfile};
pub use replay::{Recording, ReplayConfig, Replaying, replay};
pub use running::{Running, ServerInfo, start};
pub use server::{BootOutcome, LastBoot, PowerState};
pub use trace::Exchange;
