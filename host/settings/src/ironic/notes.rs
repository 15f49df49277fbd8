//! What stands in the files and has no effect.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::draft::Draft;
use super::table::{self, Fate, Row, UNREAD};
use crate::nearest::nearest;
use crate::oslo::lines::{Assignment, group_name};
use crate::oslo::lookup::Conf;
use crate::oslo::option::Why;
use crate::tree::Origin;

/// Most warnings of this kind; a file with more is none of Ironic's.
const MOST: usize = 300;

/// Warns of options without effect, of names that nobody knows, and of sections that are not read.
pub(super) fn tell(draft: &Draft<'_>) {
    let mut told = BTreeSet::new();
    let mut count = 0;
    let named = sections_with_credentials(draft.conf);
    for file in draft.conf.files() {
        let mut tell = |line: usize, message: String| {
            let origin = Origin::File {
                file: Arc::clone(&file.path),
                line,
            };
            count += 1;
            match count {
                ..MOST => draft.report.warning(origin, message),
                MOST => draft
                    .report
                    .warning(origin, "and so on: what follows is not told of".to_owned()),
                _ => return false,
            }
            true
        };
        for (section, line) in &file.lines.sections {
            let group = group_name(section);
            if !named.contains(&group)
                && told.insert((group.clone(), String::new()))
                && let Some(message) = of_section(section, &group)
                && !tell(*line, message)
            {
                return;
            }
        }
        for set in &file.lines.assignments {
            if told.insert((set.group.clone(), set.name.clone()))
                && let Some(message) = of_option(draft, set)
                && !tell(set.line, message)
            {
                return;
            }
        }
    }
}

fn row(group: &str, name: &str) -> Option<&'static Row> {
    table::rows().find(|row| row.opt.group == group && row.opt.name == name)
}

fn of_section(section: &str, group: &str) -> Option<String> {
    let known: BTreeSet<&str> = table::rows().map(|row| row.opt.group).collect();
    if known.contains(group) {
        return None;
    }
    if let Some(unread) = UNREAD.iter().find(|unread| unread.group == group) {
        return Some(format!("[{group}] has no effect: {}", unread.instead));
    }
    let mut names: Vec<&str> = known.into_iter().collect();
    names.extend(UNREAD.iter().map(|unread| unread.group));
    let cut: String = section.chars().take(80).collect();
    Some(match nearest(group, &names) {
        Some(name) => format!("[{cut}] is no section that Farrier knows and has no effect; did you mean [{name}]?"),
        None => format!("[{cut}] is no section that Farrier knows and has no effect"),
    })
}

fn of_option(draft: &Draft<'_>, set: &Assignment) -> Option<String> {
    let label = format!("[{}] {}", set.group, set.name);
    if let Some(opt) = draft.conf.option(&set.group, &set.name) {
        if let Some(Row {
            fate: Fate::Instead(what),
            ..
        }) = row(opt.group, opt.name)
        {
            return Some(format!("{label} has no effect: {what}"));
        }
        // A name of former times beside the one of today.
        let other = opt
            .others
            .iter()
            .find(|other| other.group == set.group && other.name == set.name)?;
        let (_, at) = draft.set(opt.group, opt.name)?;
        let counts = at.group == set.group && at.name == set.name;
        return (!counts && other.why != Why::Equal).then(|| {
            format!(
                "{label} is not read, since {} is set at {}; remove it",
                at.label(),
                at.origin()
            )
        });
    }
    let known: Vec<&str> = table::rows()
        .filter(|row| row.opt.group == set.group)
        .map(|row| row.opt.name)
        .collect();
    if known.is_empty() {
        // Its section has been told of.
        return None;
    }
    let cut: String = label.chars().take(160).collect();
    Some(match nearest(&set.name, &known) {
        Some(name) => format!("{cut} is no option that Farrier knows and has no effect; did you mean `{name}`?"),
        None => format!("{cut} is no option that Farrier knows and has no effect"),
    })
}

/// Sections that others name as the place of their credentials.
fn sections_with_credentials(conf: &Conf) -> BTreeSet<String> {
    let files = conf.files().iter();
    let all = files.flat_map(|file| &file.lines.assignments);
    all.filter(|set| set.name == "auth_section")
        .map(|set| group_name(set.value.expose()))
        .collect()
}
