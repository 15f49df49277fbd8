//! The guide in examples/README.md: the commands of each of its chapters are run, in their order, at a bare desk.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::desk::{Desk, both};

/// Chapters with commands, each a test below.
const RUN: [&str; 4] = ["In Rust", "In Python", "In JavaScript", "In C"];

fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/README.md")
}

/// A chapter with its blocks of commands, each with its line.
struct Chapter {
    title: String,
    blocks: Vec<(usize, String)>,
}

fn chapters(text: &str) -> Vec<Chapter> {
    let mut chapters = vec![Chapter {
        title: String::new(),
        blocks: Vec::new(),
    }];
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            chapters.push(Chapter {
                title: title.to_owned(),
                blocks: Vec::new(),
            });
        } else if let Some(language) = line.strip_prefix("```") {
            assert!(
                !language.is_empty(),
                "examples/README.md:{number}: a block without a language"
            );
            let block: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "```")
                .collect();
            if language == "sh"
                && let Some(chapter) = chapters.last_mut()
            {
                chapter.blocks.push((number, block.join("\n")));
            }
        }
    }
    chapters
}

fn follow(title: &str) {
    let text = std::fs::read_to_string(guide()).expect("the guide");
    let chapter = chapters(&text).into_iter().find(|chapter| chapter.title == title);
    let chapter = chapter.unwrap_or_else(|| panic!("the guide has no chapter `{title}`"));
    assert!(!chapter.blocks.is_empty(), "`{title}` has no command");
    let mut script = String::new();
    for (line, block) in &chapter.blocks {
        // Writing into a text cannot fail.
        let _ = writeln!(script, "echo '== examples/README.md:{line}' >&2\n{block}");
    }
    let desk = Desk::bare();
    let output = desk.command("bash").args(["-euo", "pipefail", "-c", &script]).output();
    let output = output.expect("bash");
    let (out, err) = both(&output);
    assert!(
        output.status.success(),
        "`{title}`: {} (the last line with == is where)\n{out}\n{err}",
        output.status
    );
}

#[test]
fn the_chapter_on_rust_is_true() {
    follow("In Rust");
}

#[test]
fn the_chapter_on_python_is_true() {
    follow("In Python");
}

#[test]
fn the_chapter_on_javascript_is_true() {
    follow("In JavaScript");
}

#[test]
fn the_chapter_on_c_is_true() {
    follow("In C");
}

#[test]
fn every_chapter_with_commands_is_run() {
    let text = std::fs::read_to_string(guide()).expect("the guide");
    let with_commands = chapters(&text).into_iter().filter(|chapter| !chapter.blocks.is_empty());
    assert_eq!(with_commands.map(|chapter| chapter.title).collect::<Vec<_>>(), RUN);
}

#[test]
fn the_guide_names_files_that_there_are() {
    let text = std::fs::read_to_string(guide()).expect("the guide");
    let folder = guide();
    let folder = folder.parent().expect("a folder");
    for (place, _) in text.match_indices("](") {
        let link = text[place + 2..].split(')').next().unwrap_or_default();
        assert!(link.contains("://") || folder.join(link).exists(), "there is no {link}");
    }
}
