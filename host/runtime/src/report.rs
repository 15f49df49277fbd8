//! What a call cost, for metrics, pages and summaries.

use std::time::Duration;

use model::{Digest, NodeId};

use crate::{Change, ShadowReport};

/// One call of a plugin, nested ones included, after it ended.
#[derive(Clone, PartialEq, Debug)]
pub struct CallReport {
    /// Number of the root call that led to it; logs carry it too.
    pub call: u64,
    /// Which plugin.
    pub plugin: String,
    /// Which bytes of it.
    pub digest: Digest,
    /// Which function ("vmedia.prepare-ramdisk").
    pub function: &'static str,
    /// For which node.
    pub node: NodeId,
    /// From the call to its answer.
    pub wall: Duration,
    /// CPU time inside the guest.
    pub cpu: Duration,
    /// Host functions called.
    pub host_calls: u32,
    /// Bytes to and from the host.
    pub host_bytes: u64,
    /// Most linear memory at once, in bytes.
    pub memory_high_water: usize,
    /// It was called by another plugin (1 or more), not by the host (0).
    pub depth: u8,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a call ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It did what it was asked.
    Ok,
    /// It answered with an error of this cause.
    Error(String),
    /// It was stopped for this reason.
    Failed(&'static str),
}

/// Is told of every call. Must not block.
pub trait Observer: Send + Sync {
    /// A call has ended.
    fn call_ended(&self, report: &CallReport);

    /// Another version of a plugin decides now.
    fn plugin_changed(&self, _change: &Change) {}

    /// A shadow has run along with a call.
    fn shadow_ended(&self, _report: &ShadowReport) {}
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn call_ended(&self, _: &CallReport) {}
}
