//! A node for the unit tests.

use std::time::{Duration, SystemTime};

use model::{BootMode, Driver, Node, PowerState, ProvisionState};

pub(crate) const EPOCH: SystemTime = SystemTime::UNIX_EPOCH;

pub(crate) fn at(seconds: u64) -> SystemTime {
    EPOCH + Duration::from_secs(seconds)
}

pub(crate) fn node() -> Node {
    let id = "6f1f0f3e-8f52-4a35-b1a5-3c1a1c1e0001".parse().unwrap();
    Node {
        provision_state: ProvisionState::Available,
        power_state: Some(PowerState::Off),
        boot_mode: Some(BootMode::Uefi),
        ..Node::new(id, Driver::AgentIlo, EPOCH)
    }
}
