//! Several processes on one cache: they fetch a source once, survive each other's end at any moment, and take nothing away
//! that another uses.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sources::{Extent, SourceError, Sources, SourcesConfig};

use crate::server::{Answer, Server, bytes, head, ok};
use crate::{Site, sha256};

const JOB: &str = "FARRIER_SOURCES_JOB";
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a process of its own does.
#[derive(Clone, Serialize, Deserialize)]
enum Job {
    /// Brings a source, unpacked if that is asked for, says so, and holds it until its standard input ends.
    Bring { reference: String, unpack: bool },
    /// Fills a file system that is too small; see `fill`.
    Fill { url: String },
}

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    folder: std::path::PathBuf,
    job: Job,
}

/// A process at work on `job`, with what it says.
struct Worker {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

impl Worker {
    fn start(site: &Site, job: Job) -> Self {
        Self::start_in(site, job, Command::new(std::env::current_exe().unwrap()))
    }

    fn start_in(site: &Site, job: Job, mut command: Command) -> Self {
        let folder = site.folder.path().to_owned();
        let order = serde_json::to_string(&Order { folder, job }).unwrap();
        let mut process = command
            .args([
                "--exact",
                "processes::a_process_of_its_own_brings_a_source",
                "--nocapture",
            ])
            .env(JOB, order)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        Self { process, said }
    }

    /// What it reports; blocks until it does or ends.
    fn report(&mut self) -> String {
        for line in self.said.by_ref().lines() {
            if let Some((_, report)) = line.unwrap().split_once("report: ") {
                return report.to_owned();
            }
        }
        panic!("it ended without a report: {:?}", self.process.wait());
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn work(order: &Order) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        match &order.job {
            Job::Bring { reference, unpack } => {
                let sources = Sources::new(patient(&order.folder)).unwrap();
                let fetched = match unpack {
                    true => sources
                        .disk_image(reference, None, None)
                        .await
                        .map(|image| image.fetched),
                    false => sources.fetch(reference, None).await,
                };
                let outcome = fetched.as_ref();
                report(&outcome.map_or_else(ToString::to_string, |it| it.sha256.to_string()));
                let _ended = std::io::stdin().read_to_end(&mut Vec::new());
                drop(fetched);
            }
            Job::Fill { url } => fill(&order.folder, url).await,
        }
    });
}

/// Says how it ended; a line of its own among what the test harness prints.
fn report(text: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "report: {text}")
        .and_then(|()| output.flush())
        .unwrap();
}

/// As a site has it, but for the folder.
fn patient(folder: &Path) -> SourcesConfig {
    SourcesConfig {
        allowed_file_paths: vec![folder.join("files")],
        allow_local_addresses: true,
        ..SourcesConfig::new(folder.join("cache"))
    }
}

fn bring(reference: &str) -> Job {
    Job::Bring {
        reference: reference.to_owned(),
        unpack: false,
    }
}

/// Bytes that no other number gives.
fn unique(number: usize, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len)
        .map(|at| u8::try_from((at * 31 + number) % 256).unwrap())
        .collect();
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Bytes in all files of a folder.
fn size_of(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| file.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

/// Whatever was there when a process died, what is in the cache is whole, and the next attempt works.
async fn check_after_death(site: &Site, reference: &str, content: &[u8]) {
    let sources = Sources::new(patient(site.folder.path())).unwrap();
    assert_eq!(site.under_way(), 0, "what it was fetching is swept");
    assert_eq!(size_of(&site.cache().join("turns")), 0);
    for entry in sources.entries().unwrap() {
        assert!(sources.verify(&entry.sha256).unwrap(), "{} is not whole", entry.sha256);
    }
    let fetched = sources.fetch(reference, None).await.unwrap();
    assert_eq!(fetched.sha256, sha256(content));
    assert!(sources.verify(&fetched.sha256).unwrap());
}

#[tokio::test]
async fn a_process_of_its_own_brings_a_source() {
    if let Ok(order) = std::env::var(JOB) {
        return tokio::task::spawn_blocking(move || work(&serde_json::from_str(&order).unwrap()))
            .await
            .unwrap();
    }
    let site = Site::new();
    let mut worker = Worker::start(&site, bring(&site.file("image", b"image")));
    assert_eq!(worker.report(), sha256(b"image").to_string());
}

#[tokio::test]
async fn a_process_may_be_killed_at_any_moment_of_a_download() {
    let (site, server) = (Site::new(), Server::start().await);
    const LEN: usize = 1 << 20;
    const ROUNDS: usize = 20;
    for round in 0..ROUNDS {
        let content = unique(round, LEN);
        let mut pieces = vec![bytes(200, &[&format!("content-length: {LEN}")], b"")];
        pieces.extend(content.chunks(LEN / 32).map(<[u8]>::to_vec));
        let url = server.on(&format!("/{round}"), [Answer::Pieces(pieces, Duration::from_millis(1))]);
        let worker = Worker::start(&site, bring(&url));
        // From the first byte to after the last one, when it is made to last and given its name.
        let enough = u64::try_from(LEN * round / (ROUNDS - 5)).unwrap().min(LEN as u64);
        let object = |name: String| site.cache().join(&name[..2]).join(&name);
        let done = || object(sha256(&content).to_string()).exists();
        let begun = Instant::now();
        while size_of(&site.cache().join("tmp")) < enough && !done() {
            assert!(begun.elapsed() < PATIENCE, "round {round} does not get on");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(u64::try_from(round * 173 % 1000).unwrap())).await;
        worker.kill();
        check_after_death(&site, &url, &content).await;
    }
}

#[tokio::test]
async fn a_process_may_be_killed_at_any_moment_of_a_copy_and_of_unpacking() {
    const LEN: usize = 24 << 20;
    for round in 0..8 {
        let site = Site::new();
        let content = unique(round, LEN);
        let plain = site.file("image", &content);
        let unpack = round % 2 == 1;
        let reference = if unpack {
            let packed = Command::new("gzip").args(["-1", "-c", &plain]).output();
            let packed = packed.unwrap_or_else(|error| panic!("this test needs gzip: {error}"));
            site.file("image.gz", &packed.stdout)
        } else {
            plain
        };
        let job = Job::Bring {
            reference: reference.clone(),
            unpack,
        };
        let worker = Worker::start(&site, job);
        let enough = u64::try_from(LEN / 9 * (round + 1)).unwrap();
        let begun = Instant::now();
        while size_of(&site.cache().join("tmp")) < enough {
            // It may be quicker than we look.
            let kept = Sources::new(patient(site.folder.path())).unwrap().entries().unwrap();
            if kept.iter().any(|entry| entry.len == LEN as u64) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "round {round} does not get on");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        worker.kill();
        let packed = std::fs::read(&reference).unwrap();
        check_after_death(&site, &reference, &packed).await;
        if unpack {
            let sources = Sources::new(patient(site.folder.path())).unwrap();
            let image = sources.disk_image(&reference, None, None).await.unwrap();
            assert_eq!(image.fetched.sha256, sha256(&content));
        }
    }
}

#[tokio::test]
async fn processes_that_want_the_same_fetch_it_once() {
    let (site, server) = (Site::new(), Server::start().await);
    let answer = bytes(200, &["content-length: 5"], b"image");
    let url = server.on("/image", [Answer::Later(Duration::from_millis(500), answer)]);
    let mut workers: Vec<Worker> = (0..4).map(|_| Worker::start(&site, bring(&url))).collect();
    let sources = Sources::new(patient(site.folder.path())).unwrap();
    let ours = sources.fetch(&url, None).await.unwrap();
    tokio::task::spawn_blocking(move || {
        for worker in &mut workers {
            assert_eq!(worker.report(), sha256(b"image").to_string());
        }
    })
    .await
    .unwrap();
    assert_eq!(ours.sha256, sha256(b"image"));
    assert_eq!(server.requests().len(), 1);
    assert_eq!(size_of(&site.cache().join("turns")), 0);
}

#[tokio::test]
async fn when_the_one_that_fetches_is_killed_the_next_one_does() {
    let (site, server) = (Site::new(), Server::start().await);
    let silent = Answer::ThenSilence(bytes(200, &["content-length: 5"], b"im"));
    let url = server.on("/image", [silent, ok(&[], b"image")]);
    let worker = Worker::start(&site, bring(&url));
    let begun = Instant::now();
    while server.requests().is_empty() {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let sources = Sources::new(patient(site.folder.path())).unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(300), sources.fetch(&url, None)).await;
    assert!(waiting.is_err(), "it waits while the other one is alive");
    worker.kill();
    let fetched = tokio::time::timeout(PATIENCE, sources.fetch(&url, None)).await.unwrap();
    assert_eq!(fetched.unwrap().sha256, sha256(b"image"));
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn what_another_process_holds_is_not_pruned_until_it_dies() {
    let site = Site::new();
    let mut worker = Worker::start(&site, bring(&site.file("image", b"image")));
    let sources = Sources::new(SourcesConfig {
        keep_recent: Duration::ZERO,
        ..patient(site.folder.path())
    })
    .unwrap();
    assert_eq!(worker.report(), sha256(b"image").to_string());
    let none = sources.prune_to(Extent::All, false).unwrap().unwrap();
    assert_eq!((none.files, sources.entries().unwrap().len()), (0, 1));
    worker.kill();
    let plan = sources.prune_to(Extent::All, true).unwrap().unwrap();
    assert_eq!(
        (plan.files, sources.entries().unwrap().len()),
        (1, 1),
        "a dry run removes nothing"
    );
    let gone = sources.prune_to(Extent::All, false).unwrap().unwrap();
    assert_eq!(gone, plan);
    assert!(sources.entries().unwrap().is_empty());
}

#[tokio::test]
async fn a_full_disk_leaves_nothing_and_says_what_is_needed() {
    let (site, server) = (Site::new(), Server::start().await);
    let big = vec![1; 4 << 20];
    server.on("/big", [ok(&[], &big)]);
    // Its length is not told.
    server.on("/endless", [head(200, &[], &big)]);
    server.on("/half", [ok(&[], &unique(1, 1 << 20))]);
    server.on("/other-half", [ok(&[], &unique(2, 1 << 20))]);
    server.on("/small", [ok(&[], b"small")]);
    site.file("big", &big);
    site.file("zeros.gz", &{
        let zeros = site.file("zeros", &big);
        let packed = Command::new("gzip").args(["-c", &zeros]).output();
        packed
            .unwrap_or_else(|error| panic!("this test needs gzip: {error}"))
            .stdout
    });
    std::fs::create_dir(site.cache()).unwrap();
    // A namespace of its own, where anybody may mount a small file system.
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount -t tmpfs -o size=2m,mode=700 none \"$0\" && exec \"$@\"");
    command.arg(site.cache()).arg(std::env::current_exe().unwrap());
    let url = server.url.clone();
    let report = tokio::task::spawn_blocking(move || Worker::start_in(&site, Job::Fill { url }, command).report());
    assert_eq!(report.await.unwrap(), "as it should be");
}

/// In a cache of 2 MiB.
async fn fill(folder: &Path, url: &str) {
    let sources = Sources::new(SourcesConfig {
        keep_recent: Duration::ZERO,
        ..patient(folder)
    })
    .unwrap();
    let at = |path: &str| format!("{url}/{path}");
    let file = |name: &str| folder.join("files").join(name).to_str().unwrap().to_owned();
    for (reference, told) in [
        (at("big"), Some(4 << 20)),
        (file("big"), Some(4 << 20)),
        (at("endless"), None),
    ] {
        let error = sources.fetch(&reference, None).await.unwrap_err();
        let SourceError::DiskFull { needed, free, .. } = &error else {
            panic!("{reference}: {error:?}");
        };
        assert_eq!(*needed, told, "{reference}");
        assert!(*free <= 2 << 20);
        assert!(error.to_string().contains("free"), "{error}");
    }
    let error = sources.disk_image(&file("zeros.gz"), None, None).await.unwrap_err();
    assert!(matches!(error, SourceError::DiskFull { .. }), "{error:?}");
    assert_eq!(size_of(&folder.join("cache/tmp")), 0);
    // And there is room for what fits, if need be in place of what nobody uses.
    sources.fetch(&at("small"), None).await.unwrap();
    sources.fetch(&at("half"), None).await.unwrap();
    let other = sources.fetch(&at("other-half"), None).await.unwrap();
    let kept: HashSet<_> = sources.entries().unwrap().iter().map(|entry| entry.sha256).collect();
    assert!(
        kept.contains(&other.sha256) && !kept.contains(&sha256(&unique(1, 1 << 20))),
        "{kept:?}"
    );
    // What is in use makes no room.
    let error = sources.fetch(&at("half"), None).await.unwrap_err();
    assert!(
        matches!(error, SourceError::DiskFull { needed: Some(_), .. }),
        "{error:?}"
    );
    report("as it should be");
}
