//! Why an ISO cannot be made.

use super::tree::MAX_FILE;
use crate::layout::LayoutError;
use crate::parameters::ParameterError;
use crate::path::PathError;

/// Why an ISO cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsoError {
    /// A label that a volume cannot have.
    #[error("{label:?} is no ISO volume label: 1 to 32 printable ASCII characters")]
    Label {
        /// The label.
        label: String,
    },
    /// A boot loader is not there.
    #[error("a boot ISO for {firmware} needs {what}; give one, or choose other firmware")]
    BootLoaderMissing {
        /// `BIOS` or `UEFI`.
        firmware: &'static str,
        /// Which file.
        what: &'static str,
    },
    /// A file is not what its name says.
    #[error("{what} {reason}")]
    BootFile {
        /// Which file.
        what: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A file would take the place of one that the ISO boots by, or stand beside it under a name that boot loaders take for
    /// the same.
    #[error("{path:?} collides with {boot_file:?}, by which the ISO boots; put the file elsewhere")]
    BootFileTaken {
        /// The path of the file.
        path: String,
        /// The path of the boot file.
        boot_file: String,
    },
    /// A parameter that the ramdisk would misread.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A word of the kernel arguments that a boot loader or the kernel would misread.
    #[error("kernel argument {argument:?} {reason}")]
    KernelArgument {
        /// The word up to its first `=`, shortened.
        argument: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More than a kernel takes.
    #[error("the kernel line has {len} characters and a kernel takes {max}; move parameters to a floppy")]
    KernelLineTooLong {
        /// Its length.
        len: usize,
        /// What fits.
        max: usize,
    },
    /// More than a kernel survives.
    #[error("the kernel line has {count} parameters, and a kernel panics over more than {max}; move some to a floppy")]
    TooManyParameters {
        /// How many there are.
        count: usize,
        /// How many may be.
        max: usize,
    },
    /// The paths do not fit together.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file that Linux would not read to its end.
    #[error("{path:?} has {len} bytes, and a file of an ISO ends at {MAX_FILE}")]
    FileTooLarge {
        /// Its path.
        path: String,
        /// Its length.
        len: u64,
    },
    /// More sectors or directories than their numbers can count.
    #[error("the ISO would be larger than 8 TiB or have more than 65535 directories")]
    TooLarge,
    /// The extents do not add up to an image.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}
