//! From bytes to a plugin that can be started: what is refused here never runs.

use model::Digest;
use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre};

use crate::abi::v0_1 as abi;
use crate::engine::{MAX_MEMORY, MAX_TABLE_ENTRIES};
use crate::error::shortened;
use crate::run::CallState;
use crate::{Limits, LoadError, Role};

/// Bytes of a WebAssembly page.
const PAGE: u64 = 64 << 10;

/// A compiled component that has passed every check.
pub(crate) struct Plugin {
    pub(crate) digest: Digest,
    pub(crate) pre: InstancePre<CallState>,
    pub(crate) exports: abi::Exports,
}

/// Compiles a component for a role and checks all that can be checked without starting it.
pub(crate) fn compile(
    engine: &Engine,
    place: &str,
    digest: Digest,
    bytes: &[u8],
    role: Role,
) -> Result<Plugin, LoadError> {
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
    let component = Component::from_binary(engine, bytes).map_err(|error| LoadError::Invalid {
        place: place(),
        reason: shortened(&format!("{error:#}")),
    })?;
    check_names(engine, &component, &place(), role)?;
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
    Ok(Plugin { digest, pre, exports })
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
    if needs.num_memories > 1 {
        return Err(too_big(
            format!("{} memories", needs.num_memories),
            "1".to_owned(),
            "build it as one module",
        ));
    }
    if needs.num_tables > 2 {
        return Err(too_big(
            format!("{} tables", needs.num_tables),
            "2".to_owned(),
            "build it as one module",
        ));
    }
    Ok(())
}
