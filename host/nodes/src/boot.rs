//! The clock that leases are counted by, and what tells one process from another: the kernel's boot, its boot clock, and a
//! process with its start time.
//!
//! Wall clocks jump; `CLOCK_BOOTTIME` does not, and it runs on while the machine sleeps. It means something within one boot
//! only, so every stored instant carries the boot's identifier. Conductors that share a file must share the kernel (network
//! file systems are refused) and its time namespace.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::StoreError;

/// Nanoseconds since the machine booted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BootInstant(pub(crate) i64);

impl BootInstant {
    /// Now.
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        Self(now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec))
    }

    /// That much later.
    pub(crate) fn after(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)),
        )
    }

    /// From `earlier` until this; zero if it has passed.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A process, so that its death can be proved by another one on the same boot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Process {
    /// `/proc/sys/kernel/random/boot_id`.
    pub(crate) boot_id: String,
    /// Process id inside `namespace`.
    pub(crate) pid: i64,
    /// When it started, in the kernel's clock ticks since boot: a reused pid has another one.
    pub(crate) started: i64,
    /// The PID namespace; a pid says nothing in another one. Empty where the kernel does not tell.
    pub(crate) namespace: String,
}

impl Process {
    /// This process.
    pub(crate) fn current() -> Result<Self, StoreError> {
        let boot_file = "/proc/sys/kernel/random/boot_id";
        let boot_id = std::fs::read_to_string(boot_file).map_err(|error| StoreError::Database {
            place: boot_file.to_owned(),
            action: "tell this boot from another",
            reason: format!("{error}; Farrier needs Linux with /proc mounted"),
        })?;
        let pid = i64::from(std::process::id());
        Ok(Self {
            boot_id: boot_id.trim().to_owned(),
            pid,
            started: started(pid).unwrap_or(0),
            namespace: std::fs::read_link("/proc/self/ns/pid")
                .map(|link| link.to_string_lossy().into_owned())
                .unwrap_or_default(),
        })
    }

    /// `other` is provably gone: it ran before this boot, or in this PID namespace under a pid that is free or somebody else's.
    pub(crate) fn knows_dead(&self, other: &Self) -> bool {
        if other.boot_id != self.boot_id {
            return true;
        }
        let comparable = !self.namespace.is_empty() && other.namespace == self.namespace;
        comparable && started(other.pid) != Some(other.started)
    }
}

/// Start time of a process that runs; `None` if there is none, or only its zombie. Fields of proc_pid_stat(5) are counted
/// after the last `)`, because the command name may hold anything.
fn started(pid: i64) -> Option<i64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    // State is field 3, the start time field 22.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_counts_and_differences_never_go_below_zero() {
        let now = BootInstant::now();
        let later = now.after(Duration::from_secs(3));
        assert_eq!(later.since(now), Duration::from_secs(3));
        assert_eq!(now.since(later), Duration::ZERO);
        assert!(now.after(Duration::MAX) > later);
    }

    #[test]
    fn a_process_is_known_dead_only_where_that_can_be_proved() {
        let me = Process::current().unwrap();
        assert!(me.started > 0);
        assert!(!me.knows_dead(&me));

        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i64::from(child.id());
        let theirs = Process {
            pid,
            started: started(pid).unwrap(),
            ..me.clone()
        };
        assert!(!me.knows_dead(&theirs));
        let reused_pid = Process {
            started: theirs.started - 1,
            ..theirs.clone()
        };
        assert!(me.knows_dead(&reused_pid));

        child.kill().unwrap();
        // Not waited for: a zombie is dead too. The signal needs a moment.
        let patience = std::time::Instant::now() + Duration::from_secs(10);
        while !me.knows_dead(&theirs) {
            assert!(std::time::Instant::now() < patience);
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait().unwrap();
        assert!(me.knows_dead(&theirs));

        let elsewhere = Process {
            namespace: "pid:[1]".into(),
            ..theirs.clone()
        };
        assert!(!me.knows_dead(&elsewhere));
        let before_reboot = Process {
            boot_id: "another".into(),
            ..me.clone()
        };
        assert!(me.knows_dead(&before_reboot));
    }
}
