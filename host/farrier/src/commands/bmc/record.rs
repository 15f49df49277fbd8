//! `farrier bmc record`: a tour through a BMC, written down and scrubbed.

use std::collections::{BTreeSet, VecDeque};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bmc::probe::{Presence, Transport, probe};
use bmc::record::Recorder;
use bmc::trace::Trace;
use bmc::{Bmc, BmcConfig, BmcError, InsertMedia, ProbedBmc, ribcl};
use model::{Device, Secret};
use serde_json::{Value, json};

use super::Target;
use super::connect::interruptible;
use crate::output::{self, Format};

/// Collections that are long and tell nothing about how a BMC is spoken to.
const LEFT_OUT: [&str; 8] = [
    "/LogServices",
    "/Logs",
    "/JsonSchemas",
    "/Schemas",
    "/Registries",
    "/SessionService",
    "/Sessions",
    "/TelemetryService",
];

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
    /// File to write; it must not exist yet
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How many resources to look at
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5000))]
    limit: u32,
    /// Insert this image into the virtual CD and eject it again: changes what the CD holds
    #[arg(long, value_name = "URL")]
    media: Option<String>,
}

pub(super) async fn run(args: Args, format: Format) -> Result<()> {
    let recorder = Arc::new(Recorder::default());
    let config = BmcConfig {
        trace: Some(Arc::clone(&recorder) as Arc<dyn Trace>),
        ..args.target.config()?
    };
    // Before the tour: nobody wants to take it for nothing.
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&args.out)
        .with_context(|| format!("could not make {}", args.out.display()))?;
    let toured = tour(&config, &args).await;
    let lines = recorder.lines(&config).map_err(anyhow::Error::msg)?;
    let written = lines.iter().try_for_each(|line| writeln!(file, "{line}"));
    written
        .and_then(|()| file.sync_all())
        .with_context(|| format!("could not write {}", args.out.display()))?;
    if recorder.lost() > 0 {
        output::note(format_args!(
            "{} exchanges did not fit into 64 MiB and are missing",
            recorder.lost()
        ));
    }
    report(&args.out, lines.len() - 1, format)?;
    // What was said until it failed is written all the same: that may be what is to be reported.
    toured
}

fn report(out: &Path, exchanges: usize, format: Format) -> Result<()> {
    match format {
        Format::Json => output::json(&json!({"file": out, "exchanges": exchanges})),
        Format::Table => {
            output::say(format_args!(
                "{}: {exchanges} exchanges, with passwords, tokens, names, serial numbers and addresses replaced. Look through it \
                 before you hand it on.",
                out.display()
            ));
            Ok(())
        }
    }
}

async fn tour(config: &BmcConfig, args: &Args) -> Result<()> {
    let found = interruptible(async { Ok(probe(config).await?) }).await?;
    let bmc = ProbedBmc::new(config.clone(), Some(args.target.transport().unwrap_or(found.transport)))?;
    let result = interruptible(async {
        // Each by itself: that something is missing is worth recording.
        let _ = heard(bmc.power_state().await)?;
        if let Some(root) = match bmc.transport().await? {
            Transport::Redfish => Some("/redfish/v1/"),
            Transport::Ris => Some("/rest/v1"),
            Transport::Ribcl | Transport::RibclRaw => None,
        } {
            crawl(&bmc, root, args.limit).await?;
        }
        let speaks = |transport| {
            let mut findings = found.findings.iter();
            findings.any(|found| found.transport == transport && matches!(found.presence, Presence::Spoken { .. }))
        };
        if speaks(Transport::Ribcl) || speaks(Transport::RibclRaw) {
            read_all(&bmc).await?;
        }
        if let Some(url) = &args.media {
            let image = InsertMedia {
                url: Secret::new(url),
                boot_once: false,
                server_certificate: None,
            };
            let inserted = bmc.insert_media(Device::Cdrom, &image).await;
            bmc.eject_media(Device::Cdrom).await?;
            inserted?;
        }
        Ok(())
    })
    .await;
    bmc.close().await;
    result
}

/// Every resource that links lead to, nearest first.
async fn crawl(bmc: &ProbedBmc, root: &str, limit: u32) -> Result<()> {
    let mut seen = BTreeSet::from([root.to_owned()]);
    let mut next = VecDeque::from([root.to_owned()]);
    let mut looked = 0;
    while let Some(path) = next.pop_front() {
        if looked >= limit {
            output::note(format_args!("stopped after {limit} resources; --limit says how many"));
            break;
        }
        looked += 1;
        let Some(reply) = heard(bmc.raw_redfish("GET", &path, None).await)? else {
            continue;
        };
        let Ok(body) = serde_json::from_str::<Value>(&reply.body) else {
            continue;
        };
        let mut found = Vec::new();
        links(&body, 0, &mut found);
        for link in found {
            let link = link.split('#').next().unwrap_or_default();
            let inside = link.starts_with(root.trim_end_matches('/'));
            if inside && !LEFT_OUT.iter().any(|part| link.contains(part)) && seen.insert(link.to_owned()) {
                next.push_back(link.to_owned());
            }
        }
    }
    Ok(())
}

fn links(value: &Value, depth: usize, found: &mut Vec<String>) {
    if depth > 32 || found.len() > 10_000 {
        return;
    }
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match value.as_str() {
                    Some(link) if key == "@odata.id" || key == "href" => found.push(link.to_owned()),
                    _ => links(value, depth + 1, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| links(value, depth + 1, found)),
        _ => {}
    }
}

/// Every RIBCL command that reads.
async fn read_all(bmc: &ProbedBmc) -> Result<()> {
    for (command, writes) in ribcl::commands() {
        if writes {
            continue;
        }
        let devices: &[&str] = if ribcl::takes_device(command) {
            &["CDROM", "FLOPPY"]
        } else {
            &[""]
        };
        for device in devices {
            let arguments: Vec<(String, String)> = match *device {
                "" => vec![],
                device => vec![("DEVICE".to_owned(), device.to_owned())],
            };
            let _ = heard(bmc.raw_ribcl(command, &arguments).await)?;
        }
    }
    Ok(())
}

/// A no is recorded and the tour goes on; one that is gone ends it.
fn heard<T>(result: Result<T, BmcError>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error @ (BmcError::Unreachable { .. } | BmcError::Timeout { .. } | BmcError::Login { .. })) => bail!(error),
        Err(_) => Ok(None),
    }
}
