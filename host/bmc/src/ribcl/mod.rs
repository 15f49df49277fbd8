//! RIBCL, the XML dialogue of iLO 2 to iLO 5: each request is one command with the login in it, so there are no sessions to
//! lose. The element tables are data (`commands`), answers are read by a scanner that forgives what firmwares get wrong.
//!
//! It has no means to tell or switch secure boot, and hands a BMC no certificate.

use std::sync::Arc;

use async_trait::async_trait;
use model::{BmcAddress, BootDevice, BootMode, Device, Media, PowerAction, PowerState, Secret, ServerIdentity};

use crate::gate::Gate;
use crate::probe::Presence;
use crate::trace::Form;
use crate::{
    Bmc, BmcConfig, BmcError, BootSettings, Deadlines, Fence, InsertMedia, RawReply, access, image_url, names,
};

mod answer;
mod boot;
mod commands;
mod identity;
mod media;
mod power;
mod scan;
mod status;
mod talk;
mod wire;
mod write;

use talk::Talk;
use wire::Wire;

/// Reads a text as an answer, whole and cut anywhere in its last part, and holds what is made of it to its bounds.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn exercise(text: &str) {
    let Ok(read) = answer::Answer::read(text) else { return };
    let xml = read.to_xml();
    // Each byte becomes at most an entity, and names of open tags stand twice.
    assert!(
        xml.len() <= 16 * text.len() + 64,
        "{} bytes of {}",
        xml.len(),
        text.len()
    );
    let again = answer::Answer::read(&xml).map(|again| again.to_xml());
    if let Ok(again) = again {
        assert_eq!(again, xml, "what was written is not what is read");
    }
    let cuts = text.char_indices().rev().map(|(at, _)| at).take(16);
    for cut in cuts {
        let _ = answer::whole(&text[..cut]);
    }
}

/// Names of the commands that are known, and whether each changes something.
pub fn commands() -> impl Iterator<Item = (&'static str, bool)> {
    commands::COMMANDS.iter().map(|command| (command.name, command.writes))
}

/// Whether a command takes `DEVICE` and nothing else, as the reading ones do that take anything.
pub fn takes_device(command: &str) -> bool {
    let parameters = commands::find(command).map(|command| command.parameters);
    parameters.is_some_and(|parameters| parameters.len() == 1 && parameters[0].name == "DEVICE")
}

/// The tags of a text that is nearly XML, with their attributes.
pub(crate) fn tags(text: &str) -> impl Iterator<Item = (String, Vec<(String, String)>)> {
    scan::Scanner::new(text).filter_map(|token| match token {
        scan::Token::Open { name, attributes, .. } => Some((name, attributes)),
        _ => None,
    })
}

/// A BMC that speaks RIBCL.
pub struct RibclBmc {
    address: BmcAddress,
    wire: Wire,
    user: String,
    password: Secret,
    deadlines: Deadlines,
    fence: Arc<dyn Fence>,
    gate: Arc<Gate>,
}

impl RibclBmc {
    /// Checks the settings and reads the CA. Nothing is sent yet. [`Form::Raw`] is iLO 2's, and needs legacy TLS.
    pub fn new(config: BmcConfig, form: Form) -> Result<Self, BmcError> {
        let gate = Arc::new(Gate::new(config.address.clone()));
        Self::behind(gate, config, form)
    }

    /// The same, taking turns with other clients of the same BMC.
    pub(crate) fn behind(gate: Arc<Gate>, config: BmcConfig, form: Form) -> Result<Self, BmcError> {
        let origin = access::origin(&config.address)?;
        let wire = Wire::new(&config, &origin, form).map_err(|reason| BmcError::Settings {
            address: config.address.clone(),
            reason,
        })?;
        Ok(Self {
            address: config.address,
            wire,
            user: config.user,
            password: config.password,
            deadlines: config.deadlines,
            fence: config.fence,
            gate,
        })
    }

    /// Whether RIBCL is spoken at all; asked with the login, for there is no question without one.
    pub(crate) async fn presence(&self) -> Result<Presence, BmcError> {
        let answer = self.verb(names::PRESENCE, vec![], |mut talk| async move { talk.version().await });
        match answer.await {
            Ok(version) => Ok(Presence::Spoken { version, oem: None }),
            Err(BmcError::Unsupported { reason, .. } | BmcError::Protocol { reason, .. }) => {
                Ok(Presence::Absent(reason))
            }
            Err(error) => Err(error),
        }
    }

    /// Runs a verb in its turn and within its deadline. `hide` holds texts that no error may repeat.
    async fn verb<'a, T, W>(
        &'a self,
        action: &'static str,
        mut hide: Vec<String>,
        work: impl FnOnce(Talk<'a>) -> W,
    ) -> Result<T, BmcError>
    where
        W: Future<Output = Result<T, BmcError>>,
    {
        hide.push(self.password.expose().to_owned());
        self.gate
            .run(action, &self.deadlines, |until| {
                work(Talk {
                    bmc: self,
                    action,
                    until,
                    hide,
                })
            })
            .await
    }
}

impl std::fmt::Debug for RibclBmc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RibclBmc")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Bmc for RibclBmc {
    async fn identity(&self) -> Result<ServerIdentity, BmcError> {
        self.verb(names::IDENTITY, vec![], |mut talk| async move { talk.identity().await })
            .await
    }

    async fn power_state(&self) -> Result<PowerState, BmcError> {
        self.verb(names::POWER_STATE, vec![], |mut talk| async move {
            talk.power_state().await
        })
        .await
    }

    async fn set_power(&self, action: PowerAction) -> Result<(), BmcError> {
        self.verb(names::set_power(action), vec![], |mut talk| async move {
            talk.set_power(action).await
        })
        .await
    }

    async fn media(&self, device: Device) -> Result<Media, BmcError> {
        self.verb(names::media(device), vec![], |mut talk| async move {
            talk.media(device).await
        })
        .await
    }

    async fn insert_media(&self, device: Device, image: &InsertMedia) -> Result<(), BmcError> {
        self.verb(
            names::insert(device),
            image_url::secrets(image),
            |mut talk| async move { talk.insert(device, image).await },
        )
        .await
    }

    async fn eject_media(&self, device: Device) -> Result<(), BmcError> {
        self.verb(names::eject(device), vec![], |mut talk| async move {
            talk.eject(device).await
        })
        .await
    }

    async fn set_boot_device(&self, device: BootDevice, persistent: bool) -> Result<(), BmcError> {
        self.verb(names::SET_BOOT_DEVICE, vec![], |mut talk| async move {
            talk.set_boot_device(device, persistent).await
        })
        .await
    }

    async fn boot_settings(&self) -> Result<BootSettings, BmcError> {
        self.verb(names::BOOT_SETTINGS, vec![], |mut talk| async move {
            talk.boot_settings().await
        })
        .await
    }

    async fn boot_mode(&self) -> Result<BootMode, BmcError> {
        self.verb(
            names::BOOT_MODE,
            vec![],
            |mut talk| async move { talk.boot_mode().await },
        )
        .await
    }

    async fn set_boot_mode(&self, mode: BootMode) -> Result<(), BmcError> {
        self.verb(names::SET_BOOT_MODE, vec![], |mut talk| async move {
            talk.set_boot_mode(mode).await
        })
        .await
    }

    async fn secure_boot(&self) -> Result<bool, BmcError> {
        self.verb(names::SECURE_BOOT, vec![], |talk| async move {
            Err(talk.unsupported("RIBCL has no command for secure boot"))
        })
        .await
    }

    async fn set_secure_boot(&self, _: bool) -> Result<(), BmcError> {
        self.verb(names::SET_SECURE_BOOT, vec![], |talk| async move {
            Err(talk.unsupported("RIBCL has no command for secure boot"))
        })
        .await
    }

    async fn raw_redfish(&self, _: &str, _: &str, _: Option<&str>) -> Result<RawReply, BmcError> {
        self.verb(names::RAW, vec![], |talk| async move {
            Err(talk.unsupported("it is spoken to by RIBCL, which has no Redfish paths"))
        })
        .await
    }

    async fn raw_ribcl(&self, command: &str, arguments: &[(String, String)]) -> Result<String, BmcError> {
        self.verb(names::RAW, vec![], |mut talk| async move {
            talk.raw(command, arguments).await
        })
        .await
    }

    async fn close(&self) {}
}
