//! Following a file's clusters, and reading what is in them.

use std::io::Write;
use std::ops::Range;

use super::reader::{FatEntry, FatReadError, FatVolume, damaged};

/// Bytes of the allocation table that are kept at a time.
const WINDOW: u64 = 4096;
/// Bytes of neighbouring clusters that are read at a time.
const BLOCK: u64 = 1 << 20;
/// Pieces that a file may lie in to be told by its sections.
const MAX_SECTIONS: usize = 65_536;

impl FatVolume<'_> {
    /// The bytes of a file that [`FatVolume::entries`] found, if they are at most `limit`.
    pub fn read(&self, file: &FatEntry, limit: u32) -> Result<Vec<u8>, FatReadError> {
        if file.len > limit {
            return Err(FatReadError::TooLarge {
                path: file.path.clone(),
                len: file.len,
                limit,
            });
        }
        let mut bytes = Vec::new();
        self.copy_to(file, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes the bytes of a file that [`FatVolume::entries`] found, whatever its length; holds a megabyte at a time.
    pub fn copy_to(&self, file: &FatEntry, to: &mut dyn Write) -> Result<(), FatReadError> {
        let mut buffer = Vec::new();
        let mut copy = |mut section: Range<u64>| {
            while !section.is_empty() {
                let end = section.end.min(section.start + BLOCK);
                buffer.clear();
                self.append(&mut buffer, section.start, end - section.start)?;
                to.write_all(&buffer).map_err(FatReadError::Write)?;
                section.start = end;
            }
            Ok(())
        };
        self.each_section(file, &mut copy)
    }

    /// Where the bytes of a file lie in the image, in order. Refuses a file in very many pieces; [`FatVolume::copy_to`]
    /// reads it.
    pub fn sections(&self, file: &FatEntry) -> Result<Vec<Range<u64>>, FatReadError> {
        let mut sections = Vec::new();
        self.each_section(file, &mut |section| {
            if sections.len() == MAX_SECTIONS {
                return Err(damaged(&file.path, "it lies in more pieces than are counted"));
            }
            sections.push(section);
            Ok(())
        })?;
        Ok(sections)
    }

    /// Hears of each run of neighbouring clusters.
    fn each_section(
        &self,
        file: &FatEntry,
        hear: &mut dyn FnMut(Range<u64>) -> Result<(), FatReadError>,
    ) -> Result<(), FatReadError> {
        let mut left = u64::from(file.len);
        let mut chain = Chain::new(self, file.cluster);
        let mut section: Range<u64> = 0..0;
        while left > 0 {
            let at = chain
                .next(&file.path)?
                .ok_or_else(|| damaged(&file.path, "its chain ends before its length"))?;
            let part = left.min(self.cluster_bytes);
            if at != section.end {
                if !section.is_empty() {
                    hear(section)?;
                }
                section = at..at;
            }
            section.end += part;
            left -= part;
        }
        match section.is_empty() {
            true => Ok(()),
            false => hear(section),
        }
    }

    /// How many clusters no file has. Reads the allocation table from end to end.
    pub fn free_clusters(&self) -> Result<u64, FatReadError> {
        let mut entries = Chain::new(self, 0);
        let mut free = 0;
        for cluster in 2..self.clusters + 2 {
            free += u64::from(entries.entry(cluster)? == 0);
        }
        Ok(free)
    }
}

/// Follows a chain of clusters. It never ends by itself if it is a ring: who follows it bounds it.
pub(super) struct Chain<'a> {
    volume: &'a FatVolume<'a>,
    next: Option<u32>,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Chain<'a> {
    pub(super) fn new(volume: &'a FatVolume<'a>, first: u32) -> Self {
        Self {
            volume,
            next: Some(first),
            window: Vec::new(),
            window_at: 0,
        }
    }

    /// Where the next cluster starts in the image.
    pub(super) fn next(&mut self, path: &str) -> Result<Option<u64>, FatReadError> {
        let Some(cluster) = self.next else { return Ok(None) };
        let number = u64::from(cluster);
        if !(2..self.volume.clusters + 2).contains(&number) {
            return Err(damaged(path, "its chain leaves the volume"));
        }
        let entry = self.entry(number)?;
        let last = match self.volume.bits {
            12 => 0xFF8,
            16 => 0xFFF8,
            _ => 0x0FFF_FFF8,
        };
        self.next = (entry < last).then_some(entry);
        Ok(Some(self.volume.data + (number - 2) * self.volume.cluster_bytes))
    }

    pub(super) fn entry(&mut self, cluster: u64) -> Result<u32, FatReadError> {
        let bit = cluster * self.volume.bits;
        let at = bit / 8;
        // Four bytes, or what is left of the table: a FAT12 entry at its end has only two.
        let end = (at + 4).min(self.volume.table_bytes);
        if at < self.window_at || end > self.window_at + self.window.len() as u64 {
            let len = WINDOW.min(self.volume.table_bytes - at);
            self.window.clear();
            self.volume.append(&mut self.window, self.volume.table + at, len)?;
            self.window_at = at;
        }
        let mut bytes = [0; 4];
        let start = usize::try_from(at - self.window_at).unwrap_or(usize::MAX);
        for (to, from) in bytes.iter_mut().zip(self.window.iter().skip(start)) {
            *to = *from;
        }
        let number = u32::from_le_bytes(bytes);
        Ok(match self.volume.bits {
            12 => (number >> (bit % 8)) & 0xFFF,
            16 => number & 0xFFFF,
            _ => number & 0x0FFF_FFFF,
        })
    }
}
