//! The conductor's `Power` over the BMCs; each change is journalled before it is asked for.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use bmc::{Bmc, BmcError};
use conductor::{CallError, Errand, Power};
use model::{BootMode, Device, Media, PowerAction, PowerState, ServerIdentity};
use nodes::Store;

use super::errors::{fail, of_bmc};
use super::records::journalled;
use super::servers::Servers;

/// See [`Power`].
pub(super) struct PowerWiring {
    pub(super) servers: Arc<Servers>,
    pub(super) store: Arc<dyn Store>,
}

impl PowerWiring {
    async fn ask<T, F>(&self, errand: &Errand, verb: impl FnOnce(Arc<dyn Bmc>) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, BmcError>>,
    {
        let bmc = self.servers.of(&errand.node, &errand.tenure).map_err(of_bmc)?;
        verb(bmc).await.map_err(of_bmc)
    }
}

#[async_trait]
impl Power for PowerWiring {
    async fn identity(&self, errand: &Errand) -> Result<ServerIdentity, CallError> {
        self.ask(errand, |bmc| async move { bmc.identity().await }).await
    }

    async fn power_state(&self, errand: &Errand) -> Result<PowerState, CallError> {
        self.ask(errand, |bmc| async move { bmc.power_state().await }).await
    }

    async fn set_power(&self, errand: &Errand, action: PowerAction) -> Result<(), CallError> {
        let name = match action {
            PowerAction::On => "power.on",
            PowerAction::Off => "power.off",
            PowerAction::SoftOff => "power.soft-off",
            PowerAction::ForceRestart => "power.force-restart",
            PowerAction::SoftRestart => "power.soft-restart",
        };
        let bmc = self.servers.of(&errand.node, &errand.tenure).map_err(of_bmc)?;
        let (store, errand) = (Arc::clone(&self.store), errand.clone());
        // In a task of its own: a request that was sent is neither taken back nor forgotten when its step is called off, and
        // the next one to this BMC waits for its end.
        let change = tokio::spawn(async move {
            let change = async { bmc.set_power(action).await.map_err(of_bmc) };
            journalled(&*store, &errand, name, "", change).await
        });
        change
            .await
            .unwrap_or_else(|_| Err(fail("a power request ended in a panic inside the host: report this")))
    }

    async fn boot_mode(&self, errand: &Errand) -> Result<BootMode, CallError> {
        self.ask(errand, |bmc| async move { bmc.boot_mode().await }).await
    }

    async fn media(&self, errand: &Errand, device: Device) -> Result<Media, CallError> {
        self.ask(errand, |bmc| async move { bmc.media(device).await }).await
    }
}
