//! The kernel line, as an iPXE script can carry it and the kernel reads it.
//!
//! iPXE splits a line of a script at whitespace and joins a kernel's arguments with single spaces again. It knows no quotes;
//! it replaces `${…}` by settings, ends a command at the words `||`, `&&` and `;`, and takes a word that opens with `#` for the
//! start of a comment. The kernel in turn splits at whitespace outside of double quotes.

use std::fmt;

/// What x86 and ARM kernels take (2047), less what iPXE and the script put in front:
/// `deploy_kernel initrd=deploy_ramdisk BOOTIF=01-aa-bb-cc-dd-ee-ff `.
const MAX_LINE: usize = 2047 - 64;
/// A kernel hands what it does not know to its first process, and panics over 32 such values; `HOME`, `TERM`, `initrd` and
/// `BOOTIF` are four of them. A name with a dot is a module's and does not count.
const MAX_PARAMETERS: usize = 28;
/// Words are shown up to this many characters, and never what stands after their `=`.
const SHOWN: usize = 64;

/// Words that the script itself or the boot method decides, with what to do about them.
const RESERVED: [(&str, &str); 5] = [
    ("initrd", "is set by the script, which names the ramdisk; leave it out"),
    (
        "BOOTIF",
        "is set by the script, which knows the card that was booted from; leave it out",
    ),
    ("BOOT_IMAGE", "is set by boot loaders; leave it out"),
    (
        "boot_method",
        "is for virtual media: the ramdisk would look for a floppy that is not there; leave it out",
    ),
    (
        "ipa-agent-token",
        "is a secret, and everybody on the network can fetch this line; the ramdisk gets its token by lookup",
    ),
];

/// Why a kernel line cannot be booted over the network. Names a word, never a value: values may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// A word that would not arrive as it was meant.
    #[error("kernel parameter {word:?} {reason}")]
    Word {
        /// Up to its first `=`, shortened.
        word: String,
        /// What is wrong with it, and what to do.
        reason: &'static str,
    },
    /// The whole text cannot be taken apart as the kernel would.
    #[error("the kernel parameters {reason}")]
    Text {
        /// What is wrong.
        reason: &'static str,
    },
    /// The kernel would cut it.
    #[error("the kernel line has {len} characters and at most {MAX_LINE} arrive; leave some parameters out")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// The kernel would panic.
    #[error("{count} parameters are handed to the ramdisk, and a kernel panics over more than {MAX_PARAMETERS}")]
    TooMany {
        /// How many there are.
        count: usize,
    },
}

/// Parameters and arguments of a kernel that arrive as they are. Holds no secret by contract: anybody can fetch it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelLine(String);

impl KernelLine {
    /// Puts parameters and free arguments together, in that order, since a `--` in the arguments hands what follows to the
    /// first process instead of the kernel.
    pub fn new(parameters: &[(String, String)], arguments: &str) -> Result<Self, LineError> {
        let mut words = Vec::new();
        for (at, (key, value)) in parameters.iter().enumerate() {
            check_key(key)?;
            let refuse = |reason| Err(refused(key, reason));
            if parameters[..at].iter().any(|(other, _)| other == key) {
                return refuse("is given twice; leave one of them out");
            }
            if value.contains(char::is_whitespace) {
                return refuse("has a value with whitespace, at which its reader would cut it; encode it");
            }
            if value.contains('"') {
                return refuse("has a value with a quote, which the kernel takes away; encode it");
            }
            words.push(format!("{key}={value}"));
        }
        let handed_on = parameters.iter().filter(|(key, _)| !key.contains('.')).count();
        if handed_on > MAX_PARAMETERS {
            return Err(LineError::TooMany { count: handed_on });
        }
        check_quotes(arguments)?;
        words.extend(arguments.split_ascii_whitespace().map(str::to_owned));
        for word in &words {
            check_word(word)?;
        }
        let line = words.join(" ");
        if line.len() > MAX_LINE {
            return Err(LineError::TooLong { len: line.len() });
        }
        Ok(Self(line))
    }

    /// The line.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KernelLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn refused(word: &str, reason: &'static str) -> LineError {
    let word = word.split('=').next().unwrap_or_default();
    let word = word.chars().take(SHOWN).collect();
    LineError::Word { word, reason }
}

fn check_key(key: &str) -> Result<(), LineError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if key.is_empty() || !key.bytes().all(legal) {
        return Err(refused(key, "is no name; use letters, digits, `-`, `_` and `.`"));
    }
    Ok(())
}

/// One word between two spaces.
fn check_word(word: &str) -> Result<(), LineError> {
    let key = word.split('=').next().unwrap_or_default();
    let reserved = RESERVED.iter().find(|(name, _)| *name == key);
    let reason = if let Some((_, reason)) = reserved {
        reason
    } else if word.bytes().any(|byte| !byte.is_ascii_graphic()) {
        "holds a control character or one outside ASCII, which a kernel line cannot carry"
    } else if word.contains("${") {
        "holds `${`, which iPXE replaces by a setting of its own"
    } else if matches!(word, "||" | "&&" | ";") {
        "ends a command of an iPXE script"
    } else if word.starts_with('#') {
        "opens with `#`, and iPXE takes the rest of the line for a comment"
    } else if word.ends_with('\\') {
        "ends in a backslash, which joins lines of an iPXE script"
    } else {
        return Ok(());
    };
    Err(refused(word, reason))
}

/// iPXE makes one space of any whitespace, also inside quotes; so a quoted text may hold single spaces only.
fn check_quotes(arguments: &str) -> Result<(), LineError> {
    let refuse = |reason| Err(LineError::Text { reason });
    if arguments.contains(['\n', '\r']) {
        return refuse("hold a line break, and a kernel line is one line");
    }
    let mut parts = arguments.split('"');
    // Every other part is a quoted one.
    parts.next();
    while let Some(quoted) = parts.next() {
        if quoted.contains(|c: char| c.is_whitespace() && c != ' ') || quoted.contains("  ") {
            return refuse("hold a quoted text with a tab or several spaces in a row, of which one would arrive");
        }
        if parts.next().is_none() {
            return refuse("hold a quote that is never closed");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn what_an_operator_writes_arrives_in_its_order() {
        let line = KernelLine::new(
            &pairs(&[
                ("ipa-api-url", "http://10.1.0.1:6387,http://[fd00::1]:6387"),
                ("ipa-debug", ""),
            ]),
            "  nofb nomodeset\tconsole=ttyS0,115200n8 foo=\"a b\" x=a\\b it's=$HOME 100% -- single",
        );
        assert_eq!(
            line.unwrap().as_str(),
            "ipa-api-url=http://10.1.0.1:6387,http://[fd00::1]:6387 ipa-debug= nofb nomodeset console=ttyS0,115200n8 foo=\"a b\" x=a\\b it's=$HOME 100% -- single"
        );
        assert_eq!(KernelLine::new(&[], "").unwrap().as_str(), "");
    }

    #[test]
    fn what_would_not_arrive_is_refused_by_name_and_never_by_value() {
        for (arguments, says) in [
            ("a ${mac} b", "`${`"),
            ("key=s3cret${x}", "`${`"),
            ("a || b", "ends a command"),
            ("a && b", "ends a command"),
            ("a ; b", "ends a command"),
            ("a #b", "comment"),
            ("key=s3cret\\", "backslash"),
            ("key=s3cret\nboot", "line break"),
            ("a\rb", "line break"),
            ("key=s3cretü", "outside ASCII"),
            ("a\u{7}b", "control"),
            ("a\0b", "control"),
            ("initrd=s3cret", "set by the script"),
            ("BOOTIF=s3cret", "set by the script"),
            ("boot_method=vmedia", "virtual media"),
            ("ipa-agent-token=s3cret", "lookup"),
            ("key=\"s3cret", "never closed"),
            ("key=\"a  s3cret\"", "several spaces"),
            ("key=\"a\ts3cret\"", "tab"),
        ] {
            let error = KernelLine::new(&[], arguments).unwrap_err().to_string();
            assert!(error.contains(says), "{arguments:?}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        for (key, value, says) in [
            ("", "x", "no name"),
            ("a b", "x", "no name"),
            ("a=b", "x", "no name"),
            ("k", "a s3cret", "whitespace"),
            ("k", "a\u{a0}s3cret", "whitespace"),
            ("k", "\"s3cret\"", "quote"),
            ("k", "${s3cret}", "`${`"),
            ("k", "s3cret\\", "backslash"),
            ("k", "s3crét", "outside ASCII"),
            ("ipa-agent-token", "s3cret", "lookup"),
        ] {
            let error = KernelLine::new(&pairs(&[(key, value)]), "").unwrap_err().to_string();
            assert!(error.contains(says), "{key}={value:?}: {error}");
            assert!(!error.contains("s3cr"), "{error}");
        }
        let twice = KernelLine::new(&pairs(&[("k", "1"), ("k", "2")]), "").unwrap_err();
        assert!(twice.to_string().contains("twice"), "{twice}");
    }

    #[test]
    fn a_line_that_a_kernel_would_cut_or_panic_over_is_refused() {
        assert!(KernelLine::new(&[], &"x".repeat(MAX_LINE)).is_ok());
        let error = KernelLine::new(&[], &"x".repeat(MAX_LINE + 1));
        assert_eq!(error, Err(LineError::TooLong { len: MAX_LINE + 1 }));
        let many: Vec<_> = (0..29).map(|n| (format!("k{n}"), String::new())).collect();
        assert!(KernelLine::new(&many[..28], "").is_ok());
        assert_eq!(KernelLine::new(&many, ""), Err(LineError::TooMany { count: 29 }));
    }

    proptest! {
        /// What iPXE and the kernel make of an accepted line, by their own rules, is what was asked for.
        #[test]
        fn an_accepted_text_is_read_back_as_it_was_meant(
            arguments in prop_oneof![
                "[ -~\t\n]{0,80}",
                prop::collection::vec(
                    prop::sample::select(vec![
                        "||", "&&", ";", "#x", "a=b", "\"a", "b\"", "\"c\"", "${x}", "$", "{x}", "--", "x\\", "|", "&", "\t", " ",
                    ]),
                    0..8,
                )
                .prop_map(|words| words.join(" ")),
            ],
        ) {
            let Ok(line) = KernelLine::new(&[], &arguments) else { return Ok(()) };
            let script = format!("kernel ../x initrd=y {line} || goto failed");
            let words: Vec<_> = script.split_ascii_whitespace().collect();
            let end = words.iter().position(|word| ["||", "&&", ";"].contains(word) || word.starts_with('#'));
            let argued = words[3..end.unwrap()].join(" ");
            let replaced = argued.contains("${");
            prop_assert!(!replaced);
            prop_assert_eq!(end, Some(words.len() - 3));
            prop_assert_eq!(kernel_words(&argued), kernel_words(&arguments));
        }
    }

    /// A kernel line taken apart as Linux does (`lib/cmdline.c`): at whitespace outside of double quotes.
    fn kernel_words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                c if c.is_ascii_whitespace() && !quoted => words.push(String::new()),
                c => words.last_mut().unwrap().push(c),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }
}
