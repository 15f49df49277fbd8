//! Which files of an image are boot loaders' configurations, and adding words to the kernel lines in them.

use super::{grub, isolinux};
use crate::parameters::Loaders;

/// Who reads a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loader {
    Isolinux,
    Grub,
    /// An entry of the Boot Loader Specification, which GRUB and systemd-boot read.
    Entry,
}

/// A configuration with words added.
#[derive(Default)]
pub(super) struct Edited {
    pub(super) text: Vec<u8>,
    /// The kernel lines that it has.
    pub(super) lines: Vec<Line>,
}

/// A kernel line.
pub(super) struct Line {
    /// Its bytes, with what the boot loader puts in front.
    pub(super) len: usize,
}

/// Who reads the file at this path as a configuration, if anybody does: told by where the distributions put them.
pub(super) fn loader_of(path: &str) -> Option<Loader> {
    let path = path.to_ascii_lowercase();
    let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let file = names.pop()?;
    let (_, extension) = file.rsplit_once('.')?;
    let lies_in = |dirs: &[&str]| names.iter().any(|name| dirs.contains(name));
    match extension {
        "conf" if names.ends_with(&["loader", "entries"]) => Some(Loader::Entry),
        "conf" if file == "extlinux.conf" => Some(Loader::Isolinux),
        "cfg" if lies_in(&["isolinux", "syslinux", "extlinux"]) => Some(Loader::Isolinux),
        "cfg" if matches!(file, "isolinux.cfg" | "syslinux.cfg" | "extlinux.cfg") => Some(Loader::Isolinux),
        "cfg" if file.contains("grub") || file == "loopback.cfg" || lies_in(&["grub", "grub2", "efi"]) => {
            Some(Loader::Grub)
        }
        _ => None,
    }
}

impl Loader {
    /// Whose rules words have to keep.
    pub(super) fn rules(self) -> Loaders {
        Loaders {
            isolinux: self == Self::Isolinux,
            grub: self != Self::Isolinux,
        }
    }

    pub(super) fn add(self, text: &[u8], words: &[String]) -> Edited {
        match self {
            Self::Isolinux => isolinux::add(text, words),
            Self::Grub => grub::add(text, words),
            Self::Entry => add_to_entry(text, words),
        }
    }
}

/// Words between spaces and tabs.
pub(super) fn words_of(line: &[u8]) -> Vec<&[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
        .filter(|word| !word.is_empty())
        .collect()
}

/// Adds words to the `options` of an entry; the last line of that name if there are several.
fn add_to_entry(text: &[u8], words: &[String]) -> Edited {
    let mut lines: Vec<Vec<u8>> = text
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let keyword = |line: &Vec<u8>| words_of(line).first().map(|word| word.to_vec());
    let is_linux = lines.iter().any(|line| keyword(line).as_deref() == Some(b"linux"));
    if !is_linux {
        return Edited {
            text: text.to_vec(),
            lines: Vec::new(),
        };
    }
    let options: Vec<usize> = (0..lines.len())
        .filter(|index| keyword(&lines[*index]).as_deref() == Some(b"options"))
        .collect();
    let there: Vec<Vec<u8>> = options
        .iter()
        .flat_map(|index| words_of(&lines[*index]))
        .map(<[u8]>::to_vec)
        .collect();
    let new: Vec<u8> = words
        .iter()
        .filter(|word| !there.iter().any(|old| old == word.as_bytes()))
        .flat_map(|word| [b" ", word.as_bytes()].concat())
        .collect();
    let len = there.iter().map(|word| word.len() + 1).sum::<usize>() + new.len();
    if !new.is_empty() {
        match options.last() {
            Some(last) => {
                let end = lines[*last].trim_ascii_end().len();
                lines[*last].splice(end..end, new);
            }
            None => {
                if let Some(last) = lines.last_mut().filter(|line| !line.ends_with(b"\n")) {
                    last.push(b'\n');
                }
                lines.push([b"options", &new[..], b"\n"].concat());
            }
        }
    }
    Edited {
        text: lines.concat(),
        lines: vec![Line { len }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_told_by_where_they_lie() {
        for (path, expected) in [
            ("isolinux/isolinux.cfg", Some(Loader::Isolinux)),
            ("isolinux/txt.cfg", Some(Loader::Isolinux)),
            ("ISOLINUX.CFG", Some(Loader::Isolinux)),
            ("boot/x86_64/loader/isolinux.cfg", Some(Loader::Isolinux)),
            ("EFI/BOOT/grub.cfg", Some(Loader::Grub)),
            ("boot/grub/grub.cfg", Some(Loader::Grub)),
            ("boot/grub/loopback.cfg", Some(Loader::Grub)),
            ("boot/grub2/grub.cfg", Some(Loader::Grub)),
            ("EFI/fedora/grub.cfg", Some(Loader::Grub)),
            ("loader/entries/a.conf", Some(Loader::Entry)),
            ("etc/app.conf", None),
            ("pool/main/x.cfg", None),
            ("boot/grub/x86_64-efi/normal.mod", None),
            ("boot", None),
        ] {
            assert_eq!(loader_of(path), expected, "{path}");
        }
    }

    #[test]
    fn an_entry_gets_its_options() {
        let add = |text: &str| {
            let edited = add_to_entry(text.as_bytes(), &["a=1".to_owned(), "quiet".to_owned()]);
            (String::from_utf8(edited.text).unwrap(), edited.lines.len())
        };
        let text = "title x\nlinux /vmlinuz\noptions root=/x\noptions quiet \ninitrd /i\n";
        assert_eq!(add(text), (text.replace("quiet \n", "quiet a=1 \n"), 1));
        assert_eq!(add("linux /k").0, "linux /k\noptions a=1 quiet\n");
        assert_eq!(add("title x\nefi /x.efi\n"), ("title x\nefi /x.efi\n".to_owned(), 0));
    }
}
