//! Files that hold one secret and nothing else.

use std::io::Read as _;
use std::path::Path;

use model::Secret;

/// No password is longer.
const MOST_BYTES: u64 = 64 << 10;

/// The file's text without the newline at its end; what is wrong with it and the remedy otherwise.
pub(crate) fn read(path: &Path) -> Result<Secret, String> {
    text(path).map(Secret::new)
}

fn text(path: &Path) -> Result<String, String> {
    let there = |error: std::io::Error| format!("{error}; put the file there, or correct the path");
    if !std::fs::metadata(path).map_err(there)?.is_file() {
        return Err("it is not a regular file".into());
    }
    let file = std::fs::File::open(path).map_err(there)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(there)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("it has more than {MOST_BYTES} bytes: that is no password"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err("it is empty; write the secret into it".into());
    }
    if text.contains(['\n', '\r', '\0']) {
        return Err("it has more than one line; leave nothing but the secret in it".into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_file_holds_one_line_and_what_is_wrong_with_it_is_told_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let read = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            read(&path)
        };
        for good in [&b"hunter2"[..], b"hunter2\n", b"hunter2\r\n"] {
            assert_eq!(read(good).unwrap().expose(), "hunter2");
        }
        assert_eq!(read(b" a b \n").unwrap().expose(), " a b ");
        for bad in [
            &b""[..],
            b"\n",
            b"hunter2\n\n",
            b"hunter2\nx",
            b"hunter2\xff",
            &[b'x'; 70_000],
        ] {
            let reason = read(bad).unwrap_err();
            assert!(!reason.contains("hunter2"), "{reason}");
        }
        assert!(super::read(folder.path()).unwrap_err().contains("regular"));
        assert!(
            super::read(&folder.path().join("none"))
                .unwrap_err()
                .contains("put the file there")
        );
    }
}
