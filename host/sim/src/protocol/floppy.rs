//! The parameters floppy, read as the agent reads it: by label, `parameters.txt`, split on white space.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use tokio::runtime::Handle;

use crate::media::{MediaError, Medium};

/// Longest `parameters.txt` in bytes.
const PARAMETERS_CAP: u64 = 1 << 20;
/// A vfat floppy is smaller than this; the agent takes nothing of 4 GiB and more.
const FLOPPY_CAP: u64 = 4 << 30;
/// Reads that one look at a floppy may take; a file allocation table that runs in a circle ends here.
const READ_BUDGET: u32 = 1 << 20;

/// Why the parameters cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FloppyError {
    #[error("media error: {0}")]
    Media(#[from] MediaError),
    #[error("{0} bytes is too big for a virtual floppy")]
    TooBig(u64),
    #[error("its label is {found:?}, not {wanted:?}")]
    Label { found: String, wanted: &'static str },
    #[error("it cannot be read as FAT with a parameters.txt: {0}")]
    File(String),
    #[error("parameters.txt is longer than {PARAMETERS_CAP} bytes")]
    TooLong,
}

/// Kernel or floppy parameters: later ones win.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// `key=value` words; words without `=` say nothing. So a value with a space in it is cut, as it really is.
    pub(crate) fn from_text(text: &str) -> Self {
        let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
        Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let mut pairs = self.0.iter().rev();
        pairs.find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// The text of `parameters.txt`.
pub(crate) async fn read(medium: Arc<Medium>, label: &'static str) -> Result<String, FloppyError> {
    let size = medium.size().await?;
    if size > FLOPPY_CAP {
        return Err(FloppyError::TooBig(size));
    }
    let handle = Handle::current();
    tokio::task::spawn_blocking(move || {
        let image = Image {
            medium,
            handle,
            size,
            at: 0,
            block: None,
            budget: READ_BUDGET,
        };
        read_blocking(image, label)
    })
    .await
    .map_err(|error| FloppyError::File(error.to_string()))?
}

fn read_blocking(image: Image, wanted: &'static str) -> Result<String, FloppyError> {
    let wrong = |error: io::Error| FloppyError::File(error.to_string());
    let volume = fatfs::FileSystem::new(image, fatfs::FsOptions::new()).map_err(wrong)?;
    let in_root = volume.read_volume_label_from_root_dir().map_err(wrong)?;
    let found = in_root.unwrap_or_else(|| volume.volume_label());
    if !found.trim().eq_ignore_ascii_case(wanted) {
        return Err(FloppyError::Label { found, wanted });
    }
    let file = volume.root_dir().open_file("parameters.txt").map_err(wrong)?;
    let mut text = Vec::new();
    file.take(PARAMETERS_CAP + 1).read_to_end(&mut text).map_err(wrong)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > PARAMETERS_CAP {
        return Err(FloppyError::TooLong);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Blocking reads for the FAT library, one kept block at a time.
struct Image {
    medium: Arc<Medium>,
    handle: Handle,
    size: u64,
    at: u64,
    block: Option<(u64, Vec<u8>)>,
    budget: u32,
}

/// What a USB stack reads at once.
const BLOCK: u64 = 4096;

impl Read for Image {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.size || buffer.is_empty() {
            return Ok(0);
        }
        let spent = || io::Error::other("the file system runs in a circle");
        self.budget = self.budget.checked_sub(1).ok_or_else(spent)?;
        let start = self.at - self.at % BLOCK;
        if self.block.as_ref().is_none_or(|(at, _)| *at != start) {
            let len = BLOCK.min(self.size - start);
            let bytes = self
                .handle
                .block_on(self.medium.read_at(start, len))
                .map_err(io::Error::other)?;
            self.block = Some((start, bytes));
        }
        let Some((_, bytes)) = &self.block else {
            return Ok(0);
        };
        let skip = usize::try_from(self.at - start).map_err(io::Error::other)?;
        let rest = bytes.get(skip..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at += u64::try_from(count).map_err(io::Error::other)?;
        Ok(count)
    }
}

impl Write for Image {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Image {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.size.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_cut_at_white_space_and_the_last_one_wins() {
        let mut parameters = Parameters::from_text("a=1 b=x y\nc=d=e quiet");
        assert_eq!(parameters.get("b"), Some("x"));
        assert_eq!(parameters.get("c"), Some("d=e"));
        assert_eq!(parameters.get("quiet"), None);
        parameters.extend(Parameters::from_text("a=2"));
        assert_eq!(parameters.get("a"), Some("2"));
    }
}
