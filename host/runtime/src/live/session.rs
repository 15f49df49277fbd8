//! One call's dealings with the real world, and what its handles mean.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bmc::{Bmc, BmcError, InsertMedia};
use model::{ArtefactKind, Device, Secret};

use super::LiveWorld;
use super::images::Image;
use crate::calls::{HostCall, ImageHandle, LocationHandle, LocationInfo, Media, RawReply, Reply};
use crate::world::{CallContext, Location, Placement, Session};
use crate::{DriverError, LEASE_ENDING};

/// Headers of a raw reply that a plugin may see: none of them can hold a session.
const HEADERS: [&str; 6] = [
    "content-type",
    "etag",
    "allow",
    "odata-version",
    "retry-after",
    "location",
];

pub(super) struct LiveSession {
    pub(super) world: Arc<LiveWorld>,
    pub(super) context: Arc<CallContext>,
    plugin: String,
    handles: Mutex<Handles>,
}

#[derive(Default)]
struct Handles {
    next: u32,
    images: BTreeMap<ImageHandle, Arc<Image>>,
    locations: BTreeMap<LocationHandle, Location>,
}

impl LiveSession {
    pub(super) fn new(world: Arc<LiveWorld>, context: Arc<CallContext>, plugin: &str) -> Self {
        Self {
            world,
            context,
            plugin: plugin.to_owned(),
            handles: Mutex::new(Handles::default()),
        }
    }

    fn handles(&self) -> MutexGuard<'_, Handles> {
        // Every change of the tables is a single insertion or removal, so a panic elsewhere leaves them whole.
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep_image(&self, image: Image) -> Reply {
        let mut handles = self.handles();
        handles.next += 1;
        let handle = ImageHandle(handles.next);
        let info = image.info();
        handles.images.insert(handle, Arc::new(image));
        Reply::Image(handle, info)
    }

    pub(super) fn image(&self, handle: ImageHandle) -> Result<Arc<Image>, DriverError> {
        let found = self.handles().images.get(&handle).cloned();
        found.ok_or_else(|| DriverError::NotFound("this image was dropped".to_owned()))
    }

    pub(super) fn keep_location(&self, location: Location) -> (LocationHandle, LocationInfo) {
        let info = LocationInfo {
            backend: location.backend.clone().unwrap_or_else(|| "external".to_owned()),
            display: display(location.url.expose()),
            digest: location.digest.map(|digest| digest.to_string()),
            expires_ms: location.expires.map(milliseconds),
        };
        let mut handles = self.handles();
        handles.next += 1;
        let handle = LocationHandle(handles.next);
        handles.locations.insert(handle, location);
        (handle, info)
    }

    pub(super) fn location(&self, handle: LocationHandle) -> Result<Location, DriverError> {
        let found = self.handles().locations.get(&handle).cloned();
        found.ok_or_else(|| DriverError::NotFound("this location was dropped".to_owned()))
    }

    async fn bmc(&self) -> Result<Arc<dyn Bmc>, DriverError> {
        self.world.servers.bmc(&self.context.node, &self.context.tenure).await
    }

    async fn media_state(&self, device: Device) -> Result<Media, DriverError> {
        let media = self.bmc().await?.media(device).await.map_err(bmc_error)?;
        let mut artefact = None;
        // The name is unguessable, so a BMC that spells the rest of a URL in its own way is believed.
        if let Some(url) = &media.url {
            for kind in ArtefactKind::ALL
                .into_iter()
                .filter(|kind| kind.device() == Some(device))
            {
                let recorded = self.world.artefacts.find(&self.context.node.id, kind).await?;
                if recorded.is_some_and(|recorded| url.contains(recorded.name.expose())) {
                    artefact = Some(kind);
                    break;
                }
            }
        }
        Ok(Media {
            inserted: media.inserted,
            connected: media.connected,
            write_protected: media.write_protected,
            artefact,
            url: media.url.as_deref().map(display),
        })
    }

    /// Takes the URLs of this node's artefacts out of what a BMC shows: whoever knows one may read the artefact.
    async fn scrub(&self, mut text: String) -> Result<String, DriverError> {
        for kind in ArtefactKind::ALL {
            if let Some(artefact) = self.world.artefacts.find(&self.context.node.id, kind).await? {
                // The name is the secret; JSON may spell the slashes around it in more than one way.
                text = text.replace(artefact.name.expose(), &artefact.name.to_string());
            }
        }
        Ok(text)
    }

    fn external(&self, url: &str) -> Result<Reply, DriverError> {
        let url = check_external(url)?;
        let location = Location {
            backend: None,
            kind: None,
            url: Secret::new(url),
            digest: None,
            expires: None,
        };
        let (handle, info) = self.keep_location(location);
        Ok(Reply::Location(handle, info))
    }
}

#[async_trait]
impl Session for LiveSession {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn perform(&self, call: &HostCall) -> Result<Reply, DriverError> {
        let node = &self.context.node;
        let state = &self.world.state;
        match call {
            HostCall::StateGet { key } => state.get(&node.id, &self.plugin, key).await.map(Reply::Value),
            HostCall::StatePut { key, value, expect } => state
                .put(&node.id, &self.plugin, key, value, *expect)
                .await
                .map(Reply::Number),
            HostCall::StateDelete { key } => state.delete(&node.id, &self.plugin, key).await.map(|()| Reply::Done),
            HostCall::BuildFloppy { spec } => self.build_floppy(spec).await,
            HostCall::BuildBootIso { spec } => self.build_boot_iso(spec).await,
            HostCall::Publish {
                image,
                minimum_lifetime_s,
                backend,
            } => {
                let backend = backend.as_deref().ok_or_else(|| unexpected(call))?;
                self.publish(*image, *minimum_lifetime_s, backend).await
            }
            HostCall::Find { kind } => self.find(*kind).await,
            HostCall::Renew {
                location,
                minimum_lifetime_s,
            } => self.renew(*location, *minimum_lifetime_s).await,
            HostCall::Withdraw { kind } => self.withdraw(*kind).await,
            HostCall::External { url } => self.external(url),
            HostCall::MediaState { device } => self.media_state(*device).await.map(Reply::Media),
            HostCall::Insert {
                device,
                location,
                options,
            } => {
                if !options.write_protected {
                    let message = "media are always write-protected: an image is shared and must not change";
                    return Err(DriverError::Unsupported(message.to_owned()));
                }
                let image = InsertMedia {
                    url: self.location(*location)?.url,
                    boot_once: options.boot_once,
                    server_certificate: options.server_certificate.clone(),
                };
                done(self.bmc().await?.insert_media(*device, &image).await)
            }
            HostCall::Eject { device } => done(self.bmc().await?.eject_media(*device).await),
            HostCall::SetBootDevice { device, persistent } => {
                done(self.bmc().await?.set_boot_device(*device, *persistent).await)
            }
            HostCall::BootModeOf => self
                .bmc()
                .await?
                .boot_mode()
                .await
                .map(Reply::BootMode)
                .map_err(bmc_error),
            HostCall::SetBootMode { mode } => done(self.bmc().await?.set_boot_mode(*mode).await),
            HostCall::SecureBootOf => self
                .bmc()
                .await?
                .secure_boot()
                .await
                .map(Reply::Flag)
                .map_err(bmc_error),
            HostCall::SetSecureBoot { enabled } => done(self.bmc().await?.set_secure_boot(*enabled).await),
            HostCall::PowerStateOf => self
                .bmc()
                .await?
                .power_state()
                .await
                .map(Reply::Power)
                .map_err(bmc_error),
            HostCall::SetPower { action, .. } => done(self.bmc().await?.set_power(*action).await),
            HostCall::Redfish { method, path, body } => {
                let bmc = self.bmc().await?;
                let raw = bmc
                    .raw_redfish(method, path, body.as_deref())
                    .await
                    .map_err(bmc_error)?;
                let headers = raw.headers.into_iter();
                let headers = headers.filter(|(name, _)| HEADERS.contains(&name.to_ascii_lowercase().as_str()));
                let body = self.scrub(raw.body).await?;
                Ok(Reply::Raw(RawReply {
                    status: raw.status,
                    headers: headers.collect(),
                    body,
                }))
            }
            HostCall::Ribcl { command, attributes } => {
                let bmc = self.bmc().await?;
                let xml = bmc.raw_ribcl(command, attributes).await.map_err(bmc_error)?;
                self.scrub(xml).await.map(Reply::Text)
            }
            _ => Err(unexpected(call)),
        }
    }

    async fn place(&self, image: ImageHandle, minimum_lifetime_s: u32) -> Result<Placement, DriverError> {
        self.place_image(image, minimum_lifetime_s).await
    }

    async fn begin(&self, action: &str, detail: &str) -> Result<u64, DriverError> {
        self.world
            .journal
            .begin(&self.context.node.id, &self.context.tenure, action, detail)
            .await
    }

    async fn end(&self, effect: u64, outcome: Result<(), String>) {
        self.world.journal.end(effect, outcome).await;
    }

    fn lend(&self, location: LocationHandle) -> Option<Location> {
        self.location(location).ok()
    }

    fn accept(&self, location: Location) -> (LocationHandle, LocationInfo) {
        self.keep_location(location)
    }

    fn drop_image(&self, image: ImageHandle) {
        self.handles().images.remove(&image);
    }

    fn drop_location(&self, location: LocationHandle) {
        self.handles().locations.remove(&location);
    }
}

fn done(result: Result<(), BmcError>) -> Result<Reply, DriverError> {
    result.map(|()| Reply::Done).map_err(bmc_error)
}

/// The broker answers these itself.
fn unexpected(call: &HostCall) -> DriverError {
    DriverError::other(
        "host-error",
        format!("the host took {} for a call of the world: report this", call.name()),
    )
}

/// A BMC's error as a plugin sees it. The codes are part of the contract's documentation.
pub(super) fn bmc_error(error: BmcError) -> DriverError {
    let message = error.to_string();
    match error {
        BmcError::Settings { .. } => DriverError::Invalid(message),
        BmcError::Login { .. } => DriverError::other("bmc-login", message),
        BmcError::License { .. } => DriverError::other("ilo-license-required", message),
        BmcError::Busy { retry_after, .. } => DriverError::Other {
            code: "bmc-busy".to_owned(),
            message,
            retry_after_ms: Some(retry_after.map_or(5000, |time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX))),
        },
        BmcError::Unsupported { .. } => DriverError::Unsupported(message),
        BmcError::Unreachable { .. } => DriverError::Unreachable(message),
        BmcError::Timeout { .. } => DriverError::Timeout(message),
        BmcError::Refused { .. } => DriverError::other("bmc-refused", message),
        BmcError::Protocol { .. } => DriverError::other("bmc-protocol", message),
        BmcError::LeaseEnding { .. } => DriverError::other(LEASE_ENDING, message),
    }
}

/// An http(s) URL without credentials, as it will be handed to a BMC.
fn check_external(text: &str) -> Result<String, DriverError> {
    let refuse = |reason: &str| Err(DriverError::Invalid(format!("this is no URL for a BMC: {reason}")));
    if text.len() > 2048 {
        return refuse("it is longer than 2048 characters");
    }
    let Ok(url) = url::Url::parse(text) else {
        return refuse("it does not parse");
    };
    if !matches!(url.scheme(), "http" | "https") {
        return refuse("it must begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("it holds a user name or a password, which the BMC would show");
    }
    if url.host().is_none() {
        return refuse("it has no host");
    }
    Ok(text.to_owned())
}

/// A URL for people: origin and ending. The rest may be the secret.
pub(super) fn display(text: &str) -> String {
    let Ok(url) = url::Url::parse(text) else {
        return "***".to_owned();
    };
    let ending =
        url.path().rsplit_once('.').map(|(_, ending)| ending).filter(|ending| {
            (1..=4).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
    let dot = ending.map_or_else(String::new, |ending| format!(".{ending}"));
    format!("{}/***{dot}", url.origin().ascii_serialization())
}

pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_displayed_url_shows_neither_path_nor_query_nor_credentials() {
        for (url, shown) in [
            ("http://10.0.0.1:6386/i/secret.iso", "http://10.0.0.1:6386/***.iso"),
            ("https://user:pw@host/a/b.img?sig=secret", "https://host/***.img"),
            ("https://host/a.secret", "https://host/***"),
            ("not a url", "***"),
        ] {
            assert_eq!(display(url), shown);
        }
    }

    #[test]
    fn a_bmc_is_given_plain_http_urls_only() {
        assert!(check_external("https://images.example/x.iso").is_ok());
        for bad in [
            "file:///etc/passwd",
            "ftp://h/x",
            "http://u:p@h/x",
            "nonsense",
            "http://",
        ] {
            assert!(check_external(bad).is_err(), "{bad}");
        }
    }
}
