//! A node keeps the version of a plugin with which something began: what one version has inserted, the same one takes out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::{Digest, Node, NodeId, ProvisionState};

use crate::catalog::{Bound, Entry, Role};

/// By node, role and entry.
#[derive(Default)]
pub(crate) struct Pins(Mutex<HashMap<(NodeId, Role, String), Digest>>);

impl Pins {
    /// The version that decides for the node: the one with which it began what is under way, else the active one.
    pub(crate) fn choose(&self, entry: &Entry, node: &Node) -> Arc<Bound> {
        if entry.active.built_in {
            return Arc::clone(&entry.active);
        }
        let key = (node.id, entry.config.role, entry.name.clone());
        let mut pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_under_way(node.provision_state) {
            pins.remove(&key);
            return Arc::clone(&entry.active);
        }
        // A version in quarantine is no version any more, pinned or not.
        match pins.get(&key).and_then(|digest| entry.version(*digest)) {
            Some(pinned) => Arc::clone(pinned),
            None => {
                pins.insert(key, entry.active.plugin.digest);
                Arc::clone(&entry.active)
            }
        }
    }

    /// The version that the node is pinned to, if it is.
    pub(crate) fn of(&self, entry: &Entry, node: &Node) -> Option<Digest> {
        let key = (node.id, entry.config.role, entry.name.clone());
        let pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let under_way = is_under_way(node.provision_state);
        pins.get(&key).copied().filter(|_| under_way)
    }
}

fn is_under_way(state: ProvisionState) -> bool {
    matches!(
        state,
        ProvisionState::Deploying
            | ProvisionState::DeployWait
            | ProvisionState::Cleaning
            | ProvisionState::CleanWait
            | ProvisionState::Inspecting
            | ProvisionState::InspectWait
            | ProvisionState::Rescuing
            | ProvisionState::RescueWait
            | ProvisionState::Unrescuing
            | ProvisionState::Deleting
    )
}
