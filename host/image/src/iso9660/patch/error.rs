//! Why an ISO cannot be changed.

use crate::fat::FatPatchError;
use crate::iso9660::{IsoError, IsoReadError};
use crate::layout::LayoutError;
use crate::partitions::PartitionError;
use crate::path::PathError;

/// Why an ISO cannot be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The image cannot be read.
    #[error(transparent)]
    Read(#[from] IsoReadError),
    /// The image's partition table cannot be read.
    #[error(transparent)]
    Partitions(#[from] PartitionError),
    /// A file inside the ESP cannot be changed.
    #[error("the image's EFI system partition cannot be changed")]
    Esp(#[source] FatPatchError),
    /// A parameter or argument that a boot loader or the kernel would misread.
    #[error(transparent)]
    Line(IsoError),
    /// A path that an image cannot have.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A directory, a link or a device has this path.
    #[error("{path:?} is no file, so no file can be put there")]
    NotAFile {
        /// The path.
        path: String,
    },
    /// There is no file to embed into.
    #[error("the image has no file {path:?} to embed into")]
    NoPlace {
        /// The path.
        path: String,
    },
    /// The place is too small.
    #[error("{path:?} has room for {room} bytes, and {len} are to be embedded")]
    EmbedTooLong {
        /// The path.
        path: String,
        /// Bytes of the content.
        len: u64,
        /// Bytes of the place.
        room: u64,
    },
    /// Firmware loads this file by its place and length.
    #[error("{path:?} is started by firmware, so it cannot {action}; make a new ISO")]
    BootImage {
        /// The path.
        path: String,
        /// What it cannot do.
        action: &'static str,
    },
    /// Something in the image that this does not know how to keep right.
    #[error("the image cannot be patched: {reason}")]
    Unsupported {
        /// What.
        reason: &'static str,
    },
    /// Nothing starts a kernel.
    #[error(
        "the image has no configuration of isolinux or GRUB that starts a Linux kernel, so there is no kernel line"
    )]
    NoKernelLine,
    /// A kernel would not see all of its line.
    #[error("the kernel line in {path:?} would have {len} characters, and a kernel takes {max}; add less")]
    LineTooLong {
        /// Which configuration.
        path: String,
        /// What the line would have.
        len: usize,
        /// What fits.
        max: usize,
    },
    /// More than is changed at once.
    #[error("a patch puts at most {max} files")]
    TooManyFiles {
        /// What is allowed.
        max: usize,
    },
    /// More sectors or directories than their numbers can count.
    #[error("the ISO would be larger than 8 TiB or have more than 65535 directories")]
    TooLarge,
    /// The extents do not add up to an image.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl PatchError {
    pub(super) fn unsupported(reason: &'static str) -> Self {
        Self::Unsupported { reason }
    }
}
