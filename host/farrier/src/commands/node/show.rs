//! `list`, `show`, `validate`, `history`.

use anyhow::{Result, bail};
use serde_json::Value;

use super::{escape, node_path, text};
use crate::client::Client;
use crate::output::{self, Format};

/// Page size of listings.
const PAGE: usize = 500;

#[derive(clap::Args)]
pub(crate) struct ListArgs {
    /// Only nodes in this provision state ("active", "wait call-back", …)
    #[arg(long)]
    state: Option<String>,
    /// Only nodes in maintenance
    #[arg(long)]
    maintenance: bool,
}

pub(super) async fn list(client: &Client, args: &ListArgs, format: Format) -> Result<()> {
    let mut query = format!("/v1/nodes/detail?limit={PAGE}");
    if let Some(state) = &args.state {
        query += &format!("&provision_state={}", escape(state));
    }
    if args.maintenance {
        query += "&maintenance=true";
    }
    let mut nodes: Vec<Value> = Vec::new();
    loop {
        let marker = nodes.last().map(|node| format!("&marker={}", text(node, "uuid")));
        let page = client.get(&(query.clone() + marker.as_deref().unwrap_or(""))).await?;
        let page = page["nodes"].as_array().cloned().unwrap_or_default();
        let last = page.len() < PAGE;
        nodes.extend(page);
        if last {
            break;
        }
    }
    if format == Format::Json {
        return output::json(&nodes);
    }
    let header = [
        "uuid",
        "name",
        "driver",
        "power",
        "provision state",
        "conductor",
        "maintenance",
    ];
    output::table(header, nodes.iter().map(row));
    Ok(())
}

fn row(node: &Value) -> [String; 7] {
    let maintenance = if node["maintenance"] == true { "yes" } else { "" };
    [
        text(node, "uuid"),
        text(node, "name"),
        text(node, "driver"),
        text(node, "power_state"),
        text(node, "provision_state"),
        text(node, "conductor"),
        maintenance,
    ]
    .map(str::to_owned)
}

pub(super) async fn show(client: &Client, node: &str, format: Format) -> Result<()> {
    print(&client.get(&node_path(node)).await?, format)
}

/// One object: a row a field, empty ones left out.
pub(super) fn print(node: &Value, format: Format) -> Result<()> {
    if format == Format::Json {
        return output::json(node);
    }
    let fields = node.as_object().into_iter().flatten();
    let filled = fields.filter(|(_, value)| !is_empty(value) && !value.is_array());
    output::table(
        ["field", "value"],
        filled.map(|(key, value)| [key.clone(), plain(value)]),
    );
    Ok(())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let lines: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{key} = {}", plain(value)))
                .collect();
            lines.join("\n")
        }
        other => other.to_string(),
    }
}

pub(super) async fn validate(client: &Client, node: &str, format: Format) -> Result<()> {
    let answer = client.get(&format!("{}/validate", node_path(node))).await?;
    let interfaces = answer.as_object().cloned().unwrap_or_default();
    if format == Format::Json {
        output::json(&answer)?;
    } else {
        let rows = interfaces.iter().map(|(name, answer)| {
            let result = if answer["result"] == false { "no" } else { "yes" };
            [name.clone(), result.to_owned(), text(answer, "reason").to_owned()]
        });
        output::table(["interface", "valid", "reason"], rows);
    }
    if interfaces.values().any(|answer| answer["result"] == false) {
        bail!("node {node} lacks something that its driver needs");
    }
    Ok(())
}

pub(super) async fn history(client: &Client, node: &str, limit: u32, format: Format) -> Result<()> {
    let path = format!("/farrier/v1/events?node={}&limit={limit}&newest=true", escape(node));
    let answer = client.get(&path).await?;
    let events = answer["events"].as_array().cloned().unwrap_or_default();
    if format == Format::Json {
        return output::json(&events);
    }
    let rows = events.iter().map(|event| {
        [
            text(event, "at"),
            text(event, "conductor"),
            text(event, "kind"),
            text(event, "message"),
        ]
        .map(str::to_owned)
    });
    output::table(["at", "conductor", "kind", "what happened"], rows);
    Ok(())
}
