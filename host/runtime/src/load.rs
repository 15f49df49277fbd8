//! From a site entry to a plugin that may be called: its bytes are read, held against the pinned digest, compiled, and what
//! it requires is held against what the site grants.

use std::sync::{Arc, LazyLock, PoisonError};

use model::{Digest, Sha256};
use sha2::Digest as _;

use crate::catalog::{Bound, ComponentSource, PluginConfig, Role};
use crate::component;
use crate::engine::Engine;
use crate::grants::Allowed;
use crate::{Grants, Limits, LoadError};

/// Largest component: a Python guest has 38 MB.
const MAX_COMPONENT: usize = 64 << 20;
/// Compiled components that are kept in memory though nothing uses them.
const SPARE: usize = 64;

/// A component's bytes with their digest.
#[derive(Clone)]
pub(crate) struct Bytes {
    pub(crate) place: String,
    pub(crate) digest: Digest,
    pub(crate) bytes: Arc<[u8]>,
}

impl Bytes {
    pub(crate) fn of(place: String, bytes: Arc<[u8]>) -> Self {
        Self {
            place,
            digest: digest(&bytes),
            bytes,
        }
    }
}

pub(crate) fn digest(bytes: &[u8]) -> Digest {
    Digest(Sha256(sha2::Sha256::digest(bytes).into()))
}

/// Reads a component.
pub(crate) fn read(component: &ComponentSource) -> Result<Bytes, LoadError> {
    let place = component.name();
    let bytes: Arc<[u8]> = match component {
        ComponentSource::Bytes { bytes, .. } => Arc::clone(bytes),
        ComponentSource::File(path) => {
            let failed = |source| LoadError::Read {
                place: place.clone(),
                source,
            };
            let size = std::fs::metadata(path).map_err(failed)?.len();
            if size > MAX_COMPONENT as u64 {
                return Err(LoadError::TooLarge {
                    place,
                    size,
                    most: MAX_COMPONENT,
                });
            }
            std::fs::read(path).map_err(failed)?.into()
        }
    };
    if bytes.len() > MAX_COMPONENT {
        return Err(LoadError::TooLarge {
            place,
            size: bytes.len() as u64,
            most: MAX_COMPONENT,
        });
    }
    if let Some(built_in) = BUILT_IN.iter().find(|built_in| built_in.is(component, &bytes)) {
        return Ok(built_in.bytes.clone());
    }
    Ok(Bytes::of(place, bytes))
}

/// Compiles and checks what was read, for one entry. Blocks for a fraction of a second.
pub(crate) fn bind(engine: &Engine, config: &PluginConfig, read: &Bytes, built_in: bool) -> Result<Bound, LoadError> {
    let place = read.place.clone();
    if !config.settings.is_object() && !config.settings.is_null() {
        return Err(LoadError::Settings { place });
    }
    if let Some(wanted) = config.digest
        && wanted != read.digest
    {
        return Err(LoadError::Digest {
            place,
            found: read.digest,
            wanted,
        });
    }
    let key = (config.role, read.digest);
    let plugin = {
        // Held while compiling: who wants the same component meanwhile gets this one.
        let mut compiled = engine.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        match compiled.get(&key) {
            Some(plugin) => Arc::clone(plugin),
            None => {
                let folder = engine.0.cache.as_deref();
                let wasmtime = &engine.0.wasmtime;
                let plugin = component::compile(wasmtime, folder, &place, read.digest, &read.bytes, config.role)?;
                if compiled.len() >= SPARE {
                    compiled.retain(|_, plugin| Arc::strong_count(plugin) > 1);
                }
                Arc::clone(compiled.entry(key).or_insert(Arc::new(plugin)))
            }
        }
    };
    component::fits(plugin.pre.component(), &place, &config.limits)?;
    let granted = config.grant.clone().unwrap_or_else(|| Grants::default_of(config.role));
    if let Some(manifest) = &plugin.manifest {
        let gaps = manifest.required.gaps(&granted);
        if !gaps.is_empty() {
            return Err(LoadError::Gaps { place, gaps });
        }
    }
    let id = plugin_id(config, &plugin, built_in);
    Ok(Bound {
        entry: id.clone(),
        id,
        place,
        role: config.role,
        matches: config.matches.clone(),
        allowed: Allowed {
            granted,
            requested: plugin.manifest.as_ref().map(|manifest| manifest.requested()),
        },
        limits: config.limits.clone(),
        settings: config.settings.clone(),
        built_in,
        plugin,
    })
}

fn plugin_id(config: &PluginConfig, plugin: &component::Plugin, built_in: bool) -> String {
    if built_in {
        return format!("built-in:{}", config.role);
    }
    match (&plugin.manifest, &config.component) {
        (Some(manifest), _) => manifest.id.clone(),
        (None, ComponentSource::File(path)) => path
            .file_stem()
            .map_or_else(|| config.role.to_string(), |stem| stem.to_string_lossy().into_owned()),
        (None, ComponentSource::Bytes { name, .. }) => name.clone(),
    }
}

/// A policy that is part of Farrier.
struct BuiltIn {
    role: Role,
    bytes: Bytes,
}

impl BuiltIn {
    fn is(&self, component: &ComponentSource, bytes: &Arc<[u8]>) -> bool {
        matches!(component, ComponentSource::Bytes { .. }) && Arc::ptr_eq(&self.bytes.bytes, bytes)
    }
}

/// Hashed once: a runtime is made for each case of a rehearsal.
static BUILT_IN: LazyLock<[BuiltIn; 3]> = LazyLock::new(|| {
    [
        (
            Role::BackendSelection,
            &include_bytes!(concat!(env!("OUT_DIR"), "/backend_selection.wasm"))[..],
        ),
        (
            Role::Vmedia,
            &include_bytes!(concat!(env!("OUT_DIR"), "/vmedia.wasm"))[..],
        ),
        (
            Role::TakeOver,
            &include_bytes!(concat!(env!("OUT_DIR"), "/take_over.wasm"))[..],
        ),
    ]
    .map(|(role, bytes)| BuiltIn {
        role,
        bytes: Bytes::of(format!("built-in:{role}"), bytes.into()),
    })
});

/// The policy of a role that is part of Farrier, to be loaded as a site's own; `None` if the role has none.
pub fn built_in(role: Role) -> Option<ComponentSource> {
    let found = BUILT_IN.iter().find(|built_in| built_in.role == role)?;
    Some(ComponentSource::Bytes {
        name: found.bytes.place.clone(),
        bytes: Arc::clone(&found.bytes.bytes),
    })
}

/// The built-in policies as entries, with these settings.
pub(crate) fn built_ins(settings: impl Fn(Role) -> serde_json::Value, wall: std::time::Duration) -> Vec<PluginConfig> {
    let entry = |built_in: &BuiltIn| PluginConfig {
        role: built_in.role,
        component: ComponentSource::Bytes {
            name: built_in.bytes.place.clone(),
            bytes: Arc::clone(&built_in.bytes.bytes),
        },
        digest: None,
        matches: crate::Match::new(),
        grant: None,
        limits: Limits {
            wall,
            ..Limits::default()
        },
        settings: settings(built_in.role),
    };
    BUILT_IN.iter().map(entry).collect()
}
