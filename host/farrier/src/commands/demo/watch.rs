//! Follows the event stream and the nodes' states, and prints each change with the time since the demo began.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use crate::client::Client;
use crate::output;

const INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct Watch {
    pub(super) client: Arc<Client>,
    /// The other conductor's API, while it lives: each counts what it serves itself.
    pub(super) other: Option<Arc<Client>>,
    began: Instant,
    seen: u64,
    names: HashMap<String, String>,
    steps: HashMap<String, String>,
}

impl Watch {
    pub(super) fn new(client: Arc<Client>, other: Arc<Client>, began: Instant) -> Self {
        Self {
            client,
            other: Some(other),
            began,
            seen: 0,
            names: HashMap::new(),
            steps: HashMap::new(),
        }
    }

    /// How a node is called in what is printed.
    pub(super) fn name(&mut self, uuid: &str, name: &str) {
        self.names.insert(uuid.to_owned(), name.to_owned());
    }

    /// Waits until all of these nodes are in that state; a failure state ends the wait at once.
    pub(super) async fn until(&mut self, nodes: &[&str], state: &str, patience: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            self.print_events().await?;
            let mut there = 0;
            for node in nodes {
                let now = self.client.get(&format!("/v1/nodes/{node}/states")).await?;
                let current = now["provision_state"].as_str().unwrap_or_default();
                let failed = current.ends_with("failed") || current == "error";
                if failed || (current == "enroll" && !now["last_error"].is_null()) {
                    bail!(
                        "{node} is `{current}`: {}",
                        now["last_error"].as_str().unwrap_or("no reason given")
                    );
                }
                there += usize::from(current == state);
                self.print_progress(node).await?;
            }
            if there == nodes.len() {
                return self.print_events().await;
            }
            if start.elapsed() > patience {
                bail!(
                    "{} of {} nodes are `{state}` after {} s",
                    there,
                    nodes.len(),
                    patience.as_secs()
                );
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Waits until that conductor has the node and has carried out its plan.
    pub(super) async fn until_taken_over(&mut self, node: &str, conductor: &str, patience: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            self.print_events().await?;
            let path = format!("/farrier/v1/events?node={node}&newest=true&limit=100");
            let events = self.client.get(&path).await?;
            let done = events["events"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|event| event["kind"] == "take-over" && event["conductor"] == conductor);
            if done {
                return Ok(());
            }
            if start.elapsed() > patience {
                bail!("{node} was not taken over within {} s", patience.as_secs());
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn print_events(&mut self) -> Result<()> {
        let answer = self
            .client
            .get(&format!("/farrier/v1/events?after={}&limit=500", self.seen))
            .await?;
        for event in answer["events"].as_array().into_iter().flatten() {
            self.seen = event["seq"].as_u64().unwrap_or(self.seen);
            if event["kind"] == "plugin-call" {
                continue;
            }
            let node = text(event, "node");
            let node = self.names.get(node).map_or(node, String::as_str);
            self.line(
                node,
                &format!("{} ({})", text(event, "message"), text(event, "conductor")),
            );
        }
        Ok(())
    }

    async fn print_progress(&mut self, node: &str) -> Result<()> {
        let now = self.client.get(&format!("/farrier/v1/nodes/{node}/progress")).await?;
        let Some(step) = now["step"].as_str() else {
            return Ok(());
        };
        let mut line = step.to_owned();
        if let Some(percent) = now["percent"].as_u64() {
            line += &format!(" {percent} %");
        }
        if self.steps.get(node) != Some(&line) {
            let mut read = now["bytes_read"].as_u64().unwrap_or(0);
            if let Some(other) = &self.other {
                let there = other.get(&format!("/farrier/v1/nodes/{node}/progress")).await?;
                read += there["bytes_read"].as_u64().unwrap_or(0);
            }
            let read = match read {
                // Its ramdisk has not begun to boot, or what it read is withdrawn already.
                0 => String::new(),
                read => format!(", {} of its images read so far", output::bytes(read)),
            };
            self.line(node, &format!("  {line}{read}"));
            self.steps.insert(node.to_owned(), line);
        }
        Ok(())
    }

    fn line(&self, node: &str, what: &str) {
        output::say(format_args!(
            "[{:6.1} s] {node:10} {what}",
            self.began.elapsed().as_secs_f64()
        ));
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
