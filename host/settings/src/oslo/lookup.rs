//! What an option is set to by several files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::files::ReadFile;
use super::lines::Assignment;
use super::option::{Opt, Other, Why};
use super::parse::{Value, parse};
use super::substitute::Trail;

/// Of a value that must not be shown.
const NO_REFERENCE: &str = "holds a `$` that refers to no option that could be used; write `$$` for a dollar sign";

/// Files, and the options that they may set.
pub(crate) struct Conf {
    pub(super) files: Vec<ReadFile>,
    pub(super) options: BTreeMap<(&'static str, &'static str), &'static Opt>,
    others: BTreeMap<(&'static str, &'static str), &'static Opt>,
    pub(super) groups: BTreeSet<&'static str>,
    /// Defaults that the machine gives, before those of the table.
    own: BTreeMap<(&'static str, &'static str), String>,
}

/// Where an option was set.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct At {
    pub(crate) file: Arc<Path>,
    pub(crate) line: usize,
    /// The section as it is compared.
    pub(crate) group: String,
    pub(crate) name: String,
    /// Why it goes by that name, if it is not its own.
    pub(crate) why: Option<Why>,
}

impl At {
    /// `[group] name`
    pub(crate) fn label(&self) -> String {
        format!("[{}] {}", self.group, self.name)
    }
}

/// An option's value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Found {
    pub(crate) value: Value,
    /// `None` = nobody set it.
    pub(crate) at: Option<At>,
    /// It must not be printed: it is a secret, or one went into it.
    pub(crate) is_secret: bool,
}

/// An option cannot be used as it is set.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Wrong {
    pub(crate) at: Option<At>,
    /// Goes on after the option's name; says what is wrong, and the remedy.
    pub(crate) reason: String,
}

/// An assignment and the file that it is in.
#[derive(Clone, Copy)]
pub(super) struct Set<'a> {
    file: &'a ReadFile,
    pub(super) assignment: &'a Assignment,
    why: Option<Why>,
}

impl Set<'_> {
    fn at(&self) -> At {
        At {
            file: Arc::clone(&self.file.path),
            line: self.assignment.line,
            group: self.assignment.group.clone(),
            name: self.assignment.name.clone(),
            why: self.why,
        }
    }
}

impl Conf {
    /// Of these files, the later ones winning, and these options.
    pub(crate) fn new(files: Vec<ReadFile>, options: impl IntoIterator<Item = &'static Opt>) -> Self {
        let options: BTreeMap<_, _> = options.into_iter().map(|opt| ((opt.group, opt.name), opt)).collect();
        let groups = options.keys().map(|(group, _)| *group).collect();
        let others = options.values().flat_map(|opt| {
            let others = opt.others.iter();
            others.map(|other| ((other.group, other.name), *opt))
        });
        Self {
            files,
            others: others.collect(),
            options,
            groups,
            own: BTreeMap::new(),
        }
    }

    /// Gives an option a default that only this machine knows.
    pub(crate) fn set_default(&mut self, group: &'static str, name: &'static str, value: String) {
        self.own.insert((group, name), value);
    }

    pub(crate) fn files(&self) -> &[ReadFile] {
        &self.files
    }

    /// What an option is set to, or its default.
    pub(crate) fn value(&self, opt: &'static Opt) -> Result<Found, Wrong> {
        self.value_on(opt, &mut Trail::default())
    }

    /// The text of an option, known or not, a list's with commas; `None` = nobody set it.
    pub(crate) fn text(&self, group: &str, name: &str) -> Result<Option<(String, At)>, Wrong> {
        if let Some(opt) = self.option(group, name) {
            let found = self.value(opt)?;
            let text = match &found.value {
                Value::List(values) => values.iter().map(Value::in_text).collect::<Vec<_>>().join(","),
                value => value.in_text(),
            };
            return Ok(found.at.map(|at| (text, at)));
        }
        let Some((file, assignment)) = self.last(group, name) else {
            return Ok(None);
        };
        let at = Set {
            file,
            assignment,
            why: None,
        }
        .at();
        let mut trail = Trail::default();
        let replaced = trail
            .enter(group, name)
            .and_then(|()| self.substitute(assignment.value.expose(), group, &mut trail));
        match replaced {
            Ok((text, _)) => Ok(Some((text, at))),
            // What stands behind the dollar sign may be a part of a password.
            Err(_) => Err(Wrong {
                at: Some(at),
                reason: NO_REFERENCE.to_owned(),
            }),
        }
    }

    /// Which option goes by a name.
    pub(crate) fn option(&self, group: &str, name: &str) -> Option<&'static Opt> {
        let known = self.options.get(&(group, name));
        known.or_else(|| self.others.get(&(group, name))).copied()
    }

    pub(super) fn value_on(&self, opt: &'static Opt, trail: &mut Trail) -> Result<Found, Wrong> {
        let own = self.found(opt, &self.names_of_today(opt), trail)?;
        let mut equal = own;
        for other in opt.others.iter().filter(|other| other.why == Why::Equal) {
            let found = self.found(opt, &[(other.group, other.name, Some(Why::Equal))], trail)?;
            equal = same(equal, found)?;
        }
        if let Some(found) = equal {
            return Ok(found);
        }
        for other in opt.others.iter().filter(|other| other.why == Why::Former) {
            if let Some(found) = self.found(opt, &[(other.group, other.name, Some(Why::Former))], trail)? {
                return Ok(found);
            }
        }
        self.default(opt, trail)
    }

    /// The name and those that oslo.config takes for it.
    fn names_of_today(&self, opt: &'static Opt) -> Vec<Name> {
        let renamed = |other: &'static Other| (other.group, other.name, Some(other.why));
        let others = opt.others.iter().filter(|other| other.why == Why::Renamed);
        std::iter::once((opt.group, opt.name, None))
            .chain(others.map(renamed))
            .collect()
    }

    fn default(&self, opt: &'static Opt, trail: &mut Trail) -> Result<Found, Wrong> {
        let here = self.own.get(&(opt.group, opt.name)).map(String::as_str);
        let Some(text) = here.or(opt.default) else {
            return Ok(Found {
                value: Value::Null,
                at: None,
                is_secret: opt.secret,
            });
        };
        let (value, is_secret) = self.typed(opt, text, trail).map_err(|reason| Wrong {
            at: None,
            reason: format!("is not set, and its default cannot be used: it {reason}"),
        })?;
        let value = match opt.kind.is_multi() {
            true => Value::List(vec![value]),
            false => value,
        };
        Ok(Found {
            value,
            at: None,
            is_secret,
        })
    }

    /// What the files say under these names; in each file, the first of them counts.
    fn found(&self, opt: &'static Opt, names: &[Name], trail: &mut Trail) -> Result<Option<Found>, Wrong> {
        let mut sets: Vec<Set<'_>> = Vec::new();
        'files: for file in self.files.iter().rev() {
            for (group, name, why) in names {
                let here = file.lines.of(group, name).map(|assignment| Set {
                    file,
                    assignment,
                    why: *why,
                });
                let here: Vec<Set<'_>> = here.collect();
                if here.is_empty() {
                    continue;
                }
                sets.splice(0..0, here);
                if !opt.kind.is_multi() {
                    break 'files;
                }
            }
        }
        let Some(last) = sets.last() else {
            return Ok(None);
        };
        let mut values = Vec::new();
        let mut is_secret = false;
        let counting = if opt.kind.is_multi() {
            &sets[..]
        } else {
            std::slice::from_ref(last)
        };
        for set in counting {
            let typed = self.typed(opt, set.assignment.value.expose(), trail);
            let (value, secret) = typed.map_err(|reason| Wrong {
                at: Some(set.at()),
                reason,
            })?;
            values.push(value);
            is_secret |= secret;
        }
        let value = match opt.kind.is_multi() {
            true => Value::List(values),
            false => values.pop().unwrap_or(Value::Null),
        };
        Ok(Some(Found {
            value,
            at: Some(last.at()),
            is_secret,
        }))
    }

    fn typed(&self, opt: &'static Opt, text: &str, trail: &mut Trail) -> Result<(Value, bool), String> {
        trail.enter(opt.group, opt.name)?;
        let replaced = self.substitute(text, opt.group, trail);
        trail.leave();
        let (text, is_secret) = match replaced {
            Ok(replaced) => replaced,
            // What stands behind the dollar sign may be a part of a password.
            Err(_) if opt.secret => {
                return Err(
                    "holds a `$` that refers to no option that could be used; write `$$` for a dollar sign".into(),
                );
            }
            Err(reason) => return Err(reason),
        };
        Ok((parse(opt.kind, &text)?, is_secret || opt.secret))
    }

    /// The last assignment of that name in any file, whether or not somebody knows the option.
    pub(super) fn last(&self, group: &str, name: &str) -> Option<(&ReadFile, &Assignment)> {
        let mut files = self.files.iter().rev();
        files.find_map(|file| Some((file, file.lines.of(group, name).next_back()?)))
    }
}

/// A group, a name, and why it is another one than the option's own.
type Name = (&'static str, &'static str, Option<Why>);

/// Two names that are as good: if both are set, their values must be the same.
fn same(left: Option<Found>, right: Option<Found>) -> Result<Option<Found>, Wrong> {
    match (left, right) {
        (Some(left), Some(right)) if left.value != right.value => {
            let other = right.at.as_ref().map_or_else(String::new, |at| {
                format!("{} ({}:{})", at.label(), at.file.display(), at.line)
            });
            Err(Wrong {
                at: left.at,
                reason: format!("and {other} are two names of one option with different values; keep one of them"),
            })
        }
        (left, right) => Ok(left.or(right)),
    }
}
