//! Between columns and our types.

use std::str::FromStr;

use rusqlite::Row;

use super::trouble::Trouble;
use crate::StoreError;

/// Numbers of ours are counted up from 0 and stay far below 2^63; one from outside that does not matches nothing.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of ours out of a column.
pub(super) fn number(row: &Row<'_>, column: &str) -> Result<u64, Trouble> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| corrupt(column, &format!("{value} is negative")))
}

/// A text that parses.
pub(super) fn parsed<T>(row: &Row<'_>, column: &str) -> Result<T, Trouble>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let text: String = row.get(column)?;
    text.parse()
        .map_err(|error: T::Err| corrupt(column, &error.to_string()))
}

/// A text that parses, or NULL.
pub(super) fn parsed_option<T>(row: &Row<'_>, column: &str) -> Result<Option<T>, Trouble>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let text: Option<String> = row.get(column)?;
    text.map(|text| text.parse())
        .transpose()
        .map_err(|error: T::Err| corrupt(column, &error.to_string()))
}

/// A record that cannot be understood.
pub(super) fn corrupt(place: &str, reason: &str) -> Trouble {
    Trouble::Refused(StoreError::Corrupt {
        place: format!("`{place}` of a stored record"),
        reason: format!("{reason}; somebody else changed it, or the disk did: restore a backup"),
    })
}

/// At most `limit` characters of a text for people.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    match text.char_indices().nth(limit) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}
