//! How far a long command has come: a bar on a terminal, a line now and then elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// How often a line is written where there is no terminal: commands that take less say nothing.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Gone from the terminal when it is dropped.
pub(super) struct Progress {
    bar: ProgressBar,
    what: String,
    total: u64,
    next_line: Instant,
}

impl Progress {
    /// `what` as in "reading vmlinuz"; `total` in bytes.
    pub(super) fn new(what: impl Into<String>, total: u64) -> Self {
        let what = what.into();
        let bar = ProgressBar::new(total).with_message(what.clone());
        // A template of our own is always legal; without it, the bar would look another way.
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes}, {bytes_per_sec}") {
            bar.set_style(style);
        }
        bar.tick();
        Self {
            bar,
            what,
            total,
            next_line: Instant::now() + LINE_EVERY,
        }
    }

    /// So many bytes are done.
    pub(super) fn set(&mut self, done: u64) {
        self.bar.set_position(done);
        if self.bar.is_hidden() && Instant::now() >= self.next_line {
            self.next_line = Instant::now() + LINE_EVERY;
            output::note(format_args!(
                "{}: {} of {} ({} %)",
                self.what,
                output::bytes(done),
                output::bytes(self.total),
                percent(done, self.total)
            ));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How many hundredths of `total` are done, rounded down: 100 only if all of it is.
pub(super) fn percent(done: u64, total: u64) -> u64 {
    match total {
        0 => 100,
        _ => u64::try_from(u128::from(done.min(total)) * 100 / u128::from(total)).unwrap_or(100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_percent_is_all_of_it() {
        for (done, total, wanted) in [(0, 10, 0), (999, 1000, 99), (1000, 1000, 100), (0, 0, 100), (7, 5, 100)] {
            assert_eq!(percent(done, total), wanted, "{done}/{total}");
        }
        assert_eq!(percent(u64::MAX - 1, u64::MAX), 99);
    }
}
