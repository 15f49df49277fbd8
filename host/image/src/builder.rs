//! Putting a layout together from front to back.

use bytes::{Bytes, BytesMut};
use model::Sha256;

use crate::layout::{Extent, Kind, Layout, LayoutError};

/// Literals up to this length are merged with their neighbours; longer ones stay shared with whoever made them.
const MERGE_BELOW: usize = 16 * 1024;

/// A run of zeros inside a small literal becomes an extent of its own from this length on: below it, the run costs less
/// in a recipe as literal bytes.
const ZERO_RUN: usize = 64;

/// Puts a layout together from front to back, merging neighbours of the same sort and cutting long zero runs out of
/// small literals.
#[derive(Debug)]
pub struct LayoutBuilder {
    kind: Kind,
    extents: Vec<Extent>,
    literal: BytesMut,
    position: u64,
}

impl LayoutBuilder {
    /// An empty image.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            extents: Vec::new(),
            literal: BytesMut::new(),
            position: 0,
        }
    }

    /// Bytes so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Appends bytes, copying them if they are few.
    pub fn literal(&mut self, bytes: impl Into<Bytes>) {
        let bytes: Bytes = bytes.into();
        self.advance(bytes.len() as u64);
        if bytes.len() >= MERGE_BELOW {
            self.flush();
            self.extents.push(Extent::Literal(bytes));
            return;
        }
        let mut rest = &bytes[..];
        while let Some((before, zeros)) = next_zero_run(rest) {
            self.literal.extend_from_slice(&rest[..before]);
            self.push_zeros(zeros as u64);
            rest = &rest[before + zeros..];
        }
        self.literal.extend_from_slice(rest);
    }

    /// Appends zeros.
    pub fn zeros(&mut self, len: u64) {
        self.advance(len);
        self.push_zeros(len);
    }

    /// Appends zeros up to `position`, which is not behind.
    pub fn zeros_to(&mut self, position: u64) {
        debug_assert!(position >= self.position, "a writer went backwards");
        self.zeros(position.saturating_sub(self.position));
    }

    /// Appends a range of a source.
    pub fn source(&mut self, sha256: Sha256, offset: u64, len: u64) {
        self.advance(len);
        self.flush();
        if let Some(Extent::Source {
            sha256: last,
            offset: start,
            len: before,
        }) = self.extents.last_mut()
            && *last == sha256
            && start.checked_add(*before) == Some(offset)
        {
            *before = before.saturating_add(len);
            return;
        }
        self.extents.push(Extent::Source { sha256, offset, len });
    }

    /// Appends any extent.
    pub fn extent(&mut self, extent: Extent) {
        match extent {
            Extent::Literal(bytes) => self.literal(bytes),
            Extent::Source { sha256, offset, len } => self.source(sha256, offset, len),
            Extent::Zero(len) => self.zeros(len),
        }
    }

    /// The layout.
    pub fn finish(mut self) -> Result<Layout, LayoutError> {
        self.flush();
        Layout::from_extents(self.kind, self.extents)
    }

    fn advance(&mut self, len: u64) {
        // `finish` refuses what does not fit; saturating only keeps the position from wrapping until then.
        self.position = self.position.saturating_add(len);
    }

    fn push_zeros(&mut self, len: u64) {
        if len == 0 {
            return;
        }
        self.flush();
        match self.extents.last_mut() {
            Some(Extent::Zero(before)) => *before = before.saturating_add(len),
            _ => self.extents.push(Extent::Zero(len)),
        }
    }

    fn flush(&mut self) {
        if !self.literal.is_empty() {
            let bytes = self.literal.split().freeze();
            self.extents.push(Extent::Literal(bytes));
        }
    }
}

/// Where the next long zero run starts and how long it is.
fn next_zero_run(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut at = 0;
    while at < bytes.len() {
        let start = at + bytes[at..].iter().position(|byte| *byte == 0)?;
        let len = bytes[start..]
            .iter()
            .position(|byte| *byte != 0)
            .unwrap_or(bytes.len() - start);
        if len >= ZERO_RUN {
            return Some((start, len));
        }
        at = start + len;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(byte: u8) -> Sha256 {
        Sha256([byte; 32])
    }

    #[test]
    fn neighbours_of_one_sort_become_one_extent() {
        let mut builder = LayoutBuilder::new(Kind::Other);
        builder.literal(&b"ab"[..]);
        builder.literal(&b"cd"[..]);
        builder.zeros(1000);
        builder.literal(vec![0; 100]);
        builder.source(sha(1), 0, 10);
        builder.source(sha(1), 10, 20);
        builder.source(sha(1), 5, 1);
        builder.source(sha(2), 6, 1);
        let layout = builder.finish().unwrap();
        let source = |sha256, offset, len| Extent::Source { sha256, offset, len };
        assert_eq!(
            layout.extents(),
            [
                Extent::Literal(Bytes::from_static(b"abcd")),
                Extent::Zero(1100),
                source(sha(1), 0, 30),
                source(sha(1), 5, 1),
                source(sha(2), 6, 1),
            ]
        );
        assert_eq!(layout.sources(), [sha(1), sha(2)]);
        assert_eq!(layout.size(), 1136);
    }

    #[test]
    fn a_size_that_overflows_is_refused_at_the_end() {
        let mut builder = LayoutBuilder::new(Kind::Other);
        builder.zeros(u64::MAX);
        builder.zeros(u64::MAX);
        assert_eq!(builder.finish().map(|_| ()), Err(LayoutError::TooLarge));
    }
}
