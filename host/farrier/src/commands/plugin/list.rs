//! `farrier plugin list`: which plugins a running conductor has, and what became of their versions.

use anyhow::{Context, Result};
use wire::farrier::{Plugin, PluginChanges, Plugins, ShadowRuns};

use crate::client::{ApiArgs, Client};
use crate::output::{self, Format, OutputArgs, harmless};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    api: ApiArgs,
    /// The last changes of versions instead, newest first
    #[arg(long, conflicts_with = "shadows")]
    changes: bool,
    /// The last calls that a shadow would have made otherwise instead, newest first
    #[arg(long)]
    shadows: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let client = Client::new(&args.api)?;
    if args.changes {
        return changes(&client, args.output.format).await;
    }
    if args.shadows {
        return shadows(&client, args.output.format).await;
    }
    let value = client.get("/farrier/v1/plugins").await?;
    if args.output.format == Format::Json {
        return output::json(&value);
    }
    let plugins: Plugins = serde_json::from_value(value).context("the API's list of plugins")?;
    output::table(
        [
            "Role", "Plugin", "Version", "Digest", "For", "Calls", "Failures", "In guest", "In host", "Memory",
        ],
        plugins.plugins.iter().map(|plugin| {
            [
                plugin.role.clone(),
                harmless(&plugin.entry).into_owned(),
                harmless(plugin.version.as_deref().unwrap_or("-")).into_owned(),
                short(&plugin.digest).to_owned(),
                conditions(plugin),
                plugin.calls.to_string(),
                plugin.failures.to_string(),
                milliseconds(plugin.guest_us),
                milliseconds(plugin.host_us),
                output::bytes(plugin.memory_bytes),
            ]
        }),
    );
    for plugin in &plugins.plugins {
        for (digest, why) in &plugin.quarantined {
            let (entry, why) = (harmless(&plugin.entry), harmless(why));
            output::say(format_args!("{entry}: {} is in quarantine: {why}", short(digest)));
        }
        if !plugin.compared.is_empty() {
            let counts: Vec<String> = plugin
                .compared
                .iter()
                .map(|(verdict, count)| format!("{count} {verdict}"))
                .collect();
            output::say(format_args!(
                "{}: compared: {}",
                harmless(&plugin.entry),
                counts.join(", ")
            ));
        }
    }
    Ok(())
}

async fn changes(client: &Client, format: Format) -> Result<()> {
    let value = client.get("/farrier/v1/plugins/changes").await?;
    if format == Format::Json {
        return output::json(&value);
    }
    let changes: PluginChanges = serde_json::from_value(value).context("the API's list of changes")?;
    output::table(
        ["When", "Plugin", "From", "To", "By itself", "Why"],
        changes.changes.iter().map(|change| {
            [
                change.at.clone(),
                harmless(&change.entry).into_owned(),
                version(&change.from, change.from_version.as_deref()),
                version(&change.to, change.to_version.as_deref()),
                if change.automatic { "yes" } else { "no" }.to_owned(),
                harmless(&change.why).into_owned(),
            ]
        }),
    );
    Ok(())
}

async fn shadows(client: &Client, format: Format) -> Result<()> {
    let value = client.get("/farrier/v1/plugins/shadows").await?;
    if format == Format::Json {
        return output::json(&value);
    }
    let runs: ShadowRuns = serde_json::from_value(value).context("the API's list of shadow runs")?;
    output::table(
        ["When", "Call", "Node", "Function", "Shadow", "", "What differs"],
        runs.runs.iter().map(|run| {
            [
                run.at.clone(),
                run.call.to_string(),
                run.node.clone(),
                run.function.clone(),
                harmless(&run.shadow).into_owned(),
                run.verdict.clone(),
                harmless(&run.detail.join("; ")).into_owned(),
            ]
        }),
    );
    Ok(())
}

fn conditions(plugin: &Plugin) -> String {
    let text = match plugin.matches.is_empty() {
        true => "every node".to_owned(),
        false => {
            let conditions = plugin.matches.iter();
            let conditions: Vec<String> = conditions.map(|(fact, wanted)| format!("{fact}={wanted}")).collect();
            harmless(&conditions.join(" ")).into_owned()
        }
    };
    match plugin.shadow {
        true => format!("{text}, as a shadow"),
        false => text,
    }
}

/// A version for people: its number, else the beginning of its digest.
pub(super) fn version(digest: &str, number: Option<&str>) -> String {
    match number {
        Some(number) => format!("{} ({})", harmless(number), short(digest)),
        None => short(digest).to_owned(),
    }
}

/// The beginning of a digest.
pub(super) fn short(digest: &str) -> &str {
    let text = digest.strip_prefix("sha256:").unwrap_or(digest);
    text.get(..12).unwrap_or(text)
}

fn milliseconds(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1000, micros % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_and_times_are_short() {
        assert_eq!(short(&format!("sha256:{}", "a1".repeat(32))), "a1a1a1a1a1a1");
        assert_eq!(short("sha256:a"), "a");
        assert_eq!(version("sha256:aa", Some("1.2.0")), "1.2.0 (aa)");
        assert_eq!(milliseconds(1_234_005), "1234.005 ms");
    }
}
