//! Where the files lie under the HTTP root: a closed set of names, so that no request and no record can name another.

use std::fmt;
use std::str::FromStr;

use model::{MacAddress, NodeId, ParseIdError};

/// The entry script.
const ENTRY: &str = "boot.ipxe";
/// The folder of scripts by network card.
const CARDS: &str = "pxelinux.cfg";

/// One file that iPXE fetches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum NetbootPath {
    /// `boot.ipxe`: the script that DHCP names.
    Entry,
    /// `pxelinux.cfg/52-54-00-12-34-56`: the script of the server that has this card.
    Card(MacAddress),
    /// `UUID/…`: a file of one node.
    Node(NodeId, NodeFile),
}

/// A file of one node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum NodeFile {
    /// Its script.
    Config,
    /// Kernel of the deploy or clean ramdisk.
    DeployKernel,
    /// The deploy or clean ramdisk.
    DeployRamdisk,
    /// Kernel of its instance.
    Kernel,
    /// Ramdisk of its instance.
    Ramdisk,
}

impl NodeFile {
    /// Every file.
    pub const ALL: [Self; 5] = [
        Self::Config,
        Self::DeployKernel,
        Self::DeployRamdisk,
        Self::Kernel,
        Self::Ramdisk,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::DeployKernel => "deploy_kernel",
            Self::DeployRamdisk => "deploy_ramdisk",
            Self::Kernel => "kernel",
            Self::Ramdisk => "ramdisk",
        }
    }
}

impl fmt::Display for NetbootPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry => f.write_str(ENTRY),
            Self::Card(mac) => write!(f, "{CARDS}/{}", mac.to_string().replace(':', "-")),
            Self::Node(node, file) => write!(f, "{node}/{}", file.as_str()),
        }
    }
}

impl FromStr for NetbootPath {
    type Err = ParseIdError;

    /// Takes exactly what `Display` writes: one file has one name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || ParseIdError {
            kind: "file that servers boot over the network",
            text: text.chars().take(80).collect(),
            rule: "boot.ipxe, pxelinux.cfg/MAC with dashes, or UUID/FILE",
        };
        let path = match text.split_once('/') {
            None if text == ENTRY => Self::Entry,
            None => return Err(unknown()),
            Some((CARDS, mac)) => Self::Card(mac.parse().map_err(|_| unknown())?),
            Some((node, name)) => {
                let file = NodeFile::ALL.into_iter().find(|file| file.as_str() == name);
                Self::Node(node.parse().map_err(|_| unknown())?, file.ok_or_else(unknown)?)
            }
        };
        (path.to_string() == text).then_some(path).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123";

    #[test]
    fn each_file_has_one_name_and_nothing_else_has_any() {
        let node: NodeId = NODE.parse().unwrap();
        let mut paths = vec![
            NetbootPath::Entry,
            NetbootPath::Card("52:54:00:AB:cd:01".parse().unwrap()),
        ];
        paths.extend(NodeFile::ALL.map(|file| NetbootPath::Node(node, file)));
        for path in paths {
            assert_eq!(path.to_string().parse(), Ok(path));
        }
        assert_eq!(
            "pxelinux.cfg/52-54-00-ab-cd-01".parse(),
            Ok(NetbootPath::Card("52:54:00:ab:cd:01".parse().unwrap()))
        );
        for bad in [
            "",
            "/",
            "boot.ipxe/",
            "/boot.ipxe",
            "pxelinux.cfg",
            "pxelinux.cfg/",
            "pxelinux.cfg/52:54:00:ab:cd:01",
            "pxelinux.cfg/52-54-00-AB-CD-01",
            "pxelinux.cfg/01-52-54-00-ab-cd-01",
            "pxelinux.cfg/default",
            "pxelinux.cfg/../boot.ipxe",
            &format!("{NODE}/"),
            &format!("{NODE}/secret"),
            &format!("{NODE}/../config"),
            &format!("{}/config", NODE.to_uppercase()),
            &format!("{}/config", NODE.replace('-', "")),
        ] {
            let parsed = bad.parse::<NetbootPath>();
            assert!(parsed.is_err(), "{bad}: {parsed:?}");
        }
    }
}
