//! What a reader makes of a file: a tree of values, each with the place where it was set.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use model::Secret;

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
    /// An option of ironic.conf.
    Option {
        /// As it was given.
        file: Arc<Path>,
        /// Which line.
        line: usize,
        /// The option as it stands there: `[deploy] http_url`.
        option: Arc<str>,
    },
}

impl Origin {
    /// The option of ironic.conf that said it.
    pub fn option(&self) -> Option<&str> {
        match self {
            Self::Option { option, .. } => Some(option),
            Self::Default | Self::CommandLine(_) | Self::File { .. } => None,
        }
    }

    /// The file and the line in it.
    pub fn place(&self) -> Option<(&Path, usize)> {
        match self {
            Self::File { file, line } | Self::Option { file, line, .. } => Some((file, *line)),
            Self::Default | Self::CommandLine(_) => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::CommandLine(option) => f.write_str(option),
            Self::File { file, line } | Self::Option { file, line, .. } => write!(f, "{}:{line}", file.display()),
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
    /// A text that is printed nowhere.
    Secret(Secret),
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
            Self::Secret(_) => "a secret",
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
    /// Sets a setting by its full name ("images.cache.max-bytes"), making the tables on the way.
    pub(crate) fn set(&mut self, name: &str, raw: Raw, origin: Origin) {
        let item = Item { raw, origin };
        let Some((table, rest)) = name.split_once('.') else {
            self.entries.insert(name.to_owned(), item);
            return;
        };
        let below = self.entries.entry(table.to_owned()).or_insert_with(|| Item {
            raw: Raw::Table(Self::default()),
            origin: item.origin.clone(),
        });
        // Where it is no table, that is reported when it is read.
        if let Raw::Table(below) = &mut below.raw {
            below.set(rest, item.raw, item.origin);
        }
    }

    /// A setting by its full name.
    pub(crate) fn find(&self, name: &str) -> Option<&Item> {
        match name.split_once('.') {
            None => self.entries.get(name),
            Some((table, rest)) => match &self.entries.get(table)?.raw {
                Raw::Table(below) => below.find(rest),
                _ => None,
            },
        }
    }

    /// Takes a setting out by its full name.
    pub(crate) fn remove(&mut self, name: &str) {
        match name.split_once('.') {
            None => {
                self.entries.remove(name);
            }
            Some((table, rest)) => {
                if let Some(Raw::Table(below)) = self.entries.get_mut(table).map(|item| &mut item.raw) {
                    below.remove(rest);
                }
            }
        }
    }

    /// Puts what `over` sets in the place of what is here; tables are merged, lists replaced.
    pub(crate) fn overlay(&mut self, over: Self) {
        for (key, item) in over.entries {
            match (self.entries.get_mut(&key), item) {
                (
                    Some(Item {
                        raw: Raw::Table(below),
                        origin,
                    }),
                    Item {
                        raw: Raw::Table(table),
                        origin: at,
                    },
                ) => {
                    below.overlay(table);
                    *origin = at;
                }
                (_, item) => {
                    self.entries.insert(key, item);
                }
            }
        }
    }

    /// Puts in what the command line says.
    pub(crate) fn override_with(&mut self, overrides: &Overrides) {
        if let Some(data) = &overrides.data_dir {
            let text = data.to_string_lossy().into_owned();
            self.set("data-dir", Raw::Text(text), Origin::CommandLine("--data"));
        }
        if let Some(listen) = &overrides.api_listen {
            let text = Raw::Text(listen.to_string());
            self.set("api.listen", text, Origin::CommandLine("--listen"));
        }
    }
}
