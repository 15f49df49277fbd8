//! A BMC that is spoken to by whatever it answers to: found out at the first verb, kept, and found out anew when it does not
//! answer to that any more, as after an upgrade of its firmware.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use model::{BootDevice, BootMode, Device, Media, PowerAction, PowerState, Secret, ServerIdentity};
use tokio::sync::OnceCell;

use crate::gate::Gate;
use crate::http::HttpClient;
use crate::probe::{Client, Transport, find};
use crate::ribcl::RibclBmc;
use crate::trace::Form;
use crate::{Bmc, BmcConfig, BmcError, BootSettings, InsertMedia, RawReply, access, names};

/// One BMC, whatever it speaks.
pub struct ProbedBmc {
    config: BmcConfig,
    via: Option<Transport>,
    gate: Arc<Gate>,
    /// Filled by the first verb, emptied when the transport is gone.
    client: Mutex<Arc<OnceCell<Client>>>,
}

impl ProbedBmc {
    /// Checks the settings and reads the CA. Nothing is sent yet. `via`: do not find out, speak this.
    pub fn new(config: BmcConfig, via: Option<Transport>) -> Result<Self, BmcError> {
        let gate = Arc::new(Gate::new(config.address.clone()));
        // What is wrong with the settings is told now, whatever it will speak.
        let origin = access::origin(&config.address)?;
        HttpClient::new(&config, &origin).map_err(|reason| BmcError::Settings {
            address: config.address.clone(),
            reason,
        })?;
        if let Some(transport) = via {
            Client::new(transport, &config, &gate)?;
        }
        Ok(Self {
            config,
            via,
            gate,
            client: Mutex::default(),
        })
    }

    /// What it is spoken to by; asks, if that is not known yet.
    pub async fn transport(&self) -> Result<Transport, BmcError> {
        Ok(Box::pin(self.client()).await?.transport)
    }

    /// See [`RedfishBmc::session_uri`](crate::redfish::RedfishBmc::session_uri).
    pub fn session_uri(&self) -> Option<String> {
        self.cell().get()?.redfish.as_ref()?.session_uri()
    }

    /// See [`RedfishBmc::delete_session`](crate::redfish::RedfishBmc::delete_session). Where there are no sessions, there is none.
    pub async fn delete_session(&self, uri: &str) -> Result<(), BmcError> {
        match Box::pin(self.client()).await?.redfish {
            Some(redfish) => Box::pin(redfish.delete_session(uri)).await,
            None => Ok(()),
        }
    }

    fn cell(&self) -> Arc<OnceCell<Client>> {
        // The critical sections are a clone and an assignment.
        Arc::clone(&self.client.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn client(&self) -> Result<Client, BmcError> {
        let cell = self.cell();
        let found = cell.get_or_try_init(|| async {
            let transport = match self.via {
                Some(transport) => transport,
                None => Box::pin(find(&self.config, &self.gate)).await?,
            };
            Client::new(transport, &self.config, &self.gate)
        });
        found.await.cloned()
    }

    /// Lets the next verb find out anew, unless another one did already.
    fn forget(&self, gone: &Client) {
        let mut cell = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if cell.get().is_some_and(|known| Arc::ptr_eq(&known.bmc, &gone.bmc)) {
            *cell = Arc::default();
        }
    }

    /// Runs a verb; a second time if what the BMC was spoken to by is gone.
    async fn with<T, W>(&self, verb: impl Fn(Arc<dyn Bmc>) -> W) -> Result<T, BmcError>
    where
        W: Future<Output = Result<T, BmcError>>,
    {
        let client = Box::pin(self.client()).await?;
        match verb(Arc::clone(&client.bmc)).await {
            Err(error) if self.via.is_none() && is_gone(&error) => {
                tracing::info!(bmc = %self.config.address, was = %client.transport, "speaks something else now");
                self.forget(&client);
                let client = self.client().await?;
                verb(Arc::clone(&client.bmc)).await
            }
            result => result,
        }
    }
}

/// Whether the whole transport is missing, and not merely what was asked for.
fn is_gone(error: &BmcError) -> bool {
    matches!(error, BmcError::Unsupported { reason, .. } if reason.starts_with(names::NO_SERVICE))
}

impl std::fmt::Debug for ProbedBmc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProbedBmc")
            .field("address", &self.config.address)
            .field("transport", &self.cell().get().map(|client| client.transport))
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Bmc for ProbedBmc {
    async fn identity(&self) -> Result<ServerIdentity, BmcError> {
        self.with(|bmc| async move { bmc.identity().await }).await
    }

    async fn power_state(&self) -> Result<PowerState, BmcError> {
        self.with(|bmc| async move { bmc.power_state().await }).await
    }

    async fn set_power(&self, action: PowerAction) -> Result<(), BmcError> {
        self.with(|bmc| async move { bmc.set_power(action).await }).await
    }

    async fn media(&self, device: Device) -> Result<Media, BmcError> {
        self.with(|bmc| async move { bmc.media(device).await }).await
    }

    async fn insert_media(&self, device: Device, image: &InsertMedia) -> Result<(), BmcError> {
        self.with(|bmc| async move { bmc.insert_media(device, image).await })
            .await
    }

    async fn eject_media(&self, device: Device) -> Result<(), BmcError> {
        self.with(|bmc| async move { bmc.eject_media(device).await }).await
    }

    async fn set_boot_device(&self, device: BootDevice, persistent: bool) -> Result<(), BmcError> {
        self.with(|bmc| async move { bmc.set_boot_device(device, persistent).await })
            .await
    }

    async fn boot_settings(&self) -> Result<BootSettings, BmcError> {
        self.with(|bmc| async move { bmc.boot_settings().await }).await
    }

    async fn set_http_boot_url(&self, url: &Secret) -> Result<(), BmcError> {
        self.with(|bmc| async move { bmc.set_http_boot_url(url).await }).await
    }

    async fn boot_mode(&self) -> Result<BootMode, BmcError> {
        self.with(|bmc| async move { bmc.boot_mode().await }).await
    }

    async fn set_boot_mode(&self, mode: BootMode) -> Result<(), BmcError> {
        self.with(|bmc| async move { bmc.set_boot_mode(mode).await }).await
    }

    async fn secure_boot(&self) -> Result<bool, BmcError> {
        self.with(|bmc| async move { bmc.secure_boot().await }).await
    }

    async fn set_secure_boot(&self, enabled: bool) -> Result<(), BmcError> {
        self.with(|bmc| async move { bmc.set_secure_boot(enabled).await }).await
    }

    async fn raw_redfish(&self, method: &str, path: &str, body: Option<&str>) -> Result<RawReply, BmcError> {
        self.with(|bmc| async move { bmc.raw_redfish(method, path, body).await })
            .await
    }

    /// Also where the BMC is spoken to by Redfish or RIS: iLO 4 and 5 answer to RIBCL beside it.
    async fn raw_ribcl(&self, command: &str, arguments: &[(String, String)]) -> Result<String, BmcError> {
        let client = self.client().await?;
        if client.redfish.is_none() {
            return client.bmc.raw_ribcl(command, arguments).await;
        }
        let beside = RibclBmc::behind(Arc::clone(&self.gate), self.config.clone(), Form::Http)?;
        beside.raw_ribcl(command, arguments).await
    }

    async fn close(&self) {
        // One that never got to speak has nothing to end.
        if let Some(client) = self.cell().get() {
            client.bmc.close().await;
        }
    }
}
