//! Who has read how much of an artefact: proof that a BMC really fetched what was inserted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Mutex;
use std::time::SystemTime;

/// Readers of one artefact that are told apart; the counts of more go to the artefact alone.
const MAX_CLIENTS: usize = 256;
/// Stretches of an image that a reader has read and that lie apart; more are joined at the smallest gap.
const MAX_STRETCHES: usize = 64;

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

/// What one reader has read of an artefact.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientReads {
    /// Its counts.
    pub count: ReadCount,
    /// What it has read at least once, in order and apart; joined at small gaps when it is in very many pieces.
    stretches: Vec<Range<u64>>,
}

impl ClientReads {
    /// How many different bytes of the image it has read: the image's size once it has read all of it.
    pub fn different(&self) -> u64 {
        self.stretches.iter().map(|read| read.end - read.start).sum()
    }

    fn add(&mut self, read: Range<u64>) {
        let first = self.stretches.partition_point(|known| known.end < read.start);
        let last = self.stretches.partition_point(|known| known.start <= read.end);
        let mut whole = read;
        for known in &self.stretches[first..last] {
            whole = whole.start.min(known.start)..whole.end.max(known.end);
        }
        self.stretches.splice(first..last, [whole]);
        if self.stretches.len() > MAX_STRETCHES {
            let gap = |index: &usize| self.stretches[index + 1].start - self.stretches[*index].end;
            let smallest = (0..self.stretches.len() - 1).min_by_key(gap).unwrap_or_default();
            let joined = self.stretches.remove(smallest + 1);
            self.stretches[smallest].end = joined.end;
        }
    }
}

/// Counts that many connections add to.
#[derive(Debug, Default)]
pub struct Reads(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    all: ReadCount,
    clients: BTreeMap<IpAddr, ClientReads>,
}

impl Table {
    fn client(&mut self, by: IpAddr) -> Option<&mut ClientReads> {
        let is_known = self.clients.contains_key(&by);
        (is_known || self.clients.len() < MAX_CLIENTS).then(|| self.clients.entry(by).or_default())
    }
}

impl ReadCount {
    fn request(&mut self, by: IpAddr) {
        self.requests = self.requests.saturating_add(1);
        self.by = Some(by);
    }

    fn sent(&mut self, bytes: u64, end: u64, by: IpAddr, now: SystemTime) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.furthest = self.furthest.max(end);
        self.first = self.first.or(Some(now));
        self.last = Some(now);
        self.by = Some(by);
    }
}

impl Reads {
    /// A request for bytes is about to be answered.
    pub fn request(&self, by: IpAddr) {
        let mut table = self.lock();
        table.all.request(by);
        if let Some(client) = table.client(by) {
            client.count.request(by);
        }
    }

    /// Bytes up to `end` went out just now.
    pub fn sent(&self, bytes: u64, end: u64, by: IpAddr, now: SystemTime) {
        let mut table = self.lock();
        table.all.sent(bytes, end, by, now);
        if let Some(client) = table.client(by) {
            client.count.sent(bytes, end, by, now);
            client.add(end.saturating_sub(bytes)..end);
        }
    }

    /// How it stands.
    pub fn count(&self) -> ReadCount {
        self.lock().all
    }

    /// How much of an image of `size` bytes the reader who has come furthest has read at least once, in percent: 100 only once
    /// it has read all of it.
    pub fn percent(&self, size: u64) -> u8 {
        let table = self.lock();
        let most = table
            .clients
            .values()
            .map(ClientReads::different)
            .max()
            .unwrap_or_default();
        let percent = u128::from(most.min(size)) * 100 / u128::from(size.max(1));
        u8::try_from(percent).unwrap_or(100)
    }

    /// How it stands with each reader; the first 256 are told apart.
    pub fn clients(&self) -> Vec<(IpAddr, ClientReads)> {
        let table = self.lock();
        table.clients.iter().map(|(by, reads)| (*by, reads.clone())).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        // Plain counters: nothing in them can be left half done by a panic.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn client(number: u16) -> IpAddr {
        IpAddr::from([10, 0, number.to_be_bytes()[0], number.to_be_bytes()[1]])
    }

    proptest! {
        #[test]
        fn different_bytes_are_counted_once_however_they_are_read(
            reads in prop::collection::vec((0..200u64, 1..20u64), 0..40),
        ) {
            let counts = Reads::default();
            let mut read = std::collections::BTreeSet::new();
            for (start, len) in reads {
                counts.sent(len, start + len, client(1), SystemTime::UNIX_EPOCH);
                read.extend(start..start + len);
            }
            let different = counts.clients().first().map_or(0, |(_, reads)| reads.different());
            prop_assert_eq!(different, read.len() as u64);
        }
    }

    #[test]
    fn progress_counts_what_one_reader_has_read_once_and_is_whole_at_the_last_byte() {
        let counts = Reads::default();
        assert_eq!(counts.percent(1000), 0);
        for (by, end, percent) in [(1, 500, 50), (1, 500, 50), (2, 400, 50), (1, 999, 99), (1, 1000, 100)] {
            let bytes = if end == 1000 { 1 } else { end };
            counts.sent(bytes, end, client(by), SystemTime::UNIX_EPOCH);
            assert_eq!(counts.percent(1000), percent, "{by} {end}");
        }
        assert_eq!(Reads::default().percent(0), 0);
    }

    #[test]
    fn readers_are_told_apart_and_neither_they_nor_their_pieces_grow_without_end() {
        let counts = Reads::default();
        for number in 0..1000 {
            counts.request(client(number));
            counts.sent(5, 10, client(number), SystemTime::UNIX_EPOCH);
        }
        assert_eq!(counts.count().requests, 1000);
        assert_eq!(counts.clients().len(), MAX_CLIENTS);
        let (_, first) = &counts.clients()[0];
        assert_eq!((first.count.bytes, first.count.requests, first.different()), (5, 1, 5));
        let pieces = Reads::default();
        for piece in 0..10_000 {
            pieces.sent(1, piece * 10 + 1, client(1), SystemTime::UNIX_EPOCH);
        }
        let (_, scattered) = &pieces.clients()[0];
        assert!(scattered.stretches.len() <= MAX_STRETCHES);
        assert_eq!(scattered.count.bytes, 10_000);
    }
}
