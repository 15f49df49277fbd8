//! `farrier node`: nodes through the API.

mod edit;
mod fields;
mod show;
mod wait;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use crate::client::{ApiArgs, Client};
use crate::output::{self, OutputArgs};

/// What to do with a node.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Enrol a server
    Create(edit::CreateArgs),
    /// List nodes
    List(show::ListArgs),
    /// Show one node
    Show { node: NodeRef },
    /// Change fields of a node
    Set(edit::SetArgs),
    /// Remove fields of a node
    Unset(edit::UnsetArgs),
    /// Remove a node
    Delete { node: NodeRef },
    /// Tell whether a node has what its driver needs
    Validate { node: NodeRef },
    /// Check the BMC and bring the node under management
    Manage(MoveArgs),
    /// Clean the node and make it available
    Provide(MoveArgs),
    /// Deploy an instance
    Deploy(MoveArgs),
    /// Tear the instance down
    Undeploy(MoveArgs),
    /// Deploy the instance again
    Rebuild(MoveArgs),
    /// Stop waiting for a ramdisk
    Abort(MoveArgs),
    /// Switch maintenance: nothing is done to a node in maintenance
    Maintenance {
        node: NodeRef,
        #[arg(value_enum)]
        switch: Switch,
        /// Why, for colleagues
        #[arg(long)]
        reason: Option<String>,
    },
    /// Ask for a power change
    Power {
        node: NodeRef,
        #[arg(value_enum)]
        target: PowerTarget,
    },
    /// Boot the server once from an ISO at this URL
    BootIntoIso { node: NodeRef, url: String },
    /// What happened to a node
    History {
        node: NodeRef,
        /// At most so many entries, the newest
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum PowerTarget {
    On,
    Off,
    Reboot,
    SoftOff,
    SoftReboot,
}

/// A provision verb on one node.
#[derive(clap::Args)]
pub(crate) struct MoveArgs {
    /// UUID or name
    node: NodeRef,
    /// Return as soon as the API has accepted the request
    #[arg(long)]
    no_wait: bool,
    /// How long to wait, in seconds
    #[arg(long, default_value_t = 3600)]
    timeout_s: u64,
    /// Show what would be asked, ask nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(command: Args) -> Result<()> {
    let client = Client::new(&command.api)?;
    let format = command.output.format;
    match command.verb {
        Verb::Create(args) => edit::create(&client, args, format).await,
        Verb::List(args) => show::list(&client, &args, format).await,
        Verb::Show { node } => show::show(&client, &node, format).await,
        Verb::Set(args) => edit::set(&client, args, format).await,
        Verb::Unset(args) => edit::unset(&client, args, format).await,
        Verb::Delete { node } => {
            client.delete(&node_path(&node)).await?;
            output::note(format_args!("node {node} is gone"));
            Ok(())
        }
        Verb::Validate { node } => show::validate(&client, &node, format).await,
        Verb::Manage(args) => provision(&client, &args, "manage", "manageable").await,
        Verb::Provide(args) => provision(&client, &args, "provide", "available").await,
        Verb::Deploy(args) => provision(&client, &args, "active", "active").await,
        Verb::Undeploy(args) => provision(&client, &args, "deleted", "available").await,
        Verb::Rebuild(args) => provision(&client, &args, "rebuild", "active").await,
        Verb::Abort(args) => provision(&client, &args, "abort", "").await,
        Verb::Maintenance { node, switch, reason } => {
            let path = format!("{}/maintenance", node_path(&node));
            match switch {
                Switch::On => client.put(&path, &json!({ "reason": reason })).await?,
                Switch::Off => client.delete(&path).await?,
            };
            Ok(())
        }
        Verb::Power { node, target } => {
            let target = match target {
                PowerTarget::On => "power on",
                PowerTarget::Off => "power off",
                PowerTarget::Reboot => "rebooting",
                PowerTarget::SoftOff => "soft power off",
                PowerTarget::SoftReboot => "soft rebooting",
            };
            let path = format!("{}/states/power", node_path(&node));
            client.put(&path, &json!({ "target": target })).await?;
            output::note(format_args!("asked node {node} for: {target}"));
            Ok(())
        }
        Verb::BootIntoIso { node, url } => {
            let path = format!("{}/vendor_passthru?method=boot_into_iso", node_path(&node));
            client.post(&path, &json!({ "boot_iso_href": url })).await?;
            output::note(format_args!("asked node {node} to boot from that ISO"));
            Ok(())
        }
        Verb::History { node, limit } => show::history(&client, &node, limit, format).await,
    }
}

/// Asks for a provision state and waits for it, unless told not to. `goal` empty = wherever the abort ends.
async fn provision(client: &Client, args: &MoveArgs, target: &str, goal: &str) -> Result<()> {
    let path = format!("{}/states/provision", node_path(&args.node));
    if args.dry_run {
        output::say(format_args!("would ask: PUT {path} {}", json!({ "target": target })));
        return Ok(());
    }
    let before = wait::before(client, &args.node).await?;
    client.put(&path, &json!({ "target": target })).await?;
    if args.no_wait {
        output::note(format_args!("node {}: {target} asked for", args.node));
        return Ok(());
    }
    let timeout = std::time::Duration::from_secs(args.timeout_s);
    let end = wait::settle(client, &args.node, &before, timeout).await?;
    let state = text(&end, "provision_state");
    if goal.is_empty() || state == goal {
        output::note(format_args!("node {} is {state}", args.node));
        return Ok(());
    }
    let reason = end["last_error"]
        .as_str()
        .unwrap_or("the node says no more; see `farrier node history`");
    bail!("node {} ended in `{state}`, not in `{goal}`: {reason}", args.node)
}

/// A node's UUID or name as it was typed.
#[derive(Clone, Debug)]
struct NodeRef(String);

impl std::str::FromStr for NodeRef {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // They would be other addresses of the API than a node's.
        if matches!(text, "" | "." | "..") {
            return Err("a node has a UUID or a name");
        }
        Ok(Self(text.to_owned()))
    }
}

impl std::ops::Deref for NodeRef {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for NodeRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn node_path(node: &str) -> String {
    format!("/v1/nodes/{}", escape(node))
}

/// Percent-encodes a path segment.
pub(super) fn escape(segment: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let encode = |byte: u8| {
        if plain(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    segment.bytes().map(encode).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_name_cannot_leave_its_path_segment() {
        assert_eq!(node_path("../a b?c"), "/v1/nodes/..%2Fa%20b%3Fc");
        assert_eq!(node_path("rack-7.n1"), "/v1/nodes/rack-7.n1");
        for other in ["", ".", ".."] {
            assert!(other.parse::<NodeRef>().is_err());
        }
    }
}
