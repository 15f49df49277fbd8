//! `farrier image ls`.

use anyhow::{Context, Result};
use serde_json::json;

use super::opened::ImageArgs;
use super::volume::{Entry, Kind};
use crate::output::{self, Format, OutputArgs};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    image: ImageArgs,
    /// A folder or a file in it; default: all of it
    path: Option<String>,
    /// Everything below the folder, not only what lies in it
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let opened = args.image.open()?;
    let volume = args.image.volume(&opened)?;
    let mut entries = volume
        .entries()
        .with_context(|| format!("could not list {}", opened.name))?;
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    let asked = args.path.as_deref().unwrap_or_default().trim_matches('/');
    if !asked.is_empty() {
        let found = volume.find(asked)?;
        match found.kind {
            Kind::Folder => entries.retain(|entry| below(&entry.path, &found.path).is_some()),
            _ => entries = vec![found.clone()],
        }
        if !args.recursive && found.kind == Kind::Folder {
            entries.retain(|entry| below(&entry.path, &found.path).is_some_and(|rest| !rest.contains('/')));
        }
    } else if !args.recursive {
        entries.retain(|entry| !entry.path.contains('/'));
    }
    match args.output.format {
        Format::Json => {
            let told: Vec<_> = entries.iter().map(told).collect();
            output::json(&told)
        }
        Format::Table => {
            let width = entries
                .iter()
                .map(|entry| entry.len.to_string().len())
                .max()
                .unwrap_or(0);
            entries.iter().for_each(|entry| output::say(line(entry, width)));
            Ok(())
        }
    }
}

/// What is left of a path below a folder.
fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    path.strip_prefix(folder)?.strip_prefix('/')
}

fn told(entry: &Entry) -> serde_json::Value {
    let (kind, target) = match &entry.kind {
        Kind::File => ("file", None),
        Kind::Folder => ("folder", None),
        Kind::Link(target) => ("link", Some(target)),
        Kind::Special => ("special", None),
    };
    json!({
        "path": entry.path, "kind": kind, "size": entry.len, "target": target,
        "mode": entry.mode.map(|mode| format!("{mode:04o}")), "modified": entry.modified,
    })
}

/// `-rw-r--r--   1234 2000-01-01T00:00:00+00:00 path`; line breaks in a name would look like another entry.
fn line(entry: &Entry, width: usize) -> String {
    let mode = entry.mode.map(permissions).unwrap_or_default();
    let modified = entry.modified.as_deref().unwrap_or("-");
    let path = entry.path.replace(['\n', '\t'], "\u{fffd}");
    let (slash, target) = match &entry.kind {
        Kind::Folder => ("/", String::new()),
        Kind::Link(target) => ("", format!(" -> {}", target.replace(['\n', '\t'], "\u{fffd}"))),
        Kind::File | Kind::Special => ("", String::new()),
    };
    format!(
        "{}{mode} {:>width$} {modified} {path}{slash}{target}",
        entry.kind_letter(),
        entry.len
    )
}

fn permissions(mode: u32) -> String {
    let letters = "rwxrwxrwx".chars().enumerate();
    letters
        .map(|(place, letter)| if mode & (0o400 >> place) == 0 { '-' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_told_as_ls_tells_them() {
        assert_eq!(permissions(0o755), "rwxr-xr-x");
        assert_eq!(permissions(0o4640), "rw-r-----");
    }

    #[test]
    fn a_name_that_begins_as_a_folder_does_not_lie_in_it() {
        assert_eq!(below("boot/grub/x", "boot"), Some("grub/x"));
        assert_eq!((below("boots", "boot"), below("boot", "boot")), (None, None));
    }
}
