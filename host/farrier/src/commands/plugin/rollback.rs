//! `farrier plugin rollback ENTRY`: back to the last good version.

use anyhow::{Context, Result};
use wire::farrier::{PluginChange, PluginRollback};

use super::super::node::escape;
use super::use_::show;
use crate::client::{ApiArgs, Client};
use crate::output::{self, Format, OutputArgs};

/// The version that decides now goes into quarantine
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The plugin's entry, as `farrier plugin list` shows it
    entry: String,
    /// The role, where several have an entry of this name
    #[arg(long)]
    role: Option<String>,
    /// Why, for colleagues
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let client = Client::new(&args.api)?;
    let path = format!("/farrier/v1/plugins/{}/rollback", escape(&args.entry));
    let wanted = PluginRollback {
        role: args.role,
        reason: args.reason,
    };
    let value = client.post(&path, &serde_json::to_value(&wanted)?).await?;
    if args.output.format == Format::Json {
        return output::json(&value);
    }
    let change: PluginChange = serde_json::from_value(value).context("the API's answer")?;
    show(&change);
    Ok(())
}
