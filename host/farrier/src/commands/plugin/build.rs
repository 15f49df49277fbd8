//! `farrier plugin build`: from a project to one component with its manifest, by the language's own tool chain.

pub(super) mod c;
mod component;
mod js;
mod python;
mod rust;
mod tool;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::inspect;
use super::project::{Language, Project};
use crate::output::{self, Format, FormatArgs};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The project: a folder with farrier-plugin.toml
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Where the component goes; default: <id>.wasm in the project
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let project = Project::read(&args.folder)?;
    let built = match project.language {
        Language::Rust => rust::build(&project),
        Language::Python => python::build(&project),
        Language::Js => js::build(&project),
        Language::C => c::build(&project),
    }?;
    let component = component::finish(&project, built)?;
    let path = args.file.clone().unwrap_or_else(|| project.component());
    replace(&path, &component)?;
    let about = inspect::About::of(&path.display().to_string(), &component)?;
    match args.format.format {
        Format::Json => output::json(&about),
        Format::Table => {
            about.show();
            Ok(())
        }
    }
}

/// Writes a file as a whole or not at all: a host may be watching it.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(bytes)?;
        readable_by_all(file.as_file())?;
        file.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("could not write {}", path.display()))
}

/// As a compiler would leave it; a temporary file is its maker's alone.
fn readable_by_all(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}
