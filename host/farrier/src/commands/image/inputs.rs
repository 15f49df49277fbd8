//! What the image commands read: `--param`, `--file`, kernels, ramdisks and boot loaders.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use image::{Content, FileSource, SourceFile, SourceMap};
use indicatif::{ProgressBar, ProgressStyle};
use sha2::Digest as _;

use super::destination::{Destination, FileId};

/// Largest boot loader: its bytes are held in memory.
const MAX_BOOT_FILE: u64 = 64 << 20;

/// `K=V` for the ramdisk.
pub(super) fn parameter(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `SRC:DST`: a file here and its path in the image.
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
pub(super) struct Inputs {
    pub(super) sources: SourceMap,
    /// What the finished image takes the place of, so no input.
    replaced: Option<FileId>,
}

impl Inputs {
    pub(super) fn of(destination: &Destination) -> Self {
        Self {
            sources: SourceMap::default(),
            replaced: destination.replaces(),
        }
    }

    /// A file as a source: read once to learn its digest, never held in memory. `option` is what it was given with.
    pub(super) fn source(&mut self, option: &str, path: &Path) -> Result<SourceFile> {
        let (file, len) = self.open(option, path)?;
        let bar = ProgressBar::new(len);
        bar.set_style(ProgressStyle::with_template(
            "reading {msg} {bar:30} {bytes}/{total_bytes}",
        )?);
        bar.set_message(path.display().to_string());
        let mut hash = sha2::Sha256::new();
        let mut reader = bar.wrap_read(&file);
        let mut block = vec![0; 1 << 20];
        loop {
            let count = reader
                .read(&mut block)
                .with_context(|| format!("could not read {}", path.display()))?;
            if count == 0 {
                break;
            }
            hash.update(&block[..count]);
        }
        bar.finish_and_clear();
        let sha256 = model::Sha256(hash.finalize().into());
        self.sources.insert(sha256, Arc::new(FileSource::new(file)?));
        Ok(SourceFile { sha256, len })
    }

    pub(super) fn placed(&mut self, files: &[Placed]) -> Result<Vec<(String, Content)>> {
        files
            .iter()
            .map(|file| Ok((file.to.clone(), self.source("--file", &file.from)?.into())))
            .collect()
    }

    /// All bytes of a boot loader.
    pub(super) fn boot_file(&self, option: &str, path: &Path) -> Result<bytes::Bytes> {
        let (file, _) = self.open(option, path)?;
        let mut bytes = Vec::new();
        file.take(MAX_BOOT_FILE + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("could not read {}", path.display()))?;
        if bytes.len() as u64 > MAX_BOOT_FILE {
            bail!(
                "{} ({option}) is larger than 64 MiB: that is no boot loader",
                path.display()
            );
        }
        Ok(bytes.into())
    }

    fn open(&self, option: &str, path: &Path) -> Result<(File, u64)> {
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
        Ok((File::open(path).with_context(refused)?, found.len()))
    }
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
}
