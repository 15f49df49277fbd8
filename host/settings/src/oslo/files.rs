//! Which files are read, and in which order: a later one wins over an earlier one.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lines::{Lines, parse};
use crate::problem::Problem;
use crate::tree::Origin;

/// A file is written by hand; more than this is not one.
const MOST_BYTES: u64 = 4 << 20;
/// In all files together.
const MOST_BYTES_IN_ALL: u64 = 16 << 20;
/// Given, and found in folders.
const MOST_FILES: usize = 256;

/// A file that was read.
#[derive(Debug)]
pub(crate) struct ReadFile {
    pub(crate) path: Arc<Path>,
    pub(crate) lines: Lines,
}

/// Reads each file and, after it, the `*.conf` of the folder of the same name with `.d` behind it, if there is one; of a
/// folder, its `*.conf`. Folders are read in the order of the names.
pub(crate) fn read(given: &[PathBuf]) -> (Vec<ReadFile>, Vec<Problem>) {
    let mut reading = Reading::default();
    for path in given {
        if path.is_dir() {
            reading.folder(path);
            continue;
        }
        reading.file(path);
        let mut beside = path.clone().into_os_string();
        beside.push(".d");
        let beside = PathBuf::from(beside);
        if beside.is_dir() {
            reading.folder(&beside);
        }
    }
    (reading.files, reading.problems)
}

#[derive(Default)]
struct Reading {
    files: Vec<ReadFile>,
    problems: Vec<Problem>,
    bytes: u64,
}

impl Reading {
    fn folder(&mut self, folder: &Path) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                let remedy = "it must be readable for the user that Farrier runs as";
                self.problem(None, format!("{}: cannot be read: {error}; {remedy}", folder.display()));
                return;
            }
        };
        let mut files = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) if is_conf(&entry.path()) => files.push(entry.path()),
                Ok(_) => {}
                Err(error) => self.problem(None, format!("{}: cannot be listed: {error}", folder.display())),
            }
            // Folders with more are refused by the first file that is too many.
            if files.len() > MOST_FILES {
                break;
            }
        }
        files.sort();
        for file in files {
            self.file(&file);
        }
    }

    fn file(&mut self, path: &Path) {
        if self.files.len() == MOST_FILES {
            let message = format!(
                "{}: is one file too many; at most {MOST_FILES} are read",
                path.display()
            );
            return self.problem(None, message);
        }
        let file: Arc<Path> = path.into();
        let lines = match text(path, MOST_BYTES.min(MOST_BYTES_IN_ALL.saturating_sub(self.bytes))) {
            Ok(text) => {
                self.bytes = self.bytes.saturating_add(text.len() as u64);
                parse(&text)
            }
            Err((line, reason)) => {
                let origin = line.map(|line| Origin::File {
                    file: Arc::clone(&file),
                    line,
                });
                let message = match origin {
                    Some(_) => reason,
                    None => format!("{}: {reason}", path.display()),
                };
                return self.problem(origin, message);
            }
        };
        for mistake in &lines.mistakes {
            let origin = Origin::File {
                file: Arc::clone(&file),
                line: mistake.line,
            };
            self.problem(Some(origin), mistake.reason.to_owned());
        }
        self.files.push(ReadFile { path: file, lines });
    }

    fn problem(&mut self, origin: Option<Origin>, message: String) {
        let origin = origin.unwrap_or(Origin::Default);
        self.problems.push(Problem { origin, message });
    }
}

/// As the shell's `*.conf`, which leaves hidden files out.
fn is_conf(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.as_encoded_bytes());
    name.is_some_and(|name| name.ends_with(b".conf") && !name.starts_with(b"."))
}

/// The text, or what is wrong and on which line.
fn text(path: &Path, most: u64) -> Result<String, (Option<usize>, String)> {
    let there = |error: std::io::Error| {
        let remedy = "give another --ironic-conf, or make it readable for the user that Farrier runs as";
        (None, format!("cannot be read: {error}; {remedy}"))
    };
    if !std::fs::metadata(path).map_err(there)?.is_file() {
        return Err((None, "is no settings file: it must be a regular file".into()));
    }
    let file = std::fs::File::open(path).map_err(there)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(there)?;
    if bytes.len() as u64 > most {
        let reason = format!(
            "is no settings file: at most {MOST_BYTES} bytes are read of one file, and {MOST_BYTES_IN_ALL} of all"
        );
        return Err((None, reason));
    }
    if bytes.starts_with("\u{feff}".as_bytes()) {
        return Err((
            Some(1),
            "begins with a byte order mark; save the file as UTF-8 without one".into(),
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        (Some(line), "is not UTF-8 text; save the file as UTF-8".to_owned())
    })
}
