//! What a disk image is: told by its own bytes, and refused if that is not what it is said to be.
//!
//! Whoever converts an image believes what stands in it. A `raw` image that is a qcow2 inside, or a qcow2 that names a
//! backing file, makes a converter read files of the machine that it runs on. So the format that is declared must be the
//! one that is found, and what is found must refer to nothing but itself.

use std::fmt;

mod qcow2;
mod unpack;

pub use unpack::Compression;
pub(crate) use unpack::{UnpackError, unpack};

/// Bytes of an image's beginning that tell its format: the ISO 9660 descriptor begins at 32 KiB.
pub const HEAD: usize = 64 << 10;
/// Bytes of its end that do: a fixed VHD has its mark there.
pub const TAIL: usize = 512;

/// A format that images are written in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DiskFormat {
    /// A disk, byte for byte.
    Raw,
    /// QEMU's copy-on-write format, which the agent converts.
    Qcow2,
    /// ISO 9660; written byte for byte.
    Iso,
}

impl DiskFormat {
    /// Ironic's and Glance's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Iso => "iso",
        }
    }

    /// Reads such a name; `None` if images of that format are not written. `gpt` is how newer tools call a raw image with
    /// a partition table; kernels and ramdisks (`aki`, `ari`) are no disks.
    pub fn parse(name: &str) -> Option<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "raw" | "gpt" => Some(Self::Raw),
            "qcow2" => Some(Self::Qcow2),
            "iso" => Some(Self::Iso),
            _ => None,
        }
    }
}

impl fmt::Display for DiskFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an image is not written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// It is something else than it is said to be.
    #[error("it is declared as {declared}, but it is {found}: correct image_disk_format, or give another image")]
    Declared {
        /// What it is said to be.
        declared: DiskFormat,
        /// What its bytes say.
        found: &'static str,
    },
    /// A format that is not written.
    #[error("it is {0}, and only raw, qcow2 and ISO images are written: convert it (qemu-img convert -O raw)")]
    Format(&'static str),
    /// It can be read as one thing or as another.
    #[error("it is both {0} and {1}: such an image is made to deceive")]
    Ambiguous(&'static str, &'static str),
    /// It needs other files, which are not part of it.
    #[error("it is a qcow2 that refers to another file ({0}): flatten it (qemu-img convert -O qcow2)")]
    Refers(&'static str),
    /// Its header makes no sense.
    #[error("its qcow2 header is damaged or unknown: {0}")]
    Header(&'static str),
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
}

/// What an image is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Disk {
    /// Its format.
    pub format: DiskFormat,
    /// Bytes that it needs on the disk, where that is known.
    pub size: Option<u64>,
}

/// Checks an image by its first [`HEAD`] and its last [`TAIL`] bytes (or all of a shorter one). `tail` is `None` where it
/// could not be had, and `len` where nobody tells it. Compressed images are looked at once they are unpacked.
pub fn inspect(
    head: &[u8],
    tail: Option<&[u8]>,
    len: Option<u64>,
    declared: Option<DiskFormat>,
) -> Result<Disk, ImageError> {
    if len == Some(0) || head.is_empty() {
        return Err(ImageError::Empty);
    }
    let marks = marks(head, tail);
    let found = match marks[..] {
        [] => Mark::Raw,
        [one] => one,
        // Hybrid ISOs have a partition table for USB sticks.
        [Mark::Iso, Mark::Gpt] => Mark::Iso,
        [one, other, ..] => return Err(ImageError::Ambiguous(one.name(), other.name())),
    };
    let raw = |declared| Disk {
        format: declared,
        size: len,
    };
    match (found, declared) {
        (Mark::Qcow2, None | Some(DiskFormat::Qcow2)) => {
            let size = qcow2::virtual_size(head, len)?;
            Ok(Disk {
                format: DiskFormat::Qcow2,
                size: Some(size),
            })
        }
        (Mark::Iso, None | Some(DiskFormat::Iso)) => Ok(raw(DiskFormat::Iso)),
        // All of these are written byte for byte, and nobody looks inside.
        (Mark::Raw | Mark::Gpt | Mark::Luks, None)
        | (Mark::Raw | Mark::Gpt | Mark::Luks | Mark::Iso, Some(DiskFormat::Raw)) => Ok(raw(DiskFormat::Raw)),
        (found, Some(declared)) => Err(ImageError::Declared {
            declared,
            found: found.name(),
        }),
        (found, None) => Err(ImageError::Format(found.name())),
    }
}

/// A format's mark in the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    Qcow2,
    Qed,
    Vmdk,
    Vhd,
    Vhdx,
    Vdi,
    Luks,
    Iso,
    Gpt,
    Raw,
}

impl Mark {
    fn name(self) -> &'static str {
        match self {
            Self::Qcow2 => "a qcow2",
            Self::Qed => "a QED",
            Self::Vmdk => "a VMDK",
            Self::Vhd => "a VHD",
            Self::Vhdx => "a VHDX",
            Self::Vdi => "a VDI",
            Self::Luks => "an encrypted volume (LUKS)",
            Self::Iso => "an ISO 9660 image",
            Self::Gpt => "a disk with a partition table",
            Self::Raw => "raw",
        }
    }
}

/// All marks that are there, in the order of [`Mark`].
fn marks(head: &[u8], tail: Option<&[u8]>) -> Vec<Mark> {
    let at = |offset: usize, mark: &[u8]| head.get(offset..).is_some_and(|rest| rest.starts_with(mark));
    let vhd_tail = tail.is_some_and(|tail| tail.len() >= TAIL && tail[tail.len() - TAIL..].starts_with(b"conectix"));
    // A VMDK may be a text that names its parts.
    let text = head.trim_ascii_start().to_ascii_lowercase();
    let vmdk = at(0, b"KDMV") || at(0, b"COWD") || text.starts_with(b"# disk descriptorfile");
    // The table of a disk with sectors of 512 or of 4096 bytes, behind a boot sector.
    let gpt = at(510, &[0x55, 0xaa]) && (at(512, b"EFI PART") || at(4096, b"EFI PART"));
    let volume = |sector: usize| at(sector * 2048 + 1, b"CD001");
    [
        (Mark::Qcow2, at(0, b"QFI\xfb")),
        (Mark::Qed, at(0, b"QED\0")),
        (Mark::Vmdk, vmdk),
        (Mark::Vhd, at(0, b"conectix") || vhd_tail),
        (Mark::Vhdx, at(0, b"vhdxfile")),
        (Mark::Vdi, at(0x40, &[0x7f, 0x10, 0xda, 0xbe])),
        (Mark::Luks, at(0, b"LUKS\xba\xbe")),
        (Mark::Iso, volume(16)),
        (Mark::Gpt, gpt),
    ]
    .into_iter()
    .filter_map(|(mark, there)| there.then_some(mark))
    .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with(marks: &[(usize, &[u8])]) -> Vec<u8> {
        let mut head = vec![0; HEAD];
        for (offset, mark) in marks {
            head[*offset..offset + mark.len()].copy_from_slice(mark);
        }
        head
    }

    fn look(head: &[u8], declared: Option<DiskFormat>) -> Result<DiskFormat, ImageError> {
        inspect(head, None, Some(1 << 30), declared).map(|disk| disk.format)
    }

    const ISO: (usize, &[u8]) = (0x8001, b"CD001");
    const BOOT: (usize, &[u8]) = (510, b"\x55\xaa");
    const GPT: (usize, &[u8]) = (512, b"EFI PART");

    #[test]
    fn what_is_written_byte_for_byte_may_be_called_raw() {
        for head in [
            with(&[]),
            with(&[BOOT]),
            with(&[BOOT, GPT]),
            with(&[BOOT, (4096, b"EFI PART")]),
            with(&[(0, b"LUKS\xba\xbe")]),
        ] {
            assert_eq!(look(&head, None), Ok(DiskFormat::Raw));
            assert_eq!(look(&head, Some(DiskFormat::Raw)), Ok(DiskFormat::Raw));
            for other in [DiskFormat::Qcow2, DiskFormat::Iso] {
                assert!(matches!(look(&head, Some(other)), Err(ImageError::Declared { .. })));
            }
        }
        for head in [with(&[ISO]), with(&[ISO, BOOT, GPT])] {
            assert_eq!(look(&head, None), Ok(DiskFormat::Iso));
            assert_eq!(look(&head, Some(DiskFormat::Iso)), Ok(DiskFormat::Iso));
            assert_eq!(look(&head, Some(DiskFormat::Raw)), Ok(DiskFormat::Raw));
            assert!(look(&head, Some(DiskFormat::Qcow2)).is_err());
        }
    }

    #[test]
    fn formats_that_are_not_written_are_refused_under_any_name() {
        for (mark, name) in [
            (&(0, &b"QED\0"[..]), "QED"),
            (&(0, b"KDMV"), "VMDK"),
            (&(0, b"COWD"), "VMDK"),
            (&(0, b"# Disk DescriptorFile\n"), "VMDK"),
            (&(0, b"\n # disk descriptorfile"), "VMDK"),
            (&(0, b"conectix"), "VHD"),
            (&(0, b"vhdxfile"), "VHDX"),
            (&(0x40, b"\x7f\x10\xda\xbe"), "VDI"),
        ] {
            let head = with(&[*mark]);
            for declared in [
                None,
                Some(DiskFormat::Raw),
                Some(DiskFormat::Qcow2),
                Some(DiskFormat::Iso),
            ] {
                let error = look(&head, declared).unwrap_err();
                assert!(error.to_string().contains(name), "{error}");
            }
        }
        let mut tail = vec![0; TAIL];
        tail[..8].copy_from_slice(b"conectix");
        let fixed = inspect(&with(&[BOOT]), Some(&tail), Some(1 << 30), Some(DiskFormat::Raw));
        assert!(fixed.unwrap_err().to_string().contains("VHD"));
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for head in [
            with(&[(0, b"QFI\xfb"), ISO]),
            with(&[(0, b"KDMV"), BOOT, GPT]),
            with(&[(0, b"vhdxfile"), ISO]),
        ] {
            for declared in [
                None,
                Some(DiskFormat::Iso),
                Some(DiskFormat::Raw),
                Some(DiskFormat::Qcow2),
            ] {
                assert!(
                    matches!(look(&head, declared), Err(ImageError::Ambiguous(..))),
                    "{declared:?}"
                );
            }
        }
        assert_eq!(inspect(&[], None, Some(0), None), Err(ImageError::Empty));
    }

    #[test]
    fn names_of_formats_are_those_of_glance() {
        for (name, format) in [
            ("raw", Some(DiskFormat::Raw)),
            ("RAW", Some(DiskFormat::Raw)),
            ("gpt", Some(DiskFormat::Raw)),
            ("qcow2", Some(DiskFormat::Qcow2)),
            ("iso", Some(DiskFormat::Iso)),
            ("vmdk", None),
            ("ami", None),
            ("", None),
        ] {
            assert_eq!(DiskFormat::parse(name), format, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_inspection(head in prop::collection::vec(any::<u8>(), 0..700), magic in any::<bool>(), len in any::<Option<u64>>()) {
            let mut head = head;
            if magic && head.len() >= 4 {
                head[..4].copy_from_slice(b"QFI\xfb");
            }
            let _ = inspect(&head, Some(&head), len, None);
        }
    }
}
