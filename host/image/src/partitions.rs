//! Partition tables of disk images and of hybrid ISOs: MBR and GPT (UEFI 2.10, chapter 5), read and, for our own ISOs and
//! patched ones, written.

mod gpt;
mod read;

use std::fmt;
use std::io;

pub(crate) use gpt::{GPT_BYTES, Gpt, GptPartition, SECTOR};
pub use read::partitions;
pub(crate) use read::{gpt_header, mbr_entries};

/// Why a partition table cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// The table is there and contradicts itself.
    #[error("the GPT is damaged: {0}")]
    Damaged(&'static str),
    /// The image could not be read.
    #[error("reading the image failed")]
    Io(#[source] io::Error),
}

/// The partitions of an image. A hybrid has both tables; of a GPT disk, the MBR has one entry that protects it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Partitions {
    /// Entries of the MBR that are in use.
    pub mbr: Vec<Partition>,
    /// Entries of the GPT that are in use.
    pub gpt: Vec<Partition>,
}

/// One partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Partition {
    /// Its number, from 1.
    pub number: u32,
    /// What it is for.
    pub kind: PartitionKind,
    /// Where it starts, in bytes. Sectors are taken to have 512 bytes.
    pub at: u64,
    /// Its bytes.
    pub len: u64,
    /// Whether a BIOS may boot it.
    pub bootable: bool,
    /// Its name; empty in an MBR.
    pub name: String,
}

/// What a partition is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionKind {
    /// The type of an MBR entry.
    Mbr(u8),
    /// The type of a GPT entry.
    Gpt(Guid),
}

impl PartitionKind {
    /// Whether it is an EFI system partition.
    pub fn is_esp(self) -> bool {
        self == Self::Mbr(0xEF) || self == Self::Gpt(Guid::ESP)
    }
}

impl fmt::Display for PartitionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mbr(0xEE) => f.write_str("GPT protective"),
            Self::Mbr(kind) => write!(f, "{kind:#04x}"),
            Self::Gpt(guid) if *guid == Guid::ESP => f.write_str("EFI system"),
            Self::Gpt(guid) if *guid == Guid::BASIC_DATA => f.write_str("basic data"),
            Self::Gpt(guid) => guid.fmt(f),
        }
    }
}

/// A GUID, as its bytes lie on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// EFI system partition (C12A7328-F81F-11D2-BA4B-00A0C93EC93B).
    pub const ESP: Self = Self([
        0x28, 0x73, 0x2A, 0xC1, 0x1F, 0xF8, 0xD2, 0x11, 0xBA, 0x4B, 0x00, 0xA0, 0xC9, 0x3E, 0xC9, 0x3B,
    ]);
    /// Data that any system reads (EBD0A0A2-B9E5-4433-87C0-68B6B72699C7).
    pub const BASIC_DATA: Self = Self([
        0xA2, 0xA0, 0xD0, 0xEB, 0xE5, 0xB9, 0x33, 0x44, 0x87, 0xC0, 0x68, 0xB6, 0xB7, 0x26, 0x99, 0xC7,
    ]);

    /// A GUID of these bytes, marked as one whose maker chose all others (RFC 9562, version 8).
    pub(crate) fn custom(mut bytes: [u8; 16]) -> Self {
        // The version stands in the high half of the third field, which is little-endian.
        bytes[7] = bytes[7] & 0x0F | 0x80;
        bytes[8] = bytes[8] & 0x3F | 0x80;
        Self(bytes)
    }
}

/// In the usual form, whose first three fields are little-endian on disk.
impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
        for (index, at) in ORDER.into_iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{:02X}", self.0[at])?;
        }
        Ok(())
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
