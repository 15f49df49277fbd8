//! Identifiers, parsed once at the edge.

use std::fmt;
use std::str::FromStr;

/// The text is not a valid identifier of the kind named.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` is not a {kind}: {rule}")]
pub struct ParseIdError {
    /// What was expected ("node name", "MAC address", …).
    pub kind: &'static str,
    /// What was given, cut to 80 characters.
    pub text: String,
    /// What a valid one looks like.
    pub rule: &'static str,
}

impl ParseIdError {
    pub(crate) fn new(kind: &'static str, text: &str, rule: &'static str) -> Self {
        let text = text.chars().take(80).collect();
        Self { kind, text, rule }
    }
}

/// UUID of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(uuid::Uuid);

impl NodeId {
    /// A fresh random identifier (UUID version 4).
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4())
    }

    /// The 16 bytes, for hashing.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl FromStr for NodeId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        uuid::Uuid::try_parse(text)
            .map(Self)
            .map_err(|_| ParseIdError::new("node UUID", text, "32 hexadecimal digits in 5 groups"))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({self})")
    }
}

/// Logical name of a node: 1–255 characters of `A–Z a–z 0–9 - . _ ~`, and not a UUID (as Ironic has it).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeName(String);

impl NodeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let legal = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        let ok = (1..=255).contains(&text.len()) && text.chars().all(legal) && uuid::Uuid::try_parse(text).is_err();
        if ok {
            Ok(Self(text.to_owned()))
        } else {
            let rule = "1 to 255 of A-Z a-z 0-9 - . _ ~, and not a UUID";
            Err(ParseIdError::new("node name", text, rule))
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An IEEE 802 MAC-48 address; prints in lower case with colons.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress([u8; 6]);

impl From<[u8; 6]> for MacAddress {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

impl FromStr for MacAddress {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseIdError::new("MAC address", text, "six pairs of hexadecimal digits");
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(error)?;
            if !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(error());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        parts.next().is_none().then_some(Self(bytes)).ok_or_else(error)
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_checked_at_the_edge() {
        assert!("rack-7.n1".parse::<NodeName>().is_ok());
        assert!("a/b".parse::<NodeName>().is_err());
        assert!("".parse::<NodeName>().is_err());
        assert!(NodeId::random().to_string().parse::<NodeName>().is_err());
        let mac: MacAddress = "AA-bb-00-11-22-33".parse().unwrap();
        assert_eq!(mac.to_string(), "aa:bb:00:11:22:33");
        for bad in ["", "aa:bb", "aa:bb:cc:dd:ee:+f", "aa:bb:cc:dd:ee:ff:00"] {
            assert!(bad.parse::<MacAddress>().is_err(), "{bad}");
        }
    }
}
