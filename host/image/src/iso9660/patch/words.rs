//! Adding words to every kernel line of an image: in its files, and in those of its ESP.

use std::collections::{BTreeMap, BTreeSet};

use crate::content::Content;
use crate::fat::{FatPatchError, FatVolume};
use crate::iso9660::boot_config::{MAX_KERNEL_LINE, kernel_words};
use crate::iso9660::reader::{IsoFile, IsoSection, IsoVolume};
use crate::parameters::Loaders;
use crate::partitions::partitions;
use crate::source::Source;

use super::config::{Edited, Loader, loader_of};
use super::editor::{Editor, Sharing};
use super::{PatchError, PatchedFile, PatchedHow};

/// Longest configuration that is read.
const MAX_CONFIG: u32 = 1 << 20;
/// Configurations of an image.
const MAX_CONFIGS: usize = 1000;

/// A configuration in the image.
struct Config {
    path: String,
    loader: Loader,
    text: Vec<u8>,
    /// Where the ESP that it is in starts.
    esp: Option<u64>,
}

pub(super) fn add(
    editor: &mut Editor<'_>,
    parameters: &[(String, String)],
    arguments: &str,
) -> Result<Vec<PatchedFile>, PatchError> {
    let mut configs = in_files(editor)?;
    configs.extend(in_esps(editor)?);
    // Rules that keep words from being changed are those of the loaders that start a kernel here.
    configs.retain(|config| !config.loader.add(&config.text, &[]).lines.is_empty());
    if configs.is_empty() {
        return Err(PatchError::NoKernelLine);
    }
    let rules = configs.iter().map(|config| config.loader.rules());
    let rules = rules.fold(
        Loaders {
            isolinux: false,
            grub: false,
        },
        |all, one| Loaders {
            isolinux: all.isolinux || one.isolinux,
            grub: all.grub || one.grub,
        },
    );
    let words = kernel_words(parameters, arguments, rules).map_err(PatchError::Line)?;
    let mut changed = Vec::new();
    for config in configs {
        let Edited { text, lines } = config.loader.add(&config.text, &words);
        let longest = lines.iter().map(|line| line.len).max().unwrap_or(0);
        if longest > MAX_KERNEL_LINE {
            return Err(PatchError::LineTooLong {
                path: config.path,
                len: longest,
                max: MAX_KERNEL_LINE,
            });
        }
        if text == config.text {
            continue;
        }
        let how = match config.esp {
            None => editor.put(&config.path, &Content::Literal(text.into()), Sharing::All)?,
            Some(at) => replace_in_esp(editor, at, &config.path, &text)?,
        };
        changed.push(PatchedFile { path: config.path, how });
    }
    Ok(changed)
}

/// The configurations among the files of the ISO, each content once.
fn in_files(editor: &Editor<'_>) -> Result<Vec<Config>, PatchError> {
    let source = editor.source();
    let volume = IsoVolume::open(&source)?;
    let (primary, _) = Editor::hierarchies(&volume);
    let mut by_place = BTreeMap::new();
    for entry in volume.entries_by(primary)? {
        let Some(loader) = loader_of(&entry.path).filter(|_| entry.is_file()) else {
            continue;
        };
        let Some(first) = entry.sections.first().filter(|_| entry.len <= u64::from(MAX_CONFIG)) else {
            continue;
        };
        by_place.entry(first.at).or_insert((entry, loader));
        if by_place.len() > MAX_CONFIGS {
            return Err(PatchError::unsupported("it has more boot configurations than are read"));
        }
    }
    let read = |(entry, loader): (_, Loader)| -> Result<Config, PatchError> {
        let text = volume.read(&entry, u64::from(MAX_CONFIG))?;
        Ok(Config {
            path: entry.path,
            loader,
            text,
            esp: None,
        })
    };
    by_place.into_values().map(read).collect()
}

/// The configurations in EFI system partitions, which the boot catalog or a partition table names.
fn in_esps(editor: &Editor<'_>) -> Result<Vec<Config>, PatchError> {
    let source = editor.source();
    let volume = IsoVolume::open(&source)?;
    let catalog = volume.catalog()?;
    // Some tools say of every boot image that it is a BIOS': what holds a FAT volume is told by looking.
    let booted = catalog.iter().map(|entry| entry.at);
    let found = partitions(&source).unwrap_or_default();
    let parts = found
        .gpt
        .iter()
        .chain(&found.mbr)
        .filter(|part| part.kind.is_esp())
        .map(|part| part.at);
    let places: BTreeSet<u64> = booted.chain(parts).filter(|at| *at < source.len()).collect();
    let mut configs = Vec::new();
    for at in places {
        let esp = IsoFile::of_section(&source, after(&source, at));
        let Ok(volume) = FatVolume::open(&esp) else { continue };
        let unreadable = |error| PatchError::Esp(FatPatchError::Read(error));
        for entry in volume.entries().map_err(unreadable)? {
            let Some(loader) = loader_of(&entry.path).filter(|_| !entry.is_dir && entry.len <= MAX_CONFIG) else {
                continue;
            };
            let text = volume.read(&entry, MAX_CONFIG).map_err(unreadable)?;
            if configs.len() == MAX_CONFIGS {
                return Err(PatchError::unsupported(
                    "its ESP has more boot configurations than are read",
                ));
            }
            configs.push(Config {
                path: entry.path,
                loader,
                text,
                esp: Some(at),
            });
        }
    }
    Ok(configs)
}

fn replace_in_esp(editor: &mut Editor<'_>, at: u64, path: &str, text: &[u8]) -> Result<PatchedHow, PatchError> {
    let writes = {
        let source = editor.source();
        let esp = IsoFile::of_section(&source, after(&source, at));
        let volume = FatVolume::open(&esp).map_err(|error| PatchError::Esp(error.into()))?;
        volume.replacing(path, text).map_err(PatchError::Esp)?
    };
    for (offset, bytes) in writes {
        editor.write(at + offset, &bytes);
    }
    Ok(PatchedHow::InEsp)
}

/// The image from a place on; a FAT volume says itself where it ends.
fn after(image: &dyn Source, at: u64) -> IsoSection {
    IsoSection {
        at,
        len: image.len().saturating_sub(at),
    }
}
