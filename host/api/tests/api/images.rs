//! The image listener over real sockets, asked as BMCs ask: a raw client, byte for byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::listen::Limits;
use async_trait::async_trait;
use bytes::Bytes;
use image::{Extent, FileSource, Kind, Layout, SourceMap};
use model::{ArtefactName, Sha256};
use storage::{Backend, Embedded, EmbeddedConfig, Part, Publication, Reader, Recall, RecallError, Recalled, Standing};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

struct Server {
    address: SocketAddr,
    embedded: Embedded,
    name: ArtefactName,
    bytes: Vec<u8>,
    stop: CancellationToken,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn name(seed: u8, ending: &str) -> ArtefactName {
    ArtefactName::parse(&format!("{seed:032}.{ending}")).unwrap()
}

fn publication(name: ArtefactName) -> (Publication, Vec<u8>) {
    let on_disk: Vec<u8> = (0..1_500_000u32).map(|i| u8::try_from(i % 249).unwrap()).collect();
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &on_disk).unwrap();
    let sha256 = Sha256([1; 32]);
    let mut sources = SourceMap::default();
    sources.insert(sha256, Arc::new(FileSource::new(file).unwrap()));
    let extents = vec![
        Extent::Literal(Bytes::from_static(b"head")),
        Extent::Zero(100_000),
        Extent::Source {
            sha256,
            offset: 7,
            len: 1_400_000,
        },
        Extent::Literal(Bytes::from_static(b"tail")),
    ];
    let mut bytes = b"head".to_vec();
    bytes.resize(100_004, 0);
    bytes.extend_from_slice(&on_disk[7..1_400_007]);
    bytes.extend_from_slice(b"tail");
    let layout = Layout::from_extents(Kind::BootIso, extents).unwrap();
    let publication = Publication {
        name,
        layout: Arc::new(layout),
        sources: Arc::new(sources),
        reader: Reader::default(),
    };
    (publication, bytes)
}

/// No records, but a part of the first image has a name of its own.
struct Parts;

#[async_trait]
impl Recall for Parts {
    async fn recall(&self, _: &ArtefactName) -> Result<Option<Recalled>, RecallError> {
        Ok(None)
    }

    async fn standing(&self, _: &ArtefactName) -> Result<Standing, RecallError> {
        Ok(Standing::Untracked)
    }

    async fn part(&self, path: &str) -> Result<Option<Part>, RecallError> {
        let (name, range) = (name(1, "iso"), 100_000..1_300_000);
        Ok((path == "n1/kernel").then_some(Part { name, range }))
    }
}

impl Server {
    async fn start() -> Self {
        Self::with(Limits::images(None)).await
    }

    async fn with(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let base_url = format!("http://{address}");
        let embedded = Embedded::new(EmbeddedConfig {
            base_url,
            recall: Arc::new(Parts),
        })
        .unwrap();
        let (iso, bytes) = publication(name(1, "iso"));
        embedded.publish(&iso, None).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(api::images::serve(listener, limits, embedded.clone(), stop.clone()));
        Self {
            address,
            embedded,
            name: iso.name,
            bytes,
            stop,
        }
    }

    fn path(&self) -> String {
        format!("/{}", self.name.expose())
    }

    async fn connect(&self) -> Raw {
        Raw {
            stream: TcpStream::connect(self.address).await.unwrap(),
            buffer: Vec::new(),
        }
    }
}

/// A client that knows sockets and CRLF, no more.
struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
}

struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1);
        // Case matters to some BMCs, so it does here.
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Raw {
    async fn ask(&mut self, request: &str) -> Reply {
        self.stream.write_all(request.as_bytes()).await.unwrap();
        self.reply(request.starts_with("HEAD")).await
    }

    async fn more(&mut self) -> usize {
        let read = self.stream.read_buf(&mut self.buffer);
        tokio::time::timeout(Duration::from_secs(10), read)
            .await
            .unwrap()
            .unwrap()
    }

    async fn reply(&mut self, bodiless: bool) -> Reply {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().await > 0, "closed inside a head");
        };
        let head = String::from_utf8(self.buffer.drain(..end).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut reply = Reply {
            status,
            head,
            body: Vec::new(),
        };
        let length = reply
            .header("Content-Length")
            .map_or(0, |length| length.parse().unwrap());
        if !bodiless {
            while self.buffer.len() < length {
                assert!(self.more().await > 0, "closed inside a body");
            }
            reply.body = self.buffer.drain(..length).collect();
        }
        reply
    }

    async fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && self.more().await == 0
    }
}

#[tokio::test]
async fn an_ilo_that_sends_host_and_padded_ranges_alone_reads_the_image_byte_for_byte() {
    let server = Server::start().await;
    let path = server.path();
    let mut ilo = server.connect().await;
    let size = server.bytes.len();
    let mut joined = Vec::new();
    let mut at = 0;
    // One connection, many reads, no port in Host: as recorded from an iLO 2.
    for step in [2048, 4096, 256, 99_990, 65_536, 1_000_000].into_iter().cycle() {
        if at >= size {
            break;
        }
        let last = at + step - 1;
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes={at:020}-{last:020}\r\n\r\n");
        let reply = ilo.ask(&request).await;
        assert_eq!(reply.status, 206);
        let end = last.min(size - 1);
        let range = format!("bytes {at}-{end}/{size}");
        assert_eq!(reply.header("Content-Range"), Some(range.as_str()));
        assert_eq!(reply.header("Accept-Ranges"), Some("bytes"));
        assert_eq!(reply.header("Transfer-Encoding"), None);
        assert_eq!(reply.header("Content-Encoding"), None);
        joined.extend(reply.body);
        at = end + 1;
    }
    assert!(joined == server.bytes);
    let reads = server.embedded.reads(&server.name).unwrap();
    assert_eq!(reads.bytes, size as u64);
    assert_eq!(reads.furthest, size as u64);
    assert_eq!(reads.by.unwrap().to_string(), "127.0.0.1");
    let past = ilo
        .ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nRange: bytes={size:020}-\r\n\r\n"
        ))
        .await;
    assert_eq!(past.status, 416);
    assert_eq!(past.header("Content-Range"), Some(format!("bytes */{size}").as_str()));
}

#[tokio::test]
async fn head_tells_what_get_then_sends_whole() {
    let server = Server::start().await;
    let path = server.path();
    let size = server.bytes.len().to_string();
    let mut client = server.connect().await;
    let head = client
        .ask(&format!(
            "HEAD {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip, deflate, zstd\r\n\r\n"
        ))
        .await;
    assert_eq!((head.status, head.header("Content-Length")), (200, Some(size.as_str())));
    let get = client
        .ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip, deflate, zstd\r\n\r\n"
        ))
        .await;
    assert_eq!((get.status, get.header("Content-Length")), (200, Some(size.as_str())));
    assert_eq!(get.header("Content-Encoding"), None);
    assert_eq!(get.header("Content-Type"), Some("application/x-iso9660-image"));
    assert_eq!(get.header("Etag"), head.header("Etag"));
    assert!(get.body == server.bytes);
    let etag = get.header("Etag").unwrap().to_owned();
    assert!(etag.starts_with("\"sha256:"), "{etag}");
    let known = client
        .ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nIf-None-Match: {etag}\r\n\r\n"
        ))
        .await;
    assert_eq!((known.status, known.body.len()), (304, 0));
    let stale = client
        .ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nIf-Range: \"old\"\r\nRange: bytes=0-3\r\n\r\n"
        ))
        .await;
    assert_eq!((stale.status, stale.body.len()), (200, server.bytes.len()));
    let twice = client
        .ask(&format!(
            "GET {path} HTTP/1.1\r\nHost: x\r\nRange: bytes=0-3\r\nRange: bytes=4-7\r\n\r\n"
        ))
        .await;
    assert_eq!(twice.status, 200);
}

#[tokio::test]
async fn a_part_under_a_name_of_its_own_is_an_image_of_its_own() {
    let server = Server::start().await;
    let part = server.bytes[100_000..1_300_000].to_vec();
    let mut client = server.connect().await;
    let whole = client.ask("GET /n1/kernel HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_eq!((whole.status, whole.header("Content-Length")), (200, Some("1200000")));
    assert!(whole.body == part);
    let etag = whole.header("Etag").unwrap().to_owned();
    let head = client.ask("HEAD /n1/kernel HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_eq!((head.status, head.header("Content-Length")), (200, Some("1200000")));
    let request =
        format!("GET /n1/kernel HTTP/1.1\r\nHost: h\r\nRange: bytes=1199990-9999999\r\nIf-Range: {etag}\r\n\r\n");
    let end = client.ask(&request).await;
    assert_eq!(
        (end.status, end.header("Content-Range")),
        (206, Some("bytes 1199990-1199999/1200000"))
    );
    assert_eq!(end.body, part[1_199_990..]);
    let past = client
        .ask("GET /n1/kernel HTTP/1.1\r\nHost: h\r\nRange: bytes=1200000-\r\n\r\n")
        .await;
    assert_eq!(past.status, 416);
    let path = server.path();
    let all = client.ask(&format!("HEAD {path} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
    assert_ne!(all.header("Etag"), Some(etag.as_str()));
    for unknown in ["/n1/ramdisk", "/n1/", "/n1", "/x/n1/kernel"] {
        let reply = client.ask(&format!("GET {unknown} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        assert_eq!(reply.status, 404, "{unknown}");
    }
    let reads = server.embedded.reads(&server.name).unwrap();
    assert_eq!(
        (reads.bytes, reads.furthest),
        (1_200_010, 1_300_000),
        "counted where it lies in the whole"
    );
}

#[tokio::test]
async fn connections_close_when_the_client_says_so_or_speaks_http_1_0() {
    let server = Server::start().await;
    let path = server.path();
    for request in [
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nRange: bytes=0-3\r\n\r\n"),
        format!("GET {path} HTTP/1.0\r\nRange: bytes=0-3\r\n\r\n"),
    ] {
        let mut client = server.connect().await;
        let reply = client.ask(&request).await;
        assert_eq!(
            (reply.status, reply.body.as_slice()),
            (206, b"head".as_slice()),
            "{request}"
        );
        assert!(client.is_closed().await, "{request}");
    }
    // Without a Host header, and two requests at once.
    let mut client = server.connect().await;
    let one = format!("GET {path} HTTP/1.1\r\nRange: bytes=0-0\r\n\r\n");
    let first = client.ask(&format!("{one}{one}")).await;
    assert_eq!((first.status, first.body.as_slice()), (206, b"h".as_slice()));
    let second = client.reply(false).await;
    assert_eq!(second.status, 206);
}

#[tokio::test]
async fn a_client_that_shuts_its_sending_side_still_gets_its_answer() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", server.path());
    client.stream.write_all(request.as_bytes()).await.unwrap();
    client.stream.shutdown().await.unwrap();
    let reply = client.reply(false).await;
    assert!(reply.body == server.bytes);
}

#[tokio::test]
async fn only_published_names_under_the_base_path_are_answered_and_no_method_writes() {
    let server = Server::start().await;
    let path = server.path();
    let unknown = format!("/{}", name(9, "iso").expose());
    let mut client = server.connect().await;
    for (method, path, status) in [
        ("GET", "/", 404),
        ("GET", "/etc/passwd", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", unknown.as_str(), 404),
        ("PUT", path.as_str(), 405),
        ("DELETE", path.as_str(), 405),
        ("OPTIONS", path.as_str(), 405),
    ] {
        let reply = client
            .ask(&format!(
                "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
            ))
            .await;
        assert_eq!(reply.status, status, "{method} {path}");
    }
    // A query is not part of a name; BMCs that append one are answered.
    let reply = client
        .ask(&format!("HEAD {path}?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"))
        .await;
    assert_eq!(reply.status, 200);
    server.embedded.withdraw(&server.name).await.unwrap();
    let gone = client.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn a_head_that_is_nonsense_or_endless_ends_the_connection_and_nobody_elses() {
    let server = Server::start().await;
    let mut good = server.connect().await;
    for bad in [
        "\0\0\0\0\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 << 10)),
        "GET / HTTP/1.1\r\n".to_owned() + &"A: b\r\n".repeat(5000) + "\r\n",
    ] {
        let mut client = server.connect().await;
        // It may be refused before it was sent whole.
        let _ = client.stream.write_all(bad.as_bytes()).await;
        let mut answer = Vec::new();
        let read = client.stream.read_to_end(&mut answer);
        let ended = tokio::time::timeout(Duration::from_secs(10), read).await;
        assert!(ended.is_ok(), "{} bytes hang", bad.len());
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let reply = good
        .ask(&format!("HEAD {} HTTP/1.1\r\nHost: x\r\n\r\n", server.path()))
        .await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_client_that_says_nothing_or_takes_nothing_is_let_go() {
    let mut limits = Limits::images(None);
    limits.idle = Duration::from_millis(200);
    limits.stalled = Duration::from_millis(200);
    limits.connections = 2;
    let server = Server::with(limits).await;
    let (iso, _) = publication(name(2, "iso"));
    server.embedded.publish(&iso, None).await.unwrap();
    let mut silent = server.connect().await;
    assert!(silent.is_closed().await);
    // Two that ask for more than the kernel buffers and never read it; the third gets its turn when they are let go.
    let mut greedy = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect().await;
        let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", server.path()).repeat(16);
        client.stream.write_all(request.as_bytes()).await.unwrap();
        greedy.push(client);
    }
    let mut third = server.connect().await;
    let reply = third
        .ask(&format!("HEAD {} HTTP/1.1\r\nHost: x\r\n\r\n", server.path()))
        .await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn many_clients_read_at_once_and_all_get_the_same_bytes() {
    let server = Arc::new(Server::start().await);
    let mut clients = Vec::new();
    for number in 0..40usize {
        let server = server.clone();
        clients.push(tokio::spawn(async move {
            let mut client = server.connect().await;
            for round in 0..10usize {
                let start = (number * 31_337 + round * 104_729) % (server.bytes.len() - 70_000);
                let last = start + 65_535;
                let reply = client
                    .ask(&format!(
                        "GET {} HTTP/1.1\r\nHost: x\r\nRange: bytes={start}-{last}\r\n\r\n",
                        server.path()
                    ))
                    .await;
                assert!(reply.body == server.bytes[start..=last], "{start}");
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    assert_eq!(server.embedded.reads(&server.name).unwrap().bytes, 40 * 10 * 65_536);
}

/// The bench does the same with a thousand, and three thousand reads each.
#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_bmcs_at_once_lose_no_read_and_take_little_memory() {
    let server = Arc::new(Server::start().await);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..200usize {
        let server = server.clone();
        clients.spawn(async move {
            let mut client = server.connect().await;
            for round in 0..100usize {
                let start = (number * 31_337 + round * 104_729) % (server.bytes.len() - 2048);
                let last = start + 2047;
                let path = server.path();
                let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nRange: bytes={start:020}-{last:020}\r\n\r\n");
                let reply = client.ask(&request).await;
                assert!(
                    reply.status == 206 && reply.body == server.bytes[start..=last],
                    "{start}"
                );
            }
        });
    }
    clients.join_all().await;
    assert_eq!(server.embedded.reads(&server.name).unwrap().requests, 200 * 100);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    assert!(
        kib < 300 << 10,
        "{kib} KiB at the worst, clients and all other tests included"
    );
}
