//! Takes settings out of the tree, one by one, and reports what is wrong with them.
//!
//! A section remembers what it was asked for. When it ends, what nobody asked for is unknown, and the names that were asked
//! for are those that could have been meant.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::nearest::nearest;
use crate::problem::{Problem, Warning};
use crate::tree::{Item, Origin, Raw, Table};
use crate::values::{FromItem, shown};

/// Collects problems, warnings and origins while sections are read.
#[derive(Default)]
pub(crate) struct Report(RefCell<Notes>);

#[derive(Default)]
struct Notes {
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
    origins: BTreeMap<String, Origin>,
}

impl Report {
    pub(crate) fn problem(&self, origin: Origin, message: String) {
        let problem = Problem { origin, message };
        self.0.borrow_mut().problems.push(problem);
    }

    pub(crate) fn warning(&self, origin: Origin, message: String) {
        let warning = Problem { origin, message };
        self.0.borrow_mut().warnings.push(warning);
    }

    /// Where a setting came from, by its full name.
    pub(crate) fn origin(&self, name: &str) -> Origin {
        let notes = self.0.borrow();
        notes.origins.get(name).cloned().unwrap_or(Origin::Default)
    }

    /// Somebody set it.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.origin(name) != Origin::Default
    }

    /// Problems in the order of the file.
    pub(crate) fn into_parts(self) -> (Vec<Problem>, Vec<Warning>, BTreeMap<String, Origin>) {
        let mut notes = self.0.into_inner();
        notes.problems.sort_by_key(|problem| match &problem.origin {
            Origin::File { line, .. } => *line,
            Origin::CommandLine(_) | Origin::Default => usize::MAX,
        });
        (notes.problems, notes.warnings, notes.origins)
    }
}

/// A table of settings being read.
pub(crate) struct Section<'a> {
    report: &'a Report,
    /// As a message names it: "[api]", "[[backend]] 2", "" for the top.
    label: String,
    /// Full name of what is in it: "api.", "backend.2.", "".
    prefix: String,
    /// Where it begins.
    pub(crate) origin: Origin,
    entries: BTreeMap<String, Item>,
    asked: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(crate) fn root(tree: Table, report: &'a Report) -> Self {
        Self {
            report,
            label: String::new(),
            prefix: String::new(),
            origin: Origin::Default,
            entries: tree.entries,
            asked: Vec::new(),
        }
    }

    /// The setting as it stands, or nothing.
    pub(crate) fn item(&mut self, key: &'static str) -> Option<Item> {
        self.asked.push(key);
        let item = self.entries.remove(key);
        let origin = item.as_ref().map_or(Origin::Default, |item| item.origin.clone());
        let name = format!("{}{key}", self.prefix);
        self.report.0.borrow_mut().origins.insert(name, origin);
        item
    }

    /// The setting; nothing if it is absent or wrong, which is reported.
    pub(crate) fn value<T: FromItem>(&mut self, key: &'static str) -> Option<T> {
        let item = self.item(key)?;
        match T::from_item(&item) {
            Ok(value) => Some(value),
            Err(wrong) => {
                let message = self.message(key, &wrong.reason);
                self.report.problem(wrong.origin.unwrap_or(item.origin), message);
                None
            }
        }
    }

    /// A setting that must be there.
    pub(crate) fn required<T: FromItem>(&mut self, key: &'static str, remedy: &str) -> Option<T> {
        if !self.entries.contains_key(key) {
            self.asked.push(key);
            let message = self.message(key, &format!("is missing; {remedy}"));
            self.report.problem(self.origin.clone(), message);
            return None;
        }
        self.value(key)
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Option<T> {
        let item = self.item(key)?;
        if let Raw::Text(text) = &item.raw
            && let Some((_, value)) = choices.iter().find(|(word, _)| word == text)
        {
            return Some(*value);
        }
        let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
        let reason = format!("{} must be one of: {}", shown(&item.raw), words.join(", "));
        let message = self.message(key, &reason);
        self.report.problem(item.origin, message);
        None
    }

    /// A whole number within a range.
    pub(crate) fn number(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let item = self.item(key)?;
        if let Raw::Integer(number) = &item.raw
            && let Ok(number) = u64::try_from(*number)
            && range.contains(&number)
        {
            return Some(number);
        }
        let (least, most) = range.into_inner();
        let reason = format!("{} must be a whole number from {least} to {most}", shown(&item.raw));
        let message = self.message(key, &reason);
        self.report.problem(item.origin, message);
        None
    }

    /// A span in seconds (names end in `-s`).
    pub(crate) fn seconds(&mut self, key: &'static str, range: RangeInclusive<u64>, default: u64) -> Duration {
        Duration::from_secs(self.number(key, range).unwrap_or(default))
    }

    /// A table inside this one; an empty one if it is absent.
    pub(crate) fn section(&mut self, key: &'static str) -> Section<'a> {
        self.asked.push(key);
        let label = if self.prefix.is_empty() {
            format!("[{key}]")
        } else {
            format!("{} {key}", self.label)
        };
        let item = self.entries.remove(key);
        let entries = item.map(|item| match item.raw {
            Raw::Table(table) => (table.entries, item.origin),
            other => {
                let reason = format!("must be a table, not {}", other.kind());
                self.report.problem(item.origin.clone(), self.message(key, &reason));
                (BTreeMap::new(), item.origin)
            }
        });
        let (entries, origin) = entries.unwrap_or((BTreeMap::new(), Origin::Default));
        Section {
            report: self.report,
            label,
            prefix: format!("{}{key}.", self.prefix),
            origin,
            entries,
            asked: Vec::new(),
        }
    }

    /// Tables of that name (`[[key]]`), in their order.
    pub(crate) fn sections(&mut self, key: &'static str) -> Vec<Section<'a>> {
        self.asked.push(key);
        let Some(item) = self.entries.remove(key) else {
            return Vec::new();
        };
        let wrong = |kind: &str, origin: Origin| {
            let message = format!("{key} must be written as [[{key}]] tables, not as {kind}");
            self.report.problem(origin, message);
        };
        let Raw::List(items) = item.raw else {
            wrong(item.raw.kind(), item.origin);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (place, item) in items.into_iter().enumerate() {
            let place = place + 1;
            match item.raw {
                Raw::Table(table) => sections.push(Section {
                    report: self.report,
                    label: format!("[[{key}]] {place}"),
                    prefix: format!("{key}.{place}."),
                    origin: item.origin,
                    entries: table.entries,
                    asked: Vec::new(),
                }),
                other => wrong(other.kind(), item.origin),
            }
        }
        sections
    }

    /// Everything that is left, for tables whose names are the site's own.
    pub(crate) fn rest(&mut self) -> BTreeMap<String, Item> {
        std::mem::take(&mut self.entries)
    }

    /// Reports a setting that is wrong in itself or beside others.
    pub(crate) fn problem(&self, key: &str, reason: &str) {
        let origin = self.report.origin(&format!("{}{key}", self.prefix));
        let origin = match origin {
            Origin::Default => self.origin.clone(),
            set => set,
        };
        self.report.problem(origin, self.message(key, reason));
    }

    /// Like [`Section::problem`], for an entry deeper in the tree.
    pub(crate) fn problem_at(&self, origin: Origin, key: &str, reason: &str) {
        self.report.problem(origin, self.message(key, reason));
    }

    /// Nobody set it.
    pub(crate) fn is_absent(&self, key: &str) -> bool {
        !self.entries.contains_key(key)
    }

    /// No more is asked for: what is left is unknown.
    pub(crate) fn end(self) {
        for (key, item) in &self.entries {
            let remedy = match nearest(key, &self.asked) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("known here: {}", self.asked.join(", ")),
            };
            let is_section = matches!(item.raw, Raw::Table(_)) && self.prefix.is_empty();
            let what = if is_section { "section" } else { "setting" };
            let message = self.message(key, &format!("is no {what} that Farrier knows; {remedy}"));
            self.report.problem(item.origin.clone(), message);
        }
    }

    fn message(&self, key: &str, reason: &str) -> String {
        if self.label.is_empty() {
            format!("{key} {reason}")
        } else {
            format!("{} {key} {reason}", self.label)
        }
    }
}
