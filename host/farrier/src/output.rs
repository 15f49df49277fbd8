//! What the command line prints: tables, JSON, errors. The only place that writes to standard output and error.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::Table;
use comfy_table::presets;
use serde::Serialize;

/// `-o`.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Shared by all commands that print a result.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct OutputArgs {
    /// How to print the result
    #[arg(short = 'o', long = "output", value_enum, default_value = "table", global = true)]
    pub(crate) format: Format,
}

/// For commands whose `-o` names the file they make.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct FormatArgs {
    /// How to print what was made
    #[arg(long = "format", value_enum, default_value = "table")]
    pub(crate) format: Format,
}

/// Something of the result could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether the result was lost, as on a full disk: then the command did not do what it was asked for.
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// One line to standard output. A closed pipe (`| head`) is the reader's way to say enough.
pub(crate) fn say(line: impl std::fmt::Display) {
    let line = line.to_string();
    if let Err(error) = writeln!(std::io::stdout().lock(), "{}", harmless(&line))
        && error.kind() != ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        note(format_args!("error: could not write the result: {error}"));
    }
}

/// One line to standard error, for progress that must not mix with a result.
pub(crate) fn note(line: impl std::fmt::Display) {
    let line = line.to_string();
    let _ = writeln!(std::io::stderr().lock(), "{}", harmless(&line));
}

/// The text without what a terminal would obey: names, errors and facts come from BMCs, ramdisks and other people.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| {
        let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        (c.is_control() && !matches!(c, '\n' | '\t')) || reorders
    };
    if text.contains(obeyed) {
        Cow::Owned(text.replace(obeyed, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// The error with its causes, one a line.
pub(crate) fn complain(error: &anyhow::Error) {
    note(format_args!("error: {error}"));
    for cause in error.chain().skip(1) {
        note(format_args!("  because: {cause}"));
    }
}

/// Pretty JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    say(serde_json::to_string_pretty(value)?);
    Ok(())
}

/// A table with a header.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    say(table);
}

/// "1.4 MiB".
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut whole = count;
    let mut tenths = 0;
    while whole >= 1024 && unit + 1 < UNITS.len() {
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
        unit += 1;
    }
    if unit == 0 {
        format!("{whole} B")
    } else {
        format!("{whole}.{tenths} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        assert_eq!(harmless("n1 │ düse\n\tok"), "n1 │ düse\n\tok");
        let hostile = "a\u{1b}[2Jb\u{9b}31mc\rd\u{202e}e\u{7}";
        assert_eq!(harmless(hostile), "a\u{fffd}[2Jb\u{fffd}31mc\u{fffd}d\u{fffd}e\u{fffd}");
    }

    #[test]
    fn byte_counts_are_rounded_down_to_a_tenth_of_their_unit() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1_474_560), "1.4 MiB");
        assert_eq!(bytes(u64::MAX), "16777215.9 TiB");
    }
}
