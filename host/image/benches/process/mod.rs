//! Running a program, and what it used: time, memory, bytes read and written.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// What a process used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ran {
    pub(crate) time: Duration,
    /// Bytes of memory at most.
    pub(crate) memory: u64,
    /// Bytes that it read, from page cache or disk.
    pub(crate) read: u64,
    /// Bytes that it wrote.
    pub(crate) written: u64,
}

impl Ran {
    /// Both, one after the other.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            time: self.time + other.time,
            memory: self.memory.max(other.memory),
            read: self.read + other.read,
            written: self.written + other.written,
        }
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "{:?}, {:.1} MiB of memory, {:.2} MiB read, {:.2} MiB written",
            self.time,
            mib(self.memory),
            mib(self.read),
            mib(self.written)
        )
    }
}

/// The one of median time, with the memory of the one that took most: a short process is seen at few moments.
pub(crate) fn median(runs: &mut [Ran]) -> Ran {
    runs.sort_unstable_by_key(|ran| ran.time);
    let memory = runs.iter().map(|ran| ran.memory).max().unwrap_or(0);
    Ran {
        memory,
        ..runs[runs.len() / 2]
    }
}

pub(crate) fn run(line: &str) -> Ran {
    run_with(line, &[])
}

/// Runs a command line, with these in its environment too.
pub(crate) fn run_with(line: &str, environment: &[(&str, &Path)]) -> Ran {
    let mut words = line.split_whitespace();
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let start = Instant::now();
    let mut child = Command::new(words.next().expect("a program"))
        .args(words)
        .env("PATH", path)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{line}: {error}; the Debian packages are named above"));
    let id = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process");
    let mut memory = 0;
    // Until it has ended, and before it is forgotten: its counters are there that long.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    while waitid(WaitId::Pid(id), ended).expect("a child").is_none() {
        memory = memory.max(field(&child, "status", "VmHWM:").unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_micros(200));
    }
    let time = start.elapsed();
    let read = field(&child, "io", "rchar:").expect("the counters of a child");
    let written = field(&child, "io", "wchar:").expect("the counters of a child");
    let status = child.wait().expect("a child");
    assert!(status.success(), "{line}: {status}");
    Ran {
        time,
        memory,
        read,
        written,
    }
}

fn field(child: &std::process::Child, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/{file}", child.id())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
