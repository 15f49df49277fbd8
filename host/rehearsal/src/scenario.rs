//! Scenario files: YAML in, a checked [`Suite`] out. Everything that can be wrong with a file is found here, with its line.

mod check;
mod matrix;
mod shape;
mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use runtime::{CallContext, Candidate, ComponentSource, Grants, Limits, Role, SiteFacts};
use serde_json::Value as Json;
use serde_saphyr::Location;

use crate::invocation::Invocation;
use crate::nearest::{unknown, with_hint};
use crate::world::Player;
use shape::SuiteFile;

/// Largest scenario file, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Deepest nesting in one.
const MAX_DEPTH: usize = 40;
/// Most cases of one.
const MAX_CASES: usize = 2000;

/// Why a scenario file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// It cannot be read.
    #[error("could not read {file}")]
    Read {
        /// Which file.
        file: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// It is too large.
    #[error("{file} has {size} bytes, and {most} are allowed: split it")]
    TooLarge {
        /// Which file.
        file: String,
        /// Its size.
        size: u64,
        /// The most.
        most: u64,
    },
    /// It says what cannot be.
    #[error("{file}{}: {message}", place(*line, *column))]
    Wrong {
        /// Which file.
        file: String,
        /// Line, counted from 1; 0 = of the file as a whole.
        line: u64,
        /// Column, counted from 1.
        column: u64,
        /// What is wrong, and what would be right.
        message: String,
    },
}

fn place(line: u64, column: u64) -> String {
    if line == 0 {
        String::new()
    } else {
        format!(":{line}:{column}")
    }
}

/// How a call ends, as scenarios tell it apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ending {
    Ok,
    Error,
    Denied,
    Trapped,
    Timeout,
}

impl Ending {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Denied => "denied",
            Self::Trapped => "trapped",
            Self::Timeout => "timeout",
        }
    }
}

/// A scenario file, checked and ready to [`run`](crate::run).
#[derive(Debug)]
pub struct Suite {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) role: Role,
    /// `None` = the built-in one.
    pub(crate) component: Option<ComponentSource>,
    /// Where the component was read from.
    component_path: Option<PathBuf>,
    pub(crate) cases: Vec<Arc<Case>>,
}

/// One call of the plugin, and what is expected of it.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) line: u64,
    pub(crate) context: Arc<CallContext>,
    pub(crate) invocation: Invocation,
    pub(crate) player: Player,
    pub(crate) expect: Expect,
    pub(crate) settings: Json,
    pub(crate) grants: Option<Grants>,
    pub(crate) limits: Limits,
    /// How much of the scenario's clock the call may take.
    pub(crate) wall: Duration,
    pub(crate) site: SiteFacts,
    pub(crate) backends: Arc<[Candidate]>,
    pub(crate) clock: SystemTime,
    pub(crate) seed: u64,
    pub(crate) sweep: Sweep,
}

/// What is tried besides the case itself.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Sweep {
    pub(crate) faults: bool,
    pub(crate) grants: bool,
    pub(crate) storms: u32,
    /// A second, clean run must end where an unfaulted one ends.
    pub(crate) re_run: bool,
}

/// What is expected of a case.
#[derive(Clone, Debug)]
pub(crate) struct Expect {
    pub(crate) outcome: Ending,
    pub(crate) error: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) result: Option<Json>,
    pub(crate) world: Option<Json>,
    pub(crate) calls: Vec<(String, u32)>,
    pub(crate) never: Vec<String>,
}

impl Suite {
    /// Reads a scenario file and the component that it names.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        Self::parse(&text(path)?, path)
    }

    /// Checks the text of a scenario file and reads the component that it names; `path` is where the file stands, for
    /// messages and for the component's path.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScenarioError> {
        Self::checked(text, path, None)
    }

    /// Checks the text of a scenario file that is run with this component, whatever the file names.
    pub fn parse_for(text: &str, path: &Path, component: ComponentSource) -> Result<Self, ScenarioError> {
        Self::checked(text, path, Some(component))
    }

    /// Reads a scenario file that is run with this component, whatever the file names.
    pub fn read_for(path: &Path, component: ComponentSource) -> Result<Self, ScenarioError> {
        Self::checked(&text(path)?, path, Some(component))
    }

    fn checked(text: &str, path: &Path, component: Option<ComponentSource>) -> Result<Self, ScenarioError> {
        let name = path.display().to_string();
        let size = text.len() as u64;
        if size > MAX_FILE {
            return Err(ScenarioError::TooLarge {
                file: name,
                size,
                most: MAX_FILE,
            });
        }
        let file: SuiteFile = serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
            let location = error.location();
            let message = match error.without_snippet() {
                serde_saphyr::Error::SerdeUnknownField { field, expected, .. } => unknown("key", field, expected),
                other => with_hint(&message_of(other)),
            };
            wrong(&name, location, message)
        })?;
        if file.cases.is_empty() {
            return Err(wrong(&name, None, "it has no cases"));
        }
        if file.cases.len() > MAX_CASES {
            let message = format!(
                "it has {} cases, and {MAX_CASES} are allowed: split it",
                file.cases.len()
            );
            return Err(wrong(&name, None, message));
        }
        check::Reader { file: &name, path }.suite(file, component)
    }

    /// The files that it was read from: itself, and the component if it names one.
    pub fn files(&self) -> Vec<PathBuf> {
        let own = PathBuf::from(&self.file);
        std::iter::once(own).chain(self.component_path.clone()).collect()
    }

    /// How many cases it has.
    pub fn len(&self) -> usize {
        self.cases.len()
    }

    /// Never: a file without cases is refused.
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty()
    }
}

fn text(path: &Path) -> Result<String, ScenarioError> {
    let bytes = read(path, MAX_FILE)?;
    let file = path.display().to_string();
    String::from_utf8(bytes).map_err(|_| wrong(&file, None, "it is no UTF-8 text"))
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_documents: 1,
            max_nodes: 200_000,
            max_events: 400_000,
            max_aliases: 1000,
            max_anchors: 1000,
            max_total_scalar_bytes: 4 << 20,
        },
        // `on`, `off` and `yes` are texts.
        strict_booleans: true,
        with_snippet: false,
    }
}

/// What a YAML error says, without its place.
fn message_of(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    if first.starts_with("invalid u32") || first.starts_with("invalid u64") {
        return "a whole number that is not negative is wanted here".to_owned();
    }
    // The place stands before our own message already.
    let end = first.find(" at line ").or_else(|| first.find(" (line "));
    end.map_or(first, |end| &first[..end]).to_owned()
}

/// A message may quote the file: it is kept short, and is shown without control characters.
fn wrong(file: &str, location: Option<Location>, message: impl AsRef<str>) -> ScenarioError {
    const MOST: usize = 600;
    let message = message.as_ref();
    let mut shown = String::new();
    for c in message.chars().take(MOST) {
        if c.is_control() {
            shown.extend(c.escape_debug());
        } else {
            shown.push(c);
        }
    }
    if message.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    ScenarioError::Wrong {
        file: file.to_owned(),
        line: location.map_or(0, |location| location.line()),
        column: location.map_or(0, |location| location.column()),
        message: shown,
    }
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, ScenarioError> {
    use std::io::Read as _;

    let file = || path.display().to_string();
    let failed = |source| ScenarioError::Read { file: file(), source };
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large, whatever it claims to be.
    let opened = std::fs::File::open(path).map_err(failed)?;
    if !opened.metadata().map_err(failed)?.is_file() {
        return Err(failed(std::io::Error::other("it is no file")));
    }
    opened.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    let size = bytes.len() as u64;
    if size > most {
        let size = std::fs::metadata(path).map_or(size, |data| data.len());
        return Err(ScenarioError::TooLarge {
            file: file(),
            size,
            most,
        });
    }
    Ok(bytes)
}
