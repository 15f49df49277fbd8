//! The runtime's journal, values and artefact records over the store, and its BMCs over the pool.

use std::sync::Arc;

use async_trait::async_trait;
use bmc::Bmc;
use conductor::{CallError, Errand};
use model::{ArtefactKind, Node, NodeId, Tenure};
use nodes::{ArtefactRecord, Outcome, Store, StoreError};
use runtime::live::{Artefact, Artefacts, Journal, Servers as RuntimeServers, State};
use runtime::{DriverError, LEASE_ENDING, Versioned};

use super::errors::{of_store, with_causes};
use super::servers::Servers;

/// See [`Journal`], [`State`] and [`Artefacts`].
pub(super) struct Records(pub(super) Arc<dyn Store>);

/// What a plugin is told of the store's error.
fn driver_error(error: StoreError) -> DriverError {
    match &error {
        StoreError::VersionConflict { .. } | StoreError::ValueConflict { .. } | StoreError::Database { .. } => {
            DriverError::Conflict(with_causes(&error))
        }
        StoreError::StaleTerm { .. } | StoreError::LeaseLost { .. } => {
            DriverError::other(LEASE_ENDING, error.to_string())
        }
        StoreError::NotFound { .. } => DriverError::NotFound(error.to_string()),
        _ => DriverError::other("store", with_causes(&error)),
    }
}

#[async_trait]
impl Journal for Records {
    async fn begin(&self, node: &NodeId, tenure: &Tenure, action: &str, detail: &str) -> Result<u64, DriverError> {
        self.0
            .begin_effect(node, tenure, action, detail)
            .await
            .map_err(driver_error)
    }

    async fn end(&self, effect: u64, outcome: Result<(), String>) {
        let outcome = match outcome {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(error),
        };
        end_effect(&*self.0, effect, &outcome).await;
    }
}

#[async_trait]
impl State for Records {
    async fn get(&self, node: &NodeId, plugin: &str, key: &str) -> Result<Option<Versioned>, DriverError> {
        let value = self.0.plugin_value(node, plugin, key).await.map_err(driver_error)?;
        Ok(value.map(|value| Versioned {
            version: value.version,
            value: value.value,
        }))
    }

    async fn put(
        &self,
        node: &NodeId,
        plugin: &str,
        key: &str,
        value: &str,
        expect: Option<u64>,
    ) -> Result<u64, DriverError> {
        self.0
            .put_plugin_value(node, plugin, key, value, expect)
            .await
            .map_err(driver_error)
    }

    async fn delete(&self, node: &NodeId, plugin: &str, key: &str) -> Result<(), DriverError> {
        self.0
            .delete_plugin_value(node, plugin, key)
            .await
            .map_err(driver_error)
    }
}

#[async_trait]
impl Artefacts for Records {
    async fn record(&self, artefact: &Artefact, tenure: &Tenure) -> Result<(), DriverError> {
        let record = ArtefactRecord {
            node: artefact.node,
            kind: artefact.kind,
            backend: artefact.backend.clone(),
            name: artefact.name.clone(),
            url: artefact.url.clone(),
            digest: artefact.digest,
            size: artefact.size,
            recipe: artefact.recipe.clone(),
            published_by: tenure.conductor.clone(),
            published_at: std::time::SystemTime::now(),
            expires: artefact.expires,
        };
        self.0.put_artefact(&record, tenure).await.map_err(driver_error)
    }

    async fn find(&self, node: &NodeId, kind: ArtefactKind) -> Result<Option<Artefact>, DriverError> {
        let all = self.0.artefacts(node).await.map_err(driver_error)?;
        Ok(all
            .into_iter()
            .find(|record| record.kind == kind)
            .map(|record| Artefact {
                node: record.node,
                kind: record.kind,
                backend: record.backend,
                name: record.name,
                url: record.url,
                digest: record.digest,
                size: record.size,
                recipe: record.recipe,
                expires: record.expires,
            }))
    }

    async fn remove(&self, node: &NodeId, kind: ArtefactKind, tenure: &Tenure) -> Result<(), DriverError> {
        self.0.remove_artefact(node, kind, tenure).await.map_err(driver_error)
    }
}

#[async_trait]
impl RuntimeServers for Servers {
    async fn bmc(&self, node: &Node, tenure: &Tenure) -> Result<Arc<dyn Bmc>, DriverError> {
        self.of(node, tenure)
            .map_err(|error| DriverError::Invalid(error.to_string()))
    }
}

/// Journals an effect of the conductor's own, before and after.
pub(super) async fn journalled<T>(
    store: &dyn Store,
    errand: &Errand,
    action: &str,
    detail: &str,
    effect: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let id = store
        .begin_effect(&errand.node.id, &errand.tenure, action, detail)
        .await
        .map_err(of_store)?;
    let result = effect.await;
    let outcome = match &result {
        Ok(_) => Outcome::Done,
        Err(error) => Outcome::Failed(error.message.clone()),
    };
    end_effect(store, id, &outcome).await;
    result
}

/// It has happened all the same if that cannot be written; a successor that finds it open observes before it repeats.
async fn end_effect(store: &dyn Store, effect: u64, outcome: &Outcome) {
    if let Err(error) = store.end_effect(effect, outcome).await {
        tracing::warn!(effect, %error, "the journal does not know how an effect ended");
    }
}
