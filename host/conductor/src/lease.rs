//! How long this conductor's lease is certain to last.
//!
//! A BMC cannot be fenced, so a request that changes something is sent only if it must end before the lease does. The lease is
//! counted on CLOCK_BOOTTIME, which goes on while the machine sleeps, from before the keep-alive was sent: the store's idea of
//! its end can only be later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The end of the lease; clones share it. Without a lease there is no window.
#[derive(Clone, Debug, Default)]
pub struct LeaseClock {
    /// Nanoseconds since boot; 0 = no lease.
    end: Arc<AtomicU64>,
}

/// A moment on CLOCK_BOOTTIME.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BootInstant(Duration);

impl BootInstant {
    /// Now.
    pub(crate) fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // The clock counts up from boot: neither part is ever negative.
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Self(Duration::new(seconds, nanos))
    }
}

impl LeaseClock {
    /// No lease yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Time that a request which changes something may take from now on; `None` = it may not be sent.
    pub fn window(&self) -> Option<Duration> {
        self.window_at(BootInstant::now())
    }

    fn window_at(&self, now: BootInstant) -> Option<Duration> {
        let end = Duration::from_nanos(self.end.load(Ordering::Acquire));
        end.checked_sub(now.0).filter(|left| !left.is_zero())
    }

    /// The store confirmed the lease: this much was left of it, asked for at `sent` or later.
    pub(crate) fn confirm(&self, sent: BootInstant, left: Duration) {
        let end = u64::try_from((sent.0 + left).as_nanos()).unwrap_or(u64::MAX);
        self.end.store(end, Ordering::Release);
    }

    /// The lease is gone.
    pub(crate) fn revoke(&self) {
        self.end.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_closes_at_the_leases_end_and_when_it_is_revoked() {
        let clock = LeaseClock::new();
        assert_eq!(clock.window(), None);
        let at = |seconds| BootInstant(Duration::from_secs(seconds));
        clock.confirm(at(100), Duration::from_secs(10));
        let shared = clock.clone();
        assert_eq!(shared.window_at(at(104)), Some(Duration::from_secs(6)));
        assert_eq!(shared.window_at(at(110)), None);
        assert_eq!(shared.window_at(at(999)), None);
        clock.confirm(BootInstant::now(), Duration::from_secs(60));
        assert!(shared.window().unwrap() > Duration::from_secs(50));
        clock.revoke();
        assert_eq!(shared.window(), None);
    }
}
