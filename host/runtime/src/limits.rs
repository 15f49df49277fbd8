//! What one call may use, and the parts of it that Wasmtime asks about while the guest runs.

use std::time::{Duration, Instant};

use wasmtime::{CallHook, ResourceLimiter};

use crate::CallFailure;
use crate::engine::Stopped;

/// What one call may use. Nested calls have their own memory and CPU, and share wall time and host calls with the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of linear memory, summed over the instance.
    pub memory: usize,
    /// Table entries, summed over the instance.
    pub table_entries: usize,
    /// CPU time inside the guest.
    pub cpu: Duration,
    /// Time from the call to its answer.
    pub wall: Duration,
    /// Calls of host functions.
    pub host_calls: u32,
    /// Bytes that go to and from the host.
    pub host_bytes: u64,
    /// Live images and locations.
    pub handles: u32,
    /// Bytes of log.
    pub log_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 32 << 20,
            table_entries: 10_000,
            cpu: Duration::from_millis(200),
            wall: Duration::from_secs(120),
            host_calls: 200,
            host_bytes: 1 << 20,
            handles: 256,
            log_bytes: 64 << 10,
        }
    }
}

/// Sums what the guest's memories and tables take. Wasmtime asks about one at a time.
#[derive(Debug)]
pub(crate) struct Meter {
    memory: usize,
    memory_limit: usize,
    tables: usize,
    tables_limit: usize,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory: 0,
            memory_limit: limits.memory,
            tables: 0,
            tables_limit: limits.table_entries,
        }
    }

    /// Most bytes of memory at once: memories never shrink.
    pub(crate) fn memory_high_water(&self) -> usize {
        self.memory
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_add(desired.saturating_sub(current));
        if total > self.memory_limit {
            return Err(Stopped(CallFailure::Memory(self.memory_limit)).into());
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.tables.saturating_add(desired.saturating_sub(current));
        if total > self.tables_limit {
            return Err(Stopped(CallFailure::Tables(self.tables_limit)).into());
        }
        self.tables = total;
        Ok(true)
    }
}

/// Measures CPU time in the guest. It stands still while the host works or the guest waits: ticks are never counted, since
/// the epoch goes on during a BMC request.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    spent: Duration,
    running_since: Option<Instant>,
}

impl Stopwatch {
    pub(crate) fn new() -> Self {
        Self {
            spent: Duration::ZERO,
            running_since: None,
        }
    }

    pub(crate) fn hook(&mut self, hook: CallHook) {
        match hook {
            CallHook::CallingWasm | CallHook::ReturningFromHost => self.running_since = Some(Instant::now()),
            CallHook::ReturningFromWasm | CallHook::CallingHost => {
                if let Some(since) = self.running_since.take() {
                    self.spent += since.elapsed();
                }
            }
        }
    }

    /// So far, the stretch that is running included.
    pub(crate) fn spent(&self) -> Duration {
        self.spent + self.running_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}
