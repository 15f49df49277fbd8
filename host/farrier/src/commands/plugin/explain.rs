//! `farrier plugin explain NODE`: why a plugin decides for a node, and what it may do there.

use anyhow::{Context, Result};
use wire::farrier::{NodePlugins, NodeRole, PluginRule};

use super::super::node::escape;
use super::list::short;
use crate::client::{ApiArgs, Client};
use crate::output::{self, Format, OutputArgs, harmless};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// UUID or name of the node
    node: String,
    #[command(flatten)]
    api: ApiArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let client = Client::new(&args.api)?;
    let path = format!("/farrier/v1/nodes/{}/plugins", escape(&args.node));
    let value = client.get(&path).await?;
    if args.output.format == Format::Json {
        return output::json(&value);
    }
    let plugins: NodePlugins = serde_json::from_value(value).context("the API's explanation")?;
    for role in &plugins.roles {
        for line in explain(role) {
            output::say(line);
        }
        output::say("");
    }
    Ok(())
}

fn explain(role: &NodeRole) -> Vec<String> {
    let mut lines = vec![match (&role.plugin, &role.digest) {
        (Some(plugin), Some(digest)) => {
            let version = role
                .version
                .as_ref()
                .map_or_else(String::new, |version| format!(" {version}"));
            let pinned = if role.pinned {
                ", kept until what is under way ends"
            } else {
                ""
            };
            format!("{}: {}{version} ({}){pinned}", role.role, plugin, short(digest))
        }
        _ => format!("{}: no plugin", role.role),
    }];
    for rule in &role.rules {
        lines.push(format!("  {}: {}", rule.entry, reason(rule, role.entry.as_ref())));
        if role.entry.as_ref() == Some(&rule.entry) {
            break;
        }
    }
    if role.plugin.is_none() {
        return harmless_lines(lines);
    }
    for (right, label) in [
        ("allowed", "may call"),
        ("not granted", "asks for, and is denied"),
        ("not requested", "is granted, and does not ask for"),
    ] {
        let functions: Vec<&str> = role
            .functions
            .iter()
            .filter(|(_, own)| *own == right)
            .map(|(function, _)| function.as_str())
            .collect();
        if !functions.is_empty() {
            lines.push(format!("  {label}: {}", functions.join(" ")));
        }
    }
    if role.functions.is_empty() {
        lines.push("  may call nothing but log, clock, settings and facts".to_owned());
    }
    lines.extend(scopes(role));
    if role.granted_by_default && !role.functions.is_empty() {
        lines.push("  granted by the role's default: its entry has no `grant`".to_owned());
    }
    if role.active_node && !role.functions.is_empty() {
        let denied = "eject, withdraw, power, boot settings and raw requests that change something";
        lines.push(format!(
            "  the node is active: {denied} are denied, unless an operator asked"
        ));
    }
    harmless_lines(lines)
}

fn reason(rule: &PluginRule, decides: Option<&String>) -> String {
    match rule.unmet.is_empty() {
        true if decides == Some(&rule.entry) && rule.matches.is_empty() => "decides: it is for every node".to_owned(),
        true if decides == Some(&rule.entry) => {
            let met: Vec<String> = rule
                .matches
                .iter()
                .map(|(fact, wanted)| format!("{fact} is {wanted}"))
                .collect();
            format!("decides: {}", met.join(", "))
        }
        true => "matches".to_owned(),
        false => format!("not for this node: {}", rule.unmet.join(", ")),
    }
}

/// The bounds of what is granted and asked for.
fn scopes(role: &NodeRole) -> Vec<String> {
    let named = [
        ("image.sources", "/image/sources"),
        ("storage.backends", "/storage/backends"),
        ("storage.max-lifetime-s", "/storage/max-lifetime-s"),
        ("secrets", "/secrets"),
        ("bmc-raw.methods", "/bmc-raw/methods"),
        ("bmc-raw.paths", "/bmc-raw/paths"),
        ("bmc-raw.ribcl", "/bmc-raw/ribcl"),
    ];
    let mut lines = Vec::new();
    for (name, pointer) in named {
        let granted = role.granted.pointer(pointer);
        let asked = role.requested.as_ref().and_then(|asked| asked.pointer(pointer));
        match (granted, asked) {
            (None, None) => {}
            (Some(granted), None) => lines.push(format!("  {name}: granted {granted}")),
            (None, Some(asked)) => lines.push(format!("  {name}: asked {asked}")),
            (Some(granted), Some(asked)) => lines.push(format!(
                "  {name}: granted {granted}, asked {asked}; both must allow it"
            )),
        }
    }
    lines
}

fn harmless_lines(lines: Vec<String>) -> Vec<String> {
    lines.iter().map(|line| harmless(line).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_tells_the_rule_and_the_rights() {
        let rule = |entry: &str, unmet: &[&str]| PluginRule {
            entry: entry.to_owned(),
            matches: [("vendor".to_owned(), "HPE".to_owned())].into(),
            unmet: unmet.iter().map(|text| (*text).to_owned()).collect(),
        };
        let role = NodeRole {
            role: "vmedia".to_owned(),
            rules: vec![
                rule("dell", &["vendor is `HPE`, wanted `Dell`"]),
                rule("acme", &[]),
                rule("built-in:vmedia", &[]),
            ],
            entry: Some("acme".to_owned()),
            plugin: Some("acme".to_owned()),
            version: Some("1.4.0".to_owned()),
            digest: Some(format!("sha256:{}", "b2".repeat(32))),
            functions: [
                ("bmc.eject".to_owned(), "not granted".to_owned()),
                ("bmc.insert".to_owned(), "allowed".to_owned()),
            ]
            .into(),
            granted: serde_json::json!({"bmc-raw": {"paths": ["/redfish/v1/**"]}}),
            active_node: true,
            ..NodeRole::default()
        };
        let text = explain(&role).join("\n");
        let expected = "vmedia: acme 1.4.0 (b2b2b2b2b2b2)
  dell: not for this node: vendor is `HPE`, wanted `Dell`
  acme: decides: vendor is HPE
  may call: bmc.insert
  asks for, and is denied: bmc.eject
  bmc-raw.paths: granted [\"/redfish/v1/**\"]
  the node is active: eject, withdraw, power, boot settings and raw requests that change something are denied, unless an operator asked";
        assert_eq!(text, expected);
    }
}
