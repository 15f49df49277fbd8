//! Web clients, and whom they trust: the machine's own CAs, and a CA file that may be replaced at any time.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use reqwest::{Certificate, Client, ClientBuilder, redirect};
use rustls::crypto::{CryptoProvider, ring};

/// Largest CA file: the bundle of all public CAs has a quarter of a megabyte.
const CA_CAP: u64 = 4 << 20;
/// File times move in ticks; a file that is younger is read again next time.
const TICK: Duration = Duration::from_secs(2);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustError {
    #[error("the CA file {} {reason}", path.display())]
    Ca { path: PathBuf, reason: String },
    #[error("the web client cannot be made: {0}")]
    Client(String),
}

/// A client whose CA file is read again when it has changed, so that a renewed CA needs no restart.
pub(crate) struct Trusting {
    ca: Option<PathBuf>,
    build: Box<dyn Fn() -> ClientBuilder + Send + Sync>,
    current: Mutex<Current>,
}

struct Current {
    client: Client,
    pem: Vec<u8>,
    /// Of the file that `pem` was read from; `None`: too young to tell a later change by.
    stamp: Option<Stamp>,
    /// The last complaint about a file that cannot be used; told once.
    complaint: Option<String>,
}

#[derive(PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What every client of this room has in common: no redirects behind our back, no proxies from the environment.
pub(crate) fn builder() -> ClientBuilder {
    // A process without a provider would make the TLS library panic.
    if CryptoProvider::get_default().is_none() {
        // Lost races leave one installed too.
        let _installed = ring::default_provider().install_default();
    }
    Client::builder()
        .http1_only()
        .no_proxy()
        .referer(false)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("farrier/", env!("CARGO_PKG_VERSION")))
}

impl Trusting {
    /// Fails if the CA file cannot be used now.
    pub(crate) fn new(
        ca: Option<&Path>,
        build: impl Fn() -> ClientBuilder + Send + Sync + 'static,
    ) -> Result<Self, TrustError> {
        let (pem, stamp) = match ca {
            Some(path) => read(path)?,
            None => (Vec::new(), None),
        };
        let client = client(ca, &build, &pem)?;
        let current = Current {
            client,
            pem,
            stamp,
            complaint: None,
        };
        Ok(Self {
            ca: ca.map(Path::to_owned),
            build: Box::new(build),
            current: Mutex::new(current),
        })
    }

    /// The client that trusts what the CA file holds now. While that cannot be used (it may be in the middle of being
    /// written), the last one that could.
    pub(crate) fn client(&self) -> Client {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = &self.ca {
            match self.renewed(path, &current) {
                Ok(Some((client, pem, stamp))) => {
                    if let Some(client) = client {
                        tracing::info!(ca = %path.display(), "the CA file has changed and was read again");
                        current.client = client;
                    }
                    (current.pem, current.stamp, current.complaint) = (pem, stamp, None);
                }
                Ok(None) => {}
                Err(error) => {
                    let complaint = error.to_string();
                    if current.complaint.as_ref() != Some(&complaint) {
                        tracing::warn!("{complaint}; what it held before is still trusted");
                        current.complaint = Some(complaint);
                    }
                }
            }
        }
        current.client.clone()
    }

    /// What changed since `current`: nothing, the file's times alone, or what it holds.
    #[expect(clippy::type_complexity, reason = "one use, by its caller above")]
    fn renewed(
        &self,
        path: &Path,
        current: &Current,
    ) -> Result<Option<(Option<Client>, Vec<u8>, Option<Stamp>)>, TrustError> {
        let unchanged = std::fs::metadata(path).is_ok_and(|now| current.stamp == Some(stamp(&now)));
        if unchanged {
            return Ok(None);
        }
        let (pem, stamp) = read(path)?;
        if pem == current.pem {
            return Ok(Some((None, pem, stamp)));
        }
        let client = client(Some(path), &*self.build, &pem)?;
        Ok(Some((Some(client), pem, stamp)))
    }
}

fn read(path: &Path) -> Result<(Vec<u8>, Option<Stamp>), TrustError> {
    let wrong = |reason: String| TrustError::Ca {
        path: path.to_owned(),
        reason,
    };
    let read = || -> io::Result<_> {
        let file = File::open(path)?;
        let before = file.metadata()?;
        let mut pem = Vec::new();
        file.take(CA_CAP + 1).read_to_end(&mut pem)?;
        Ok((pem, before))
    };
    let (pem, before) = read().map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if pem.len() as u64 > CA_CAP {
        return Err(wrong(format!("is bigger than {CA_CAP} bytes: give PEM certificates")));
    }
    let settled = before
        .modified()
        .is_ok_and(|then| SystemTime::now().duration_since(then).is_ok_and(|age| age > TICK));
    Ok((pem, settled.then(|| stamp(&before))))
}

fn client(ca: Option<&Path>, build: &(impl Fn() -> ClientBuilder + ?Sized), pem: &[u8]) -> Result<Client, TrustError> {
    let mut builder = build();
    if let Some(path) = ca {
        let wrong = |reason: &str| TrustError::Ca {
            path: path.to_owned(),
            reason: reason.to_owned(),
        };
        let found = Certificate::from_pem_bundle(pem).map_err(|_| wrong("is not PEM"))?;
        if found.is_empty() {
            return Err(wrong("holds no PEM certificate"));
        }
        builder = builder.tls_certs_merge(found);
    }
    builder.build().map_err(|error| TrustError::Client(chain(&error)))
}

fn stamp(metadata: &std::fs::Metadata) -> Stamp {
    Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        len: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

/// The inner messages of a client's error, each once: outer layers of it repeat the URL with its query, and layers of I/O
/// errors repeat what they wrap.
pub(crate) fn chain(error: &reqwest::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut layer = std::error::Error::source(error);
    while let Some(inner) = layer {
        let text = inner.to_string();
        // The inner one says it in as many words or in more.
        texts.retain(|outer| !text.contains(outer.as_str()));
        if !texts.iter().any(|outer| outer.contains(&text)) {
            texts.push(text);
        }
        layer = inner.source();
    }
    if texts.is_empty() {
        return "the request failed".to_owned();
    }
    texts.join(": ")
}
