//! Inputs in, image layouts out: floppies, EFI system partitions and boot ISOs that are never written unless asked for.
//!
//! A [`Layout`] is a list of extents (literal bytes, ranges of sources, zeros) with a size and an identity. From one
//! layout any byte range can be read, a file can be materialised by reflink, and a [`Recipe`] can be recorded from which
//! every conductor makes the same bytes again.
//!
//! ```
//! use image::{FloppySpec, NoSources, floppy};
//!
//! let spec = FloppySpec {
//!     parameters: vec![("ipa-api-url".into(), "http://192.0.2.1:6385".into())],
//!     ..FloppySpec::default()
//! };
//! let layout = floppy(&spec)?;
//! assert_eq!(layout.size(), 1_474_560);
//!
//! let mut boot_sector = [0; 512];
//! layout.read_at(&NoSources, 0, &mut boot_sector)?;
//! assert_eq!(boot_sector[510..], [0x55, 0xAA]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything here is deterministic: no clock, no network, no host tool. The only I/O is reading sources through
//! [`Source`] and writing the file that [`Layout::write_to`] is given. Both block, so call them off the async threads.

mod builder;
mod config_drive;
mod content;
mod esp;
mod fat;
mod floppy;
mod iso9660;
mod layout;
mod parameters;
mod partitions;
mod path;
mod read;
mod recipe;
mod source;
mod splice;
mod unique;
mod write;

pub use builder::LayoutBuilder;
pub use config_drive::{CONFIG_DRIVE_LABEL, ConfigDriveError, ConfigDriveSpec, ConfigDriveVolume, config_drive};
pub use content::{BootFile, Content, SourceFile};
pub use esp::{EfiArchitecture, EspError, EspSpec, GRUB_CONFIG_PATHS, efi_places, esp, esp_grub_config};
pub use fat::{FatEntry, FatError, FatPatchError, FatReadError, FatShape, FatSpec, FatTime, FatVolume, fat};
pub use floppy::{FLOPPY_LABEL, FloppyError, FloppySpec, PARAMETERS_FILE, floppy};
pub use iso9660::{
    BOOT_ISO_LABEL, BootIsoSpec, Firmware, GRUB_CONFIG_PATH, Hybrid, IsoBootEntry, IsoEntry, IsoError, IsoFile,
    IsoKind, IsoNames, IsoPatch, IsoPlatform, IsoReadError, IsoSection, IsoSpec, IsoTime, IsoVolume, KERNEL_PATH,
    MARKER_PATH, PatchError, PatchedFile, PatchedHow, PatchedIso, RAMDISK_PATH, boot_iso, iso, patch_iso,
};
pub use layout::{Extent, Kind, Layout, LayoutError};
pub use parameters::ParameterError;
pub use partitions::{Guid, Partition, PartitionError, PartitionKind, Partitions, partitions};
pub use path::PathError;
pub use read::{LayoutSource, ReadError};
pub use recipe::{Recipe, RecipeError, SourceRef, WRITER_VERSION};
pub use source::{FileSource, MemorySource, NoSources, Source, SourceMap, SourceSet};
pub use write::{WriteError, Written};
