//! Changing an ISO that anybody made without copying it: the result is a layout that refers to the image for all that stays.
//!
//! A file is replaced where it is if the new content fits, else its content goes to the end of the image; new files and
//! directories go there too. What points to them is patched at its place: directory records in every hierarchy, and what
//! says how long the volume and its partitions are. Words for the kernel line are added to every configuration of isolinux
//! and GRUB that the image has, inside its ESP too.
//!
//! Not here: removing files, and boot loaders for a BIOS, which know their own place.

mod config;
mod directory;
mod editor;
mod error;
mod finish;
mod grub;
mod insert;
mod isolinux;
mod tables;
mod words;

#[cfg(test)]
mod tests;

use std::fmt;

use crate::content::Content;
use crate::layout::{Kind, Layout};
use crate::source::SourceSet;
use editor::{Editor, Sharing};

pub use error::PatchError;

/// Files of one patch.
const MAX_FILES: usize = 1000;

/// What to change in an ISO.
#[derive(Clone, Default)]
pub struct IsoPatch {
    /// Path and new content: a file of that path is replaced, else one is added, with the directories on its way.
    pub files: Vec<(String, Content)>,
    /// Path and content to put into the place that a file keeps for it, as CoreOS images do for Ignition
    /// (`images/ignition.img`): the file keeps its length, zeros fill it up.
    pub embed: Vec<(String, Content)>,
    /// Parameters to add to every kernel line. Values may be secret.
    pub parameters: Vec<(String, String)>,
    /// More words to add to every kernel line, separated by spaces.
    pub kernel_arguments: String,
}

impl fmt::Debug for IsoPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.parameters.iter().map(|(key, _)| key).collect();
        f.debug_struct("IsoPatch")
            .field("files", &self.files)
            .field("embed", &self.embed)
            .field("parameters", &keys)
            .finish_non_exhaustive()
    }
}

/// How a file was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatchedHow {
    /// It stands where it stood.
    InPlace,
    /// Its content is now at the end of the image.
    Moved,
    /// It was not there before.
    Added,
    /// It is in the ESP, which stands where it stood.
    InEsp,
}

/// A file that a patch changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PatchedFile {
    /// Its path in the ISO or, with [`PatchedHow::InEsp`], in the ESP.
    pub path: String,
    /// How it was changed.
    pub how: PatchedHow,
}

/// An ISO with changes.
#[derive(Clone, Debug)]
pub struct PatchedIso {
    /// The image.
    pub layout: Layout,
    /// What was changed, in the order in which it was.
    pub files: Vec<PatchedFile>,
}

/// Changes an ISO, of which only descriptors, directories and configurations are read.
///
/// ```
/// # use image::{IsoPatch, IsoSpec, IsoVolume, LayoutSource, NoSources, iso, patch_iso};
/// # let spec = IsoSpec { label: "x".into(), files: vec![("a".into(), bytes::Bytes::from_static(b"1").into())] };
/// # let base = iso(&spec)?;
/// let patch = IsoPatch {
///     files: vec![("ignition/config.ign".into(), bytes::Bytes::from_static(b"{}").into())],
///     ..IsoPatch::default()
/// };
/// let patched = patch_iso(&base, &NoSources, &patch)?;
/// let image = LayoutSource::new(&patched.layout, &NoSources);
/// assert!(IsoVolume::open(&image)?.find("ignition/config.ign")?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn patch_iso(image: &Layout, sources: &dyn SourceSet, patch: &IsoPatch) -> Result<PatchedIso, PatchError> {
    if patch.files.len() + patch.embed.len() > MAX_FILES {
        return Err(PatchError::TooManyFiles { max: MAX_FILES });
    }
    let mut editor = Editor::open(image, sources)?;
    let mut files = Vec::new();
    for (path, content) in &patch.files {
        let how = editor.put(path, content, Sharing::Own)?;
        files.push(PatchedFile {
            path: path.trim_start_matches('/').to_owned(),
            how,
        });
    }
    for (path, content) in &patch.embed {
        editor.embed(path, content)?;
        files.push(PatchedFile {
            path: path.trim_start_matches('/').to_owned(),
            how: PatchedHow::InPlace,
        });
    }
    if !patch.parameters.is_empty() || !patch.kernel_arguments.trim().is_empty() {
        files.extend(words::add(&mut editor, &patch.parameters, &patch.kernel_arguments)?);
    }
    let kind = match editor.is_bootable()? {
        true => Kind::BootIso,
        false => Kind::Iso,
    };
    if files.is_empty() {
        // The same bytes have the same identity.
        return Ok(PatchedIso {
            layout: image.clone(),
            files,
        });
    }
    Ok(PatchedIso {
        layout: editor.finish(kind)?,
        files,
    })
}
