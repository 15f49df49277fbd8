//! Where a finished image goes: a file that appears whole or not at all, or standard output.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, IsTerminal as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};
use image::{Layout, SourceMap, WriteError};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use serde_json::json;

use crate::output::{self, Format};

/// Bytes per write to standard output.
const BLOCK: u64 = 1 << 20;

/// Checked and opened before the inputs are read, which may take long.
pub(super) struct Destination {
    began: Instant,
    /// As the user wrote it.
    named: PathBuf,
    place: Place,
}

enum Place {
    Stdout,
    File {
        path: PathBuf,
        folder: PathBuf,
        replaces: Option<FileId>,
        file: Unfinished,
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
    /// `-o OUT`; `-` is standard output.
    pub(super) fn open(out: &Path) -> Result<Self> {
        let place = if out == Path::new("-") {
            if io::stdout().is_terminal() {
                bail!("an image is nothing for a terminal: redirect standard output, or name a file with -o");
            }
            Place::Stdout
        } else {
            Place::open(out)?
        };
        Ok(Self {
            began: Instant::now(),
            named: out.to_owned(),
            place,
        })
    }

    /// The file that is there now and would be replaced.
    pub(super) fn replaces(&self) -> Option<FileId> {
        match self.place {
            Place::Stdout => None,
            Place::File { replaces, .. } => replaces,
        }
    }

    /// Writes the image and says what was made. Beside an image on standard output, that goes to standard error.
    pub(super) fn finish(self, layout: &Layout, sources: &SourceMap, format: Format) -> Result<()> {
        let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} writing {msg}")?);
        bar.set_message(format!("{}, {}", self.named.display(), output::bytes(layout.size())));
        bar.enable_steady_tick(Duration::from_millis(100));
        let to_stdout = matches!(self.place, Place::Stdout);
        let written = self.place.write(layout, sources);
        bar.finish_and_clear();
        written?;
        let milliseconds = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (size, digest) = (layout.size(), layout.digest());
        let text = match format {
            Format::Json => serde_json::to_string_pretty(&json!({
                "path": self.named, "size": size, "digest": digest.to_string(), "milliseconds": milliseconds,
            }))?,
            Format::Table => format!(
                "{}: {}, {digest}, made in {milliseconds} ms",
                self.named.display(),
                output::bytes(size)
            ),
        };
        if to_stdout {
            output::note(text);
        } else {
            output::say(text);
        }
        Ok(())
    }
}

impl Place {
    fn open(out: &Path) -> Result<Self> {
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
            Some(_) | None => {}
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let file = Unfinished::create(&folder).map_err(|error| {
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
        })
    }

    fn write(self, layout: &Layout, sources: &SourceMap) -> Result<()> {
        match self {
            Self::Stdout => {
                stream(layout, sources, &mut io::stdout().lock()).context("could not write to standard output")
            }
            Self::File { path, folder, file, .. } => {
                let written = layout.write_to(sources, file.file());
                written.map_err(|error| {
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
                file.appear(&path, &folder)
                    .with_context(|| format!("could not put the image at {}", path.display()))
            }
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

fn stream(layout: &Layout, sources: &SourceMap, to: &mut impl io::Write) -> Result<()> {
    let mut at = 0;
    let mut block = vec![0; usize::try_from(BLOCK.min(layout.size()))?];
    while at < layout.size() {
        let part = usize::try_from(BLOCK.min(layout.size() - at))?;
        layout.read_at(sources, at, &mut block[..part])?;
        to.write_all(&block[..part])?;
        at += part as u64;
    }
    Ok(to.flush()?)
}

/// A file that nobody can find yet.
enum Unfinished {
    /// Without a name: whatever ends this process, nothing is left behind.
    Unnamed(File),
    /// Where the file system knows only named files.
    Named(tempfile::NamedTempFile),
}

impl Unfinished {
    /// The user's umask decides who may read it.
    fn create(folder: &Path) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(0o666);
        match rustix::fs::open(folder, OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, mode) {
            Ok(fd) => Ok(Self::Unnamed(fd.into())),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
                let mut named = tempfile::Builder::new();
                let named = named.prefix(".farrier-").permissions(permissions).tempfile_in(folder)?;
                Ok(Self::Named(named))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn file(&self) -> &File {
        match self {
            Self::Unnamed(file) => file,
            Self::Named(named) => named.as_file(),
        }
    }

    fn appear(self, path: &Path, folder: &Path) -> io::Result<()> {
        let file = match self {
            Self::Named(named) => return named.persist(path).map(drop).map_err(|error| error.error),
            Self::Unnamed(file) => file,
        };
        // open(2), O_TMPFILE: how a file without a name gets one.
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = |to: &Path| rustix::fs::linkat(CWD, &unnamed, CWD, to, AtFlags::SYMLINK_FOLLOW);
        match link(path) {
            Err(Errno::EXIST) => {}
            done => return Ok(done?),
        }
        // A link takes nobody's place; a rename does.
        let beside = tempfile::Builder::new()
            .prefix(".farrier-")
            .make_in(folder, |name| Ok(link(name)?))?;
        beside.persist(path).map(drop).map_err(|error| error.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_file_appears_whole_whether_or_not_it_had_a_name_and_replaces_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let named = tempfile::NamedTempFile::new_in(folder.path()).unwrap();
        let kinds = [
            ("unnamed", Unfinished::create(folder.path()).unwrap()),
            ("unnamed again", Unfinished::create(folder.path()).unwrap()),
            ("named", Unfinished::Named(named)),
        ];
        for (content, unfinished) in kinds {
            unfinished.file().write_all(content.as_bytes()).unwrap();
            unfinished.appear(&path, folder.path()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
