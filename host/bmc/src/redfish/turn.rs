//! One verb's turn with the BMC: requests with deadlines, the fence, the session, redirects and bounded answers.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, ETAG, HeaderName, IF_MATCH, LOCATION};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use super::Inner;
use super::message::{Cause, Complaint};
use super::session::Login;
use crate::backoff::before_retry;
use crate::http::{FailureKind, Reply, Request};
use crate::{BmcError, text};

/// Most redirects that one request follows.
const REDIRECTS: usize = 5;
/// How often a request is sent in all when the BMC fails inside (5xx) or drops the connection.
pub(super) const TRIES: u32 = 3;
/// How often a change is sent with another `If-Match`.
const TAGS: u32 = 3;
/// Longest path that is requested.
const PATH_CAP: usize = 1024;

/// What one verb needs to talk: who, until when, and what must not be repeated in errors.
pub(super) struct Turn {
    pub(super) bmc: Arc<Inner>,
    pub(super) action: &'static str,
    pub(super) until: Instant,
    pub(super) hide: Vec<String>,
}

/// No answer: the error, and whether the request may have arrived all the same.
pub(super) struct NoReply {
    pub(super) error: BmcError,
    pub(super) arrived: bool,
}

impl From<BmcError> for NoReply {
    fn from(error: BmcError) -> Self {
        unsent(error)
    }
}

impl From<NoReply> for BmcError {
    fn from(no_reply: NoReply) -> Self {
        no_reply.error
    }
}

/// When a change is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Again {
    /// Twice does what once does: also after a failure inside the BMC or a broken connection.
    Freely,
    /// Only when the BMC says that it did nothing.
    IfUndone,
}

/// Why a change did not happen.
pub(super) enum Unchanged {
    /// The BMC said no.
    Refused(Complaint),
    /// No answer came, or it may not be asked; `true`: the request may have arrived.
    Unanswered(BmcError, bool),
}

impl Turn {
    /// A resource. Tried again when the BMC fails inside or drops the connection.
    pub(super) async fn get(&mut self, path: &str) -> Result<Value, BmcError> {
        Ok(self.get_with_etag(path).await?.0)
    }

    /// A resource and its `ETag`.
    pub(super) async fn get_with_etag(&mut self, path: &str) -> Result<(Value, Option<String>), BmcError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.send(Method::GET, path, None, &[]).await {
                Ok(reply) if reply.status.is_success() => {
                    let etag = reply.headers.get(ETAG).and_then(|tag| tag.to_str().ok());
                    return Ok((self.json(&reply)?, etag.map(str::to_owned)));
                }
                Ok(reply) => {
                    let complaint = self.complaint(&reply);
                    if complaint.cause == Cause::NotFound {
                        // Firmware updates and resets move resources: look for them anew next time.
                        self.bmc.forget_topology();
                    }
                    let again = matches!(complaint.cause, Cause::Server | Cause::Transient);
                    let error = self.refused(complaint);
                    if !again {
                        return Err(error);
                    }
                    error
                }
                Err(no_reply) if no_reply.arrived && !is_final(&no_reply.error) => no_reply.error,
                Err(no_reply) => return Err(no_reply.error),
            };
            if tries >= TRIES || !self.pause(before_retry(self.bmc.deadlines.pause, tries)).await {
                return Err(error);
            }
        }
    }

    /// A change: sent again while the BMC is in POST or between states, and as `again` says when it fails.
    pub(super) async fn change(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
        again: Again,
    ) -> Result<Reply, Unchanged> {
        let (mut tries, mut failures) = (0, 0);
        let (mut etag, mut tags): (Option<String>, u32) = (None, 0);
        loop {
            tries += 1;
            let headers: Vec<(HeaderName, &str)> = etag.iter().map(|tag| (IF_MATCH, tag.as_str())).collect();
            let outcome = match self.send(method.clone(), path, Some(body), &headers).await {
                Ok(reply) if reply.status.is_success() => return Ok(reply),
                Ok(reply) => Unchanged::Refused(self.complaint(&reply)),
                Err(NoReply { error, arrived }) => Unchanged::Unanswered(error, arrived),
            };
            match &outcome {
                Unchanged::Refused(complaint) => match complaint.cause {
                    Cause::Transient => {}
                    Cause::Server if again == Again::Freely => failures += 1,
                    Cause::Precondition if tags < TAGS && method == Method::PATCH => {
                        let (_, tag) = self
                            .get_with_etag(path)
                            .await
                            .map_err(|error| Unchanged::Unanswered(error, false))?;
                        etag = Some(precondition(tag.as_deref(), tags));
                        tags += 1;
                        continue;
                    }
                    _ => return Err(outcome),
                },
                Unchanged::Unanswered(error, true) if again == Again::Freely && !is_final(error) => failures += 1,
                Unchanged::Unanswered(..) => return Err(outcome),
            }
            if failures >= TRIES || !self.pause(before_retry(self.bmc.deadlines.pause, tries)).await {
                return Err(outcome);
            }
        }
    }

    /// One request as given, the session renewed once if it has ended.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        headers: &[(HeaderName, &str)],
    ) -> Result<Reply, NoReply> {
        let url = self.resolve(path).map_err(unsent)?;
        let mut renewed = false;
        loop {
            let login = self.login().await?;
            let build = |url: Url| {
                let mut request = login.apply(Request::new(method.clone(), url));
                for (name, value) in headers {
                    request = request.header(name.clone(), value);
                }
                with_body(request, body)
            };
            let reply = self.exchange(&method, &url, build).await?;
            if reply.status != StatusCode::UNAUTHORIZED {
                return Ok(reply);
            }
            match login {
                // Sessions end by themselves, by a BMC's reset and by a password change.
                Login::Session { .. } if !renewed => {
                    self.bmc.forget_session();
                    renewed = true;
                }
                Login::Basic { full: Some(reason), .. } => {
                    let reason = format!("{reason}, and it takes no basic authentication instead");
                    return Err(unsent(self.busy(reason)));
                }
                _ => return Ok(reply),
            }
        }
    }

    /// One request with its redirects, each on the BMC's own origin. What changes something asks the fence.
    pub(super) async fn exchange(
        &self,
        method: &Method,
        url: &Url,
        build: impl Fn(Url) -> Request,
    ) -> Result<Reply, NoReply> {
        let allowed = self.fenced(method)?;
        self.within(allowed, method, url, build).await
    }

    /// The same for what changes nothing about the server.
    pub(super) async fn exchange_unfenced(
        &self,
        method: &Method,
        url: &Url,
        build: impl Fn(Url) -> Request,
    ) -> Result<Reply, NoReply> {
        self.within(self.allowed(), method, url, build).await
    }

    async fn within(
        &self,
        allowed: Duration,
        method: &Method,
        url: &Url,
        build: impl Fn(Url) -> Request,
    ) -> Result<Reply, NoReply> {
        match timeout(allowed, self.follow(method, url, build)).await {
            Ok(result) => result,
            Err(_) => Err(arrived(self.timed_out(allowed))),
        }
    }

    async fn follow(&self, method: &Method, url: &Url, build: impl Fn(Url) -> Request) -> Result<Reply, NoReply> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS {
            let request = build(url.clone())
                .header(ACCEPT, "application/json")
                .header(HeaderName::from_static("odata-version"), "4.0");
            let reply = self.read(request).await?;
            let moved = match reply.status {
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
                // These may turn a POST into a GET, so they are followed only where that changes nothing.
                StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *method == Method::GET,
                _ => false,
            };
            let location = reply.headers.get(LOCATION).and_then(|value| value.to_str().ok());
            let Some(location) = location.filter(|_| moved) else {
                return Ok(reply);
            };
            let next = url
                .join(location)
                .map_err(|_| arrived(self.protocol("it redirects to something that is not a URL")))?;
            if next.origin() != self.bmc.origin.origin() {
                let reason = format!(
                    "it redirects to another origin, {}; give that as the address if it is the BMC's own",
                    text::fit(&next.origin().ascii_serialization(), &self.hide)
                );
                return Err(arrived(self.protocol(&reason)));
            }
            url = next;
        }
        Err(arrived(
            self.protocol(&format!("it redirects more than {REDIRECTS} times")),
        ))
    }

    async fn read(&self, request: Request) -> Result<Reply, NoReply> {
        self.bmc.client.send(request).await.map_err(|failure| {
            let address = self.bmc.address.clone();
            let reason = text::fit(&failure.reason, &self.hide);
            let action = self.action;
            NoReply {
                arrived: failure.arrived,
                error: match failure.kind {
                    FailureKind::Distrust => BmcError::Settings { address, reason },
                    FailureKind::Broken => BmcError::Unreachable {
                        address,
                        action,
                        reason,
                    },
                    FailureKind::TooBig => BmcError::Protocol {
                        address,
                        action,
                        reason,
                    },
                },
            }
        })
    }

    /// How long the next request may take.
    fn allowed(&self) -> Duration {
        let left = self.until.saturating_duration_since(Instant::now());
        self.bmc.deadlines.request.min(left)
    }

    fn fenced(&self, method: &Method) -> Result<Duration, NoReply> {
        if *method == Method::GET || *method == Method::HEAD {
            return Ok(self.allowed());
        }
        match self.bmc.fence.window() {
            Some(window) if window >= self.bmc.deadlines.least_window => Ok(self.allowed().min(window)),
            _ => Err(unsent(BmcError::LeaseEnding {
                address: self.bmc.address.clone(),
                action: self.action,
            })),
        }
    }

    /// A path from an answer or a caller, as a URL on the BMC's own origin.
    pub(super) fn resolve(&self, path: &str) -> Result<Url, BmcError> {
        let strange = || {
            let shown = text::fit(path, &self.hide);
            self.protocol(&format!("`{shown}` is not a path on its own origin"))
        };
        if path.len() > PATH_CAP {
            return Err(strange());
        }
        let url = self.bmc.origin.join(path).map_err(|_| strange())?;
        let ours = url.origin() == self.bmc.origin.origin() && url.username().is_empty() && url.password().is_none();
        ours.then_some(url).ok_or_else(strange)
    }

    /// Waits, unless the verb's time would leave too little for a request afterwards; `false` then.
    pub(super) async fn pause(&self, time: Duration) -> bool {
        let fits = Instant::now() + time + self.bmc.deadlines.least_window < self.until;
        if fits {
            sleep(time).await;
        }
        fits
    }

    pub(super) fn json(&self, reply: &Reply) -> Result<Value, BmcError> {
        let value: Value = serde_json::from_slice(&reply.body)
            .map_err(|error| self.protocol(&format!("the answer is not JSON: {error}")))?;
        if value.is_object() {
            Ok(value)
        } else {
            Err(self.protocol("the answer is JSON, but not an object"))
        }
    }

    pub(super) fn complaint(&self, reply: &Reply) -> Complaint {
        Complaint::read(reply.status, &reply.headers, &reply.body, &self.hide)
    }

    pub(super) fn refused(&self, complaint: Complaint) -> BmcError {
        complaint.into_error(&self.bmc.address, self.action)
    }

    pub(super) fn unchanged(&self, why: Unchanged) -> BmcError {
        match why {
            Unchanged::Refused(complaint) => self.refused(complaint),
            Unchanged::Unanswered(error, _) => error,
        }
    }

    pub(super) fn protocol(&self, reason: &str) -> BmcError {
        BmcError::Protocol {
            address: self.bmc.address.clone(),
            action: self.action,
            reason: reason.to_owned(),
        }
    }

    pub(super) fn unsupported(&self, reason: impl Into<String>) -> BmcError {
        BmcError::Unsupported {
            address: self.bmc.address.clone(),
            action: self.action,
            reason: reason.into(),
        }
    }

    pub(super) fn says_no(&self, reason: impl Into<String>) -> BmcError {
        BmcError::Refused {
            address: self.bmc.address.clone(),
            action: self.action,
            reason: reason.into(),
        }
    }

    pub(super) fn busy(&self, reason: impl Into<String>) -> BmcError {
        BmcError::Busy {
            address: self.bmc.address.clone(),
            action: self.action,
            reason: reason.into(),
            retry_after: None,
        }
    }

    pub(super) fn timed_out(&self, after: Duration) -> BmcError {
        BmcError::Timeout {
            address: self.bmc.address.clone(),
            action: self.action,
            after,
        }
    }
}

pub(super) fn with_body(request: Request, body: Option<&Value>) -> Request {
    match body {
        Some(body) => request.body("application/json", body.to_string()),
        None => request,
    }
}

/// What to send as `If-Match` at the first, second and third try. A weak tag never matches by the letter (RFC 9110 clause
/// 13.1.1), so some firmwares want it without its mark; `*` matches whatever is there, for those that hand out none or
/// change theirs with every look.
fn precondition(tag: Option<&str>, tries: u32) -> String {
    let tag = tag.map(str::trim).filter(|tag| !tag.is_empty());
    match (tag, tries) {
        (Some(tag), 0) => tag.to_owned(),
        (Some(tag), 1) => tag.strip_prefix("W/").unwrap_or(tag).to_owned(),
        _ => "*".to_owned(),
    }
}

/// Asking again at once would only take as long again, or bring the same nonsense.
fn is_final(error: &BmcError) -> bool {
    matches!(error, BmcError::Timeout { .. } | BmcError::Protocol { .. })
}

fn unsent(error: BmcError) -> NoReply {
    NoReply { error, arrived: false }
}

fn arrived(error: BmcError) -> NoReply {
    NoReply { error, arrived: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precondition_grows_weaker_with_each_try() {
        for (tag, want) in [
            (Some("\"7\""), ["\"7\"", "\"7\"", "*"]),
            (Some("W/\"7\""), ["W/\"7\"", "\"7\"", "*"]),
            (Some(" "), ["*", "*", "*"]),
            (None, ["*", "*", "*"]),
        ] {
            let sent = [0, 1, 2].map(|tries| precondition(tag, tries));
            assert_eq!(sent, want);
        }
    }
}
