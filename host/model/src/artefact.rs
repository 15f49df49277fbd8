//! What Farrier makes for one node and publishes.

use std::fmt;

/// What an artefact is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ArtefactKind {
    /// Parameters floppy.
    Floppy,
    /// Boot ISO.
    BootIso,
    /// Config drive.
    ConfigDrive,
    /// Everything that a server boots over the network.
    Netboot,
    /// The image for the node's disk, where a conductor serves it to the ramdisk.
    InstanceImage,
}

impl ArtefactKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Floppy,
        Self::BootIso,
        Self::ConfigDrive,
        Self::Netboot,
        Self::InstanceImage,
    ];

    /// `floppy`, `boot-iso`, `config-drive`, `netboot`, `instance-image`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Floppy => "floppy",
            Self::BootIso => "boot-iso",
            Self::ConfigDrive => "config-drive",
            Self::Netboot => "netboot",
            Self::InstanceImage => "instance-image",
        }
    }

    /// The ending that BMCs want to see in a URL.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Floppy | Self::Netboot | Self::InstanceImage => "img",
            Self::BootIso | Self::ConfigDrive => "iso",
        }
    }

    /// The device that it is inserted into, if it is a medium.
    pub fn device(self) -> Option<crate::Device> {
        match self {
            Self::Floppy => Some(crate::Device::Floppy),
            Self::BootIso | Self::ConfigDrive => Some(crate::Device::Cdrom),
            Self::Netboot | Self::InstanceImage => None,
        }
    }
}

impl fmt::Display for ArtefactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Last part of an artefact's URL: at least 128 random bits in `[a-z0-9]`, a dot and the ending (`….iso`, `….img`).
///
/// Whoever knows it may read the artefact, so `Debug` and `Display` show only its ending.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ArtefactName(String);

impl ArtefactName {
    /// Takes a name as it stands in a URL or a record; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (token, ending) = text.split_once('.')?;
        let legal = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        let ok = (25..=64).contains(&token.len()) && token.bytes().all(legal) && matches!(ending, "iso" | "img");
        ok.then(|| Self(text.to_owned()))
    }

    /// The whole name, for a URL or a record; never for a log.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ArtefactName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "***{}", &self.0[self.0.len() - 4..])
    }
}

impl fmt::Debug for ArtefactName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_checked_and_never_printed_whole() {
        let token = "a1".repeat(13);
        let name = ArtefactName::parse(&format!("{token}.iso")).unwrap();
        assert_eq!(name.to_string(), "***.iso");
        for bad in ["x.iso", "../../etc.iso", &format!("{token}.exe"), &token.to_uppercase()] {
            assert!(ArtefactName::parse(bad).is_none(), "{bad}");
        }
    }
}
