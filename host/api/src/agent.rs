//! What deploy ramdisks call: `GET /v1/lookup` and `POST /v1/heartbeat/{node}`. Anybody on the deploy network can reach these,
//! so a refusal tells nothing about nodes, and nothing is believed without the node's token.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use conductor::heartbeat::{self, Heartbeat, HeartbeatRefusal};
use model::{AgentContact, MacAddress, Node, NodeId, ProvisionState, Secret};
use nodes::{NodeRef, Record, StoreError, Writer};
use wire::ironic::{Lookup, LookupConfig, LookupNode};

use crate::body::{Json, Params, Path};
use crate::error::{ApiError, ApiResult};
use crate::nodes::{accepted, present};
use crate::secrets::{self, MASK};
use crate::state::ApiState;
use crate::version::Base;

/// Addresses in one lookup; a server has a handful of ports.
const MAX_ADDRESSES: usize = 64;
/// How often a write is tried against the conductor's own.
const MAX_TRIES: u32 = 8;

/// Checks a heartbeat against its node: `conductor::heartbeat::accept` with the site's call-back policy.
pub type AcceptHeartbeat =
    Arc<dyn Fn(&Node, &Heartbeat, SystemTime) -> Result<AgentContact, HeartbeatRefusal> + Send + Sync>;

/// What the site lets agents do.
#[derive(Clone)]
pub struct AgentPolicy {
    /// Decides about heartbeats.
    pub accept: AcceptHeartbeat,
    /// Within which time an agent must be heard again; agents call two or three times in it.
    pub heartbeat_timeout: Duration,
}

/// The one answer to every lookup and heartbeat that leads nowhere.
fn nothing() -> ApiError {
    ApiError::NotFound("no node of that description waits for an agent".to_owned())
}

/// A ramdisk of ours runs on the node, or is about to.
fn expects_agent(node: &Node) -> bool {
    use ProvisionState as S;
    let state = node.provision_state;
    state.waits_for_agent() || matches!(state, S::Deploying | S::Cleaning | S::Inspecting | S::Rescuing)
}

/// `GET /v1/lookup?addresses=…&node_uuid=…`.
pub(crate) async fn lookup(State(state): State<ApiState>, RawQuery(query): RawQuery, headers: HeaderMap) -> ApiResult {
    let params = Params::read(query.as_deref(), &["addresses", "node_uuid"])?;
    // Ports that are no Ethernet have addresses of another form; as in Ironic, those are passed over.
    let addresses: Vec<MacAddress> = params
        .text("addresses")
        .into_iter()
        .flat_map(|list| list.split(','))
        .take(MAX_ADDRESSES)
        .filter_map(|address| address.trim().parse().ok())
        .collect();
    let id: Option<NodeId> = params.parse("node_uuid")?;
    let record = match id {
        Some(id) => state.store.node(&NodeRef::Id(id)).await?,
        None if addresses.is_empty() => {
            let text = "a lookup needs `node_uuid` or at least one MAC address in `addresses`";
            return Err(ApiError::invalid(text));
        }
        None => state.store.node_by_macs(&addresses).await?,
    };
    let record = record
        .filter(|record| expects_agent(&record.node))
        .ok_or_else(nothing)?;
    let (record, token) = with_token(&state, record).await?;
    let node = &record.node;
    let answer = Lookup {
        node: LookupNode {
            uuid: node.id.to_string(),
            properties: secrets::masked(&node.properties),
            instance_info: secrets::masked(&node.instance_info),
            driver_internal_info: present::internal_info(node),
            links: Base::of(&state, &headers).links(&format!("nodes/{}", node.id)),
        },
        config: LookupConfig {
            heartbeat_timeout: state.agent.heartbeat_timeout.as_secs(),
            agent_token: Some(token.expose().to_owned()),
            agent_token_required: true,
            permitted_image_formats: vec!["raw".to_owned()],
            ..LookupConfig::default()
        },
    };
    Ok(axum::Json(answer).into_response())
}

/// A node that has a token shows it as stars: its ramdisk got it with its parameters. One that has none gets one, which is
/// told this once.
async fn with_token(state: &ApiState, mut record: Record) -> ApiResult<(Record, Secret)> {
    let mut tries = 0;
    loop {
        if record.node.agent.token.is_some() {
            return Ok((record, Secret::new(MASK)));
        }
        let token = heartbeat::fresh_token();
        record.node.agent.token = Some(token.clone());
        match state.store.update_node(&record, &Writer::User).await {
            Ok(record) => return Ok((record, token)),
            Err(StoreError::VersionConflict { .. }) if tries < MAX_TRIES => {
                tries += 1;
                let id = NodeRef::Id(record.node.id);
                let again = state.store.node(&id).await?;
                record = again.filter(|record| expects_agent(&record.node)).ok_or_else(nothing)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// `POST /v1/heartbeat/{node}`.
pub(crate) async fn heartbeat(State(state): State<ApiState>, Path(node): Path, body: Json) -> ApiResult {
    let given: wire::ironic::Heartbeat = body.shape("heartbeat")?;
    let Some(callback_url) = given.callback_url else {
        return Err(ApiError::invalid("`callback_url` is missing"));
    };
    let beat = Heartbeat {
        callback_url,
        agent_version: given.agent_version,
        agent_token: given.agent_token.map(Secret::new),
        agent_verify_ca: given.agent_verify_ca,
    };
    let taken = state
        .update(&node, |record| {
            let contact = (state.agent.accept)(&record.node, &beat, SystemTime::now());
            // A ramdisk has nobody to tell; the operator sees here why it is not heard.
            record.node.agent = contact.map_err(|reason| {
                tracing::warn!(node = %record.node.id, %reason, "a heartbeat was refused");
                refusal(reason)
            })?;
            Ok(())
        })
        .await;
    match taken {
        Ok(record) => {
            (state.wake)(&record.node.id);
            Ok(accepted())
        }
        Err(ApiError::NotFound(_)) => Err(nothing()),
        // The record is being written all the time: the agent calls again soon, as with a locked node in Ironic.
        Err(ApiError::Store(StoreError::VersionConflict { .. })) => Ok(accepted()),
        Err(error) => Err(error),
    }
}

/// Ironic answers 400 to a heartbeat that it does not believe.
fn refusal(refusal: HeartbeatRefusal) -> ApiError {
    match refusal {
        HeartbeatRefusal::Unexpected => nothing(),
        other => ApiError::Invalid(other.to_string()),
    }
}
