//! TLS for one simulated BMC: sockets, limits, faults and the trace around [`crate::redfish`], [`crate::ris`] and
//! [`crate::ribcl`].

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, HeaderValue, SERVER,
};
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::faults::deliver::{self, Body, Breakable, Breaker};
use crate::faults::{AnswerBody, Applied, Asked, Effect, ResetAt};
use crate::profile::{Meaning, Protocol};
use crate::redfish::reply::{Reply, Request};
use crate::ribcl::http::{Instead, Tap};
use crate::server::Server;
use crate::tls::Service;
use crate::trace::{self, Exchange};
use crate::{redfish, ribcl, ris};

/// Longest request body in bytes.
const BODY_CAP: usize = 64 << 10;
/// Connections that one BMC keeps open; further ones wait in the backlog.
const CONNECTIONS: usize = 64;
/// A handshake, a request head or a request body that takes longer ends the connection.
const CLIENT_DEADLINE: Duration = Duration::from_secs(30);
/// A "hang" fault ends here, so that a forgotten client does not hold a task for ever.
const HANG: Duration = Duration::from_secs(3600);

/// Accepts connections until the server stops.
pub(crate) async fn run(server: Arc<Server>, listener: TcpListener, tls: Service, tasks: TaskTracker) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = server.stop.cancelled() => return,
            accepted = accept(&listener, &permits) => accepted,
        };
        let (permit, tcp) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(server = server.index, %error, "accept failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let server = Arc::clone(&server);
        let tls = tls.clone();
        tasks.spawn(async move {
            let stop = server.stop.clone();
            tokio::select! {
                () = stop.cancelled() => {}
                () = connection(server, tls, tcp) => {}
            }
            drop(permit);
        });
    }
}

async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(tokio::sync::OwnedSemaphorePermit, TcpStream)> {
    let permit = Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?;
    let (tcp, _) = listener.accept().await?;
    Ok((permit, tcp))
}

async fn connection(server: Arc<Server>, tls: Service, tcp: TcpStream) {
    if deaf(&server) || tcp.set_nodelay(true).is_err() {
        return;
    }
    let breaker = Breaker::default();
    let tcp = Breakable::new(tcp, breaker.clone());
    let Ok(Ok(mut stream)) = timeout(CLIENT_DEADLINE, tls.accept(tcp)).await else {
        return;
    };
    let mut before = Vec::new();
    if server.config.profile.speaks(Protocol::RibclRaw) {
        // The first record tells what is spoken.
        let mut record = vec![0; 16 << 10];
        let Ok(Ok(count)) = timeout(CLIENT_DEADLINE, stream.read(&mut record)).await else {
            return;
        };
        record.truncate(count);
        if record.first() == Some(&b'<') {
            if let Err(error) = ribcl::raw::talk(&server, &mut stream, &record, &breaker).await {
                tracing::debug!(%error, "connection ended");
            }
            return;
        }
        before = record;
    }
    let instead = Instead::default();
    let tap = Tap::new(stream, before, instead.clone());
    let service = service_fn(move |request| {
        let (server, instead, breaker) = (Arc::clone(&server), instead.clone(), breaker.clone());
        async move { serve(&server, request, &instead, &breaker).await }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CLIENT_DEADLINE)
        .max_buf_size(32 << 10)
        .serve_connection(TokioIo::new(tap), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "connection ended");
    }
}

fn deaf(server: &Server) -> bool {
    let until = server.state().deaf_until;
    until.is_some_and(|until| Instant::now() < until)
}

/// One request. An `Err` makes hyper close the connection without a reply.
async fn serve(
    server: &Arc<Server>,
    request: hyper::Request<Incoming>,
    instead: &Instead,
    breaker: &Breaker,
) -> Result<Response<Body>, io::Error> {
    let time = trace::now();
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let method = parts.method.as_str().to_owned();
    if deaf(server) {
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    let body = timeout(CLIENT_DEADLINE, Limited::new(body, BODY_CAP).collect()).await;
    let body = match body {
        Ok(Ok(body)) => Some(body.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => None,
        _ => return Err(io::ErrorKind::TimedOut.into()),
    };
    if spoken(server, &path) == Some(Protocol::Ribcl)
        && method == "POST"
        && let Some(script) = &body
    {
        return ribcl(server, &String::from_utf8_lossy(script), instead, breaker).await;
    }
    let fault = server.config.faults.apply(&Asked {
        server: server.index,
        method: &method,
        path: path.split('?').next().unwrap_or_default(),
        body: body.as_deref().unwrap_or_default(),
    });
    let mut exchange = Exchange {
        time,
        server: server.index,
        method: method.clone(),
        path: path.clone(),
        body: body.as_deref().and_then(trace::scrub_body),
        status: None,
        message: None,
        fault: fault.as_ref().map(|fault| fault.name.clone()),
    };
    if let Some(delay) = fault.as_ref().and_then(|fault| fault.delay) {
        tokio::time::sleep(delay).await;
    }
    let request = body.map(|body| Request {
        method,
        path,
        headers: parts.headers,
        body,
    });
    let decision = decide(server, request.as_ref(), fault.as_ref());
    let mut answer = None;
    match &decision {
        Decision::Reply(reply) => {
            exchange.status = Some(reply.status);
            exchange.message = reply.message_id();
            answer = reply.body.as_ref();
        }
        Decision::Instead(status, _, _) => exchange.status = Some(*status),
        Decision::Break | Decision::Drop | Decision::Hang => {}
    }
    trace::record(server, exchange, answer);
    let effect = fault.map_or(Effect::None, |fault| fault.effect);
    match decision {
        Decision::Reply(reply) => respond(server, reply, &effect, breaker),
        Decision::Instead(status, text, headers) => Ok(raw(status, text, &headers)),
        Decision::Break => {
            breaker.trip();
            Err(io::ErrorKind::ConnectionReset.into())
        }
        Decision::Drop => Err(io::ErrorKind::ConnectionReset.into()),
        Decision::Hang => {
            tokio::time::sleep(HANG).await;
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

/// What is spoken at a path, if it is spoken here.
fn spoken(server: &Server, path: &str) -> Option<Protocol> {
    let route = path.split('?').next().unwrap_or_default().to_ascii_lowercase();
    let under = |root: &str| route == root || route.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    let protocol = if under("/redfish") {
        Protocol::Redfish
    } else if under("/rest") {
        Protocol::Ris
    } else if under("/ribcl") {
        Protocol::Ribcl
    } else {
        return None;
    };
    server.config.profile.speaks(protocol).then_some(protocol)
}

/// A posted script. Its answer ends the connection.
async fn ribcl(
    server: &Arc<Server>,
    script: &str,
    instead: &Instead,
    breaker: &Breaker,
) -> Result<Response<Body>, io::Error> {
    match ribcl::take(server, "POST", script).await {
        ribcl::Outcome::Documents(documents, delivery) => {
            instead.set(
                ribcl::wire(server, &documents, delivery),
                delivery.reset.then(|| breaker.clone()),
            );
            let mut response = Response::new(deliver::whole(Bytes::new()));
            response
                .headers_mut()
                .insert(CONNECTION, HeaderValue::from_static("close"));
            Ok(response)
        }
        ribcl::Outcome::Http(status, text, headers) => Ok(raw(status, text, &headers)),
        ribcl::Outcome::Break => {
            breaker.trip();
            Err(io::ErrorKind::ConnectionReset.into())
        }
        ribcl::Outcome::Drop => Err(io::ErrorKind::ConnectionReset.into()),
        ribcl::Outcome::Hang => {
            tokio::time::sleep(HANG).await;
            Err(io::ErrorKind::TimedOut.into())
        }
    }
}

enum Decision {
    Reply(Reply),
    /// This status, body and these headers, and nothing was done.
    Instead(u16, String, Vec<(String, String)>),
    /// The connection is reset.
    Break,
    Drop,
    Hang,
}

fn decide(server: &Arc<Server>, request: Option<&Request>, fault: Option<&Applied>) -> Decision {
    let profile = server.config.profile;
    let none = Effect::None;
    let effect = fault.map_or(&none, |fault| &fault.effect);
    match effect {
        Effect::Hang => return Decision::Hang,
        Effect::Drop => return Decision::Drop,
        Effect::Reset(ResetAt::Request) => return Decision::Break,
        Effect::Answer { status, body, headers } => {
            let text = match body {
                AnswerBody::Text(text) => text.clone(),
                AnswerBody::Message(id) => Reply::message(*status, id, &[]).body.unwrap_or_default().to_string(),
                AnswerBody::Empty => String::new(),
            };
            return Decision::Instead(*status, text, headers.clone());
        }
        Effect::ClockSkew(seconds) => server
            .state()
            .skew_sessions(server.config.timing.session_expiry, *seconds),
        _ => {}
    }
    let mut reply = match request {
        Some(request) => match spoken(server, &request.path) {
            Some(Protocol::Redfish) => redfish::answer(server, request, effect),
            Some(Protocol::Ris) => ris::answer(server, request, effect),
            // Posted scripts do not come here.
            Some(Protocol::Ribcl | Protocol::RibclRaw) => return Decision::Instead(405, String::new(), Vec::new()),
            None => return Decision::Instead(404, String::new(), Vec::new()),
        },
        None => Reply::says(profile, Meaning::BodyTooLarge, &[]),
    };
    if let (Effect::Stale, Some(fault), Some(request)) = (effect, fault, request)
        && matches!(request.method.as_str(), "GET" | "HEAD")
        && let Some(now) = reply.body.take()
    {
        reply.body = Some(fault.stale(server.index, &request.route(), now));
    }
    if *effect == Effect::BmcReset {
        redfish::reset_bmc(server);
        return Decision::Break;
    }
    Decision::Reply(reply)
}

fn respond(
    server: &Arc<Server>,
    reply: Reply,
    effect: &Effect,
    breaker: &Breaker,
) -> Result<Response<Body>, io::Error> {
    let (kind, text) = match (reply.text, reply.body) {
        (Some(text), _) => text,
        (None, body) => (
            "application/json; charset=utf-8",
            body.map(|body| body.to_string()).unwrap_or_default(),
        ),
    };
    let (bytes, kind) = match effect {
        Effect::Content(content) => content.spoil(text.as_bytes(), kind),
        _ => (text.into_bytes(), kind),
    };
    let length = bytes.len();
    let delivery = effect.delivery(length);
    if delivery.reset && length == 0 {
        // There is no middle to break it in.
        breaker.trip();
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    let mut response = Response::new(deliver::body(Bytes::from(bytes), delivery, breaker));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Ok(name) = HeaderValue::from_str(&server.config.profile.redfish.server_header) {
        headers.insert(SERVER, name);
    }
    headers.insert("OData-Version", HeaderValue::from_static("4.0"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if delivery.skew != 0
        && let Ok(date) = HeaderValue::from_str(&trace::http_date(delivery.skew))
    {
        headers.insert(DATE, date);
    }
    if length > 0 {
        if let Ok(kind) = HeaderValue::from_str(kind) {
            headers.insert(CONTENT_TYPE, kind);
        }
        if delivery.split.is_none() {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
    }
    if let Some(allow) = reply.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    for (name, value) in reply.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    Ok(response)
}

fn raw(status: u16, text: String, more: &[(String, String)]) -> Response<Body> {
    let mut response = Response::new(deliver::whole(text.into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in more {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    response
}
