//! Adding words to the kernel lines of an isolinux configuration (syslinux 6, `doc/config.txt`).

use super::config::{Edited, Line, words_of};

/// Endings of what `kernel` starts that is no Linux kernel.
const NOT_LINUX: [&str; 9] = [".0", ".bin", ".bs", ".bss", ".cbt", ".com", ".c32", ".img", ".efi"];

/// An entry of the menu that is being read.
#[derive(Default)]
struct Entry {
    /// Index of the line that names a Linux kernel, and the kernel.
    kernel: Option<(usize, Vec<u8>)>,
    /// Index of its own `append` line.
    append: Option<usize>,
    /// Bytes that an `initrd` line adds to the kernel line.
    initrd: usize,
}

/// Adds the words to every entry that starts a Linux kernel.
pub(super) fn add(text: &[u8], words: &[String]) -> Edited {
    let mut lines: Vec<Vec<u8>> = text
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let mut entries = Vec::new();
    let mut global_append = None;
    let mut current: Option<Entry> = None;
    let mut in_text = false;
    for (index, line) in lines.iter().enumerate() {
        let (keyword, rest) = split(line);
        if in_text {
            in_text = keyword != "endtext";
            continue;
        }
        match (keyword.as_str(), &mut current) {
            ("text", _) => in_text = true,
            ("label", current) => entries.extend(current.replace(Entry::default())),
            ("append", None) => global_append = Some(index),
            ("append", Some(entry)) => entry.append = Some(index),
            ("initrd", Some(entry)) => entry.initrd = "initrd= ".len() + rest.len(),
            ("kernel" | "linux", Some(entry)) => {
                let name = rest.to_ascii_lowercase();
                let is_other = NOT_LINUX.iter().any(|ending| name.ends_with(ending.as_bytes()));
                if !rest.is_empty() && (keyword == "linux" || !is_other) {
                    entry.kernel = Some((index, rest.to_vec()));
                }
            }
            _ => {}
        }
    }
    entries.extend(current);
    entries.retain(|entry| entry.kernel.is_some());

    let mut edited = Edited::default();
    let mut changes: Vec<(usize, Vec<u8>)> = Vec::new();
    for entry in &entries {
        let (kernel_line, kernel) = entry.kernel.as_ref().expect("entries without a kernel are gone");
        let (at, new) = match entry.append.or(global_append) {
            Some(index) => (index, with_words(&lines[index], words)),
            None => {
                let line = &lines[*kernel_line];
                let indent = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                let end: &[u8] = if line.ends_with(b"\r\n") { b"\r\n" } else { b"\n" };
                let append = with_words(&[&line[..indent], b"append", end].concat(), words);
                (*kernel_line, [line.trim_ascii_end(), end, &append].concat())
            }
        };
        let append = new.split(|byte| *byte == b'\n').rfind(|line| !line.is_empty());
        let append = split(append.unwrap_or_default()).1.len();
        edited.lines.push(Line {
            len: "BOOT_IMAGE= ".len() + kernel.len() + append + entry.initrd,
        });
        changes.push((at, new));
    }
    for (index, change) in changes {
        lines[index] = change;
    }
    edited.text = lines.concat();
    edited
}

/// The first word of a line, in lower case, and what follows it.
fn split(line: &[u8]) -> (String, &[u8]) {
    let line = line.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let keyword = String::from_utf8_lossy(&line[..end]).to_ascii_lowercase();
    (keyword, line[end..].trim_ascii())
}

/// An `append` line with the words that are not there yet, before a `--` if there is one: what follows that is not for the
/// kernel, or is kept for the installed system. All else stays as it is.
fn with_words(line: &[u8], words: &[String]) -> Vec<u8> {
    let arguments = split(line).1;
    let old = words_of(arguments);
    let new: Vec<&[u8]> = words
        .iter()
        .map(String::as_bytes)
        .filter(|word| !old.contains(word))
        .collect();
    if new.is_empty() {
        return line.to_vec();
    }
    let new = new.join(&b' ');
    let content = line.trim_ascii_end();
    // No arguments at all, said explicitly.
    let content = if arguments == b"-" {
        &content[..content.len() - 1]
    } else {
        content
    };
    let start = content.len() - arguments.len().min(content.len());
    let stop = (start..content.len()).find(|at| {
        let is_start = content[at - 1].is_ascii_whitespace();
        let word = content[*at..].split(u8::is_ascii_whitespace).next();
        is_start && matches!(word, Some(b"--" | b"---"))
    });
    let rest = &line[line.trim_ascii_end().len()..];
    match stop {
        Some(stop) => [&content[..stop], &new, b" ", &content[stop..], rest].concat(),
        None => [content.trim_ascii_end(), b" ", &new, rest].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, words: &[&str]) -> (String, usize) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let edited = add(text.as_bytes(), &words);
        (String::from_utf8(edited.text).unwrap(), edited.lines.len())
    }

    #[test]
    fn every_entry_that_starts_linux_gets_the_words_and_no_other_line_changes() {
        let text = "default vesamenu.c32\n# append nothing\nlabel live\n  menu label ^Live\n  kernel /casper/vmlinuz\n  \
                    append initrd=/i quiet --- splash\nLABEL txt\n\tLINUX vmlinuz\n\tTEXT HELP\n append x\n\tENDTEXT\n\
                    \tAPPEND vga=788\r\nlabel bare\n kernel /k\nlabel hdt\n kernel hdt.c32\n append a\nlabel disk\n localboot 0\n";
        let (new, entries) = edited(text, &["a=1", "b"]);
        assert_eq!(entries, 3);
        let expected = text
            .replace(
                "append initrd=/i quiet --- splash",
                "append initrd=/i quiet a=1 b --- splash",
            )
            .replace("APPEND vga=788", "APPEND vga=788 a=1 b")
            .replace(" kernel /k\n", " kernel /k\n append a=1 b\n");
        assert_eq!(new, expected);
        // What is there already is not added again.
        assert_eq!(edited(&new, &["a=1", "b"]).0, new);
    }

    #[test]
    fn an_append_for_all_entries_is_changed_once() {
        let text = "append quiet\nlabel a\n kernel k\nlabel b\n kernel k\n append -\nlabel c\n kernel k";
        let (new, entries) = edited(text, &["w"]);
        assert_eq!(entries, 3);
        assert_eq!(
            new,
            "append quiet w\nlabel a\n kernel k\nlabel b\n kernel k\n append w\nlabel c\n kernel k"
        );
    }

    #[test]
    fn a_last_line_without_an_end_gets_one() {
        assert_eq!(
            edited("label a\n kernel k", &["w"]).0,
            "label a\n kernel k\n append w\n"
        );
        assert_eq!(
            edited("label a\nappend\nkernel k", &["w"]).0,
            "label a\nappend w\nkernel k"
        );
        let quoted = "label a\nkernel k\n  append  x=\"a  b\"  --  z\n";
        assert_eq!(edited(quoted, &["w"]).0, quoted.replace("--  z", "w --  z"));
    }

    #[test]
    fn the_length_of_a_line_is_told() {
        let line = |text: &str| add(text.as_bytes(), &["wwww".to_owned()]).lines[0].len;
        assert_eq!(line("label a\nkernel k\nappend q\n"), "BOOT_IMAGE=k q wwww".len());
        assert_eq!(
            line("label a\nkernel k\nappend q\ninitrd /i\n"),
            "BOOT_IMAGE=k q wwww initrd=/i".len()
        );
    }
}
