//! Long names, the 8.3 names beside them, and volume labels.

use super::FatError;
use crate::unique::Taken;

/// Longest long name, in UTF-16 units.
const MAX_LONG: usize = 255;
/// Characters that the largest number, `~65536`, leaves of a name.
const STEM: usize = 2;

/// The 11 bytes of a volume label, or none if it is empty. Lower case stays: `ir-vfd-dev` is what agents look for, and
/// every reader shows it as it is.
pub(super) fn label(text: &str) -> Result<Option<[u8; 11]>, FatError> {
    let legal = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && !b"\"*+,./:;<=>?[\\]|".contains(&byte);
    if text.len() > 11 || !text.bytes().all(legal) || text.starts_with(' ') {
        let label = text.chars().take(64).collect();
        return Err(FatError::Label { label });
    }
    let mut label = [b' '; 11];
    label[..text.len()].copy_from_slice(text.as_bytes());
    Ok((!text.is_empty()).then_some(label))
}

/// What is wrong with a long name, if anything.
pub(super) fn bad(name: &str) -> Option<&'static str> {
    if name.encode_utf16().count() > MAX_LONG {
        Some("it is longer than 255 UTF-16 units")
    } else if name.contains(['"', '*', '/', ':', '<', '>', '?', '\\', '|']) || name.contains(char::is_control) {
        Some("it holds a control character or one of \" * / : < > ? \\ |")
    } else if name.ends_with(['.', ' ']) || name.starts_with(' ') {
        Some("it starts with a space or ends with a dot or a space")
    } else {
        None
    }
}

/// The 8.3 names of one directory's long names, in their order, and whether the long name has to stand beside each.
///
/// The names must differ in more than case. Those that are 8.3 names themselves keep them, whatever comes before: a number
/// that is appended to another one must not make it answer to a name that is a file's own.
///
/// Lower-case names get a long name rather than the case bits that only some readers know.
pub(super) fn short<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<([u8; 11], bool)> {
    let mut taken = Taken::default();
    let own: Vec<Option<[u8; 11]>> = names.clone().map(plain).collect();
    for name in own.iter().flatten() {
        taken.take(*name);
    }
    let given = names.zip(own).map(|(name, own)| match own {
        Some(own) => (own, name.bytes().any(|byte| byte.is_ascii_lowercase())),
        None => (numbered(name, &mut taken), true),
    });
    given.collect()
}

/// The name as an 8.3 name, if that loses nothing but case.
fn plain(name: &str) -> Option<[u8; 11]> {
    let (base, extension) = parts(name);
    let ((base, base_kept), (extension, extension_kept)) = (squeeze(base, 8), squeeze(extension, 3));
    // A dot with nothing behind it is no part of an 8.3 name.
    (base_kept && extension_kept && !base.is_empty() && !name.ends_with('.')).then(|| join(&base, &extension))
}

/// An 8.3 name with the first number that nobody has.
fn numbered(name: &str, taken: &mut Taken<[u8; 11]>) -> [u8; 11] {
    let (base, extension) = parts(name);
    let ((base, _), (extension, _)) = (squeeze(base, 8), squeeze(extension, 3));
    let numbered = |number: u32| {
        let tail = format!("~{number}");
        let mut stem = base.clone();
        stem.truncate(8 - tail.len());
        stem.extend_from_slice(tail.as_bytes());
        join(&stem, &extension)
    };
    let stem = join(&base[..base.len().min(STEM)], &extension);
    taken.take_numbered(stem, numbered)
}

fn parts(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(0) | None => (name, ""),
        Some(dot) => (&name[..dot], &name[dot + 1..]),
    }
}

/// Upper-case short-name characters of a part, at most `len`, and whether that lost nothing but case.
fn squeeze(part: &str, len: usize) -> (Vec<u8>, bool) {
    let mut kept = true;
    let mut out = Vec::with_capacity(len);
    for c in part.chars() {
        let byte = match c {
            ' ' | '.' => {
                kept = false;
                continue;
            }
            'a'..='z' | 'A'..='Z' | '0'..='9' => c.to_ascii_uppercase(),
            '$' | '%' | '\'' | '-' | '_' | '@' | '~' | '`' | '!' | '(' | ')' | '{' | '}' | '^' | '#' | '&' => c,
            _ => {
                kept = false;
                '_'
            }
        };
        if out.len() == len {
            return (out, false);
        }
        out.push(u8::try_from(byte).unwrap_or(b'_'));
    }
    (out, kept)
}

fn join(base: &[u8], extension: &[u8]) -> [u8; 11] {
    let mut name = [b' '; 11];
    name[..base.len()].copy_from_slice(base);
    name[8..8 + extension.len()].copy_from_slice(extension);
    name
}

/// Checksum of a short name that ties its long-name entries to it (FAT specification, section 7.2).
pub(super) fn checksum(short: &[u8; 11]) -> u8 {
    short
        .iter()
        .fold(0u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte))
}

/// A long name that is being put together from its entries, last part first.
#[derive(Default)]
pub(super) struct LongName {
    parts: Vec<[u16; 13]>,
    left: u8,
    checksum: u8,
}

impl LongName {
    pub(super) fn add(&mut self, entry: &[u8]) {
        let order = entry[0];
        if order & 0x40 != 0 {
            *self = Self {
                parts: Vec::new(),
                left: order & 0x3F,
                checksum: entry[13],
            };
        } else if order != self.left || entry[13] != self.checksum {
            *self = Self::default();
            return;
        }
        if self.left == 0 || self.left > 20 {
            *self = Self::default();
            return;
        }
        self.left -= 1;
        let mut part = [0; 13];
        let places = (1..11).step_by(2).chain((14..26).step_by(2)).chain([28, 30]);
        for (unit, place) in part.iter_mut().zip(places) {
            *unit = u16::from_le_bytes([entry[place], entry[place + 1]]);
        }
        self.parts.push(part);
    }

    /// The name, if it is complete and belongs to this short name.
    pub(super) fn finish(self, short: &[u8]) -> Option<String> {
        let short: &[u8; 11] = short.try_into().ok()?;
        if self.parts.is_empty() || self.left != 0 || checksum(short) != self.checksum {
            return None;
        }
        let units: Vec<u16> = self
            .parts
            .into_iter()
            .rev()
            .flatten()
            .take_while(|unit| *unit != 0)
            .collect();
        Some(String::from_utf16_lossy(&units))
    }
}

/// The short name of an entry, as it is shown.
pub(super) fn short_name(entry: &[u8]) -> String {
    let base = latin(&entry[..8]);
    let extension = latin(&entry[8..11]);
    // Case bits of Windows NT: lower-case base and extension.
    let cased = |part: &str, bit: u8| match entry[12] & bit {
        0 => part.trim_end().to_owned(),
        _ => part.trim_end().to_ascii_lowercase(),
    };
    match (cased(&base, 0x08), cased(&extension, 0x10)) {
        (base, extension) if extension.is_empty() => base,
        (base, extension) => format!("{base}.{extension}"),
    }
}

/// Bytes outside ASCII depend on a code page that nothing in the volume names; they are shown as Latin-1.
pub(super) fn latin(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    fn shortened(names: &[&str]) -> Vec<(String, bool)> {
        let given = short(names.iter().copied()).into_iter();
        given
            .map(|(short, long)| (std::str::from_utf8(&short).unwrap().to_owned(), long))
            .collect()
    }

    #[test]
    fn short_names_are_legal_and_unlike_each_other() {
        let cases = [
            ("BOOTX64.EFI", "BOOTX64 EFI", false),
            ("grub.cfg", "GRUB    CFG", true),
            ("README", "README     ", false),
            ("parameters.txt", "PARAME~1TXT", true),
            ("parameters.text", "PARAME~1TEX", true),
            ("parametersX.txt", "PARAME~2TXT", true),
            ("a.b.c", "AB~1    C  ", true),
            (".hidden", "HIDDEN~1   ", true),
            ("ünïcode", "_N_COD~1   ", true),
            ("...x", "~1      X  ", true),
        ];
        let found = shortened(&cases.map(|(name, ..)| name));
        for ((name, short, long), found) in cases.into_iter().zip(found) {
            assert_eq!(found, (short.to_owned(), long), "{name}");
        }
    }

    #[test]
    fn a_number_never_makes_a_name_answer_to_what_is_another_ones_own() {
        let (mine, other) = ("PARAME~1TXT".to_owned(), "PARAME~2TXT".to_owned());
        for names in [["parameters.txt", "parame~1.txt"], ["parame~1.txt", "parameters.txt"]] {
            let found = shortened(&names);
            let own = names.iter().position(|name| *name == "parame~1.txt").unwrap();
            assert_eq!(found[own], (mine.clone(), true));
            assert_eq!(found[1 - own], (other.clone(), true));
        }
    }

    #[test]
    fn twenty_thousand_like_names_get_as_many_short_ones_soon() {
        let start = Instant::now();
        let names: Vec<String> = (0..20_000).map(|i| format!("long file name {i}.text")).collect();
        let all: BTreeSet<_> = short(names.iter().map(String::as_str)).into_iter().collect();
        assert_eq!(all.len(), 20_000);
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }

    #[test]
    fn labels_keep_their_case_and_are_checked() {
        assert_eq!(label("ir-vfd-dev").unwrap().unwrap(), *b"ir-vfd-dev ");
        assert_eq!(label("").unwrap(), None);
        for bad in ["twelve chars", "a.b", "ü", "a/b", " a", "a\n"] {
            assert!(label(bad).is_err(), "{bad}");
        }
    }
}
