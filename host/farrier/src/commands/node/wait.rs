//! Waiting for a node to settle, with progress on standard error: a line that changes on a terminal, and elsewhere (a file, a
//! pipe, a job's log) a plain line for each thing that happens.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::{escape, node_path, text};
use crate::client::Client;
use crate::output::{self, harmless};

/// How often to ask.
const INTERVAL: Duration = Duration::from_millis(300);
/// How long the API may give no answer before the wait is given up.
const API_AWAY: Duration = Duration::from_secs(30);
/// Events that are read at once; more happened than anybody could read.
const EVENTS: usize = 200;

/// A node before something was asked of it.
pub(super) struct Before {
    states: Value,
    /// Number of its last event.
    event: u64,
}

/// The node as it is now.
pub(super) async fn before(client: &Client, node: &str) -> Result<Before> {
    let states = client.get(&format!("{}/states", node_path(node))).await?;
    let path = format!("/farrier/v1/events?node={}&newest=true&limit=1", escape(node));
    let events = client.get(&path).await?;
    let event = events["events"][0]["seq"].as_u64().unwrap_or(0);
    Ok(Before { states, event })
}

/// Waits until the node has moved on from `before` and is going nowhere any more; returns its states.
pub(super) async fn settle(client: &Client, node: &str, before: &Before, timeout: Duration) -> Result<Value> {
    let mut show = Show::new(node)?;
    let mut last = before.event;
    let mut refused = false;
    let start = Instant::now();
    let mut answered = start;
    let end = loop {
        tokio::time::sleep(INTERVAL).await;
        let seen = match look(client, node, last).await {
            Ok(seen) => seen,
            // The node goes on without this client; the API may just be starting again.
            Err(error) if answered.elapsed() < API_AWAY => {
                show.trouble(&error);
                continue;
            }
            Err(error) => break Err(error),
        };
        answered = Instant::now();
        for event in &seen.events {
            last = event["seq"].as_u64().unwrap_or(last);
            refused |= event["kind"] == "refused";
            show.event(event);
        }
        show.progress(&seen);
        if settled(&before.states, &seen.states, seen.progress["wish"].is_null(), refused) {
            break Ok(seen.states);
        }
        if start.elapsed() > timeout {
            show.end();
            bail!(
                "node {node} is still `{}` after {} s; it goes on: see `farrier node show {node}`",
                text(&seen.states, "provision_state"),
                timeout.as_secs()
            );
        }
    };
    show.end();
    end
}

/// What one look shows.
struct Seen {
    states: Value,
    progress: Value,
    /// What happened since the last look.
    events: Vec<Value>,
}

async fn look(client: &Client, node: &str, last: u64) -> Result<Seen> {
    // In this order: what the states say has happened is among the events.
    let states = client.get(&format!("{}/states", node_path(node))).await?;
    let name = escape(node);
    let progress = client.get(&format!("/farrier/v1/nodes/{name}/progress")).await?;
    let path = format!("/farrier/v1/events?node={name}&after={last}&limit={EVENTS}");
    let events = client.get(&path).await?;
    Ok(Seen {
        states,
        progress,
        events: events["events"].as_array().cloned().unwrap_or_default(),
    })
}

/// Whether the node has moved on from `before`, or refused to, and goes nowhere any more.
fn settled(before: &Value, now: &Value, no_wish: bool, refused: bool) -> bool {
    let moved = now["provision_updated_at"] != before["provision_updated_at"];
    // A node that failed still names where it was going, so only its state tells whether it goes on.
    let state = text(now, "provision_state");
    let stands = matches!(
        state,
        "enroll" | "manageable" | "available" | "active" | "rescue" | "error"
    ) || state.ends_with("failed");
    no_wish && stands && (moved || refused)
}

/// Where the progress goes.
enum Show {
    Terminal {
        node: String,
        bar: ProgressBar,
    },
    Lines {
        node: String,
        /// What was said last of state and step.
        said: String,
    },
}

impl Show {
    fn new(node: &str) -> Result<Self> {
        let node = node.to_owned();
        if !std::io::stderr().is_terminal() {
            let said = String::new();
            return Ok(Self::Lines { node, said });
        }
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
        bar.enable_steady_tick(Duration::from_millis(120));
        Ok(Self::Terminal { node, bar })
    }

    fn event(&self, event: &Value) {
        if let Self::Lines { node, .. } = self {
            output::note(format_args!("node {node}: {}", text(event, "message")));
        }
    }

    fn progress(&mut self, seen: &Seen) {
        match self {
            Self::Terminal { node, bar } => {
                let line = format!("{node}: {}", line(&seen.states, &seen.progress));
                bar.set_message(harmless(&line).into_owned());
            }
            Self::Lines { node, said } => {
                let Some(step) = seen.progress["step"].as_str() else {
                    return;
                };
                let now = format!("{}, {step}", text(&seen.states, "provision_state"));
                if *said != now {
                    output::note(format_args!("node {node}: {now}"));
                    *said = now;
                }
            }
        }
    }

    fn trouble(&mut self, error: &anyhow::Error) {
        match self {
            Self::Terminal { node, bar } => bar.set_message(harmless(&format!("{node}: {error}")).into_owned()),
            Self::Lines { node, said } => {
                let now = error.to_string();
                if *said != now {
                    output::note(format_args!("node {node}: {now}"));
                    *said = now;
                }
            }
        }
    }

    fn end(&self) {
        if let Self::Terminal { bar, .. } = self {
            bar.finish_and_clear();
        }
    }
}

/// "deploying, write-image 40 %, 12.0 MiB read by the BMC"
fn line(states: &Value, progress: &Value) -> String {
    let mut line = text(states, "provision_state").to_owned();
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
        line += &format!(", {} read by the BMC", output::bytes(read));
    }
    if let Some(trouble) = states["last_error"].as_str() {
        line += &format!(" ({trouble})");
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
        for (now, no_wish, refused, end) in [
            (states("available", None, 1), false, false, false),
            (states("available", None, 1), true, false, false),
            // The same refusal as the last time leaves no other trace.
            (states("available", None, 1), true, true, true),
            (states("deploying", Some("active"), 2), true, false, false),
            (states("active", None, 3), true, false, true),
            (states("deploy failed", Some("active"), 3), true, false, true),
            (states("error", Some("available"), 3), true, false, true),
            (states("enroll", Some("manageable"), 3), true, false, true),
            (states("wait call-back", Some("active"), 3), true, false, false),
        ] {
            assert_eq!(settled(&before, &now, no_wish, refused), end, "{now}");
        }
    }
}
