//! What a reader makes of a file: a tree of values, each with the place where it was set.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::Overrides;

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// An option of the command line.
    CommandLine(&'static str),
    /// A line of a file, counted from 1.
    File {
        /// As it was given.
        file: Arc<Path>,
        /// Which line.
        line: usize,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::CommandLine(option) => f.write_str(option),
            Self::File { file, line } => write!(f, "{}:{line}", file.display()),
        }
    }
}

/// A value and where it was set.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) raw: Raw,
    pub(crate) origin: Origin,
}

/// A value as a file holds it.
#[derive(Clone, Debug)]
pub(crate) enum Raw {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    List(Vec<Item>),
    Table(Table),
    /// A TOML date or time, which no setting is.
    Moment(String),
}

impl Raw {
    /// What it is, for "must be …, not …".
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a fraction",
            Self::Boolean(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Moment(_) => "a date or time",
        }
    }
}

/// Names and what they are set to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) entries: BTreeMap<String, Item>,
}

impl Table {
    /// Puts in what the command line says.
    pub(crate) fn override_with(&mut self, overrides: &Overrides) {
        if let Some(data) = &overrides.data_dir {
            let text = data.to_string_lossy().into_owned();
            self.put("data-dir", "--data", text);
        }
        if let Some(listen) = &overrides.api_listen {
            let api = self.entries.entry("api".into()).or_insert(Item {
                raw: Raw::Table(Self::default()),
                origin: Origin::Default,
            });
            // Where `api` is no table, that is reported when it is read.
            if let Raw::Table(api) = &mut api.raw {
                api.put("listen", "--listen", listen.to_string());
            }
        }
    }

    fn put(&mut self, key: &str, option: &'static str, text: String) {
        let item = Item {
            raw: Raw::Text(text),
            origin: Origin::CommandLine(option),
        };
        self.entries.insert(key.to_owned(), item);
    }
}
