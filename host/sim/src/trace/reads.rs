//! A BMC's reads of an image: the rules that spoil them, and their lines in the trace.

use std::sync::Arc;

use serde::Serialize;

use super::TraceFile;
use crate::faults::{Applied, Effect, Faults};
use crate::profile::Device;
use crate::server::Server;

/// Looks at every read of one image.
#[derive(Clone)]
pub(crate) struct ReadWatch {
    server: usize,
    device: Device,
    faults: Faults,
    trace_file: Arc<TraceFile>,
}

/// One read as it stands in the trace.
#[derive(Serialize)]
pub(crate) struct Read<'a> {
    pub(crate) time: String,
    pub(crate) method: &'a str,
    /// Without credentials.
    pub(crate) url: &'a str,
    /// First and last byte that were asked for; none of a whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<(u64, u64)>,
    /// Bytes of the answer's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<&'a str>,
}

impl ReadWatch {
    pub(crate) fn new(server: &Server, device: Device) -> Self {
        Self {
            server: server.index,
            device,
            faults: server.config.faults.clone(),
            trace_file: Arc::clone(&server.trace_file),
        }
    }

    /// The rule that hits this read, once its delay is over.
    pub(crate) async fn rule(&self, method: &str, path: &str) -> Option<Applied> {
        let path = path.split('?').next().unwrap_or_default();
        let rule = self.faults.apply_to_read(self.server, self.device, method, path)?;
        if let Some(delay) = rule.delay {
            tokio::time::sleep(delay).await;
        }
        Some(rule)
    }

    pub(crate) fn note(&self, read: &Read<'_>) {
        #[derive(Serialize)]
        struct Entry<'a> {
            server: usize,
            device: Device,
            #[serde(flatten)]
            read: &'a Read<'a>,
        }
        if self.trace_file.is_open() {
            let (server, device) = (self.server, self.device);
            self.trace_file.write("media", &Entry { server, device, read });
        }
    }
}

/// What a rule does; nothing without one.
pub(crate) fn effect_of(rule: Option<&Applied>) -> &Effect {
    rule.map_or(&Effect::None, |rule| &rule.effect)
}
