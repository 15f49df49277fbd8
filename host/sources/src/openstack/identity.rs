//! A token, kept until shortly before it runs out, and the catalogue that came with it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::Secret;
use reqwest::header::{HeaderMap, HeaderValue};
use url::Url;

use super::catalog::{Catalog, web};
use super::{Credential, OpenStackError};
use crate::flight::Flights;
use crate::reference::shown;
use crate::trust::{self, Trusting};

/// After a refusal nobody asks again for so long: identity services lock accounts that fail too often.
const REFUSED_FOR: Duration = Duration::from_secs(10);

/// Which of a service's endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interface {
    /// For everybody.
    #[default]
    Public,
    /// For other services.
    Internal,
    /// For administrators.
    Admin,
}

impl Interface {
    /// As the catalogue writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// How patient a client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// For a connection.
    pub connect: Duration,
    /// For the head of an answer, unless the request has a time-out of its own (an upload's answer comes after its body).
    pub answer: Duration,
    /// Attempts in all.
    pub attempts: u32,
    /// Before the second attempt, at most; doubles with each, of which a random part is waited.
    pub backoff: Duration,
    /// Longest wait between two attempts, whatever the server asks for.
    pub longest_wait: Duration,
}

impl Default for Limits {
    /// 10 s, 60 s, 3 attempts, half a second, 10 s.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(60),
            attempts: 3,
            backoff: Duration::from_millis(500),
            longest_wait: Duration::from_secs(10),
        }
    }
}

/// Where to authenticate, and as whom.
#[derive(Clone)]
pub struct IdentityConfig {
    /// Keystone, with or without `/v3`; or the v1 authentication URL (`…/auth/v1.0`).
    pub auth_url: Url,
    /// As whom.
    pub credential: Credential,
    /// Region of the catalogue; `None` = the first.
    pub region: Option<String>,
    /// Which endpoints of the catalogue.
    pub interface: Interface,
    /// Endpoints that are not looked for in the catalogue, by service type.
    pub endpoints: BTreeMap<String, Url>,
    /// PEM file of CAs to trust beside the machine's own; read again when it changes.
    pub ca: Option<PathBuf>,
    /// Take any certificate.
    pub insecure: bool,
    /// Patience.
    pub limits: Limits,
}

impl IdentityConfig {
    /// The first region, public endpoints, the machine's own CAs.
    pub fn new(auth_url: &str, credential: Credential) -> Result<Self, OpenStackError> {
        let auth_url = web(auth_url).ok_or_else(|| OpenStackError::Settings {
            reason: "the authentication URL must be http(s)://HOST[:PORT]/…".to_owned(),
        })?;
        Ok(Self {
            auth_url,
            credential,
            region: None,
            interface: Interface::default(),
            endpoints: BTreeMap::new(),
            ca: None,
            insecure: false,
            limits: Limits::default(),
        })
    }
}

/// A token that is good for at least a little while. `Debug` does not show it.
#[derive(Clone)]
pub struct Token(pub(super) Arc<Session>);

pub(super) struct Session {
    /// `None` without authentication.
    pub(super) header: Option<(Secret, HeaderValue)>,
    pub(super) renew_at: Option<Instant>,
    pub(super) catalog: Catalog,
    pub(super) project: Option<String>,
}

impl Token {
    /// The token's text, for `X-Auth-Token`; `None` if there is no authentication.
    pub fn secret(&self) -> Option<&Secret> {
        self.0.header.as_ref().map(|(secret, _)| secret)
    }

    /// The identifier of the project that it is for, where the identity service tells.
    pub fn project_id(&self) -> Option<&str> {
        self.0.project.as_deref()
    }

    pub(super) fn put_into(&self, headers: &mut HeaderMap) {
        if let Some((_, value)) = &self.0.header {
            headers.insert("x-auth-token", value.clone());
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("project", &self.0.project)
            .finish_non_exhaustive()
    }
}

/// An identity at a cloud. Clones share one token.
#[derive(Clone)]
pub struct Identity {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) config: IdentityConfig,
    pub(super) http: Trusting,
    state: Mutex<State>,
    flights: Flights<(), Result<Token, OpenStackError>>,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    refused: Option<(Instant, OpenStackError)>,
}

impl Identity {
    /// Reads the CA file; asks nobody yet.
    pub fn new(config: IdentityConfig) -> Result<Self, OpenStackError> {
        let (connect, insecure) = (config.limits.connect, config.insecure);
        let build = move || {
            let builder = trust::builder().connect_timeout(connect);
            if insecure {
                builder.tls_danger_accept_invalid_certs(true)
            } else {
                builder
            }
        };
        let http = Trusting::new(config.ca.as_deref(), build).map_err(|error| OpenStackError::Settings {
            reason: error.to_string(),
        })?;
        let inner = Inner {
            config,
            http,
            state: Mutex::default(),
            flights: Flights::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// A token, a kept one if it lasts. All who ask at the same time share one login.
    pub async fn token(&self) -> Result<Token, OpenStackError> {
        {
            let state = self.state();
            if let Some(token) = &state.token
                && token.0.renew_at.is_none_or(|at| Instant::now() < at)
            {
                return Ok(token.clone());
            }
            if let Some((until, error)) = &state.refused
                && Instant::now() < *until
            {
                return Err(error.clone());
            }
        }
        let identity = self.clone();
        let flight = self.inner.flights.join((), || async move {
            let result = identity.log_in().await;
            let mut state = identity.state();
            match &result {
                Ok(token) => {
                    *state = State {
                        token: Some(token.clone()),
                        refused: None,
                    }
                }
                Err(error @ OpenStackError::Unauthorized { .. }) => {
                    state.refused = Some((Instant::now() + REFUSED_FOR, error.clone()));
                }
                Err(_) => {}
            }
            drop(state);
            result
        });
        flight.await
    }

    /// Where a service is: as set, else as the catalogue says. Types are the catalogue's ("object-store", "image").
    pub async fn endpoint(&self, service: &str) -> Result<Url, OpenStackError> {
        let config = &self.inner.config;
        if let Some(url) = config.endpoints.get(service) {
            return Ok(url.clone());
        }
        let token = self.token().await?;
        let found = token
            .0
            .catalog
            .endpoint(service, config.interface, config.region.as_deref());
        found.cloned().ok_or_else(|| OpenStackError::NoEndpoint {
            url: shown(&config.auth_url),
            service: service.to_owned(),
            interface: config.interface.as_str(),
            region: config
                .region
                .as_ref()
                .map(|region| format!(" in region `{region}`"))
                .unwrap_or_default(),
            found: token.0.catalog.describe(service),
        })
    }

    /// A service did not take the token: the next one is a new one, unless somebody has renewed it since.
    pub fn reject(&self, token: &Token) {
        let mut state = self.state();
        if state.token.as_ref().is_some_and(|kept| Arc::ptr_eq(&kept.0, &token.0)) {
            state.token = None;
        }
    }

    /// As whom we come, for people; no secrets.
    pub fn who(&self) -> String {
        self.inner.config.credential.who()
    }

    /// Whether a request to this URL may carry the token.
    pub(super) fn knows(&self, url: &Url, token: &Token) -> bool {
        let origin = url.origin();
        let set = &self.inner.config.endpoints;
        token.0.catalog.has_origin(&origin) || set.values().any(|set| set.origin() == origin)
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.inner.config;
        f.debug_struct("Identity")
            .field("auth_url", &shown(&config.auth_url))
            .field("credential", &config.credential)
            .finish_non_exhaustive()
    }
}
