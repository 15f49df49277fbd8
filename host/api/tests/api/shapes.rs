//! Every way in which a BMC is known to ask reads every image byte for byte, with TLS and without.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use api::listen::Limits;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use image::{Extent, FileSource, FloppySpec, Kind, Layout, NoSources, SourceMap, SourceSet};
use model::{ArtefactName, Sha256};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use storage::{
    Backend, Content, Embedded, EmbeddedConfig, NoRecords, Publication, Reader, Recall, RecallError, Recalled, Remote,
    Standing,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

fn name(seed: usize, ending: &str) -> ArtefactName {
    ArtefactName::parse(&format!("{seed:032}.{ending}")).unwrap()
}

/// One image with its bytes, from wherever these come.
struct Image {
    name: ArtefactName,
    bytes: Vec<u8>,
}

/// Bytes that lie elsewhere, and come in pieces of odd sizes.
struct Elsewhere(Bytes);

#[async_trait]
impl Remote for Elsewhere {
    async fn read(&self, range: Range<u64>) -> std::io::Result<BoxStream<'static, std::io::Result<Bytes>>> {
        let index = |at: u64| usize::try_from(at).unwrap();
        let whole = self.0.slice(index(range.start)..index(range.end));
        let pieces: Vec<_> = (0..whole.len())
            .step_by(1009)
            .map(|at| Ok(whole.slice(at..(at + 1009).min(whole.len()))))
            .collect();
        Ok(futures_util::stream::iter(pieces).boxed())
    }
}

/// On record, as relayed artefacts of another conductor are.
struct Records(ArtefactName, Bytes);

#[async_trait]
impl Recall for Records {
    async fn recall(&self, name: &ArtefactName) -> Result<Option<Recalled>, RecallError> {
        Ok((*name == self.0).then(|| Recalled {
            content: Content::Remote(Arc::new(Elsewhere(self.1.clone()))),
            digest: Layout::from_extents(Kind::BootIso, vec![Extent::Literal(self.1.clone())])
                .unwrap()
                .digest(),
            size: self.1.len() as u64,
            expires: None,
            reader: Reader::default(),
        }))
    }

    async fn standing(&self, name: &ArtefactName) -> Result<Standing, RecallError> {
        match *name == self.0 {
            true => Ok(Standing::Recorded(None)),
            false => NoRecords.standing(name).await,
        }
    }
}

struct Server {
    address: SocketAddr,
    /// Of what signed its certificate, if it has one.
    root: Option<CertificateDer<'static>>,
    images: Vec<Image>,
    _stop: DropGuard,
}

impl Server {
    async fn start(tls: bool) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (config, root) = match tls {
            true => {
                let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
                let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
                let chain = vec![made.cert.der().clone()];
                let config = rustls::ServerConfig::builder().with_no_client_auth();
                let config = config.with_single_cert(chain, key).unwrap();
                (Some(Arc::new(config)), Some(made.cert.der().clone()))
            }
            false => (None, None),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let elsewhere: Vec<u8> = (0..400_000u32).map(|i| u8::try_from(i % 241).unwrap()).collect();
        let relayed = name(9, "iso");
        let embedded = Embedded::new(EmbeddedConfig {
            base_url: format!("http://{address}/images"),
            recall: Arc::new(Records(relayed.clone(), elsewhere.clone().into())),
        })
        .unwrap();
        let mut images = vec![Image {
            name: relayed,
            bytes: elsewhere,
        }];
        for (number, (layout, sources)) in layouts().into_iter().enumerate() {
            let ending = if layout.kind() == Kind::Floppy { "img" } else { "iso" };
            let publication = Publication {
                name: name(number, ending),
                layout: Arc::new(layout),
                sources,
                reader: Reader::default(),
            };
            let mut bytes = vec![0; usize::try_from(publication.layout.size()).unwrap()];
            let layout = &publication.layout;
            layout.read_at(&*publication.sources, 0, &mut bytes).unwrap();
            embedded.publish(&publication, None).await.unwrap();
            images.push(Image {
                name: publication.name,
                bytes,
            });
        }
        let stop = CancellationToken::new();
        tokio::spawn(api::images::serve(
            listener,
            Limits::images(config),
            embedded,
            stop.clone(),
        ));
        Self {
            address,
            root,
            images,
            _stop: stop.drop_guard(),
        }
    }

    async fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let stream: Box<dyn Stream> = match &self.root {
            None => Box::new(stream),
            Some(root) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(root.clone()).unwrap();
                let config = rustls::ClientConfig::builder().with_root_certificates(roots);
                let connector = tokio_rustls::TlsConnector::from(Arc::new(config.with_no_client_auth()));
                let host = ServerName::try_from("127.0.0.1").unwrap();
                Box::new(connector.connect(host, stream).await.unwrap())
            }
        };
        Client {
            stream,
            buffer: Vec::new(),
        }
    }
}

/// A floppy with parameters, an image of all kinds of extents, one of a single byte, one of nothing but zeros.
fn layouts() -> Vec<(Layout, Arc<dyn SourceSet>)> {
    let floppy = image::floppy(&FloppySpec {
        parameters: vec![("ipa-api-url".into(), "http://192.0.2.1:6387".into())],
        ..FloppySpec::default()
    })
    .unwrap();
    let on_disk: Vec<u8> = (0..700_000u32).map(|i| u8::try_from(i % 249).unwrap()).collect();
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &on_disk).unwrap();
    let sha256 = Sha256([1; 32]);
    let mut sources = SourceMap::default();
    sources.insert(sha256, Arc::new(FileSource::new(file).unwrap()));
    let mixed = vec![
        Extent::Literal(Bytes::from_static(b"head")),
        Extent::Zero(100_000),
        Extent::Source {
            sha256,
            offset: 7,
            len: 600_000,
        },
        Extent::Literal(Bytes::from_static(b"tail")),
    ];
    let none = || Arc::new(NoSources) as Arc<dyn SourceSet>;
    let of = |extents| Layout::from_extents(Kind::BootIso, extents).unwrap();
    vec![
        (floppy, none()),
        (of(mixed), Arc::new(sources)),
        (of(vec![Extent::Literal(Bytes::from_static(b"x"))]), none()),
        (of(vec![Extent::Zero(65_536)]), none()),
    ]
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

struct Client {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        // Case matters to some BMCs, so it does here.
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Client {
    async fn ask(&mut self, request: &str) -> Answer {
        self.stream.write_all(request.as_bytes()).await.unwrap();
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            assert!(
                self.stream.read_buf(&mut self.buffer).await.unwrap() > 0,
                "no answer to {request:?}"
            );
        };
        let head = String::from_utf8(self.buffer[..end].to_vec()).unwrap();
        self.buffer.drain(..end + 4);
        let mut answer = Answer {
            status: head[9..12].parse().unwrap(),
            head,
            body: Vec::new(),
        };
        for unwanted in ["Transfer-Encoding", "Content-Encoding", "Location"] {
            assert!(
                !answer.head.to_lowercase().contains(&unwanted.to_lowercase()),
                "{}",
                answer.head
            );
        }
        let len: usize = answer.header("Content-Length").unwrap().parse().unwrap();
        if !request.starts_with("HEAD") {
            while self.buffer.len() < len {
                assert!(
                    self.stream.read_buf(&mut self.buffer).await.unwrap() > 0,
                    "the body ends too early"
                );
            }
            answer.body = self.buffer.drain(..len).collect();
        }
        answer
    }
}

/// Cuts an image into ranges of these sizes, over and over.
fn pieces(size: usize, sizes: &[usize]) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for len in sizes.iter().cycle() {
        if at == size {
            return pieces;
        }
        let end = (at + len).min(size);
        pieces.push(at..end);
        at = end;
    }
    pieces
}

/// Reads all pieces, in an order that jumps about, by requests made of `request(range)`; a new connection each time if
/// `close`.
async fn by_ranges(
    server: &Server,
    image: &Image,
    sizes: &[usize],
    close: bool,
    request: impl Fn(&Range<usize>) -> String,
) {
    let mut pieces = pieces(image.bytes.len(), sizes);
    // Far apart from each other, as a file system is read.
    let middle = pieces.len() / 2;
    pieces[middle..].reverse();
    let mut client = server.connect().await;
    let mut tags = std::collections::BTreeSet::new();
    for piece in pieces {
        let answer = client.ask(&request(&piece)).await;
        assert_eq!(answer.status, 206, "{}", answer.head);
        let range = format!("bytes {}-{}/{}", piece.start, piece.end - 1, image.bytes.len());
        assert_eq!(answer.header("Content-Range"), Some(&*range));
        assert!(answer.body == image.bytes[piece], "{range}");
        tags.insert(answer.header("Etag").unwrap().to_owned());
        if close {
            assert_eq!(answer.header("Connection"), Some("close"));
            client = server.connect().await;
        }
    }
    assert_eq!(tags.len(), 1);
    assert!(tags.iter().all(|tag| tag.starts_with('"')), "{tags:?}");
}

async fn check(tls: bool) {
    let server = Server::start(tls).await;
    for image in &server.images {
        let path = format!("/images/{}", image.name.expose());
        let size = image.bytes.len();

        // iLO 2: no HEAD; Host (without its port) and Range alone; numbers of 20 digits.
        let mut ilo = vec![2048; 34];
        ilo.extend([4096, 4096, 4096, 256]);
        by_ranges(&server, image, &ilo, false, |range| {
            let last = range.end - 1;
            format!(
                "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nRange: bytes={:020}-{last:020}\r\n\r\n",
                range.start
            )
        })
        .await;

        // The iDRAC family: HEAD first, then ranges of 4 to 128 KiB.
        let head = format!("HEAD {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bmc/1.0\r\n\r\n");
        let answer = server.connect().await.ask(&head).await;
        assert_eq!((answer.status, answer.header("Accept-Ranges")), (200, Some("bytes")));
        assert_eq!(answer.header("Content-Length"), Some(&*size.to_string()));
        by_ranges(
            &server,
            image,
            &[4096, 8192, 16384, 32768, 65536, 131_072],
            false,
            |range| {
                let last = range.end - 1;
                format!(
                    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bmc/1.0\r\nRange: bytes={}-{last}\r\n\r\n",
                    range.start
                )
            },
        )
        .await;

        // A BMC that opens a connection for each range.
        by_ranges(&server, image, &[100_000], true, |range| {
            let last = range.end - 1;
            format!(
                "GET {path} HTTP/1.1\r\nHost: x:80\r\nConnection: close\r\nRange: bytes={}-{last}\r\n\r\n",
                range.start
            )
        })
        .await;

        // One plain GET of the whole with every coding allowed, after a HEAD that must be 200; and the same by HTTP/1.0.
        let requests = "Accept: */*\r\nAccept-Encoding: gzip, deflate, zstd\r\nUser-Agent: python-requests/2\r\nConnection: keep-alive\r\n";
        let mut client = server.connect().await;
        let host = server.address;
        assert_eq!(
            client
                .ask(&format!("HEAD {path} HTTP/1.1\r\nHost: {host}\r\n{requests}\r\n"))
                .await
                .status,
            200
        );
        let whole = client
            .ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{requests}\r\n"))
            .await;
        assert!(whole.status == 200 && whole.body == image.bytes, "{}", image.name);
        let whole = server
            .connect()
            .await
            .ask(&format!("GET {path} HTTP/1.0\r\n\r\n"))
            .await;
        assert!(whole.status == 200 && whole.body == image.bytes);

        // The last bytes, from some byte on, and past the end.
        let tail = size.min(700);
        for range in [format!("-{tail}"), format!("{}-", size - tail)] {
            let answer = client
                .ask(&format!(
                    "GET {path} HTTP/1.1\r\nHost: x\r\nRange: bytes={range}\r\n\r\n"
                ))
                .await;
            assert!(answer.status == 206 && answer.body == image.bytes[size - tail..]);
        }
        let past = client
            .ask(&format!(
                "GET {path} HTTP/1.1\r\nHost: x\r\nRange: bytes={size:020}-\r\n\r\n"
            ))
            .await;
        let unsatisfied = format!("bytes */{size}");
        assert_eq!((past.status, past.header("Content-Range")), (416, Some(&*unsatisfied)));
    }
}

#[tokio::test]
async fn every_shape_reads_every_image_byte_for_byte() {
    check(false).await;
}

#[tokio::test]
async fn every_shape_reads_every_image_byte_for_byte_over_tls() {
    check(true).await;
}

/// A store that is away.
struct Away;

#[async_trait]
impl Remote for Away {
    async fn read(&self, _: Range<u64>) -> std::io::Result<BoxStream<'static, std::io::Result<Bytes>>> {
        Err(std::io::Error::other("the store is away"))
    }
}

struct OfAway;

#[async_trait]
impl Recall for OfAway {
    async fn recall(&self, _: &ArtefactName) -> Result<Option<Recalled>, RecallError> {
        Ok(Some(Recalled {
            content: Content::Remote(Arc::new(Away)),
            digest: Layout::from_extents(Kind::BootIso, vec![Extent::Zero(9)])
                .unwrap()
                .digest(),
            size: 9,
            expires: None,
            reader: Reader::default(),
        }))
    }

    async fn standing(&self, _: &ArtefactName) -> Result<Standing, RecallError> {
        Ok(Standing::Recorded(None))
    }
}

#[tokio::test]
async fn while_the_store_of_a_relayed_image_is_away_bmcs_are_told_to_come_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let embedded = Embedded::new(EmbeddedConfig {
        base_url: format!("http://{address}"),
        recall: Arc::new(OfAway),
    })
    .unwrap();
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(api::images::serve(listener, Limits::images(None), embedded, stop));
    let mut client = Client {
        stream: Box::new(TcpStream::connect(address).await.unwrap()),
        buffer: Vec::new(),
    };
    let path = name(1, "iso");
    let head = client
        .ask(&format!("HEAD /{} HTTP/1.1\r\nHost: x\r\n\r\n", path.expose()))
        .await;
    assert_eq!((head.status, head.header("Content-Length")), (200, Some("9")));
    let get = client
        .ask(&format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", path.expose()))
        .await;
    assert_eq!((get.status, get.header("Retry-After")), (503, Some("1")));
}

#[tokio::test]
async fn an_image_for_one_bmc_is_answered_to_nobody_else_as_if_it_were_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let embedded = Embedded::new(EmbeddedConfig {
        base_url: format!("http://{address}"),
        recall: Arc::new(NoRecords),
    })
    .unwrap();
    for (number, bmc) in ["127.0.0.1", "127.0.0.9", "::ffff:127.0.0.1"].into_iter().enumerate() {
        let publication = Publication {
            name: name(number, "img"),
            layout: Arc::new(Layout::from_extents(Kind::Floppy, vec![Extent::Zero(2048)]).unwrap()),
            sources: Arc::new(NoSources),
            reader: Reader {
                only: vec![bmc.parse().unwrap()],
                ..Reader::default()
            },
        };
        embedded.publish(&publication, None).await.unwrap();
    }
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(api::images::serve(
        listener,
        Limits::images(None),
        embedded.clone(),
        stop,
    ));
    for (number, status) in [(0, 200), (1, 404), (2, 200), (3, 404)] {
        let mut client = Client {
            stream: Box::new(TcpStream::connect(address).await.unwrap()),
            buffer: Vec::new(),
        };
        let path = name(number, "img");
        let answer = client
            .ask(&format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", path.expose()))
            .await;
        assert_eq!(answer.status, status, "{number}");
    }
    assert_eq!(embedded.reads(&name(1, "img")).unwrap().bytes, 0);
}
