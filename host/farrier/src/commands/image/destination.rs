//! Where a finished image goes: a file that appears whole or not at all, or standard output.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Error, Result, bail};
use image::{Layout, Recipe, WriteError, Written};
use serde_json::json;
use storage::{Existing, Unfinished};

use super::Built;
use super::inputs::Inputs;
use super::progress::Progress;
use crate::output::{self, Format, FormatArgs};

/// Bytes per write to standard output.
const BLOCK: u64 = 1 << 20;

/// Of every command that makes an image.
#[derive(clap::Args)]
pub(super) struct OutArgs {
    /// The image to write, or `-` for standard output
    #[arg(short = 'o', long = "out", value_name = "OUT", required_unless_present = "recipe")]
    out: Option<PathBuf>,
    /// Replace OUT if it is there
    #[arg(long)]
    force: bool,
    /// Write down what the image is made of: the parameters, and where the other files lie
    ///
    /// `farrier image serve`, `inspect`, `ls`, `cat` and `extract` take such a recipe for the image, as long as those files
    /// stay where and what they are. It is readable for its owner alone, since parameters may be secret.
    #[arg(long, value_name = "FILE")]
    recipe: Option<PathBuf>,
    #[command(flatten)]
    output: FormatArgs,
}

/// Checked and opened before the inputs are read, which may take long.
pub(super) struct Destination {
    began: Instant,
    /// As the user wrote it; none if only a recipe is wanted.
    named: Option<PathBuf>,
    place: Option<Place>,
    recipe: Option<PathBuf>,
    format: Format,
}

enum Place {
    Stdout,
    File {
        path: PathBuf,
        folder: PathBuf,
        replaces: Option<FileId>,
        file: Unfinished,
        existing: Existing,
    },
}

/// One file, whatever its names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

impl Destination {
    pub(super) fn open(args: &OutArgs) -> Result<Self> {
        if let Some(recipe) = args.recipe.as_deref().filter(|recipe| !args.force && recipe.exists()) {
            bail!(
                "{} (--recipe) is there already: name another file, or replace it with --force",
                recipe.display()
            );
        }
        Ok(Self {
            began: Instant::now(),
            named: args.out.clone(),
            place: args
                .out
                .as_deref()
                .map(|out| Place::open(out, args.force))
                .transpose()?,
            recipe: args.recipe.clone(),
            format: args.output.format,
        })
    }

    /// The file that is there now and would be replaced.
    pub(super) fn replaces(&self) -> Option<FileId> {
        match self.place {
            None | Some(Place::Stdout) => None,
            Some(Place::File { replaces, .. }) => replaces,
        }
    }

    /// Writes the image and says what was made. Beside an image on standard output, that goes to standard error.
    pub(super) fn finish(self, built: &Built, inputs: &Inputs) -> Result<()> {
        let layout = &built.layout;
        let to_stdout = matches!(self.place, Some(Place::Stdout));
        let recipe = match &self.recipe {
            Some(_) => Some(Recipe::of(layout, &inputs.references)?.to_json()?),
            None => None,
        };
        let written = match self.place {
            Some(place) => Some(place.write(layout, inputs)?),
            None => {
                inputs.check_unchanged()?;
                None
            }
        };
        if let (Some(path), Some(json)) = (&self.recipe, recipe) {
            write_recipe(path, &json).with_context(|| format!("could not write the recipe {}", path.display()))?;
        }
        let milliseconds = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (size, digest) = (layout.size(), layout.digest());
        let text = match self.format {
            Format::Json => {
                let done = written.unwrap_or_default();
                let mut told = json!({
                    "path": self.named, "recipe": self.recipe, "size": size, "digest": digest.to_string(),
                    "milliseconds": milliseconds, "cloned": done.cloned, "copied": done.copied, "written": done.written,
                    "holes": done.holes,
                });
                if !built.changed.is_empty() {
                    told["changed"] = json!(built.changed);
                }
                serde_json::to_string_pretty(&told)?
            }
            Format::Table => {
                let named = self
                    .named
                    .as_deref()
                    .or(self.recipe.as_deref())
                    .unwrap_or(Path::new("-"));
                let how = written.map(told).unwrap_or_default();
                let mut text = format!(
                    "{}: {}, {digest}, made in {milliseconds} ms{how}",
                    named.display(),
                    output::bytes(size)
                );
                for changed in &built.changed {
                    let field = |key: &str| changed[key].as_str().unwrap_or_default().to_owned();
                    text.push_str(&format!("\n  {}: {}", field("path"), field("how")));
                }
                text
            }
        };
        if to_stdout {
            output::note(text);
        } else {
            output::say(text);
        }
        Ok(())
    }
}

/// How the bytes came there, in words.
pub(super) fn told(written: Written) -> String {
    let parts = [
        (written.cloned, "shared with its sources"),
        (written.copied, "copied"),
        (written.written, "written"),
    ];
    let parts = parts.into_iter().filter(|(bytes, _)| *bytes > 0);
    let parts: Vec<String> = parts
        .map(|(bytes, how)| format!("{} {how}", output::bytes(bytes)))
        .collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    }
}

/// It holds parameters, which may be secret: nobody else may read it, not even while it is written.
fn write_recipe(path: &Path, json: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    let mut file = tempfile::Builder::new().prefix(".farrier-").tempfile_in(folder)?;
    file.write_all(json)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

impl Place {
    fn open(out: &Path, force: bool) -> Result<Self> {
        if out == Path::new("-") {
            if io::stdout().is_terminal() {
                bail!("an image is nothing for a terminal: redirect standard output, or name a file with -o");
            }
            return Ok(Self::Stdout);
        }
        let is_link = out.symlink_metadata().is_ok_and(|found| found.is_symlink());
        let path = if is_link {
            out.canonicalize()
                .with_context(|| format!("{} is a link that leads nowhere: remove it first", out.display()))?
        } else {
            out.to_owned()
        };
        let found = path.metadata().ok();
        match &found {
            Some(found) if found.is_dir() => bail!("{} is a folder: name a file in it", out.display()),
            Some(found) if !found.is_file() => bail!(
                "{} is a device or a pipe, which a file would take the place of: name a file, or use `-o -` and redirect \
                 standard output",
                out.display()
            ),
            Some(_) if !force => return Err(taken(out)),
            Some(_) | None => {}
        }
        let folder = folder_of(&path).to_owned();
        let opened = File::options()
            .read(true)
            .custom_flags(directory_flag())
            .open(&folder)
            .and_then(Unfinished::create);
        let file = opened.map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => "create the folder first",
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    "make it writable for you, or name a file elsewhere"
                }
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, or name a file elsewhere",
                _ => "name a file elsewhere",
            };
            let what = format!("could not create {} in {}: {remedy}", out.display(), folder.display());
            Error::new(error).context(what)
        })?;
        Ok(Self::File {
            replaces: found.as_ref().map(FileId::of),
            path,
            folder,
            file,
            existing: if force { Existing::Replace } else { Existing::Keep },
        })
    }

    fn write(self, layout: &Layout, inputs: &Inputs) -> Result<Written> {
        match self {
            Self::Stdout => {
                inputs.check_unchanged()?;
                stream(layout, inputs, &mut io::stdout().lock()).context("could not write to standard output")
            }
            Self::File {
                path,
                folder,
                file,
                existing,
                ..
            } => {
                let mut progress = Progress::new(format!("writing {}", path.display()), layout.size());
                let written = file.write(layout, &inputs.sources, &mut |done| progress.set(done));
                drop(progress);
                let written = written.map_err(|error| {
                    let needed = output::bytes(layout.size());
                    let what = match &error {
                        WriteError::File(source) if is_full(source) => format!(
                            "there is no room for the image in {}: it needs {needed}; free some, or name a file elsewhere",
                            folder.display()
                        ),
                        _ => format!("could not write the image of {needed} into {}", folder.display()),
                    };
                    Error::new(error).context(what)
                })?;
                inputs.check_unchanged()?;
                let name = path
                    .file_name()
                    .with_context(|| format!("{} names no file", path.display()))?;
                match file.appear(name, existing) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(taken(&path)),
                    appeared => appeared.with_context(|| format!("could not put the image at {}", path.display())),
                }?;
                Ok(written)
            }
        }
    }
}

fn directory_flag() -> i32 {
    i32::try_from(rustix::fs::OFlags::DIRECTORY.bits()).unwrap_or_default()
}

fn taken(out: &Path) -> Error {
    anyhow::anyhow!(
        "{} is there already: name another file with -o, or replace it with --force",
        out.display()
    )
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

fn stream(layout: &Layout, inputs: &Inputs, to: &mut impl io::Write) -> Result<Written> {
    let mut at = 0;
    let mut block = vec![0; usize::try_from(BLOCK.min(layout.size()))?];
    let mut progress = Progress::new("writing to standard output", layout.size());
    while at < layout.size() {
        let part = usize::try_from(BLOCK.min(layout.size() - at))?;
        layout.read_at(&inputs.sources, at, &mut block[..part])?;
        to.write_all(&block[..part])?;
        at += part as u64;
        progress.set(at);
    }
    to.flush()?;
    Ok(Written {
        written: at,
        ..Written::default()
    })
}
