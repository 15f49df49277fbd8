//! `farrier cache`: what was fetched for images, beside a running conductor or without one.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;
use settings::{Overrides, Settings};
use sources::{Entry, Extent, Sources};

use super::config::FileArgs;
use crate::output::{self, Format, OutputArgs};
use crate::wiring::{self, Pins};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// What is in the cache, least recently used first
    ///
    /// Exit code 1 if --verify finds damaged content.
    Ls(LsArgs),
    /// Remove what is past the bounds of the site file
    ///
    /// What an artefact on record needs, what a process has in use and what was used in the last ten minutes stays.
    Prune(PruneArgs),
}

#[derive(clap::Args)]
pub(crate) struct SiteArgs {
    #[command(flatten)]
    files: FileArgs,
    /// Store, caches and key; beats the site file
    #[arg(long)]
    data: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    site: SiteArgs,
    /// Read all of it, and say what is no longer what was fetched
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(clap::Args)]
pub(crate) struct PruneArgs {
    #[command(flatten)]
    site: SiteArgs,
    /// All that may go, whatever the bounds
    #[arg(long)]
    all: bool,
    /// Read all of it, and remove what is no longer what was fetched; it is fetched again when it is needed
    #[arg(long, conflicts_with = "all")]
    damaged: bool,
    /// Say what would go, and remove nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) async fn run(command: Command) -> Result<()> {
    match command {
        Command::Ls(args) => ls(args).await,
        Command::Prune(args) => prune(args).await,
    }
}

/// A cache with what its records say of it.
struct Opened {
    sources: Sources,
    pins: Pins,
}

async fn open(args: SiteArgs) -> Result<Opened> {
    let overrides = Overrides {
        data_dir: args.data,
        api_listen: None,
    };
    let loaded = Settings::load(&args.files.files()?, &overrides)?;
    for warning in &loaded.warnings {
        output::note(format_args!("warning: {warning}"));
    }
    let settings = loaded.settings;
    let folder = &settings.images.cache.folder;
    if !folder.exists() {
        bail!(
            "there is no cache at {}: name the site with --config or --data as `farrier serve` has it",
            folder.display()
        );
    }
    let store = wiring::existing_store(&settings)?;
    let pins = match &store {
        Some(store) => wiring::pins(&**store)
            .await
            .context("it cannot be told what is pinned")?,
        None => Pins::new(),
    };
    let sources = tokio::task::spawn_blocking({
        let handle = tokio::runtime::Handle::current();
        move || {
            let _runtime = handle.enter();
            wiring::open_sources(&settings, store)
        }
    });
    Ok(Opened {
        sources: sources.await??,
        pins,
    })
}

/// One content, for people and programs.
#[derive(Serialize)]
struct Shown {
    sha256: String,
    bytes: u64,
    last_used: String,
    pinned_by: Vec<String>,
    origins: Vec<String>,
    /// With --verify.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<bool>,
}

async fn ls(args: LsArgs) -> Result<()> {
    let format = args.output.format;
    let Opened { sources, pins } = open(args.site).await?;
    let verify = args.verify;
    let shown = tokio::task::spawn_blocking(move || list(&sources, &pins, verify)).await??;
    match format {
        Format::Json => output::json(&shown)?,
        Format::Table => table(&shown),
    }
    match shown.iter().filter(|entry| entry.whole == Some(false)).count() {
        0 => Ok(()),
        damaged => bail!("{damaged} damaged: `farrier cache prune --damaged` removes what is, and it is fetched again"),
    }
}

fn list(sources: &Sources, pins: &Pins, verify: bool) -> Result<Vec<Shown>> {
    let entries = sources.entries()?;
    let mut origins = sources.origins();
    let damaged = if verify {
        damaged(sources, &entries)?
    } else {
        Vec::new()
    };
    let shown = entries.into_iter().map(|entry| Shown {
        sha256: entry.sha256.to_string(),
        bytes: entry.len,
        last_used: moment(entry.used),
        pinned_by: pins.get(&entry.sha256).cloned().unwrap_or_default(),
        origins: origins.remove(&entry.sha256).unwrap_or_default(),
        whole: verify.then(|| !damaged.contains(&entry)),
    });
    Ok(shown.collect())
}

/// Reads everything.
fn damaged(sources: &Sources, entries: &[Entry]) -> Result<Vec<Entry>> {
    let bar = ProgressBar::new(entries.iter().map(|entry| entry.len).sum());
    bar.set_style(ProgressStyle::with_template(
        "verifying {bar:30} {bytes}/{total_bytes}",
    )?);
    let mut damaged = Vec::new();
    for entry in entries {
        if !sources.verify(&entry.sha256)? {
            damaged.push(*entry);
        }
        bar.inc(entry.len);
    }
    bar.finish_and_clear();
    Ok(damaged)
}

fn table(shown: &[Shown]) {
    let sum: u64 = shown.iter().map(|entry| entry.bytes).sum();
    output::table(
        ["SHA-256", "Size", "Last used", "Pinned by", "From"],
        shown.iter().map(|entry| {
            let mut digest = entry.sha256.clone();
            if entry.whole == Some(false) {
                digest.push_str("\nDAMAGED");
            }
            [
                digest,
                output::bytes(entry.bytes),
                entry.last_used.clone(),
                few(&entry.pinned_by),
                few(&entry.origins),
            ]
        }),
    );
    output::say(format_args!("{} in {} files", output::bytes(sum), shown.len()));
}

/// The first ones, one a line.
fn few(texts: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut lines: Vec<String> = texts.iter().take(SHOWN).cloned().collect();
    if texts.len() > SHOWN {
        lines.push(format!("and {} more", texts.len() - SHOWN));
    }
    lines.join("\n")
}

#[derive(Serialize)]
struct Removed {
    dry_run: bool,
    files: u64,
    bytes: u64,
    removed: Vec<String>,
}

async fn prune(args: PruneArgs) -> Result<()> {
    let format = args.output.format;
    let Opened { sources, .. } = open(args.site).await?;
    let (all, only_damaged, dry_run) = (args.all, args.damaged, args.dry_run);
    let removed = tokio::task::spawn_blocking(move || -> Result<Removed> {
        let removed = match only_damaged {
            true => remove_damaged(&sources, dry_run)?,
            false => {
                let extent = if all { Extent::All } else { Extent::Bounds };
                let pruned = sources.prune_to(extent, dry_run)?;
                pruned
                    .context("it cannot be told what is pinned, and so nothing is removed")?
                    .removed
            }
        };
        Ok(Removed {
            dry_run,
            files: u64::try_from(removed.len())?,
            bytes: removed.iter().map(|entry| entry.len).sum(),
            removed: removed.iter().map(|entry| entry.sha256.to_string()).collect(),
        })
    })
    .await??;
    match format {
        Format::Json => output::json(&removed)?,
        Format::Table => {
            for sha256 in &removed.removed {
                output::say(sha256);
            }
            let verb = if dry_run { "would be removed" } else { "removed" };
            output::say(format_args!(
                "{} in {} files {verb}",
                output::bytes(removed.bytes),
                removed.files
            ));
        }
    }
    Ok(())
}

fn remove_damaged(sources: &Sources, dry_run: bool) -> Result<Vec<Entry>> {
    let mut damaged = damaged(sources, &sources.entries()?)?;
    if !dry_run {
        let mut in_use = 0;
        let mut gone = Vec::new();
        for entry in damaged {
            match sources.remove(&entry.sha256)? {
                true => gone.push(entry),
                false => in_use += 1,
            }
        }
        if in_use > 0 {
            output::note(format_args!(
                "warning: {in_use} damaged files are in use and stay; try again once no server boots from them"
            ));
        }
        damaged = gone;
    }
    Ok(damaged)
}

fn moment(time: SystemTime) -> String {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs();
    let moment = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| Timestamp::from_second(seconds).ok());
    moment.map_or_else(String::new, |moment| moment.to_string())
}
