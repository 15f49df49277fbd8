//! `/healthz`, `/readyz` and `/metrics`.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::ProvisionState;

use crate::error::{ApiError, ApiResult};
use crate::state::ApiState;

/// How long the store may take to answer before this conductor counts as not ready.
const STORE_WAIT: Duration = Duration::from_secs(2);

/// `GET /healthz`: the process lives.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// `GET /readyz`: it takes part in the work, and its store answers.
pub(crate) async fn readyz(State(state): State<ApiState>) -> ApiResult {
    if !state.ready.load(Ordering::Relaxed) {
        let text = "this conductor has not joined, or its lease ran out";
        return Err(ApiError::Busy(text.to_owned()));
    }
    match tokio::time::timeout(STORE_WAIT, state.store.change_number()).await {
        Ok(Ok(_)) => Ok("ready\n".into_response()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(ApiError::Busy("the store does not answer".to_owned())),
    }
}

/// `GET /metrics`: the Prometheus text format, version 0.0.4.
pub(crate) async fn metrics(State(state): State<ApiState>) -> ApiResult {
    let counts = state.store.counts().await?;
    let mut text = String::new();
    let mut family = Family(&mut text);
    family.head("farrier_nodes", "gauge", "Nodes by provision state.");
    for provision_state in ProvisionState::ALL {
        let count = counts.get(provision_state.as_str()).copied().unwrap_or(0);
        let label = format!("provision_state=\"{provision_state}\"");
        family.value("farrier_nodes", &label, count);
    }
    let conductors = state.store.conductors().await?;
    family.head("farrier_conductor_alive", "gauge", "Whether a conductor's lease holds.");
    for conductor in &conductors {
        let label = format!("conductor=\"{}\"", conductor.name);
        family.value("farrier_conductor_alive", &label, u64::from(conductor.alive));
    }
    if let Some(embedded) = &state.embedded {
        let served = embedded.all_reads();
        let bytes: u64 = served.iter().map(|(_, _, count)| count.bytes).sum();
        let unread = served.iter().filter(|(_, _, count)| count.bytes == 0).count();
        family.head(
            "farrier_artefacts_served",
            "gauge",
            "Artefacts that this conductor serves.",
        );
        family.value("farrier_artefacts_served", "", served.len() as u64);
        family.head("farrier_artefacts_unread", "gauge", "Those that nobody has read yet.");
        family.value("farrier_artefacts_unread", "", unread as u64);
        family.head(
            "farrier_artefact_bytes_read",
            "gauge",
            "Bytes read of the artefacts that are served now.",
        );
        family.value("farrier_artefact_bytes_read", "", bytes);
    }
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    Ok((StatusCode::OK, kind, text).into_response() as Response)
}

struct Family<'a>(&'a mut String);

impl Family<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn value(&mut self, name: &str, label: &str, value: u64) {
        let _ = match label {
            "" => writeln!(self.0, "{name} {value}"),
            label => writeln!(self.0, "{name}{{{label}}} {value}"),
        };
    }
}
