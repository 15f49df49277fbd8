//! What can be told of a component without running it.

use model::Digest;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::engine::Engine;
use crate::manifest::{self, Manifest};
use crate::{LoadError, Role, component, load};

/// What a component is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspection {
    /// Identity of its bytes.
    pub digest: Digest,
    /// How many there are.
    pub size: usize,
    /// The role that it exports, if it is one of the contract's.
    pub role: Option<Role>,
    /// What it says of itself.
    pub manifest: Option<Manifest>,
    /// Interfaces that it imports, whole names.
    pub imports: Vec<String>,
    /// Functions of the host among them ("bmc.eject").
    pub functions: Vec<String>,
    /// Interfaces that it exports, whole names.
    pub exports: Vec<String>,
    /// What it takes to start it, where that can be told.
    pub needs: Option<Needs>,
}

/// What starting a component takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Needs {
    /// Bytes of memory at its start.
    pub memory_bytes: u64,
    /// Entries of its largest table.
    pub table_entries: u64,
    /// Memories.
    pub memories: u32,
    /// Tables.
    pub tables: u32,
}

/// Compiles a component and tells what it is. It need not fit any role; what is no component, or too large for this host, is
/// refused as a load would.
pub fn inspect(engine: &Engine, place: &str, bytes: &[u8]) -> Result<Inspection, LoadError> {
    component::check_kind(place, bytes)?;
    let manifest = manifest::read(bytes).map_err(|source| LoadError::Manifest {
        place: place.to_owned(),
        source,
    })?;
    let wasmtime = &engine.0.wasmtime;
    let compiled = Component::from_binary(wasmtime, bytes).map_err(|error| component::refused(place, &error))?;
    let ty = compiled.component_type();
    let names = |item: &ComponentItem| matches!(item, ComponentItem::ComponentInstance(_));
    let imports: Vec<String> = ty.imports(wasmtime).map(|(name, _)| name.to_owned()).collect();
    let exports: Vec<String> = ty
        .exports(wasmtime)
        .filter(|(_, item)| names(&item.ty))
        .map(|(name, _)| name.to_owned())
        .collect();
    let role = exports.iter().find_map(|name| {
        let interface = name.strip_prefix("farrier:driver/")?.split('@').next()?;
        Role::parse(interface)
    });
    let needs = compiled.resources_required().map(|needs| Needs {
        memory_bytes: needs
            .max_initial_memory_size
            .unwrap_or(0)
            .saturating_mul(component::PAGE),
        table_entries: needs.max_initial_table_size.unwrap_or(0),
        memories: needs.num_memories,
        tables: needs.num_tables,
    });
    Ok(Inspection {
        digest: load::digest(bytes),
        size: bytes.len(),
        role,
        manifest,
        functions: component::imports(wasmtime, &compiled),
        imports,
        exports,
        needs,
    })
}
