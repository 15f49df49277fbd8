//! Kernels, ramdisks, boot-loader files and disk images by reference: fetched once, kept by their SHA-256.
//!
//! ```no_run
//! use sources::{Sources, SourcesConfig};
//!
//! # async fn example() -> Result<(), sources::SourceError> {
//! let sources = Sources::new(SourcesConfig {
//!     allowed_file_paths: vec!["/var/lib/farrier/images".into()],
//!     ..SourcesConfig::new("/var/lib/farrier/sources")
//! })?;
//! let kernel = sources.fetch("/var/lib/farrier/images/ipa.kernel", None).await?;
//! let ramdisk = sources.fetch("https://images.example/ipa.initramfs", None).await?;
//! println!("{} bytes of {}", ramdisk.len, ramdisk.sha256);
//! # Ok(())
//! # }
//! ```
//!
//! A cached file never changes: images are read from it for as long as a server may boot. What a live recipe names is
//! pinned; the rest is bounded by size and age. Not here: what a node boots, and how images are laid out.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use image::{FileSource, Source, SourceFile, SourceRef, SourceSet};
use model::{Secret, Sha256};
use tokio::time::timeout;

mod address;
mod bring;
mod cache;
mod checksum;
mod disk;
mod error;
mod file;
mod flight;
mod http;
mod images;
pub mod openstack;
mod reference;
mod trust;

pub use checksum::{Checksum, ChecksumError, GivenChecksum};
pub use disk::{Compression, Disk, DiskFormat, HEAD, ImageError, TAIL, inspect};
pub use error::SourceError;
pub use http::Login;
pub use images::{DiskImage, Look};

use cache::{Cache, Hold, PruneRule};
use flight::Flights;
use http::Http;
use reference::Reference;

/// What live recipes name; `None` if that cannot be told now, and then nothing is removed.
pub type Pins = Arc<dyn Fn() -> Option<HashSet<Sha256>> + Send + Sync>;

/// Where sources are kept, and what may be fetched.
#[derive(Clone)]
pub struct SourcesConfig {
    /// Folder of the cache; made if absent. Several processes may share it.
    pub dir: PathBuf,
    /// Most that unpinned content may take.
    pub max_bytes: u64,
    /// Unpinned content that was not used for so long is removed.
    pub max_age: Option<Duration>,
    /// Biggest single source.
    pub max_source_bytes: u64,
    /// Most that may come out of a compressed one.
    pub max_unpacked_bytes: u64,
    /// Folders that `/path` and `file:` references may name files in, or single files; none by default.
    pub allowed_file_paths: Vec<PathBuf>,
    /// Whether servers on this machine and on its link may be asked.
    pub allow_local_addresses: bool,
    /// Servers of this machine or its link that may be asked all the same, where a URL names them by address and port: the
    /// site's own web servers.
    pub allowed_local: Vec<SocketAddr>,
    /// PEM file of CAs to trust beside the machine's own; read again when it changes.
    pub ca: Option<PathBuf>,
    /// What web servers are logged in to with, beside what stands in a reference itself.
    pub logins: Vec<Login>,
    /// Web servers are asked through this proxy (a URL, which may hold credentials). Those in the environment are ignored.
    pub proxy: Option<Secret>,
    /// For references to Glance.
    pub glance: Option<openstack::Client>,
    /// For references to Swift.
    pub swift: Option<openstack::Client>,
    /// Where `swift:OBJECT` is looked for.
    pub swift_container: String,
    /// How long an answer of a server is believed without asking again.
    pub revalidate_after: Duration,
    /// One fetch in all.
    pub deadline: Duration,
    /// Longest silence of a server, and the span over which its speed is measured.
    pub stall: Duration,
    /// Slowest server that is waited for, in bytes a second.
    pub slowest: u64,
    /// Content used so recently is not removed, whatever the bounds: its recipe may be on its way to the record.
    pub keep_recent: Duration,
    /// What live recipes name. Called on a thread where it may block.
    pub pins: Pins,
}

impl SourcesConfig {
    /// 20 GiB, 7 days, 16 GiB a source and 64 GiB unpacked, 1 KiB a second, no files, no local addresses, no OpenStack,
    /// nothing pinned.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            max_bytes: 20 << 30,
            max_age: Some(Duration::from_secs(7 * 24 * 3600)),
            max_source_bytes: 16 << 30,
            max_unpacked_bytes: 64 << 30,
            allowed_file_paths: Vec::new(),
            allow_local_addresses: false,
            allowed_local: Vec::new(),
            ca: None,
            logins: Vec::new(),
            proxy: None,
            glance: None,
            swift: None,
            swift_container: "ironic_ilo_container".to_owned(),
            revalidate_after: Duration::from_secs(60),
            deadline: Duration::from_secs(3600),
            stall: Duration::from_secs(30),
            slowest: 1024,
            keep_recent: Duration::from_secs(600),
            pins: Arc::new(|| Some(HashSet::new())),
        }
    }
}

/// A source that is in the cache. It is not removed, by this or another process, while this or a clone of it lives.
#[derive(Clone)]
pub struct Fetched {
    /// Digest of its content.
    pub sha256: Sha256,
    /// Bytes of its content.
    pub len: u64,
    /// What it was fetched by. May hold credentials.
    pub reference: String,
    hold: Arc<Hold>,
}

impl Fetched {
    /// As `image` names it inside an image.
    pub fn file(&self) -> SourceFile {
        SourceFile {
            sha256: self.sha256,
            len: self.len,
        }
    }

    /// As a recipe remembers it.
    pub fn origin(&self) -> SourceRef {
        SourceRef {
            reference: self.reference.clone(),
        }
    }
}

impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched")
            .field("sha256", &self.sha256)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// One content of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its digest.
    pub sha256: Sha256,
    /// Its length.
    pub len: u64,
    /// When it was last used, to the minute.
    pub used: SystemTime,
}

/// What pruning removed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    /// Contents.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Which, in the order in which they went.
    pub removed: Vec<Entry>,
}

/// Which contents go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// What is past the bounds.
    Bounds,
    /// All that is not pinned, in use, or used in the last minutes ([`SourcesConfig::keep_recent`]).
    All,
}

/// The sources of this machine's images. Clones share one cache.
#[derive(Clone)]
pub struct Sources {
    inner: Arc<Inner>,
}

struct Inner {
    cache: Cache,
    http: Http,
    config: SourcesConfig,
    /// Fetches under way, by reference and checksum.
    flights: Flights<(String, Vec<Checksum>), Result<Fetched, SourceError>>,
}

impl Sources {
    /// Opens or makes the cache, and removes what a crash left half-fetched. Blocks.
    pub fn new(config: SourcesConfig) -> Result<Self, SourceError> {
        let http = Http::new(&config)?;
        let cache = Cache::open(&config.dir)?;
        let inner = Inner {
            cache,
            http,
            config,
            flights: Flights::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes sure that what `reference` names is in the cache. With a checksum, content that is there already is taken
    /// without asking anybody; without one, the file or the server is asked whether it has changed. Callers that ask for the
    /// same at the same time share one fetch, in this process and among all that share the folder.
    pub async fn fetch(&self, reference: &str, checksum: Option<Sha256>) -> Result<Fetched, SourceError> {
        let checksums: Vec<Checksum> = checksum.map(Checksum::from).into_iter().collect();
        self.fetch_checked(reference, &checksums).await
    }

    /// As [`Sources::fetch`], with any number of checksums, all of which it must have.
    pub async fn fetch_checked(&self, reference: &str, checksums: &[Checksum]) -> Result<Fetched, SourceError> {
        let reference = Reference::parse(reference)?;
        let checksums = checksums.to_vec();
        let key = (reference.raw.expose().to_owned(), checksums.clone());
        let inner = Arc::clone(&self.inner);
        let flight = self.inner.flights.join(key, || async move {
            let limit = inner.config.deadline;
            let shown = reference.shown.clone();
            match timeout(limit, inner.bring(reference, checksums)).await {
                Ok(result) => result,
                Err(_) => Err(SourceError::Timeout {
                    reference: shown,
                    after: limit,
                    what: "it is too slow for the deadline",
                }),
            }
        });
        flight.await
    }

    /// Everything in the cache, least recently used first. Blocks.
    pub fn entries(&self) -> Result<Vec<Entry>, SourceError> {
        self.inner.cache.entries()
    }

    /// By what each content was fetched, without credentials and queries. Blocks.
    pub fn origins(&self) -> HashMap<Sha256, Vec<String>> {
        self.inner.cache.origins()
    }

    /// Reads content to its end: whether it is still what it was when it was fetched. Does not count as a use. Blocks.
    pub fn verify(&self, sha256: &Sha256) -> Result<bool, SourceError> {
        let cache = &self.inner.cache;
        let verified = cache.verify(sha256);
        verified.map_err(|error| cache::cache_error("read", &cache.object(sha256), error))
    }

    /// Removes content unless it is in use, pinned or not: for what [`Sources::verify`] finds damaged. Blocks.
    pub fn remove(&self, sha256: &Sha256) -> Result<bool, SourceError> {
        self.inner.cache.remove(sha256, false)
    }

    /// Removes what is past the bounds; each fetch of something new does it too. Blocks.
    pub fn prune(&self) -> Result<Pruned, SourceError> {
        self.inner.prune(false)
    }

    /// Removes what is asked for, or says what would go. `None` if it cannot be told now what is pinned. Blocks.
    pub fn prune_to(&self, extent: Extent, dry_run: bool) -> Result<Option<Pruned>, SourceError> {
        let Some(pins) = (self.inner.config.pins)() else {
            return Ok(None);
        };
        let mut rule = self.inner.rule(dry_run);
        if extent == Extent::All {
            rule.max_bytes = 0;
        }
        self.inner.cache.prune(&pins, &rule).map(Some)
    }
}

impl Inner {
    fn rule(&self, dry_run: bool) -> PruneRule {
        PruneRule {
            max_bytes: self.config.max_bytes,
            max_age: self.config.max_age,
            keep_recent: self.config.keep_recent,
            at_least: 0,
            dry_run,
        }
    }

    fn prune(&self, dry_run: bool) -> Result<Pruned, SourceError> {
        let Some(pins) = (self.config.pins)() else {
            return Ok(Pruned::default());
        };
        self.cache.prune(&pins, &self.rule(dry_run))
    }

    /// Removes so many bytes, whatever the bounds, if so many may go.
    fn prune_for(&self, at_least: u64) -> Result<Pruned, SourceError> {
        let Some(pins) = (self.config.pins)() else {
            return Ok(Pruned::default());
        };
        let mut rule = self.rule(false);
        rule.at_least = at_least;
        self.cache.prune(&pins, &rule)
    }
}

impl SourceSet for Sources {
    fn open(&self, sha256: &Sha256) -> io::Result<Arc<dyn Source>> {
        // Locked for as long as it is open, so that it stays.
        let hold = self.inner.cache.hold(sha256)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(FileSource::new(hold.file)?))
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("dir", &self.inner.cache.dir)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
