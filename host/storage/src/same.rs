//! Whether a file holds an image already.

use std::fs::File;
use std::io::{self, Read as _};

use image::{Layout, ReadError, SourceSet};

/// Bytes compared at a time.
const BLOCK: usize = 1 << 20;

/// Which of the two could not be read.
pub(crate) enum SameError {
    File(io::Error),
    Source(ReadError),
}

/// Whether the file's bytes, from where it is read, are the image's. Blocks.
pub(crate) fn same_bytes(file: &mut File, layout: &Layout, sources: &dyn SourceSet) -> Result<bool, SameError> {
    let size = layout.size();
    if file.metadata().map_err(SameError::File)?.len() != size {
        return Ok(false);
    }
    let (mut theirs, mut ours) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut at = 0;
    while at < size {
        let len = usize::try_from(size - at).map_or(BLOCK, |rest| rest.min(BLOCK));
        file.read_exact(&mut theirs[..len]).map_err(SameError::File)?;
        layout
            .read_at(sources, at, &mut ours[..len])
            .map_err(SameError::Source)?;
        if theirs[..len] != ours[..len] {
            return Ok(false);
        }
        at += len as u64;
    }
    Ok(true)
}
