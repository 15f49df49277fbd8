//! `GET /farrier/v1/events`: what happened, as a list or as server-sent events (WHATWG HTML §9.2).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures_util::stream::{self, Stream};
use model::NodeId;
use nodes::Event;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::farrier;

use crate::body::Params;
use crate::error::{ApiError, ApiResult};
use crate::state::ApiState;
use crate::time;

/// Events in one answer, and in one look of a stream.
const MAX_PAGE: u32 = 1000;
/// How often a stream looks for new events.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Streams at once.
const MAX_STREAMS: usize = 128;
/// Pages that are gone through for the newest events.
const MAX_PAGES: u32 = 1000;

static STREAMS: std::sync::LazyLock<Arc<Semaphore>> =
    std::sync::LazyLock::new(|| Arc::new(Semaphore::new(MAX_STREAMS)));

fn shape(event: Event) -> farrier::Event {
    farrier::Event {
        seq: event.seq,
        at: time::text(event.at).unwrap_or_default(),
        node: event.node.map(|node| node.to_string()),
        conductor: event.conductor.map(|conductor| conductor.as_str().to_owned()),
        kind: event.kind,
        message: event.message,
    }
}

/// A list, or a stream where the client accepts `text/event-stream`. `?after=` leaves out what the client has (a stream
/// without it begins now); `?node=` picks one node's; `?newest=true` lists the last ones, newest first.
pub(crate) async fn events(State(state): State<ApiState>, RawQuery(query): RawQuery, headers: HeaderMap) -> ApiResult {
    let params = Params::read(query.as_deref(), &["after", "node", "limit", "newest"])?;
    let node = match params.text("node") {
        Some(node) => Some(state.node(node).await?.node.id),
        None => None,
    };
    // A client that reconnects names the last event that it saw (§9.2.4).
    let last_seen = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.parse().ok());
    let after = params.parse::<u64>("after")?.or(last_seen);
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    if accept.is_some_and(|accept| accept.contains("text/event-stream")) {
        let after = match after {
            Some(after) => after,
            None => newest(&state, node, 0, 1).await?.first().map_or(0, |event| event.seq),
        };
        return follow(state, node, after);
    }
    let limit = params.parse("limit")?.unwrap_or(100u32).clamp(1, MAX_PAGE);
    let events = match params.flag("newest")?.unwrap_or(false) {
        true => newest(&state, node, after.unwrap_or(0), limit).await?,
        false => state.store.events(node.as_ref(), after.unwrap_or(0), limit).await?,
    };
    let events = events.into_iter().map(shape).collect();
    Ok(axum::Json(farrier::Events { events }).into_response())
}

/// The last events, newest first.
async fn newest(state: &ApiState, node: Option<NodeId>, mut after: u64, limit: u32) -> ApiResult<Vec<Event>> {
    let keep = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut last = VecDeque::new();
    for _ in 0..MAX_PAGES {
        let page = state.store.events(node.as_ref(), after, MAX_PAGE).await?;
        let full = u32::try_from(page.len()).is_ok_and(|len| len == MAX_PAGE);
        after = page.last().map_or(after, |event| event.seq);
        last.extend(page);
        let surplus = last.len().saturating_sub(keep);
        last.drain(..surplus);
        if !full {
            break;
        }
    }
    Ok(last.into_iter().rev().collect())
}

struct Follower {
    state: ApiState,
    node: Option<NodeId>,
    after: u64,
    seen: VecDeque<Event>,
    _place: OwnedSemaphorePermit,
}

fn follow(state: ApiState, node: Option<NodeId>, after: u64) -> ApiResult {
    let place = Arc::clone(&STREAMS).try_acquire_owned();
    let place = place.map_err(|_| ApiError::Busy(format!("{MAX_STREAMS} streams are open already")))?;
    let follower = Follower {
        state,
        node,
        after,
        seen: VecDeque::new(),
        _place: place,
    };
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    Ok(Sse::new(stream_of(follower)).keep_alive(keep_alive).into_response())
}

fn stream_of(follower: Follower) -> impl Stream<Item = Result<SseEvent, Infallible>> {
    stream::unfold(follower, |mut follower| async {
        loop {
            if let Some(event) = follower.seen.pop_front() {
                let id = event.seq.to_string();
                let kind = event.kind.replace(['\r', '\n'], " ");
                let data = serde_json::to_string(&shape(event)).unwrap_or_default();
                let event = SseEvent::default().id(id).event(kind).data(data);
                return Some((Ok(event), follower));
            }
            // A store that fails ends the stream; the client comes back with the last number that it saw.
            follower.look().await.ok()?;
        }
    })
}

impl Follower {
    async fn look(&mut self) -> Result<(), nodes::StoreError> {
        let events = self
            .state
            .store
            .events(self.node.as_ref(), self.after, MAX_PAGE)
            .await?;
        if let Some(last) = events.last() {
            self.after = last.seq;
            self.seen.extend(events);
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
        Ok(())
    }
}
