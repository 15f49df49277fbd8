//! The summary: times, bytes that each server read, plugin calls and what they cost.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use sim::Device;

use crate::output;

#[derive(Default)]
pub(super) struct Report {
    times: Vec<(String, Duration)>,
    reads: Vec<[String; 4]>,
    calls: BTreeMap<(String, String), Cost>,
    counted: HashSet<String>,
}

#[derive(Default)]
struct Cost {
    calls: u64,
    wall_us: u64,
    guest_us: Vec<u64>,
    host_calls: u64,
    memory: u64,
    failures: u64,
}

impl Report {
    pub(super) fn note(&mut self, what: &str, time: Duration) {
        self.times.push((what.to_owned(), time));
    }

    pub(super) fn add_reads(&mut self, server: &str, device: Device, bytes: u64, requests: u64) {
        let device = format!("{device:?}").to_lowercase();
        self.reads
            .push([server.to_owned(), device, output::bytes(bytes), requests.to_string()]);
    }

    /// Adds calls as `/farrier/v1/plugins/calls` lists them; one that was added before is not counted twice.
    pub(super) fn add_plugin_calls(&mut self, answer: &Value) {
        for call in answer["calls"].as_array().into_iter().flatten() {
            if !self.counted.insert(call.to_string()) {
                continue;
            }
            let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
            let number = |key: &str| call[key].as_u64().unwrap_or_default();
            let cost = self.calls.entry((text("plugin"), text("function"))).or_default();
            cost.calls += 1;
            cost.wall_us += number("wall_us");
            cost.guest_us.push(number("guest_us"));
            cost.host_calls += number("host_calls");
            cost.memory = cost.memory.max(number("memory_bytes"));
            cost.failures += u64::from(call["outcome"] != "ok");
        }
    }

    pub(super) fn print(mut self) {
        output::say("\nTimes");
        let times = self
            .times
            .iter()
            .map(|(what, time)| [what.clone(), format!("{:.1} s", time.as_secs_f64())]);
        output::table(["what", "took"], times);
        output::say("\nRead over virtual media");
        output::table(["server", "device", "bytes", "requests"], self.reads.drain(..));
        output::say("\nPlugin calls");
        let header = [
            "plugin",
            "function",
            "calls",
            "failed",
            "guest CPU, median",
            "host calls",
            "wall in all",
            "memory",
        ];
        let rows = self.calls.iter_mut().map(|((plugin, function), cost)| {
            cost.guest_us.sort_unstable();
            let median = cost.guest_us.get(cost.guest_us.len() / 2).copied().unwrap_or_default();
            [
                plugin.clone(),
                function.clone(),
                cost.calls.to_string(),
                cost.failures.to_string(),
                format!("{median} µs"),
                cost.host_calls.to_string(),
                format!("{:.1} ms", Duration::from_micros(cost.wall_us).as_secs_f64() * 1000.0),
                output::bytes(cost.memory),
            ]
        });
        output::table(header, rows);
    }
}
