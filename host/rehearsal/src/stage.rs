//! Runtimes for cases: those that differ only in what happens share one, so that a case costs a call and no more.

use std::collections::BTreeMap;
use std::sync::Arc;

use runtime::{
    ComponentSource, Engine, Grants, Limits, LoadError, Match, PluginConfig, PluginInfo, Role, Runtime, RuntimeConfig,
    SiteFacts, Unobserved,
};
use serde_json::Value as Json;
use tokio::sync::Mutex;

use crate::scenario::{Case, Suite};
use crate::world::Stage;

/// The runtimes of one suite.
pub(crate) struct Runtimes {
    engine: Engine,
    role: Role,
    /// `None` = the built-in one.
    component: Option<ComponentSource>,
    made: Mutex<Vec<(Wanted, Runtime)>>,
}

/// All that a runtime depends on besides the plugin.
#[derive(Clone, PartialEq)]
struct Wanted {
    grants: Option<Grants>,
    limits: Limits,
    settings: Json,
    site: SiteFacts,
}

impl Runtimes {
    pub(crate) fn new(engine: &Engine, suite: &Suite) -> Self {
        Self {
            engine: engine.clone(),
            role: suite.role,
            component: suite.component.clone(),
            made: Mutex::default(),
        }
    }

    /// The runtime of a case.
    pub(crate) async fn of(&self, case: &Case) -> Result<Runtime, LoadError> {
        let wanted = Wanted {
            grants: case.grants.clone(),
            limits: case.limits.clone(),
            settings: case.settings.clone(),
            site: case.site.clone(),
        };
        let mut made = self.made.lock().await;
        if let Some((_, runtime)) = made.iter().find(|(known, _)| *known == wanted) {
            return Ok(runtime.clone());
        }
        let runtime = self.make(wanted.clone()).await?;
        made.push((wanted, runtime.clone()));
        Ok(runtime)
    }

    /// A runtime of the case in which the plugin has these grants; it is not kept.
    pub(crate) async fn with_grants(&self, case: &Case, grants: Grants) -> Result<Runtime, LoadError> {
        let wanted = Wanted {
            grants: Some(grants),
            limits: case.limits.clone(),
            settings: case.settings.clone(),
            site: case.site.clone(),
        };
        self.make(wanted).await
    }

    /// What the runtime says of the suite's plugin: the first of its role.
    pub(crate) fn plugin(&self, runtime: &Runtime) -> Option<PluginInfo> {
        runtime.plugins().into_iter().find(|plugin| plugin.role == self.role)
    }

    async fn make(&self, wanted: Wanted) -> Result<Runtime, LoadError> {
        let mut config = RuntimeConfig {
            reinsert_active_now: wanted.site.get("reinsert-active").is_some_and(|choice| choice == "now"),
            site_facts: wanted.site,
            ..RuntimeConfig::default()
        };
        // A built-in plugin with grants of its own is loaded as a site's plugin would be.
        let component = match (&self.component, &wanted.grants) {
            (None, Some(_)) => runtime::built_in(self.role),
            (component, _) => component.clone(),
        };
        match component {
            None => config.built_in_settings = BTreeMap::from([(self.role, wanted.settings)]),
            Some(component) => config.plugins.push(PluginConfig {
                role: self.role,
                component,
                digest: None,
                matches: Match::new(),
                grant: wanted.grants,
                limits: wanted.limits,
                settings: wanted.settings,
            }),
        }
        Runtime::new(&self.engine, config, Arc::new(Stage), Arc::new(Unobserved)).await
    }
}
