//! Reading an image at any place.

use std::io;
use std::sync::Arc;

use model::Sha256;

use crate::layout::{Extent, Layout};
use crate::source::{Source, SourceSet};

/// Why a range of an image could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The range is not inside the image.
    #[error("bytes {offset}+{len} are not inside the image of {size} bytes")]
    OutOfRange {
        /// Where the range starts.
        offset: u64,
        /// How long it is.
        len: u64,
        /// Bytes of the image.
        size: u64,
    },
    /// A source is not there: fetch it again, then retry.
    #[error("source {0} is not in the cache; fetch it again")]
    SourceMissing(Sha256),
    /// A source is shorter than the image needs, so it is not the content that its digest names.
    #[error("source {sha256} has {found} bytes where {needed} are needed; remove it and fetch it again")]
    SourceTruncated {
        /// Which.
        sha256: Sha256,
        /// Bytes that the image needs of it.
        needed: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// The operating system could not read a source.
    #[error("reading source {sha256} failed")]
    SourceIo {
        /// Which.
        sha256: Sha256,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Layout {
    /// Fills `buf` with the bytes from `offset` on. Any range inside the image will do; blocks while sources are read.
    pub fn read_at(&self, sources: &dyn SourceSet, offset: u64, buf: &mut [u8]) -> Result<(), ReadError> {
        let len = buf.len() as u64;
        let end = offset.checked_add(len).filter(|end| *end <= self.size());
        let Some(end) = end else {
            return Err(ReadError::OutOfRange {
                offset,
                len,
                size: self.size(),
            });
        };
        let mut rest = buf;
        for piece in self.pieces(offset..end) {
            let len = usize::try_from(piece.len()).expect("a piece is no longer than the buffer");
            let (part, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            read_extent(sources, &piece, part)?;
        }
        Ok(())
    }
}

/// An image as a source of its own, so that what reads files out of images ([`crate::IsoVolume`], [`crate::FatVolume`]) reads
/// one that was never written.
#[derive(Clone, Copy)]
pub struct LayoutSource<'a> {
    layout: &'a Layout,
    sources: &'a dyn SourceSet,
}

impl<'a> LayoutSource<'a> {
    /// An image and where the bytes of its sources come from.
    pub fn new(layout: &'a Layout, sources: &'a dyn SourceSet) -> Self {
        Self { layout, sources }
    }
}

impl Source for LayoutSource<'_> {
    fn len(&self) -> u64 {
        self.layout.size()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.layout.read_at(self.sources, offset, buf).map_err(|error| {
            let kind = match &error {
                ReadError::OutOfRange { .. } => io::ErrorKind::UnexpectedEof,
                ReadError::SourceMissing(_) => io::ErrorKind::NotFound,
                ReadError::SourceTruncated { .. } => io::ErrorKind::InvalidData,
                ReadError::SourceIo { source, .. } => source.kind(),
            };
            io::Error::new(kind, error)
        })
    }
}

/// Fills `part`, which is as long as the extent.
pub(crate) fn read_extent(sources: &dyn SourceSet, extent: &Extent, part: &mut [u8]) -> Result<(), ReadError> {
    match extent {
        Extent::Literal(bytes) => part.copy_from_slice(bytes),
        Extent::Zero(_) => part.fill(0),
        Extent::Source { sha256, offset, len } => {
            let sha256 = *sha256;
            let source = open(sources, sha256, offset + len)?;
            source
                .read_at(*offset, part)
                .map_err(|source| ReadError::SourceIo { sha256, source })?;
        }
    }
    Ok(())
}

pub(crate) fn open(sources: &dyn SourceSet, sha256: Sha256, needed: u64) -> Result<Arc<dyn Source>, ReadError> {
    let source = sources.open(&sha256).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ReadError::SourceMissing(sha256),
        _ => ReadError::SourceIo { sha256, source },
    })?;
    let found = source.len();
    if found < needed {
        return Err(ReadError::SourceTruncated { sha256, needed, found });
    }
    Ok(source)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::builder::LayoutBuilder;
    use crate::layout::Kind;
    use crate::source::{MemorySource, SourceMap};
    use bytes::Bytes;
    use proptest::prelude::*;

    pub(crate) fn sha(byte: u8) -> Sha256 {
        Sha256([byte; 32])
    }

    pub(crate) fn pattern(seed: u8, len: usize) -> Bytes {
        (0..=250u8).map(|i| seed.wrapping_add(i)).cycle().take(len).collect()
    }

    pub(crate) fn sources() -> SourceMap {
        let mut map = SourceMap::default();
        for seed in 0..3 {
            map.insert(sha(seed), Arc::new(MemorySource(pattern(seed, 5000))));
        }
        map
    }

    pub(crate) fn extent() -> impl Strategy<Value = Extent> {
        prop_oneof![
            (any::<u8>(), 0..400usize).prop_map(|(seed, len)| Extent::Literal(pattern(seed, len))),
            (0..3u8, 0..2500u64, 0..2500u64).prop_map(|(seed, offset, len)| Extent::Source {
                sha256: sha(seed),
                offset,
                len
            }),
            (0..3000u64).prop_map(Extent::Zero),
        ]
    }

    pub(crate) fn expected(extents: &[Extent]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for extent in extents {
            match extent {
                Extent::Literal(literal) => bytes.extend_from_slice(literal),
                Extent::Zero(len) => bytes.resize(bytes.len() + usize::try_from(*len).unwrap(), 0),
                Extent::Source { sha256, offset, len } => {
                    let start = usize::try_from(*offset).unwrap();
                    let len = usize::try_from(*len).unwrap();
                    bytes.extend_from_slice(&pattern(sha256.0[0], 5000)[start..start + len]);
                }
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn any_partition_into_ranges_concatenates_to_the_whole(
            extents in prop::collection::vec(extent(), 0..20),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let whole = expected(&extents);
            let mut builder = LayoutBuilder::new(Kind::Other);
            extents.iter().cloned().for_each(|extent| builder.extent(extent));
            for layout in [builder.finish().unwrap(), Layout::from_extents(Kind::Other, extents).unwrap()] {
                prop_assert_eq!(layout.size(), whole.len() as u64);
                let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
                cuts.extend([0, whole.len()]);
                cuts.sort_unstable();
                let mut read = Vec::new();
                for range in cuts.windows(2) {
                    let mut part = vec![0xEE; range[1] - range[0]];
                    layout.read_at(&sources(), range[0] as u64, &mut part).unwrap();
                    read.extend(part);
                }
                prop_assert!(read == whole);
            }
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let mut builder = LayoutBuilder::new(Kind::Other);
        builder.source(sha(1), 0, 6000);
        builder.source(sha(9), 0, 10);
        let layout = builder.finish().unwrap();
        let read = |offset, len| layout.read_at(&sources(), offset, &mut vec![0; len]);
        assert!(matches!(
            read(0, 5999),
            Err(ReadError::SourceTruncated {
                needed: 5999,
                found: 5000,
                ..
            })
        ));
        assert!(matches!(read(6000, 1), Err(ReadError::SourceMissing(missing)) if missing == sha(9)));
        assert!(matches!(
            read(6010, 1),
            Err(ReadError::OutOfRange {
                offset: 6010,
                len: 1,
                size: 6010
            })
        ));
        assert!(matches!(read(u64::MAX, 1), Err(ReadError::OutOfRange { .. })));
        assert!(read(6010, 0).is_ok());
    }
}
