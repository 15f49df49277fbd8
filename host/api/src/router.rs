//! Which address leads where, and what is true of every request.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post, put};
use hyper::service::service_fn;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::auth::{self, User};
use crate::body::MAX_BODY;
use crate::error::ApiError;
use crate::listen::{self, Limits};
use crate::state::{ApiState, clip};
use crate::{agent, drivers, events, health, nodes, own, plugins, ports, version};

/// How long a request may take, from its head to the head of its answer.
const REQUEST_TIME: Duration = Duration::from_secs(30);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-openstack-request-id");

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The whole API.
pub fn router(state: ApiState) -> Router {
    let v1 = Router::new()
        .route("/", get(version::root))
        .route("/v1", get(version::v1))
        .route("/v1/", get(version::v1))
        .route("/v1/nodes", get(nodes::list).post(nodes::create))
        .route("/v1/nodes/", get(nodes::list).post(nodes::create))
        .route("/v1/nodes/detail", get(nodes::list_detail))
        .route(
            "/v1/nodes/{node}",
            get(nodes::show).patch(nodes::patch).delete(nodes::delete),
        )
        .route("/v1/nodes/{node}/states", get(nodes::states::show))
        .route("/v1/nodes/{node}/states/provision", put(nodes::states::provision))
        .route("/v1/nodes/{node}/states/power", put(nodes::states::power))
        .route(
            "/v1/nodes/{node}/maintenance",
            put(nodes::states::set_maintenance).delete(nodes::states::end_maintenance),
        )
        .route("/v1/nodes/{node}/validate", get(nodes::validate::validate))
        .route("/v1/nodes/{node}/vendor_passthru", any(nodes::vendor::call))
        .route("/v1/nodes/{node}/vendor_passthru/methods", get(nodes::vendor::methods))
        .route("/v1/nodes/{node}/ports", get(nodes::ports))
        .route("/v1/ports", get(ports::list).post(ports::create))
        .route("/v1/ports/", get(ports::list).post(ports::create))
        .route("/v1/ports/detail", get(ports::list))
        .route(
            "/v1/ports/{port}",
            get(ports::show).patch(ports::patch).delete(ports::delete),
        )
        .route("/v1/drivers", get(drivers::list))
        .route("/v1/drivers/{driver}", get(drivers::show))
        .route("/v1/drivers/{driver}/properties", get(drivers::properties))
        .route("/v1/conductors", get(drivers::conductors))
        .route("/v1/conductors/{conductor}", get(drivers::show_conductor))
        .route("/v1/lookup", get(agent::lookup))
        .route("/v1/heartbeat/{node}", post(agent::heartbeat))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn(version::negotiate));
    let own = Router::new()
        .route("/farrier/v1/nodes/{node}/progress", get(own::progress))
        .route("/farrier/v1/nodes/{node}/effects", get(own::effects))
        .route("/farrier/v1/artefacts", get(own::artefacts))
        .route("/farrier/v1/events", get(events::events))
        .route("/farrier/v1/conductors", get(own::conductors))
        .route("/farrier/v1/nodes/{node}/plugins", get(plugins::explain))
        .route("/farrier/v1/plugins", get(plugins::list))
        .route("/farrier/v1/plugins/calls", get(plugins::calls))
        .route("/farrier/v1/plugins/changes", get(plugins::changes))
        .route("/farrier/v1/plugins/shadows", get(plugins::shadows))
        .route(
            "/farrier/v1/plugins/{entry}",
            put(plugins::swap).layer(DefaultBodyLimit::max(plugins::MAX_COMPONENT_BODY)),
        )
        .route("/farrier/v1/plugins/{entry}/rollback", post(plugins::roll_back))
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::metrics))
        .method_not_allowed_fallback(wrong_method);
    let checked = v1.merge(own).layer(from_fn_with_state(state.clone(), auth::check));
    finish(checked, state)
}

/// What ramdisks may reach: discovery, lookup and heartbeat.
pub fn agent_router(state: ApiState) -> Router {
    let routes = Router::new()
        .route("/", get(version::root))
        .route("/v1", get(version::v1))
        .route("/v1/", get(version::v1))
        .route("/v1/lookup", get(agent::lookup))
        .route("/v1/heartbeat/{node}", post(agent::heartbeat))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn(version::negotiate));
    finish(routes, state)
}

fn finish(routes: Router<ApiState>, state: ApiState) -> Router {
    routes
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn(in_time))
        .layer(from_fn(audited))
        .with_state(state)
}

/// Answers on a listener until it is told to stop.
pub async fn serve(listener: TcpListener, limits: Limits, router: Router, stop: CancellationToken) {
    let answer = move |peer: SocketAddr| {
        let router = router.clone();
        service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let mut request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(Peer(peer));
            router.clone().oneshot(request)
        })
    };
    listen::serve(listener, limits, answer, stop).await;
}

async fn unknown(request: Request) -> ApiError {
    let path = clip(request.uri().path());
    ApiError::NotFound(format!("`{path}` is no address of this API"))
}

async fn wrong_method(method: Method) -> ApiError {
    ApiError::Method(clip(method.as_str()))
}

/// Gives up on a request that takes too long; what it has recorded by then stays.
async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(REQUEST_TIME, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::TooSlow(REQUEST_TIME.as_secs()).into_response(),
    }
}

/// Numbers a request, and writes down who changed what.
async fn audited(request: Request, next: Next) -> Response {
    let id = format!("req-{}", uuid::Uuid::new_v4().hyphenated());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let peer = request
        .extensions()
        .get::<Peer>()
        .map(|peer| peer.0.ip().to_canonical().to_string());
    let mut response = next.run(request).await;
    let changes = !matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
    // Heartbeats come all the time and change nothing that a user decided.
    if changes && !path.starts_with("/v1/heartbeat/") {
        let user = response.extensions().get::<User>().map(|user| user.0.clone());
        let status = response.status().as_u16();
        tracing::info!(target: "farrier::audit", request = %id, user, from = peer, %method, path, status);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}
