//! What `inspect`, `ls`, `cat`, `extract` and `serve` are given: a file, a URL, a recipe; and what inside it is meant.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use image::{Extent, FileSource, Kind, Layout, Partition, Recipe, Source, SourceMap, SourceSet as _, partitions};
use model::Digest;
use url::Url;

use super::inputs::Inputs;
use super::remote::{Remote, shown};
use super::volume::{Names, Volume, not_an_image};
use crate::output;

/// Longest recipe.
const MAX_RECIPE: u64 = 128 << 20;
/// Bytes of a file that tell what it is.
const MAGIC: usize = 512;

/// Which image, and what inside it.
#[derive(clap::Args)]
pub(super) struct ImageArgs {
    /// An image (FAT, ISO 9660, a disk with partitions), an http(s) URL of one, or a recipe
    image: String,
    /// Look into its EFI system partition
    #[arg(long, conflicts_with = "partition")]
    esp: bool,
    /// Look into the partition with this number
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// Look into this file of it, an image too; repeat to go deeper
    #[arg(long, value_name = "PATH")]
    inside: Vec<String>,
    /// Names to go by; default: the best that an ISO has
    #[arg(long, value_enum)]
    names: Option<Names>,
    /// Trust this CA too, for https (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// An opened image.
pub(super) struct Opened {
    /// As the user wrote it, without secrets; then what inside it.
    pub(super) name: String,
    pub(super) source: Arc<dyn Source>,
    /// If it is a recipe.
    pub(super) recipe: Option<(Kind, Digest)>,
}

impl ImageArgs {
    pub(super) fn open(&self) -> Result<Opened> {
        let mut opened = open(&self.image, self.ca.as_deref())?;
        if let Some(number) = self.partition {
            opened = opened.partition(number)?;
        }
        if self.esp {
            opened = opened.esp(self.names)?;
        }
        for path in &self.inside {
            opened = opened.inside(path, self.names)?;
        }
        Ok(opened)
    }

    /// The volume in an image that [`ImageArgs::open`] gave.
    pub(super) fn volume<'a>(&self, opened: &'a Opened) -> Result<Volume<'a>> {
        let volume = Volume::open(&opened.source, &opened.name, self.names)?;
        if let Some(lacking) = volume.lacking() {
            output::note(format_args!(
                "warning: {} was cut short: {lacking} bytes of the volume are not there",
                opened.name
            ));
        }
        Ok(volume)
    }
}

/// Opens a file, a URL or a recipe.
pub(super) fn open(reference: &str, ca: Option<&Path>) -> Result<Opened> {
    if reference.starts_with("http://") || reference.starts_with("https://") {
        let url = Url::parse(reference).context("the URL of the image does not parse")?;
        let name = shown(&url);
        let source = Arc::new(Remote::open(url, ca)?);
        return Ok(Opened::of(name, source));
    }
    let path = Path::new(reference);
    let source = open_file(path)?;
    let mut magic = vec![0; MAGIC.min(usize::try_from(source.len()).unwrap_or(MAGIC))];
    source
        .read_at(0, &mut magic)
        .with_context(|| format!("could not read {reference}"))?;
    if magic.first() == Some(&b'{') {
        return open_recipe(path);
    }
    Ok(Opened::of(reference.to_owned(), source))
}

/// A file, or a device that has a length.
fn open_file(path: &Path) -> Result<Arc<dyn Source>> {
    let shown = path.display();
    let refused = || format!("could not open {shown}: name an image that is there and that you may read");
    // Looked at first: opening a pipe would wait for its other end.
    let found = path.metadata().with_context(refused)?;
    let kind = found.file_type();
    if kind.is_dir() {
        bail!("{shown} is a folder: name an image");
    }
    if !kind.is_file() && !kind.is_block_device() {
        bail!("{shown} is a device or a pipe, which cannot be read at any place: copy what it holds into a file");
    }
    let mut file = File::open(path).with_context(refused)?;
    let len = match kind.is_block_device() {
        true => file.seek(SeekFrom::End(0)).with_context(refused)?,
        false => found.len(),
    };
    if len == 0 {
        bail!("{shown} is empty: that is no image");
    }
    Ok(match kind.is_block_device() {
        true => Arc::new(Device { file, len }),
        false => Arc::new(FileSource::new(file).with_context(refused)?),
    })
}

/// A disk or a drive: its metadata tell no length.
struct Device {
    file: File,
    len: u64,
}

impl Source for Device {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
}

fn open_recipe(path: &Path) -> Result<Opened> {
    let mut inputs = Inputs::default();
    let layout = read_recipe(path, &mut inputs)?;
    Ok(Opened {
        name: path.display().to_string(),
        recipe: Some((layout.kind(), layout.digest())),
        source: Arc::new(Replayed {
            layout,
            sources: inputs.sources,
        }),
    })
}

/// An image that lies in a file, or that a recipe stands for, as a layout of its own; its sources are among the inputs.
pub(super) fn layout_of(path: &Path, inputs: &mut Inputs) -> Result<Layout> {
    let named = path.display();
    if path.to_string_lossy().contains("://") {
        bail!("{named} is no file of this machine: download it, and name the file");
    }
    if is_recipe(path) {
        return read_recipe(path, inputs);
    }
    let file = inputs.source("the image", path)?;
    if file.len == 0 {
        bail!("{named} is empty: that is no image");
    }
    let source = inputs.sources.open(&file.sha256)?;
    if let Some(what) = looks_like(&*source) {
        bail!("{named} is {what}");
    }
    let extent = Extent::Source {
        sha256: file.sha256,
        offset: 0,
        len: file.len,
    };
    Ok(Layout::from_extents(Kind::Other, vec![extent])?)
}

fn is_recipe(path: &Path) -> bool {
    let mut first = [0];
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    is_file && File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok()) && first == *b"{"
}

/// Replays a recipe. The files that it names must still hold what it says.
fn read_recipe(path: &Path, inputs: &mut Inputs) -> Result<Layout> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("could not open {shown}"))?;
    let mut json = Vec::new();
    file.take(MAX_RECIPE + 1)
        .read_to_end(&mut json)
        .with_context(|| format!("could not read {shown}"))?;
    let recipe = Recipe::from_json(&json).with_context(|| format!("{shown} is neither an image nor a recipe"))?;
    let layout = recipe
        .layout()
        .with_context(|| format!("the recipe {shown} cannot be replayed"))?;
    let option = format!("of the recipe {shown}");
    for (sha256, origin) in recipe.sources() {
        let source = Path::new(&origin.reference);
        if !source.is_absolute() {
            bail!(
                "the recipe {shown} names a source that is no file of this machine: only conductors fetch such sources"
            );
        }
        if inputs.source(&option, source)?.sha256 != sha256 {
            bail!(
                "{} is not what it was when the recipe {shown} was written: make the image again",
                source.display()
            );
        }
    }
    Ok(layout)
}

/// An image of a recipe.
struct Replayed {
    layout: Layout,
    sources: SourceMap,
}

impl Source for Replayed {
    fn len(&self) -> u64 {
        self.layout.size()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.layout
            .read_at(&self.sources, offset, buf)
            .map_err(io::Error::other)
    }
}

impl Opened {
    fn of(name: String, source: Arc<dyn Source>) -> Self {
        Self {
            name,
            source,
            recipe: None,
        }
    }

    fn partition(&self, number: u32) -> Result<Self> {
        let name = &self.name;
        let tables = partitions(&*self.source).with_context(|| format!("could not read the partitions of {name}"))?;
        // A disk with a GPT has an MBR whose one entry protects it.
        let table = if tables.gpt.is_empty() {
            &tables.mbr
        } else {
            &tables.gpt
        };
        let Some(partition) = table.iter().find(|partition| partition.number == number) else {
            let numbers: Vec<String> = table.iter().map(|partition| partition.number.to_string()).collect();
            match numbers.is_empty() {
                true => bail!("{name} has no partitions"),
                false => bail!("{name} has no partition {number}, but {}", numbers.join(", ")),
            }
        };
        self.section(partition, format!("{name}, partition {number}"))
    }

    /// The ESP: of an ISO what UEFI firmware boots, of a disk the partition of that type, a FAT volume itself.
    fn esp(&self, names: Option<Names>) -> Result<Self> {
        let name = format!("{}, EFI system partition", self.name);
        let tables = partitions(&*self.source).unwrap_or_default();
        let partition = tables
            .gpt
            .iter()
            .chain(&tables.mbr)
            .find(|partition| partition.kind.is_esp());
        match Volume::open(&self.source, &self.name, names) {
            Ok(Volume::Iso { volume, .. }) => {
                let entries = volume
                    .boot_entries()
                    .with_context(|| format!("could not read {}", self.name))?;
                let uefi = entries.iter().find(|entry| entry.platform == image::IsoPlatform::Uefi);
                match (uefi, partition) {
                    (Some(image::IsoBootEntry { path: Some(path), .. }), _) => {
                        let inside = self.inside(path, names)?;
                        Ok(Self { name, ..inside })
                    }
                    (_, Some(partition)) => self.section(partition, name),
                    // Its length stands nowhere: what firmware loads of it may be less, so it is what is left.
                    (Some(entry), None) => {
                        let rest = self.source.len().saturating_sub(entry.at);
                        Ok(Self::of(name, Region::of(&self.source, [(entry.at, rest)])?))
                    }
                    (None, None) => bail!("{} has nothing that UEFI firmware boots", self.name),
                }
            }
            Ok(Volume::Fat(_)) => Ok(Self::of(self.name.clone(), Arc::clone(&self.source))),
            Err(error) => match partition {
                Some(partition) => self.section(partition, name),
                None => Err(error),
            },
        }
    }

    fn section(&self, partition: &Partition, name: String) -> Result<Self> {
        let region = Region::of(&self.source, [(partition.at, partition.len)])
            .with_context(|| format!("{name} lies outside the image, which may have been cut short"))?;
        Ok(Self::of(name, region))
    }

    fn inside(&self, path: &str, names: Option<Names>) -> Result<Self> {
        let volume = Volume::open(&self.source, &self.name, names)?;
        let entry = volume.find(path)?;
        let sections = volume.sections(&entry)?;
        let name = format!("{}, {}", self.name, entry.path);
        Ok(Self::of(name, Region::of(&self.source, sections)?))
    }
}

/// Stretches of an image as one of their own.
struct Region {
    image: Arc<dyn Source>,
    /// Where each starts, in the region and in the image.
    starts: Vec<(u64, u64)>,
    len: u64,
}

impl Region {
    fn of(image: &Arc<dyn Source>, sections: impl IntoIterator<Item = (u64, u64)>) -> Result<Arc<dyn Source>> {
        let mut starts = Vec::new();
        let mut total = 0u64;
        for (at, len) in sections {
            let end = at.checked_add(len).filter(|end| *end <= image.len());
            let is_inside = end.is_some();
            total = total
                .checked_add(len)
                .filter(|_| is_inside)
                .context("it lies outside the image")?;
            starts.push((total - len, at));
        }
        Ok(Arc::new(Self {
            image: Arc::clone(image),
            starts,
            len: total,
        }))
    }
}

impl Source for Region {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, mut offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|end| *end <= self.len);
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut rest = buf;
        let mut index = self
            .starts
            .partition_point(|(start, _)| *start <= offset)
            .saturating_sub(1);
        while !rest.is_empty() {
            let (start, at) = self.starts[index];
            let section_end = self.starts.get(index + 1).map_or(self.len, |(next, _)| *next);
            let part = usize::try_from(section_end - offset).map_or(rest.len(), |left| left.min(rest.len()));
            let (head, tail) = std::mem::take(&mut rest).split_at_mut(part);
            self.image.read_at(at + (offset - start), head)?;
            rest = tail;
            offset += part as u64;
            index += 1;
        }
        Ok(())
    }
}

/// What a file that is no image seems to be.
pub(super) fn looks_like(source: &dyn Source) -> Option<&'static str> {
    let mut magic = vec![0; MAGIC.min(usize::try_from(source.len()).unwrap_or(MAGIC))];
    source.read_at(0, &mut magic).ok()?;
    not_an_image(&magic)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::MemorySource;

    #[test]
    fn a_region_reads_across_its_sections_and_not_past_them() {
        let image: Arc<dyn Source> = Arc::new(MemorySource((0..100u8).collect::<Vec<_>>().into()));
        let region = Region::of(&image, [(10, 5), (50, 0), (90, 10), (0, 3)]).unwrap();
        let wanted: Vec<u8> = (10..15).chain(90..100).chain(0..3).collect();
        assert_eq!(region.len(), 18);
        for start in 0..18 {
            for end in start..=18 {
                let mut read = vec![0xEE; end - start];
                region.read_at(start as u64, &mut read).unwrap();
                assert_eq!(read, wanted[start..end]);
            }
        }
        assert!(region.read_at(18, &mut [0]).is_err());
        assert!(Region::of(&image, [(95, 6)]).is_err());
        assert!(Region::of(&image, [(u64::MAX, 6)]).is_err());
    }
}
