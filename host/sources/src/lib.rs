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

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use image::{FileSource, Source, SourceFile, SourceRef, SourceSet};
use model::Sha256;
use tokio::time::timeout;

mod address;
mod bring;
mod cache;
mod error;
mod file;
mod flight;
mod http;
pub mod openstack;
mod reference;
mod trust;

pub use error::SourceError;

use cache::{Cache, Hold};
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
    /// Folders that `/path` and `file:` references may name files in, or single files; none by default.
    pub allowed_file_paths: Vec<PathBuf>,
    /// Whether servers on this machine and on its link may be asked.
    pub allow_local_addresses: bool,
    /// PEM file of CAs to trust beside the machine's own.
    pub ca: Option<PathBuf>,
    /// How long an answer of a server is believed without asking again.
    pub revalidate_after: Duration,
    /// One fetch in all.
    pub deadline: Duration,
    /// Longest silence of a server.
    pub stall: Duration,
    /// Content used so recently is not removed, whatever the bounds: its recipe may be on its way to the record.
    pub keep_recent: Duration,
    /// What live recipes name. Called on a thread where it may block.
    pub pins: Pins,
}

impl SourcesConfig {
    /// 20 GiB, 7 days, 16 GiB a source, no files, no local addresses, nothing pinned.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            max_bytes: 20 << 30,
            max_age: Some(Duration::from_secs(7 * 24 * 3600)),
            max_source_bytes: 16 << 30,
            allowed_file_paths: Vec::new(),
            allow_local_addresses: false,
            ca: None,
            revalidate_after: Duration::from_secs(60),
            deadline: Duration::from_secs(3600),
            stall: Duration::from_secs(30),
            keep_recent: Duration::from_secs(600),
            pins: Arc::new(|| Some(HashSet::new())),
        }
    }
}

/// A source that is in the cache. It is not removed while this or a clone of it lives.
#[derive(Clone)]
pub struct Fetched {
    /// Digest of its content.
    pub sha256: Sha256,
    /// Bytes of its content.
    pub len: u64,
    /// What it was fetched by. May hold credentials.
    pub reference: String,
    _hold: Arc<Hold>,
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pruned {
    /// Contents.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
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
    flights: Flights<(String, Option<Sha256>), Result<Fetched, SourceError>>,
}

impl Sources {
    /// Opens or makes the cache, and removes what a crash left half-fetched. Blocks.
    pub fn new(config: SourcesConfig) -> Result<Self, SourceError> {
        let http = Http::new(
            config.allow_local_addresses,
            config.ca.as_deref(),
            config.stall,
            config.max_source_bytes,
        )?;
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
    /// same at the same time share one fetch.
    pub async fn fetch(&self, reference: &str, checksum: Option<Sha256>) -> Result<Fetched, SourceError> {
        let reference = Reference::parse(reference)?;
        let key = (reference.raw.clone(), checksum);
        let inner = Arc::clone(&self.inner);
        let flight = self.inner.flights.join(key, || async move {
            let limit = inner.config.deadline;
            let shown = reference.shown.clone();
            match timeout(limit, inner.bring(reference, checksum)).await {
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

    /// Removes what is past the bounds; each fetch of something new does it too. Blocks.
    pub fn prune(&self) -> Result<Pruned, SourceError> {
        self.inner.prune()
    }
}

impl SourceSet for Sources {
    fn open(&self, sha256: &Sha256) -> io::Result<Arc<dyn Source>> {
        let cache = &self.inner.cache;
        let source = FileSource::open(&cache.object(sha256))?;
        cache.has(sha256);
        Ok(Arc::new(source))
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
mod tests {
    use std::fs::File;

    use tempfile::{NamedTempFile, TempDir, TempPath};
    use url::Url;

    use super::*;
    use crate::cache::Record;
    use crate::file::CopyError;
    use crate::http::FetchError;

    fn sources(folder: &TempDir) -> Sources {
        Sources::new(SourcesConfig {
            allowed_file_paths: vec![folder.path().into()],
            allow_local_addresses: true,
            ..SourcesConfig::new(folder.path().join("cache"))
        })
        .unwrap()
    }

    /// A temporary file on a disk that is full.
    fn full(folder: &TempDir) -> NamedTempFile {
        let file = File::options().read(true).write(true).open("/dev/full").unwrap();
        let path = TempPath::try_from_path(folder.path().join("never-made")).unwrap();
        NamedTempFile::from_parts(file, path)
    }

    #[test]
    fn a_full_disk_is_named_with_the_remedy() {
        let folder = TempDir::new().unwrap();
        let sources = sources(&folder);
        let path = folder.path().join("kernel");
        std::fs::write(&path, "x").unwrap();
        let reference = Reference::parse(path.to_str().unwrap()).unwrap();
        let allowed = file::open(&path, &sources.inner.config.allowed_file_paths).unwrap();
        let Err(CopyError::Cache(error)) = allowed.copy(&mut full(&folder), 10) else {
            panic!("a full disk must be the cache's fault");
        };
        let error = sources.inner.write_error(&reference, error);
        assert!(matches!(error, SourceError::DiskFull { .. }), "{error}");
        assert!(error.to_string().contains("max-bytes"), "{error}");
    }

    #[tokio::test]
    async fn a_disk_that_fills_during_a_download_is_the_caches_fault() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = Url::parse(&format!("http://{}/x", listener.local_addr().unwrap())).unwrap();
        let server = tokio::spawn(async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _read = stream.read(&mut request).await.unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc")
                .await
                .unwrap();
        });
        let folder = TempDir::new().unwrap();
        let sources = sources(&folder);
        let Err(FetchError::Cache(error)) = sources.inner.http.fetch(&url, None, full(&folder)).await else {
            panic!("a full disk must be the cache's fault");
        };
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_file_that_has_not_changed_is_not_hashed_again() {
        let folder = TempDir::new().unwrap();
        let sources = sources(&folder);
        let (path, other) = (folder.path().join("ramdisk"), folder.path().join("other"));
        std::fs::write(&path, "aaaa").unwrap();
        std::fs::write(&other, "bbbb").unwrap();
        // Until a change is sure to show in the file's times.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let name = path.to_str().unwrap();
        let first = sources.fetch(name, None).await.unwrap();
        let planted = sources.fetch(other.to_str().unwrap(), None).await.unwrap();
        // A record that lies about the digest is believed for as long as the file is the same.
        let (record, _) = sources.inner.cache.record(name).unwrap();
        let lie = Record::new(planted.sha256, 4, record.proof);
        sources.inner.cache.note(name, &lie);
        assert_eq!(sources.fetch(name, None).await.unwrap().sha256, planted.sha256);
        std::fs::write(&path, "aaaa").unwrap();
        assert_eq!(sources.fetch(name, None).await.unwrap().sha256, first.sha256);
    }

    #[tokio::test]
    async fn a_damaged_record_or_a_content_of_another_length_is_fetched_again() {
        let folder = TempDir::new().unwrap();
        let sources = sources(&folder);
        let path = folder.path().join("ramdisk");
        std::fs::write(&path, "aaaa").unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let name = path.to_str().unwrap();
        let sha256 = sources.fetch(name, None).await.unwrap().sha256;
        let object = sources.inner.cache.object(&sha256);
        std::fs::remove_file(&object).unwrap();
        std::fs::write(&object, "aa").unwrap();
        assert_eq!(sources.fetch(name, None).await.unwrap().sha256, sha256);
        assert_eq!(std::fs::read(&object).unwrap(), b"aaaa");
        for record in std::fs::read_dir(folder.path().join("cache/references")).unwrap() {
            std::fs::write(record.unwrap().path(), "{\"sha256\":7").unwrap();
        }
        assert_eq!(sources.fetch(name, None).await.unwrap().sha256, sha256);
    }
}
