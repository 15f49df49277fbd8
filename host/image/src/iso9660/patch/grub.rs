//! Adding words to the kernel lines of a GRUB configuration.
//!
//! GRUB's language has quotes, variables, continued lines and blocks. It is split into words here as GRUB's own lexer does,
//! so that the end of a command is found wherever it stands; nothing is evaluated.

use super::config::{Edited, Line};

/// Commands that load a Linux kernel. Some distributions put the name into a variable.
const LINUX: [&[u8]; 8] = [
    b"linux",
    b"linuxefi",
    b"linux16",
    b"$linux",
    b"${linux}",
    b"$linuxefi",
    b"${linuxefi}",
    b"$linux_cmd",
];
/// Words that a command may follow without a new line.
const BEFORE_COMMAND: [&[u8]; 10] = [
    b"then",
    b"else",
    b"do",
    b"if",
    b"elif",
    b"while",
    b"until",
    b"!",
    b"time",
    b"function",
];

/// A word: where it stands, and what it says without its quotes.
struct Word {
    start: usize,
    end: usize,
    says: Vec<u8>,
}

/// Adds the words to every command that loads a Linux kernel.
pub(super) fn add(text: &[u8], words: &[String]) -> Edited {
    let mut edited = Edited::default();
    let mut done = 0;
    for command in commands(text) {
        let first = command
            .iter()
            .position(|word| !BEFORE_COMMAND.contains(&word.says.as_slice()));
        let command = &command[first.unwrap_or(0)..];
        let [name, _kernel, arguments @ ..] = command else {
            continue;
        };
        if !LINUX.contains(&name.says.as_slice()) {
            continue;
        }
        let is_there = |word: &&String| arguments.iter().any(|other| other.says == word.as_bytes());
        let new: Vec<&String> = words.iter().filter(|word| !is_there(word)).collect();
        let stop = arguments
            .iter()
            .find(|word| matches!(word.says.as_slice(), b"--" | b"---"));
        let old = command[1..].iter().map(|word| word.says.len() + 1).sum::<usize>();
        let added = new.iter().map(|word| word.len() + 1).sum::<usize>();
        edited.lines.push(Line {
            len: "BOOT_IMAGE=".len() + (old + added).saturating_sub(1),
        });
        let (at, before) = match stop {
            Some(stop) => (stop.start, true),
            None => (command[command.len() - 1].end, false),
        };
        edited.text.extend_from_slice(&text[done..at]);
        for word in new {
            let word = quoted(word);
            let (head, tail): (&[u8], &[u8]) = if before { (b"", b" ") } else { (b" ", b"") };
            edited.text.extend([head, &word, tail].concat());
        }
        done = at;
    }
    edited.text.extend_from_slice(&text[done..]);
    edited
}

/// A word that holds no quote, as GRUB takes it as it is.
fn quoted(word: &str) -> Vec<u8> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.,:/=@%+-".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.as_bytes().to_vec()
    } else {
        format!("'{word}'").into_bytes()
    }
}

/// The words of each command, in the order of the text.
fn commands(text: &[u8]) -> Vec<Vec<Word>> {
    let mut commands = vec![Vec::new()];
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b' ' | b'\t' | b'\r' => at += 1,
            b'\\' if text[at + 1..].starts_with(b"\n") => at += 2,
            b'\\' if text[at + 1..].starts_with(b"\r\n") => at += 3,
            b'\n' | b';' | b'{' | b'}' | b'&' | b'|' => {
                commands.push(Vec::new());
                at += 1;
            }
            b'#' => {
                at += text[at..]
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .unwrap_or(text.len() - at)
            }
            _ => {
                let word = word(text, at);
                at = word.end;
                if let Some(last) = commands.last_mut() {
                    last.push(word);
                }
            }
        }
    }
    commands
}

/// The word that starts at `start`, which is at least one byte long.
fn word(text: &[u8], start: usize) -> Word {
    let mut says = Vec::new();
    let mut at = start;
    while let Some(byte) = text.get(at).copied() {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b'}' | b'&' | b'|' => break,
            b'\\' => {
                match text.get(at + 1) {
                    // A continued line ends no word.
                    Some(b'\n') | None => {}
                    Some(escaped) => says.push(*escaped),
                }
                at += 2;
            }
            b'\'' => {
                let len = text[at + 1..].iter().position(|byte| *byte == b'\'');
                let end = len.map_or(text.len(), |len| at + 1 + len);
                says.extend_from_slice(&text[at + 1..end]);
                at = end + 1;
            }
            b'"' => at = double_quoted(text, at + 1, &mut says),
            b'$' if text.get(at + 1) == Some(&b'{') => {
                let len = text[at..].iter().position(|byte| *byte == b'}');
                let end = len.map_or(text.len(), |len| at + len + 1);
                says.extend_from_slice(&text[at..end]);
                at = end;
            }
            byte => {
                says.push(byte);
                at += 1;
            }
        }
    }
    Word {
        start,
        end: at.min(text.len()),
        says,
    }
}

/// Takes what stands up to the closing quote; where that ends.
fn double_quoted(text: &[u8], mut at: usize, says: &mut Vec<u8>) -> usize {
    while let Some(byte) = text.get(at).copied() {
        match (byte, text.get(at + 1).copied()) {
            (b'"', _) => return at + 1,
            (b'\\', Some(b'\n')) => at += 2,
            (b'\\', Some(escaped @ (b'"' | b'\\' | b'$'))) => {
                says.push(escaped);
                at += 2;
            }
            (byte, _) => {
                says.push(byte);
                at += 1;
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn edited(text: &str, words: &[&str]) -> (String, usize) {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let edited = add(text.as_bytes(), &words);
        (String::from_utf8(edited.text).unwrap(), edited.lines.len())
    }

    #[test]
    fn every_command_that_loads_linux_gets_the_words_and_nothing_else_changes() {
        let text = "set default=0\nmenuentry \"a; linux {x}\" --class os {\n\tlinux  /casper/vmlinuz quiet --- splash \n\
                    \tinitrd /i\n}\nmenuentry 'one line' { linuxefi /v a 'b c'; initrdefi /i }\n# linux /no\n\
                    if [ x = y ]; then linux /w root=\"/dev/x y\" # tail\nelse echo linux /no\nfi\n\
                    function f { $linux /k a \\\n  b\n}\nlinux\n";
        let (new, commands) = edited(text, &["p=1", "q=$z;w"]);
        assert_eq!(commands, 4);
        let expected = text
            .replace("quiet --- splash", "quiet p=1 'q=$z;w' --- splash")
            .replace("a 'b c';", "a 'b c' p=1 'q=$z;w';")
            .replace("\"/dev/x y\" #", "\"/dev/x y\" p=1 'q=$z;w' #")
            .replace("a \\\n  b\n", "a \\\n  b p=1 'q=$z;w'\n");
        assert_eq!(new, expected);
        assert_eq!(
            edited(&new, &["p=1", "q=$z;w"]).0,
            new,
            "what is there already is not added again"
        );
    }

    #[test]
    fn our_own_configuration_takes_words_too() {
        let own = crate::iso9660::boot_config::grub("boot_method=vmedia quiet");
        let (new, commands) = edited(&own, &["ipa-api-url=http://[2001:db8::1]:6385"]);
        assert_eq!(commands, 1);
        assert!(
            new.contains("'quiet' 'ipa-api-url=http://[2001:db8::1]:6385'\n"),
            "{new}"
        );
    }

    #[test]
    fn the_length_of_a_line_is_that_of_the_words() {
        let line = |text: &str| add(text.as_bytes(), &["wwww".to_owned()]).lines[0].len;
        assert_eq!(line("linux /k 'a' \"b\\\"c\"\n"), "BOOT_IMAGE=/k a b\"c wwww".len());
    }

    proptest! {
        #[test]
        fn any_text_keeps_all_that_it_had(text in "[a-z {};'\"\\\\$#\n-]{0,80}(linux /k)?[a-z {};'\"\\\\$#\n-]{0,80}") {
            let before: Vec<u8> = text.clone().into_bytes();
            let edited = add(&before, &["W=1".to_owned()]);
            let removed = String::from_utf8(edited.text).unwrap().replace(" W=1", "").replace("W=1 ", "");
            prop_assert!(removed.len() >= before.len() - 3 * edited.lines.len());
            let unchanged = edited.lines.is_empty();
            prop_assert!(!unchanged || removed == text);
        }
    }
}
