//! `[bmc]`: how BMCs are talked to where a node's `driver_info` says nothing.

use std::path::PathBuf;
use std::time::Duration;

use crate::entries::Out;
use crate::section::Section;

/// `[bmc]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bmc {
    /// Their port; `None` = that of https.
    pub port: Option<u16>,
    /// How long a request may take; `None` = as the BMC's dialogue has it.
    pub timeout: Option<Duration>,
    /// Which certificates are taken.
    pub trust: BmcTrust,
}

/// Which certificates of BMCs are taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BmcTrust {
    /// Those that the machine's authorities signed.
    System,
    /// Those that are in this PEM file, or that an authority in it signed.
    File(PathBuf),
    /// Any.
    Anything,
}

impl Bmc {
    pub(crate) fn take(mut section: Section<'_>) -> Self {
        let ca: Option<PathBuf> = section.value("ca");
        let verify: bool = section.value("verify").unwrap_or(true);
        if ca.is_some() && !verify {
            section.problem("ca", "has no use where verify = false; leave one of them out");
        }
        let bmc = Self {
            port: section
                .number("port", 1..=65_535)
                .and_then(|port| u16::try_from(port).ok()),
            timeout: section.number("timeout-s", 1..=3600).map(Duration::from_secs),
            trust: match ca {
                Some(file) => BmcTrust::File(file),
                None if verify => BmcTrust::System,
                None => BmcTrust::Anything,
            },
        };
        section.end();
        bmc
    }
}

impl Bmc {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self { port, timeout, trust } = self;
        let (ca, verify) = match trust {
            BmcTrust::System => (None, true),
            BmcTrust::File(file) => (Some(file), true),
            BmcTrust::Anything => (None, false),
        };
        out.put("port", *port);
        out.put("timeout-s", *timeout);
        out.put("verify", verify);
        out.put("ca", ca);
    }
}
