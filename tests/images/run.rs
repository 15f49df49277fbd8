//! Running the binary, and tools that read what it wrote or write what it reads.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// What a program that ended left behind.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The binary under test.
pub(crate) fn farrier<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farrier"));
    command.args(args).stdin(Stdio::null()).output().unwrap().into()
}

/// The arguments of a command line without quotes.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Makes an image that has to come out, quietly, and returns what the command says about it.
pub(crate) fn make(line: &str) -> Value {
    let ran = farrier(words(line).into_iter().chain(["--format", "json"]));
    assert_eq!(ran.code, Some(0), "{line}: {}", ran.stderr);
    assert_eq!(ran.stderr, "", "no progress bar where nobody looks");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {}", ran.stdout))
}

/// Runs a tool that has to be there and to succeed; both its streams.
pub(crate) fn tool(package: &str, name: &str, args: &[&str]) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(name)
        .args(args)
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| {
            panic!("{name} is needed (Debian package {package}; `make setup` installs it): {error}")
        });
    let ran = Ran::from(output);
    let text = ran.stdout + &ran.stderr;
    assert_eq!(ran.code, Some(0), "{name} {args:?}:\n{text}");
    text
}

/// A folder for one test's images.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A path in it, as text for a command line.
    pub(crate) fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.at(name);
        fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}
