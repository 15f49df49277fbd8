//! Takes settings out of the tree, one by one, and reports what is wrong with them.
//!
//! A section remembers what it was asked for. When it ends, what nobody asked for is unknown, and the names that were asked
//! for are those that could have been meant.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use model::Secret;

use crate::nearest::nearest;
use crate::problem::{Problem, Warning};
use crate::secret_file;
use crate::tree::{Item, Origin, Raw, Table};
use crate::values::{FromItem, Size, shown};

/// Collects problems, warnings and origins while sections are read.
#[derive(Default)]
pub(crate) struct Report(RefCell<Notes>);

/// What a [`Report`] has collected.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) origins: BTreeMap<String, Origin>,
    pub(crate) secret_files: BTreeMap<String, PathBuf>,
}

impl Report {
    pub(crate) fn problem(&self, origin: Origin, message: String) {
        let problem = Problem { origin, message };
        self.0.borrow_mut().problems.push(problem);
    }

    pub(crate) fn problems(&self, problems: Vec<Problem>) {
        self.0.borrow_mut().problems.extend(problems);
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

    /// It stands in a file, cannot be used, and that is reported: what its absence would mean is no news then.
    pub(crate) fn is_wrong(&self, name: &str) -> bool {
        let origin = self.origin(name);
        let notes = self.0.borrow();
        origin != Origin::Default && notes.problems.iter().any(|problem| problem.origin == origin)
    }

    /// Somebody set it.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.origin(name) != Origin::Default
    }

    /// How a message names a setting: as the option of ironic.conf that set it, else by its own label.
    pub(crate) fn label(&self, name: &str, own: &str) -> String {
        match self.origin(name).option() {
            Some(option) => option.to_owned(),
            None => own.to_owned(),
        }
    }

    /// Problems and warnings in the order of the files; those of no file come last.
    pub(crate) fn into_notes(self) -> Notes {
        let mut notes = self.0.into_inner();
        notes.problems.sort_by(by_place);
        notes.warnings.sort_by(by_place);
        notes
    }
}

fn by_place(left: &Problem, right: &Problem) -> Ordering {
    match (left.origin.place(), right.origin.place()) {
        (Some(left), Some(right)) => left.cmp(&right),
        (left, right) => left.is_none().cmp(&right.is_none()),
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
                let origin = wrong.origin.unwrap_or(item.origin);
                let message = self.message_at(&origin, key, &wrong.reason);
                self.report.problem(origin, message);
                None
            }
        }
    }

    /// A secret, in the file itself or in a file of its own; at most one of the two.
    pub(crate) fn secret_if_set(&mut self, key: &'static str, file_key: &'static str) -> Option<Secret> {
        let place = format!("{}{key}", self.prefix);
        let here: Option<Secret> = self.value(key);
        let there: Option<PathBuf> = self.value(file_key);
        match (here, there) {
            (Some(_), Some(_)) => {
                self.problem(file_key, &format!("and {key} are both set; keep one of them"));
                None
            }
            (here, None) => here,
            (None, Some(file)) => match secret_file::read(&file) {
                Ok(secret) => {
                    self.report.0.borrow_mut().secret_files.insert(place, file);
                    Some(secret)
                }
                Err(reason) => {
                    self.problem(file_key, &format!("cannot be used: {}: {reason}", file.display()));
                    None
                }
            },
        }
    }

    /// A secret that must be there.
    pub(crate) fn secret(&mut self, key: &'static str, file_key: &'static str, remedy: &str) -> Option<Secret> {
        let is_absent = self.is_absent(key) && self.is_absent(file_key);
        let secret = self.secret_if_set(key, file_key);
        if is_absent {
            self.missing(file_key, remedy);
        }
        secret
    }

    /// Reports a setting that must be there and is not.
    pub(crate) fn missing(&self, key: &str, remedy: &str) {
        let message = self.message(key, &format!("is missing; {remedy}"));
        self.report.problem(self.origin.clone(), message);
    }

    /// A text that goes on a kernel line.
    pub(crate) fn line(&mut self, key: &'static str) -> Option<String> {
        let text: String = self.value(key)?;
        if text.contains(char::is_control) {
            self.problem(key, "must be one line, without tabs or other control characters");
            return None;
        }
        Some(text)
    }

    /// A setting that must be there.
    pub(crate) fn required<T: FromItem>(&mut self, key: &'static str, remedy: &str) -> Option<T> {
        if !self.entries.contains_key(key) {
            self.asked.push(key);
            self.missing(key, remedy);
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
        let message = self.message_at(&item.origin, key, &reason);
        self.report.problem(item.origin, message);
        None
    }

    /// A list of some of a few words.
    pub(crate) fn choices<T: Copy>(&mut self, key: &'static str, choices: &[(&'static str, T)]) -> Vec<T> {
        let Some(words) = self.value::<Vec<String>>(key) else {
            return Vec::new();
        };
        let mut chosen = Vec::new();
        for word in words {
            match choices.iter().find(|(known, _)| *known == word) {
                Some((_, value)) => chosen.push(*value),
                None => {
                    let known: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
                    let cut: String = word.chars().take(80).collect();
                    self.problem(key, &format!("names {cut:?}, which is none of: {}", known.join(", ")));
                }
            }
        }
        chosen
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
        let message = self.message_at(&item.origin, key, &reason);
        self.report.problem(item.origin, message);
        None
    }

    /// A number of bytes within a range.
    pub(crate) fn size(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let Size(size) = self.value(key)?;
        if range.contains(&size) {
            return Some(size);
        }
        let (least, most) = range.into_inner();
        self.problem(key, &format!("= {size} must be from {least} to {most} bytes"));
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

    /// A table of texts whose names are the site's own.
    pub(crate) fn texts(&mut self, key: &'static str) -> BTreeMap<String, String> {
        let mut section = self.section(key);
        let mut texts = BTreeMap::new();
        for (name, item) in section.rest() {
            match String::from_item(&item) {
                Ok(text) => {
                    let full = format!("{}{name}", section.prefix);
                    self.report.0.borrow_mut().origins.insert(full, item.origin);
                    texts.insert(name, text);
                }
                Err(wrong) => section.problem_at(item.origin, &name, &wrong.reason),
            }
        }
        texts
    }

    /// Nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
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

    /// The tables that are left, for tables whose names are the site's own.
    pub(crate) fn named_sections(&mut self) -> Vec<(String, Section<'a>)> {
        let rest = self.rest();
        let mut sections = Vec::new();
        for (key, item) in rest {
            let Raw::Table(table) = item.raw else {
                let reason = format!("must be a table, not {}", item.raw.kind());
                self.problem_at(item.origin, &key, &reason);
                continue;
            };
            let section = Section {
                report: self.report,
                label: format!("{} {key}", self.label),
                prefix: format!("{}{key}.", self.prefix),
                origin: item.origin,
                entries: table.entries,
                asked: Vec::new(),
            };
            sections.push((key, section));
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
        let message = self.message_at(&origin, key, reason);
        self.report.problem(origin, message);
    }

    /// Like [`Section::problem`], for an entry deeper in the tree.
    pub(crate) fn problem_at(&self, origin: Origin, key: &str, reason: &str) {
        let message = self.message_at(&origin, key, reason);
        self.report.problem(origin, message);
    }

    /// Somebody set it, and it was taken.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.report.is_set(&format!("{}{key}", self.prefix))
    }

    /// Reports a setting that has no use without another; not if that one was given and is wrong, which is reported already.
    pub(crate) fn needs_beside(&self, key: &str, missing: &str, why: &str) {
        if !self.is_set(missing) {
            self.problem(key, &format!("needs {missing} beside it{why}"));
        }
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

    /// Names the setting as the option of ironic.conf that said it, if one did.
    fn message_at(&self, origin: &Origin, key: &str, reason: &str) -> String {
        match origin.option() {
            Some(option) => format!("{option} {reason}"),
            None => self.message(key, reason),
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
