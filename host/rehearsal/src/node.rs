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
    /// What this says, and where it says nothing, what the other says.
    pub(crate) fn laid_over(self, under: &Self) -> Self {
        let under = under.clone();
        let over = |under: Fields, over: Fields| under.into_iter().chain(over).collect::<Fields>();
        let mut facts = under.facts;
        facts.extend(self.facts);
        Self {
            id: self.id.or(under.id),
            name: self.name.or(under.name),
            driver: self.driver.or(under.driver),
            conductor_group: self.conductor_group.or(under.conductor_group),
            provision_state: self.provision_state.or(under.provision_state),
            power_state: self.power_state.or(under.power_state),
            boot_mode: self.boot_mode.or(under.boot_mode),
            facts,
            driver_info: over(under.driver_info, self.driver_info),
            instance_info: over(under.instance_info, self.instance_info),
            properties: over(under.properties, self.properties),
        }
    }

    /// The node; what the file leaves open is an `agent_ilo` node `n1` in `manageable`.
    pub(crate) fn node(self) -> Result<Node, String> {
        let id = self.id.as_deref().unwrap_or("00000000-0000-4000-8000-000000000001");
        let id = id.parse::<NodeId>().map_err(|error| error.to_string())?;
        let name = self.name.as_deref().unwrap_or("n1");
        let name = name.parse::<NodeName>().map_err(|error| error.to_string())?;
        let driver = match self.driver {
            None => Driver::AgentIlo,
            Some(driver) => driver.parse().map_err(|error: model::UnknownState| error.to_string())?,
        };
        Ok(Node {
            name: Some(name),
            conductor_group: self.conductor_group.unwrap_or_default(),
            provision_state: match self.provision_state {
                None => ProvisionState::Manageable,
                Some(state) => state.parse().map_err(|error: model::UnknownState| error.to_string())?,
            },
            power_state: self.power_state.map(|power| power.0),
            boot_mode: self.boot_mode.map(|mode| mode.0),
            driver_info: self.driver_info,
            instance_info: self.instance_info,
            properties: self.properties,
            facts: self.facts,
            ..Node::new(id, driver, UNIX_EPOCH)
        })
    }
}
