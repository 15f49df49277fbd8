//! From bytes to a plugin that can be started: what is refused here never runs.

use std::path::Path;
use std::sync::Mutex;

use model::Digest;
use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, InstancePre};

use crate::abi::v0_1 as abi;
use crate::engine::{MAX_CORE_INSTANCES, MAX_MEMORIES, MAX_MEMORY, MAX_TABLE_ENTRIES, MAX_TABLES};
use crate::error::shortened;
use crate::manifest::{self, Manifest};
use crate::run::CallState;
use crate::{Limits, LoadError, Role, compiled};

/// Bytes of a WebAssembly page.
pub(crate) const PAGE: u64 = 64 << 10;

/// A compiled component that has passed every check.
pub(crate) struct Plugin {
    pub(crate) digest: Digest,
    pub(crate) pre: InstancePre<CallState>,
    pub(crate) exports: abi::Exports,
    /// What it says of itself.
    pub(crate) manifest: Option<Manifest>,
    /// The host's functions that it imports ("bmc.eject").
    pub(crate) imports: Vec<String>,
    /// Limits under which it was started and its exports checked.
    pub(crate) started: Mutex<Vec<Limits>>,
}

/// Compiles a component for a role, or takes what was compiled before from the folder `cache`, and checks all that can be
/// checked without starting it.
pub(crate) fn compile(
    engine: &Engine,
    cache: Option<&Path>,
    place: &str,
    digest: Digest,
    bytes: &[u8],
    role: Role,
) -> Result<Plugin, LoadError> {
    check_kind(place, bytes)?;
    let place = || place.to_owned();
    let manifest = manifest::read(bytes).map_err(|source| match manifest::is_whole(bytes) {
        true => LoadError::Manifest { place: place(), source },
        false => LoadError::Invalid {
            place: place(),
            reason: "its sections are damaged".to_owned(),
        },
    })?;
    if let Some(manifest) = &manifest {
        if manifest.role != role {
            return Err(LoadError::Role {
                place: place(),
                found: manifest.role,
                role,
            });
        }
        let fits = manifest.fits(abi::interfaces(role));
        fits.map_err(|source| LoadError::Manifest { place: place(), source })?;
    }
    let component = compiled::component(engine, cache, digest, bytes).map_err(|error| refused(&place(), &error))?;
    check_names(engine, &component, &place(), role)?;
    let imports = imports(engine, &component);
    let types = |error: wasmtime::Error| LoadError::Types {
        place: place(),
        reason: shortened(&format!("{error:#}")),
    };
    let pre = abi::linker(engine, role)
        .and_then(|linker| linker.instantiate_pre(&component))
        .map_err(types)?;
    let exports = abi::Exports::find(&component, role).map_err(|export| LoadError::Export {
        place: place(),
        export,
        role,
    })?;
    Ok(Plugin {
        digest,
        pre,
        exports,
        manifest,
        imports,
        started: Mutex::default(),
    })
}

/// Refuses what is no component by its first bytes.
pub(crate) fn check_kind(place: &str, bytes: &[u8]) -> Result<(), LoadError> {
    let place = || place.to_owned();
    // Magic and layer: a core module has version 1, layer 0.
    if bytes.starts_with(b"\0asm\x01\0\0\0") {
        return Err(LoadError::CoreModule { place: place() });
    }
    if !bytes.starts_with(b"\0asm") {
        // Nor is a text or a precompiled file taken here.
        return Err(LoadError::Invalid {
            place: place(),
            reason: "it does not begin as WebAssembly does".to_owned(),
        });
    }
    Ok(())
}

/// What the compiler's refusal means: the pool cannot take it, or it is no component.
pub(crate) fn refused(place: &str, error: &wasmtime::Error) -> LoadError {
    let reason = shortened(&format!("{error:#}"));
    let place = place.to_owned();
    // Wasmtime has no type for this one; a test watches over the text.
    match reason.contains("the configured maximum") || reason.contains("configured maximum of") {
        true => LoadError::TooBig {
            place,
            figure: "more than a place in the pool has".to_owned(),
            most: format!(
                "{MAX_CORE_INSTANCES} core instances, {MAX_MEMORIES} memories and {MAX_TABLES} tables a component"
            ),
            remedy: format!("leave parts of its runtime out, or build it as one module ({reason})"),
        },
        false => LoadError::Invalid { place, reason },
    }
}

/// The functions of the host that a component imports, by the names that grants have; methods by the name of what they belong to.
pub(crate) fn imports(engine: &Engine, component: &Component) -> Vec<String> {
    let ty = component.component_type();
    let mut all = Vec::new();
    for (name, item) in ty.imports(engine) {
        let ComponentItem::ComponentInstance(instance) = item.ty else {
            continue;
        };
        let Some(interface) = name
            .strip_prefix("farrier:driver/")
            .and_then(|rest| rest.split('@').next())
        else {
            continue;
        };
        for (function, item) in instance.exports(engine) {
            if !matches!(item.ty, ComponentItem::ComponentFunc(_)) {
                continue;
            }
            all.push(match function.strip_prefix("[method]") {
                // `node.fact`, `image.size`, `location.display`.
                Some(method) => method.to_owned(),
                None => format!("{interface}.{function}"),
            });
        }
    }
    all
}

/// Refuses by name what would not link, with the remedy.
fn check_names(engine: &Engine, component: &Component, place: &str, role: Role) -> Result<(), LoadError> {
    let ty = component.component_type();
    let imports: Vec<&str> = ty.imports(engine).map(|(name, _)| name).collect();
    let wasi: Vec<&str> = imports
        .iter()
        .copied()
        .filter(|name| name.starts_with("wasi:"))
        .collect();
    if !wasi.is_empty() {
        return Err(LoadError::Wasi {
            place: place.to_owned(),
            interfaces: shortened(&wasi.join(", ")),
        });
    }
    let exports = ty.exports(engine).map(|(name, _)| name);
    for name in imports.iter().copied().chain(exports) {
        if let Some((interface, version)) = name
            .strip_prefix("farrier:driver/")
            .and_then(|rest| rest.split_once('@'))
            && version != abi::VERSION
        {
            let track: Vec<&str> = version.splitn(3, '.').take(2).collect();
            tracing::debug!(place, interface, version, "another version of the contract");
            return Err(LoadError::Version {
                place: place.to_owned(),
                needs: shortened(&format!("farrier:driver@{}", track.join("."))),
                offers: abi::OFFERS,
            });
        }
    }
    for name in imports {
        let interface = name
            .strip_prefix("farrier:driver/")
            .and_then(|rest| rest.split('@').next());
        let remedy = match interface {
            Some(interface) if abi::interfaces(role).contains(&interface) => continue,
            Some(_) => format!("it has {}", abi::interfaces(role).join(", ")),
            None => "the host offers interfaces of `farrier:driver` only".to_owned(),
        };
        return Err(LoadError::Import {
            place: place.to_owned(),
            interface: shortened(name),
            role,
            remedy,
        });
    }
    Ok(())
}

/// Refuses a component that no call could ever start.
pub(crate) fn fits(component: &Component, place: &str, limits: &Limits) -> Result<(), LoadError> {
    let too_big = |figure: String, most: String, remedy: &str| LoadError::TooBig {
        place: place.to_owned(),
        figure,
        most,
        remedy: remedy.to_owned(),
    };
    if limits.memory > MAX_MEMORY {
        let most = format!("{MAX_MEMORY} bytes");
        return Err(too_big(
            format!("{} bytes of memory by its limits", limits.memory),
            most,
            "lower `limits.memory`",
        ));
    }
    let Some(needs) = component.resources_required() else {
        return Ok(());
    };
    // Wasmtime gives it in pages.
    let memory = needs.max_initial_memory_size.unwrap_or(0).saturating_mul(PAGE);
    if memory > limits.memory as u64 {
        let most = format!("{} bytes", limits.memory);
        return Err(too_big(
            format!("{memory} bytes of memory to start"),
            most,
            "raise `limits.memory`",
        ));
    }
    let table = needs.max_initial_table_size.unwrap_or(0);
    if table > MAX_TABLE_ENTRIES as u64 {
        return Err(too_big(
            format!("{table} table entries"),
            MAX_TABLE_ENTRIES.to_string(),
            "leave parts of it out",
        ));
    }
    if needs.num_memories > MAX_MEMORIES {
        return Err(too_big(
            format!("{} memories", needs.num_memories),
            MAX_MEMORIES.to_string(),
            "build it as one module",
        ));
    }
    if needs.num_tables > MAX_TABLES {
        return Err(too_big(
            format!("{} tables", needs.num_tables),
            MAX_TABLES.to_string(),
            "build it as one module",
        ));
    }
    Ok(())
}
