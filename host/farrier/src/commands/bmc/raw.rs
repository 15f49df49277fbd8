//! `farrier bmc raw`: one request, or one RIBCL command, as given.

use anyhow::{Context, Result, bail};
use bmc::{Bmc, ribcl};
use serde_json::{Value, json};

use super::Target;
use crate::output::{self, Format};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
    /// Path under /redfish/v1 (iLO 4: /rest/v1), or an RIBCL command such as GET_VM_STATUS
    request: String,
    /// HTTP method; a command of RIBCL that changes something needs `--method WRITE`
    #[arg(long, default_value = "GET")]
    method: String,
    /// JSON to send, or @FILE; what changes something needs one, if only {}
    #[arg(long, value_name = "JSON")]
    body: Option<String>,
    /// Attribute of an RIBCL command; may be repeated
    #[arg(long = "argument", value_name = "NAME=VALUE")]
    arguments: Vec<String>,
}

pub(super) async fn run(args: Args, format: Format) -> Result<()> {
    if args.request.starts_with('/') {
        request(args, format).await
    } else {
        command(args, format).await
    }
}

async fn request(args: Args, format: Format) -> Result<()> {
    if !args.arguments.is_empty() {
        bail!("--argument belongs to a command of RIBCL; a request has a --body");
    }
    let method = args.method.to_ascii_uppercase();
    let body = match &args.body {
        Some(text) => Some(match text.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path).with_context(|| format!("could not read the body {path}"))?,
            None => text.clone(),
        }),
        None => None,
    };
    let reads = matches!(method.as_str(), "GET" | "HEAD");
    if !reads && method != "DELETE" && body.is_none() {
        bail!("{method} changes something: give its --body, if only {{}}");
    }
    if reads && body.is_some() {
        bail!("{method} sends no body: name a --method that does");
    }
    let path = args.request;
    let reply = args.target.with(|bmc| async move {
        let reply = bmc.raw_redfish(&method, &path, body.as_deref()).await?;
        Ok(reply)
    });
    let reply = reply.await?;
    let parsed: Option<Value> = serde_json::from_str(&reply.body).ok();
    match format {
        Format::Json => output::json(&json!({
            "status": reply.status,
            "headers": reply.headers,
            "body": parsed.unwrap_or_else(|| json!(reply.body)),
        }))?,
        Format::Table => match parsed {
            Some(body) => output::json(&body)?,
            None if reply.body.is_empty() => output::say(format_args!("HTTP {}", reply.status)),
            None => output::say(&reply.body),
        },
    }
    if reply.status >= 400 {
        bail!("the BMC answered with HTTP {}", reply.status);
    }
    Ok(())
}

async fn command(args: Args, format: Format) -> Result<()> {
    let name = args.request.to_ascii_uppercase();
    if args.body.is_some() {
        bail!("--body belongs to a request; a command of RIBCL has --argument NAME=VALUE");
    }
    let writes = ribcl::commands()
        .find(|(known, _)| *known == name)
        .map(|(_, writes)| writes);
    if writes == Some(true) && !args.method.eq_ignore_ascii_case("WRITE") {
        bail!("{name} changes something: say so with --method WRITE");
    }
    let arguments = args
        .arguments
        .iter()
        .map(|argument| {
            let (key, value) = argument
                .split_once('=')
                .with_context(|| format!("`{argument}` is no argument: give NAME=VALUE"))?;
            Ok((key.to_owned(), value.to_owned()))
        })
        .collect::<Result<Vec<_>>>()?;
    let xml = args
        .target
        .with(|bmc| async move { Ok(bmc.raw_ribcl(&name, &arguments).await?) });
    let xml = xml.await?;
    match format {
        Format::Json => output::json(&json!({"xml": xml})),
        Format::Table => {
            output::say(if xml.is_empty() { "done" } else { xml.as_str() });
            Ok(())
        }
    }
}
