//! The conductor's world with a recorder before it, for `farrier plugin record`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rehearsal::{RecordedPlugin, Recorder};
use runtime::live::Live;
use runtime::{ComponentSource, PluginConfig, Role, RuntimeConfig, World};
use serde_json::json;

/// The world, which from now on writes one scenario file into the folder for each call of a plugin.
pub(super) fn recorded(world: Live, folder: &Path, config: &RuntimeConfig) -> Result<Arc<dyn World>> {
    let mut plugins = config.plugins.iter().map(plugin).collect::<Result<Vec<_>>>()?;
    plugins.extend(
        config
            .built_in_settings
            .iter()
            .map(|(role, settings)| built_in(*role, settings)),
    );
    let site = config.site_facts.clone();
    Ok(Arc::new(Recorder::new(Arc::new(world), folder, plugins, site)))
}

/// Its id is what the runtime will call it: of its manifest, else the file's name.
fn plugin(config: &PluginConfig) -> Result<RecordedPlugin> {
    let (path, id) = match &config.component {
        ComponentSource::Bytes { name, .. } => (name.clone(), name.clone()),
        ComponentSource::File(path) => {
            let bytes = std::fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
            let manifest = runtime::manifest::read(&bytes).with_context(|| path.display().to_string())?;
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let id = manifest.map(|manifest| manifest.id).or(stem).unwrap_or_default();
            let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
            (path.display().to_string(), id)
        }
    };
    Ok(RecordedPlugin {
        id,
        plugin: json!(path),
        settings: config.settings.clone(),
        grants: config.grant.as_ref().map(serde_json::to_value).transpose()?,
    })
}

fn built_in(role: Role, settings: &serde_json::Value) -> RecordedPlugin {
    RecordedPlugin {
        id: format!("built-in:{role}"),
        plugin: json!({ "built-in": role.as_str() }),
        settings: settings.clone(),
        grants: None,
    }
}
