//! Following a file's clusters, and reading what is in them.

use std::io::Write;
use std::ops::Range;

use super::reader::{FatEntry, FatReadError, FatVolume, damaged};

/// Bytes of the allocation table that are kept at a time.
const WINDOW: u64 = 4096;
/// Bytes of neighbouring clusters that are read at a time.
const BLOCK: u64 = 1 << 20;

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
        let mut left = u64::from(file.len);
        let mut chain = Chain::new(self, file.cluster);
        let mut buffer = Vec::new();
        let mut block: Range<u64> = 0..0;
        while left > 0 {
            let at = chain
                .next(&file.path)?
                .ok_or_else(|| damaged(&file.path, "its chain ends before its length"))?;
            let part = left.min(self.cluster_bytes);
            if at != block.end || block.end - block.start + part > BLOCK {
                self.copy_block(&block, &mut buffer, to)?;
                block = at..at;
            }
            block.end += part;
            left -= part;
        }
        self.copy_block(&block, &mut buffer, to)
    }

    fn copy_block(&self, block: &Range<u64>, buffer: &mut Vec<u8>, to: &mut dyn Write) -> Result<(), FatReadError> {
        buffer.clear();
        self.append(buffer, block.start, block.end - block.start)?;
        to.write_all(buffer).map_err(FatReadError::Write)
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

    fn entry(&mut self, cluster: u64) -> Result<u32, FatReadError> {
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
