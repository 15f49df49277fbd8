//! `$name`, `${name}` and `${group.name}` in a value: what that option is set to takes their place.
//!
//! A name alone is looked for in the section of the value, then in `DEFAULT`. `$$` and `\$` are a plain dollar sign; a
//! dollar sign before anything else stays as it is. An option that refers to itself and a name that there is not are
//! mistakes; so is a value that grows beyond all bounds.

use super::lookup::Conf;
use crate::nearest::nearest;

/// References on the way to one value.
const MOST_REFERENCES: usize = 1000;
/// Options that refer to one another in a row.
const DEEPEST: usize = 32;
/// Bytes of one value.
const LONGEST: usize = 64 << 10;

/// The way to a value: which options led here, and how much it has cost.
#[derive(Default)]
pub(super) struct Trail {
    way: Vec<(String, String)>,
    references: usize,
}

impl Trail {
    pub(super) fn enter(&mut self, group: &str, name: &str) -> Result<(), String> {
        let here = (group.to_owned(), name.to_owned());
        if let Some(start) = self.way.iter().position(|option| *option == here) {
            let round = self.way[start..].iter().chain([&here]);
            let round: Vec<_> = round.map(|(group, name)| format!("{group}.{name}")).collect();
            return Err(format!("refers to itself ({}); break the circle", round.join(" → ")));
        }
        if self.way.len() == DEEPEST {
            return Err(format!(
                "refers to options that refer to others, more than {DEEPEST} deep"
            ));
        }
        self.way.push(here);
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.way.pop();
    }

    fn refer(&mut self) -> Result<(), String> {
        self.references += 1;
        match self.references > MOST_REFERENCES {
            true => Err(format!(
                "leads to more than {MOST_REFERENCES} references to other options"
            )),
            false => Ok(()),
        }
    }
}

impl Conf {
    /// The text with its references replaced, and whether a secret went into it. The error goes on after the option's name.
    pub(super) fn substitute(&self, text: &str, group: &str, trail: &mut Trail) -> Result<(String, bool), String> {
        let text = text.replace("\\$", "$$");
        let mut replaced = String::new();
        let mut is_secret = false;
        let mut rest = text.as_str();
        while let Some(at) = rest.find('$') {
            let (before, from) = rest.split_at(at);
            replaced.push_str(before);
            let after = &from[1..];
            if let Some(after) = after.strip_prefix('$') {
                replaced.push('$');
                rest = after;
            } else if let Some((name, after)) = reference(after) {
                trail.refer()?;
                let (value, secret) = self.referred(name, group, trail)?;
                replaced.push_str(&value);
                is_secret |= secret;
                rest = after;
            } else {
                replaced.push('$');
                rest = after;
            }
            if replaced.len() > LONGEST {
                return Err(format!("has more than {LONGEST} bytes with its references replaced"));
            }
        }
        replaced.push_str(rest);
        Ok((replaced, is_secret))
    }

    fn referred(&self, name: &str, group: &str, trail: &mut Trail) -> Result<(String, bool), String> {
        let places = match name.split_once('.') {
            // No section of that name is asked by it.
            Some(("DEFAULT", option)) => {
                return Err(format!(
                    "refers to `${name}`; options of [DEFAULT] go by their name alone: `${{{option}}}`"
                ));
            }
            Some((group, option)) => vec![(group, option)],
            None => vec![(group, name), ("DEFAULT", name)],
        };
        for (group, option) in &places {
            if let Some(opt) = self.option(group, option) {
                let found = self.value_on(opt, trail).map_err(|wrong| {
                    let place = wrong
                        .at
                        .map_or_else(String::new, |at| format!("{}:{}: ", at.file.display(), at.line));
                    format!("refers to `${name}`: {place}{} {}", opt.label(), wrong.reason)
                })?;
                return Ok((found.value.in_text(), found.is_secret));
            }
        }
        // Other parts of the program that the file is for have options of their own.
        for (group, option) in &places {
            if let Some((_, set)) = self.last(group, option) {
                trail.enter(group, option)?;
                let replaced = self.substitute(set.value.expose(), group, trail);
                trail.leave();
                // Nobody here knows whether it is one.
                return Ok((replaced?.0, true));
            }
        }
        Err(self.unknown(name, &places))
    }

    fn unknown(&self, name: &str, places: &[(&str, &str)]) -> String {
        let in_places = |opt: &(&'static str, &'static str)| places.iter().any(|(group, _)| *group == opt.0);
        let known: Vec<&str> = self
            .options
            .keys()
            .filter(|opt| in_places(opt))
            .map(|opt| opt.1)
            .collect();
        let wanted = places.first().map_or(name, |(_, option)| *option);
        let meant = match nearest(wanted, &known) {
            Some(meant) => format!("; did you mean `{meant}`?"),
            None => String::new(),
        };
        let dotted = match name.split_once('.') {
            Some((group, rest)) if !self.groups.contains(group) => {
                format!(" or `${{{group}}}.{rest}` for {group} alone")
            }
            _ => String::new(),
        };
        format!("refers to `${name}`, which is no option{meant}; correct it, or write `$$` for a dollar sign{dotted}")
    }
}

/// The name that a text begins with, without the dollar sign before it, and what follows.
fn reference(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('{') {
        Some(braced) => {
            let (name, rest) = name(braced)?;
            Some((name, rest.strip_prefix('}')?))
        }
        None => name(text),
    }
}

fn name(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic()) {
        return None;
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
    Some(text.split_at(end.unwrap_or(text.len())))
}
