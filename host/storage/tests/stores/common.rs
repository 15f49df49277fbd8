//! Images, backends over a store of its own for each test, and a look at what really lies there.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use image::{Extent, Kind, Layout, MemorySource, SourceMap};
use model::{ArtefactName, Secret, Sha256};
use reqwest::{Method, Response, StatusCode};
use sources::openstack::{Client, Credential, Identity, IdentityConfig, Limits};
use storage::swift::SwiftConfig;
use storage::{Delivery, Embedded, EmbeddedConfig, NoRecords, ObjectBackend, Publication, Reader};

use crate::peers::{Swift, account};

pub(crate) const CONTAINER: &str = "ironic_ilo_container";
pub(crate) const MIB: u64 = 1 << 20;

/// The Swift of this test program.
pub(crate) fn shared() -> &'static Swift {
    static SWIFT: OnceLock<Swift> = OnceLock::new();
    SWIFT.get_or_init(|| Swift::start(&[]))
}

/// A name that nothing else has.
pub(crate) fn name(ending: &str) -> ArtefactName {
    let chance: u128 = rand::random();
    ArtefactName::parse(&format!("{chance:032x}.{ending}")).unwrap()
}

/// An image of that size with all kinds of extents, and its bytes.
pub(crate) fn publication(name: ArtefactName, size: u64) -> (Publication, Vec<u8>) {
    let len = usize::try_from(size).unwrap();
    let content: Vec<u8> = (0..len)
        .map(|i| u8::try_from((i * 7 + i / 251) % 253).unwrap())
        .collect();
    let sha256 = Sha256([u8::try_from(size % 251).unwrap(); 32]);
    let mut sources = SourceMap::default();
    sources.insert(sha256, Arc::new(MemorySource(content.clone().into())));
    let third = size / 3;
    let extents = vec![
        Extent::Literal(Bytes::copy_from_slice(&content[..usize::try_from(third).unwrap()])),
        Extent::Zero(third),
        Extent::Source {
            sha256,
            offset: third * 2,
            len: size - third * 2,
        },
    ];
    let mut bytes = content;
    bytes[usize::try_from(third).unwrap()..usize::try_from(third * 2).unwrap()].fill(0);
    let layout = Layout::from_extents(Kind::BootIso, extents).unwrap();
    let publication = Publication {
        name,
        layout: Arc::new(layout),
        sources: Arc::new(sources),
        reader: Reader::default(),
    };
    (publication, bytes)
}

pub(crate) fn embedded() -> Embedded {
    Embedded::new(EmbeddedConfig {
        base_url: "http://192.0.2.1:6386/i".into(),
        recall: Arc::new(NoRecords),
    })
    .unwrap()
}

/// Patience for a busy machine; tests of impatience set their own.
pub(crate) fn limits() -> Limits {
    Limits {
        answer: Duration::from_secs(120),
        backoff: Duration::from_millis(20),
        ..Limits::default()
    }
}

/// One user's place at a Swift.
pub(crate) struct Place {
    /// Where authentication is asked: Swift itself, or a proxy in front of it.
    pub(crate) auth_url: String,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) limits: Limits,
}

impl Place {
    /// An account that no other test has, at this Swift.
    pub(crate) fn at(swift: &Swift) -> Self {
        let (_, user, password) = account();
        Self {
            auth_url: swift.auth_url(),
            user,
            password: password.to_owned(),
            limits: limits(),
        }
    }

    pub(crate) fn shared() -> Self {
        Self::at(shared())
    }

    pub(crate) fn identity(&self) -> IdentityConfig {
        let credential = Credential::V1 {
            user: self.user.clone(),
            key: Secret::new(&*self.password),
        };
        IdentityConfig {
            limits: self.limits,
            ..IdentityConfig::new(&self.auth_url, credential).unwrap()
        }
    }

    pub(crate) fn config(&self, delivery: Delivery) -> SwiftConfig {
        config(self.identity(), delivery)
    }

    pub(crate) fn backend(&self, delivery: Delivery) -> ObjectBackend {
        storage::swift::swift(self.config(delivery)).unwrap()
    }

    /// Past any proxy: what really lies there.
    pub(crate) fn look(&self, swift: &Swift) -> Look {
        let direct = Self {
            auth_url: swift.auth_url(),
            limits: limits(),
            user: self.user.clone(),
            password: self.password.clone(),
        };
        Look(Client::new(Identity::new(direct.identity()).unwrap()))
    }
}

pub(crate) fn config(identity: IdentityConfig, delivery: Delivery) -> SwiftConfig {
    SwiftConfig {
        patience: identity.limits.answer,
        identity,
        container: CONTAINER.to_owned(),
        temp_url_key: None,
        segment_size: 1 << 30,
        delivery,
        relay: embedded(),
        least: None,
    }
}

/// Looks at an account with its owner's eyes.
pub(crate) struct Look(pub(crate) Client);

impl Look {
    pub(crate) async fn ask(&self, method: Method, path: &[&str], query: Option<&str>) -> Response {
        let mut request = self.0.request("object-store", method, path).await.unwrap();
        request.url_mut().set_query(query);
        self.0.send(request).await.unwrap()
    }

    pub(crate) async fn with(&self, method: Method, path: &[&str], headers: &[(&'static str, &str)]) -> StatusCode {
        let mut request = self.0.request("object-store", method, path).await.unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        self.0.send(request).await.unwrap().status()
    }

    /// Names in the container that are really there; a listing shows expired ones for a while.
    pub(crate) async fn objects(&self) -> Vec<String> {
        let listing = self.ask(Method::GET, &[CONTAINER], Some("limit=9999")).await;
        if listing.status() == StatusCode::NOT_FOUND {
            return Vec::new();
        }
        let text = listing.text().await.unwrap();
        let mut there = Vec::new();
        for name in text.lines() {
            let path: Vec<&str> = std::iter::once(CONTAINER).chain(name.split('/')).collect();
            if self.ask(Method::HEAD, &path, None).await.status().is_success() {
                there.push(name.to_owned());
            }
        }
        there
    }

    pub(crate) async fn header(&self, path: &[&str], header: &str) -> Option<String> {
        let answer = self.ask(Method::HEAD, path, None).await;
        answer
            .headers()
            .get(header)
            .map(|value| value.to_str().unwrap().to_owned())
    }
}

/// A BMC: knows a URL and nothing else.
pub(crate) async fn fetch(method: Method, url: &str, range: Option<&str>) -> Response {
    let _ = rustls_provider();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client.request(method, url);
    if let Some(range) = range {
        request = request.header("range", range);
    }
    request.send().await.unwrap()
}

/// reqwest panics without one, and clients of our own install it.
fn rustls_provider() -> Identity {
    Identity::new(IdentityConfig::new("http://127.0.0.1:1", Credential::None).unwrap()).unwrap()
}

/// Reads a served artefact through the embedded backend, in pieces of that size.
pub(crate) async fn read_relayed(relay: &Embedded, name: &ArtefactName, piece: u64) -> Result<Vec<u8>, std::io::Error> {
    use futures_util::TryStreamExt as _;
    let served = relay.lookup(name).await.unwrap().expect("it is served");
    let storage::Content::Remote(remote) = &served.content else {
        panic!("it is made here");
    };
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < served.size() {
        let end = (at + piece).min(served.size());
        let pieces: Vec<Bytes> = remote.read(at..end).await?.try_collect().await?;
        for piece in pieces {
            bytes.extend_from_slice(&piece);
        }
        at = end;
    }
    Ok(bytes)
}
