//! `/v1/nodes/{node}/vendor_passthru`: the one vendor method that the drivers have, `boot_into_iso`.

use axum::extract::{RawQuery, State};
use axum::http::Method;
use axum::response::IntoResponse;
use serde_json::json;
use wire::ironic::BootIntoIso;

use super::states;
use crate::body::{Json, Params, Path};
use crate::error::{ApiError, ApiResult};
use crate::state::{ApiState, clip};

/// `GET …/vendor_passthru/methods`.
pub(crate) async fn methods(State(state): State<ApiState>, Path(node): Path) -> ApiResult {
    state.node(&node).await?;
    let methods = json!({
        "boot_into_iso": {
            "http_methods": ["POST"],
            "async": true,
            "attach": false,
            "require_exclusive_lock": true,
            "description": "Boots the server once from an ISO that its BMC fetches: {\"boot_iso_href\": URL}",
        }
    });
    Ok(axum::Json(methods).into_response())
}

/// `… /vendor_passthru?method=…`.
pub(crate) async fn call(
    State(state): State<ApiState>,
    Path(node): Path,
    RawQuery(query): RawQuery,
    method: Method,
    body: Json,
) -> ApiResult {
    let params = Params::read(query.as_deref(), &["method"])?;
    match params.text("method") {
        Some("boot_into_iso") if method == Method::POST => {
            let request: BootIntoIso = body.shape("boot_into_iso call ({\"boot_iso_href\": URL})")?;
            states::boot_into_iso(&state, &node, request.boot_iso_href).await
        }
        Some("boot_into_iso") => Err(ApiError::invalid("boot_into_iso takes POST")),
        Some(other) => {
            let text = format!("there is no vendor method `{}`; known are: boot_into_iso", clip(other));
            Err(ApiError::Invalid(text))
        }
        None => Err(ApiError::invalid("query parameter `method` is missing")),
    }
}
