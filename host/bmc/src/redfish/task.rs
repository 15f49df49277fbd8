//! Changes that a BMC accepts (202) and carries out as a task (DSP0266 clause 13.6).

use reqwest::header::LOCATION;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::json;
use super::turn::{Turn, Unchanged};
use crate::backoff::before_retry;
use crate::http::Reply;

/// How often a task is looked at whose answer is a failure inside the BMC.
const BUSY: u32 = 5;
/// How often a task that was just made may be missing.
const MISSING: u32 = 5;

impl Turn {
    /// Waits for what a change that was accepted (202) becomes; one that is done already is a success.
    pub(super) async fn settled(&mut self, reply: Reply) -> Result<(), Unchanged> {
        if reply.status != StatusCode::ACCEPTED {
            return Ok(());
        }
        let header = reply.headers.get(LOCATION).and_then(|value| value.to_str().ok());
        let body: Option<Value> = serde_json::from_slice(&reply.body).ok();
        let task = body.as_ref().and_then(|body| json::text(body, &["@odata.id"]));
        // Without either, reading back is all there is.
        let Some(path) = header.or(task).map(str::to_owned) else {
            return Ok(());
        };
        let (mut tries, mut missing) = (0, 0);
        loop {
            tries += 1;
            let reply = match self.send(Method::GET, &path, None, &[]).await {
                Ok(reply) => reply,
                Err(no_reply) => return Err(Unchanged::Unanswered(no_reply.error, true)),
            };
            let body = self.json(&reply).unwrap_or_default();
            let state = json::text(&body, &["TaskState"]);
            match (reply.status, state) {
                // Some look for a task before they have made it.
                (StatusCode::NOT_FOUND, _) if missing < MISSING => missing += 1,
                // Gone after its end.
                (StatusCode::NOT_FOUND | StatusCode::GONE, _) => return Ok(()),
                (_, Some("Completed"))
                    if json::text(&body, &["TaskStatus"]).is_none_or(|status| status != "Critical") =>
                {
                    return Ok(());
                }
                (_, Some("Completed" | "Exception" | "Killed" | "Cancelled")) => {
                    return Err(Unchanged::Refused(self.complaint(&reply)));
                }
                (StatusCode::ACCEPTED, _) | (_, Some(_)) => {}
                (status, None) if status.is_success() => return Ok(()),
                (status, None) if !status.is_server_error() || tries >= BUSY => {
                    return Err(Unchanged::Refused(self.complaint(&reply)));
                }
                _ => {}
            }
            if !self.pause(before_retry(self.bmc.deadlines.poll, tries)).await {
                let busy = self.busy("it took the request as a task that does not end");
                return Err(Unchanged::Unanswered(busy, true));
            }
        }
    }
}
