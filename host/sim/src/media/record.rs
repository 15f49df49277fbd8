//! What was read of an inserted image.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::media::MediaError;
use crate::profile::Device;

/// Distinct byte ranges kept in the record of one image; past it, neighbours are merged across their gap.
const RANGES_KEPT: usize = 4096;

/// What one inserted image was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct MediaReads {
    /// Which slot.
    pub device: Device,
    /// The image URL, without credentials.
    pub url: String,
    /// Size of the image, once known.
    pub size: Option<u64>,
    /// Ranged requests that were answered.
    pub requests: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Which bytes were read, as merged half-open ranges in order.
    pub ranges: Vec<(u64, u64)>,
    /// Reads that failed.
    pub errors: u64,
    /// The last failure.
    pub last_error: Option<String>,
}

/// The running count behind [`MediaReads`].
#[derive(Debug)]
pub(crate) struct ReadRecord {
    device: Device,
    url: String,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    size: Option<u64>,
    requests: u64,
    bytes: u64,
    ranges: BTreeMap<u64, u64>,
    errors: u64,
    last_error: Option<String>,
}

impl ReadRecord {
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn new(device: Device, url: String) -> Self {
        Self {
            device,
            url,
            counts: Mutex::new(Counts::default()),
        }
    }

    /// A request that was answered with `len` bytes from `offset`.
    pub(super) fn answered(&self, offset: u64, len: u64, size: u64) {
        let mut counts = self.lock();
        counts.requests += 1;
        counts.bytes = counts.bytes.saturating_add(len);
        counts.size = Some(size);
        counts.add_range(offset, offset.saturating_add(len));
    }

    pub(super) fn failed(&self, error: &MediaError) {
        let mut counts = self.lock();
        counts.errors += 1;
        counts.last_error = Some(error.to_string());
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn snapshot(&self) -> MediaReads {
        let counts = self.lock();
        MediaReads {
            device: self.device,
            url: self.url.clone(),
            size: counts.size,
            requests: counts.requests,
            bytes: counts.bytes,
            ranges: counts.ranges.iter().map(|(a, b)| (*a, *b)).collect(),
            errors: counts.errors,
            last_error: counts.last_error.clone(),
        }
    }
}

impl Counts {
    fn add_range(&mut self, mut start: u64, mut end: u64) {
        if start == end {
            return;
        }
        while let Some((&a, &b)) = self.ranges.range(..=end).next_back() {
            if b < start {
                break;
            }
            self.ranges.remove(&a);
            start = start.min(a);
            end = end.max(b);
        }
        self.ranges.insert(start, end);
        if self.ranges.len() > RANGES_KEPT {
            let mut first = self.ranges.iter();
            let (a, b) = (first.next(), first.next());
            if let (Some((&a, _)), Some((&second, &end))) = (a, b) {
                self.ranges.remove(&second);
                self.ranges.insert(a, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_merged() {
        let mut counts = Counts::default();
        for (a, b) in [(0, 10), (20, 30), (10, 15), (5, 22), (40, 50)] {
            counts.add_range(a, b);
        }
        assert_eq!(counts.ranges.into_iter().collect::<Vec<_>>(), [(0, 30), (40, 50)]);
    }
}
