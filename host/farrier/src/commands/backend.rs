//! `farrier backend`: the places that images are published to, tried out as a BMC would.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use runtime::live::SiteBackend;
use serde::Serialize;
use settings::{BackendKind, Overrides, Settings};
use storage::{Embedded, EmbeddedConfig, NoRecords};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::config::FileArgs;
use crate::output::{self, Format, OutputArgs};
use crate::wiring::backends::Backends;

mod bmc;
mod probe;

use probe::{Report, State};

/// How long a backend may take to say whether it is usable.
const CHECK: Duration = Duration::from_secs(30);

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// The site's backends, and whether each is usable now
    List(ListArgs),
    /// Publish a probe, fetch it as BMCs do, withdraw it; tell how each step went
    ///
    /// Exit code 1: a step failed; 2: there is no backend of that name.
    Check(CheckArgs),
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
pub(crate) struct ListArgs {
    #[command(flatten)]
    site: SiteArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    site: SiteArgs,
    /// Which backends
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Also publish a probe for a few seconds, and wait until its URL has stopped working
    #[arg(long)]
    expire: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// There is no backend of that name. Exit code 2.
#[derive(Debug)]
pub(crate) struct Unknown(String);

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unknown {}

pub(super) async fn run(command: Command) -> Result<()> {
    match command {
        Command::List(args) => list(args).await,
        Command::Check(args) => check(args).await,
    }
}

fn load(args: SiteArgs) -> Result<Settings> {
    let overrides = Overrides {
        data_dir: args.data,
        api_listen: None,
    };
    let loaded = Settings::load(&args.files.files()?, &overrides)?;
    for warning in &loaded.warnings {
        output::note(format_args!("warning: {warning}"));
    }
    Ok(loaded.settings)
}

/// The backends, and what serves the one that is this process.
struct Opened {
    backends: Vec<SiteBackend>,
    /// What is worth knowing about how they were opened.
    note: Option<String>,
    /// How BMCs reach the conductor's own listener, if another process holds that.
    held_elsewhere: Option<String>,
    _stop: DropGuard,
}

async fn open(settings: &Settings) -> Result<Opened> {
    let listen = settings.images.listen;
    let (listener, note, held_elsewhere) = match TcpListener::bind(listen).await {
        Ok(listener) => (listener, None, None),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let own = TcpListener::bind(SocketAddr::new(listen.ip(), 0)).await?;
            let note = format!(
                "{listen} is taken, by a running conductor it seems: what this process serves is tried on {} instead",
                own.local_addr()?
            );
            (own, Some(note), Some(settings.images.external_url_at(listen)))
        }
        Err(error) => {
            return Err(error).with_context(|| format!("could not listen on {listen}: is [images] listen right?"));
        }
    };
    let address = listener.local_addr()?;
    let base_url = match &held_elsewhere {
        None => settings.images.external_url_at(address),
        Some(_) => own_url(address, settings.images.tls.is_some()),
    };
    let embedded = Embedded::new(EmbeddedConfig {
        base_url: base_url.clone(),
        recall: Arc::new(NoRecords),
    })
    .context("[images] external-url")?;
    let backends = Backends::open(settings, &embedded, &base_url)?.all;
    let tls = match &settings.images.tls {
        Some(tls) => Some(api::tls::load(&tls.certificate, &tls.key).context("[images] tls-certificate")?),
        None => None,
    };
    let stop = CancellationToken::new();
    tokio::spawn(api::images::serve(
        listener,
        api::listen::Limits::images(tls),
        embedded,
        stop.clone(),
    ));
    Ok(Opened {
        backends,
        note,
        held_elsewhere,
        _stop: stop.drop_guard(),
    })
}

/// The URL of a listener for clients on this machine.
fn own_url(address: SocketAddr, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    format!("{scheme}://{}", SocketAddr::new(ip, address.port()))
}

/// One backend, for people and programs.
#[derive(Serialize)]
struct Listed {
    id: String,
    kind: String,
    /// Where it is: a URL, a folder, a container.
    place: String,
    delivery: String,
    /// New artefacts are put there.
    publish: bool,
    /// Drivers whose nodes use it; none = all.
    drivers: Vec<&'static str>,
    usable: bool,
    /// Why not.
    problem: Option<String>,
}

async fn list(args: ListArgs) -> Result<()> {
    let settings = load(args.site)?;
    let opened = open(&settings).await?;
    let checks = opened.backends.iter().map(|site| async {
        match tokio::time::timeout(CHECK, site.backend.check()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("it did not say within {} s", CHECK.as_secs())),
        }
    });
    let problems = futures_util::future::join_all(checks).await;
    let rows: Vec<Listed> = opened
        .backends
        .iter()
        .zip(&settings.backends)
        .zip(problems)
        .map(|((site, set), problem)| Listed {
            id: site.id.clone(),
            kind: site.kind.clone(),
            place: place(set, &settings),
            delivery: fact(site, "delivery"),
            publish: set.publish,
            drivers: set.drivers.iter().map(|family| family.as_str()).collect(),
            usable: problem.is_none(),
            problem,
        })
        .collect();
    match args.output.format {
        Format::Json => output::json(&rows)?,
        Format::Table => {
            output::table(
                ["Backend", "Kind", "Place", "Delivery", "For", "State"],
                rows.iter().map(|row| {
                    let whom = match (row.publish, row.drivers.is_empty()) {
                        (false, _) => "nothing new".to_owned(),
                        (true, true) => "every node".to_owned(),
                        (true, false) => row.drivers.join(", "),
                    };
                    [
                        row.id.clone(),
                        row.kind.clone(),
                        row.place.clone(),
                        row.delivery.clone(),
                        whom,
                        if row.usable { "usable" } else { "NOT USABLE" }.to_owned(),
                    ]
                }),
            );
            for row in &rows {
                if let Some(problem) = &row.problem {
                    output::say(format_args!("{}: {problem}", row.id));
                }
            }
        }
    }
    Ok(())
}

fn place(set: &settings::Backend, settings: &Settings) -> String {
    match &set.kind {
        BackendKind::Embedded => settings.images.external_url_at(settings.images.listen),
        BackendKind::WebRoot { root, url, .. } => format!("{} = {url}", root.display()),
        BackendKind::Swift(swift) => format!("{} at {}", swift.container, swift.access.auth_url),
        BackendKind::S3(s3) => format!("{} at {}", s3.bucket, s3.endpoint),
    }
}

fn fact(site: &SiteBackend, key: &str) -> String {
    let found = site.traits.iter().find(|(name, _)| name == key);
    found.map_or_else(String::new, |(_, value)| value.clone())
}

async fn check(args: CheckArgs) -> Result<()> {
    let settings = load(args.site)?;
    let known = || {
        let ids: Vec<&str> = settings.backends.iter().map(|backend| backend.id.as_str()).collect();
        ids.join(", ")
    };
    for name in &args.names {
        if !settings.backends.iter().any(|backend| backend.id == *name) {
            return Err(Unknown(format!("there is no backend `{name}`; the site has: {}", known())).into());
        }
    }
    let opened = open(&settings).await?;
    if let Some(note) = &opened.note {
        output::note(note);
    }
    let mut reports = Vec::new();
    for name in &args.names {
        let Some(site) = opened.backends.iter().find(|site| site.id == *name) else {
            continue;
        };
        let served_here = matches!(site.kind.as_str(), "embedded") || fact(site, "delivery") != "direct";
        let elsewhere = opened.held_elsewhere.as_deref().filter(|_| served_here);
        reports.push(probe::run(site, args.expire, elsewhere).await);
    }
    match args.output.format {
        Format::Json => output::json(&reports)?,
        Format::Table => reports.iter().for_each(show),
    }
    let failed: usize = reports.iter().map(Report::failed).sum();
    match failed {
        0 => Ok(()),
        1 => bail!("one step failed"),
        failed => bail!("{failed} steps failed"),
    }
}

fn show(report: &Report) {
    output::say(format_args!("{} ({})", report.backend, report.kind));
    output::table(
        ["Step", "", "Time", "What was found"],
        report.steps.iter().map(|step| {
            let state = match step.state {
                State::Ok => "ok",
                State::Warning => "warning",
                State::Failed => "FAILED",
            };
            [
                step.step.to_owned(),
                state.to_owned(),
                format!("{} ms", step.ms),
                step.found.clone(),
            ]
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_tried_on_loopback() {
        for (address, tls, url) in [
            ("0.0.0.0:80", false, "http://127.0.0.1:80"),
            ("[::]:81", true, "https://[::1]:81"),
            ("192.0.2.1:82", false, "http://192.0.2.1:82"),
        ] {
            assert_eq!(own_url(address.parse().unwrap(), tls), url);
        }
    }
}
