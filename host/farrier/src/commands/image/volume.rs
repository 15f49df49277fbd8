//! FAT and ISO volumes as one thing: what lies in them, and the bytes of a file.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use image::{
    FatEntry, FatReadError, FatVolume, IsoEntry, IsoKind, IsoNames, IsoReadError, IsoVolume, Source, partitions,
};

use super::opened::looks_like;
use crate::output;

/// Bytes copied at a time.
const BLOCK: u64 = 1 << 20;

/// Which names of an ISO are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Names {
    /// POSIX names, modes and links
    RockRidge,
    /// What Windows sees
    Joliet,
    /// The upper-case identifiers of ISO 9660 itself
    Plain,
}

impl Names {
    fn wanted(self) -> IsoNames {
        match self {
            Self::RockRidge => IsoNames::RockRidge,
            Self::Joliet => IsoNames::Joliet,
            Self::Plain => IsoNames::Plain,
        }
    }

    pub(super) fn told(names: IsoNames) -> &'static str {
        match names {
            IsoNames::RockRidge => "rock-ridge",
            IsoNames::Joliet => "joliet",
            IsoNames::Plain => "plain",
        }
    }
}

/// An opened volume.
pub(super) enum Volume<'a> {
    Fat(FatVolume<'a>),
    Iso {
        volume: IsoVolume<'a>,
        names: IsoNames,
        /// Bytes of the image, which may be fewer than the volume has.
        image_len: u64,
    },
}

/// What an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    File,
    Folder,
    /// To this target.
    Link(String),
    /// A device, a pipe or a socket.
    Special,
}

/// A file or folder of a volume.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// From the root, without a leading slash.
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) len: u64,
    /// POSIX permissions, where the volume has them.
    pub(super) mode: Option<u32>,
    pub(super) modified: Option<String>,
    inner: Inner,
}

#[derive(Clone, Debug)]
enum Inner {
    Fat(FatEntry),
    Iso(IsoEntry),
}

impl<'a> Volume<'a> {
    pub(super) fn open(source: &'a Arc<dyn Source>, name: &str, names: Option<Names>) -> Result<Self> {
        match IsoVolume::open(&**source) {
            Ok(volume) => return Self::iso(volume, source.len(), name, names),
            Err(IsoReadError::NotIso(reason)) if begins_as_iso(&**source) => {
                bail!("{name} is an ISO that is damaged or was cut short: {reason}")
            }
            Err(IsoReadError::NotIso(_)) => {}
            Err(error) => return Err(error).with_context(|| format!("could not read {name}")),
        }
        match FatVolume::open(&**source) {
            Ok(volume) => match names {
                None => Ok(Self::Fat(volume)),
                Some(_) => bail!("{name} is a FAT volume, which has one sort of names: leave --names out"),
            },
            Err(FatReadError::NotFat(reason)) => bail!("{}", unknown(&**source, name, reason)),
            Err(error) => Err(error).with_context(|| format!("could not read {name}")),
        }
    }

    fn iso(volume: IsoVolume<'a>, image_len: u64, name: &str, names: Option<Names>) -> Result<Self> {
        let there = volume.names();
        let names = match names {
            Some(names) if !there.contains(&names.wanted()) => {
                let there: Vec<&str> = there.into_iter().map(Names::told).collect();
                bail!("{name} has no such names, but {}", there.join(", "))
            }
            Some(names) => names.wanted(),
            None => there[0],
        };
        Ok(Self::Iso {
            volume,
            names,
            image_len,
        })
    }

    /// How many bytes of the volume the image lacks.
    pub(super) fn lacking(&self) -> Option<u64> {
        match self {
            // One that is too short is not opened.
            Self::Fat(_) => None,
            Self::Iso { volume, image_len, .. } => volume.size().checked_sub(*image_len).filter(|lacking| *lacking > 0),
        }
    }

    /// Everything in it, each folder before what lies in it.
    pub(super) fn entries(&self) -> Result<Vec<Entry>> {
        Ok(match self {
            Self::Fat(volume) => volume.entries()?.into_iter().map(Entry::fat).collect(),
            Self::Iso { volume, names, .. } => volume.entries_by(*names)?.into_iter().map(Entry::iso).collect(),
        })
    }

    /// The file or folder at a path; an error says what there is not.
    pub(super) fn find(&self, path: &str) -> Result<Entry> {
        let path = path.trim_matches('/');
        let found = match self {
            Self::Iso { volume, names, .. } => volume.find_by(*names, path)?.map(Entry::iso),
            Self::Fat(_) => {
                // FAT knows no difference between upper and lower case.
                let upper = path.to_uppercase();
                self.entries()?
                    .into_iter()
                    .find(|entry| entry.path.to_uppercase() == upper)
            }
        };
        found.with_context(|| {
            format!("there is no {path:?} in the image: `farrier image ls --recursive` lists what there is")
        })
    }

    /// Where a file's bytes lie in the image: start and length of each section.
    pub(super) fn sections(&self, entry: &Entry) -> Result<Vec<(u64, u64)>> {
        entry.must_be_a_file()?;
        Ok(match (self, &entry.inner) {
            (Self::Fat(volume), Inner::Fat(file)) => {
                let sections = volume.sections(file)?;
                sections
                    .into_iter()
                    .map(|section| (section.start, section.end - section.start))
                    .collect()
            }
            (Self::Iso { volume, .. }, Inner::Iso(file)) => {
                // Refuses what is compressed or lies outside.
                volume.file(file)?;
                file.sections.iter().map(|section| (section.at, section.len)).collect()
            }
            _ => bail!("{:?} is of another volume", entry.path),
        })
    }

    /// Writes a file's bytes; the error of a write is told apart by its context.
    pub(super) fn copy_to(&self, entry: &Entry, to: &mut dyn Write) -> Result<()> {
        entry.must_be_a_file()?;
        match (self, &entry.inner) {
            (Self::Fat(volume), Inner::Fat(file)) => Ok(volume.copy_to(file, to)?),
            (Self::Iso { volume, .. }, Inner::Iso(file)) => {
                let file = volume.file(file)?;
                let mut block = vec![0; usize::try_from(BLOCK.min(file.len()))?];
                let mut at = 0;
                while at < file.len() {
                    let part = usize::try_from(BLOCK.min(file.len() - at))?;
                    file.read_at(at, &mut block[..part]).map_err(IsoReadError::Io)?;
                    to.write_all(&block[..part])?;
                    at += part as u64;
                }
                Ok(())
            }
            _ => bail!("{:?} is of another volume", entry.path),
        }
    }
}

impl Entry {
    fn fat(entry: FatEntry) -> Self {
        Self {
            path: entry.path.clone(),
            kind: if entry.is_dir { Kind::Folder } else { Kind::File },
            len: entry.len.into(),
            mode: None,
            modified: entry.modified.map(|time| time.to_string()),
            inner: Inner::Fat(entry),
        }
    }

    fn iso(entry: IsoEntry) -> Self {
        Self {
            path: entry.path.clone(),
            kind: match &entry.kind {
                IsoKind::File => Kind::File,
                IsoKind::Directory => Kind::Folder,
                IsoKind::Link(target) => Kind::Link(target.clone()),
                IsoKind::Special => Kind::Special,
            },
            len: entry.len,
            mode: entry.mode.map(|mode| mode & 0o7777),
            modified: entry.recorded.map(|time| time.to_string()),
            inner: Inner::Iso(entry),
        }
    }

    fn must_be_a_file(&self) -> Result<()> {
        let shown = output::harmless(&self.path);
        match &self.kind {
            Kind::File => Ok(()),
            Kind::Folder => bail!("{shown:?} is a folder of the image: name a file"),
            Kind::Link(target) => bail!("{shown:?} is a link of the image, to {target:?}: name the file itself"),
            Kind::Special => bail!("{shown:?} is a device, a pipe or a socket of the image: name a file"),
        }
    }

    /// As `ls -l` begins a line.
    pub(super) fn kind_letter(&self) -> char {
        match self.kind {
            Kind::File => '-',
            Kind::Folder => 'd',
            Kind::Link(_) => 'l',
            Kind::Special => 's',
        }
    }
}

/// Whether a first volume descriptor is where an ISO has it.
fn begins_as_iso(source: &dyn Source) -> bool {
    let mut descriptor = [0; 6];
    source.read_at(16 * 2048, &mut descriptor).is_ok() && descriptor[1..] == *b"CD001"
}

/// Says of a file that is neither FAT nor ISO what it is instead.
fn unknown(source: &dyn Source, name: &str, reason: &str) -> String {
    if let Some(what) = looks_like(source) {
        return format!("{name} is {what}");
    }
    let tables = partitions(source).unwrap_or_default();
    let table = if tables.gpt.is_empty() {
        &tables.mbr
    } else {
        &tables.gpt
    };
    if !table.is_empty() {
        let numbers: Vec<String> = table.iter().map(|partition| partition.number.to_string()).collect();
        return format!(
            "{name} is a disk with partitions: choose one with --partition ({}), or --esp",
            numbers.join(", ")
        );
    }
    format!("{name} is neither an ISO nor a FAT volume ({reason}), or only a part of one: name another file")
}

/// What a file of these first bytes is, if it is something that is taken for an image.
pub(super) fn not_an_image(magic: &[u8]) -> Option<&'static str> {
    const KNOWN: [(&[u8], &str); 9] = [
        (b"\x1F\x8B", "compressed with gzip: unpack it first (gunzip)"),
        (b"\xFD7zXZ\0", "compressed with xz: unpack it first (unxz)"),
        (b"\x28\xB5\x2F\xFD", "compressed with zstd: unpack it first (unzstd)"),
        (b"BZh", "compressed with bzip2: unpack it first (bunzip2)"),
        (
            b"QFI\xFB",
            "a qcow2 disk: make a raw one of it first (qemu-img convert -O raw)",
        ),
        (b"PK\x03\x04", "a zip archive: unpack it first"),
        (b"hsqs", "a squashfs file system, which is not read here"),
        (b"\x7FELF", "a program, and no image"),
        (
            b"MZ",
            "a Windows or EFI program, and no image: `farrier image esp` makes one of EFI programs",
        ),
    ];
    KNOWN
        .iter()
        .find(|(start, _)| magic.starts_with(start))
        .map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{FatShape, FatSpec, IsoSpec, LayoutSource, NoSources, fat, iso};

    fn held(layout: &image::Layout) -> Arc<dyn Source> {
        let mut bytes = vec![0; usize::try_from(layout.size()).unwrap()];
        LayoutSource::new(layout, &NoSources).read_at(0, &mut bytes).unwrap();
        Arc::new(image::MemorySource(bytes.into()))
    }

    #[test]
    fn the_same_files_are_found_in_fat_and_in_iso() {
        let files = vec![
            (
                "openstack/latest/meta_data.json".to_owned(),
                bytes::Bytes::from_static(b"{}").into(),
            ),
            ("readme".to_owned(), bytes::Bytes::from(vec![7; 100_000]).into()),
        ];
        let fat = fat(&FatSpec {
            label: "x".into(),
            files: files.clone(),
            size: None,
            shape: FatShape::Disk,
        });
        let iso = iso(&IsoSpec {
            label: "x".into(),
            files,
        });
        for image in [held(&fat.unwrap()), held(&iso.unwrap())] {
            let volume = Volume::open(&image, "x", None).unwrap();
            let entries = volume.entries().unwrap();
            let mut paths: Vec<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
            paths.sort_unstable();
            assert_eq!(
                paths,
                [
                    "openstack",
                    "openstack/latest",
                    "openstack/latest/meta_data.json",
                    "readme"
                ]
            );
            let file = volume.find("/readme").unwrap();
            let mut read = Vec::new();
            volume.copy_to(&file, &mut read).unwrap();
            assert!(read == vec![7; 100_000]);
            let sections: u64 = volume.sections(&file).unwrap().iter().map(|(_, len)| len).sum();
            assert_eq!(sections, 100_000);
            for (path, says) in [("openstack", "folder"), ("nothing", "no \"nothing\"")] {
                let error = volume
                    .find(path)
                    .and_then(|entry| volume.copy_to(&entry, &mut Vec::new()));
                assert!(error.unwrap_err().to_string().contains(says), "{path}");
            }
        }
    }
}
