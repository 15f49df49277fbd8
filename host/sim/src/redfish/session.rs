//! Who may speak: sessions and basic authentication.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::RngExt;
use serde_json::{Value, json};

use crate::profile::{Meaning, Profile};
use crate::redfish::reply::{Reply, Request};
use crate::server::{Server, Session};

/// Wrong passwords in a row after which logins are refused for a while.
const WRONG_LOGINS: u32 = 3;

/// Lets a request in or says why not.
pub(crate) fn authorise(server: &Arc<Server>, request: &Request) -> Result<(), Reply> {
    let profile = server.config.profile;
    if let Some(token) = request.header("x-auth-token") {
        let expiry = server.config.timing.session_expiry;
        let mut state = server.state();
        state.sessions.retain(|session| session.used.elapsed() < expiry);
        return match state.sessions.iter_mut().find(|session| session.token == token) {
            Some(session) => {
                session.used = Instant::now();
                Ok(())
            }
            None => Err(Reply::says(profile, Meaning::NoSession, &[])),
        };
    }
    if let Some((user, password)) = basic(request) {
        return login(server, &user, &password);
    }
    let mut reply = Reply::says(profile, Meaning::NoSession, &[]);
    let realm = format!("Basic realm=\"{}\"", profile.bmc_model);
    reply.headers.push(("WWW-Authenticate", realm));
    Err(reply)
}

fn basic(request: &Request) -> Option<(String, String)> {
    let value = request.header("authorization")?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// Checks name and password. After the third wrong one in a row even the right one is refused for a while.
fn login(server: &Arc<Server>, user: &str, password: &str) -> Result<(), Reply> {
    let profile = server.config.profile;
    let mut state = server.state();
    if let Some(until) = state.login_refused_until {
        if Instant::now() < until {
            return Err(Reply::says(profile, Meaning::LoginDelayed, &[]));
        }
        state.login_refused_until = None;
        state.wrong_logins = 0;
    }
    if user == server.config.user && password == server.config.password {
        state.wrong_logins = 0;
        return Ok(());
    }
    state.wrong_logins += 1;
    if state.wrong_logins >= WRONG_LOGINS {
        state.login_refused_until = Some(Instant::now() + server.config.timing.login_delay);
    }
    Err(Reply::says(profile, Meaning::WrongLogin, &[]))
}

pub(crate) fn service() -> Value {
    json!({
        "@odata.context": "/redfish/v1/$metadata#SessionService.SessionService",
        "@odata.id": "/redfish/v1/SessionService",
        "@odata.type": "#SessionService.v1_0_0.SessionService",
        "Id": "SessionService",
        "Name": "Session Service",
        "ServiceEnabled": true,
        "SessionTimeout": 1800,
        "Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"},
    })
}

pub(crate) fn collection(server: &Arc<Server>) -> Value {
    let expiry = server.config.timing.session_expiry;
    let mut state = server.state();
    state.sessions.retain(|session| session.used.elapsed() < expiry);
    let members: Vec<Value> = state
        .sessions
        .iter()
        .map(|session| json!({"@odata.id": path(&session.id)}))
        .collect();
    json!({
        "@odata.context": "/redfish/v1/$metadata#SessionCollection.SessionCollection",
        "@odata.id": "/redfish/v1/SessionService/Sessions",
        "@odata.type": "#SessionCollection.SessionCollection",
        "Name": "Sessions",
        "Members@odata.count": members.len(),
        "Members": members,
    })
}

pub(crate) fn one(server: &Arc<Server>, id: &str) -> Option<Value> {
    let state = server.state();
    let session = state
        .sessions
        .iter()
        .find(|session| session.id.eq_ignore_ascii_case(id))?;
    Some(document(server.config.profile, session))
}

fn document(profile: &Profile, session: &Session) -> Value {
    let mut body = json!({
        "@odata.context": "/redfish/v1/$metadata#Session.Session",
        "@odata.id": path(&session.id),
        "@odata.type": "#Session.v1_0_0.Session",
        "Id": session.id,
        "Name": "User Session",
        "UserName": session.user,
    });
    if let Some(oem) = profile.redfish.oem {
        body["Oem"] = json!({oem.key(): {"UserLoginTime": session.created}});
    }
    body
}

fn path(id: &str) -> String {
    format!("/redfish/v1/SessionService/Sessions/{id}")
}

/// `POST Sessions`: needs no authentication, being one.
pub(crate) fn create(server: &Arc<Server>, request: &Request, full: bool) -> Reply {
    let profile = server.config.profile;
    let body = match request.object(profile) {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let (Some(user), Some(password)) = (text("UserName"), text("Password")) else {
        let missing = if text("UserName").is_none() {
            "UserName"
        } else {
            "Password"
        };
        return Reply::says(profile, Meaning::PropertyMissing, &[missing]);
    };
    if let Err(reply) = login(server, user, password) {
        return reply;
    }
    let expiry = server.config.timing.session_expiry;
    let mut state = server.state();
    state.sessions.retain(|session| session.used.elapsed() < expiry);
    if full || state.sessions.len() >= profile.session_cap {
        return Reply::says(profile, Meaning::SessionsFull, &[]);
    }
    state.session_count += 1;
    let secret: [u8; 16] = rand::rng().random();
    let session = Session {
        id: format!("{}{:016x}", user.to_ascii_lowercase(), state.session_count),
        token: secret.iter().map(|byte| format!("{byte:02x}")).collect(),
        user: user.to_owned(),
        created: crate::trace::now(),
        used: Instant::now(),
    };
    let host = request.header("host").unwrap_or("localhost");
    let mut reply = Reply::resource(profile, document(profile, &session), "GET, HEAD, POST");
    reply.status = 201;
    reply.headers.push(("X-Auth-Token", session.token.clone()));
    reply
        .headers
        .push(("Location", format!("https://{host}{}", path(&session.id))));
    state.sessions.push(session);
    reply
}

pub(crate) fn delete(server: &Arc<Server>, id: &str) -> Option<Reply> {
    let mut state = server.state();
    let before = state.sessions.len();
    state.sessions.retain(|session| !session.id.eq_ignore_ascii_case(id));
    (state.sessions.len() < before).then(|| Reply::success(server.config.profile))
}
