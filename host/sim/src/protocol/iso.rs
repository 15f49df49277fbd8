//! What firmware and boot loader read of a CD: the El Torito boot catalog, a boot loader's configuration, a kernel.
//!
//! A small reader of our own over ranged reads (ECMA-119, El Torito 1.0): it walks plain ISO 9660 directories and
//! Rock Ridge names. Everything on the disc is hostile; sizes and depths are bounded.

use std::sync::Arc;

use crate::config::BootMode;
use crate::media::{MediaError, Medium};

const SECTOR: u64 = 2048;
/// Longest directory in bytes.
const DIRECTORY_CAP: u32 = 1 << 20;
/// Longest boot loader configuration in bytes.
const CONFIG_CAP: u32 = 64 << 10;
/// Volume descriptors looked at.
const DESCRIPTORS: u64 = 32;
/// Piece size when sampling kernel and initrd.
const PIECE: u64 = 64 << 10;

/// Where boot loaders keep their configuration, in the order that they are looked for.
const BIOS_CONFIGS: &[&str] = &["isolinux/isolinux.cfg"];
const UEFI_CONFIGS: &[&str] = &[
    "efi/boot/grub.cfg",
    "boot/grub/grub.cfg",
    "efi/debian/grub.cfg",
    "efi/ubuntu/grub.cfg",
    "efi/centos/grub.cfg",
    "efi/redhat/grub.cfg",
    "isolinux/isolinux.cfg",
];

/// Why a CD does not boot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IsoError {
    #[error("media error: {0}")]
    Media(#[from] MediaError),
    #[error("not an ISO 9660 image: {0}")]
    NotIso(&'static str),
    #[error("no boot loader for {0}: {1}")]
    NoLoader(&'static str, String),
    #[error("{0} is not on the disc")]
    Missing(String),
    #[error("the boot loader's configuration names no kernel")]
    NoKernel,
}

/// A valid entry of the boot catalog.
pub(crate) struct Loader {
    root: Extent,
    configs: &'static [&'static str],
}

/// Kernel, initrds and the rest of the kernel's command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KernelLine {
    pub(crate) kernel: String,
    pub(crate) initrd: Vec<String>,
    pub(crate) append: String,
    pub(crate) root: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    at: u64,
    len: u32,
}

/// Finds and checks the boot catalog entry for `mode`, and reads the boot image that it names.
pub(crate) async fn find_loader(medium: &Arc<Medium>, mode: BootMode) -> Result<Loader, IsoError> {
    let (root, catalog) = descriptors(medium).await?;
    let (name, platform, configs) = match mode {
        BootMode::LegacyBios => ("legacy BIOS", 0x00, BIOS_CONFIGS),
        BootMode::Uefi => ("UEFI", 0xef, UEFI_CONFIGS),
    };
    let no_loader = |reason: String| IsoError::NoLoader(name, reason);
    let catalog = catalog.ok_or_else(|| no_loader("the disc has no boot record".into()))?;
    let sector = medium.read_at(catalog, SECTOR).await?;
    let entries = catalog_entries(&sector).map_err(|reason| no_loader(reason.into()))?;
    let entry = entries
        .iter()
        .find(|entry| entry.platform == platform)
        .ok_or_else(|| no_loader("the boot catalog has no entry for it".into()))?;
    let image = u64::from(entry.lba) * SECTOR;
    let length = u64::from(entry.sectors.max(1)) * 512;
    let image = medium.read_at(image, length.min(PIECE)).await?;
    // An EFI system partition starts with a FAT boot sector; BIOS code must at least not be blank.
    let plausible = match mode {
        BootMode::Uefi => image.get(510..512) == Some(&[0x55, 0xaa]),
        BootMode::LegacyBios => image.iter().any(|byte| *byte != 0),
    };
    if !plausible {
        return Err(no_loader("the boot image is not one".into()));
    }
    Ok(Loader { root, configs })
}

/// Reads the configuration that the boot loader reads.
pub(crate) async fn kernel_line(medium: &Arc<Medium>, loader: &Loader) -> Result<KernelLine, IsoError> {
    for path in loader.configs {
        let Some(extent) = find(medium, loader.root, path).await? else {
            continue;
        };
        let bytes = medium.read_at(extent.at, u64::from(extent.len.min(CONFIG_CAP))).await?;
        let text = String::from_utf8_lossy(&bytes);
        let line = if path.ends_with("grub.cfg") {
            grub(&text)
        } else {
            isolinux(&text)
        };
        let (kernel, initrd, append) = line.ok_or(IsoError::NoKernel)?;
        return Ok(KernelLine {
            kernel,
            initrd,
            append,
            root: loader.root,
        });
    }
    Err(IsoError::Missing(loader.configs.join(" or ")))
}

/// Reads the beginning and the end of the kernel and of each initrd.
pub(crate) async fn read_kernel(medium: &Arc<Medium>, line: &KernelLine) -> Result<(), IsoError> {
    for path in std::iter::once(&line.kernel).chain(&line.initrd) {
        let extent = find(medium, line.root, path)
            .await?
            .ok_or_else(|| IsoError::Missing(path.clone()))?;
        let len = u64::from(extent.len);
        let head = len.min(PIECE);
        medium.read_at(extent.at, head).await?;
        let tail = (len - head).min(PIECE);
        if tail > 0 {
            medium.read_at(extent.at + len - tail, tail).await?;
        }
    }
    Ok(())
}

/// The root directory, and where the boot catalog is.
async fn descriptors(medium: &Arc<Medium>) -> Result<(Extent, Option<u64>), IsoError> {
    let mut root = None;
    let mut catalog = None;
    for index in 16..16 + DESCRIPTORS {
        let sector = medium.read_at(index * SECTOR, SECTOR).await?;
        if sector.get(1..6) != Some(b"CD001") {
            return Err(IsoError::NotIso("no volume descriptor where one belongs"));
        }
        match sector[0] {
            0 if sector[7..].starts_with(b"EL TORITO SPECIFICATION") => {
                catalog = u32_at(&sector, 71).map(|lba| u64::from(lba) * SECTOR);
            }
            1 => root = record(&sector[156..190]).map(|(extent, _)| extent),
            255 => break,
            _ => {}
        }
    }
    let root = root.ok_or(IsoError::NotIso("no primary volume descriptor"))?;
    Ok((root, catalog))
}

struct Entry {
    platform: u8,
    lba: u32,
    sectors: u16,
}

/// The bootable no-emulation entries of a boot catalog (El Torito, section 2).
fn catalog_entries(sector: &[u8]) -> Result<Vec<Entry>, &'static str> {
    let mut entries = Vec::new();
    let mut records = sector.chunks_exact(32);
    let validation = records.next().ok_or("the boot catalog is empty")?;
    let sum = validation.chunks_exact(2).fold(0_u16, |sum, word| {
        sum.wrapping_add(u16::from_le_bytes([word[0], word[1]]))
    });
    if validation[0] != 1 || validation[30..32] != [0x55, 0xaa] || sum != 0 {
        return Err("the boot catalog's validation entry is not valid");
    }
    let mut platform = validation[1];
    let mut last = false;
    let mut left: u16 = 1;
    for record in records {
        if left == 0 {
            if last || !matches!(record[0], 0x90 | 0x91) {
                break;
            }
            last = record[0] == 0x91;
            platform = record[1];
            left = u16::from_le_bytes([record[2], record[3]]);
            continue;
        }
        if record[0] == 0x44 {
            continue;
        }
        left -= 1;
        if record[0] == 0x88 && record[1] & 0x0f == 0 {
            entries.push(Entry {
                platform,
                lba: u32_at(record, 8).unwrap_or(0),
                sectors: u16::from_le_bytes([record[6], record[7]]),
            });
        }
    }
    if entries.is_empty() {
        return Err("the boot catalog has no bootable entry");
    }
    Ok(entries)
}

/// Walks `path` from `root`; names are compared without regard to case, as both loaders do on ISO 9660.
async fn find(medium: &Arc<Medium>, root: Extent, path: &str) -> Result<Option<Extent>, IsoError> {
    let mut here = root;
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    for (depth, part) in parts.iter().enumerate() {
        let directory = medium.read_at(here.at, u64::from(here.len.min(DIRECTORY_CAP))).await?;
        let wants_folder = depth + 1 < parts.len();
        match lookup(&directory, part, wants_folder) {
            Some(extent) => here = extent,
            None => return Ok(None),
        }
    }
    Ok(Some(here))
}

fn lookup(directory: &[u8], wanted: &str, folder: bool) -> Option<Extent> {
    let sector = usize::try_from(SECTOR).ok()?;
    for block in directory.chunks(sector) {
        let mut at = 0;
        // A record never crosses a sector; length 0 ends this one.
        while let Some(&length) = block.get(at) {
            let length = usize::from(length);
            if length < 34 {
                break;
            }
            let Some(bytes) = block.get(at..at + length) else {
                break;
            };
            at += length;
            let is_folder = bytes[25] & 2 != 0;
            if is_folder != folder {
                continue;
            }
            let Some((extent, names)) = record(bytes) else {
                continue;
            };
            if names.iter().any(|name| name.eq_ignore_ascii_case(wanted)) {
                return Some(extent);
            }
        }
    }
    None
}

/// Extent and names (ISO 9660 without version, Rock Ridge) of a directory record (ECMA-119, 9.1).
fn record(bytes: &[u8]) -> Option<(Extent, Vec<String>)> {
    let lba = u32_at(bytes, 2)?;
    let len = u32_at(bytes, 10)?;
    let name_len = usize::from(*bytes.get(32)?);
    let name = bytes.get(33..33 + name_len)?;
    let plain = String::from_utf8_lossy(name);
    let plain = plain.split(';').next().unwrap_or_default();
    let mut names = vec![plain.trim_end_matches('.').to_owned()];
    let mut at = 33 + name_len + usize::from(name_len % 2 == 0);
    while let Some([a, b, size, _]) = bytes.get(at..at + 4).and_then(|four| <[u8; 4]>::try_from(four).ok()) {
        let size = usize::from(size);
        if size < 4 {
            break;
        }
        if (a, b) == (b'N', b'M')
            && let Some(name) = bytes.get(at + 5..at + size)
        {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
        at += size;
    }
    let extent = Extent {
        at: u64::from(lba) * SECTOR,
        len,
    };
    Some((extent, names))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

type Line = (String, Vec<String>, String);

/// The default label's kernel of an isolinux configuration.
fn isolinux(text: &str) -> Option<Line> {
    let mut default = None;
    let mut labels: Vec<(String, Option<String>, Option<String>, String)> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match (word.to_ascii_lowercase().as_str(), labels.last_mut()) {
            ("default", _) => default = Some(rest.to_owned()),
            ("label", _) => labels.push((rest.to_owned(), None, None, String::new())),
            ("kernel" | "linux", Some(label)) => label.1 = Some(rest.to_owned()),
            ("initrd", Some(label)) => label.2 = Some(rest.to_owned()),
            ("append", Some(label)) => label.3 = rest.to_owned(),
            _ => {}
        }
    }
    let label = labels
        .iter()
        .find(|label| Some(&label.0) == default.as_ref())
        .or(labels.first())?;
    let kernel = label.1.clone()?;
    let initrd = label.2.clone().or_else(|| {
        let words = label.3.split_whitespace();
        words
            .filter_map(|word| word.strip_prefix("initrd="))
            .next()
            .map(str::to_owned)
    });
    let initrd = initrd.iter().flat_map(|list| list.split(',')).map(str::to_owned);
    Some((kernel, initrd.collect(), label.3.clone()))
}

/// The first entry's kernel of a GRUB configuration.
fn grub(text: &str) -> Option<Line> {
    let mut kernel = None;
    for line in text.lines() {
        let words = grub_words(line);
        let mut words = words.into_iter();
        match words.next().as_deref() {
            Some("linux" | "linuxefi") if kernel.is_none() => {
                let path = words.next()?;
                let append: Vec<String> = words.collect();
                kernel = Some((path, append.join(" ")));
            }
            Some("initrd" | "initrdefi") => {
                let (path, append) = kernel?;
                return Some((path, words.collect(), append));
            }
            _ => {}
        }
    }
    let (path, append) = kernel?;
    Some((path, Vec::new(), append))
}

/// The words of a line with GRUB's quotes taken off: all is plain in single ones, a backslash escapes elsewhere.
fn grub_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let escaped = characters.next().unwrap_or('\\');
                word.get_or_insert_default().push(escaped);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_label_of_isolinux_is_booted() {
        let text = "default boot\n\nlabel other\nkernel /x\nlabel boot\n  kernel /vmlinuz\n  append initrd=/a,/b text k=v --\n";
        let (kernel, initrd, append) = isolinux(text).unwrap();
        assert_eq!(kernel, "/vmlinuz");
        assert_eq!(initrd, ["/a", "/b"]);
        assert_eq!(append, "initrd=/a,/b text k=v --");
        assert!(isolinux("default x\n").is_none());
    }

    #[test]
    fn the_first_entry_of_grub_is_booted() {
        let text = "set default=0\nmenuentry \"x\" {\n linux /vmlinuz a b=c --\n initrd /initrd\n}\n";
        let (kernel, initrd, append) = grub(text).unwrap();
        assert_eq!((kernel.as_str(), append.as_str()), ("/vmlinuz", "a b=c --"));
        assert_eq!(initrd, ["/initrd"]);
        let text = "  linux '/vmlinuz' 'a=$x' \"b=\\\"c\" d\\ e\n";
        let (kernel, initrd, append) = grub(text).unwrap();
        assert_eq!((kernel.as_str(), append.as_str()), ("/vmlinuz", "a=$x b=\"c d e"));
        assert!(initrd.is_empty());
    }

    #[test]
    fn a_boot_catalog_needs_a_right_checksum() {
        let mut sector = vec![0; 2048];
        sector[0] = 1;
        sector[30] = 0x55;
        sector[31] = 0xaa;
        sector[32] = 0x88;
        assert!(catalog_entries(&sector).is_err());
        let sum: u16 = 0x0001_u16.wrapping_add(0xaa55);
        sector[28..30].copy_from_slice(&0_u16.wrapping_sub(sum).to_le_bytes());
        assert_eq!(catalog_entries(&sector).unwrap().len(), 1);
        assert!(catalog_entries(&[]).is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_looked_up_without_a_panic(bytes in proptest::collection::vec(0_u8.., 0..5000)) {
            lookup(&bytes, "x", false);
            record(&bytes);
            let _ = catalog_entries(&bytes);
        }
    }
}
