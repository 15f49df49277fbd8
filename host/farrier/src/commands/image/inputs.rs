//! What the image commands read: `--param`, `--file`, kernels, ramdisks and boot loaders.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use image::{Content, FileSource, SourceFile, SourceMap};
use model::Sha256;
use sha2::Digest as _;

use super::destination::FileId;
use super::progress::Progress;

/// Largest boot loader or small file: its bytes are held in memory.
const MAX_SMALL_FILE: u64 = 64 << 20;
/// Files of one folder that `--file` takes; an image takes no more.
const MAX_FILES: usize = 20_000;
/// Folders inside each other that `--file` follows; an image takes no more.
const MAX_DEPTH: usize = 8;

/// `K=V` for the ramdisk.
pub(super) fn parameter(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `SRC:DST`: a file or folder here and its path in the image.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    from: PathBuf,
    to: String,
}

impl std::str::FromStr for Placed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.rsplit_once(':') {
            Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok(Self {
                from: from.into(),
                to: to.to_owned(),
            }),
            _ => Err("expected SRC:DST, a file here and its path in the image"),
        }
    }
}

/// Files that an image refers to, opened and hashed once.
#[derive(Default)]
pub(super) struct Inputs {
    pub(super) sources: SourceMap,
    /// Where each source lies, for a recipe.
    pub(super) references: BTreeMap<Sha256, String>,
    /// What the finished image takes the place of, so no input.
    replaced: Option<FileId>,
    /// Every file as it was when it was read.
    read: Vec<(PathBuf, Stamp)>,
}

/// What shows that a file is another one or has changed.
#[derive(PartialEq, Eq)]
struct Stamp {
    id: FileId,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            id: FileId::of(metadata),
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Inputs {
    /// Inputs of an image that takes the place of `replaced`.
    pub(super) fn beside(replaced: Option<FileId>) -> Self {
        Self {
            replaced,
            ..Self::default()
        }
    }

    /// A file as a source: read once to learn its digest, never held in memory. `option` is what it was given with.
    pub(super) fn source(&mut self, option: &str, path: &Path) -> Result<SourceFile> {
        let (file, len) = self.open(option, path)?;
        let sha256 = digest(&file, len, path)?;
        let absolute = std::path::absolute(path)?;
        if let Some(reference) = absolute.to_str() {
            self.references.insert(sha256, reference.to_owned());
        }
        self.sources.insert(sha256, Arc::new(FileSource::new(file)?));
        Ok(SourceFile { sha256, len })
    }

    pub(super) fn placed(&mut self, files: &[Placed]) -> Result<Vec<(String, Content)>> {
        let mut placed = Vec::new();
        for file in files {
            if file.from.is_dir() {
                let mut found = BTreeMap::new();
                list(&file.from, &file.to, 0, &mut found)?;
                for (to, from) in found {
                    placed.push((to, self.source("--file", &from)?.into()));
                }
            } else {
                placed.push((file.to.clone(), self.source("--file", &file.from)?.into()));
            }
        }
        Ok(placed)
    }

    /// All bytes of a boot loader, or of a file as small.
    pub(super) fn small_file(&mut self, option: &str, path: &Path) -> Result<bytes::Bytes> {
        let (file, _) = self.open(option, path)?;
        let mut bytes = Vec::new();
        file.take(MAX_SMALL_FILE + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("could not read {}", path.display()))?;
        if bytes.len() as u64 > MAX_SMALL_FILE {
            bail!(
                "{} ({option}) is larger than 64 MiB: that is no boot loader and no file of settings",
                path.display()
            );
        }
        Ok(bytes.into())
    }

    /// Fails if a file was changed since it was read: the image would hold something else than it says.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        for (path, stamp) in &self.read {
            if path.metadata().ok().map(|now| Stamp::of(&now)).as_ref() != Some(stamp) {
                bail!(
                    "{} was changed while it was read: run the command again once nobody writes it",
                    path.display()
                );
            }
        }
        Ok(())
    }

    fn open(&mut self, option: &str, path: &Path) -> Result<(File, u64)> {
        let shown = path.display();
        let refused = || format!("could not open {shown} ({option}): name a file that is there and that you may read");
        // Looked at first: opening a pipe would wait for its other end.
        let found = path.metadata().with_context(refused)?;
        if found.is_dir() {
            bail!("{shown} ({option}) is a folder: name a file");
        }
        if !found.is_file() {
            bail!("{shown} ({option}) is a device or a pipe: copy what it holds into a file, and name that");
        }
        if self.replaced == Some(FileId::of(&found)) {
            bail!("{shown} ({option}) would be replaced by the image made of it: name another file with -o");
        }
        let file = File::open(path).with_context(refused)?;
        self.read.push((path.to_owned(), Stamp::of(&file.metadata()?)));
        Ok((file, found.len()))
    }
}

/// SHA-256 of a file, which has to have this length to its end.
fn digest(file: &File, len: u64, path: &Path) -> Result<Sha256> {
    let mut progress = Progress::new(format!("reading {}", path.display()), len);
    let mut hash = sha2::Sha256::new();
    let mut block = vec![0; 1 << 20];
    let mut done = 0;
    loop {
        let count = (&*file)
            .read(&mut block)
            .with_context(|| format!("could not read {}", path.display()))?;
        if count == 0 {
            break;
        }
        hash.update(&block[..count]);
        done += count as u64;
        progress.set(done);
    }
    if done != len {
        bail!(
            "{} has {done} bytes and had {len} a moment ago: run the command again once nobody writes it",
            path.display()
        );
    }
    Ok(Sha256(hash.finalize().into()))
}

/// The files below a folder, by their paths in the image. Empty folders are left out.
fn list(folder: &Path, to: &str, depth: usize, found: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let shown = folder.display();
    if depth >= MAX_DEPTH {
        bail!("{shown} (--file) lies deeper than an image takes folders: name one further down");
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("could not read the folder {shown} (--file)"))?;
    let mut names = BTreeSet::new();
    for entry in entries {
        names.insert(
            entry
                .with_context(|| format!("could not read the folder {shown} (--file)"))?
                .file_name(),
        );
    }
    for name in names {
        let path = folder.join(&name);
        let name = name
            .to_str()
            .with_context(|| format!("the name of {} (--file) is not UTF-8: rename it", path.display()))?;
        let to = format!("{}/{name}", to.trim_end_matches('/'));
        let kind = path
            .symlink_metadata()
            .with_context(|| format!("could not read {}", path.display()))?;
        if kind.is_dir() {
            list(&path, &to, depth + 1, found)?;
        } else if kind.is_symlink() && path.is_dir() {
            bail!(
                "{} (--file) is a link to a folder: give that folder with a --file of its own",
                path.display()
            );
        } else if found.insert(to, path).is_none() && found.len() > MAX_FILES {
            bail!("{shown} (--file) holds more files than an image takes ({MAX_FILES})");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placed_file_has_two_halves() {
        let placed: Placed = "a:b/c".parse().unwrap();
        assert_eq!((placed.from.as_path(), placed.to.as_str()), (Path::new("a"), "b/c"));
        assert!("a".parse::<Placed>().is_err() && ":b".parse::<Placed>().is_err());
    }

    #[test]
    fn a_file_that_is_written_after_it_was_read_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ramdisk");
        std::fs::write(&path, "one").unwrap();
        let mut inputs = Inputs::default();
        inputs.source("--ramdisk", &path).unwrap();
        inputs.check_unchanged().unwrap();
        std::fs::write(&path, "other").unwrap();
        let error = inputs.check_unchanged().unwrap_err().to_string();
        assert!(error.contains("ramdisk") && error.contains("again"), "{error}");
        std::fs::remove_file(&path).unwrap();
        assert!(inputs.check_unchanged().is_err());
    }
}
