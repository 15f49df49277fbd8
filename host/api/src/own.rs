//! Farrier's own addresses, under `/farrier/v1`: progress, artefacts, conductors, effects.

use std::collections::HashMap;

use axum::extract::{RawQuery, State};
use axum::response::IntoResponse;
use nodes::{ArtefactRecord, Filter, Outcome};
use wire::farrier;

use crate::body::{Params, Path};
use crate::error::ApiResult;
use crate::nodes::states;
use crate::state::ApiState;
use crate::time;

/// Nodes in one page of artefacts.
const PAGE: u32 = 500;

fn artefact(state: &ApiState, record: &ArtefactRecord) -> farrier::Artefact {
    let reads = state
        .embedded
        .as_ref()
        .and_then(|embedded| embedded.reads(&record.name));
    farrier::Artefact {
        node: record.node.to_string(),
        kind: record.kind.as_str().to_owned(),
        backend: record.backend.clone(),
        digest: record.digest.to_string(),
        size: record.size,
        published_by: record.published_by.as_str().to_owned(),
        published_at: time::text(record.published_at).unwrap_or_default(),
        expires: record.expires.and_then(time::text),
        bytes_read: reads.map(|reads| reads.bytes),
        read_percent: state
            .embedded
            .as_ref()
            .and_then(|embedded| embedded.read_percent(&record.name)),
        reads: reads.map(|reads| reads.requests),
        last_read_at: reads.and_then(|reads| reads.last).and_then(time::text),
        last_read_by: reads.and_then(|reads| reads.by).map(|by| by.to_canonical().to_string()),
    }
}

/// `GET /farrier/v1/nodes/{node}/progress`.
pub(crate) async fn progress(State(state): State<ApiState>, Path(node): Path) -> ApiResult {
    let record = state.node(&node).await?;
    let node = &record.node;
    let artefacts = state.store.artefacts(&node.id).await?;
    let artefacts: Vec<_> = artefacts.iter().map(|record| artefact(&state, record)).collect();
    let progress = farrier::Progress {
        node: node.id.to_string(),
        provision_state: node.provision_state.as_str().to_owned(),
        target_provision_state: node.target_provision_state.map(|state| state.as_str().to_owned()),
        wish: node.wish.as_ref().map(states::describe),
        step: node.step.clone(),
        percent: node.step_percent,
        bytes_read: artefacts.iter().filter_map(|artefact| artefact.bytes_read).sum(),
        artefacts,
        agent_seen_at: node.agent.last_heartbeat.and_then(time::text),
        deadline: node.deadline.and_then(time::text),
        last_error: node.last_error.clone(),
    };
    Ok(axum::Json(progress).into_response())
}

/// `GET /farrier/v1/artefacts`, of one node (`?node=`) or of all, by pages of nodes.
pub(crate) async fn artefacts(State(state): State<ApiState>, RawQuery(query): RawQuery) -> ApiResult {
    let params = Params::read(query.as_deref(), &["node", "marker"])?;
    let mut answer = farrier::Artefacts::default();
    let nodes = match params.text("node") {
        Some(node) => vec![state.node(node).await?],
        None => {
            let after = params.parse("marker")?;
            let filter = Filter {
                after,
                limit: Some(PAGE),
                ..Filter::default()
            };
            let page = state.store.nodes(&filter).await?;
            let full = u32::try_from(page.len()).is_ok_and(|len| len == PAGE);
            answer.next = page.last().filter(|_| full).map(|record| record.node.id.to_string());
            page
        }
    };
    for record in nodes {
        let found = state.store.artefacts(&record.node.id).await?;
        answer
            .artefacts
            .extend(found.iter().map(|record| artefact(&state, record)));
    }
    Ok(axum::Json(answer).into_response())
}

/// `GET /farrier/v1/conductors`.
pub(crate) async fn conductors(State(state): State<ApiState>) -> ApiResult {
    let mut owned: HashMap<String, u64> = HashMap::new();
    let mut filter = Filter {
        limit: Some(PAGE),
        ..Filter::default()
    };
    loop {
        let page = state.store.nodes(&filter).await?;
        for owner in page.iter().filter_map(|record| record.owner.as_ref()) {
            *owned.entry(owner.as_str().to_owned()).or_default() += 1;
        }
        filter.after = page.last().map(|record| record.node.id);
        if !u32::try_from(page.len()).is_ok_and(|len| len == PAGE) {
            break;
        }
    }
    let conductors = state.store.conductors().await?;
    let conductors = conductors
        .into_iter()
        .map(|conductor| farrier::Conductor {
            nodes: owned.get(conductor.name.as_str()).copied().unwrap_or(0),
            name: conductor.name.as_str().to_owned(),
            group: conductor.group,
            alive: conductor.alive,
            api_url: conductor.api_url,
            images_url: conductor.images_url,
            agent_urls: conductor.agent_urls,
            seen_at: time::text(conductor.seen_at).unwrap_or_default(),
        })
        .collect();
    Ok(axum::Json(farrier::Conductors { conductors }).into_response())
}

/// `GET /farrier/v1/nodes/{node}/effects`: the journal.
pub(crate) async fn effects(State(state): State<ApiState>, Path(node): Path, RawQuery(query): RawQuery) -> ApiResult {
    let params = Params::read(query.as_deref(), &["limit"])?;
    let limit = params.parse("limit")?.unwrap_or(100u32).min(1000);
    let record = state.node(&node).await?;
    let effects = state.store.effects(&record.node.id, limit).await?;
    let effects = effects
        .into_iter()
        .map(|effect| {
            let (outcome, error) = match effect.outcome {
                Some(Outcome::Done) => ("done", None),
                Some(Outcome::Failed(error)) => ("failed", Some(error)),
                None => ("unknown", None),
            };
            farrier::Effect {
                id: effect.id,
                conductor: effect.tenure.conductor.as_str().to_owned(),
                term: effect.tenure.term,
                action: effect.action,
                detail: effect.detail,
                began_at: time::text(effect.began_at).unwrap_or_default(),
                outcome: outcome.to_owned(),
                error,
            }
        })
        .collect();
    Ok(axum::Json(farrier::Effects { effects }).into_response())
}
