//! Whether a host would load a plugin, asked without loading it.

use crate::{Engine, LoadError, PluginConfig, load};

impl Engine {
    /// Reads, compiles and checks a plugin as a host does that loads it under this entry.
    pub fn check(&self, config: &PluginConfig) -> Result<(), LoadError> {
        let read = load::read(&config.component)?;
        load::bind(self, config, &read, false).map(drop)
    }
}
