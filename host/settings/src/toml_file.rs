//! Reads `farrier.toml` into the tree.

use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::{Problem, SettingsError};
use crate::tree::{Item, Origin, Raw, Table};

/// A site file is written by hand; more than this is not one.
const MOST_BYTES: u64 = 4 << 20;

pub(crate) fn read(file: &Path) -> Result<Table, SettingsError> {
    let refuse = |line: Option<usize>, message: String| SettingsError {
        problems: vec![Problem {
            origin: match line {
                Some(line) => Origin::File {
                    file: file.into(),
                    line,
                },
                None => Origin::Default,
            },
            message,
        }],
        warnings: Vec::new(),
    };
    let unreadable = |reason: String| refuse(None, format!("{}: {reason}", file.display()));
    let found = std::fs::metadata(file).map_err(|error| {
        unreadable(format!(
            "cannot be read: {error}; give another --config, or none for a site of defaults"
        ))
    })?;
    if !found.is_file() || found.len() > MOST_BYTES {
        return Err(unreadable(format!(
            "is no site file: it must be a regular file of at most {MOST_BYTES} bytes"
        )));
    }
    let bytes = std::fs::read(file).map_err(|error| {
        unreadable(format!(
            "cannot be read: {error}; it must be readable for the user that Farrier runs as"
        ))
    })?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = line_of(&error.as_bytes()[..good], good);
        refuse(Some(line), "is not UTF-8 text; save the file as UTF-8".into())
    })?;
    let parsed = DeTable::parse(&text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = line_of(text.as_bytes(), at);
        refuse(
            Some(line),
            format!("is not TOML: {}; correct this line", error.message().trim()),
        )
    })?;
    let reader = Reader {
        file: file.into(),
        line_starts: line_starts(&text),
    };
    Ok(reader.table(parsed.get_ref()))
}

struct Reader {
    file: Arc<Path>,
    line_starts: Vec<usize>,
}

impl Reader {
    fn table(&self, table: &DeTable<'_>) -> Table {
        let entry = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let key: &Spanned<std::borrow::Cow<'_, str>> = key;
            // The line of the key: that is where an operator looks.
            let item = self.item(value, key.span().start);
            (key.get_ref().to_string(), item)
        };
        Table {
            entries: table.iter().map(entry).collect(),
        }
    }

    fn item(&self, value: &Spanned<DeValue<'_>>, at: usize) -> Item {
        let raw = match value.get_ref() {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => Raw::Integer(number),
                    // Beyond 64 bits: no setting is, and the message shows it as it stands.
                    Err(_) => Raw::Moment(number.to_string()),
                }
            }
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(number) => Raw::Float(number),
                Err(_) => Raw::Moment(number.as_str().to_owned()),
            },
            DeValue::Boolean(truth) => Raw::Boolean(*truth),
            DeValue::Datetime(moment) => Raw::Moment(moment.to_string()),
            DeValue::Array(items) => {
                let item = |item: &Spanned<DeValue<'_>>| self.item(item, item.span().start);
                Raw::List(items.iter().map(item).collect())
            }
            DeValue::Table(table) => Raw::Table(self.table(table)),
        };
        Item {
            raw,
            origin: Origin::File {
                file: self.file.clone(),
                line: self.line_starts.partition_point(|start| *start <= at),
            },
        }
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    let after_newlines = text.match_indices('\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(after_newlines).collect()
}

fn line_of(text: &[u8], at: usize) -> usize {
    let before = &text[..at.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}
