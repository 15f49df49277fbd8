//! Where the bytes of source extents come from. A cache implements [`SourceSet`]; this room only reads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use model::Sha256;

/// Content that can be read at any place, by many threads at once, and that never changes.
pub trait Source: Send + Sync {
    /// Bytes that it has.
    fn len(&self) -> u64;

    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` from `offset` on, or fails (`UnexpectedEof` past the end). Blocks.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// The file whose first [`Source::len`] bytes are the content, if there is one: it is reflinked or copied inside the
    /// kernel.
    fn file(&self) -> Option<&File> {
        None
    }
}

/// Content by its SHA-256.
pub trait SourceSet: Send + Sync {
    /// Opens one. `NotFound` means that it has to be fetched first; any other error that reading failed.
    fn open(&self, sha256: &Sha256) -> io::Result<Arc<dyn Source>>;
}

/// A file that nobody writes any more.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    len: u64,
}

impl FileSource {
    /// Opens the file at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(File::open(path)?)
    }

    /// Takes an open file; its length now is the length of the source.
    pub fn new(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }
}

/// Bytes in memory.
#[derive(Clone)]
pub struct MemorySource(pub Bytes);

impl Source for MemorySource {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.0.get(start..start.checked_add(buf.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}

/// The set of a layout that has no sources.
#[derive(Clone, Copy, Debug)]
pub struct NoSources;

impl SourceSet for NoSources {
    fn open(&self, _: &Sha256) -> io::Result<Arc<dyn Source>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A set that is filled by hand.
#[derive(Clone, Default)]
pub struct SourceMap(BTreeMap<Sha256, Arc<dyn Source>>);

impl SourceMap {
    /// Adds one; whoever adds it vouches for the digest.
    pub fn insert(&mut self, sha256: Sha256, source: Arc<dyn Source>) {
        self.0.insert(sha256, source);
    }
}

impl SourceSet for SourceMap {
    fn open(&self, sha256: &Sha256) -> io::Result<Arc<dyn Source>> {
        let source = self.0.get(sha256).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::clone(source))
    }
}
