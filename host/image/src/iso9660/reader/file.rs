//! A file of an ISO as a source of its own.

use std::io;

use super::{IsoEntry, IsoReadError, IsoSection};
use crate::source::Source;

/// The bytes of one file. It reads the image only where it is read itself.
#[derive(Clone)]
pub struct IsoFile<'a> {
    image: &'a dyn Source,
    sections: Vec<IsoSection>,
    /// Where each section starts in the file.
    starts: Vec<u64>,
    len: u64,
}

impl<'a> IsoFile<'a> {
    /// A part of the image that is known to lie inside it.
    pub(in crate::iso9660) fn of_section(image: &'a dyn Source, section: IsoSection) -> Self {
        Self {
            image,
            sections: vec![section],
            starts: vec![0],
            len: section.len,
        }
    }

    pub(super) fn new(image: &'a dyn Source, file: &IsoEntry) -> Result<Self, IsoReadError> {
        let unsupported = |reason| IsoReadError::Unsupported {
            path: file.path.clone(),
            reason,
        };
        if !file.is_file() {
            return Err(unsupported("it is no file"));
        }
        if let Some(reason) = file.unreadable {
            return Err(unsupported(reason));
        }
        let mut starts = Vec::with_capacity(file.sections.len());
        let mut len = 0u64;
        for section in &file.sections {
            starts.push(len);
            let end = section.at.checked_add(section.len);
            if end.is_none_or(|end| end > image.len()) {
                return Err(IsoReadError::Damaged {
                    path: file.path.clone(),
                    reason: "a part of the file lies outside the image, which may have been cut short",
                });
            }
            // Sections inside an image, of which there are boundedly many: no sum of them overflows.
            len = len.saturating_add(section.len);
        }
        Ok(Self {
            image,
            sections: file.sections.clone(),
            starts,
            len,
        })
    }
}

impl Source for IsoFile<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, mut offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = buf;
        let mut index = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        while !rest.is_empty() {
            let section = self.sections[index];
            let skip = offset - self.starts[index];
            let part = usize::try_from(section.len - skip).map_or(rest.len(), |left| left.min(rest.len()));
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(part);
            self.image.read_at(section.at + skip, head)?;
            rest = tail;
            offset += part as u64;
            index += 1;
        }
        Ok(())
    }
}
