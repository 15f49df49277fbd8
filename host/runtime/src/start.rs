//! The first catalog: every entry of the site file, in the version that decided when the process ended, and the built-in
//! policies behind them.

use std::sync::Arc;
use std::time::Duration;

use model::Digest;

use crate::LoadError;
use crate::call::RuntimeConfig;
use crate::catalog::{Bound, Catalog, Entry, PluginConfig, Role};
use crate::engine::Engine;
use crate::load::{self, Bytes};
use crate::versions::Versions;

/// The built-in policies may wait longer than a site's own plugins by default: for a ramdisk that is fetched for the first
/// time, and for a slow BMC.
const BUILT_IN_WALL: Duration = Duration::from_secs(900);

/// Loads everything. Blocks for a fraction of a second a plugin that was never compiled before.
pub(crate) fn catalog(engine: &Engine, config: RuntimeConfig) -> Result<(Catalog, Option<Versions>), LoadError> {
    let versions = config.folder.as_deref().map(Versions::open).transpose()?;
    let mut catalog = Catalog::default();
    for plugin in config.plugins {
        let entry = entry(engine, versions.as_ref(), &catalog, plugin)?;
        catalog.add(entry);
    }
    for plugin in config.shadows {
        let read = load::read(&plugin.component)?;
        let mut bound = load::bind(engine, &plugin, &read, false)?;
        bound.id = format!("shadow:{}", bound.id);
        let name = catalog.name_for(plugin.role, &bound.id, true);
        let bound = named(bound, &name);
        catalog.add_shadow(Entry::new(name, plugin, bound));
    }
    let settings = |role: Role| {
        config
            .built_in_settings
            .get(&role)
            .cloned()
            .unwrap_or(serde_json::Value::Null)
    };
    for plugin in load::built_ins(settings, BUILT_IN_WALL) {
        let read = load::read(&plugin.component)?;
        let bound = load::bind(engine, &plugin, &read, true)?;
        let name = bound.id.clone();
        catalog.add(Entry::new(name, plugin, Arc::new(bound)));
    }
    if let Some(versions) = &versions {
        versions.note(&catalog);
    }
    Ok((catalog, versions))
}

fn entry(
    engine: &Engine,
    versions: Option<&Versions>,
    catalog: &Catalog,
    config: PluginConfig,
) -> Result<Entry, LoadError> {
    let file = load::read(&config.component)?;
    let bound = load::bind(engine, &config, &file, false)?;
    let name = catalog.name_for(config.role, &bound.id, false);
    let bound = named(bound, &name);
    keep(versions, &file);
    let choice = versions.and_then(|versions| versions.choice(config.role, &name));
    // A digest in the site file is an order.
    let (Some(versions), Some(choice), None) = (versions, choice, config.digest) else {
        return Ok(Entry::new(name, config, bound));
    };
    let quarantined = choice.quarantined();
    let kept = |digest: Digest| -> Option<Arc<Bound>> {
        if digest == file.digest {
            return Some(Arc::clone(&bound));
        }
        let bytes = versions.bytes(digest)?;
        match load::bind(engine, &config, &bytes, false) {
            Ok(bound) => Some(named(bound, &name)),
            Err(error) => {
                tracing::warn!(plugin = %name, %digest, "a version that was in use is refused now: {error}");
                None
            }
        }
    };
    let last_good = choice
        .last_good()
        .filter(|digest| !quarantined.contains_key(digest))
        .and_then(kept);
    let wanted = choice.active(file.digest);
    let active = match quarantined.get(&wanted) {
        None => kept(wanted),
        Some(why) => {
            let good = last_good.clone().or_else(|| {
                // What was gone back to stands as active on record.
                let recorded = choice
                    .active
                    .parse()
                    .ok()
                    .filter(|digest| !quarantined.contains_key(digest));
                recorded.and_then(kept)
            });
            let good = good.ok_or_else(|| LoadError::Quarantined {
                place: file.place.clone(),
                reason: why.clone(),
            })?;
            tracing::warn!(plugin = %name, quarantined = %wanted, used = %good.plugin.digest, "{why}");
            Some(good)
        }
    };
    let active = active.unwrap_or_else(|| Arc::clone(&bound));
    let last_good = last_good.filter(|good| good.plugin.digest != active.plugin.digest);
    Ok(Entry {
        file: file.digest,
        last_good,
        quarantined,
        ..Entry::new(name, config, active)
    })
}

/// With the name of its entry.
pub(crate) fn named(bound: Bound, name: &str) -> Arc<Bound> {
    Arc::new(Bound {
        entry: name.to_owned(),
        ..bound
    })
}

/// Keeps the bytes of a version, so that it can be gone back to.
pub(crate) fn keep(versions: Option<&Versions>, version: &Bytes) {
    if let Some(versions) = versions
        && let Err(error) = versions.keep(version)
    {
        tracing::warn!("the plugin {} could not be kept for a way back: {error}", version.place);
    }
}
