//! What a directory of an ISO holds.

use std::fmt;

/// What an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IsoKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link to this target (Rock Ridge).
    Link(String),
    /// A device, pipe or socket (Rock Ridge).
    Special,
}

/// A run of bytes in the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IsoSection {
    /// Where it starts.
    pub at: u64,
    /// Its bytes.
    pub len: u64,
}

/// A file or directory of an ISO.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IsoEntry {
    /// Path from the root, without a leading slash; empty for the root itself.
    pub path: String,
    /// What it is.
    pub kind: IsoKind,
    /// Bytes of a file; 0 for anything else.
    pub len: u64,
    /// Where the bytes are, in order. A file of 4 GiB or more has several sections; an empty one may have none.
    pub sections: Vec<IsoSection>,
    /// POSIX file type and permission bits, where Rock Ridge tells them.
    pub mode: Option<u32>,
    /// When it was recorded, if that is a date.
    pub recorded: Option<IsoTime>,
    /// Whether it cannot be read as it is: compressed (zisofs) or interleaved.
    pub(super) unreadable: Option<&'static str>,
    /// Where its directory records start in the image.
    pub(in crate::iso9660) records: Vec<u64>,
}

impl IsoEntry {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == IsoKind::Directory
    }

    /// Whether it is a file.
    pub fn is_file(&self) -> bool {
        self.kind == IsoKind::File
    }
}

/// A date as a directory record holds it (ECMA-119 §9.1.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IsoTime {
    /// Year, from 1900 to 2155.
    pub year: u16,
    /// Month, from 1.
    pub month: u8,
    /// Day, from 1.
    pub day: u8,
    /// Hour.
    pub hour: u8,
    /// Minute.
    pub minute: u8,
    /// Second.
    pub second: u8,
    /// Minutes that the time is ahead of UTC.
    pub offset_minutes: i16,
}

impl IsoTime {
    pub(super) fn of_record(bytes: &[u8]) -> Option<Self> {
        let [year, month, day, hour, minute, second, quarters] = <[u8; 7]>::try_from(bytes).ok()?;
        let quarters = i16::from(quarters.cast_signed());
        let is_date = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            && hour < 24
            && minute < 60
            && second < 61
            && (-48..=52).contains(&quarters);
        is_date.then_some(Self {
            year: 1900 + u16::from(year),
            month,
            day,
            hour,
            minute,
            second,
            offset_minutes: quarters * 15,
        })
    }
}

/// As in RFC 3339.
impl fmt::Display for IsoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.offset_minutes < 0 { '-' } else { '+' };
        let offset = self.offset_minutes.unsigned_abs();
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{sign}{:02}:{:02}",
            self.year,
            self.month,
            self.day,
            self.hour,
            self.minute,
            self.second,
            offset / 60,
            offset % 60
        )
    }
}
