//! Redfish (DSP0266) as HPE's iLO 5 and 6 and other BMCs speak it.
//!
//! One conversation at a time with each BMC: a verb waits for its turn, then reads, changes and reads back within its
//! deadline. Everything is found by links from `/redfish/v1/`. What a BMC answers is hostile until proven otherwise.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::{BmcAddress, BootDevice, BootMode, Device, Media, PowerAction, PowerState, Secret, ServerIdentity};
use url::Url;

use crate::gate::Gate;
use crate::http::HttpClient;
use crate::probe::Presence;
use crate::{Bmc, BmcError, BootSettings, Deadlines, Fence, InsertMedia, RawReply, access, image_url, names};

mod boot;
mod firmware;
mod identity;
mod json;
mod ladder;
mod media;
mod message;
mod power;
mod raw;
mod session;
mod task;
mod topology;
mod turn;

use crate::BmcConfig;

use session::{Login, LoginTask};
use topology::Topology;
use turn::Turn;

/// Reads a body as a refusal with this status and as a document with links, and holds what is made of it to its bounds.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn exercise(status: u16, body: &[u8], secret: &str) {
    let Ok(status) = reqwest::StatusCode::from_u16(status) else {
        return;
    };
    let headers = reqwest::header::HeaderMap::new();
    let complaint = message::Complaint::read(status, &headers, body, &[secret.to_owned()]);
    let reason = complaint.reason();
    assert!(reason.chars().count() < 4000 && !reason.contains(secret), "{reason}");
    let _ = (complaint.names("Inserted"), complaint.says_occupied());
    let error = complaint.into_error(&BmcAddress("https://192.0.2.1".to_owned()), names::RAW);
    assert!(!error.to_string().contains(secret), "{error}");
    let Ok(body) = serde_json::from_slice(body) else { return };
    for key in ["Members", "Links", "MediaTypes", "Boot"] {
        assert!(json::links(&body, &[key]).len() <= json::MEMBERS_CAP);
        let _ = (
            json::link(&body, &[key]),
            json::texts(&body, &[key]),
            json::kept(&body, &[key]),
        );
    }
}

/// A BMC that speaks Redfish, or its forerunner RIS.
pub struct RedfishBmc(Arc<Inner>);

/// What verbs, and a login that outlives its verb, share.
struct Inner {
    address: BmcAddress,
    origin: Url,
    client: HttpClient,
    user: String,
    password: Secret,
    session: bool,
    dialect: Dialect,
    system: Option<String>,
    deadlines: Deadlines,
    fence: Arc<dyn Fence>,
    gate: Arc<Gate>,
    login: Mutex<Option<Login>>,
    /// A login under way. It goes on when its verb is given up, so that the session which the BMC opens is not lost.
    login_under_way: tokio::sync::Mutex<Option<LoginTask>>,
    topology: Mutex<Option<Topology>>,
}

/// Which of the two is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    Redfish,
    /// HPE's `/rest/v1` on iLO 4.
    Ris,
}

impl Dialect {
    /// Where everything starts.
    fn root(self) -> &'static str {
        match self {
            Self::Redfish => "/redfish/v1/",
            Self::Ris => "/rest/v1",
        }
    }
}

impl RedfishBmc {
    /// Checks the settings and reads the CA. Nothing is sent yet.
    pub fn new(config: BmcConfig) -> Result<Self, BmcError> {
        let gate = Arc::new(Gate::new(config.address.clone()));
        Self::behind(gate, config)
    }

    /// The same for an iLO 4 that speaks RIS alone. It is spoken to without a session.
    pub fn ris(config: BmcConfig) -> Result<Self, BmcError> {
        let gate = Arc::new(Gate::new(config.address.clone()));
        Self::ris_behind(gate, config)
    }

    /// Like [`Self::new`], taking turns with other clients of the same BMC.
    pub(crate) fn behind(gate: Arc<Gate>, config: BmcConfig) -> Result<Self, BmcError> {
        Self::speaking(Dialect::Redfish, gate, config)
    }

    /// Like [`Self::ris`], taking turns with other clients of the same BMC.
    pub(crate) fn ris_behind(gate: Arc<Gate>, config: BmcConfig) -> Result<Self, BmcError> {
        let config = BmcConfig {
            session: false,
            ..config
        };
        Self::speaking(Dialect::Ris, gate, config)
    }

    fn speaking(dialect: Dialect, gate: Arc<Gate>, config: BmcConfig) -> Result<Self, BmcError> {
        let origin = access::origin(&config.address)?;
        let client = HttpClient::new(&config, &origin).map_err(|reason| BmcError::Settings {
            address: config.address.clone(),
            reason,
        })?;
        Ok(Self(Arc::new(Inner {
            address: config.address,
            origin,
            client,
            user: config.user,
            password: config.password,
            session: config.session,
            dialect,
            system: config.system,
            deadlines: config.deadlines,
            fence: config.fence,
            gate,
            login: Mutex::new(None),
            login_under_way: tokio::sync::Mutex::new(None),
            topology: Mutex::new(None),
        })))
    }

    /// Whether the protocol is spoken at all; asked without a login, since the root should be open to everybody.
    pub(crate) async fn presence(&self) -> Result<Presence, BmcError> {
        self.verb(names::PRESENCE, vec![], |mut turn| async move { turn.presence().await })
            .await
    }

    /// Path of the open session, for the record: a successor deletes it, so that a late request of ours gets 401.
    pub fn session_uri(&self) -> Option<String> {
        match self.0.login() {
            Some(Login::Session { uri, .. }) => uri,
            _ => None,
        }
    }

    /// Deletes a session by its recorded path, such as a predecessor's; one that is gone is a success.
    pub async fn delete_session(&self, uri: &str) -> Result<(), BmcError> {
        self.verb("end a session", vec![], |mut turn| async move {
            turn.delete_session(uri).await
        })
        .await
    }

    /// Runs a verb in its turn and within its deadline, a second time if cached paths turned out to be gone. `hide` holds
    /// texts that no error may repeat.
    async fn verb<T, W>(
        &self,
        action: &'static str,
        mut hide: Vec<String>,
        work: impl Fn(Turn) -> W,
    ) -> Result<T, BmcError>
    where
        W: Future<Output = Result<T, BmcError>>,
    {
        let inner = &self.0;
        hide.push(inner.password.expose().to_owned());
        inner
            .gate
            .run(action, &inner.deadlines, |until| async move {
                let turn = || Turn {
                    bmc: Arc::clone(inner),
                    action,
                    until,
                    hide: hide.clone(),
                };
                let cached = inner.topology().is_some();
                let result = work(turn()).await;
                if result.is_err() && cached && inner.topology().is_none() {
                    return work(turn()).await;
                }
                result
            })
            .await
    }
}

impl Inner {
    /// Forgets the open session without deleting it; the next request logs in anew.
    fn forget_session(&self) {
        *locked(&self.login) = None;
    }

    fn login(&self) -> Option<Login> {
        locked(&self.login).clone()
    }

    fn remember(&self, login: Login) {
        *locked(&self.login) = Some(login);
    }

    fn topology(&self) -> Option<Topology> {
        locked(&self.topology).clone()
    }

    fn remember_topology(&self, topology: Topology) {
        *locked(&self.topology) = Some(topology);
    }

    fn forget_topology(&self) {
        *locked(&self.topology) = None;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each critical section is one assignment or clone, so a poisoned value is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for RedfishBmc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedfishBmc")
            .field("address", &self.0.address)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Bmc for RedfishBmc {
    async fn identity(&self) -> Result<ServerIdentity, BmcError> {
        self.verb(names::IDENTITY, vec![], |mut turn| async move { turn.identity().await })
            .await
    }

    async fn power_state(&self) -> Result<PowerState, BmcError> {
        self.verb(names::POWER_STATE, vec![], |mut turn| async move {
            turn.power_state().await
        })
        .await
    }

    async fn set_power(&self, action: PowerAction) -> Result<(), BmcError> {
        self.verb(names::set_power(action), vec![], |mut turn| async move {
            turn.set_power(action).await
        })
        .await
    }

    async fn media(&self, device: Device) -> Result<Media, BmcError> {
        self.verb(names::media(device), vec![], |mut turn| async move {
            turn.media(device).await
        })
        .await
    }

    async fn insert_media(&self, device: Device, image: &InsertMedia) -> Result<(), BmcError> {
        self.verb(
            names::insert(device),
            image_url::secrets(image),
            |mut turn| async move { turn.insert(device, image).await },
        )
        .await
    }

    async fn eject_media(&self, device: Device) -> Result<(), BmcError> {
        self.verb(names::eject(device), vec![], |mut turn| async move {
            turn.eject(device).await
        })
        .await
    }

    async fn set_boot_device(&self, device: BootDevice, persistent: bool) -> Result<(), BmcError> {
        self.verb(names::SET_BOOT_DEVICE, vec![], |mut turn| async move {
            turn.set_boot_device(device, persistent).await
        })
        .await
    }

    async fn boot_settings(&self) -> Result<BootSettings, BmcError> {
        self.verb(names::BOOT_SETTINGS, vec![], |mut turn| async move {
            turn.boot_settings().await
        })
        .await
    }

    async fn set_http_boot_url(&self, url: &Secret) -> Result<(), BmcError> {
        let hide = image_url::words(url.expose());
        self.verb(names::SET_HTTP_BOOT, hide, |mut turn| async move {
            turn.set_http_boot_url(url.expose()).await
        })
        .await
    }

    async fn boot_mode(&self) -> Result<BootMode, BmcError> {
        self.verb(
            names::BOOT_MODE,
            vec![],
            |mut turn| async move { turn.boot_mode().await },
        )
        .await
    }

    async fn set_boot_mode(&self, mode: BootMode) -> Result<(), BmcError> {
        self.verb(names::SET_BOOT_MODE, vec![], |mut turn| async move {
            turn.set_boot_mode(mode).await
        })
        .await
    }

    async fn secure_boot(&self) -> Result<bool, BmcError> {
        self.verb(names::SECURE_BOOT, vec![], |mut turn| async move {
            turn.secure_boot().await
        })
        .await
    }

    async fn set_secure_boot(&self, enabled: bool) -> Result<(), BmcError> {
        self.verb(names::SET_SECURE_BOOT, vec![], |mut turn| async move {
            turn.set_secure_boot(enabled).await
        })
        .await
    }

    async fn raw_redfish(&self, method: &str, path: &str, body: Option<&str>) -> Result<RawReply, BmcError> {
        self.verb(names::RAW, vec![], |mut turn| async move {
            turn.raw(method, path, body).await
        })
        .await
    }

    async fn close(&self) {
        let ended = self.verb(
            "end its session",
            vec![],
            |mut turn| async move { turn.end_session().await },
        );
        if let Err(error) = ended.await {
            // The BMC drops it by itself after its idle time.
            tracing::debug!(%error, "session left open");
        }
    }
}
