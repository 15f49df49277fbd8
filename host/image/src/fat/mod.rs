//! FAT12, FAT16 and FAT32 volumes (Microsoft's FAT specification 1.03), long names and sub-directories included.
//!
//! The size decides the type, as every reader does (it counts clusters). Files lie in one run each, so a file that is a
//! source stays a source in the layout.

mod chain;
mod directory;
mod geometry;
mod names;
mod patch;
mod reader;
mod writer;

pub use geometry::FatShape;
pub use patch::FatPatchError;
pub use reader::{FatEntry, FatReadError, FatTime, FatVolume};

use std::collections::HashMap;

use crate::content::Content;
use crate::layout::{Kind, Layout, LayoutError};
use crate::path::{PathError, tree};
use geometry::MAX_VOLUME;

/// Largest file: a directory entry holds its length in 32 bits.
const MAX_FILE: u64 = u32::MAX as u64;

/// A FAT volume to make.
#[derive(Clone, Debug)]
pub struct FatSpec {
    /// Volume label: at most 11 characters of printable ASCII; may be empty.
    pub label: String,
    /// Path in the volume and what is there. Directories are made as needed; the order does not matter.
    pub files: Vec<(String, Content)>,
    /// Bytes of the volume, a multiple of 512; `None` = the smallest usual size that takes the files.
    pub size: Option<u64>,
    /// What the volume pretends to be.
    pub shape: FatShape,
}

/// Why a FAT volume cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FatError {
    /// A label that FAT cannot hold.
    #[error(
        "{label:?} is no FAT volume label: at most 11 printable ASCII characters, none of \" * + , . / : ; < = > ? [ \\ ] |"
    )]
    Label {
        /// The label.
        label: String,
    },
    /// A path that FAT cannot hold.
    #[error("{path:?} cannot be a FAT file name: {reason}")]
    Name {
        /// The path of the directory and the name.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The paths do not fit together.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A file of 4 GiB or more.
    #[error("{path:?} has {len} bytes, and a FAT file ends at {MAX_FILE}")]
    FileTooLarge {
        /// Its path.
        path: String,
        /// Its length.
        len: u64,
    },
    /// The size asked for is no volume size.
    #[error("{size} bytes is no size of a FAT volume: a multiple of 512 from 32768 to {MAX_VOLUME}")]
    Size {
        /// The size asked for.
        size: u64,
    },
    /// The files do not fit.
    #[error("the files need a volume of about {needed} bytes, which is more than {size}")]
    TooSmall {
        /// The size asked for, or the largest there is.
        size: u64,
        /// A size that would do.
        needed: u64,
    },
    /// A directory with more entries than FAT takes.
    #[error("directory {path:?} holds more files than FAT takes")]
    DirectoryFull {
        /// Its path.
        path: String,
    },
    /// The extents do not add up to an image.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// Makes a FAT volume.
pub fn fat(spec: &FatSpec) -> Result<Layout, FatError> {
    volume(spec, Kind::Fat)
}

pub(crate) fn volume(spec: &FatSpec, kind: Kind) -> Result<Layout, FatError> {
    let label = names::label(&spec.label)?;
    let files = same_spelling(&spec.files);
    let root = tree(files.iter().map(|(path, content)| (path.as_str(), *content)))?;
    let plan = directory::plan(&root, label.is_some())?;
    let (geometry, places) = geometry::choose(&plan, spec.size, spec.shape)?;
    writer::write(kind, label, &plan, &geometry, &places)
}

/// Spells each directory as the first path that names it does: FAT takes `EFI/Boot` and `EFI/BOOT` for one.
fn same_spelling(files: &[(String, Content)]) -> Vec<(String, &Content)> {
    let mut spellings: HashMap<String, String> = HashMap::new();
    let respell = |path: &str| {
        let path = path.strip_prefix('/').unwrap_or(path);
        let Some((dirs, file)) = path.rsplit_once('/') else {
            return path.to_owned();
        };
        let mut spelled = String::new();
        for dir in dirs.split('/') {
            let parent = spelled.len();
            spelled.push_str(dir);
            let first = spellings
                .entry(spelled.to_uppercase())
                .or_insert_with(|| spelled[parent..].to_owned());
            spelled.truncate(parent);
            spelled.push_str(first);
            spelled.push('/');
        }
        spelled + file
    };
    let paths: Vec<String> = files.iter().map(|(path, _)| path.as_str()).map(respell).collect();
    paths
        .into_iter()
        .zip(files.iter().map(|(_, content)| content))
        .collect()
}
