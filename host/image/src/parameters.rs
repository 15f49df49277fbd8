//! `key=value` parameters: what a ramdisk reads from the floppy or from its kernel line.

use std::collections::BTreeSet;

/// Longest key, in bytes.
const MAX_KEY: usize = 255;
/// Longest value, in bytes.
const MAX_VALUE: usize = 64 * 1024;
/// Keys are shown up to this many characters.
const SHOWN: usize = 64;

/// Why a parameter cannot be handed to a ramdisk. It names the key and at most one character, never the value: values may
/// be secret.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterError {
    /// The key is not a plain word.
    #[error("parameter name {key:?} {reason}; use letters, digits, `-`, `_` and `.`")]
    Key {
        /// The key up to its first `=`, shortened.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The reader would not see the value that was meant.
    #[error("the value of parameter {key:?} {reason}; encode it (base64, say) or leave it out")]
    Value {
        /// Its key.
        key: String,
        /// What is wrong with the value.
        reason: String,
    },
    /// A key is there twice.
    #[error("parameter {key:?} is given twice; leave one of them out")]
    Duplicate {
        /// The key.
        key: String,
    },
}

/// Which boot loaders read a kernel line from their configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Loaders {
    pub(crate) isolinux: bool,
    pub(crate) grub: bool,
}

/// Who reads the parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// The agent, from `parameters.txt`: it splits at whitespace (every character that Python's `str.split` splits at).
    File,
    /// A boot loader's configuration parser, then the kernel, then whoever reads `/proc/cmdline`.
    ///
    /// isolinux hands its line on as it is, and knows no escapes. GRUB has quotes of its own for any character, and then puts
    /// a backslash before quotes and backslashes (`grub_create_loader_cmdline`), or leaves them, as its maker pleased: so
    /// neither may occur.
    KernelLine(Loaders),
}

/// Checks every parameter for `reader`.
pub(crate) fn check(parameters: &[(String, String)], reader: Reader) -> Result<(), ParameterError> {
    let mut seen = BTreeSet::new();
    for (key, value) in parameters {
        if let Some(reason) = bad_key(key) {
            return Err(ParameterError::Key {
                key: shown(key),
                reason,
            });
        }
        if !seen.insert(key) {
            return Err(ParameterError::Duplicate { key: shown(key) });
        }
        if let Some(reason) = bad_value(value, reader) {
            return Err(ParameterError::Value {
                key: shown(key),
                reason,
            });
        }
    }
    Ok(())
}

/// What may be shown of a key: a caller that mixed up `key=value` must not see the value in a log.
pub(crate) fn shown(key: &str) -> String {
    key.split('=').next().unwrap_or_default().chars().take(SHOWN).collect()
}

fn bad_key(key: &str) -> Option<String> {
    if key.is_empty() {
        return Some("is empty".to_owned());
    }
    if key.len() > MAX_KEY {
        return Some(format!("is longer than {MAX_KEY} bytes"));
    }
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '=' | '"' | '\'' | '\\');
    let odd = key.chars().find(|c| !is_plain(*c))?;
    Some(format!("holds {}", described(odd)))
}

pub(crate) fn bad_value(value: &str, reader: Reader) -> Option<String> {
    if value.len() > MAX_VALUE {
        return Some(format!("is longer than {MAX_VALUE} bytes"));
    }
    let (odd, reason) = value
        .chars()
        .find_map(|c| bad_character(c, reader).map(|reason| (c, reason)))?;
    Some(format!("holds {}, {reason}", described(odd)))
}

/// Why this character does not arrive.
pub(crate) fn bad_character(c: char, reader: Reader) -> Option<&'static str> {
    match (c, reader) {
        ('\n' | '\r', _) => Some("which ends its line"),
        (c, _) if c.is_whitespace() => Some("at which its reader would cut it"),
        (c, _) if c.is_control() => Some("which no line of text carries"),
        (_, Reader::File) => None,
        ('"', Reader::KernelLine(_)) => Some("which the kernel takes off"),
        ('\'' | '\\', Reader::KernelLine(loaders)) if loaders.grub => Some("before which GRUB puts a backslash"),
        (c, Reader::KernelLine(_)) if !c.is_ascii() => Some("which a kernel line cannot carry"),
        _ => None,
    }
}

/// A character as an error names it: as it is, if it can be seen.
pub(crate) fn described(c: char) -> String {
    let number = u32::from(c);
    match c {
        ' ' => format!("a space (U+{number:04X})"),
        '\n' | '\r' => format!("a line break (U+{number:04X})"),
        c if c.is_whitespace() || c.is_control() => format!("an invisible character (U+{number:04X})"),
        c => format!("`{c}` (U+{number:04X})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Reader = Reader::KernelLine(Loaders {
        isolinux: true,
        grub: true,
    });
    const ISOLINUX: Reader = Reader::KernelLine(Loaders {
        isolinux: true,
        grub: false,
    });

    fn checked(key: &str, value: &str, reader: Reader) -> Result<(), ParameterError> {
        check(&[(key.to_owned(), value.to_owned())], reader)
    }

    #[test]
    fn a_value_that_the_reader_would_not_see_whole_is_refused() {
        for value in [
            "a b",
            "a\tb",
            "a\nb",
            "a\r",
            "\u{a0}",
            "a\u{3000}b",
            "\u{1f}",
            "\u{85}",
            "\0",
        ] {
            for reader in [Reader::File, BOTH, ISOLINUX] {
                let refused = checked("k", value, reader);
                assert!(
                    matches!(refused, Err(ParameterError::Value { .. })),
                    "{value:?} {refused:?}"
                );
            }
        }
        for value in ["a'b", "a\"b", "a\\b", "ü"] {
            assert_eq!(checked("k", value, Reader::File), Ok(()), "{value}");
            let refused = checked("k", value, BOTH);
            assert!(matches!(refused, Err(ParameterError::Value { .. })), "{value}");
        }
        for value in ["", "http://[2001:db8::1]:6385/v1,http://b", "a=b", "$x;{y}#z%s"] {
            assert_eq!(checked("ipa-api-url", value, BOTH), Ok(()), "{value}");
        }
    }

    #[test]
    fn isolinux_alone_takes_what_grub_would_change() {
        for value in ["it's", "DOMAIN\\user"] {
            assert_eq!(checked("k", value, ISOLINUX), Ok(()), "{value}");
            assert!(checked("k", value, BOTH).is_err(), "{value}");
        }
        assert!(checked("k", "a\"b", ISOLINUX).is_err());
    }

    #[test]
    fn an_error_names_the_parameter_and_the_character() {
        let text = |key: &str, value: &str| checked(key, value, BOTH).unwrap_err().to_string();
        for (value, expected) in [
            ("it's", "`'` (U+0027), before which GRUB"),
            ("a b", "a space (U+0020), at which"),
            ("ü", "`ü` (U+00FC), which a kernel line cannot"),
            ("a\n", "a line break (U+000A)"),
            ("a\u{7}", "an invisible character (U+0007)"),
        ] {
            let text = text("root_device", value);
            assert!(text.contains("\"root_device\"") && text.contains(expected), "{text}");
        }
        assert!(text("a b", "").contains("\"a b\" holds a space (U+0020)"));
    }

    #[test]
    fn a_key_is_a_plain_word_and_comes_once() {
        for key in ["", "a b", "a=b", "a\nb", "ü", "a\"", &"k".repeat(256)] {
            let refused = checked(key, "v", Reader::File);
            assert!(matches!(refused, Err(ParameterError::Key { .. })), "{key}");
        }
        let twice = [("k".to_owned(), "1".to_owned()), ("k".to_owned(), "2".to_owned())];
        assert_eq!(
            check(&twice, Reader::File),
            Err(ParameterError::Duplicate { key: "k".into() })
        );
    }

    #[test]
    fn no_error_shows_a_value() {
        let secret = "hunter2";
        for (key, value) in [("token=hunter2", ""), ("token", "hunter2 x"), ("token", "hunter2\n")] {
            let error = checked(key, value, BOTH).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains(secret) && text.contains("token"), "{text}");
        }
    }
}
