//! Logging in: one session, reused; basic authentication where there are no sessions or no room for one.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use model::Secret;
use reqwest::header::{AUTHORIZATION, HeaderName, LOCATION};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use url::Url;

use super::json;
use super::message::Cause;
use super::turn::{NoReply, Turn, with_body};
use crate::http::{Reply, Request};
use crate::{BmcError, text};

const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";
const TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
/// How long basic authentication stands in for a session that did not come about.
const STAND_IN: Duration = Duration::from_secs(600);

/// A login under way.
pub(super) type LoginTask = JoinHandle<Result<Login, NoReply>>;

/// How a request proves who asks.
#[derive(Clone, Debug)]
pub(super) enum Login {
    /// The session's token, and the path to delete it by.
    Session { token: Secret, uri: Option<String> },
    /// User and password with each request. `until`: when a session is tried again; `full`: why there is none.
    Basic {
        user: String,
        password: Secret,
        until: Option<Instant>,
        full: Option<String>,
    },
}

impl Login {
    pub(super) fn apply(&self, request: Request) -> Request {
        match self {
            Self::Session { token, .. } => request.header(TOKEN, token.expose()),
            Self::Basic { user, password, .. } => {
                let account = BASE64.encode(format!("{user}:{}", password.expose()));
                request.header(AUTHORIZATION, &format!("Basic {account}"))
            }
        }
    }

    fn is_stale(&self) -> bool {
        matches!(self, Self::Basic { until: Some(until), .. } if *until <= Instant::now())
    }
}

impl Turn {
    /// The login to use now; makes one if there is none. A login whose verb was given up is waited for, not repeated.
    pub(super) async fn login(&mut self) -> Result<Login, NoReply> {
        if let Some(login) = self.bmc.login().filter(|login| !login.is_stale()) {
            return Ok(login);
        }
        if !self.bmc.session {
            let login = self.basic(None, None);
            self.bmc.remember(login.clone());
            return Ok(login);
        }
        let mut under_way = self.bmc.login_under_way.lock().await;
        let task = under_way.get_or_insert_with(|| self.start_login());
        let result = task.await;
        *under_way = None;
        // It neither panics nor is it stopped, unless the whole process is.
        result.unwrap_or_else(|_| Err(self.busy("its login was stopped").into()))
    }

    /// Logs in by a task of its own, which ends with the request's deadline and not with the verb's.
    fn start_login(&self) -> LoginTask {
        let turn = Self {
            bmc: Arc::clone(&self.bmc),
            action: self.action,
            until: Instant::now() + self.bmc.deadlines.request,
            hide: self.hide.clone(),
        };
        tokio::spawn(async move {
            let login = turn.open_session().await?;
            turn.bmc.remember(login.clone());
            Ok(login)
        })
    }

    pub(super) fn basic(&self, until: Option<Instant>, full: Option<String>) -> Login {
        Login::Basic {
            user: self.bmc.user.clone(),
            password: self.bmc.password.clone(),
            until,
            full,
        }
    }

    /// Not fenced: a session changes nothing about the server, and whoever only reads needs one too.
    async fn open_session(&self) -> Result<Login, NoReply> {
        let url = self.resolve(SESSIONS)?;
        let account = json!({"UserName": self.bmc.user, "Password": self.bmc.password.expose()});
        let reply = self
            .exchange_unfenced(&Method::POST, &url, |url| {
                with_body(Request::new(Method::POST, url), Some(&account))
            })
            .await?;
        if reply.status.is_success() {
            // No token although it says yes: an implementation without sessions.
            return Ok(self.session(&reply).unwrap_or_else(|| self.basic(None, None)));
        }
        let complaint = self.complaint(&reply);
        if complaint.has("LoginAttemptDelayed") || complaint.has("LoginAttemptDelayedSeconds") {
            return Err(self.refused(complaint).into());
        }
        match complaint.cause {
            Cause::Login | Cause::License => Err(self.refused(complaint).into()),
            Cause::NotFound | Cause::NotSupported => Ok(self.basic(None, None)),
            // The table is full, or something else is wrong with sessions; the wire remains usable.
            _ => {
                let reason = format!("it opened no session ({})", complaint.reason());
                tracing::warn!(bmc = %self.bmc.address, %reason, "using basic authentication for now");
                Ok(self.basic(Some(Instant::now() + STAND_IN), Some(reason)))
            }
        }
    }

    fn session(&self, reply: &Reply) -> Option<Login> {
        let token = reply.headers.get(TOKEN)?.to_str().ok()?;
        let header = reply.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let body = self.json(reply).ok();
        let uri = header.or_else(|| json::text(body.as_ref()?, &["@odata.id"]));
        // Behind a forwarder, or told another name, a BMC puts an origin there that is not ours: only the path counts.
        let path = |uri: &str| match Url::parse(uri) {
            Ok(url) => Some(url.path().to_owned()),
            Err(_) => Some(self.resolve(uri).ok()?.path().to_owned()),
        };
        let uri = uri.and_then(path).filter(|path| is_session(path));
        (!token.is_empty()).then(|| Login::Session {
            token: Secret::new(token),
            uri,
        })
    }

    /// Deletes a session by its path; one that is gone is a success.
    pub(super) async fn delete_session(&mut self, uri: &str) -> Result<(), BmcError> {
        let path = self.resolve(uri)?.path().to_owned();
        if !is_session(&path) {
            let shown = text::fit(uri, &self.hide);
            return Err(self.says_no(format!("`{shown}` is not the path of a session")));
        }
        let reply = self.send(Method::DELETE, &path, None, &[]).await?;
        let gone = matches!(reply.status, StatusCode::NOT_FOUND | StatusCode::GONE);
        if reply.status.is_success() || gone {
            return Ok(());
        }
        Err(self.refused(self.complaint(&reply)))
    }

    /// Ends our own session. Not fenced: it only takes away what we hold.
    pub(super) async fn end_session(&mut self) -> Result<(), BmcError> {
        if let Some(task) = self.bmc.login_under_way.lock().await.take() {
            // What it brought is remembered by now; why it brought nothing does not matter any more.
            drop(task.await);
        }
        let Some(login @ Login::Session { .. }) = self.bmc.login() else {
            self.bmc.forget_session();
            return Ok(());
        };
        self.bmc.forget_session();
        let Login::Session { uri: Some(uri), .. } = &login else {
            return Ok(());
        };
        let url = self.resolve(uri)?;
        let build = |url| login.apply(Request::new(Method::DELETE, url));
        let reply = self.exchange_unfenced(&Method::DELETE, &url, build).await?;
        if reply.status.is_success() || reply.status == StatusCode::UNAUTHORIZED {
            return Ok(());
        }
        Err(self.refused(self.complaint(&reply)))
    }
}

fn is_session(path: &str) -> bool {
    let mut parts = path.trim_end_matches('/').rsplit('/');
    let id = parts.next().unwrap_or_default();
    path.starts_with("/redfish/") && !id.is_empty() && parts.next() == Some("Sessions")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_member_of_a_session_collection_is_a_session() {
        for (path, want) in [
            ("/redfish/v1/SessionService/Sessions/abc", true),
            ("/redfish/v1/SessionService/Sessions/abc/", true),
            ("/redfish/v1/Sessions/1", true),
            ("/redfish/v1/SessionService/Sessions", false),
            ("/redfish/v1/SessionService/Sessions/", false),
            ("/redfish/v1/Systems/1", false),
            ("/other/Sessions/1", false),
            ("", false),
        ] {
            assert_eq!(is_session(path), want, "{path}");
        }
    }
}
