//! `farrier serve`: one conductor with its API, agent and image listeners, until it is told to stop.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit, setrlimit};
use settings::{Overrides, Settings};
use tokio::signal::unix::{SignalKind, signal};

use super::config::FileArgs;
use crate::output;
use crate::wiring::Site;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,
    /// Where the API listens; beats the site file
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Store, caches and key; beats the site file
    #[arg(long)]
    data: Option<PathBuf>,
    /// Log lines as JSON
    #[arg(long)]
    log_json: bool,
}

pub(super) async fn run(args: Args) -> Result<()> {
    run_recorded(args, None).await
}

/// The same; what plugins ask and are answered goes into a folder, if one is given.
pub(super) async fn run_recorded(args: Args, record: Option<&Path>) -> Result<()> {
    start_log(args.log_json);
    open_as_many_files_as_allowed();
    let overrides = Overrides {
        data_dir: args.data,
        api_listen: args.listen,
    };
    let loaded = Settings::load(&args.files.files()?, &overrides)?;
    for warning in &loaded.warnings {
        output::note(format_args!("warning: {warning}"));
    }
    let name = loaded.settings.conductor.name.clone();
    let site = Site::start(loaded.settings, record).await?;
    tracing::info!(conductor = %name, api = %site.api, agent = %site.agent, images = %site.images, "ready");
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
    tracing::info!(conductor = %name, "stopping");
    site.stop().await;
    Ok(())
}

/// Shells and service managers start programs with 1024 open files and let them raise that; every BMC that reads an image
/// takes one. The listeners measure themselves by what is left after this.
fn open_as_many_files_as_allowed() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Lines on standard error; `FARRIER_LOG` filters (`info,conductor=debug`).
fn start_log(json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FARRIER_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    if json {
        log.json().init();
    } else {
        log.init();
    }
}
