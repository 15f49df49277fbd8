//! The deploy agent's own HTTP API.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::protocol::agent::AGENT_VERSION;
use crate::protocol::commands::{Commands, Refused};

/// Longest request body in bytes; a config drive may be inside.
const BODY_CAP: usize = 96 << 20;
const CLIENT_DEADLINE: Duration = Duration::from_secs(60);

struct Api {
    commands: Arc<Commands>,
    token: String,
    /// The agent asks for a token on reads only once somebody has shown that they send one.
    reads_need_token: AtomicBool,
}

/// Serves until the boot ends.
pub(crate) async fn run(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    commands: Arc<Commands>,
    token: String,
    inside: CancellationToken,
) {
    let api = Arc::new(Api {
        commands,
        token,
        reads_need_token: AtomicBool::new(false),
    });
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = inside.cancelled() => return,
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        let Ok((tcp, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (api, tls) = (Arc::clone(&api), tls.clone());
        tasks.spawn(async move {
            if tcp.set_nodelay(true).is_err() {
                return;
            }
            match tls {
                None => connection(api, tcp).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = timeout(CLIENT_DEADLINE, tls.accept(tcp)).await {
                        connection(api, stream).await;
                    }
                }
            }
        });
    }
}

async fn connection<S>(api: Arc<Api>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let service = service_fn(move |request| {
        let api = Arc::clone(&api);
        async move { Ok::<_, Infallible>(answer(&api, request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CLIENT_DEADLINE)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "agent connection ended");
    }
}

async fn answer(api: &Api, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let query: HashMap<String, String> = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
        .into_owned()
        .collect();
    let wait = query.get("wait").is_some_and(|wait| wait.eq_ignore_ascii_case("true"));
    let path = parts.uri.path();
    let path = path.strip_prefix("/v1").unwrap_or(path).trim_end_matches('/');
    let token_right = query.get("agent_token").is_some_and(|token| *token == api.token);
    if query.contains_key("agent_token") {
        api.reads_need_token.store(true, Ordering::Relaxed);
    }
    let may_read = token_right || !api.reads_need_token.load(Ordering::Relaxed);
    match (&parts.method, path) {
        (&Method::GET, "") => reply(
            StatusCode::OK,
            &json!({
                "name": "OpenStack Ironic Python Agent API",
                "versions": [{"id": "v1"}],
                "default_version": {"id": "v1"},
            }),
        ),
        (&Method::GET, "/status") => reply(
            StatusCode::OK,
            &json!({"version": AGENT_VERSION, "started_at": api.commands.started_at()}),
        ),
        (&Method::GET, "/commands") if may_read => reply(StatusCode::OK, &json!({"commands": api.commands.list()})),
        (&Method::GET, path) if path.starts_with("/commands/") => {
            if !may_read {
                return fault(StatusCode::UNAUTHORIZED, "Token invalid.");
            }
            let id = path.trim_start_matches("/commands/");
            match api.commands.result(id, wait).await {
                Some(result) => reply(StatusCode::OK, &result),
                None => fault(StatusCode::NOT_FOUND, "Command result not found"),
            }
        }
        (&Method::POST, "/commands") => {
            let Some(body) = read_body(body).await else {
                return fault(StatusCode::BAD_REQUEST, "The body is not JSON");
            };
            let (Some(name), Some(params)) = (
                body.get("name").and_then(Value::as_str),
                body.get("params").and_then(Value::as_object),
            ) else {
                return fault(StatusCode::BAD_REQUEST, "Missing or invalid name or params");
            };
            if !token_right {
                return fault(StatusCode::UNAUTHORIZED, "Token invalid.");
            }
            match api.commands.execute(name, params.clone(), wait).await {
                Ok(result) => reply(StatusCode::OK, &result),
                Err(Refused::Busy(name)) => fault(
                    StatusCode::CONFLICT,
                    &format!("Agent is busy: agent is executing command {name}"),
                ),
                Err(Refused::TooMany) => fault(StatusCode::INTERNAL_SERVER_ERROR, "Too many commands in one boot"),
            }
        }
        (&Method::GET, "/commands") => fault(StatusCode::UNAUTHORIZED, "Token invalid."),
        (_, "" | "/status" | "/commands") => fault(StatusCode::METHOD_NOT_ALLOWED, "The method is not allowed"),
        _ => fault(StatusCode::NOT_FOUND, "The requested URL was not found"),
    }
}

async fn read_body(body: Incoming) -> Option<Value> {
    let body = timeout(CLIENT_DEADLINE, Limited::new(body, BODY_CAP).collect()).await;
    serde_json::from_slice(&body.ok()?.ok()?.to_bytes()).ok()
}

fn fault(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let side = if status.is_server_error() { "Server" } else { "Client" };
    reply(
        status,
        &json!({"faultcode": side, "faultstring": format!("{status}: {text}")}),
    )
}

fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let value = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, value);
    response
}
