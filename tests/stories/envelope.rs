//! A plugin that ejects the media of an active node, over a real BMC client and a server that a conductor deployed: nothing in
//! the main job calls a `vmedia` plugin for an active node, so the story makes the call itself.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bmc::redfish::RedfishBmc;
use bmc::{Bmc, BmcConfig, Ca, Tls};
use model::{ArtefactKind, BmcAddress, Node, NodeId, ProvisionState, Secret, Tenure};
use runtime::live::{Artefact, Artefacts, BootSources, Journal, Live, LiveWorld, Material, Readers, Servers, State};
use runtime::{
    CallContext, CallError, ComponentSource, DriverError, Engine, IsoSource, Limits, PluginConfig, Role, Runtime,
    RuntimeConfig, Unobserved, Versioned,
};
use serde_json::json;
use sim::Device;

use crate::plugins::guests;
use crate::site::{BMC_PASSWORD, BMC_USER, Site};

/// One BMC, a journal that is kept, and nothing else.
struct World {
    bmc: Arc<dyn Bmc>,
    journal: Mutex<Vec<String>>,
}

fn nothing<T>() -> Result<T, DriverError> {
    Err(DriverError::NotFound("not in this story".to_owned()))
}

#[async_trait]
impl Journal for World {
    async fn begin(&self, _: &NodeId, _: &Tenure, action: &str, _: &str) -> Result<u64, DriverError> {
        self.journal.lock().expect("nobody panicked").push(action.to_owned());
        Ok(0)
    }

    async fn end(&self, _: u64, _: Result<(), String>) {}
}

#[async_trait]
impl State for World {
    async fn get(&self, _: &NodeId, _: &str, _: &str) -> Result<Option<Versioned>, DriverError> {
        nothing()
    }

    async fn put(&self, _: &NodeId, _: &str, _: &str, _: &str, _: Option<u64>) -> Result<u64, DriverError> {
        nothing()
    }

    async fn delete(&self, _: &NodeId, _: &str, _: &str) -> Result<(), DriverError> {
        nothing()
    }
}

#[async_trait]
impl Servers for World {
    async fn bmc(&self, _: &Node, _: &Tenure) -> Result<Arc<dyn Bmc>, DriverError> {
        Ok(Arc::clone(&self.bmc))
    }
}

#[async_trait]
impl Artefacts for World {
    async fn record(&self, _: &Artefact, _: &Tenure) -> Result<(), DriverError> {
        nothing()
    }

    async fn find(&self, _: &NodeId, _: ArtefactKind) -> Result<Option<Artefact>, DriverError> {
        Ok(None)
    }

    async fn remove(&self, _: &NodeId, _: ArtefactKind, _: &Tenure) -> Result<(), DriverError> {
        nothing()
    }
}

#[async_trait]
impl Readers for World {
    async fn reader(&self, _: &Node) -> storage::Reader {
        storage::Reader::default()
    }
}

#[async_trait]
impl BootSources for World {
    async fn resolve(&self, _: &Node, _: &IsoSource) -> Result<Material, DriverError> {
        nothing()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_ejects_an_active_nodes_media_is_denied_and_the_media_stay() {
    let site = Site::new(1).await;
    let alpha = site.start("alpha").await;
    site.active(&alpha.api, 0, "iscsi_ilo", "alpha").await;
    let iso = site.inserted(0, Device::Cd).expect("the instance's boot ISO");
    let done = site.done_to(0);

    let server = site.sim.server(0).expect("a server");
    let address = BmcAddress(server.url.clone());
    let mut config = BmcConfig::new(address, BMC_USER.to_owned(), Secret::new(BMC_PASSWORD));
    config.tls = Tls::Verify {
        ca: Some(Ca::File(server.ca_pem.clone())),
    };
    let world = Arc::new(World {
        bmc: Arc::new(RedfishBmc::new(config).expect("a client")),
        journal: Mutex::default(),
    });
    for what in ["eject", "eject-service", "set-boot-device", "set-boot-mode"] {
        let runtime = runtime(&world, what).await;
        let called = runtime.clean_up_ramdisk(&context(false)).await;
        let denied = CallError::Answered(DriverError::Denied("active node".to_owned()));
        assert_eq!(called.result, Err(denied), "{what}");
    }
    assert_eq!(site.done_to(0), done, "the server was changed");
    assert_eq!(site.inserted(0, Device::Cd).as_ref(), Some(&iso));
    assert!(world.journal.lock().expect("nobody panicked").is_empty());

    // The same plugin over the same client can eject where an operator asked for the call.
    let called = runtime(&world, "eject").await.clean_up_ramdisk(&context(true)).await;
    assert_eq!(called.result, Ok(()));
    assert_eq!(site.done_to(0).last().map(String::as_str), Some("eject cd"));
    assert_eq!(site.inserted(0, Device::Cd), None);
    world.bmc.close().await;
}

async fn runtime(world: &Arc<World>, what: &str) -> Runtime {
    let live = LiveWorld {
        journal: Arc::clone(world) as _,
        state: Arc::clone(world) as _,
        servers: Arc::clone(world) as _,
        artefacts: Arc::clone(world) as _,
        boot_sources: Arc::clone(world) as _,
        readers: Arc::clone(world) as _,
        backends: Vec::new(),
    };
    let plugin = PluginConfig {
        role: Role::Vmedia,
        component: ComponentSource::File(guests().join("hostile.wasm")),
        digest: None,
        matches: [].into(),
        grant: None,
        limits: Limits::default(),
        settings: json!({ "do": what }),
    };
    let config = RuntimeConfig {
        plugins: vec![plugin],
        ..RuntimeConfig::default()
    };
    let engine = Engine::new(4).expect("an engine");
    let live = Arc::new(Live(Arc::new(live)));
    Runtime::new(&engine, config, live, Arc::new(Unobserved))
        .await
        .expect("it loads")
}

/// A call for an active node; `by_operator`: an operator's request began it.
fn context(by_operator: bool) -> Arc<CallContext> {
    let mut node = Node::new(NodeId::random(), model::Driver::IscsiIlo, std::time::SystemTime::now());
    node.provision_state = ProvisionState::Active;
    let tenure = Tenure {
        conductor: "alpha".parse().expect("a name"),
        term: 1,
    };
    Arc::new(CallContext {
        node,
        tenure,
        by_operator,
    })
}
