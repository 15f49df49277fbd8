//! Content hashes (FIPS 180-4 SHA-256) and the identity of a layout.

use std::fmt;
use std::str::FromStr;

/// A SHA-256 of some content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sha256(pub [u8; 32]);

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

/// The text was not 64 hexadecimal digits (with or without a leading `sha256:`).
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a SHA-256 is 64 hexadecimal digits, optionally after `sha256:`")]
pub struct ParseDigestError;

impl FromStr for Sha256 {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        let mut bytes = [0; 32];
        if hex.len() != 64 {
            return Err(ParseDigestError);
        }
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

fn nibble(digit: u8) -> Result<u8, ParseDigestError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(ParseDigestError),
    }
}

/// Identity of a layout or a component; prints as `sha256:<hex>`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub Sha256);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_prints_what_it_parses() {
        let text = format!("sha256:{}", "0aF1".repeat(16));
        let digest: Digest = text.parse().unwrap();
        assert_eq!(digest.to_string(), text.to_lowercase());
        assert_eq!("sha256:abc".parse::<Digest>(), Err(ParseDigestError));
        assert_eq!("é".repeat(32).parse::<Sha256>(), Err(ParseDigestError));
    }
}
