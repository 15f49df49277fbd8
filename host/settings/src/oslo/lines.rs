//! One file's text to assignments, as oslo.config's `iniparser` has it.
//!
//! A line that begins with a space or a tab continues the value before it; a blank line or a comment ends it; a comment
//! begins at the first character of its line and nowhere else. `=` or `:`, whichever comes first, ends the name. One pair
//! of quotes around the first line of a value is taken off.

use std::collections::BTreeMap;

use model::Secret;

use super::python::{lstrip, rstrip, strip};

/// Most mistakes that are told of one file; beyond, it is no such file at all.
const MOST_MISTAKES: usize = 20;

/// `name = value`
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Assignment {
    /// Its section as it is compared: in lower case, but for `DEFAULT`.
    pub(crate) group: String,
    /// Its name.
    pub(crate) name: String,
    /// Its value, lines joined by newlines. It may be a password, so it is never printed.
    pub(crate) value: Secret,
    /// The line with its name.
    pub(crate) line: usize,
}

/// What is no section, comment or assignment. The line itself is not repeated: it may hold a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mistake {
    /// Which line.
    pub(crate) line: usize,
    /// What is wrong with it, and the remedy.
    pub(crate) reason: &'static str,
}

/// What a file says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Lines {
    /// In the order of the file.
    pub(crate) assignments: Vec<Assignment>,
    /// Which of them are of a name, by section and name.
    by_name: BTreeMap<String, BTreeMap<String, Vec<usize>>>,
    /// Sections as they stand there, with their lines.
    pub(crate) sections: Vec<(String, usize)>,
    /// The first of them; a file with any is not to be used.
    pub(crate) mistakes: Vec<Mistake>,
}

impl Lines {
    /// The assignments of a name, in the order of the file.
    pub(crate) fn of(&self, group: &str, name: &str) -> impl DoubleEndedIterator<Item = &Assignment> {
        let places = self.by_name.get(group).and_then(|names| names.get(name));
        places.into_iter().flatten().map(|place| &self.assignments[*place])
    }
}

/// A section's name as it is compared.
pub(crate) fn group_name(section: &str) -> String {
    match section {
        "DEFAULT" => section.to_owned(),
        _ => section.to_lowercase(),
    }
}

/// Reads a whole file.
pub(crate) fn parse(text: &str) -> Lines {
    let mut reader = Reader::default();
    // As Python opens text files: `\r\n` and `\r` end a line as well.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    for (place, line) in text.split('\n').enumerate() {
        if reader.lines.mistakes.len() == MOST_MISTAKES {
            break;
        }
        reader.line(place + 1, rstrip(line));
    }
    reader.flush();
    reader.lines
}

#[derive(Default)]
struct Reader {
    lines: Lines,
    section: Option<String>,
    /// The value that may go on.
    open: Option<(String, Vec<String>, usize)>,
    /// What goes on here belongs to a line that is wrong itself.
    after_mistake: bool,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        if line.is_empty() {
            self.flush();
            self.after_mistake = false;
            return;
        }
        if line.starts_with([' ', '\t']) {
            match &mut self.open {
                Some((_, value, _)) => value.push(lstrip(line).to_owned()),
                None if self.after_mistake => {}
                None => self.mistake(
                    number,
                    "is indented, but there is no value before it that it could go on with; take the spaces away",
                ),
            }
            return;
        }
        self.flush();
        self.after_mistake = false;
        if let Some(rest) = line.strip_prefix('[') {
            match rest.strip_suffix(']') {
                Some("") => self.mistake(number, "is a section without a name; write it as [name]"),
                Some(name) => {
                    self.lines.sections.push((name.to_owned(), number));
                    self.section = Some(group_name(name));
                }
                None => self.mistake(
                    number,
                    "begins a section, but does not end in `]`; write it as [name], with nothing behind it",
                ),
            }
        } else if !line.starts_with(['#', ';']) {
            self.assignment(number, line);
        }
    }

    fn assignment(&mut self, number: usize, line: &str) {
        let Some((name, value)) = line.split_once(['=', ':']) else {
            self.mistake(
                number,
                "is no section, no comment and has no `=`; write it as `name = value`, or begin it with `#`",
            );
            return;
        };
        let name = strip(name);
        if name.is_empty() {
            self.mistake(number, "has no name before its `=`; write it as `name = value`");
        } else if self.section.is_none() {
            self.mistake(number, "stands before any section; put [DEFAULT] above it");
        } else {
            self.open = Some((name.to_owned(), vec![unquoted(strip(value)).to_owned()], number));
        }
    }

    fn mistake(&mut self, line: usize, reason: &'static str) {
        self.lines.mistakes.push(Mistake { line, reason });
        self.after_mistake = true;
    }

    fn flush(&mut self) {
        if let (Some((name, value, line)), Some(group)) = (self.open.take(), &self.section) {
            let names = self.lines.by_name.entry(group.clone()).or_default();
            names
                .entry(name.clone())
                .or_default()
                .push(self.lines.assignments.len());
            self.lines.assignments.push(Assignment {
                group: group.clone(),
                name,
                value: Secret::new(value.join("\n")),
                line,
            });
        }
    }
}

/// The text within a pair of quotes; a single quote is a pair in itself.
fn unquoted(value: &str) -> &str {
    for quote in ['"', '\''] {
        if value.len() == 1 && value.starts_with(quote) {
            return "";
        }
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<(String, String, String, usize)> {
        let lines = parse(text);
        assert_eq!(lines.mistakes, []);
        let tuple = |a: Assignment| (a.group, a.name, a.value.expose().to_owned(), a.line);
        lines.assignments.into_iter().map(tuple).collect()
    }

    fn one(group: &str, name: &str, value: &str, line: usize) -> (String, String, String, usize) {
        (group.into(), name.into(), value.into(), line)
    }

    #[test]
    fn values_go_on_over_indented_lines_until_a_blank_line_or_a_comment() {
        let text = "[DEFAULT]\na = 1\n  2 \n\t# 3\nb : x = y\n# c\n; d\n[Ilo]\nc='q'\r\nd = \"\n\ne=\n f";
        let expected = [
            one("DEFAULT", "a", "1\n2\n# 3", 2),
            one("DEFAULT", "b", "x = y", 5),
            one("ilo", "c", "q", 9),
            one("ilo", "d", "", 10),
            one("ilo", "e", "\nf", 12),
        ];
        assert_eq!(read(text), expected);
    }

    #[test]
    fn every_mistake_is_told_with_its_line_and_without_its_text() {
        let text = "early = hunter2\n [x]\n[a\n[]\n[b] # c\n[ok]\nhunter2\n more\n= hunter2\n\n lost\nfine = 1\n";
        let lines = parse(text);
        let numbers: Vec<usize> = lines.mistakes.iter().map(|mistake| mistake.line).collect();
        assert_eq!(numbers, [1, 3, 4, 5, 7, 9, 11]);
        assert!(!format!("{lines:?}").contains("hunter2"));
        assert_eq!(lines.assignments.len(), 1);
        assert!(parse(&"x\n".repeat(100_000)).mistakes.len() <= MOST_MISTAKES);
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "[\\[\\]=: \\t\\r\\n#;'\"a-c\\x1c\u{85}é]{0,80}") {
            let lines = parse(&text);
            let count = text.replace('\r', "\n").split('\n').count();
            prop_assert!(lines.assignments.iter().all(|a| a.line <= count && !a.name.is_empty()));
        }
    }
}
