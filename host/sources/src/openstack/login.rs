//! Logging in: Keystone's tokens (Identity API v3), and those of Swift's version 1 authentication.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use model::Secret;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, Request, StatusCode};
use serde::Deserialize;
use url::Url;

use super::catalog::{Catalog, Service, web};
use super::client::{attempt, read};
use super::identity::{Session, Token};
use super::{Credential, Identity, IdentityConfig, OpenStackError};
use crate::reference::shown;

/// Largest answer of an identity service: catalogues of big clouds have some hundred kilobytes.
const ANSWER_CAP: usize = 4 << 20;
/// Longest token.
const TOKEN_CAP: usize = 16 << 10;
/// How long a v1 token is used if nobody says when it ends; a 401 ends it before.
const V1_LIFE: Duration = Duration::from_secs(1800);
/// A token is renewed so long before its end, or a quarter of its life before, whichever is shorter.
const RENEW_BEFORE: Duration = Duration::from_secs(120);
impl Identity {
    /// A new token.
    pub(super) async fn log_in(&self) -> Result<Token, OpenStackError> {
        match &self.inner().config.credential {
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
        let url = v3_url(&self.inner().config.auth_url);
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
        let text = read(answer, ANSWER_CAP, self.inner().config.limits.answer).await?;
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
        let mut url = self.inner().config.auth_url.clone();
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
            url: shown(&self.inner().config.auth_url),
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
        let config = &self.inner().config;
        let answer = attempt(&self.inner().http, &config.limits, &make).await?;
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
