//! A token, kept until shortly before it runs out, and the catalogue that came with it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use model::Secret;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, Request, StatusCode};
use serde::Deserialize;
use url::Url;

use super::catalog::{Catalog, Service, web};
use super::client::{attempt, read};
use super::{Credential, OpenStackError};
use crate::flight::Flights;
use crate::reference::shown;
use crate::trust::{self, Trusting};

/// Largest answer of an identity service: catalogues of big clouds have some hundred kilobytes.
const ANSWER_CAP: usize = 4 << 20;
/// Longest token.
const TOKEN_CAP: usize = 16 << 10;
/// How long a v1 token is used if nobody says when it ends; a 401 ends it before.
const V1_LIFE: Duration = Duration::from_secs(1800);
/// A token is renewed so long before its end, or a quarter of its life before, whichever is shorter.
const RENEW_BEFORE: Duration = Duration::from_secs(120);
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
pub struct Token(Arc<Session>);

struct Session {
    /// `None` without authentication.
    header: Option<(Secret, HeaderValue)>,
    renew_at: Option<Instant>,
    catalog: Catalog,
    project: Option<String>,
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

    async fn log_in(&self) -> Result<Token, OpenStackError> {
        match &self.inner.config.credential {
            Credential::None => Ok(Token(Arc::new(Session {
                header: None,
                renew_at: None,
                catalog: Catalog::default(),
                project: None,
            }))),
            Credential::V1 { user, key } => self.log_in_v1(user, key).await,
            credential @ (Credential::Password { .. } | Credential::Application { .. }) => {
                let body = credential.to_v3().map(|body| body.to_string()).unwrap_or_default();
                self.log_in_v3(body).await
            }
        }
    }

    async fn log_in_v3(&self, body: String) -> Result<Token, OpenStackError> {
        let url = v3_url(&self.inner.config.auth_url);
        let begun = Instant::now();
        let make = || {
            let mut request = Request::new(Method::POST, url.clone());
            let headers = request.headers_mut();
            headers.insert("content-type", HeaderValue::from_static("application/json"));
            headers.insert("accept", HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.clone().into());
            request
        };
        let answer = self.ask(make).await?;
        let malformed = |reason: String| OpenStackError::Malformed {
            url: shown(&url),
            reason,
        };
        let secret = header(answer.headers(), "x-subject-token")
            .ok_or_else(|| malformed("there is no X-Subject-Token".to_owned()))?;
        let text = read(answer, ANSWER_CAP, self.inner.config.limits.answer).await?;
        let parsed: TokenAnswer = serde_json::from_slice(&text).map_err(|error| {
            malformed(format!(
                "a token is described otherwise (line {}, column {})",
                error.line(),
                error.column()
            ))
        })?;
        let token = parsed.token;
        // Its own two times are compared, since our clock may be wrong.
        let life = token.issued_at.zip(token.expires_at).and_then(|(from, to)| {
            let (from, to): (Timestamp, Timestamp) = (from.parse().ok()?, to.parse().ok()?);
            u64::try_from(to.as_second() - from.as_second()).ok()
        });
        let life = life.map_or(V1_LIFE, Duration::from_secs);
        self.session(
            secret,
            begun,
            life,
            Catalog::new(token.catalog),
            token.project.map(|project| project.id),
        )
    }

    async fn log_in_v1(&self, user: &str, key: &Secret) -> Result<Token, OpenStackError> {
        let mut url = self.inner.config.auth_url.clone();
        if url.path() == "/" {
            url.set_path("/auth/v1.0");
        }
        let secret_header = |text: &str, what: &str| {
            let mut value = HeaderValue::from_str(text).map_err(|_| OpenStackError::Settings {
                reason: format!("the {what} of {user:?} holds a character that no header can carry"),
            })?;
            value.set_sensitive(true);
            Ok::<_, OpenStackError>(value)
        };
        let (name, key) = (secret_header(user, "name")?, secret_header(key.expose(), "key")?);
        let begun = Instant::now();
        let make = || {
            let mut request = Request::new(Method::GET, url.clone());
            request.headers_mut().insert("x-auth-user", name.clone());
            request.headers_mut().insert("x-auth-key", key.clone());
            request
        };
        let answer = self.ask(make).await?;
        let malformed = |reason: &str| OpenStackError::Malformed {
            url: shown(&url),
            reason: reason.to_owned(),
        };
        let headers = answer.headers();
        let token = header(headers, "x-auth-token").ok_or_else(|| malformed("there is no X-Auth-Token"))?;
        let storage = headers.get("x-storage-url").and_then(|value| web(value.to_str().ok()?));
        let storage = storage.ok_or_else(|| malformed("there is no X-Storage-Url that is a URL"))?;
        let life = headers
            .get("x-auth-token-expires")
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let life = life.map_or(V1_LIFE, Duration::from_secs);
        let project = storage
            .path_segments()
            .and_then(|mut parts| parts.rfind(|part| !part.is_empty()).map(str::to_owned));
        self.session(token, begun, life, Catalog::of("object-store", storage), project)
    }

    fn session(
        &self,
        secret: Secret,
        begun: Instant,
        life: Duration,
        catalog: Catalog,
        project: Option<String>,
    ) -> Result<Token, OpenStackError> {
        let mut value = HeaderValue::from_str(secret.expose()).map_err(|_| OpenStackError::Malformed {
            url: shown(&self.inner.config.auth_url),
            reason: "the token holds a character that no header can carry".to_owned(),
        })?;
        value.set_sensitive(true);
        // A life of centuries overflows; then it is renewed when it is refused.
        let renew_at = begun.checked_add(life.saturating_sub(RENEW_BEFORE.min(life / 4)));
        Ok(Token(Arc::new(Session {
            header: Some((secret, value)),
            renew_at,
            catalog,
            project,
        })))
    }

    /// Asks the identity service until it lets us in or says that it does not.
    async fn ask(&self, make: impl Fn() -> Request) -> Result<reqwest::Response, OpenStackError> {
        let config = &self.inner.config;
        let answer = attempt(&self.inner.http, &config.limits, &make).await?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (status, url) = (answer.status(), shown(answer.url()));
        let said = said(answer, config).await;
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(OpenStackError::Unauthorized {
                url,
                reason: if said.is_empty() {
                    format!("HTTP {}", status.as_u16())
                } else {
                    said
                },
                who: config.credential.who(),
            }),
            StatusCode::NOT_FOUND => Err(OpenStackError::Status {
                url,
                status: 404,
                reason: ": is the authentication URL that of Keystone (…/v3)?".to_owned(),
            }),
            status => Err(OpenStackError::Status {
                url,
                status: status.as_u16(),
                reason: if said.is_empty() { said } else { format!(": {said}") },
            }),
        }
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

#[derive(Deserialize)]
struct TokenAnswer {
    token: TokenBody,
}

#[derive(Deserialize)]
struct TokenBody {
    #[serde(default)]
    issued_at: Option<String>,
    #[serde(default)]
    expires_at: Option<String>,
    #[serde(default)]
    project: Option<ProjectBody>,
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Deserialize)]
struct ProjectBody {
    id: String,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: ErrorBody,
}

#[derive(Deserialize)]
struct ErrorBody {
    message: String,
}

/// `…/v3/auth/tokens`, whether the URL that was given ends in `/v3`, in the old `/v2.0`, or before them.
fn v3_url(auth_url: &Url) -> Url {
    let mut url = auth_url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/');
    let base = path
        .strip_suffix("/v2.0")
        .or_else(|| path.strip_suffix("/v3"))
        .unwrap_or(path);
    let path = format!("{base}/v3/auth/tokens");
    url.set_path(&path);
    url
}

fn header(headers: &HeaderMap, name: &str) -> Option<Secret> {
    let text = headers.get(name)?.to_str().ok()?;
    ((1..=TOKEN_CAP).contains(&text.len())).then(|| Secret::new(text))
}

/// What a refusal says, short and without our secret.
async fn said(answer: reqwest::Response, config: &IdentityConfig) -> String {
    let Ok(text) = read(answer, 64 << 10, config.limits.answer).await else {
        return String::new();
    };
    let Ok(ErrorAnswer { error }) = serde_json::from_slice(&text) else {
        return String::new();
    };
    let message = match config.credential.secret() {
        Some(secret) if !secret.expose().is_empty() => error.message.replace(secret.expose(), "***"),
        _ => error.message,
    };
    let harmless = message.chars().map(|c| if c.is_control() { ' ' } else { c });
    harmless
        .take(200)
        .collect::<String>()
        .trim()
        .trim_end_matches('.')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_form_of_the_authentication_url_leads_to_v3() {
        for (given, path) in [
            ("http://k:5000", "/v3/auth/tokens"),
            ("http://k:5000/", "/v3/auth/tokens"),
            ("http://k:5000/v3", "/v3/auth/tokens"),
            ("http://k:5000/v3/", "/v3/auth/tokens"),
            ("http://k:5000/v2.0", "/v3/auth/tokens"),
            ("https://k/identity?x=y", "/identity/v3/auth/tokens"),
            ("https://k/identity/v3", "/identity/v3/auth/tokens"),
        ] {
            let url = v3_url(&Url::parse(given).unwrap());
            assert_eq!((url.path(), url.query()), (path, None), "{given}");
        }
        for wrong in ["keystone:5000", "ftp://k", "http://", ""] {
            assert!(IdentityConfig::new(wrong, Credential::None).is_err(), "{wrong}");
        }
    }
}
