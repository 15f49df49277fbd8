//! The world of a shadow: what the call that it runs along with learned, and over that what it has written itself. Nothing
//! leaves it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use model::{ArtefactKind, BootMode, PowerAction, PowerState};
use sha2::Digest as _;

use super::recording::{Names, Recording, is_deed};
use crate::calls::{HostCall, ImageHandle, ImageInfo, LocationHandle, LocationInfo, Media, Renewal, Reply, Versioned};
use crate::world::{Location, Placement, Session};
use crate::{CallFailure, DriverError};

/// What a shadow's broker asks instead of the world.
pub(crate) struct Echo {
    recording: Arc<Recording>,
    used: Vec<bool>,
    /// Behind the last deed that both have done.
    position: usize,
    /// It has done nothing so far that the call has not.
    in_step: bool,
    names: Names,
    kinds: BTreeMap<LocationHandle, ArtefactKind>,
    images: BTreeMap<ImageHandle, ImageInfo>,
    next: u32,
    overlay: Overlay,
    deeds: Vec<(String, String)>,
}

/// What the shadow has written. `None` inside = it has taken away what was there.
#[derive(Default)]
struct Overlay {
    values: BTreeMap<String, Option<Versioned>>,
    slots: BTreeMap<&'static str, Media>,
    artefacts: BTreeMap<ArtefactKind, Option<LocationInfo>>,
    boot_mode: Option<BootMode>,
    secure_boot: Option<bool>,
    power: Option<PowerState>,
}

impl Echo {
    pub(crate) fn new(recording: Arc<Recording>) -> Self {
        let mut names = Names::default();
        for (handle, info) in &recording.given {
            names.location(*handle, info);
        }
        Self {
            used: vec![false; recording.exchanges.len()],
            position: 0,
            in_step: true,
            names,
            kinds: BTreeMap::new(),
            images: BTreeMap::new(),
            // Above every handle that came with the call.
            next: recording.given.keys().map(|handle| handle.0).max().unwrap_or(0),
            overlay: Overlay::default(),
            deeds: Vec::new(),
            recording,
        }
    }

    /// What it would have done: a text to compare, and one for people.
    pub(crate) fn deeds(&self) -> &[(String, String)] {
        &self.deeds
    }

    /// Answers a call. The failure is for what neither the recording nor the shadow's own writes tell.
    pub(crate) fn answer(&mut self, call: &HostCall) -> Result<Result<Reply, DriverError>, CallFailure> {
        let key = self.names.key(call);
        if is_deed(call) {
            self.deeds.push((key.clone(), self.names.words(call)));
        }
        // While both have done the same, what the call saw after that is what is there; else the shadow's own writes tell.
        let reply = match self.in_step_with(&key).or_else(|| self.written(call).map(Ok)) {
            Some(reply) => reply,
            None => match self.recorded(call, &key) {
                Some(reply) => reply,
                None => self.imagined(call, &key)?,
            },
        };
        let reply = reply.map(|reply| self.renumbered(reply));
        if reply.is_ok() {
            self.write(call, reply.as_ref().ok());
        }
        Ok(reply)
    }

    /// What the shadow itself has written before.
    fn written(&self, call: &HostCall) -> Option<Reply> {
        let overlay = &self.overlay;
        match call {
            HostCall::StateGet { key } => overlay.values.get(key).map(|value| Reply::Value(value.clone())),
            HostCall::MediaState { device } => overlay
                .slots
                .get(device.as_str())
                .map(|media| Reply::Media(media.clone())),
            HostCall::Find { kind } => overlay
                .artefacts
                .get(kind)
                .map(|info| Reply::MaybeLocation(info.clone().map(|info| (LocationHandle(0), info)))),
            HostCall::BootModeOf => overlay.boot_mode.map(Reply::BootMode),
            HostCall::SecureBootOf => overlay.secure_boot.map(Reply::Flag),
            HostCall::PowerStateOf => overlay.power.map(Reply::Power),
            _ => None,
        }
    }

    /// What the call was answered next to the same, if both have done the same so far.
    fn in_step_with(&mut self, key: &str) -> Option<Result<Reply, DriverError>> {
        if !self.in_step {
            return None;
        }
        let exchanges = self.recording.exchanges.iter().enumerate().skip(self.position);
        let (at, exchange) = { exchanges }.find(|(at, exchange)| !self.used[*at] && exchange.key == key)?;
        self.used[at] = true;
        if is_deed(&exchange.call) {
            self.position = at + 1;
        }
        Some(exchange.reply.clone())
    }

    /// What the call learned from the same question, whenever it did.
    fn recorded(&mut self, call: &HostCall, key: &str) -> Option<Result<Reply, DriverError>> {
        let exchanges = self.recording.exchanges.iter().enumerate();
        let found: Vec<usize> = exchanges
            .filter(|(_, exchange)| exchange.key == key)
            .map(|(at, _)| at)
            .collect();
        let fresh = found.iter().copied().find(|at| !self.used[*at]);
        let at = match fresh {
            Some(at) => at,
            // Done once by the call, and twice by the shadow.
            None if is_deed(call) => return None,
            None => *found.last()?,
        };
        self.used[at] = true;
        Some(self.recording.exchanges[at].reply.clone())
    }

    /// What a deed would have been answered that the call never did: that it is done.
    fn imagined(&mut self, call: &HostCall, key: &str) -> Result<Result<Reply, DriverError>, CallFailure> {
        let diverged = || Err(CallFailure::Diverged(call.name().to_owned()));
        self.in_step &= !is_deed(call);
        let image = |kind| {
            let digest = format!("shadow:{}", hex(&sha2::Sha256::digest(key)));
            Ok(Ok(Reply::Image(ImageHandle(0), ImageInfo { kind, digest, size: 0 })))
        };
        match call {
            HostCall::StatePut { key, expect, .. } => {
                let seen = match self.seen(key) {
                    Some(seen) => seen,
                    None => return diverged(),
                };
                match seen == *expect {
                    true => Ok(Ok(Reply::Number(seen.unwrap_or(0) + 1))),
                    false => Ok(Err(DriverError::Conflict("the value has another version".to_owned()))),
                }
            }
            HostCall::BuildFloppy { .. } => image(ArtefactKind::Floppy),
            HostCall::BuildBootIso { .. } => image(ArtefactKind::BootIso),
            HostCall::Publish { image, .. } => {
                let info = self.images.get(image).cloned();
                let kind = info.as_ref().map_or("", |info| info.kind.as_str());
                let info = LocationInfo {
                    backend: "shadow".to_owned(),
                    display: format!("shadow:{kind}"),
                    digest: info.as_ref().map(|info| info.digest.clone()),
                    expires_ms: None,
                };
                Ok(Ok(Reply::Location(LocationHandle(0), info)))
            }
            HostCall::External { url } => {
                let info = LocationInfo {
                    backend: "external".to_owned(),
                    display: format!("shadow:{}", hex(&sha2::Sha256::digest(url))),
                    digest: None,
                    expires_ms: None,
                };
                Ok(Ok(Reply::Location(LocationHandle(0), info)))
            }
            HostCall::Renew { .. } => Ok(Ok(Reply::Renewal(Renewal::Extended))),
            // What the BMC would have said is what a vendor's method goes on with.
            HostCall::Redfish { .. } | HostCall::Ribcl { .. } => diverged(),
            call if is_deed(call) => Ok(Ok(Reply::Done)),
            _ => diverged(),
        }
    }

    /// The version of a value, if anybody has read or written it. The inner `None`: there is no value.
    fn seen(&self, key: &str) -> Option<Option<u64>> {
        if let Some(value) = self.overlay.values.get(key) {
            return Some(value.as_ref().map(|value| value.version));
        }
        let exchanges = self.recording.exchanges.iter();
        exchanges
            .rev()
            .find_map(|exchange| match (&exchange.call, &exchange.reply) {
                (HostCall::StateGet { key: own }, Ok(Reply::Value(value))) if own == key => {
                    Some(value.as_ref().map(|value| value.version))
                }
                _ => None,
            })
    }

    /// Handles are the shadow's own.
    fn renumbered(&mut self, reply: Reply) -> Reply {
        let reply = match reply {
            Reply::Image(_, info) => {
                self.next += 1;
                let handle = ImageHandle(self.next);
                self.images.insert(handle, info.clone());
                Reply::Image(handle, info)
            }
            Reply::Location(_, info) => {
                self.next += 1;
                Reply::Location(LocationHandle(self.next), info)
            }
            Reply::MaybeLocation(Some((_, info))) => {
                self.next += 1;
                Reply::MaybeLocation(Some((LocationHandle(self.next), info)))
            }
            other => other,
        };
        self.names.learn(&reply);
        reply
    }

    /// Notes what a deed has changed.
    fn write(&mut self, call: &HostCall, reply: Option<&Reply>) {
        let overlay = &mut self.overlay;
        match (call, reply) {
            (HostCall::StatePut { key, value, .. }, Some(Reply::Number(version))) => {
                let value = Versioned {
                    version: *version,
                    value: value.clone(),
                };
                overlay.values.insert(key.clone(), Some(value));
            }
            (HostCall::StateDelete { key }, _) => {
                overlay.values.insert(key.clone(), None);
            }
            (HostCall::Publish { image, .. }, Some(Reply::Location(handle, info))) => {
                if let Some(image) = self.images.get(image) {
                    overlay.artefacts.insert(image.kind, Some(info.clone()));
                    self.kinds.insert(*handle, image.kind);
                }
            }
            (HostCall::Find { kind }, Some(Reply::MaybeLocation(Some((handle, _))))) => {
                self.kinds.insert(*handle, *kind);
            }
            (HostCall::Withdraw { kind }, _) => {
                overlay.artefacts.insert(*kind, None);
            }
            (HostCall::Insert { device, location, .. }, _) => {
                let media = Media {
                    inserted: true,
                    connected: true,
                    write_protected: true,
                    artefact: self.kinds.get(location).copied(),
                    url: None,
                };
                overlay.slots.insert(device.as_str(), media);
            }
            (HostCall::Eject { device }, _) => {
                overlay.slots.insert(device.as_str(), Media::default());
            }
            (HostCall::SetBootMode { mode }, _) => overlay.boot_mode = Some(*mode),
            (HostCall::SetSecureBoot { enabled }, _) => overlay.secure_boot = Some(*enabled),
            (HostCall::SetPower { action, .. }, _) => {
                overlay.power = Some(match action {
                    PowerAction::Off | PowerAction::SoftOff => PowerState::Off,
                    PowerAction::On | PowerAction::ForceRestart | PowerAction::SoftRestart => PowerState::On,
                });
            }
            _ => {}
        }
    }
}

/// The session of a shadow: a clock that nobody waits for. All else is answered by [`Echo`].
pub(crate) struct EchoSession {
    began: SystemTime,
    slept: Mutex<Duration>,
}

impl EchoSession {
    pub(crate) fn new(began: SystemTime) -> Self {
        Self {
            began,
            slept: Mutex::default(),
        }
    }
}

fn out_of_reach() -> DriverError {
    DriverError::other("host-error", "a shadow reached for the world: report this")
}

#[async_trait]
impl Session for EchoSession {
    fn now(&self) -> SystemTime {
        self.began + *self.slept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sleep(&self, time: Duration) {
        let mut slept = self.slept.lock().unwrap_or_else(PoisonError::into_inner);
        *slept = slept.saturating_add(time).min(Duration::from_secs(86_400));
    }

    async fn perform(&self, _: &HostCall) -> Result<Reply, DriverError> {
        Err(out_of_reach())
    }

    async fn place(&self, _: ImageHandle, _: u32) -> Result<Placement, DriverError> {
        Err(out_of_reach())
    }

    async fn begin(&self, _: &str, _: &str) -> Result<u64, DriverError> {
        Err(out_of_reach())
    }

    async fn end(&self, _: u64, _: Result<(), String>) {}

    fn lend(&self, _: LocationHandle) -> Option<Location> {
        None
    }

    fn accept(&self, location: Location) -> (LocationHandle, LocationInfo) {
        let info = LocationInfo {
            backend: location.backend.unwrap_or_default(),
            display: String::new(),
            digest: None,
            expires_ms: None,
        };
        (LocationHandle(0), info)
    }

    fn drop_image(&self, _: ImageHandle) {}

    fn drop_location(&self, _: LocationHandle) {}
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
