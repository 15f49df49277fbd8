//! `/farrier/v1/plugins`: which plugins decide, what they did, and putting other versions in their place.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wire::farrier;

use crate::body::{Json, Params, Path};
use crate::error::{ApiError, ApiResult};
use crate::state::{ApiState, Plugins};

/// Longest body with a component: one of 64 MiB, in base64.
pub(crate) const MAX_COMPONENT_BODY: usize = 88 << 20;

fn runtime(state: &ApiState) -> ApiResult<&Arc<dyn Plugins>> {
    let missing = || ApiError::NotFound("this process runs no plugins".to_owned());
    state.plugins.as_ref().ok_or_else(missing)
}

/// `GET /farrier/v1/plugins`.
pub(crate) async fn list(State(state): State<ApiState>) -> ApiResult {
    let plugins = runtime(&state)?.plugins().await;
    Ok(axum::Json(farrier::Plugins { plugins }).into_response())
}

/// `GET /farrier/v1/plugins/calls`.
pub(crate) async fn calls(State(state): State<ApiState>, RawQuery(query): RawQuery) -> ApiResult {
    let params = Params::read(query.as_deref(), &["limit"])?;
    let limit = params.parse("limit")?.unwrap_or(100usize).min(10_000);
    let calls = runtime(&state)?.calls(limit).await;
    Ok(axum::Json(farrier::PluginCalls { calls }).into_response())
}

/// `GET /farrier/v1/plugins/changes`.
pub(crate) async fn changes(State(state): State<ApiState>) -> ApiResult {
    let changes = runtime(&state)?.changes().await;
    Ok(axum::Json(farrier::PluginChanges { changes }).into_response())
}

/// `GET /farrier/v1/plugins/shadows`.
pub(crate) async fn shadows(State(state): State<ApiState>) -> ApiResult {
    let runs = runtime(&state)?.shadows().await;
    Ok(axum::Json(farrier::ShadowRuns { runs }).into_response())
}

/// `GET /farrier/v1/nodes/{node}/plugins`.
pub(crate) async fn explain(State(state): State<ApiState>, Path(node): Path) -> ApiResult {
    let record = state.node(&node).await?;
    let roles = runtime(&state)?.explain(&record.node).await;
    Ok(axum::Json(farrier::NodePlugins { roles }).into_response())
}

/// `PUT /farrier/v1/plugins/{entry}`.
pub(crate) async fn swap(State(state): State<ApiState>, Path(entry): Path, body: Json) -> ApiResult {
    let wanted: farrier::PluginUse = body.shape("version to use ({\"component\": BASE64})")?;
    let component = STANDARD
        .decode(&wanted.component)
        .map_err(|error| ApiError::Invalid(format!("`component` is no base64: {error}")))?;
    let runtime = runtime(&state)?;
    let change = runtime
        .swap(&entry, wanted.role.as_deref(), component, wanted.again)
        .await?;
    Ok(axum::Json(farrier::PluginSwap { change }).into_response())
}

/// `POST /farrier/v1/plugins/{entry}/rollback`.
pub(crate) async fn roll_back(State(state): State<ApiState>, Path(entry): Path, body: Json) -> ApiResult {
    let wanted = match body.0.is_null() {
        true => farrier::PluginRollback::default(),
        false => body.shape::<farrier::PluginRollback>("rollback ({\"reason\": TEXT})")?,
    };
    let reason: String = wanted.reason.as_deref().unwrap_or_default().chars().take(200).collect();
    let why = match reason.is_empty() {
        true => "an operator rolled it back".to_owned(),
        false => format!("an operator rolled it back: {reason}"),
    };
    let change = runtime(&state)?.roll_back(&entry, wanted.role.as_deref(), &why).await?;
    Ok(axum::Json(change).into_response())
}
