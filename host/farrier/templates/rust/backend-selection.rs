//! {{name}}: which backend takes an artefact.

wit_bindgen::generate!({ path: "wit", world: "backend-selection-plugin" });

use exports::farrier::driver::backend_selection::{Candidate, Choice, Guest, Request};
use farrier::driver::config;
use farrier::driver::inventory::Node;
use farrier::driver::types::{Detail, Error};

struct Plugin;

impl Guest for Plugin {
    fn select(_node: &Node, request: Request, candidates: Vec<Candidate>) -> Result<Choice, Error> {
        // Settings are JSON text: "local" has its quotation marks.
        let preferred = config::get("/prefer").unwrap_or_default();
        let preferred = preferred.trim_matches('"');
        let usable =
            |candidate: &&Candidate| candidate.healthy && candidate.free_bytes.is_none_or(|free| free >= request.size);
        let wished = candidates
            .iter()
            .filter(usable)
            .find(|candidate| candidate.id == preferred);
        if let Some(wished) = wished {
            return Ok(choice(wished, "preferred by the site"));
        }
        match candidates.iter().find(usable) {
            Some(first) => Ok(choice(first, "first healthy backend with room")),
            None => Err(Error::Other(Detail {
                code: "no-backend".to_owned(),
                message: format!("no healthy backend has room for {} bytes", request.size),
                retry_after_ms: None,
            })),
        }
    }
}

fn choice(candidate: &Candidate, reason: &str) -> Choice {
    Choice {
        backend: candidate.id.clone(),
        reason: reason.to_owned(),
    }
}

export!(Plugin);
