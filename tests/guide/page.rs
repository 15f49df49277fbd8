//! A page of the guide: its blocks, and what it asks of the world around it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Where the guide is.
pub(crate) fn guide() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// One page.
pub(crate) struct Page {
    pub(crate) name: String,
    /// The peers that it needs.
    pub(crate) needs: Vec<String>,
    /// Blocks to run, in their order, with their lines.
    blocks: Vec<(usize, String)>,
    /// Lines that are neither in such a block nor prose, with their numbers.
    pub(crate) other_code: Vec<(usize, String)>,
}

impl Page {
    pub(crate) fn read(name: &str) -> Self {
        let path = guide().join(name);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self::parse(name, &text)
    }

    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let mut page = Self {
            name: name.to_owned(),
            needs: Vec::new(),
            blocks: Vec::new(),
            other_code: Vec::new(),
        };
        let mut lines = text.lines().enumerate().map(|(place, line)| (place + 1, line));
        while let Some((number, line)) = lines.next() {
            if let Some(needs) = line.strip_prefix("<!-- guide: needs ") {
                let needs = needs.strip_suffix(" -->").expect("it ends on its line");
                page.needs.extend(needs.split(' ').map(str::to_owned));
            } else if line == "<!-- guide: sh" {
                page.blocks.push((number, block(&mut lines, "-->")));
            } else if let Some(language) = line.trim_start().strip_prefix("```") {
                assert!(!language.is_empty(), "docs/{name}:{number}: a block without a language");
                let other = block(&mut lines, "```");
                if language == "sh" {
                    page.blocks.push((number, other));
                    continue;
                }
                let numbered = (number + 1..).zip(other.lines().map(str::to_owned));
                page.other_code.extend(numbered);
            } else if line.starts_with("    ") {
                page.other_code.push((number, line.trim().to_owned()));
            }
        }
        page
    }

    /// One script of them all; each says where it begins, so that a failure has a place.
    pub(crate) fn script(&self) -> String {
        let mut script = String::new();
        for (line, block) in &self.blocks {
            // Writing into a text cannot fail.
            let _ = writeln!(script, "echo '== docs/{}:{line}' >&2\n{block}", self.name);
        }
        script
    }

    pub(crate) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }
}

fn block<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>, end: &str) -> String {
    let mut block = String::new();
    for (_, line) in lines {
        if line.trim_start() == end {
            return block;
        }
        block.push_str(line);
        block.push('\n');
    }
    panic!("a block does not end");
}
