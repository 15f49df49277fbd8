//! Requests that carry the token: renewed once if it is refused, repeated a few times if the service has a bad moment.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::RngExt as _;
use reqwest::header::RETRY_AFTER;
use reqwest::{Method, Request, Response, StatusCode};
use tokio::time::{sleep, timeout};
use url::Url;

use super::identity::Limits;
use super::{Identity, OpenStackError};
use crate::reference::shown;
use crate::trust::{Trusting, chain};

/// A client of the services that an [`Identity`] may use. Clones share its token and connections.
#[derive(Clone, Debug)]
pub struct Client {
    identity: Identity,
}

impl Client {
    /// Asks nobody yet.
    pub fn new(identity: Identity) -> Self {
        Self { identity }
    }

    /// As whom it asks.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// A request for what lies under a service's endpoint; each part of the path is one segment, whatever it holds.
    pub async fn request(&self, service: &str, method: Method, path: &[&str]) -> Result<Request, OpenStackError> {
        let base = self.identity.endpoint(service).await?;
        // They would be other addresses than their segment's.
        if let Some(wrong) = path.iter().find(|part| matches!(**part, "" | "." | "..")) {
            return Err(OpenStackError::Settings {
                reason: format!("{wrong:?} names nothing that can be asked for at {}", shown(&base)),
            });
        }
        Ok(Request::new(method, join(&base, path)))
    }

    /// Sends a request with the token, which is renewed once if it is refused. If the service cannot be reached or answers
    /// 408, 429 or 5xx, it is repeated, unless its method forbids that (POST, PATCH) or its body is a stream: those go by
    /// [`Client::send_with`]. Every answer but a 401 comes back as it is, redirects too; its body has not been read.
    ///
    /// The head of the answer must come within [`Limits::answer`], or within the request's own time-out if it has one.
    pub async fn send(&self, request: Request) -> Result<Response, OpenStackError> {
        let harmless = !matches!(*request.method(), Method::POST | Method::PATCH);
        match request.try_clone() {
            Some(_) if harmless => {
                // What could be cloned once can be cloned again.
                let again = || {
                    request
                        .try_clone()
                        .unwrap_or_else(|| Request::new(Method::GET, request.url().clone()))
                };
                self.send_with(again).await
            }
            _ => self.send_once(request).await,
        }
    }

    /// As [`Client::send`], with a request that is made anew for each attempt, so that its body may be a stream. Whoever
    /// calls this says that repeating does no harm.
    pub async fn send_with(&self, mut make: impl FnMut() -> Request) -> Result<Response, OpenStackError> {
        let inner = self.identity.inner();
        let mut renewed = false;
        loop {
            let token = self.identity.token().await?;
            let first = make();
            if !self.identity.knows(first.url(), &token) {
                return Err(OpenStackError::ForeignOrigin {
                    url: shown(first.url()),
                });
            }
            let mut first = Some(first);
            let signed = || {
                let mut request = first.take().unwrap_or_else(&mut make);
                token.put_into(request.headers_mut());
                request
            };
            let response = attempt(&inner.http, &inner.config.limits, signed).await?;
            if response.status() != StatusCode::UNAUTHORIZED {
                return Ok(response);
            }
            self.identity.reject(&token);
            if renewed {
                return Err(self.unauthorized(&response));
            }
            renewed = true;
        }
    }

    /// The token is renewed for the next request; this one has had its only chance.
    async fn send_once(&self, mut request: Request) -> Result<Response, OpenStackError> {
        let inner = self.identity.inner();
        let token = self.identity.token().await?;
        if !self.identity.knows(request.url(), &token) {
            return Err(OpenStackError::ForeignOrigin {
                url: shown(request.url()),
            });
        }
        token.put_into(request.headers_mut());
        let response = once(&inner.http, &inner.config.limits, request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.identity.reject(&token);
            return Err(self.unauthorized(&response));
        }
        Ok(response)
    }

    fn unauthorized(&self, response: &Response) -> OpenStackError {
        OpenStackError::Unauthorized {
            url: shown(response.url()),
            reason: "HTTP 401 to a token that was just issued".to_owned(),
            who: self.identity.who(),
        }
    }
}

/// `base` with further segments; a slash inside one is escaped.
fn join(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// Repeats while the service has a bad moment; whatever it says at last is the answer.
pub(super) async fn attempt(
    http: &Trusting,
    limits: &Limits,
    mut make: impl FnMut() -> Request,
) -> Result<Response, OpenStackError> {
    let mut tried = 0;
    loop {
        tried += 1;
        let last = tried >= limits.attempts.max(1);
        let asked = match once(http, limits, make()).await {
            Ok(response) if last || !is_passing(response.status()) => return Ok(response),
            Ok(response) => retry_after(&response),
            Err(error) if last || !error.is_transient() => return Err(error),
            Err(_) => None,
        };
        sleep(wait(limits, tried, asked)).await;
    }
}

async fn once(http: &Trusting, limits: &Limits, request: Request) -> Result<Response, OpenStackError> {
    let url = shown(request.url());
    let within = request.timeout().copied();
    let answer = http.client().execute(request);
    let late = |after| OpenStackError::Timeout {
        url: url.clone(),
        after,
    };
    let answer = match within {
        Some(_) => answer.await,
        None => {
            let limit = limits.connect + limits.answer;
            timeout(limit, answer).await.map_err(|_| late(limit))?
        }
    };
    answer.map_err(|error| match within {
        Some(after) if error.is_timeout() => late(after),
        _ => OpenStackError::Unreachable {
            url: url.clone(),
            reason: chain(&error),
        },
    })
}

fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)
}

fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// What the server asks for, or a random part of a span that doubles, so that many clients do not come back together.
fn wait(limits: &Limits, tried: u32, asked: Option<Duration>) -> Duration {
    let span = limits.backoff.saturating_mul(1 << tried.saturating_sub(1).min(16));
    let jitter = span.mul_f64(rand::rng().random_range(0.5..=1.0));
    asked.unwrap_or(jitter).min(limits.longest_wait)
}

/// Reads a small answer to its end. Bounded by `max` bytes, and by `within` in all.
pub async fn read(mut response: Response, max: usize, within: Duration) -> Result<Bytes, OpenStackError> {
    let url = shown(response.url());
    let all = async {
        let mut text = BytesMut::new();
        loop {
            let chunk = response.chunk().await.map_err(|error| OpenStackError::Unreachable {
                url: url.clone(),
                reason: chain(&error),
            })?;
            let Some(chunk) = chunk else {
                return Ok(text.freeze());
            };
            if text.len().saturating_add(chunk.len()) > max {
                return Err(OpenStackError::Malformed {
                    url: url.clone(),
                    reason: format!("it is longer than {max} bytes"),
                });
            }
            text.extend_from_slice(&chunk);
        }
    };
    let late = |_| OpenStackError::Timeout {
        url: url.clone(),
        after: within,
    };
    timeout(within, all).await.map_err(late)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_segment() {
        let base = Url::parse("http://s/v1/AUTH_x/").unwrap();
        assert_eq!(
            join(&base, &["c", "a/b ?#c"]).as_str(),
            "http://s/v1/AUTH_x/c/a%2Fb%20%3F%23c"
        );
        assert_eq!(join(&base, &[]).as_str(), "http://s/v1/AUTH_x");
    }

    #[test]
    fn waits_grow_are_jittered_and_bounded() {
        let limits = Limits::default();
        for tried in 1..40 {
            let waited = wait(&limits, tried, None);
            assert!(
                waited >= (limits.backoff / 2).min(limits.longest_wait) && waited <= limits.longest_wait,
                "{waited:?}"
            );
        }
        assert!(wait(&limits, 1, None) <= limits.backoff);
        assert_eq!(wait(&limits, 1, Some(Duration::from_secs(3))), Duration::from_secs(3));
        assert_eq!(wait(&limits, 1, Some(Duration::from_secs(9999))), limits.longest_wait);
    }
}
