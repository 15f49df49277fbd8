//! A BMC client on behalf of the conductor that holds the node. Its session is on record, so that a successor can end it
//! first: a late request of a conductor that died is then answered with 401.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bmc::{Bmc, BmcError, BootSettings, InsertMedia, ProbedBmc, RawReply};
use model::{BootDevice, BootMode, Device, Media, NodeId, PowerAction, PowerState, Secret, ServerIdentity};
use nodes::{Store, StoreError};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

/// Under which name the session is kept among the node's values. No plugin id holds a space.
const KEEPER: &str = "farrier bmc";
const KEY: &str = "session";

pub(super) struct OwnedBmc {
    node: NodeId,
    /// Of the BMC: a session's path means nothing, or somebody else's session, anywhere else.
    address: String,
    inner: ProbedBmc,
    store: Arc<dyn Store>,
    predecessor_ended: OnceCell<()>,
    recorded: Mutex<Option<String>>,
}

/// What is on record of a session.
#[derive(Serialize, Deserialize)]
struct Session {
    /// The BMC that it is open at.
    address: String,
    /// Its path there.
    uri: String,
}

impl OwnedBmc {
    pub(super) fn new(node: NodeId, address: String, inner: ProbedBmc, store: Arc<dyn Store>) -> Self {
        Self {
            node,
            address,
            inner,
            store,
            predecessor_ended: OnceCell::new(),
            recorded: Mutex::default(),
        }
    }

    /// Ends this client's session and leaves what is on record, which is of a later one by now.
    pub(super) async fn end_session(&self) {
        self.inner.close().await;
    }

    async fn with<T>(&self, verb: impl Future<Output = Result<T, BmcError>>) -> Result<T, BmcError> {
        self.predecessor_ended.get_or_init(|| self.end_predecessor()).await;
        let result = verb.await;
        self.record_session().await;
        result
    }

    /// Deletes the session that is on record. A BMC that does not do it has forgotten it or will not answer us either.
    async fn end_predecessor(&self) {
        let recorded = match self.store.plugin_value(&self.node, KEEPER, KEY).await {
            Ok(recorded) => recorded,
            Err(error) => {
                tracing::warn!(node = %self.node, %error, "could not look up the predecessor's BMC session");
                return;
            }
        };
        let recorded = recorded.and_then(|value| serde_json::from_str::<Session>(&value.value).ok());
        let Some(session) = recorded.filter(|session| session.address == self.address) else {
            // None, or one at the BMC that the node had before: that ends by its own time limit.
            return;
        };
        // On the heap: a dialogue within a dialogue is a deep type.
        if let Err(error) = Box::pin(self.inner.delete_session(&session.uri)).await {
            tracing::warn!(node = %self.node, %error, "the predecessor's BMC session may still be open");
        }
    }

    async fn record_session(&self) {
        let uri = self.inner.session_uri();
        if *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) == uri {
            return;
        }
        match self.put(uri.as_deref()).await {
            Ok(()) => *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = uri,
            Err(error) => tracing::warn!(node = %self.node, %error, "could not record the BMC session"),
        }
    }

    async fn put(&self, uri: Option<&str>) -> Result<(), StoreError> {
        let session = uri.map(|uri| Session {
            address: self.address.clone(),
            uri: uri.to_owned(),
        });
        // `null` where there is none.
        let text = serde_json::to_string(&session).unwrap_or_default();
        let seen = self
            .store
            .plugin_value(&self.node, KEEPER, KEY)
            .await?
            .map(|value| value.version);
        self.store
            .put_plugin_value(&self.node, KEEPER, KEY, &text, seen)
            .await
            .map(drop)
    }
}

#[async_trait]
impl Bmc for OwnedBmc {
    async fn identity(&self) -> Result<ServerIdentity, BmcError> {
        self.with(self.inner.identity()).await
    }

    async fn power_state(&self) -> Result<PowerState, BmcError> {
        self.with(self.inner.power_state()).await
    }

    async fn set_power(&self, action: PowerAction) -> Result<(), BmcError> {
        self.with(self.inner.set_power(action)).await
    }

    async fn media(&self, device: Device) -> Result<Media, BmcError> {
        self.with(self.inner.media(device)).await
    }

    async fn insert_media(&self, device: Device, image: &InsertMedia) -> Result<(), BmcError> {
        self.with(self.inner.insert_media(device, image)).await
    }

    async fn eject_media(&self, device: Device) -> Result<(), BmcError> {
        self.with(self.inner.eject_media(device)).await
    }

    async fn set_boot_device(&self, device: BootDevice, persistent: bool) -> Result<(), BmcError> {
        self.with(self.inner.set_boot_device(device, persistent)).await
    }

    async fn boot_settings(&self) -> Result<BootSettings, BmcError> {
        self.with(self.inner.boot_settings()).await
    }

    async fn set_http_boot_url(&self, url: &Secret) -> Result<(), BmcError> {
        self.with(self.inner.set_http_boot_url(url)).await
    }

    async fn boot_mode(&self) -> Result<BootMode, BmcError> {
        self.with(self.inner.boot_mode()).await
    }

    async fn set_boot_mode(&self, mode: BootMode) -> Result<(), BmcError> {
        self.with(self.inner.set_boot_mode(mode)).await
    }

    async fn secure_boot(&self) -> Result<bool, BmcError> {
        self.with(self.inner.secure_boot()).await
    }

    async fn set_secure_boot(&self, enabled: bool) -> Result<(), BmcError> {
        self.with(self.inner.set_secure_boot(enabled)).await
    }

    async fn raw_redfish(&self, method: &str, path: &str, body: Option<&str>) -> Result<RawReply, BmcError> {
        self.with(self.inner.raw_redfish(method, path, body)).await
    }

    async fn raw_ribcl(&self, command: &str, arguments: &[(String, String)]) -> Result<String, BmcError> {
        self.with(self.inner.raw_ribcl(command, arguments)).await
    }

    async fn close(&self) {
        self.inner.close().await;
        self.record_session().await;
    }
}
