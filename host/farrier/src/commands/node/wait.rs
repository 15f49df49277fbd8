//! Waiting for a node to settle, with progress on standard error.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::{node_path, text};
use crate::client::Client;
use crate::output::harmless;

/// How often to ask.
const INTERVAL: Duration = Duration::from_millis(300);
/// How long the API may give no answer before the wait is given up.
const API_AWAY: Duration = Duration::from_secs(30);

/// The node's states as they are now.
pub(super) async fn states(client: &Client, node: &str) -> Result<Value> {
    client.get(&format!("{}/states", node_path(node))).await
}

/// Waits until the node has moved on from `before` and is going nowhere any more; returns its states.
pub(super) async fn settle(client: &Client, node: &str, before: &Value, timeout: Duration) -> Result<Value> {
    let bar = ProgressBar::new_spinner();
    bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    bar.enable_steady_tick(Duration::from_millis(120));
    let start = Instant::now();
    let mut answered = start;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let (now, progress) = match look(client, node).await {
            Ok(seen) => seen,
            // The node goes on without this client; the API may just be starting again.
            Err(error) if answered.elapsed() < API_AWAY => {
                bar.set_message(harmless(&format!("{node}: {error}")).into_owned());
                continue;
            }
            Err(error) => {
                bar.finish_and_clear();
                return Err(error);
            }
        };
        answered = Instant::now();
        bar.set_message(harmless(&line(node, &now, &progress)).into_owned());
        if settled(before, &now, progress["wish"].is_null()) {
            bar.finish_and_clear();
            return Ok(now);
        }
        if start.elapsed() > timeout {
            bar.finish_and_clear();
            bail!(
                "node {node} is still `{}` after {} s; it goes on: see `farrier node show {node}`",
                text(&now, "provision_state"),
                timeout.as_secs()
            );
        }
    }
}

/// The node's states and its progress.
async fn look(client: &Client, node: &str) -> Result<(Value, Value)> {
    let now = states(client, node).await?;
    let path = format!("/farrier/v1/nodes/{}/progress", super::escape(node));
    Ok((now, client.get(&path).await?))
}

/// Whether the node has moved on from `before`, or refused to, and goes nowhere any more.
fn settled(before: &Value, now: &Value, no_wish: bool) -> bool {
    let moved = now["provision_updated_at"] != before["provision_updated_at"];
    let refused = now["last_error"] != before["last_error"];
    // A node that failed still names where it was going, so only its state tells whether it goes on.
    let state = text(now, "provision_state");
    let stands = matches!(
        state,
        "enroll" | "manageable" | "available" | "active" | "rescue" | "error"
    ) || state.ends_with("failed");
    no_wish && stands && (moved || refused)
}

/// "n1: deploying: write-image 40 %, 12.0 MiB read by the server".
fn line(node: &str, states: &Value, progress: &Value) -> String {
    let mut line = format!("{node}: {}", text(states, "provision_state"));
    if let Some(step) = progress["step"].as_str() {
        line += &format!(", {step}");
    }
    if let Some(percent) = progress["percent"].as_u64() {
        line += &format!(" {percent} %");
    }
    let artefacts = progress["artefacts"].as_array();
    let read: u64 = artefacts
        .into_iter()
        .flatten()
        .filter_map(|artefact| artefact["bytes_read"].as_u64())
        .sum();
    if read > 0 {
        line += &format!(", {} read by the BMC", crate::output::bytes(read));
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn waiting_ends_where_the_node_stands_and_not_before_it_has_begun() {
        let states = |state: &str, target: Option<&str>, at: u32| json!({ "provision_state": state, "target_provision_state": target, "provision_updated_at": at });
        let before = states("available", None, 1);
        for (now, no_wish, end) in [
            (states("available", None, 1), false, false),
            (states("available", None, 1), true, false),
            (states("deploying", Some("active"), 2), true, false),
            (states("active", None, 3), true, true),
            (states("deploy failed", Some("active"), 3), true, true),
            (states("error", Some("available"), 3), true, true),
            (states("enroll", Some("manageable"), 3), true, true),
            (states("wait call-back", Some("active"), 3), true, false),
        ] {
            assert_eq!(settled(&before, &now, no_wish), end, "{now}");
        }
    }
}
