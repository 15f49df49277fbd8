//! `/v1/ports`: the network ports that nodes are recognised by.

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use model::{MacAddress, Port};
use nodes::NodeRef;
use serde_json::{Value, json};

use crate::body::{Json, Params, Path};
use crate::error::{ApiError, ApiResult};
use crate::json_patch;
use crate::state::{ApiState, clip};
use crate::version::Base;

/// A port as clients see it.
pub(crate) fn present(port: &Port, base: &Base) -> Value {
    let port = wire::ironic::Port {
        uuid: port.id.clone(),
        address: port.address.to_string(),
        node_uuid: port.node.to_string(),
        pxe_enabled: true,
        links: base.links(&format!("ports/{}", port.id)),
        ..wire::ironic::Port::default()
    };
    serde_json::to_value(port).unwrap_or_default()
}

/// `GET /v1/ports` and `/v1/ports/detail`.
pub(crate) async fn list(State(state): State<ApiState>, RawQuery(query): RawQuery, headers: HeaderMap) -> ApiResult {
    let known = [
        "node",
        "node_uuid",
        "address",
        "detail",
        "fields",
        "limit",
        "marker",
        "sort_key",
        "sort_dir",
    ];
    let params = Params::read(query.as_deref(), &known)?;
    let address: Option<MacAddress> = params.parse("address")?;
    let mut ports = match params.text("node").or(params.text("node_uuid")) {
        Some(node) => {
            let node = crate::nodes::id_of(&state, node).await?;
            state.store.ports(Some(&node)).await?
        }
        None => state.store.ports(None).await?,
    };
    ports.retain(|port| address.is_none_or(|address| port.address == address));
    ports.sort_by(|a, b| a.id.cmp(&b.id));
    if let Some(marker) = params.text("marker") {
        ports.retain(|port| port.id.as_str() > marker);
    }
    let limit = params
        .parse::<usize>("limit")?
        .filter(|limit| *limit > 0)
        .unwrap_or(1000)
        .min(1000);
    let base = Base::of(&state, &headers);
    let more = ports.len() > limit;
    ports.truncate(limit);
    let next = ports.last().filter(|_| more).map(|last| {
        let filter = ["node", "node_uuid", "address"].into_iter();
        let filter = filter.filter_map(|key| params.text(key).map(|value| (key, value)));
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query
            .extend_pairs(filter)
            .append_pair("limit", &limit.to_string())
            .append_pair("marker", &last.id);
        format!("{}/v1/ports?{}", base.0, query.finish())
    });
    let ports = ports.iter().map(|port| present(port, &base)).collect();
    Ok(axum::Json(wire::ironic::Ports { ports, next }).into_response())
}

async fn find(state: &ApiState, id: &str) -> ApiResult<Port> {
    let ports = state.store.ports(None).await?;
    let mac: Option<MacAddress> = id.parse().ok();
    let found = ports
        .into_iter()
        .find(|port| port.id == id || mac == Some(port.address));
    found.ok_or_else(|| ApiError::NotFound(format!("there is no port `{}`", clip(id))))
}

/// `GET /v1/ports/{port}`.
pub(crate) async fn show(State(state): State<ApiState>, Path(id): Path, headers: HeaderMap) -> ApiResult {
    let port = find(&state, &id).await?;
    Ok(axum::Json(present(&port, &Base::of(&state, &headers))).into_response())
}

/// `POST /v1/ports`.
pub(crate) async fn create(State(state): State<ApiState>, headers: HeaderMap, Json(body): Json) -> ApiResult {
    let Value::Object(body) = body else {
        let text = r#"the body is no port: {"node_uuid": "…", "address": "aa:bb:cc:dd:ee:ff"}"#;
        return Err(ApiError::invalid(text));
    };
    for (key, value) in &body {
        check(key, value)?;
    }
    let field = |key: &str| match body.get(key) {
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(Value::Null) | None => Ok(None),
        Some(_) => Err(ApiError::Invalid(format!("`{key}` must be a text"))),
    };
    let address = field("address")?.ok_or_else(|| ApiError::invalid("`address` is missing"))?;
    let address = address
        .parse()
        .map_err(|error| ApiError::Invalid(format!("`address`: {error}")))?;
    let node = field("node_uuid")?.ok_or_else(|| ApiError::invalid("`node_uuid` is missing"))?;
    let node = node
        .parse()
        .map_err(|error| ApiError::Invalid(format!("`node_uuid`: {error}")))?;
    if state.store.node(&NodeRef::Id(node)).await?.is_none() {
        return Err(ApiError::Invalid(format!("`node_uuid`: there is no node `{node}`")));
    }
    let id = match field("uuid")? {
        Some(id) => uuid::Uuid::try_parse(id).map_err(|error| ApiError::Invalid(format!("`uuid`: {error}")))?,
        None => uuid::Uuid::new_v4(),
    };
    let port = Port {
        id: id.hyphenated().to_string(),
        node,
        address,
    };
    state.store.create_port(&port).await?;
    let shown = present(&port, &Base::of(&state, &headers));
    Ok((StatusCode::CREATED, axum::Json(shown)).into_response())
}

/// Takes what is kept and the values that mean nothing; refuses what would be forgotten.
fn check(key: &str, value: &Value) -> ApiResult<()> {
    let ours = match key {
        "address" | "node_uuid" | "uuid" => true,
        "pxe_enabled" => matches!(value, Value::Bool(true) | Value::Null),
        "is_smartnic" => matches!(value, Value::Bool(false) | Value::Null),
        "extra" | "local_link_connection" | "physical_network" | "portgroup_uuid" | "name" => {
            value.is_null() || *value == json!({}) || *value == json!("")
        }
        _ => false,
    };
    if ours {
        return Ok(());
    }
    let key = clip(key);
    let text = format!("`{key}` of a port is not kept by Farrier; a port has node_uuid, address and uuid");
    Err(ApiError::Invalid(text))
}

/// `PATCH /v1/ports/{port}`: its address or its node.
pub(crate) async fn patch(
    State(state): State<ApiState>,
    Path(id): Path,
    headers: HeaderMap,
    Json(body): Json,
) -> ApiResult {
    let old = find(&state, &id).await?;
    let mut document = json!({ "address": old.address.to_string(), "node_uuid": old.node.to_string() });
    for operation in json_patch::parse(body)? {
        let path = operation.path.clone();
        match path.as_str() {
            "/address" | "/node_uuid" => json_patch::apply(&mut document, operation)?,
            _ => {
                let value = operation.value.unwrap_or(Value::Null);
                check(path.split('/').nth(1).unwrap_or(""), &value)
                    .map_err(|error| json_patch::at(&path, &error.to_string()))?;
            }
        }
    }
    let field = |key: &str| document[key].as_str().unwrap_or("");
    let address = field("address")
        .parse()
        .map_err(|error| ApiError::Invalid(format!("`/address`: {error}")))?;
    let node = field("node_uuid")
        .parse()
        .map_err(|error| ApiError::Invalid(format!("`/node_uuid`: {error}")))?;
    let new = Port {
        id: old.id.clone(),
        node,
        address,
    };
    if new != old {
        replace(&state, &old, &new).await?;
    }
    Ok(axum::Json(present(&new, &Base::of(&state, &headers))).into_response())
}

/// The store has no write to a port, so the old one makes way for the new one; if that is refused it comes back.
async fn replace(state: &ApiState, old: &Port, new: &Port) -> ApiResult<()> {
    let taken = state.store.ports(None).await?;
    if let Some(other) = taken
        .iter()
        .find(|port| port.address == new.address && port.id != old.id)
    {
        let text = format!(
            "MAC address `{}` is taken already by port {} of node {}",
            new.address, other.id, other.node
        );
        return Err(ApiError::Conflict(text));
    }
    if state.store.node(&NodeRef::Id(new.node)).await?.is_none() {
        return Err(ApiError::Invalid(format!(
            "`/node_uuid`: there is no node `{}`",
            new.node
        )));
    }
    state.store.delete_port(&old.id).await?;
    if let Err(error) = state.store.create_port(new).await {
        state.store.create_port(old).await?;
        return Err(error.into());
    }
    Ok(())
}

/// `DELETE /v1/ports/{port}`.
pub(crate) async fn delete(State(state): State<ApiState>, Path(id): Path) -> ApiResult {
    let port = find(&state, &id).await?;
    state.store.delete_port(&port.id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
