//! Settings one by one: what each is, and where it came from.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Secret;
use serde_json::Value;

use crate::tree::Origin;
use crate::{HttpUrl, Reference};

/// One setting.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its full name: "api.listen", "backend.2.url".
    pub name: String,
    /// What it is.
    pub value: Plain,
    /// Where it came from.
    pub origin: Origin,
}

/// A value as a site file writes it. Prints as one, but for secrets.
#[derive(Clone, PartialEq, Debug)]
pub enum Plain {
    /// It has no value and needs none.
    Unset,
    /// A text.
    Text(String),
    /// A text that is not printed.
    Secret(Secret),
    /// A number.
    Integer(u64),
    /// A truth.
    Boolean(bool),
    /// Several texts.
    Texts(Vec<String>),
    /// What a plugin is given.
    Json(Value),
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("(not set)"),
            Self::Text(text) => write!(f, "{}", Quoted(text)),
            Self::Secret(secret) => write!(f, "{secret}"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Boolean(truth) => write!(f, "{truth}"),
            Self::Texts(texts) => {
                let texts: Vec<_> = texts.iter().map(|text| Quoted(text).to_string()).collect();
                write!(f, "[{}]", texts.join(", "))
            }
            Self::Json(value) => write_json(f, value),
        }
    }
}

/// JSON as TOML has it, on one line. There is no null in either: a plugin's tables come from a site file.
fn write_json(f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Null => f.write_str("{}"),
        Value::Bool(truth) => write!(f, "{truth}"),
        Value::Number(number) => write!(f, "{number}"),
        Value::String(text) => write!(f, "{}", Quoted(text)),
        Value::Array(values) => {
            f.write_str("[")?;
            for (place, value) in values.iter().enumerate() {
                f.write_str(if place == 0 { "" } else { ", " })?;
                write_json(f, value)?;
            }
            f.write_str("]")
        }
        Value::Object(entries) if entries.is_empty() => f.write_str("{}"),
        Value::Object(entries) => {
            f.write_str("{ ")?;
            for (place, (key, value)) in entries.iter().enumerate() {
                f.write_str(if place == 0 { "" } else { ", " })?;
                write!(f, "{} = ", Key(key))?;
                write_json(f, value)?;
            }
            f.write_str(" }")
        }
    }
}

/// A basic string of TOML.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                c if c.is_control() => write!(f, "\\u{:04X}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

/// A key of TOML, quoted if it has to be.
pub(crate) struct Key<'a>(pub(crate) &'a str);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_bare = !self.0.is_empty()
            && self
                .0
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        match is_bare {
            true => f.write_str(self.0),
            false => write!(f, "{}", Quoted(self.0)),
        }
    }
}

/// Collects the settings of a section; each section writes what it takes.
#[derive(Default)]
pub(crate) struct Out {
    prefix: String,
    entries: Vec<(String, Plain)>,
}

impl Out {
    pub(crate) fn put(&mut self, key: &str, value: impl Into<Plain>) {
        self.entries.push((format!("{}{key}", self.prefix), value.into()));
    }

    /// What is in a table of that name.
    pub(crate) fn section(&mut self, key: &str, write: impl FnOnce(&mut Self)) {
        let length = self.prefix.len();
        self.prefix.push_str(key);
        self.prefix.push('.');
        write(self);
        self.prefix.truncate(length);
    }

    pub(crate) fn into_entries(self) -> Vec<(String, Plain)> {
        self.entries
    }
}

/// The word for a value of a [`crate::section::Section::choice`].
pub(crate) fn word<T: PartialEq>(choices: &[(&'static str, T)], value: &T) -> &'static str {
    let found = choices.iter().find(|(_, known)| known == value);
    found.map_or("", |(word, _)| *word)
}

impl From<&str> for Plain {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Plain {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<String> for Plain {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&Path> for Plain {
    fn from(path: &Path) -> Self {
        Self::Text(path.to_string_lossy().into_owned())
    }
}

impl From<&PathBuf> for Plain {
    fn from(path: &PathBuf) -> Self {
        path.as_path().into()
    }
}

impl From<&HttpUrl> for Plain {
    fn from(url: &HttpUrl) -> Self {
        Self::Text(url.to_string())
    }
}

impl From<&Reference> for Plain {
    fn from(reference: &Reference) -> Self {
        match reference {
            // A path, since not every path is a URL.
            Reference::File(path) => path.into(),
            Reference::Url(_) | Reference::Glance(_) => Self::Text(reference.to_string()),
        }
    }
}

impl From<&Secret> for Plain {
    fn from(secret: &Secret) -> Self {
        Self::Secret(secret.clone())
    }
}

impl From<bool> for Plain {
    fn from(truth: bool) -> Self {
        Self::Boolean(truth)
    }
}

impl From<u64> for Plain {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Plain {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u16> for Plain {
    fn from(number: u16) -> Self {
        Self::Integer(number.into())
    }
}

/// In whole seconds, as names that end in `-s` have it.
impl From<Duration> for Plain {
    fn from(span: Duration) -> Self {
        Self::Integer(span.as_secs())
    }
}

impl From<Vec<String>> for Plain {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}

impl From<Value> for Plain {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

impl<T: Into<Plain>> From<Option<T>> for Plain {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unset, Into::into)
    }
}
