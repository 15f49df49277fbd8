//! What is published for the node: at most one artefact of a kind, as long as it lives.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{ArtefactKind, Secret};
use runtime::{DriverError, ImageInfo, Location, LocationInfo, Placement, Renewal, Request};

use super::{Artefact, Located, Machine};

/// What [`Machine::place`] found.
pub(crate) enum Place {
    Published(Located),
    Other(Placement),
}

impl Machine {
    /// Where an image could go.
    pub(crate) fn place(&self, image: &ImageInfo, minimum_lifetime_s: u32, now: SystemTime) -> Place {
        let journal_as = image.kind.to_string();
        let before = self.artefacts.get(&image.kind);
        if let Some(before) = before.filter(|before| before.digest == image.digest) {
            let ends = lifetime(minimum_lifetime_s).and_then(|lifetime| now.checked_add(lifetime));
            let lives = match (before.expires, ends) {
                (None, _) => true,
                (Some(expires), Some(ends)) => expires >= ends,
                (Some(_), None) => false,
            };
            if lives && let Some(located) = self.located(image.kind, now) {
                return Place::Published(located);
            }
            return Place::Other(Placement::Again {
                backend: before.backend.clone(),
                journal_as,
            });
        }
        Place::Other(Placement::Choose {
            request: Request {
                kind: image.kind,
                size: image.size,
                lifetime_s: lifetime(minimum_lifetime_s).map(|_| minimum_lifetime_s),
            },
            candidates: self.backends.clone(),
            replaces: before.is_some(),
            journal_as,
        })
    }

    pub(super) fn publish(
        &mut self,
        image: &ImageInfo,
        minimum_lifetime_s: u32,
        backend: &str,
        now: SystemTime,
    ) -> Result<Located, DriverError> {
        let Some(site) = self.backends.iter().find(|candidate| candidate.id == backend) else {
            return Err(DriverError::NotFound(format!("this world has no backend `{backend}`")));
        };
        if !site.healthy {
            return Err(DriverError::Unreachable(format!("`{backend}` does not answer")));
        }
        if site.free_bytes.is_some_and(|free| free < image.size) {
            let message = format!("`{backend}` has no room for {} bytes", image.size);
            return Err(DriverError::other("storage-full", message));
        }
        // The same bytes keep their URL: a BMC may know it already.
        let before = self.artefacts.get(&image.kind);
        let kept = before.filter(|before| before.digest == image.digest && before.backend == backend);
        let url = match kept {
            Some(before) => before.url.clone(),
            None => {
                let name = self.names.next();
                format!("http://{backend}.example/{name:016x}.{}", image.kind.extension())
            }
        };
        let artefact = Artefact {
            backend: backend.to_owned(),
            url,
            digest: image.digest.clone(),
            expires: lifetime(minimum_lifetime_s).and_then(|lifetime| now.checked_add(lifetime)),
        };
        let located = location(image.kind, &artefact);
        self.artefacts.insert(image.kind, artefact);
        Ok(located)
    }

    pub(super) fn located(&self, kind: ArtefactKind, now: SystemTime) -> Option<Located> {
        let artefact = self.artefacts.get(&kind)?;
        let is_over = artefact.expires.is_some_and(|expires| expires <= now);
        (!is_over).then(|| location(kind, artefact))
    }

    pub(super) fn renew(&mut self, location: &Location, minimum_lifetime_s: u32, now: SystemTime) -> Renewal {
        let url = location.url.expose();
        let Some(artefact) = self.artefacts.values_mut().find(|artefact| artefact.url == url) else {
            return Renewal::NotPossible;
        };
        artefact.expires = lifetime(minimum_lifetime_s).and_then(|lifetime| now.checked_add(lifetime));
        Renewal::Extended
    }
}

fn location(kind: ArtefactKind, artefact: &Artefact) -> Located {
    let location = Location {
        backend: Some(artefact.backend.clone()),
        kind: Some(kind),
        url: Secret::new(artefact.url.clone()),
        digest: artefact.digest.parse().ok(),
        expires: artefact.expires,
    };
    let info = info(&location);
    (location, info)
}

pub(super) fn external(url: &str) -> Result<Located, DriverError> {
    if !url.starts_with("http://") && !url.starts_with("https://") {
        let message = "this is no URL for a BMC: it must begin with http:// or https://";
        return Err(DriverError::Invalid(message.to_owned()));
    }
    let location = Location {
        backend: None,
        kind: None,
        url: Secret::new(url.to_owned()),
        digest: None,
        expires: None,
    };
    let info = info(&location);
    Ok((location, info))
}

/// What a plugin may know of a location.
fn info(location: &Location) -> LocationInfo {
    LocationInfo {
        backend: location.backend.clone().unwrap_or_else(|| "external".to_owned()),
        display: display(location),
        digest: location.digest.map(|digest| digest.to_string()),
        expires_ms: location.expires.map(|expires| {
            let since = expires.duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        }),
    }
}

pub(super) fn display(location: &Location) -> String {
    match (&location.backend, location.kind) {
        (Some(backend), Some(kind)) => format!("http://{backend}.example/***.{}", kind.extension()),
        _ => location.url.expose().to_owned(),
    }
}

/// 0 asks for one without an end.
fn lifetime(seconds: u32) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds.into()))
}
