//! Serving images, beside nginx in the same run: 64 KiB ranges on 64 connections, one stream of 1 GiB, and a thousand BMCs
//! that read three thousand small ranges each.
//!
//! `cargo bench -p api --bench serving`; `-- quick` does a little of each, `-- rates` leaves most of the BMCs out. Every byte that comes is counted, those of the small
//! ranges are compared. The server is a process of its own, so its memory can be told. It ends with an error if a read fails
//! or a budget is missed.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench fails where it fails, and prints what it finds"
)]

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use image::{Extent, FileSource, Kind, Layout, SourceMap};
use model::{ArtefactName, Sha256};
use storage::{Backend as _, Embedded, EmbeddedConfig, NoRecords, Publication, Reader, WebRoot};
use tokio_util::sync::CancellationToken;

#[path = "../../../tests/support/peers.rs"]
mod peers;

const MIB: u64 = 1 << 20;
const RANGE: u64 = 64 << 10;
const CONNECTIONS: usize = 64;
/// Of what nginx does, at least so much.
const RATIO: f64 = 0.8;
const RSS_MIB: u64 = 300;

struct Scale {
    image: u64,
    rounds: usize,
    round: Duration,
    readers: usize,
    reads: usize,
}

const FULL: Scale = Scale {
    image: 1024 * MIB,
    rounds: 5,
    round: Duration::from_secs(3),
    readers: 1000,
    reads: 3000,
};

const QUICK: Scale = Scale {
    image: 64 * MIB,
    rounds: 3,
    round: Duration::from_millis(500),
    readers: 200,
    reads: 100,
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", file] => {
            serve(Path::new(file));
            ExitCode::SUCCESS
        }
        // `cargo test` runs benches too, with nothing to say.
        _ if arguments.iter().any(|argument| argument == "quick") => compare(&QUICK),
        _ if arguments.iter().any(|argument| argument == "rates") => compare(&Scale { readers: 10, ..FULL }),
        _ if arguments.iter().any(|argument| argument == "--bench") => compare(&FULL),
        _ => compare(&QUICK),
    }
}

fn name() -> ArtefactName {
    ArtefactName::parse(&format!("{:032}.iso", 7)).unwrap()
}

/// The file between a head and a tail of our own, as a ramdisk lies in a boot ISO.
fn publication(file: &Path) -> Publication {
    let sha256 = Sha256([7; 32]);
    let mut sources = SourceMap::default();
    sources.insert(sha256, Arc::new(FileSource::open(file).unwrap()));
    let len = std::fs::metadata(file).unwrap().len();
    let edge = || Extent::Literal(vec![0x5a; 4096].into());
    let extents = vec![edge(), Extent::Source { sha256, offset: 0, len }, edge()];
    Publication {
        name: name(),
        layout: Arc::new(Layout::from_extents(Kind::BootIso, extents).unwrap()),
        sources: Arc::new(sources),
        reader: Reader::default(),
    }
}

/// The server: tells its port, and ends with its standard input.
fn serve(file: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let embedded = Embedded::new(EmbeddedConfig {
            base_url: format!("http://{address}/images"),
            recall: Arc::new(NoRecords),
        })
        .unwrap();
        embedded.publish(&publication(file), None).await.unwrap();
        let stop = CancellationToken::new();
        let limits = api::listen::Limits::images(None);
        tokio::spawn(api::images::serve(listener, limits, embedded, stop.clone()));
        println!("{}", address.port());
        let _ = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await;
    });
    // Whoever waits for its standard input still waits.
    std::process::exit(0);
}

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(file: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("serve")
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().unwrap();
        Self {
            child,
            address: ([127, 0, 0, 1], port).into(),
        }
    }

    /// The most memory that it has had at once.
    fn peak_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn compare(scale: &Scale) -> ExitCode {
    // A thousand clients in this process, and as many connections in the other.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let source = folder.path().join("ramdisk");
    fill(&source, scale.image);
    let root = folder.path().join("www");
    std::fs::create_dir(&root).unwrap();
    let publication = publication(&source);
    let size = publication.layout.size();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let web = WebRoot::new(&root, "http://127.0.0.1/images").unwrap();
    runtime.block_on(web.publish(&publication, None)).unwrap();
    let image = Arc::new(File::open(root.join(name().expose())).unwrap());
    // Both read from memory.
    std::io::copy(&mut image.try_clone().unwrap(), &mut std::io::sink()).unwrap();

    let server = Server::start(&source);
    let peer = peers::Nginx::start(&root);
    let nginx: SocketAddr = ([127, 0, 0, 1], peer.port).into();
    let (ours, theirs) = (server.child.id(), peer.pid());
    let path = format!("/images/{}", name().expose());
    let mut ranges = (Vec::new(), Vec::new());
    let mut streams = (Vec::new(), Vec::new());
    let mut costs = [[0.0; 2]; 2];
    let mut work = [[0.0; 2]; 2];
    for _ in 0..scale.rounds {
        for (who, (address, pid)) in [(server.address, ours), (nginx, theirs)].into_iter().enumerate() {
            let before = cpu_seconds(pid);
            let rate = read_ranges(address, &path, size, scale.round);
            let between = cpu_seconds(pid);
            let streamed = stream(address, &path, size);
            let after = cpu_seconds(pid);
            costs[0][who] += between - before;
            costs[1][who] += after - between;
            work[0][who] += rate * scale.round.as_secs_f64();
            work[1][who] += size as f64 / MIB as f64;
            let (of_ranges, of_streams) = match who {
                0 => (&mut ranges.0, &mut streams.0),
                _ => (&mut ranges.1, &mut streams.1),
            };
            of_ranges.push(rate);
            of_streams.push(streamed);
        }
    }
    let per_gib = |what: usize, who: usize| costs[what][who] / work[what][who] * 1024.0;
    let mut missed = 0;
    let mut tell = |row: usize, what: &str, (ours, theirs): (Vec<f64>, Vec<f64>)| {
        let (ours, theirs) = (median(ours), median(theirs));
        let (our_cost, their_cost) = (per_gib(row, 0), per_gib(row, 1));
        let ratio = ours / theirs;
        let verdict = if ratio >= RATIO { "" } else { "   MISSED" };
        println!(
            "{what:<33} farrier {ours:>6.0} MiB/s {our_cost:.2} CPU s/GiB   nginx {theirs:>6.0} MiB/s {their_cost:.2} CPU s/GiB   {ratio:.2} x (budget {RATIO}){verdict}"
        );
        missed += u32::from(ratio < RATIO);
    };
    tell(0, &format!("64 KiB ranges, {CONNECTIONS} connections"), ranges);
    tell(1, &format!("one stream of {} MiB", size / MIB), streams);

    let start = Instant::now();
    let failed = runtime.block_on(thousand(server.address, &path, &image, size, scale));
    let took = start.elapsed();
    let total = scale.readers * scale.reads;
    let peak = server.peak_mib();
    println!(
        "{} BMCs x {} reads of 2 KiB{:<18} {failed} of {total} failed, {:.0} reads/s, {:.1} s; peak memory of the server {peak} MiB (budget {RSS_MIB})",
        scale.readers,
        scale.reads,
        "",
        total as f64 / took.as_secs_f64(),
        took.as_secs_f64(),
    );
    missed += u32::from(failed > 0) + u32::from(peak >= RSS_MIB);
    if missed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Processor time of a process and all that it started.
fn cpu_seconds(root: u32) -> f64 {
    let mut parents = std::collections::BTreeMap::new();
    let mut ticks = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // The name may hold anything, but no more than one last parenthesis.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let number = |index: usize| {
            fields
                .get(index)
                .and_then(|field| field.parse::<u32>().ok())
                .unwrap_or_default()
        };
        parents.insert(pid, number(1));
        ticks.insert(pid, number(11) + number(12));
    }
    let descends = |pid: &u32| {
        let mut at = *pid;
        while at > 1 && at != root {
            at = parents.get(&at).copied().unwrap_or_default();
        }
        at == root
    };
    let of_all: u32 = ticks
        .iter()
        .filter(|(pid, _)| descends(pid))
        .map(|(_, ticks)| ticks)
        .sum();
    // Linux counts them in hundredths of a second for whoever asks.
    f64::from(of_all) / 100.0
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Content in which no two blocks are alike.
fn fill(path: &Path, size: u64) {
    let mut file = File::create(path).unwrap();
    let mut block = vec![0u8; 1 << 20];
    for number in 0..size / MIB {
        for (index, word) in block.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&(number << 32 | index as u64).to_le_bytes());
        }
        file.write_all(&block).unwrap();
    }
}

/// A connection that reads answers without looking at more of them than it must.
struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    path: String,
}

impl Client {
    fn connect(address: SocketAddr, path: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self {
            stream,
            buffer: vec![0; 256 << 10],
            path: path.to_owned(),
        }
    }

    /// Reads a range to its end; the bytes that came.
    fn get(&mut self, start: u64, len: u64) -> u64 {
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: x\r\nRange: bytes={start:020}-{:020}\r\n\r\n",
            self.path,
            start + len - 1
        );
        self.stream.write_all(request.as_bytes()).unwrap();
        let mut have = 0;
        let body = loop {
            let read = self.stream.read(&mut self.buffer[have..]).unwrap();
            assert!(read > 0, "the server hung up");
            have += read;
            if let Some(end) = self.buffer[..have].windows(4).position(|four| four == b"\r\n\r\n") {
                assert!(
                    self.buffer.starts_with(b"HTTP/1.1 206"),
                    "{:?}",
                    String::from_utf8_lossy(&self.buffer[..end])
                );
                break end + 4;
            }
        };
        let mut came = (have - body) as u64;
        while came < len {
            let read = self.stream.read(&mut self.buffer).unwrap();
            assert!(read > 0, "the server hung up");
            came += read as u64;
        }
        came
    }
}

/// MiB a second.
fn read_ranges(address: SocketAddr, path: &str, size: u64, time: Duration) -> f64 {
    let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..CONNECTIONS {
            let (stop, total) = (&stop, &total);
            scope.spawn(move || {
                let mut client = Client::connect(address, path);
                let mut at = number as u64 * 7919;
                while !stop.load(Ordering::Relaxed) {
                    at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let start = (at >> 16) % (size - RANGE);
                    total.fetch_add(client.get(start, RANGE), Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    total.load(Ordering::Relaxed) as f64 / MIB as f64 / start.elapsed().as_secs_f64()
}

/// MiB a second.
fn stream(address: SocketAddr, path: &str, size: u64) -> f64 {
    let mut client = Client::connect(address, path);
    let start = Instant::now();
    assert_eq!(client.get(0, size), size);
    size as f64 / MIB as f64 / start.elapsed().as_secs_f64()
}

/// Many BMCs at once, each reading small ranges all over the image and comparing them; how many reads failed.
async fn thousand(address: SocketAddr, path: &str, image: &Arc<File>, size: u64, scale: &Scale) -> usize {
    let mut readers = tokio::task::JoinSet::new();
    for number in 0..scale.readers {
        let (path, image, reads) = (path.to_owned(), Arc::clone(image), scale.reads);
        readers.spawn(async move {
            let mut failed = 0;
            let mut at = number as u64 * 104_729;
            let mut connection = None;
            for _ in 0..reads {
                at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let start = (at >> 16) % (size - 2048);
                let read =
                    tokio::time::timeout(Duration::from_secs(60), small(&mut connection, address, &path, start)).await;
                let mut expected = [0; 2048];
                image.read_exact_at(&mut expected, start).unwrap();
                if !matches!(read, Ok(Ok(body)) if body == expected) {
                    failed += 1;
                    connection = None;
                }
            }
            failed
        });
    }
    readers.join_all().await.into_iter().sum()
}

async fn small(
    connection: &mut Option<tokio::net::TcpStream>,
    address: SocketAddr,
    path: &str,
    start: u64,
) -> std::io::Result<Vec<u8>> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let stream = match connection {
        Some(stream) => stream,
        None => connection.insert(tokio::net::TcpStream::connect(address).await?),
    };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nRange: bytes={start:020}-{:020}\r\n\r\n",
        start + 2047
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(4096);
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        if !answer.starts_with(b"HTTP/1.1 206") {
            return Err(std::io::Error::other("it is no part"));
        }
        if answer.len() >= end + 4 + 2048 {
            return Ok(answer.split_off(end + 4));
        }
    }
}
