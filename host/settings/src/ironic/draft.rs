//! Options looked up, and the settings that come of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use model::Secret;

use super::table::{self, Fate, Row};
use crate::machine::Machine;
use crate::oslo::lookup::{At, Conf, Found, Wrong};
use crate::oslo::option::{Opt, Why};
use crate::oslo::parse::Value;
use crate::section::Report;
use crate::tree::{Origin, Raw, Table};

/// The translation under way.
pub(super) struct Draft<'a> {
    pub(super) conf: &'a Conf,
    /// What farrier.toml sets.
    pub(super) site: &'a Table,
    pub(super) machine: &'a Machine,
    pub(super) report: &'a Report,
    /// What has come of it.
    pub(super) tree: Table,
    found: BTreeMap<(&'static str, &'static str), Found>,
    wrong: BTreeSet<(&'static str, &'static str)>,
}

impl At {
    /// For messages about a setting that came from there.
    pub(super) fn origin(&self) -> Origin {
        Origin::Option {
            file: Arc::clone(&self.file),
            line: self.line,
            option: self.label().into(),
        }
    }
}

impl<'a> Draft<'a> {
    /// Looks every option up that is read; what is wrong with one, and names that are not those of today, are reported.
    pub(super) fn new(conf: &'a Conf, site: &'a Table, machine: &'a Machine, report: &'a Report) -> Self {
        let mut draft = Self {
            conf,
            site,
            machine,
            report,
            tree: Table::default(),
            found: BTreeMap::new(),
            wrong: BTreeSet::new(),
        };
        for row in table::rows() {
            if matches!(row.fate, Fate::Instead(_)) {
                continue;
            }
            match conf.value(&row.opt) {
                Ok(found) => draft.take(row, found),
                Err(wrong) => draft.refuse(&row.opt, wrong),
            }
        }
        draft
    }

    fn take(&mut self, row: &'static Row, found: Found) {
        let opt = &row.opt;
        if let Some(at) = &found.at {
            if matches!(at.why, Some(Why::Renamed | Why::Former)) {
                let message = format!("{} is deprecated; write it as {}", at.label(), opt.label());
                self.report.warning(at.origin(), message);
            }
            if let (Fate::Always(value, instead), Value::Boolean(given)) = (row.fate, &found.value)
                && value != *given
            {
                let given = if *given { "True" } else { "False" };
                let message = format!("{} = {given} has no effect: {instead}", at.label());
                self.report.warning(at.origin(), message);
            }
        }
        self.found.insert((opt.group, opt.name), found);
    }

    /// Reports an option that cannot be used.
    fn refuse(&mut self, opt: &'static Opt, wrong: Wrong) {
        let label = wrong.at.as_ref().map_or_else(|| opt.label(), At::label);
        let origin = wrong.at.as_ref().map_or(Origin::Default, At::origin);
        self.report.problem(origin, format!("{label} {}", wrong.reason));
        self.wrong.insert((opt.group, opt.name));
    }

    /// Somebody set it to what cannot be used, which has been reported: nothing more can be said of what hangs on it.
    pub(super) fn is_wrong(&self, options: &[(&'static str, &'static str)]) -> bool {
        options.iter().any(|option| self.wrong.contains(option))
    }

    /// What somebody set it to, and where.
    pub(super) fn set(&self, group: &'static str, name: &'static str) -> Option<(&Found, &At)> {
        debug_assert!(
            self.conf.option(group, name).is_some_and(|opt| opt.name == name),
            "[{group}] {name} is not in the table"
        );
        let found = self.found.get(&(group, name))?;
        match (&found.value, &found.at) {
            // A number that is set to nothing is not set.
            (Value::Null, _) | (_, None) => None,
            (_, Some(at)) => Some((found, at)),
        }
    }

    /// Where it was set.
    pub(super) fn origin(&self, group: &'static str, name: &'static str) -> Origin {
        self.set(group, name).map_or(Origin::Default, |(_, at)| at.origin())
    }

    /// A text that is not empty.
    pub(super) fn text(&self, group: &'static str, name: &'static str) -> Option<&str> {
        match &self.set(group, name)?.0.value {
            Value::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The text, or its default.
    pub(super) fn text_or_default(&self, group: &'static str, name: &'static str) -> &str {
        match self.found.get(&(group, name)).map(|found| &found.value) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    pub(super) fn boolean(&self, group: &'static str, name: &'static str) -> Option<bool> {
        match self.set(group, name)?.0.value {
            Value::Boolean(truth) => Some(truth),
            _ => None,
        }
    }

    pub(super) fn whole(&self, group: &'static str, name: &'static str) -> Option<i64> {
        match self.set(group, name)?.0.value {
            Value::Whole(number) => Some(number),
            _ => None,
        }
    }

    /// The number, or its default.
    pub(super) fn whole_or_default(&self, group: &'static str, name: &'static str) -> i64 {
        match self.found.get(&(group, name)).map(|found| &found.value) {
            Some(Value::Whole(number)) => *number,
            _ => 0,
        }
    }

    pub(super) fn list(&self, group: &'static str, name: &'static str) -> Option<Vec<String>> {
        match &self.set(group, name)?.0.value {
            Value::List(values) => Some(values.iter().map(Value::in_text).collect()),
            _ => None,
        }
    }

    pub(super) fn dict(&self, group: &'static str, name: &'static str) -> Option<&[(String, String)]> {
        match &self.set(group, name)?.0.value {
            Value::Dict(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// Sets a setting.
    pub(super) fn put(&mut self, setting: &str, raw: Raw, origin: Origin) {
        self.tree.set(setting, raw, origin);
    }

    /// A text becomes a setting as it is.
    pub(super) fn copy(&mut self, group: &'static str, name: &'static str, setting: &str) {
        let Some(text) = self.text(group, name) else {
            return;
        };
        let raw = match self.conf.option(group, name).is_some_and(|opt| opt.secret) {
            true => Raw::Secret(Secret::new(text)),
            false => Raw::Text(text.to_owned()),
        };
        let origin = self.origin(group, name);
        self.put(setting, raw, origin);
    }

    /// A truth becomes a setting as it is.
    pub(super) fn copy_boolean(&mut self, group: &'static str, name: &'static str, setting: &str) {
        if let Some(truth) = self.boolean(group, name) {
            self.put(setting, Raw::Boolean(truth), self.origin(group, name));
        }
    }

    /// A number becomes a setting, brought into its range with a warning. Zero and less are `zero` where they mean never.
    pub(super) fn copy_number(&mut self, group: &'static str, name: &'static str, setting: &str, range: &Range) {
        let Some(number) = self.whole(group, name) else {
            return;
        };
        let taken = match range.never {
            Some(never) if number <= 0 => never,
            _ => number.clamp(range.least, range.most),
        };
        let origin = self.origin(group, name);
        if taken != number {
            self.report.warning(
                origin.clone(),
                format!(
                    "[{group}] {name} = {number} is not offered: {taken} is taken ({})",
                    range.unit
                ),
            );
        }
        self.put(setting, Raw::Integer(taken), origin);
    }

    /// The line of a section, for what is missing in it; else the beginning of the first file.
    pub(super) fn near(&self, groups: &[&str]) -> Origin {
        let files = self.conf.files();
        for group in groups {
            for file in files {
                let mut sections = file.lines.sections.iter();
                let here = sections.find(|(name, _)| crate::oslo::lines::group_name(name) == *group);
                if let Some((_, line)) = here {
                    return place(&file.path, *line);
                }
            }
        }
        files.first().map_or(Origin::Default, |file| place(&file.path, 1))
    }
}

fn place(file: &Arc<Path>, line: usize) -> Origin {
    Origin::File {
        file: Arc::clone(file),
        line,
    }
}

/// What a setting takes.
pub(super) struct Range {
    pub(super) least: i64,
    pub(super) most: i64,
    /// What stands for zero and less, if they mean never.
    pub(super) never: Option<i64>,
    /// For people.
    pub(super) unit: &'static str,
}
