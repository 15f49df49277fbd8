//! `farrier plugin new`: a project that builds, and whose rehearsal passes at once.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use runtime::Role;

use super::contract;
use super::project::Language;
use super::templates::{self, File};
use crate::output;

/// Names that a tool chain keeps for itself.
const TAKEN: [&str; 9] = [
    "alloc",
    "build",
    "core",
    "proc-macro",
    "self",
    "std",
    "super",
    "test",
    "wit-bindgen",
];
/// Longest name.
const MAX_NAME: usize = 40;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the plugin is used for
    #[arg(long, value_parser = role)]
    role: Role,
    /// What it is written in
    #[arg(long = "lang", value_enum, value_name = "LANGUAGE")]
    language: Language,
    /// Its name, and that of the folder that is made: a-z, 0-9 and - (acme-slots)
    name: String,
}

/// The role of that name, for command lines.
pub(super) fn role(text: &str) -> Result<Role, String> {
    let known: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
    Role::parse(text).ok_or_else(|| format!("a role is one of {}", known.join(", ")))
}

pub(super) fn run(args: &Args) -> Result<()> {
    check_name(&args.name)?;
    let folder = PathBuf::from(&args.name);
    check_free(&folder)?;
    write(&folder, args.role, args.language, &args.name)?;
    output::say(format_args!("made {}/", folder.display()));
    output::table(
        ["Next", ""],
        templates::next(args.language)
            .iter()
            .chain(&[
                ("farrier plugin build", "makes the component"),
                ("farrier plugin test scenarios/*.yaml", "rehearses it"),
            ])
            .map(|(command, what)| [(*command).to_owned(), (*what).to_owned()]),
    );
    Ok(())
}

/// A name that cargo, npm and the manifest all take.
fn check_name(name: &str) -> Result<()> {
    let good = name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && !name.contains("--")
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !good {
        bail!(
            "`{name}` cannot be a plugin's name: at most {MAX_NAME} of a-z, 0-9 and -, a letter first, as acme-slots"
        );
    }
    if TAKEN.contains(&name) {
        bail!("`{name}` cannot be a plugin's name, since tools use it for something of their own");
    }
    Ok(())
}

/// Whether the folder may be filled: it is not there, or empty.
fn check_free(folder: &Path) -> Result<()> {
    match std::fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => bail!(
                "{} is there and not empty: take another name, or remove it",
                folder.display()
            ),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("{} is there and no folder", folder.display())),
    }
}

fn write(folder: &Path, role: Role, language: Language, name: &str) -> Result<()> {
    let mut files = templates::files(role, language, name);
    for (file, text) in contract::FILES.iter().chain([&contract::WORLDS]) {
        files.push(File {
            path: format!("wit/{file}"),
            text: (*text).to_owned(),
        });
    }
    for file in &files {
        let path = folder.join(&file.path);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).with_context(|| format!("could not make {}", parent.display()))?;
        std::fs::write(&path, &file.text).with_context(|| format!("could not write {}", path.display()))?;
    }
    if language == Language::C {
        // The header is what an author reads first.
        super::build::c::write_bindings(folder, role)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::plugin::project::Project;

    #[test]
    fn names_are_those_that_every_tool_takes() {
        for good in ["a", "acme-slots", "x1", &"a".repeat(MAX_NAME)] {
            check_name(good).unwrap();
        }
        let long = "a".repeat(MAX_NAME + 1);
        for bad in [
            "", "Acme", "1a", "-a", "a-", "a--b", "a_b", "a.b", "../a", "a/b", "ä", "core", &long,
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_folder_with_something_in_it_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        check_free(folder.path()).unwrap();
        check_free(&folder.path().join("not-there")).unwrap();
        std::fs::write(folder.path().join("mine"), "x").unwrap();
        let error = check_free(folder.path()).unwrap_err();
        assert!(error.to_string().contains("not empty"), "{error}");
        let error = check_free(&folder.path().join("mine")).unwrap_err();
        assert!(error.to_string().contains("no folder"), "{error}");
    }

    #[test]
    fn every_project_reads_back_and_no_placeholder_stays() {
        for role in Role::ALL {
            for language in Language::ALL {
                let folder = tempfile::tempdir().unwrap();
                write(folder.path(), role, language, "acme-slots").unwrap();
                let project = Project::read(folder.path()).unwrap();
                assert_eq!((project.role, project.language), (role, language));
                assert_eq!(project.id, "acme-slots");
                assert_eq!(project.scenarios().unwrap().len(), 1);
                for file in templates::files(role, language, "acme-slots") {
                    // In Rust two braces may also be the text of one.
                    for rest in file.text.split("{{").skip(1) {
                        let word = rest.trim_start_matches(|c: char| c.is_ascii_lowercase() || c == '-');
                        assert!(
                            word.len() == rest.len() || !word.starts_with("}}"),
                            "{}: {{{{{rest}",
                            file.path
                        );
                    }
                    assert!(!file.text.contains("\u{0}"), "{}", file.path);
                }
            }
        }
    }
}
