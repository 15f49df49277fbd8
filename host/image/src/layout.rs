//! What an image is made of: extents, total size, identity. Reading one is in `read.rs`.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use model::{Digest, Sha256};
use sha2::Digest as _;

/// Largest image, in bytes: far past any medium, so that sums of lengths never overflow.
pub(crate) const MAX_SIZE: u64 = 1 << 50;

/// One piece of an image.
#[derive(Clone, PartialEq, Eq)]
pub enum Extent {
    /// These bytes. They may hold secrets (a floppy's token), so `Debug` shows only how many they are.
    Literal(Bytes),
    /// A range of a source.
    Source {
        /// Which source.
        sha256: Sha256,
        /// Where the range starts in it.
        offset: u64,
        /// How long the range is.
        len: u64,
    },
    /// This many zero bytes.
    Zero(u64),
}

impl Extent {
    /// Bytes that it covers.
    pub fn len(&self) -> u64 {
        match self {
            Self::Literal(bytes) => bytes.len() as u64,
            Self::Source { len, .. } | Self::Zero(len) => *len,
        }
    }

    /// Whether it covers nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(bytes) => write!(f, "Literal({} bytes)", bytes.len()),
            Self::Source { sha256, offset, len } => write!(f, "Source({sha256} {offset}+{len})"),
            Self::Zero(len) => write!(f, "Zero({len})"),
        }
    }
}

/// What an image is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Parameters floppy.
    Floppy,
    /// EFI system partition.
    Esp,
    /// Any other FAT volume.
    Fat,
    /// Boot ISO.
    BootIso,
    /// Any other ISO (a config drive).
    Iso,
    /// Bytes that were put together elsewhere.
    Other,
}

/// Why a list of extents is no image.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// The extents add up to more than an image can have.
    #[error("the image would be larger than {MAX_SIZE} bytes")]
    TooLarge,
    /// A range of a source ends past what a length can say.
    #[error("a range of source {0} ends past {MAX_SIZE} bytes")]
    SourceRange(Sha256),
}

/// An image as a list of extents, with its size and its identity. Immutable and cheap to read at any place.
#[derive(Clone, PartialEq, Eq)]
pub struct Layout {
    kind: Kind,
    extents: Vec<Extent>,
    /// Where each extent starts; as long as `extents`.
    starts: Vec<u64>,
    size: u64,
    digest: Digest,
}

impl Layout {
    /// Takes extents as they are (empty ones are dropped, nothing is merged), so that a recorded list keeps its identity.
    pub fn from_extents(kind: Kind, mut extents: Vec<Extent>) -> Result<Self, LayoutError> {
        extents.retain(|extent| !extent.is_empty());
        let mut starts = Vec::with_capacity(extents.len());
        let mut size = 0u64;
        for extent in &extents {
            if let Extent::Source { sha256, offset, len } = extent
                && offset.checked_add(*len).is_none_or(|end| end > MAX_SIZE)
            {
                return Err(LayoutError::SourceRange(*sha256));
            }
            starts.push(size);
            size = size
                .checked_add(extent.len())
                .filter(|size| *size <= MAX_SIZE)
                .ok_or(LayoutError::TooLarge)?;
        }
        let digest = digest(&extents, size);
        Ok(Self {
            kind,
            extents,
            starts,
            size,
            digest,
        })
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes of the image.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Identity of the image: SHA-256 over the text `farrier layout 1` and a zero byte, the size, and for each extent
    ///
    /// * literal: byte 1, length, SHA-256 of the bytes
    /// * source: byte 2, length, offset in the source, SHA-256 of the **whole** source
    /// * zeros: byte 3, length
    ///
    /// with every number as 8 bytes, little-endian. No source is read and no zero is hashed, so it costs what the literals
    /// cost. Equal identities mean equal bytes; the same bytes cut into other extents have another identity.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The pieces, in order; none is empty.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The pieces that cover `range`, each clipped to it, for a sender that has a faster way than [`Layout::read_at`]
    /// (sendfile, say). What lies past the end of the image is left out.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Extent> + '_ {
        let end = range.end.min(self.size);
        let start = range.start.min(end);
        let first = self.index_at(start);
        self.extents
            .iter()
            .zip(&self.starts)
            .skip(first)
            .take_while(move |(_, at)| **at < end)
            .map(move |(extent, at)| {
                let skip = start.saturating_sub(*at);
                let len = (end - at).min(extent.len()) - skip;
                clip(extent, skip, len)
            })
            .filter(|extent| !extent.is_empty())
    }

    /// Index of the extent that holds the byte at `offset`; the number of extents if none does.
    fn index_at(&self, offset: u64) -> usize {
        if offset >= self.size {
            return self.extents.len();
        }
        self.starts.partition_point(|start| *start <= offset) - 1
    }

    /// The sources that it reads, each once, in the order of first use.
    pub fn sources(&self) -> Vec<Sha256> {
        let mut seen = std::collections::BTreeSet::new();
        self.extents
            .iter()
            .filter_map(|extent| match extent {
                Extent::Source { sha256, .. } => Some(*sha256),
                _ => None,
            })
            .filter(|sha256| seen.insert(*sha256))
            .collect()
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Layout({:?}, {} bytes, {} extents, {})",
            self.kind,
            self.size,
            self.extents.len(),
            self.digest
        )
    }
}

/// `len` bytes of `extent`, `skip` bytes into it; both are known to fit.
pub(crate) fn clip(extent: &Extent, skip: u64, len: u64) -> Extent {
    match extent {
        Extent::Literal(bytes) => {
            let start = usize::try_from(skip).expect("a literal's length is a usize");
            let len = usize::try_from(len).expect("a literal's length is a usize");
            Extent::Literal(bytes.slice(start..start + len))
        }
        Extent::Source { sha256, offset, .. } => Extent::Source {
            sha256: *sha256,
            offset: offset + skip,
            len,
        },
        Extent::Zero(_) => Extent::Zero(len),
    }
}

fn digest(extents: &[Extent], size: u64) -> Digest {
    let mut hash = sha2::Sha256::new();
    hash.update(b"farrier layout 1\0");
    hash.update(size.to_le_bytes());
    for extent in extents {
        match extent {
            Extent::Literal(bytes) => {
                hash.update([1]);
                hash.update(extent.len().to_le_bytes());
                hash.update(sha2::Sha256::digest(bytes));
            }
            Extent::Source { sha256, offset, len } => {
                hash.update([2]);
                hash.update(len.to_le_bytes());
                hash.update(offset.to_le_bytes());
                hash.update(sha256.0);
            }
            Extent::Zero(len) => {
                hash.update([3]);
                hash.update(len.to_le_bytes());
            }
        }
    }
    Digest(Sha256(hash.finalize().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(byte: u8) -> Sha256 {
        Sha256([byte; 32])
    }

    #[test]
    fn every_part_of_an_extent_counts_in_the_identity() {
        let layouts = [
            vec![Extent::Zero(5)],
            vec![Extent::Zero(6)],
            vec![Extent::Literal(Bytes::from_static(b"abcde"))],
            vec![Extent::Literal(Bytes::from_static(b"abcdf"))],
            vec![Extent::Source {
                sha256: sha(1),
                offset: 0,
                len: 5,
            }],
            vec![Extent::Source {
                sha256: sha(1),
                offset: 1,
                len: 5,
            }],
            vec![Extent::Source {
                sha256: sha(1),
                offset: 0,
                len: 6,
            }],
            vec![Extent::Source {
                sha256: sha(2),
                offset: 0,
                len: 5,
            }],
            vec![],
        ];
        let digests: std::collections::BTreeSet<_> = layouts
            .iter()
            .map(|extents| Layout::from_extents(Kind::Other, extents.clone()).unwrap().digest())
            .collect();
        assert_eq!(digests.len(), layouts.len());
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let huge = |offset, len| Extent::Source {
            sha256: sha(1),
            offset,
            len,
        };
        let check = |extents| Layout::from_extents(Kind::Other, extents).map(|_| ());
        assert_eq!(check(vec![huge(u64::MAX, 2)]), Err(LayoutError::SourceRange(sha(1))));
        assert_eq!(
            check(vec![Extent::Zero(u64::MAX), Extent::Zero(2)]),
            Err(LayoutError::TooLarge)
        );
        assert_eq!(
            check(vec![Extent::Zero(MAX_SIZE), Extent::Zero(1)]),
            Err(LayoutError::TooLarge)
        );
        assert_eq!(check(vec![Extent::Zero(MAX_SIZE)]), Ok(()));
    }

    #[test]
    fn debug_never_shows_literal_bytes() {
        let layout = Layout::from_extents(Kind::Floppy, vec![Extent::Literal(Bytes::from_static(b"hunter2"))]).unwrap();
        let text = format!("{layout:?} {:?}", layout.extents());
        assert!(!text.contains("hunter2") && !text.contains("104"), "{text}");
    }

    #[test]
    fn pieces_are_clipped_to_the_range_and_to_the_image() {
        let layout = Layout::from_extents(
            Kind::Other,
            vec![
                Extent::Literal(Bytes::from_static(b"abcd")),
                Extent::Zero(4),
                Extent::Source {
                    sha256: sha(1),
                    offset: 100,
                    len: 8,
                },
            ],
        )
        .unwrap();
        let pieces: Vec<_> = layout.pieces(2..10).collect();
        assert_eq!(
            pieces,
            [
                Extent::Literal(Bytes::from_static(b"cd")),
                Extent::Zero(4),
                Extent::Source {
                    sha256: sha(1),
                    offset: 100,
                    len: 2
                },
            ]
        );
        let past: Vec<_> = layout.pieces(14..99).collect();
        assert_eq!(
            past,
            [Extent::Source {
                sha256: sha(1),
                offset: 106,
                len: 2
            }]
        );
        assert_eq!(layout.pieces(16..20).count(), 0);
        assert_eq!(layout.pieces(u64::MAX..u64::MAX).count(), 0);
    }
}
