//! An image whose ranges are replaced one by one: what stays is still a reference to where it came from.

use std::collections::BTreeMap;
use std::io;

use crate::builder::LayoutBuilder;
use crate::content::Content;
use crate::layout::{Extent, Kind, Layout, LayoutError, clip};
use crate::read::read_extent;
use crate::source::{Source, SourceSet};

/// Extents by where they start; they follow each other without a gap.
#[derive(Clone, Debug)]
pub(crate) struct Splice {
    extents: BTreeMap<u64, Extent>,
    size: u64,
}

impl Splice {
    pub(crate) fn new(layout: &Layout) -> Self {
        let mut size = 0;
        let extents = layout.extents().iter().map(|extent| {
            let at = size;
            size += extent.len();
            (at, extent.clone())
        });
        let extents = extents.collect();
        Self { extents, size }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Puts bytes in the place of those from `at` on. Past the end the image grows, over zeros if there is a gap.
    pub(crate) fn write(&mut self, at: u64, content: &Content) {
        if content.is_empty() {
            return;
        }
        if at > self.size {
            let gap = at - self.size;
            self.push(Extent::Zero(gap));
        }
        let end = at.saturating_add(content.len());
        self.cut(at);
        self.cut(end);
        let replaced: Vec<u64> = self.extents.range(at..end).map(|(start, _)| *start).collect();
        for start in replaced {
            self.extents.remove(&start);
        }
        let mut here = at;
        let mut insert = |extent: Extent| {
            let len = extent.len();
            self.extents.insert(here, extent);
            here += len;
        };
        match content {
            Content::Literal(bytes) => insert(Extent::Literal(bytes.clone())),
            Content::Source(source) => insert(Extent::Source {
                sha256: source.sha256,
                offset: 0,
                len: source.len,
            }),
            Content::Layout(layout) => layout.extents().iter().cloned().for_each(insert),
        }
        self.size = self.size.max(end);
    }

    /// Puts zeros in the place of what is there.
    pub(crate) fn zero(&mut self, at: u64, len: u64) {
        let zeros = Layout::from_extents(Kind::Other, vec![Extent::Zero(len)]);
        // A length past what an image can have is refused when the whole is put together.
        if let Ok(zeros) = zeros {
            self.write(at, &Content::Layout(zeros));
        }
    }

    /// The image as it is now.
    pub(crate) fn layout(&self, kind: Kind) -> Result<Layout, LayoutError> {
        let mut out = LayoutBuilder::new(kind);
        for extent in self.extents.values() {
            out.extent(extent.clone());
        }
        out.finish()
    }

    /// The image as it is now, to be read.
    pub(crate) fn source<'a>(&'a self, sources: &'a dyn SourceSet) -> SpliceSource<'a> {
        SpliceSource { splice: self, sources }
    }

    fn push(&mut self, extent: Extent) {
        let at = self.size;
        self.size += extent.len();
        self.extents.insert(at, extent);
    }

    /// Makes an extent start at `at`, if `at` is inside the image.
    fn cut(&mut self, at: u64) {
        let Some((start, extent)) = self.extents.range(..at).next_back() else {
            return;
        };
        let (start, skip, len) = (*start, at - start, extent.len());
        if skip >= len {
            return;
        }
        let (head, tail) = (clip(extent, 0, skip), clip(extent, skip, len - skip));
        self.extents.insert(start, head);
        self.extents.insert(at, tail);
    }
}

/// A splice and where the bytes of its sources come from.
#[derive(Clone, Copy)]
pub(crate) struct SpliceSource<'a> {
    splice: &'a Splice,
    sources: &'a dyn SourceSet,
}

impl Source for SpliceSource<'_> {
    fn len(&self) -> u64 {
        self.splice.size
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset
            .checked_add(buf.len() as u64)
            .filter(|end| *end <= self.splice.size);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if buf.is_empty() {
            return Ok(());
        }
        let first = self
            .splice
            .extents
            .range(..=offset)
            .next_back()
            .map_or(0, |(start, _)| *start);
        let mut rest = buf;
        for (start, extent) in self.splice.extents.range(first..end) {
            let skip = offset.saturating_sub(*start);
            let len = (end - start).min(extent.len()) - skip;
            let len_here = usize::try_from(len).expect("no longer than the buffer");
            let (part, after) = std::mem::take(&mut rest).split_at_mut(len_here);
            rest = after;
            read_extent(self.sources, &clip(extent, skip, len), part).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::SourceFile;
    use crate::read::LayoutSource;
    use crate::read::tests::{expected, extent, pattern, sha, sources};
    use proptest::prelude::*;

    fn content() -> impl Strategy<Value = Content> {
        prop_oneof![
            (any::<u8>(), 0..900usize).prop_map(|(seed, len)| pattern(seed, len).into()),
            (0..3u8).prop_map(|seed| SourceFile {
                sha256: sha(seed),
                len: 5000
            }
            .into()),
            (prop::collection::vec(extent(), 0..4), 1..400u64).prop_map(|(mut extents, zeros)| {
                extents.push(Extent::Zero(zeros));
                Layout::from_extents(Kind::Other, extents).unwrap().into()
            }),
        ]
    }

    fn whole(source: &dyn Source) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(source.len()).unwrap()];
        source.read_at(0, &mut bytes).unwrap();
        bytes
    }

    proptest! {
        #[test]
        fn a_patched_image_reads_as_a_file_patched_by_hand(
            extents in prop::collection::vec(extent(), 0..8),
            writes in prop::collection::vec((0..12_000u64, content()), 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut by_hand = expected(&extents);
            let base = Layout::from_extents(Kind::Other, extents).unwrap();
            let mut splice = Splice::new(&base);
            for (at, content) in writes {
                let layout = {
                    let mut out = LayoutBuilder::new(Kind::Other);
                    content.append_to(&mut out);
                    out.finish().unwrap()
                };
                let bytes = expected(layout.extents());
                splice.write(at, &content);
                let at = usize::try_from(at).unwrap();
                if !bytes.is_empty() {
                    by_hand.resize(by_hand.len().max(at + bytes.len()), 0);
                    by_hand[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            let sources = sources();
            prop_assert!(whole(&splice.source(&sources)) == by_hand);
            let layout = splice.layout(Kind::Other).unwrap();
            prop_assert!(whole(&LayoutSource::new(&layout, &sources)) == by_hand);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(by_hand.len() + 1)).collect();
            cuts.extend([0, by_hand.len()]);
            cuts.sort_unstable();
            let mut read = Vec::new();
            for range in cuts.windows(2) {
                let mut part = vec![0xEE; range[1] - range[0]];
                splice.source(&sources).read_at(range[0] as u64, &mut part).unwrap();
                read.extend(part);
            }
            prop_assert!(read == by_hand);
            prop_assert!(splice.source(&sources).read_at(splice.size(), &mut [0]).is_err());
        }
    }

    #[test]
    fn what_is_not_replaced_stays_a_reference() {
        let base = Layout::from_extents(
            Kind::Other,
            vec![Extent::Source {
                sha256: sha(1),
                offset: 0,
                len: 5000,
            }],
        );
        let mut splice = Splice::new(&base.unwrap());
        splice.write(2000, &pattern(1, 10).into());
        splice.write(2004, &pattern(9, 3).into());
        let layout = splice.layout(Kind::Other).unwrap();
        let source = |offset, len| Extent::Source {
            sha256: sha(1),
            offset,
            len,
        };
        let mut literal = pattern(1, 10).to_vec();
        literal[4..7].copy_from_slice(&pattern(9, 3));
        assert_eq!(
            layout.extents(),
            [source(0, 2000), Extent::Literal(literal.into()), source(2010, 2990)]
        );
        // Restoring what was there gives the image that was there.
        splice.write(
            2000,
            &Content::Layout(Layout::from_extents(Kind::Other, vec![source(2000, 10)]).unwrap()),
        );
        assert_eq!(splice.layout(Kind::Other).unwrap().extents(), [source(0, 5000)]);
    }
}
