//! Writing an image into a file: shared blocks where the file system can, else a copy inside the kernel, else reading and
//! writing.
//!
//! Not here: how the file gets its name (`storage` lets it appear whole or not at all).

use std::fs::File;
use std::io::{self, ErrorKind};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;

use model::Sha256;
use reflink_copy::ReflinkBlockBuilder;
use rustix::io::Errno;

use crate::layout::{Extent, Layout};
use crate::read::{ReadError, open};
use crate::source::{Source, SourceSet};

/// Bytes per read where the kernel cannot copy by itself.
const COPY_BUFFER: u64 = 1 << 20;
/// Bytes that the kernel copies between two reports of progress.
const COPY_STEP: u64 = 32 << 20;

/// Why an image could not be written into a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A source failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file failed (a full disk, say).
    #[error("writing the image file failed")]
    File(#[source] io::Error),
}

/// How the bytes of a written image came into the file; together they are the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Shared with the source's own blocks (FICLONERANGE): not read, not written, and they take no room.
    pub cloned: u64,
    /// Copied from a source's file inside the kernel (`copy_file_range`).
    pub copied: u64,
    /// Written from memory: literals, and sources that the kernel could not copy.
    pub written: u64,
    /// Zeros that became holes.
    pub holes: u64,
}

impl Written {
    /// Bytes so far: all of the image at the end.
    pub fn total(&self) -> u64 {
        self.cloned + self.copied + self.written + self.holes
    }
}

impl Layout {
    /// Writes the whole image into `file`, replacing what it held, and waits until it is on the disk. Zeros become holes;
    /// of sources, whole blocks are shared where the file system can (XFS, btrfs), the rest is copied.
    ///
    /// On an error the file holds a part of the image: write where nobody finds it yet.
    pub fn write_to(&self, sources: &dyn SourceSet, file: &File) -> Result<Written, WriteError> {
        self.write_with(sources, file, &mut |_| ())
    }

    /// As [`Layout::write_to`]; `progress` hears now and then how many bytes of the image are in the file.
    pub fn write_with(
        &self,
        sources: &dyn SourceSet,
        file: &File,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Written, WriteError> {
        let written = self.fill(sources, file, progress)?;
        file.sync_all().map_err(WriteError::File)?;
        Ok(written)
    }

    /// As [`Layout::write_with`], for one of many files: nobody waits for the disk.
    pub fn fill(
        &self,
        sources: &dyn SourceSet,
        file: &File,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Written, WriteError> {
        file.set_len(0).map_err(WriteError::File)?;
        file.set_len(self.size()).map_err(WriteError::File)?;
        let mut out = Out {
            file,
            block: block_size(file),
            clones: true,
            done: Written::default(),
            progress,
        };
        for extent in self.extents() {
            let at = out.done.total();
            match extent {
                Extent::Literal(bytes) => {
                    file.write_all_at(bytes, at).map_err(WriteError::File)?;
                    out.done.written += extent.len();
                }
                Extent::Zero(len) => out.done.holes += len,
                Extent::Source { sha256, offset, len } => {
                    let source = open(sources, *sha256, offset + len)?;
                    out.source(&*source, *sha256, *offset, *len)?;
                }
            }
            out.report();
        }
        Ok(out.done)
    }
}

/// What clones have to be a multiple of, in this file's file system.
fn block_size(file: &File) -> u64 {
    const USUAL: u64 = 4096;
    rustix::fs::fstatfs(file)
        .ok()
        .and_then(|found| u64::try_from(found.f_bsize).ok())
        .filter(|size| size.is_power_of_two() && (512..=1 << 20).contains(size))
        .unwrap_or(USUAL)
}

/// A file that is filled from front to back; how far it is filled is `done.total()`.
struct Out<'a> {
    file: &'a File,
    block: u64,
    /// Whether the file system of `file` may know how to share blocks.
    clones: bool,
    done: Written,
    progress: &'a mut dyn FnMut(u64),
}

impl Out<'_> {
    fn report(&mut self) {
        (self.progress)(self.done.total());
    }

    /// Appends a range of a source.
    fn source(&mut self, source: &dyn Source, sha256: Sha256, from: u64, len: u64) -> Result<(), WriteError> {
        let to = self.done.total();
        let Some(file) = source.file() else {
            return self.read_and_write(source, sha256, from, len);
        };
        let (head, body) = self.whole_blocks(from, to, len);
        let mut from = from;
        // Whole blocks are shared; what stands before and after them shares a block with something else.
        for (len, is_body) in [(head, false), (body, true), (len - head - body, false)] {
            if len == 0 {
                continue;
            }
            let mut left = len;
            if is_body && self.clone_range(file, from, len).map_err(WriteError::File)? {
                left = 0;
            }
            left -= self.copy(file, from + len - left, left).map_err(WriteError::File)?;
            // What the kernel does not copy (other file systems, old kernels, sandboxes), and a source that ended early:
            // reading tells.
            self.read_and_write(source, sha256, from + len - left, left)?;
            from += len;
        }
        Ok(())
    }

    /// How many bytes stand before the first whole block of both files, and how many bytes the whole blocks have.
    fn whole_blocks(&self, from: u64, to: u64, len: u64) -> (u64, u64) {
        if !self.clones || from % self.block != to % self.block {
            return (0, 0);
        }
        let head = (from.next_multiple_of(self.block) - from).min(len);
        (head, (len - head) / self.block * self.block)
    }

    /// Shares whole blocks with the source; `false` if these cannot be shared.
    fn clone_range(&mut self, source: &File, from: u64, len: u64) -> io::Result<bool> {
        let Some(length) = NonZeroU64::new(len) else {
            return Ok(false);
        };
        let cloned = ReflinkBlockBuilder::new(source, self.file, length)
            .from_offset(from)
            .to_offset(self.done.total())
            .reflink_block();
        match cloned {
            Ok(()) => {
                self.done.cloned += len;
                self.report();
                Ok(true)
            }
            Err(error) if is_full(&error) => Err(error),
            Err(error) => {
                let never = [Errno::OPNOTSUPP, Errno::NOTTY, Errno::NOSYS, Errno::PERM];
                self.clones &= !never
                    .map(|errno| Some(errno.raw_os_error()))
                    .contains(&error.raw_os_error());
                Ok(false)
            }
        }
    }

    /// Copies what the kernel can copy by itself and returns how much that was.
    fn copy(&mut self, source: &File, from: u64, len: u64) -> io::Result<u64> {
        let (mut from, mut to, mut done) = (from, self.done.total(), 0);
        while done < len {
            let part = usize::try_from((len - done).min(COPY_STEP)).unwrap_or(usize::MAX);
            match rustix::fs::copy_file_range(source, Some(&mut from), self.file, Some(&mut to), part) {
                Ok(0) => break,
                Ok(copied) => {
                    done += copied as u64;
                    self.done.copied += copied as u64;
                    self.report();
                }
                Err(Errno::INTR) => {}
                Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::BADF) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    fn read_and_write(
        &mut self,
        source: &dyn Source,
        sha256: Sha256,
        mut from: u64,
        len: u64,
    ) -> Result<(), WriteError> {
        let mut buffer = vec![0; usize::try_from(COPY_BUFFER.min(len)).unwrap_or(0)];
        let mut left = len;
        while left > 0 {
            let part = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
            let part = &mut buffer[..part];
            source
                .read_at(from, part)
                .map_err(|source| ReadError::SourceIo { sha256, source })?;
            self.file
                .write_all_at(part, self.done.total())
                .map_err(WriteError::File)?;
            self.done.written += part.len() as u64;
            from += part.len() as u64;
            left -= part.len() as u64;
            self.report();
        }
        Ok(())
    }
}

/// Going on with a copy would fail in the same way.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::LayoutBuilder;
    use crate::layout::Kind;
    use crate::read::tests::{expected, extent, pattern, sha, sources};
    use crate::source::{FileSource, SourceMap};
    use proptest::prelude::*;
    use std::sync::Arc;

    proptest! {
        #[test]
        fn a_written_file_holds_what_reading_gives(extents in prop::collection::vec(extent(), 0..12)) {
            let whole = expected(&extents);
            let layout = Layout::from_extents(Kind::Other, extents).unwrap();
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), b"what was there before").unwrap();
            let mut heard = Vec::new();
            let written = layout.write_with(&sources(), file.as_file(), &mut |done| heard.push(done)).unwrap();
            prop_assert!(std::fs::read(file.path()).unwrap() == whole);
            prop_assert_eq!(written.total(), layout.size());
            prop_assert!(heard.is_sorted());
            prop_assert_eq!(heard.last().copied().unwrap_or(0), layout.size());
        }
    }

    #[test]
    fn a_file_source_is_copied_by_the_kernel_at_any_alignment() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("source");
        let content = pattern(7, 3_000_001);
        std::fs::write(&path, &content).unwrap();
        let mut sources = SourceMap::default();
        sources.insert(sha(7), Arc::new(FileSource::open(&path).unwrap()));
        for (lead, offset, len) in [
            (4096, 0, 3_000_001),
            (1, 0, 3_000_001),
            (4096, 4095, 2_000_000),
            (4095, 4095, 2_000_000),
            (0, 3_000_000, 1),
        ] {
            let mut builder = LayoutBuilder::new(Kind::Other);
            builder.zeros(lead);
            builder.source(sha(7), offset, len);
            let layout = builder.finish().unwrap();
            let out = tempfile::NamedTempFile::new_in(dir.path()).unwrap();
            let written = layout.write_to(&sources, out.as_file()).unwrap();
            assert_eq!((written.holes, written.total()), (lead, lead + len), "{written:?}");
            let file = std::fs::read(out.path()).unwrap();
            let (lead, offset, len) = (
                usize::try_from(lead).unwrap(),
                usize::try_from(offset).unwrap(),
                usize::try_from(len).unwrap(),
            );
            assert_eq!(file.len(), lead + len);
            assert!(file[..lead].iter().all(|byte| *byte == 0));
            assert!(file[lead..] == content[offset..offset + len]);
        }
    }

    #[test]
    fn a_source_that_is_cut_short_under_us_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("source");
        std::fs::write(&path, pattern(7, 100_000)).unwrap();
        let source = FileSource::open(&path).unwrap();
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(50_000)
            .unwrap();
        let mut sources = SourceMap::default();
        sources.insert(sha(7), Arc::new(source));
        let mut builder = LayoutBuilder::new(Kind::Other);
        builder.source(sha(7), 0, 100_000);
        let out = tempfile::NamedTempFile::new_in(dir.path()).unwrap();
        let error = builder.finish().unwrap().write_to(&sources, out.as_file()).unwrap_err();
        let WriteError::Read(ReadError::SourceIo { sha256, source }) = error else {
            panic!("{error}");
        };
        assert_eq!((sha256, source.kind()), (sha(7), ErrorKind::UnexpectedEof));
    }

    #[test]
    fn a_source_that_is_missing_is_named() {
        let mut builder = LayoutBuilder::new(Kind::Other);
        builder.source(sha(1), 0, 6000);
        let file = tempfile::tempfile().unwrap();
        assert!(matches!(
            builder.finish().unwrap().write_to(&sources(), &file),
            Err(WriteError::Read(ReadError::SourceTruncated { .. }))
        ));
    }
}
