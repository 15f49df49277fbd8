//! Who has read how much of an artefact: proof that a BMC really fetched what was inserted.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::SystemTime;

/// Counts of one artefact, as they stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadCount {
    /// Bytes handed to sockets; a range that is read twice counts twice.
    pub bytes: u64,
    /// Requests that were answered with bytes.
    pub requests: u64,
    /// Highest byte that was read, plus one: how far a client that reads in order has come.
    pub furthest: u64,
    /// When the first byte went out.
    pub first: Option<SystemTime>,
    /// When the last one went out.
    pub last: Option<SystemTime>,
    /// Who read last.
    pub by: Option<IpAddr>,
}

/// Counts that many connections add to.
#[derive(Debug, Default)]
pub struct Reads(Mutex<ReadCount>);

impl Reads {
    /// A request for bytes is about to be answered.
    pub fn request(&self, by: IpAddr) {
        let mut count = self.lock();
        count.requests = count.requests.saturating_add(1);
        count.by = Some(by);
    }

    /// Bytes up to `end` went out just now.
    pub fn sent(&self, bytes: u64, end: u64, by: IpAddr, now: SystemTime) {
        let mut count = self.lock();
        count.bytes = count.bytes.saturating_add(bytes);
        count.furthest = count.furthest.max(end);
        count.first = count.first.or(Some(now));
        count.last = Some(now);
        count.by = Some(by);
    }

    /// How it stands.
    pub fn count(&self) -> ReadCount {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ReadCount> {
        // Plain counters: nothing in them can be left half done by a panic.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
