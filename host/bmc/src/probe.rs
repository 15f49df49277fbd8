//! Which protocols answer at an address, which of them is the best to go by, and what the BMC can do. Only answers count: no
//! model name is looked at.

use std::sync::Arc;

use model::{BootMode, Device, ServerIdentity};

use crate::gate::Gate;
use crate::redfish::RedfishBmc;
use crate::ribcl::RibclBmc;
use crate::trace::Form;
use crate::{Bmc, BmcConfig, BmcError, BootSettings, Protocols};

/// A protocol that a BMC may speak, in the order of preference.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Transport {
    /// Redfish at `/redfish/v1/`.
    Redfish,
    /// HPE's RIS at `/rest/v1`: iLO 4.
    Ris,
    /// RIBCL posted to `/ribcl`: iLO 3 to 5.
    Ribcl,
    /// RIBCL straight on TLS: iLO 2.
    RibclRaw,
}

impl Transport {
    /// All of them, best first.
    pub const ALL: [Self; 4] = [Self::Redfish, Self::Ris, Self::Ribcl, Self::RibclRaw];

    /// `redfish`, `ris`, `ribcl` or `ribcl-raw`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Redfish => "redfish",
            Self::Ris => "ris",
            Self::Ribcl => "ribcl",
            Self::RibclRaw => "ribcl-raw",
        }
    }

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.as_str() == name)
    }
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one protocol's question brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Presence {
    /// It is spoken.
    Spoken {
        /// Of the protocol, or of the firmware, where it tells.
        version: Option<String>,
        /// HPE's part of it: `Hpe` (iLO 5 and newer) or `Hp` (iLO 4).
        oem: Option<String>,
    },
    /// It is not, and why.
    Absent(String),
}

/// What one protocol's question brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Which protocol.
    pub transport: Transport,
    /// What came back.
    pub presence: Presence,
}

/// What a BMC is and can do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The protocol to go by.
    pub transport: Transport,
    /// Every protocol that was asked for, best first.
    pub findings: Vec<Finding>,
    /// Who it is, its licence included.
    pub identity: ServerIdentity,
    /// What it can do by that protocol.
    pub capabilities: Capabilities,
}

/// What a BMC can do. `Err`: why not, or why it could not be found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// It has a virtual CD.
    pub cdrom: Result<(), String>,
    /// It has a virtual floppy or USB stick.
    pub floppy: Result<(), String>,
    /// Media that boot once by themselves.
    pub boot_once: bool,
    /// It takes the certificate of an https image server.
    pub server_certificate: bool,
    /// Its boot settings can be told.
    pub boot_settings: Result<BootSettings, String>,
    /// The mode of the next boot.
    pub boot_mode: Result<BootMode, String>,
    /// Whether secure boot is on.
    pub secure_boot: Result<bool, String>,
}

/// Asks for every protocol, then asks the best one what it can do. Nothing is changed.
pub async fn probe(config: &BmcConfig) -> Result<Probe, BmcError> {
    let gate = Arc::new(Gate::new(config.address.clone()));
    let mut findings = Vec::new();
    let mut failure = None;
    for transport in Transport::ALL {
        if transport == Transport::RibclRaw && !may_be_raw(config, &findings) {
            continue;
        }
        match ask(transport, config, &gate).await {
            Ok(presence) => findings.push(Finding { transport, presence }),
            // Beside a protocol that is spoken, what is wrong with another one is for information.
            Err(error) if ends_it(&error) && !is_spoken(&findings) => return Err(failure.unwrap_or(error)),
            Err(error) => {
                let presence = Presence::Absent(error.to_string());
                findings.push(Finding { transport, presence });
                failure.get_or_insert(error);
            }
        }
    }
    let spoken = findings
        .iter()
        .find(|found| matches!(found.presence, Presence::Spoken { .. }));
    let Some(Finding { transport, presence }) = spoken.cloned() else {
        return Err(failure.unwrap_or_else(|| nothing(config, &findings)));
    };
    let client = Client::new(transport, config, &gate)?;
    let identity = client.bmc.identity().await?;
    let capabilities = capabilities(&client, transport, &presence).await?;
    client.bmc.close().await;
    Ok(Probe {
        transport,
        findings,
        identity,
        capabilities,
    })
}

/// The first protocol that answers, best first.
pub(crate) async fn find(config: &BmcConfig, gate: &Arc<Gate>) -> Result<Transport, BmcError> {
    let mut findings = Vec::new();
    let mut failure = None;
    for transport in Transport::ALL {
        if transport == Transport::RibclRaw && !may_be_raw(config, &findings) {
            continue;
        }
        match ask(transport, config, gate).await {
            Ok(Presence::Spoken { .. }) => {
                tracing::debug!(bmc = %config.address, %transport, "found out what it speaks");
                return Ok(transport);
            }
            Ok(presence) => findings.push(Finding { transport, presence }),
            Err(error) if ends_it(&error) => return Err(failure.unwrap_or(error)),
            Err(error) => drop(failure.get_or_insert(error)),
        }
    }
    Err(failure.unwrap_or_else(|| nothing(config, &findings)))
}

/// The raw form is for what speaks no HTTP, and for TLS that is as old.
fn may_be_raw(config: &BmcConfig, findings: &[Finding]) -> bool {
    config.protocols == Protocols::Legacy && config.address.0.starts_with("https:") && !is_spoken(findings)
}

fn is_spoken(findings: &[Finding]) -> bool {
    let mut findings = findings.iter();
    findings.any(|found| matches!(found.presence, Presence::Spoken { .. }))
}

/// Errors that another protocol would run into as well; a service that is only just starting, since the next best would be
/// taken for the best; and wrong credentials, which count towards a lock-out.
fn ends_it(error: &BmcError) -> bool {
    !matches!(
        error,
        BmcError::Unsupported { .. } | BmcError::Protocol { .. } | BmcError::Refused { .. }
    )
}

fn nothing(config: &BmcConfig, findings: &[Finding]) -> BmcError {
    let mut asked: Vec<String> = findings
        .iter()
        .map(|found| match &found.presence {
            Presence::Absent(why) => format!("{}: {why}", found.transport),
            Presence::Spoken { .. } => found.transport.to_string(),
        })
        .collect();
    if config.protocols == Protocols::Modern {
        asked.push("iLO 2 and its raw form were not asked for, since legacy TLS is not allowed".to_owned());
    }
    BmcError::Unsupported {
        address: config.address.clone(),
        action: "say what it speaks",
        reason: asked.join("; "),
    }
}

async fn ask(transport: Transport, config: &BmcConfig, gate: &Arc<Gate>) -> Result<Presence, BmcError> {
    let gate = Arc::clone(gate);
    match transport {
        Transport::Redfish => RedfishBmc::behind(gate, config.clone())?.presence().await,
        Transport::Ris => RedfishBmc::ris_behind(gate, config.clone())?.presence().await,
        Transport::Ribcl => RibclBmc::behind(gate, config.clone(), Form::Http)?.presence().await,
        Transport::RibclRaw => RibclBmc::behind(gate, config.clone(), Form::Raw)?.presence().await,
    }
}

/// A client of one transport.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) transport: Transport,
    pub(crate) bmc: Arc<dyn Bmc>,
    /// The same, where it may hold a session.
    pub(crate) redfish: Option<Arc<RedfishBmc>>,
}

impl Client {
    pub(crate) fn new(transport: Transport, config: &BmcConfig, gate: &Arc<Gate>) -> Result<Self, BmcError> {
        let (gate, config) = (Arc::clone(gate), config.clone());
        let (bmc, redfish): (Arc<dyn Bmc>, _) = match transport {
            Transport::Redfish | Transport::Ris => {
                let bmc = Arc::new(match transport {
                    Transport::Ris => RedfishBmc::ris_behind(gate, config)?,
                    _ => RedfishBmc::behind(gate, config)?,
                });
                (Arc::clone(&bmc) as Arc<dyn Bmc>, Some(bmc))
            }
            Transport::Ribcl => (Arc::new(RibclBmc::behind(gate, config, Form::Http)?), None),
            Transport::RibclRaw => (Arc::new(RibclBmc::behind(gate, config, Form::Raw)?), None),
        };
        Ok(Self {
            transport,
            bmc,
            redfish,
        })
    }
}

async fn capabilities(client: &Client, transport: Transport, presence: &Presence) -> Result<Capabilities, BmcError> {
    let hpe = matches!(presence, Presence::Spoken { oem: Some(oem), .. } if oem == "Hpe" || oem == "Hp");
    let is_ribcl = matches!(transport, Transport::Ribcl | Transport::RibclRaw);
    let bmc = &client.bmc;
    Ok(Capabilities {
        cdrom: told(bmc.media(Device::Cdrom).await)?.map(drop),
        floppy: told(bmc.media(Device::Floppy).await)?.map(drop),
        boot_once: hpe || transport == Transport::Ris || is_ribcl,
        server_certificate: matches!(presence, Presence::Spoken { oem: Some(oem), .. } if oem == "Hpe"),
        boot_settings: told(bmc.boot_settings().await)?,
        boot_mode: told(bmc.boot_mode().await)?,
        secure_boot: told(bmc.secure_boot().await)?,
    })
}

/// A no is part of what is found out; silence is not.
fn told<T>(result: Result<T, BmcError>) -> Result<Result<T, String>, BmcError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error @ (BmcError::Unreachable { .. } | BmcError::Timeout { .. } | BmcError::Settings { .. })) => {
            Err(error)
        }
        Err(error) => Ok(Err(error.to_string())),
    }
}
