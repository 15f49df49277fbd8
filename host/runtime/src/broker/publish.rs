//! Publishing through the site's policy: it chooses a backend, and chooses again without one that has just failed. Each attempt
//! is an effect of its own, so the journal tells all of them.

use std::sync::Arc;

use tokio::time::timeout_at;

use super::{Broker, HostError, out_of_time};
use crate::DriverError;
use crate::calls::{HostCall, ImageHandle, Reply};
use crate::envelope;
use crate::world::{Candidate, Placement, Request};

impl Broker {
    pub(super) async fn publish(
        &mut self,
        image: ImageHandle,
        minimum_lifetime_s: u32,
        replace_nothing: bool,
    ) -> Result<Reply, HostError> {
        let placed = timeout_at(self.root.deadline, self.session.place(image, minimum_lifetime_s)).await;
        let (request, mut candidates, journal_as) =
            match placed.unwrap_or_else(|_| Err(out_of_time("storage.publish")))? {
                Placement::Published(handle, info) => return Ok(Reply::Location(handle, info)),
                Placement::Again { backend, journal_as } => {
                    return self.publish_to(image, minimum_lifetime_s, backend, &journal_as).await;
                }
                Placement::Choose { replaces: true, .. } if replace_nothing => return Err(envelope::refusal().into()),
                Placement::Choose {
                    request,
                    candidates,
                    journal_as,
                    ..
                } => (request, candidates, journal_as),
            };
        candidates.retain(|candidate| self.bound.allowed.allows_backend(&candidate.id));
        if candidates.is_empty() {
            return Err(DriverError::Denied("storage.backends".to_owned()).into());
        }
        let mut failed: Option<HostError> = None;
        loop {
            let backend = match (self.choose(&request, &candidates).await, failed.take()) {
                (Ok(backend), None) => backend,
                (Ok(backend), Some(before)) => match candidates.iter().any(|one| one.id == backend && one.healthy) {
                    true => backend,
                    // The policy sticks to what has just failed.
                    false => return Err(before),
                },
                (Err(error), None) => return Err(error),
                // The policy knows no other: what went wrong says more than that.
                (Err(_), Some(before)) => return Err(before),
            };
            let published = self
                .publish_to(image, minimum_lifetime_s, backend.clone(), &journal_as)
                .await;
            match published {
                Err(HostError::Answer(error)) if is_the_backends(&error) => {
                    tracing::warn!(%backend, node = %self.context.node.id, "publishing failed there: {error}");
                    for candidate in candidates.iter_mut().filter(|candidate| candidate.id == backend) {
                        candidate.healthy = false;
                        let problem = format!("publishing there has just failed: {error}");
                        candidate.traits.push(("problem".to_owned(), problem));
                    }
                    failed = Some(HostError::Answer(error));
                }
                done => return done,
            }
        }
    }

    /// Asks the site's policy where an artefact goes.
    async fn choose(&self, request: &Request, candidates: &[Candidate]) -> Result<String, HostError> {
        let choice = Arc::clone(&self.runtime)
            .nested_select(&self.context, request.clone(), candidates.to_vec(), self.nested())
            .await?;
        if !candidates.iter().any(|candidate| candidate.id == choice.backend) {
            let message = format!(
                "the backend-selection plugin chose `{}`, which was not offered",
                choice.backend
            );
            return Err(DriverError::other("bad-choice", message).into());
        }
        tracing::info!(backend = %choice.backend, "{}", choice.reason);
        Ok(choice.backend)
    }

    async fn publish_to(
        &mut self,
        image: ImageHandle,
        minimum_lifetime_s: u32,
        backend: String,
        journal_as: &str,
    ) -> Result<Reply, HostError> {
        if !self.bound.allowed.allows_backend(&backend) {
            return Err(DriverError::Denied("storage.backends".to_owned()).into());
        }
        let detail = format!("{journal_as} to {backend}");
        let call = HostCall::Publish {
            image,
            minimum_lifetime_s,
            backend: Some(backend),
        };
        self.effect(call, detail).await
    }
}

/// Whether publishing failed for a reason that is the backend's own, so that another one might do.
fn is_the_backends(error: &DriverError) -> bool {
    match error {
        DriverError::Unreachable(_) | DriverError::Timeout(_) => true,
        DriverError::Other { code, .. } => code.starts_with("storage-"),
        _ => false,
    }
}
