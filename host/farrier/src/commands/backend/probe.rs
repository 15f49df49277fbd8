//! A probe: a small image that is published, fetched, renewed and taken away again, step by step.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use image::{Extent, Kind, Layout, NoSources};
use model::ArtefactName;
use rand::RngExt as _;
use runtime::live::SiteBackend;
use serde::Serialize;
use storage::{Backend, Publication, Published, Reader, Renewal, Stat, StorageError};
use tokio::time::{sleep, timeout};

use super::bmc::{self, Bmc};

/// How long a probe is published for: it goes by itself, should this process be killed.
const LIFETIME: Duration = Duration::from_secs(300);
/// How long one that is to expire is published for, where the backend's own bounds allow it.
const SHORT: Duration = Duration::from_secs(5);
/// How long anything may take to be gone.
const GONE: Duration = Duration::from_secs(30);
/// Longest of all steps together, apart from expiry.
const STEP: Duration = Duration::from_secs(180);
/// Bytes of the probe: as a floppy.
const SIZE: u64 = 1_474_560;

/// How a step went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    Ok,
    /// It works, but not for every BMC.
    Warning,
    Failed,
}

/// One step.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    pub(super) step: &'static str,
    pub(super) state: State,
    pub(super) ms: u64,
    pub(super) found: String,
}

/// All steps with one backend.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) backend: String,
    pub(super) kind: String,
    pub(super) steps: Vec<Step>,
}

impl Report {
    pub(super) fn failed(&self) -> usize {
        self.steps.iter().filter(|step| step.state == State::Failed).count()
    }

    fn note(&mut self, step: &'static str, start: Instant, outcome: Outcome) {
        let (state, found) = match outcome {
            Ok(Found::Fine(found)) => (State::Ok, found),
            Ok(Found::Doubtful(found)) => (State::Warning, found),
            Err(found) => (State::Failed, found),
        };
        self.steps.push(Step {
            step,
            state,
            ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            found,
        });
    }

    async fn step(&mut self, step: &'static str, doing: impl Future<Output = Outcome>) -> bool {
        let start = Instant::now();
        let outcome = match timeout(STEP, doing).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("it did not end within {} s", STEP.as_secs())),
        };
        let done = outcome.is_ok();
        self.note(step, start, outcome);
        done
    }
}

/// What a step found.
pub(super) enum Found {
    Fine(String),
    /// It works, but not for every BMC.
    Doubtful(String),
}

/// A step's end; an error says what went wrong and, where it can be told, what to do.
pub(super) type Outcome = Result<Found, String>;

/// Goes through all steps. Whatever happens in between, the probe is withdrawn; if this process is told to stop, too.
pub(super) async fn run(site: &SiteBackend, expire: bool, held_elsewhere: Option<&str>) -> Report {
    let mut report = Report {
        backend: site.id.clone(),
        kind: site.kind.clone(),
        steps: Vec::new(),
    };
    let backend = &*site.backend;
    let usable = async {
        backend.check().await.map_err(told)?;
        Ok(Found::Fine("it says that it would take an artefact".to_owned()))
    };
    if !report.step("usable", usable).await {
        return report;
    }
    if let Some(url) = held_elsewhere {
        report.step("conductor", bmc::answers(url)).await;
    }
    let probe = probe();
    let mut url = None;
    let stopped = {
        let through = through(&mut report, backend, &probe, &mut url);
        let mut through = std::pin::pin!(through);
        tokio::select! {
            () = &mut through => false,
            _ = tokio::signal::ctrl_c() => true,
        }
    };
    report
        .step("withdraw", withdrawn(backend, &probe.0, url.as_ref()))
        .await;
    if expire && !stopped {
        report.step("expire", expired(backend)).await;
    }
    report.step("nothing left", nothing_left(backend, &probe.0)).await;
    if stopped {
        report.note("stopped", Instant::now(), Err("told to stop half-way".to_owned()));
    }
    report
}

/// What is published, and its bytes.
type Probe = (Publication, Bytes);

fn probe() -> Probe {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut rng = rand::rng();
    let token: String = (0..32)
        .map(|_| char::from(ALPHABET[rng.random_range(0..ALPHABET.len())]))
        .collect();
    let name = ArtefactName::parse(&format!("{token}.img")).expect("made of what a name is made of");
    let half = usize::try_from(SIZE / 2).expect("a floppy fits in memory");
    let chance: Bytes = (0..half).map(|_| rng.random::<u8>()).collect();
    let extents = vec![Extent::Literal(chance.clone()), Extent::Zero(SIZE - SIZE / 2)];
    let layout = Layout::from_extents(Kind::Other, extents).expect("a floppy is no more than an image can be");
    let mut bytes = chance.to_vec();
    bytes.resize(usize::try_from(SIZE).expect("a floppy fits in memory"), 0);
    let publication = Publication {
        name,
        layout: Arc::new(layout),
        sources: Arc::new(NoSources),
        reader: Reader::default(),
    };
    (publication, bytes.into())
}

/// All steps up to the withdrawal; the URL that worked last is told.
async fn through(report: &mut Report, backend: &dyn Backend, probe: &Probe, url: &mut Option<Bmc>) {
    let (publication, bytes) = probe;
    let mut published = None;
    let publishing = async {
        let done = backend.publish(publication, Some(LIFETIME)).await.map_err(told)?;
        let found = format!("{SIZE} bytes, {}", until(done.expires));
        published = Some(done);
        Ok(Found::Fine(found))
    };
    if !report.step("publish", publishing).await {
        return;
    }
    let Some(published) = published else {
        return;
    };
    report.step("URL", async { shape(&published) }).await;
    let bmc = match Bmc::new(published.url.expose(), bytes.clone()) {
        Ok(bmc) => bmc,
        Err(problem) => {
            report.note("fetch", Instant::now(), Err(problem));
            return;
        }
    };
    let bmc = url.insert(bmc);
    for (step, shape) in bmc::SHAPES {
        report.step(step, bmc.fetch(*shape)).await;
    }
    let renewing = async {
        match backend.renew(&publication.name, LIFETIME * 2).await.map_err(told)? {
            Renewal::Extended(expires) => {
                bmc.works().await?;
                Ok(Found::Fine(format!("the same URL, {}", until(expires))))
            }
            Renewal::UrlChanged(renewed) => {
                *bmc = Bmc::new(renewed.url.expose(), bytes.clone())?;
                bmc.works().await?;
                Ok(Found::Fine(format!("another URL, {}", until(renewed.expires))))
            }
            Renewal::Unsupported => Err("it cannot, though the artefact is there".to_owned()),
        }
    };
    report.step("renew", renewing).await;
}

/// What a BMC may find fault with.
fn shape(published: &Published) -> Outcome {
    let url = published.url.expose();
    let mut faults = Vec::new();
    if url.len() > 255 {
        faults.push(format!("{} characters, and some BMCs refuse more than 255", url.len()));
    }
    if url.contains('?') {
        faults.push("it has a query, which some BMCs refuse".to_owned());
    }
    if !(url.ends_with(".img") || url.ends_with(".iso")) {
        faults.push("it does not end as an image does".to_owned());
    }
    let origin = url::Url::parse(url).map_or_else(|_| String::new(), |url| url.origin().ascii_serialization());
    match faults.is_empty() {
        true => Ok(Found::Fine(format!("{} characters, at {origin}", url.len()))),
        false => Ok(Found::Doubtful(format!(
            "at {origin}: {}; delivery = \"relay\" avoids that",
            faults.join("; ")
        ))),
    }
}

async fn withdrawn(backend: &dyn Backend, publication: &Publication, url: Option<&Bmc>) -> Outcome {
    backend.withdraw(&publication.name).await.map_err(told)?;
    backend
        .withdraw(&publication.name)
        .await
        .map_err(|error| format!("a second time: {}", told(error)))?;
    match url {
        Some(bmc) if bmc.works().await.is_ok() => Err("its URL still works".to_owned()),
        _ => Ok(Found::Fine("and once more, which changed nothing".to_owned())),
    }
}

async fn nothing_left(backend: &dyn Backend, publication: &Publication) -> Outcome {
    let name = &publication.name;
    match backend.stat(name).await.map_err(told)? {
        Stat::Absent => {}
        Stat::Present(bytes) => return Err(format!("the probe is still there, with {bytes} bytes")),
    }
    if backend
        .names()
        .await
        .map_err(told)?
        .is_some_and(|names| names.contains(name))
    {
        return Err("something of the probe is still there: it is listed".to_owned());
    }
    Ok(Found::Fine("the probe is gone".to_owned()))
}

/// Publishes another probe for a little while.
async fn expired(backend: &dyn Backend) -> Outcome {
    let (publication, bytes) = probe();
    let outcome = let_expire(backend, &publication, bytes).await;
    let withdrawn = backend.withdraw(&publication.name).await.map_err(told);
    outcome.and_then(|found| withdrawn.map(|()| found))
}

async fn let_expire(backend: &dyn Backend, publication: &Publication, bytes: Bytes) -> Outcome {
    let published = backend.publish(publication, Some(SHORT)).await.map_err(told)?;
    let Some(expires) = published.expires else {
        return Ok(Found::Doubtful(
            "its URL works until the artefact is withdrawn".to_owned(),
        ));
    };
    let left = expires.duration_since(SystemTime::now()).unwrap_or_default();
    if left > STEP - GONE {
        return Ok(Found::Doubtful(format!(
            "the site has artefacts live for at least {} s: not waited for",
            left.as_secs()
        )));
    }
    let bmc = Bmc::new(published.url.expose(), bytes)?;
    bmc.works().await?;
    sleep(left).await;
    let start = Instant::now();
    while let Ok(Found::Fine(_)) = bmc.works().await {
        if start.elapsed() > GONE {
            return Err(format!("its URL still works {} s after its end", GONE.as_secs()));
        }
        sleep(Duration::from_millis(500)).await;
    }
    Ok(Found::Fine(format!(
        "its URL stopped working after {} s",
        (left + start.elapsed()).as_secs()
    )))
}

fn until(expires: Option<SystemTime>) -> String {
    let left = expires.map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
    match left {
        None => "until it is withdrawn".to_owned(),
        Some(left) => format!("for {} s", left.as_secs()),
    }
}

/// An error with its causes.
fn told(error: StorageError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
