//! Digests that a source is expected to have: given as they are, or as the URL of a checksum file.

use std::fmt;

use model::Sha256;

/// Longest line of a checksum file that is looked at.
const LINE_CAP: usize = 4096;

/// A digest that some content must have.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// SHA-256 (FIPS 180-4).
    Sha256(Sha256),
    /// SHA-512.
    Sha512([u8; 64]),
}

/// Why a text is no checksum that can be relied on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChecksumError {
    /// Content with a given MD5 or SHA-1 can be made by anybody, so such a digest vouches for nothing.
    #[error("is {0}, which can be forged: give the image's SHA-256 or SHA-512 (sha256sum IMAGE)")]
    Weak(&'static str),
    /// Not the digits of that algorithm.
    #[error("is no {0}: {1} hexadecimal digits are needed")]
    Digits(&'static str, usize),
    /// An algorithm that is not known here.
    #[error("is of the algorithm `{0}`: use sha256 or sha512")]
    Algorithm(String),
    /// Neither digits of a known length nor a URL.
    #[error("is neither a SHA-256 nor a SHA-512 in hexadecimal digits, nor the http(s) URL of a checksum file")]
    Nothing,
}

/// What a source's checksum is given as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GivenChecksum {
    /// The digest itself.
    Known(Checksum),
    /// A file that lists it (`SHA256SUMS`), by URL.
    File(String),
}

impl GivenChecksum {
    /// Reads what Ironic takes as `image_checksum`, or as `image_os_hash_value` with `image_os_hash_algo`: hexadecimal
    /// digits, with the algorithm before a colon or by their number, or the URL of a checksum file.
    pub fn parse(text: &str, algorithm: Option<&str>) -> Result<Self, ChecksumError> {
        let text = text.trim();
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Self::File(text.to_owned()));
        }
        let (prefix, digits) = match text.split_once(':') {
            Some((prefix, digits)) => (Some(prefix), digits),
            None => (None, text),
        };
        Checksum::parse(digits, prefix.or(algorithm)).map(Self::Known)
    }
}

impl Checksum {
    /// Reads hexadecimal digits; without an algorithm, by their number.
    pub fn parse(digits: &str, algorithm: Option<&str>) -> Result<Self, ChecksumError> {
        let algorithm = algorithm.map(|name| name.trim().to_ascii_lowercase().replace('-', ""));
        let hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        match (algorithm.as_deref(), digits.len()) {
            (Some("md5"), _) => Err(ChecksumError::Weak("an MD5")),
            (Some("sha1"), _) => Err(ChecksumError::Weak("a SHA-1")),
            (None, 32) if hex => Err(ChecksumError::Weak("an MD5")),
            (None, 40) if hex => Err(ChecksumError::Weak("a SHA-1")),
            (Some("sha256"), _) | (None, 64) => {
                let digest = bytes(digits).map(|bytes| Self::Sha256(Sha256(bytes)));
                digest.ok_or(ChecksumError::Digits("SHA-256", 64))
            }
            (Some("sha512"), _) | (None, 128) => bytes(digits)
                .map(Self::Sha512)
                .ok_or(ChecksumError::Digits("SHA-512", 128)),
            (Some(other), _) => Err(ChecksumError::Algorithm(other.chars().take(20).collect())),
            (None, _) => Err(ChecksumError::Nothing),
        }
    }

    /// `sha256`, `sha512`.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Self::Sha256(_) => "sha256",
            Self::Sha512(_) => "sha512",
        }
    }

    /// The digest in lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        let bytes: &[u8] = match self {
            Self::Sha256(Sha256(bytes)) => bytes,
            Self::Sha512(bytes) => bytes,
        };
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Finds the checksum of `name` in a checksum file: lines of `sha256sum` and `sha512sum` (`DIGEST  NAME`, `DIGEST *NAME`),
    /// of BSD (`SHA256 (NAME) = DIGEST`), or nothing but one digest. With several for the name, the strongest.
    pub(crate) fn find(text: &str, name: &str) -> Result<Self, &'static str> {
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        if let [alone] = lines[..]
            && !alone.contains(char::is_whitespace)
        {
            return Self::parse(alone, None).map_err(|error| match error {
                ChecksumError::Weak(_) => "it holds an MD5 or a SHA-1, which can be forged",
                _ => "its only line is no digest",
            });
        }
        let mut found = None;
        let mut weak = false;
        for line in lines.into_iter().filter(|line| line.len() <= LINE_CAP) {
            match bsd(line, name).or_else(|| gnu(line, name)) {
                Some(Ok(checksum @ Self::Sha512(_))) => return Ok(checksum),
                Some(Ok(checksum)) => found = found.or(Some(checksum)),
                Some(Err(ChecksumError::Weak(_))) => weak = true,
                Some(Err(_)) | None => {}
            }
        }
        found.ok_or(if weak {
            "it has only an MD5 or a SHA-1 of the file, which can be forged"
        } else {
            "it has no SHA-256 or SHA-512 of a file of that name"
        })
    }
}

/// `DIGEST  NAME`; a star marks binary mode. Some lists have the digest last.
fn gnu(line: &str, name: &str) -> Option<Result<Checksum, ChecksumError>> {
    let is_named = |rest: &str| {
        let rest = rest.trim();
        let rest = rest.strip_prefix('*').unwrap_or(rest);
        rest.strip_prefix("./").unwrap_or(rest) == name
    };
    let first = line.split_once(char::is_whitespace).filter(|(_, rest)| is_named(rest));
    let last = line.rsplit_once(char::is_whitespace).filter(|(rest, _)| is_named(rest));
    let digits = first.map(|(digits, _)| digits).or(last.map(|(_, digits)| digits))?;
    Some(Checksum::parse(digits, None))
}

/// `SHA256 (NAME) = DIGEST`.
fn bsd(line: &str, name: &str) -> Option<Result<Checksum, ChecksumError>> {
    let (algorithm, rest) = line.split_once(" (")?;
    let (file, digits) = rest.rsplit_once(") = ")?;
    (file == name).then(|| Checksum::parse(digits.trim(), Some(algorithm)))
}

fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let (high, low) = (char::from(pair[0]).to_digit(16)?, char::from(pair[1]).to_digit(16)?);
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    Some(bytes)
}

impl From<Sha256> for Checksum {
    fn from(sha256: Sha256) -> Self {
        Self::Sha256(sha256)
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.algorithm(), self.hex())
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checksum({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn digits(letter: &str, count: usize) -> String {
        letter.repeat(count)
    }

    #[test]
    fn a_digest_is_known_by_its_algorithm_or_its_length() {
        let (short, long) = (digits("aB", 32), digits("Cd", 64));
        for (text, algorithm, shown) in [
            (short.clone(), None, "sha256"),
            (short.clone(), Some("sha256"), "sha256"),
            (format!("sha256:{short}"), None, "sha256"),
            (format!(" SHA-512:{long}\n"), None, "sha512"),
            (long.clone(), Some("SHA512"), "sha512"),
        ] {
            let GivenChecksum::Known(found) = GivenChecksum::parse(&text, algorithm).unwrap() else {
                panic!("{text} is a digest");
            };
            assert_eq!(found.algorithm(), shown);
            assert!(text.to_lowercase().contains(&found.hex()));
        }
        let url = "https://h/SHA256SUMS";
        assert_eq!(
            GivenChecksum::parse(url, Some("sha256")),
            Ok(GivenChecksum::File(url.into()))
        );
    }

    #[test]
    fn what_can_be_forged_or_is_none_is_refused_with_the_reason() {
        let (md5, sha1, sha256) = (digits("a", 32), digits("a", 40), digits("a", 64));
        for (text, algorithm, wanted) in [
            (md5.as_str(), None, "an MD5"),
            (sha256.as_str(), Some("md5"), "an MD5"),
            (sha1.as_str(), None, "a SHA-1"),
            (&sha256[1..], None, "neither"),
            (&sha256[1..], Some("sha256"), "64 hexadecimal"),
            (sha256.as_str(), Some("sha512"), "128 hexadecimal"),
            (sha256.as_str(), Some("crc32"), "crc32"),
            ("", None, "neither"),
            ("sha256:", None, "64"),
            ("file:///sums", None, "file"),
        ] {
            let error = GivenChecksum::parse(text, algorithm).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn every_form_of_a_checksum_file_is_read() {
        let (right, wrong, long) = (digits("a", 64), digits("b", 64), digits("c", 128));
        let alone = Checksum::parse(&right, None).unwrap();
        let strong = Checksum::parse(&long, None).unwrap();
        for (text, want) in [
            (format!("{wrong}  b.raw\n{right}  a.raw\n"), alone),
            (format!("{wrong} *xa.raw\n{right} *a.raw"), alone),
            (format!("{right}\ta.raw"), alone),
            (format!("{right}  ./a.raw\r\n"), alone),
            (format!("a.raw {right}"), alone),
            (
                format!("# made by hand\n\nSHA256 (b.raw) = {wrong}\nSHA256 (a.raw) = {right}\n"),
                alone,
            ),
            (format!("SHA256 (a.raw) = {right}\nSHA512 (a.raw) = {long}"), strong),
            (
                format!("MD5 (a.raw) = {}\nSHA256 (a.raw) = {right}", digits("d", 32)),
                alone,
            ),
            (
                format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{right}  a.raw\n-----BEGIN"),
                alone,
            ),
            (format!("{right}\n"), alone),
        ] {
            assert_eq!(Checksum::find(&text, "a.raw"), Ok(want), "{text}");
        }
        let spaced = format!("{right}  my image.raw");
        assert_eq!(Checksum::find(&spaced, "my image.raw"), Ok(alone));
        for text in [
            String::new(),
            format!("{wrong}  b.raw\n{wrong}  ba.raw"),
            format!("{}  a.raw", digits("a", 32)),
            digits("a", 32),
            "<html>not found</html>".to_owned(),
        ] {
            assert!(Checksum::find(&text, "a.raw").is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in ".{0,400}", name in ".{0,20}") {
            let _ = Checksum::find(&text, &name);
            let _ = GivenChecksum::parse(&text, Some(&name));
        }
    }
}
