//! The node that a case is about: what `defaults.node` says, overlaid by what the case says.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use model::{Driver, Fields, Node, NodeId, NodeName, ProvisionState};
use serde::Deserialize;

use crate::nouns::{Mode, Power};

/// A node as a scenario file has it.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(crate) struct NodeFile {
    id: Option<String>,
    name: Option<String>,
    driver: Option<String>,
    conductor_group: Option<String>,
    provision_state: Option<String>,
    power_state: Option<Power>,
    boot_mode: Option<Mode>,
    facts: BTreeMap<String, String>,
    driver_info: Fields,
    instance_info: Fields,
    properties: Fields,
}

impl NodeFile {
    /// The node; what neither says is an `agent_ilo` node `n1` in `manageable`.
    pub(crate) fn over(self, defaults: &Self) -> Result<Node, String> {
        let defaults = defaults.clone();
        let id = self.id.or(defaults.id);
        let id = id.as_deref().unwrap_or("00000000-0000-4000-8000-000000000001");
        let name = self.name.or(defaults.name);
        let driver = self.driver.or(defaults.driver);
        let state = self.provision_state.or(defaults.provision_state);
        let over = |under: Fields, over: Fields| under.into_iter().chain(over).collect::<Fields>();
        let mut facts = defaults.facts;
        facts.extend(self.facts);
        let id = id.parse::<NodeId>().map_err(|error| error.to_string())?;
        let name = name
            .as_deref()
            .unwrap_or("n1")
            .parse::<NodeName>()
            .map_err(|error| error.to_string())?;
        let driver = match driver {
            None => Driver::AgentIlo,
            Some(driver) => driver.parse().map_err(|error: model::UnknownState| error.to_string())?,
        };
        Ok(Node {
            name: Some(name),
            conductor_group: self.conductor_group.or(defaults.conductor_group).unwrap_or_default(),
            provision_state: match state {
                None => ProvisionState::Manageable,
                Some(state) => state.parse().map_err(|error: model::UnknownState| error.to_string())?,
            },
            power_state: self.power_state.or(defaults.power_state).map(|power| power.0),
            boot_mode: self.boot_mode.or(defaults.boot_mode).map(|mode| mode.0),
            driver_info: over(defaults.driver_info, self.driver_info),
            instance_info: over(defaults.instance_info, self.instance_info),
            properties: over(defaults.properties, self.properties),
            facts,
            ..Node::new(id, driver, UNIX_EPOCH)
        })
    }
}
