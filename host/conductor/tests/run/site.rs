//! A site: a store in a file, a world, and conductors that come and go.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use conductor::{Conductor, ConductorConfig, Hands, LeaseClock, Running, Timeouts};
use model::{Driver, Node, NodeId, PowerAction, ProvisionState, Secret, Verb, Wish};
use nodes::{Event, NodeRef, Record, Sealer, SqliteStore, Store, StoreError, Writer};
use serde_json::json;

use crate::agent_sim;
use crate::world::{World, until};

pub(crate) struct Site {
    folder: tempfile::TempDir,
    pub(crate) world: Arc<World>,
}

impl Site {
    pub(crate) fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(open(&folder));
        Self { folder, world }
    }

    pub(crate) fn config(name: &str) -> ConductorConfig {
        let ms = Duration::from_millis;
        ConductorConfig {
            agent_urls: vec!["http://10.1.0.1:6387".to_owned()],
            // Long enough for a busy test machine, short enough to wait for its end.
            lease: ms(2000),
            longest_request: ms(100),
            timeouts: Timeouts {
                power: ms(300),
                clean_up: Duration::from_secs(5),
                ..Timeouts::default()
            },
            automated_clean: false,
            store_poll: ms(20),
            agent_poll: ms(40),
            power_poll: ms(10),
            power_sync: Duration::from_secs(3600),
            retry: ms(20),
            ..ConductorConfig::new(name.parse().unwrap())
        }
    }

    /// Another store object on the site's file, as another process has it.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        open(&self.folder)
    }

    /// Holds the file's write lock until the answer is dropped.
    pub(crate) fn lock_store(&self) -> rusqlite::Connection {
        let lock = rusqlite::Connection::open(self.folder.path().join("farrier.db")).unwrap();
        lock.busy_timeout(Duration::from_secs(10)).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        lock
    }

    /// A conductor of its own process: with a store object of its own on the same file.
    pub(crate) async fn start(&self, config: ConductorConfig) -> Running {
        let hands = Hands {
            store: open(&self.folder),
            policies: self.world.clone(),
            power: self.world.clone(),
            publications: self.world.clone(),
            agents: agent_sim::policy(),
        };
        Conductor::start(config, hands, LeaseClock::new()).await.unwrap()
    }

    /// Kills a conductor as `kill -9` does.
    pub(crate) fn kill(&self, name: &str, running: Running) {
        drop(running);
        self.world.killed(name);
    }

    /// A node in this state, with an image to deploy.
    pub(crate) async fn node(&self, state: ProvisionState, driver: Driver) -> NodeId {
        let id = NodeId::random();
        let image = json!({"image_source": "http://10.1.0.1/a.raw", "image_os_hash_algo": "sha256",
            "image_os_hash_value": "ab".repeat(32), "kernel": "http://10.1.0.1/k", "ramdisk": "http://10.1.0.1/r"});
        let node = Node {
            provision_state: state,
            instance_info: serde_json::from_value(image).unwrap(),
            ..Node::new(id, driver, SystemTime::now())
        };
        self.world.add(id);
        self.world.store.create_node(&node, &[]).await.unwrap();
        id
    }

    pub(crate) async fn record(&self, id: &NodeId) -> Record {
        self.world.store.node(&NodeRef::Id(*id)).await.unwrap().unwrap()
    }

    /// Writes as a user does: again if somebody else was faster.
    pub(crate) async fn edit(&self, id: &NodeId, edit: impl Fn(&mut Node)) {
        loop {
            let mut record = self.record(id).await;
            edit(&mut record.node);
            match self.world.store.update_node(&record, &Writer::User).await {
                Ok(_) => return,
                Err(StoreError::VersionConflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) async fn ask(&self, id: &NodeId, verb: Verb) {
        let config_drive = None;
        self.edit(id, |node| {
            node.wish = Some(Wish::Provision {
                verb,
                config_drive: config_drive.clone(),
            });
        })
        .await;
    }

    pub(crate) async fn ask_power(&self, id: &NodeId, action: PowerAction) {
        self.edit(id, |node| node.wish = Some(Wish::Power(action))).await;
    }

    /// Waits for a state.
    pub(crate) async fn reach(&self, id: &NodeId, state: ProvisionState) -> Record {
        let what = format!("{id} in state `{state}`");
        let look = || async {
            let record = self.record(id).await;
            (record.node.provision_state == state).then_some(record)
        };
        let deadline = tokio::time::timeout(Duration::from_secs(29), until(&what, look)).await;
        match deadline {
            Ok(record) => record,
            Err(_) => {
                let notes = self.world.notes(id);
                let node = self.record(id).await.node;
                panic!(
                    "not in time: {what}; {notes:#?}\n{node:#?}\n{:#?}",
                    self.events(id).await
                )
            }
        }
    }

    /// Waits until a condition on the record holds.
    pub(crate) async fn see(&self, id: &NodeId, what: &str, is: impl Fn(&Node) -> bool) -> Record {
        until(what, || async {
            let record = self.record(id).await;
            is(&record.node).then_some(record)
        })
        .await
    }

    pub(crate) async fn events(&self, id: &NodeId) -> Vec<Event> {
        self.world.store.events(Some(id), 0, 1000).await.unwrap()
    }

    /// Waits until people are told so.
    pub(crate) async fn hear(&self, id: &NodeId, kind: &str, part: &str) -> String {
        until(&format!("an event `{kind}` with `{part}`"), || async {
            let told = self.told(id, kind).await;
            told.into_iter().find(|message| message.contains(part))
        })
        .await
    }

    /// Messages of one kind of event.
    pub(crate) async fn told(&self, id: &NodeId, kind: &str) -> Vec<String> {
        let events = self.events(id).await;
        events
            .into_iter()
            .filter(|event| event.kind == kind)
            .map(|event| event.message)
            .collect()
    }

    pub(crate) async fn token(&self, id: &NodeId) -> Option<Secret> {
        self.record(id).await.node.agent.token
    }
}

fn open(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    let sealer = Sealer::from_file(&folder.path().join("key")).unwrap();
    Arc::new(SqliteStore::open(&folder.path().join("farrier.db"), sealer).unwrap())
}
