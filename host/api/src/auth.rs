//! Who may use the API: everybody (on the loopback interface), or users of an htpasswd file with bcrypt hashes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::state::{ApiState, clip};

/// How long a pair of user and password that was right needs no new check: bcrypt costs a tenth of a second each time.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Pairs remembered.
const MAX_REMEMBERED: usize = 256;
/// Checks at once, so that wrong passwords cannot take all of the processor.
const MAX_CHECKS: usize = 2;
/// Addresses that need no login, as in Ironic: discovery, what ramdisks call, and what load balancers ask.
const PUBLIC: [&str; 6] = ["/", "/v1", "/v1/", "/v1/lookup", "/healthz", "/readyz"];

/// How requests are let in.
#[derive(Clone)]
pub enum Auth {
    /// All of them.
    None,
    /// With a user name and a password.
    Basic(Arc<Users>),
}

/// Why an htpasswd file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// It cannot be read.
    #[error("the htpasswd file {path} cannot be read")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line of it is not `user:bcrypt-hash`.
    #[error(
        "line {line} of the htpasswd file {path} is not `USER:HASH` with a bcrypt hash; make it with `htpasswd -nbB USER PASSWORD`"
    )]
    Line {
        /// Which file.
        path: String,
        /// Which line, from 1.
        line: usize,
    },
    /// It names nobody, so nobody could log in.
    #[error("the htpasswd file {path} names no user; add one with `htpasswd -nbB USER PASSWORD`")]
    Empty {
        /// Which file.
        path: String,
    },
}

/// Users and their hashes.
pub struct Users {
    hashes: HashMap<String, String>,
    /// A hash of nobody's password: an unknown user costs as much as a wrong password.
    nobody: String,
    /// Key of this process for what is remembered, so that memory never holds a plain hash of a password.
    key: [u8; 32],
    remembered: Mutex<HashMap<[u8; 32], Instant>>,
    checks: Semaphore,
}

impl Users {
    /// Reads an htpasswd file: `USER:HASH` a line, empty lines and lines with `#` aside.
    pub fn load(path: &Path) -> Result<Self, UsersError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| UsersError::Unreadable {
            path: name.clone(),
            source,
        })?;
        let mut hashes = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let line_text = line.trim();
            if line_text.is_empty() || line_text.starts_with('#') {
                continue;
            }
            let error = || UsersError::Line {
                path: name.clone(),
                line: number + 1,
            };
            let (user, hash) = line_text.split_once(':').ok_or_else(error)?;
            hash.parse::<bcrypt::HashParts>().map_err(|_| error())?;
            hashes.insert(user.to_owned(), hash.to_owned());
        }
        let Some(nobody) = hashes.values().next().cloned() else {
            return Err(UsersError::Empty { path: name });
        };
        Ok(Self {
            hashes,
            nobody,
            key: rand::random(),
            remembered: Mutex::default(),
            checks: Semaphore::new(MAX_CHECKS),
        })
    }

    /// Whether that is the user's password.
    async fn knows(&self, user: &str, password: &str) -> bool {
        let mut mark = Sha256::new();
        for part in [&self.key[..], user.as_bytes(), &[0], password.as_bytes()] {
            mark.update(part);
        }
        let mark: [u8; 32] = mark.finalize().into();
        if self.remembers(&mark) {
            return true;
        }
        // Closed never; a request that hangs up gives its place back.
        let Ok(_place) = self.checks.acquire().await else {
            return false;
        };
        let (hash, known) = match self.hashes.get(user) {
            Some(hash) => (hash.clone(), true),
            None => (self.nobody.clone(), false),
        };
        let password = password.to_owned();
        let right = tokio::task::spawn_blocking(move || bcrypt::verify(password, &hash)).await;
        let right = known && matches!(right, Ok(Ok(true)));
        if right {
            self.remember(mark);
        }
        right
    }

    fn remembers(&self, mark: &[u8; 32]) -> bool {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.get(mark).is_some_and(|since| since.elapsed() < REMEMBERED)
    }

    fn remember(&self, mark: [u8; 32]) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.retain(|_, since| since.elapsed() < REMEMBERED);
        }
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(mark, Instant::now());
    }
}

/// Who made a request, for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct User(pub(crate) String);

/// Lets a request through or answers 401, or 403 to a page of another site.
pub(crate) async fn check(State(state): State<ApiState>, mut request: Request, next: Next) -> Response {
    if let Some(origin) = foreign_origin(&request, matches!(state.auth, Auth::None)) {
        return ApiError::Foreign(clip(&origin)).into_response();
    }
    let Auth::Basic(users) = &state.auth else {
        return next.run(request).await;
    };
    let path = request.uri().path();
    if PUBLIC.contains(&path) || path.starts_with("/v1/heartbeat/") {
        return next.run(request).await;
    }
    let Some((user, password)) = basic(request.headers()) else {
        return ApiError::Unauthorized.into_response();
    };
    if !users.knows(&user, &password).await {
        return ApiError::Unauthorized.into_response();
    }
    request.extensions_mut().insert(User(user.clone()));
    let mut response = next.run(request).await;
    response.extensions_mut().insert(User(user));
    response
}

/// The page that a browser names in a request that changes something, if it is not one of ours: any page can send such
/// requests to the loopback interface or with a login that the browser remembers. Without logins the page's host must also
/// be an address, since a name of another site can be made to lead here. Clients other than browsers name no page.
fn foreign_origin(request: &Request, without_login: bool) -> Option<String> {
    if request.method().is_safe() {
        return None;
    }
    let origin = request.headers().get(header::ORIGIN)?;
    let origin = String::from_utf8_lossy(origin.as_bytes()).into_owned();
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .and_then(|host| host.parse::<Authority>().ok());
    let ours = host.is_some_and(|host| {
        let same = origin
            .split_once("://")
            .is_some_and(|(_, page)| page.eq_ignore_ascii_case(host.as_str()));
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        let address = name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok();
        same && (address || !without_login)
    });
    (!ours).then_some(origin)
}

/// User and password of a request (RFC 7617).
fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") || encoded.len() > 1024 {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let pair = String::from_utf8(decoded).ok()?;
    let (user, password) = pair.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}
