//! What a file inside an image holds.

use std::fmt;

use bytes::Bytes;
use model::Sha256;
use sha2::Digest as _;

use crate::builder::LayoutBuilder;
use crate::layout::Layout;

/// A whole source, by digest and length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceFile {
    /// SHA-256 of its bytes.
    pub sha256: Sha256,
    /// Its bytes.
    pub len: u64,
}

/// What a file holds. A source stays a reference: the image reads it when it is read, and a recipe stays small.
#[derive(Clone)]
pub enum Content {
    /// These bytes; `Debug` shows only how many they are.
    Literal(Bytes),
    /// A whole source.
    Source(SourceFile),
    /// Another image, extent by extent (an ESP inside a boot ISO).
    Layout(Layout),
}

impl Content {
    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        match self {
            Self::Literal(bytes) => bytes.len() as u64,
            Self::Source(source) => source.len,
            Self::Layout(layout) => layout.size(),
        }
    }

    /// Whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn append_to(&self, builder: &mut LayoutBuilder) {
        match self {
            Self::Literal(bytes) => builder.literal(bytes.clone()),
            Self::Source(source) => builder.source(source.sha256, 0, source.len),
            Self::Layout(layout) => layout
                .extents()
                .iter()
                .cloned()
                .for_each(|extent| builder.extent(extent)),
        }
    }

    /// Adds what makes this content differ from others to a hash, without reading a source.
    pub(crate) fn add_to_hash(&self, hash: &mut sha2::Sha256) {
        hash.update(self.len().to_le_bytes());
        match self {
            Self::Literal(bytes) => hash.update(sha2::Sha256::digest(bytes)),
            Self::Source(source) => hash.update(source.sha256.0),
            Self::Layout(layout) => hash.update(layout.digest().0.0),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(bytes) => write!(f, "Literal({} bytes)", bytes.len()),
            Self::Source(source) => source.fmt(f),
            Self::Layout(layout) => layout.fmt(f),
        }
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self::Literal(bytes)
    }
}

impl From<SourceFile> for Content {
    fn from(source: SourceFile) -> Self {
        Self::Source(source)
    }
}

impl From<Layout> for Content {
    fn from(layout: Layout) -> Self {
        Self::Layout(layout)
    }
}

/// A boot loader whose bytes have to be known now, since a part of it is patched.
#[derive(Clone)]
pub struct BootFile {
    /// All of it.
    pub bytes: Bytes,
    /// Its digest, if it is also a source: then the image refers to the source for all but the patched part.
    pub kept_as: Option<Sha256>,
}

impl From<Bytes> for BootFile {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, kept_as: None }
    }
}

impl fmt::Debug for BootFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BootFile({} bytes, {:?})", self.bytes.len(), self.kept_as)
    }
}
