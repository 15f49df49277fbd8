//! `farrier image serve`: one image over HTTP, by the listener that conductors serve BMCs with, and who has read how much.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::listen::Limits;
use image::{Layout, Source as _};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use model::ArtefactName;
use rand::RngExt as _;
use serde_json::{Value, json};
use storage::{Backend as _, ClientReads, Embedded, EmbeddedConfig, NoRecords, Publication, Reader, Reads};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use super::inputs::Inputs;
use super::opened::layout_of;
use super::progress::percent;
use super::{Build as _, config_drive, esp, floppy, iso, patch};
use crate::output::{self, Format, OutputArgs};

/// How often readers are looked at.
const TICK: Duration = Duration::from_millis(500);
/// Of a reader's progress, where there is no terminal.
const STEP_PERCENT: u64 = 10;

/// Serves an image that lies in a file, or one that is made of its parts as it is read and never written.
#[derive(clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Args {
    /// An image file, or a recipe (`--recipe` of the other commands)
    #[arg(required = true, value_name = "FILE")]
    image: Option<PathBuf>,
    #[command(subcommand)]
    made: Option<Made>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:0", global = true)]
    listen: SocketAddr,
    /// How readers reach it, if not by this machine's address: http(s)://HOST[:PORT][/PATH]
    #[arg(long, value_name = "URL", global = true)]
    base_url: Option<String>,
    /// Only this address may read; may be repeated
    #[arg(long, value_name = "ADDRESS", global = true)]
    only: Vec<IpAddr>,
    /// Stop after this time, as in 90s, 30m or 2h; default: when interrupted (Ctrl-C)
    #[arg(long = "for", value_name = "TIME", value_parser = duration, global = true)]
    duration: Option<Duration>,
    /// Serve https with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", global = true)]
    tls_certificate: Option<PathBuf>,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate", global = true)]
    tls_key: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(clap::Subcommand)]
enum Made {
    /// A FAT floppy with a parameters.txt
    Floppy(floppy::Args),
    /// A boot ISO from a kernel and a ramdisk
    Iso(Box<iso::Args>),
    /// An EFI system partition from EFI binaries
    Esp(esp::Args),
    /// A config drive
    ConfigDrive(config_drive::Args),
    /// An existing ISO with changes
    Patch(patch::Args),
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write it like 90s, 30m or 2h".to_owned();
    let span: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(span).map_err(|_| wrong())
}

/// What is served.
struct Image {
    layout: Layout,
    inputs: Inputs,
    /// As the user wrote it.
    named: String,
    ending: &'static str,
}

pub(super) async fn run(args: Args) -> Result<()> {
    start_log();
    let listen = args.listen;
    let tls = match (&args.tls_certificate, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(api::tls::load(certificate, key)?),
        _ => None,
    };
    // Before a large file is read: a port that is taken is told at once.
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("could not listen on {listen}: choose another address or port with --listen"))?;
    let port = listener.local_addr()?.port();
    let base_url = args.base_url.clone().unwrap_or_else(|| {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let host = reached_by(listen.ip(), args.only.first().copied());
        format!("{scheme}://{}", SocketAddr::new(host, port))
    });
    let (made, file) = (args.made, args.image);
    let image = tokio::task::spawn_blocking(move || opened(made.as_ref(), file.as_deref())).await??;
    let embedded = Embedded::new(EmbeddedConfig {
        base_url,
        recall: Arc::new(NoRecords),
    })?;
    let name = random_name(image.ending);
    let layout = Arc::new(image.layout);
    let publication = Publication {
        name: name.clone(),
        layout: Arc::clone(&layout),
        sources: Arc::new(image.inputs.sources.clone()),
        reader: Reader {
            only: args.only.clone(),
            ..Reader::default()
        },
    };
    let published = embedded.publish(&publication, None).await?;
    let served = embedded.lookup(&name).await?.context("the image is not served")?;
    let mut told = Told::new(args.output.format, layout.size());
    told.beginning(&image.named, published.url.expose(), &layout);

    let stop = CancellationToken::new();
    let listening = tokio::spawn(api::images::serve(
        listener,
        Limits::images(tls),
        embedded,
        stop.clone(),
    ));
    let until = args.duration.map(|time| Instant::now() + time);
    let ended = watch(&served.reads, &image.inputs, &mut told, until).await;
    stop.cancel();
    listening.await.context("the listener broke down")?;
    told.progress(&served.reads);
    told.end(&served.reads);
    ended
}

/// Tells what readers read until it is time to stop, or the image is changed under us.
async fn watch(reads: &Reads, inputs: &Inputs, told: &mut Told, until: Option<Instant>) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("could not listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("could not listen for SIGINT")?;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let time_is_up = async {
        match until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(time_is_up);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                told.progress(reads);
                inputs.check_unchanged().context("the image is no longer served")?;
            }
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            () = &mut time_is_up => return Ok(()),
        }
    }
}

fn opened(made: Option<&Made>, file: Option<&Path>) -> Result<Image> {
    let mut inputs = Inputs::default();
    let (layout, named) = match (made, file) {
        (Some(Made::Floppy(args)), _) => (args.build(&mut inputs)?.layout, "a floppy".to_owned()),
        (Some(Made::Iso(args)), _) => (args.build(&mut inputs)?.layout, "a boot ISO".to_owned()),
        (Some(Made::Esp(args)), _) => (args.build(&mut inputs)?.layout, "an EFI system partition".to_owned()),
        (Some(Made::ConfigDrive(args)), _) => (args.build(&mut inputs)?.layout, "a config drive".to_owned()),
        (Some(Made::Patch(args)), _) => (args.build(&mut inputs)?.layout, "a patched ISO".to_owned()),
        (None, Some(path)) => (layout_of(path, &mut inputs)?, path.display().to_string()),
        (None, None) => bail!("name an image file, or say what to make"),
    };
    inputs.check_unchanged()?;
    let ending = ending(&layout, &inputs);
    Ok(Image {
        layout,
        inputs,
        named,
        ending,
    })
}

/// BMCs tell a CD from a floppy or a disk by the end of the URL.
fn ending(layout: &Layout, inputs: &Inputs) -> &'static str {
    let source = image::LayoutSource::new(layout, &inputs.sources);
    let mut descriptor = [0; 6];
    match source.read_at(16 * 2048, &mut descriptor) {
        Ok(()) if descriptor[1..] == *b"CD001" => "iso",
        _ => "img",
    }
}

/// 32 characters of 36: who does not know the URL does not guess it, and parameters in the image stay secret.
fn random_name(ending: &str) -> ArtefactName {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut chance = rand::rng();
    let token: String = (0..32)
        .map(|_| char::from(ALPHABET[chance.random_range(0..ALPHABET.len())]))
        .collect();
    ArtefactName::parse(&format!("{token}.{ending}")).expect("made of what a name is made of")
}

/// The address by which others reach a listener: where it listens, or the one that this machine takes on the way to
/// `reader`. Nothing is sent to find that out.
fn reached_by(listens: IpAddr, reader: Option<IpAddr>) -> IpAddr {
    if !listens.is_unspecified() {
        return listens;
    }
    let (any, somewhere): (IpAddr, IpAddr) = match listens {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
        IpAddr::V6(_) => (
            Ipv6Addr::UNSPECIFIED.into(),
            Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1).into(),
        ),
    };
    let way = |to: IpAddr| {
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((to, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let found = way(reader.unwrap_or(somewhere)).filter(|address| !address.is_unspecified());
    found.unwrap_or(match listens {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    })
}

/// What is told, and how.
struct Told {
    format: Format,
    size: u64,
    bars: MultiProgress,
    clients: BTreeMap<IpAddr, Client>,
}

/// What was last told of a reader.
struct Client {
    bar: ProgressBar,
    bytes: u64,
    percent: u64,
}

impl Told {
    fn new(format: Format, size: u64) -> Self {
        Self {
            format,
            size,
            bars: MultiProgress::new(),
            clients: BTreeMap::new(),
        }
    }

    fn beginning(&self, named: &str, url: &str, layout: &Layout) {
        let (size, digest) = (layout.size(), layout.digest().to_string());
        match self.format {
            Format::Json => event(&json!({
                "event": "serving", "url": url, "image": named, "size": size, "digest": digest,
            })),
            Format::Table => {
                output::say(url);
                output::say(format_args!("serving {named}, {}, {digest}", output::bytes(size)));
            }
        }
    }

    fn progress(&mut self, reads: &Reads) {
        for (by, client) in reads.clients() {
            if client.count.bytes > 0 {
                self.of_client(by, &client);
            }
        }
    }

    fn of_client(&mut self, by: IpAddr, now: &ClientReads) {
        let read = percent(now.different(), self.size);
        let is_new = !self.clients.contains_key(&by);
        let (bars, size) = (&self.bars, self.size);
        let before = self.clients.entry(by).or_insert_with(|| Client {
            bar: bars.add(bar(by, size)),
            bytes: 0,
            percent: 0,
        });
        before.bar.set_position(now.different());
        before.bar.set_message(format!(
            "{} in {} requests",
            output::bytes(now.count.bytes),
            now.count.requests
        ));
        let is_step = read / STEP_PERCENT > before.percent / STEP_PERCENT;
        if now.count.bytes == before.bytes || !(is_new || is_step) {
            return;
        }
        (before.bytes, before.percent) = (now.count.bytes, read);
        match self.format {
            Format::Json => {
                let mut told = client_json(by, now, self.size);
                told["event"] = "read".into();
                event(&told);
            }
            Format::Table if before.bar.is_hidden() => output::say(client_text(by, now, self.size)),
            Format::Table => {}
        }
    }

    fn end(self, reads: &Reads) {
        self.clients.values().for_each(|client| client.bar.finish_and_clear());
        let clients = reads.clients();
        match self.format {
            Format::Json => {
                let told: Vec<Value> = clients
                    .iter()
                    .map(|(by, now)| client_json(*by, now, self.size))
                    .collect();
                event(&json!({ "event": "stopped", "clients": told }));
            }
            Format::Table if clients.is_empty() => output::say("nobody has read it"),
            Format::Table => {
                for (by, now) in clients {
                    output::say(client_text(by, &now, self.size));
                }
            }
        }
    }
}

fn bar(by: IpAddr, size: u64) -> ProgressBar {
    let bar = ProgressBar::new(size).with_prefix(by.to_canonical().to_string());
    match ProgressStyle::with_template("{prefix} {bar:30} {percent} % read, {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn client_json(by: IpAddr, now: &ClientReads, size: u64) -> Value {
    json!({
        "client": by.to_canonical(), "bytes": now.count.bytes, "requests": now.count.requests, "read": now.different(),
        "percent": percent(now.different(), size),
    })
}

fn client_text(by: IpAddr, now: &ClientReads, size: u64) -> String {
    format!(
        "{}: {} % read, {} in {} requests",
        by.to_canonical(),
        percent(now.different(), size),
        output::bytes(now.count.bytes),
        now.count.requests
    )
}

/// One line, so that a program reads it as soon as it is there.
fn event(event: &Value) {
    output::say(event);
}

/// What goes wrong while it serves, on standard error; `FARRIER_LOG` asks for more.
fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FARRIER_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "x", "-5s", "5"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_listener_on_every_address_is_reached_by_one_of_them() {
        let one = IpAddr::from([192, 0, 2, 7]);
        assert_eq!(reached_by(one, None), one);
        let found = reached_by(Ipv4Addr::UNSPECIFIED.into(), Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(found, Ipv4Addr::LOCALHOST);
        assert!(!reached_by(Ipv4Addr::UNSPECIFIED.into(), None).is_unspecified());
    }
}
