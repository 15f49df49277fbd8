//! `farrier serve` as a process: started, killed, stopped; its log is kept and shown when a story fails.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};

use crate::client::Api;
use crate::wait;

/// Longest part of a log that a failed story shows.
const SHOWN: usize = 12_000;

/// A running conductor. Dropping it kills it.
pub(crate) struct Conductor {
    pub(crate) name: String,
    pub(crate) api: Api,
    child: Child,
    log: PathBuf,
}

/// A conductor that did not start.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) log: String,
}

impl Conductor {
    /// Starts it, and waits until it answers or has ended. `wrapper`: a shell script in whose own mount namespace it starts, with
    /// the command and its arguments as `$0` and `$@`.
    pub(crate) async fn start(
        name: &str,
        api: String,
        config: &Path,
        log: PathBuf,
        environment: &[(&str, &str)],
        wrapper: Option<&str>,
    ) -> Result<Self, Ended> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .expect("a log file");
        let binary = env!("CARGO_BIN_EXE_farrier");
        let mut command = match wrapper {
            None => Command::new(binary),
            Some(script) => {
                let mut command = Command::new("unshare");
                if !rustix::process::geteuid().is_root() {
                    command.args(["--user", "--map-root-user"]);
                }
                // Neither forks, so that the process stays the same.
                command.args(["--mount", "sh", "-c", script, binary]);
                command
            }
        };
        let child = command
            .args(["serve", "--config"])
            .arg(config)
            .env_remove("FARRIER_CONFIG")
            .env(
                "FARRIER_LOG",
                "debug,hyper=info,hyper_util=info,reqwest=info,rustls=info,h2=info,wasmtime=info,cranelift=info",
            )
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .expect("the binary starts");
        let mut conductor = Self {
            name: name.to_owned(),
            api: Api::new(api),
            child,
            log,
        };
        let ready = wait::until(&format!("{name} answers or ends"), async || {
            if let Some(status) = conductor.child.try_wait().expect("a child of ours") {
                return Some(Err(status));
            }
            let answer = conductor.api.send(Method::GET, "/readyz", None).await;
            matches!(answer, Ok(Ok(_))).then_some(Ok(()))
        })
        .await;
        match ready {
            Ok(()) => Ok(conductor),
            Err(status) => Err(Ended {
                status,
                log: conductor.log(),
            }),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: it has no chance to say good-bye.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(9), "{} had ended before: {status}", self.name);
    }

    /// SIGSTOP: it stands still, and does not know it.
    pub(crate) fn freeze(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).expect("it can be frozen");
    }

    /// SIGCONT.
    pub(crate) fn thaw(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("it can be thawed");
    }

    /// SIGTERM, as an init system stops it; it must end by itself, and well.
    pub(crate) async fn stop(&mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it can be told to stop");
        let child = &mut self.child;
        let status = wait::until("it stops", async || child.try_wait().expect("a child of ours")).await;
        assert!(status.success(), "{} stopped with {status}", self.name);
    }

    /// It still runs.
    pub(crate) fn assert_alive(&mut self) {
        let ended = self.child.try_wait().expect("a child of ours");
        assert!(ended.is_none(), "{} has ended: {ended:?}", self.name);
    }

    /// Everything that it wrote so far.
    pub(crate) fn log(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            // What was read of images, range by range, would push everything else out.
            let log = self.log();
            let lines: Vec<_> = log.lines().filter(|line| !line.contains("image request")).collect();
            let log = lines.join("\n");
            let mut from = log.len().saturating_sub(SHOWN);
            while !log.is_char_boundary(from) {
                from += 1;
            }
            eprintln!("---- the end of the log of {}\n{}", self.name, &log[from..]);
        }
    }
}

/// Runs another command of the binary to its end.
pub(crate) fn farrier(arguments: &[&str]) -> std::process::Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_farrier"))
        .args(arguments)
        .env_remove("FARRIER_CONFIG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let start = Instant::now();
    while child.try_wait().expect("a child of ours").is_none() {
        if start.elapsed() > wait::PATIENCE {
            let _ = child.kill();
            panic!("farrier {arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("its output")
}
