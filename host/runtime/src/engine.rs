//! Wasmtime, set up for many short calls of small guests: pooled instances, fibers, and one thread that ticks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use model::Digest;
use tokio::sync::Semaphore;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::compiled::private_folder;
use crate::component::Plugin;
use crate::{CallFailure, LoadError, Role};

/// How often the epoch advances: a guest that spins is looked at so often.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The largest memory that any guest's limit may allow. It is also the address space reserved for each pooled memory.
pub(crate) const MAX_MEMORY: usize = 64 << 20;
pub(crate) const MAX_TABLE_ENTRIES: usize = 10_000;
/// Core instances in one component: a Python guest has 38.
pub(crate) const MAX_CORE_INSTANCES: u32 = 64;
/// Memories and tables in one component: what links several modules has some of each, most of them empty.
pub(crate) const MAX_MEMORIES: u32 = 4;
pub(crate) const MAX_TABLES: u32 = 4;

/// Carries the reason for stopping a guest through Wasmtime's error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Stopped(pub(crate) CallFailure);

/// Deepest chain of calls: a vendor's plugin, two of the site's vmedia plugins or one and the built-in, backend selection.
pub(crate) const DEPTH: u8 = 4;

/// Shadows that run at once.
const SHADOWS_AT_ONCE: u32 = 4;
/// Shadows that run or wait to; a call beyond them is not compared.
const SHADOWS_WAITING: usize = 256;

/// Compiles and runs components: a pool of instances, what was compiled so far, and permits for root calls. One for a
/// process; runtimes come and go on it, and a component is compiled once.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) wasmtime: wasmtime::Engine,
    pub(crate) compiled: Mutex<BTreeMap<(Role, Digest), Arc<Plugin>>>,
    /// Where compiled components are kept.
    pub(crate) cache: Option<PathBuf>,
    pub(crate) permits: Semaphore,
    pub(crate) calls_at_once: usize,
    pub(crate) shadows: Semaphore,
    /// Shadows that run or wait to.
    pub(crate) shadow_queue: Semaphore,
}

impl Engine {
    /// An engine on which so many root calls run at once; more wait.
    pub fn new(calls_at_once: u16) -> Result<Self, LoadError> {
        Self::with(calls_at_once, None)
    }

    /// The same, which keeps what it compiled in a folder of its own: a component that was compiled before is ready in a
    /// fraction of a millisecond.
    pub fn cached(calls_at_once: u16, folder: &Path) -> Result<Self, LoadError> {
        private_folder(folder).map_err(|source| LoadError::Folder {
            place: folder.display().to_string(),
            remedy: "it must belong to this user alone".to_owned(),
            source: Some(source),
        })?;
        Self::with(calls_at_once, Some(folder.to_owned()))
    }

    fn with(calls_at_once: u16, cache: Option<PathBuf>) -> Result<Self, LoadError> {
        let calls_at_once = calls_at_once.max(1);
        let instances = u32::from(calls_at_once) * u32::from(DEPTH) + SHADOWS_AT_ONCE;
        let wasmtime = wasmtime_engine(instances).map_err(|error| LoadError::Engine(format!("{error:#}")))?;
        start_ticker(&wasmtime).map_err(|error| LoadError::Engine(format!("{error:#}")))?;
        Ok(Self(Arc::new(Shared {
            wasmtime,
            compiled: Mutex::default(),
            cache,
            permits: Semaphore::new(calls_at_once.into()),
            calls_at_once: calls_at_once.into(),
            shadows: Semaphore::new(SHADOWS_AT_ONCE as usize),
            shadow_queue: Semaphore::new(SHADOWS_WAITING),
        })))
    }
}

fn wasmtime_engine(instances: u32) -> wasmtime::Result<wasmtime::Engine> {
    match wasmtime::Engine::new(&pooled(instances)) {
        Ok(engine) => Ok(engine),
        // A host with a small limit on address space (`ulimit -v`) cannot reserve the pool.
        Err(error) => {
            tracing::warn!("no pool for plugin instances, each call allocates its own memory: {error:#}");
            wasmtime::Engine::new(&common())
        }
    }
}

fn common() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .epoch_interruption(true)
        .memory_init_cow(true)
        .memory_reservation(MAX_MEMORY as u64)
        // Every access is checked, so no guard page has to be protected anew for each call.
        .memory_guard_size(0)
        .max_wasm_stack(512 << 10)
        // A guest has a quarter of it; the rest is for what the host does on its behalf (a TLS handshake in a debug build).
        .async_stack_size(2 << 20);
    config
}

fn pooled(instances: u32) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_stacks(instances)
        .total_memories(instances.saturating_mul(MAX_MEMORIES))
        .total_tables(instances.saturating_mul(MAX_TABLES))
        .total_core_instances(instances.saturating_mul(MAX_CORE_INSTANCES))
        .max_core_instances_per_component(MAX_CORE_INSTANCES)
        .max_component_instance_size(1 << 20)
        .max_core_instance_size(1 << 20)
        .max_memories_per_component(MAX_MEMORIES)
        .max_tables_per_component(MAX_TABLES)
        .max_memory_size(MAX_MEMORY)
        .table_elements(MAX_TABLE_ENTRIES)
        // What a call has dirtied is written back rather than unmapped: no page is faulted in again by the next one.
        .pagemap_scan(Enabled::Auto)
        .linear_memory_keep_resident(256 << 10)
        .table_keep_resident(64 << 10);
    let mut config = common();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// An operating system thread, since a spinning guest can hold up every timer of the async runtime. It ends with the engine.
fn start_ticker(engine: &wasmtime::Engine) -> wasmtime::Result<()> {
    let weak = engine.weak();
    thread::Builder::new()
        .name("plugin-ticker".to_owned())
        .spawn(move || {
            loop {
                thread::sleep(TICK);
                match weak.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        })
        .map_err(wasmtime::Error::new)?;
    Ok(())
}
