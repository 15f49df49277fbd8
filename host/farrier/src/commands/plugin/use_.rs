//! `farrier plugin use ENTRY FILE`: another version decides from now on.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wire::farrier::{PluginChange, PluginSwap, PluginUse};

use super::super::node::escape;
use super::list::version;
use crate::client::{ApiArgs, Client};
use crate::output::{self, Format, OutputArgs, harmless};

/// Largest component that the API takes.
const MOST: u64 = 64 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The plugin's entry, as `farrier plugin list` shows it
    entry: String,
    /// The component
    file: PathBuf,
    /// The role, where several have an entry of this name
    #[arg(long)]
    role: Option<String>,
    /// Take a version in quarantine back
    #[arg(long)]
    again: bool,
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let place = args.file.display();
    let size = std::fs::metadata(&args.file)
        .with_context(|| format!("could not read {place}"))?
        .len();
    ensure!(
        size <= MOST,
        "{place} has {size} bytes, and a component has at most {MOST}"
    );
    let component = std::fs::read(&args.file).with_context(|| format!("could not read {place}"))?;
    let wanted = PluginUse {
        component: STANDARD.encode(component),
        role: args.role,
        again: args.again,
    };
    let client = Client::new(&args.api)?;
    let path = format!("/farrier/v1/plugins/{}", escape(&args.entry));
    let value = client.put(&path, &serde_json::to_value(&wanted)?).await?;
    if args.output.format == Format::Json {
        return output::json(&value);
    }
    let swap: PluginSwap = serde_json::from_value(value).context("the API's answer")?;
    match swap.change {
        None => output::note("this version decides already"),
        Some(change) => show(&change),
    }
    Ok(())
}

/// What changed, for people.
pub(super) fn show(change: &PluginChange) {
    let from = version(&change.from, change.from_version.as_deref());
    let to = version(&change.to, change.to_version.as_deref());
    output::say(format_args!("{}: {from} -> {to}", harmless(&change.entry)));
    for (label, functions) in [
        ("asks for more", &change.more),
        ("asks no longer for", &change.less),
        ("asks for what it is not granted", &change.denied),
    ] {
        if !functions.is_empty() {
            output::say(format_args!("  {label}: {}", harmless(&functions.join(", "))));
        }
    }
}
