//! `/v1/nodes/{node}/vendor_passthru`: the method that the drivers have, `boot_into_iso`, and those of the node's vendor plugin.

use axum::extract::{RawQuery, State};
use axum::http::Method;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use wire::ironic::BootIntoIso;

use super::states;
use crate::body::{Json, Params, Path};
use crate::error::{ApiError, ApiResult};
use crate::state::{ApiState, VendorMethod, clip};

/// The drivers' own method: no plugin can take its name.
const BOOT_INTO_ISO: &str = "boot_into_iso";

/// `GET …/vendor_passthru/methods`.
pub(crate) async fn methods(State(state): State<ApiState>, Path(node): Path) -> ApiResult {
    let record = state.node(&node).await?;
    let mut methods = json!({
        BOOT_INTO_ISO: {
            "http_methods": ["POST"],
            "async": true,
            "attach": false,
            "require_exclusive_lock": true,
            "description": "Boots the server once from an ISO that its BMC fetches: {\"boot_iso_href\": URL}",
        }
    });
    for method in of_plugin(&state, &record).await? {
        // A schema that is no JSON is shown as the text that it is.
        let arguments =
            serde_json::from_str(&method.arguments).unwrap_or_else(|_| Value::from(method.arguments.as_str()));
        methods[&method.name] = json!({
            "http_methods": method.http_methods,
            "async": method.asynchronous,
            "attach": false,
            "require_exclusive_lock": true,
            "description": method.description,
            "arguments": arguments,
        });
    }
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
        Some(BOOT_INTO_ISO) if method == Method::POST => {
            let request: BootIntoIso = body.shape("boot_into_iso call ({\"boot_iso_href\": URL})")?;
            states::boot_into_iso(&state, &node, request.boot_iso_href).await
        }
        Some(BOOT_INTO_ISO) => Err(ApiError::invalid("boot_into_iso takes POST")),
        Some(name) => call_plugin(&state, &node, name, &method, &body.0).await,
        None => Err(ApiError::invalid("query parameter `method` is missing")),
    }
}

/// What a vendor plugin adds, without what would hide a method of the drivers.
async fn of_plugin(state: &ApiState, record: &nodes::Record) -> ApiResult<Vec<VendorMethod>> {
    let Some(plugins) = &state.plugins else {
        return Ok(Vec::new());
    };
    let mut methods = plugins.vendor_methods(record).await?;
    methods.retain(|method| method.name != BOOT_INTO_ISO);
    Ok(methods)
}

async fn call_plugin(state: &ApiState, node: &str, name: &str, http: &Method, arguments: &Value) -> ApiResult {
    let record = state.node(node).await?;
    let methods = of_plugin(state, &record).await?;
    let Some(method) = methods.iter().find(|method| method.name == name) else {
        let mut known = vec![BOOT_INTO_ISO];
        known.extend(methods.iter().map(|method| method.name.as_str()));
        let text = format!(
            "there is no vendor method `{}`; known are: {}",
            clip(name),
            known.join(", ")
        );
        return Err(ApiError::Invalid(text));
    };
    if !method.http_methods.iter().any(|taken| taken == http.as_str()) {
        let taken = method.http_methods.join(", ");
        return Err(ApiError::Invalid(format!("{} takes {taken}", clip(name))));
    }
    let Some(plugins) = &state.plugins else {
        return Err(ApiError::NotFound("this process runs no plugins".to_owned()));
    };
    let arguments = match arguments.is_null() {
        true => "{}".to_owned(),
        false => arguments.to_string(),
    };
    let answer = plugins.vendor_call(&record, name, &arguments).await?;
    Ok(axum::Json(answer).into_response())
}
