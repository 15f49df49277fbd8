//! `key=value` parameters: what a ramdisk reads from the floppy or from its kernel line.

use std::collections::BTreeSet;

/// Longest key, in bytes.
const MAX_KEY: usize = 255;
/// Longest value, in bytes.
const MAX_VALUE: usize = 64 * 1024;
/// Keys are shown up to this many characters.
const SHOWN: usize = 64;

/// Why a parameter cannot be handed to a ramdisk. It names the key, never the value: values may be secret.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParameterError {
    /// The key is not a plain word.
    #[error("parameter name {key:?} {reason}; use letters, digits, `-`, `_` and `.`")]
    Key {
        /// The key up to its first `=`, shortened.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The reader would not see the value that was meant.
    #[error("the value of parameter {key:?} {reason}; encode it (base64, say) or leave it out")]
    Value {
        /// Its key.
        key: String,
        /// What is wrong with the value.
        reason: &'static str,
    },
    /// A key is there twice.
    #[error("parameter {key:?} is given twice; leave one of them out")]
    Duplicate {
        /// The key.
        key: String,
    },
}

/// Who reads the parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// The agent, from `parameters.txt`: it splits at whitespace (every character that Python's `str.split` splits at).
    File,
    /// A boot loader's configuration parser, then the kernel. GRUB puts a backslash before quotes and backslashes
    /// (`grub_create_loader_cmdline`), isolinux does not: so neither may occur if both are to say the same.
    KernelLine,
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

fn bad_key(key: &str) -> Option<&'static str> {
    match key {
        "" => Some("is empty"),
        key if key.len() > MAX_KEY => Some("is longer than 255 bytes"),
        key if key.contains('=') => Some("holds `=`"),
        key if key.contains(char::is_whitespace) => Some("holds whitespace"),
        key if !key.bytes().all(|byte| byte.is_ascii_graphic() && !is_quote(byte)) => {
            Some("holds a quote, a backslash, a control character or one outside ASCII")
        }
        _ => None,
    }
}

pub(crate) fn bad_value(value: &str, reader: Reader) -> Option<&'static str> {
    if value.len() > MAX_VALUE {
        return Some("is longer than 64 KiB");
    }
    if value.contains(['\n', '\r']) {
        return Some("holds a line break");
    }
    if value.contains(char::is_whitespace) {
        return Some("holds whitespace, at which its reader would cut it");
    }
    if value.contains(char::is_control) {
        return Some("holds a control character");
    }
    if reader == Reader::KernelLine {
        if value.bytes().any(is_quote) {
            return Some("holds a quote or a backslash, which boot loaders change");
        }
        if !value.is_ascii() {
            return Some("holds a character outside ASCII, which a kernel line cannot carry");
        }
    }
    None
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

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
            for reader in [Reader::File, Reader::KernelLine] {
                let refused = checked("k", value, reader);
                assert!(
                    matches!(refused, Err(ParameterError::Value { .. })),
                    "{value:?} {refused:?}"
                );
            }
        }
        for value in ["a'b", "a\"b", "a\\b", "ü"] {
            assert_eq!(checked("k", value, Reader::File), Ok(()), "{value}");
            let refused = checked("k", value, Reader::KernelLine);
            assert!(matches!(refused, Err(ParameterError::Value { .. })), "{value}");
        }
        for value in ["", "http://[2001:db8::1]:6385/v1,http://b", "a=b", "$x;{y}#z%s"] {
            assert_eq!(checked("ipa-api-url", value, Reader::KernelLine), Ok(()), "{value}");
        }
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
            let error = checked(key, value, Reader::KernelLine).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains(secret) && text.contains("token"), "{text}");
        }
    }
}
