//! `/v1/nodes`: list, create, show, patch, delete.

mod edit;
pub(crate) mod present;
pub(crate) mod states;
pub(crate) mod validate;
pub(crate) mod vendor;

use std::time::SystemTime;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::{NodeId, ProvisionState};
use nodes::{Filter, NodeRef, Record};
use serde_json::Value;

use crate::body::{Json, Params, Path};
use crate::error::{ApiError, ApiResult};
use crate::json_patch;
use crate::state::{ApiState, clip};
use crate::version::Base;
use present::Pick;

/// Nodes in one page, at most.
const MAX_PAGE: u32 = 1000;

/// `GET /v1/nodes`.
pub(crate) async fn list(State(state): State<ApiState>, RawQuery(query): RawQuery, headers: HeaderMap) -> ApiResult {
    let known = [LIST_PARAMETERS, &["detail"]].concat();
    let params = Params::read(query.as_deref(), &known)?;
    let detail = params.flag("detail")?.unwrap_or(false);
    list_nodes(&state, &params, detail, "nodes", &headers).await
}

/// `GET /v1/nodes/detail`.
pub(crate) async fn list_detail(
    State(state): State<ApiState>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> ApiResult {
    let params = Params::read(query.as_deref(), LIST_PARAMETERS)?;
    list_nodes(&state, &params, true, "nodes/detail", &headers).await
}

const LIST_PARAMETERS: &[&str] = &[
    "fields",
    "limit",
    "marker",
    "provision_state",
    "maintenance",
    "conductor",
    "conductor_group",
    "driver",
    "fault",
    "associated",
    "sort_key",
    "sort_dir",
];

async fn list_nodes(state: &ApiState, params: &Params, detail: bool, path: &str, headers: &HeaderMap) -> ApiResult {
    let pick = match (params.text("fields"), detail) {
        (Some(_), true) => {
            return Err(ApiError::invalid("`fields` and `detail` exclude each other"));
        }
        (Some(fields), false) => Pick::parse(fields)?,
        (None, true) => Pick::All,
        (None, false) => Pick::brief(),
    };
    let sort = params.text("sort_key").unwrap_or("uuid");
    if !matches!(sort, "uuid" | "id") || params.text("sort_dir").unwrap_or("asc") != "asc" {
        return Err(ApiError::invalid("nodes come in the rising order of their UUIDs only"));
    }
    let limit = params.parse::<u32>("limit")?.filter(|limit| *limit > 0);
    let limit = limit.unwrap_or(MAX_PAGE).min(MAX_PAGE);
    let wanted = Wanted::read(params)?;
    let mut filter = Filter {
        provision_state: params.parse("provision_state")?,
        owner: params.parse("conductor")?,
        maintenance: params.flag("maintenance")?,
        after: params.parse::<NodeId>("marker")?,
        limit: Some(limit + 1),
    };
    let mut found: Vec<Record> = Vec::new();
    let wanted_count = usize::try_from(limit).unwrap_or(usize::MAX);
    while found.len() <= wanted_count {
        let page = state.store.nodes(&filter).await?;
        let full = page.len() > wanted_count;
        filter.after = page.last().map(|record| record.node.id);
        found.extend(page.into_iter().filter(|record| wanted.takes(record)));
        if !full {
            break;
        }
    }
    let base = Base::of(state, headers);
    let more = found.len() > wanted_count;
    found.truncate(wanted_count);
    let next = found
        .last()
        .filter(|_| more)
        .map(|last| next_page(&base, path, params, last, limit));
    let nodes = found.iter().map(|record| pick.show(record, &base)).collect();
    Ok(axum::Json(wire::ironic::Nodes { nodes, next }).into_response())
}

/// Filters that the store does not know.
struct Wanted {
    driver: Option<model::Driver>,
    group: Option<String>,
    fault: Option<String>,
    associated: bool,
}

impl Wanted {
    fn read(params: &Params) -> ApiResult<Self> {
        Ok(Self {
            driver: params.parse("driver")?,
            group: params.text("conductor_group").map(str::to_ascii_lowercase),
            fault: params.text("fault").map(str::to_owned),
            associated: params.flag("associated")?.unwrap_or(false),
        })
    }

    fn takes(&self, record: &Record) -> bool {
        let node = &record.node;
        // No node is associated with a compute service's instance.
        !self.associated
            && self.driver.is_none_or(|driver| driver == node.driver)
            && self.group.as_ref().is_none_or(|group| *group == node.conductor_group)
            && self
                .fault
                .as_ref()
                .is_none_or(|fault| present::node(record, &Base(String::new())).fault.as_ref() == Some(fault))
    }
}

fn next_page(base: &Base, path: &str, params: &Params, last: &Record, limit: u32) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for key in LIST_PARAMETERS {
        if let Some(value) = params.text(key).filter(|_| !matches!(*key, "limit" | "marker")) {
            query.append_pair(key, value);
        }
    }
    query.append_pair("limit", &limit.to_string());
    query.append_pair("marker", &last.node.id.to_string());
    format!("{}/v1/{path}?{}", base.0, query.finish())
}

/// `POST /v1/nodes`.
pub(crate) async fn create(State(state): State<ApiState>, headers: HeaderMap, Json(body): Json) -> ApiResult {
    let node = edit::create(body, SystemTime::now(), &state.site)?;
    let record = state.store.create_node(&node, &[]).await?;
    (state.wake)(&node.id);
    let base = Base::of(&state, &headers);
    let mut response = (StatusCode::CREATED, axum::Json(Pick::All.show(&record, &base))).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("{}/v1/nodes/{}", base.0, node.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// `GET /v1/nodes/{node}`.
pub(crate) async fn show(
    State(state): State<ApiState>,
    Path(node): Path,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> ApiResult {
    let params = Params::read(query.as_deref(), &["fields"])?;
    let pick = params.text("fields").map_or(Ok(Pick::All), Pick::parse)?;
    let record = state.node(&node).await?;
    let base = Base::of(&state, &headers);
    Ok(axum::Json(pick.show(&record, &base)).into_response())
}

/// `PATCH /v1/nodes/{node}`.
pub(crate) async fn patch(
    State(state): State<ApiState>,
    Path(node): Path,
    headers: HeaderMap,
    Json(body): Json,
) -> ApiResult {
    let operations = json_patch::parse(body)?;
    let record = state
        .update(&node, |record| edit::patch(&mut record.node, &operations, &state.site))
        .await?;
    (state.wake)(&record.node.id);
    let base = Base::of(&state, &headers);
    Ok(axum::Json(Pick::All.show(&record, &base)).into_response())
}

/// `DELETE /v1/nodes/{node}`.
pub(crate) async fn delete(State(state): State<ApiState>, Path(node): Path) -> ApiResult {
    let record = state.node(&node).await?;
    deletable(&record.node, &node)?;
    let artefacts = state.store.artefacts(&record.node.id).await?;
    if !artefacts.is_empty() && !record.node.maintenance {
        let kinds: Vec<_> = artefacts.iter().map(|artefact| artefact.kind.as_str()).collect();
        return Err(ApiError::Conflict(format!(
            "node {node} still has published artefacts ({}); undeploy it first, or put it into maintenance to delete it nevertheless",
            kinds.join(", ")
        )));
    }
    state.store.delete_node(&record).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// As Ironic has it: nodes that nobody uses and that nothing is done to; in maintenance any node that is not worked on.
fn deletable(node: &model::Node, name: &str) -> ApiResult<()> {
    use ProvisionState as S;
    let state = node.provision_state;
    let idle = matches!(
        state,
        S::Enroll
            | S::Manageable
            | S::Available
            | S::CleanFailed
            | S::DeployFailed
            | S::InspectFailed
            | S::AdoptFailed
            | S::Error
    );
    states::free(node, name)?;
    if state.waits_for_agent() && !node.maintenance {
        let text = format!(
            "node {} waits for its ramdisk (state `{state}`); abort that first",
            clip(name)
        );
        return Err(ApiError::Conflict(text));
    }
    if !idle && !node.maintenance {
        let text = format!(
            "node {} is in state `{state}`; undeploy it first, or put it into maintenance to delete it nevertheless",
            clip(name)
        );
        return Err(ApiError::Conflict(text));
    }
    Ok(())
}

/// `GET /v1/nodes/{node}/ports`.
pub(crate) async fn ports(State(state): State<ApiState>, Path(node): Path, headers: HeaderMap) -> ApiResult {
    let record = state.node(&node).await?;
    let ports = state.store.ports(Some(&record.node.id)).await?;
    let base = Base::of(&state, &headers);
    let ports: Vec<Value> = ports.iter().map(|port| crate::ports::present(port, &base)).collect();
    Ok(axum::Json(wire::ironic::Ports { ports, next: None }).into_response())
}

/// The response to a wish that was recorded.
pub(crate) fn accepted() -> Response {
    StatusCode::ACCEPTED.into_response()
}

/// Reads a node's UUID or name for use in a filter.
pub(crate) async fn id_of(state: &ApiState, text: &str) -> ApiResult<NodeId> {
    match text.parse() {
        Ok(id) => match state.store.node(&NodeRef::Id(id)).await? {
            Some(_) => Ok(id),
            None => Err(ApiError::NotFound(format!("there is no node `{text}`"))),
        },
        Err(_) => Ok(state.node(text).await?.node.id),
    }
}
