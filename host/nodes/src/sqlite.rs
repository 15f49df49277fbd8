//! The store in one SQLite file, shared by the processes of one machine.
//!
//! ```no_run
//! # use nodes::{Sealer, SqliteStore, Store, StoreError};
//! # async fn example(node: model::Node) -> Result<(), StoreError> {
//! let sealer = Sealer::from_file("/etc/farrier/secret.key".as_ref())?;
//! let store = SqliteStore::open("/var/lib/farrier/farrier.db".as_ref(), sealer)?;
//! let record = store.create_node(&node, &[]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! WAL mode, one writing thread and a few reading connections per process. A write that a caller no longer waits for (its
//! future dropped, or out of patience) may still happen. Reads see every write that was acknowledged before them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use model::{ArtefactKind, ArtefactName, ConductorName, MacAddress, NodeId, Port, Tenure};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use crate::boot::{BootInstant, Process};
use crate::{
    ArtefactRecord, Claim, Conductor, Effect, Event, Filter, NodeRef, Outcome, PluginValue, Record, Sealer, Store,
    StoreError, Writer,
};

mod artefacts;
mod events;
mod journal;
mod leases;
mod nodes;
mod place;
mod ports;
mod readers;
mod rows;
mod schema;
mod trouble;
mod values;
mod writer;

use readers::Readers;
use trouble::Trouble;

/// How long a caller waits for an answer; longer than a connection waits for another process.
const PATIENCE: Duration = Duration::from_secs(30);

/// A [`Store`] in a SQLite file.
pub struct SqliteStore {
    shared: Arc<Shared>,
    /// `None` once the store is closed.
    queue: Mutex<Option<mpsc::Sender<Box<dyn writer::Job>>>>,
    readers: Readers,
    /// Its sender lives as long as the writing connection.
    writes: watch::Receiver<()>,
}

/// What all connections of this process have in common.
pub(crate) struct Shared {
    place: String,
    sealer: Sealer,
    process: Process,
    /// The run of each conductor that joined through this object; one, outside tests.
    instances: Mutex<HashMap<ConductorName, String>>,
}

/// A connection at work.
pub(crate) struct Session<'a> {
    db: &'a Connection,
    shared: &'a Shared,
}

impl Shared {
    fn instance(&self, name: &ConductorName) -> Option<String> {
        let instances = self.instances.lock();
        let instances = instances.unwrap_or_else(PoisonError::into_inner);
        instances.get(name).cloned()
    }

    fn unsealable(&self) -> String {
        format!(
            "its secrets do not open with the key in {}, or were changed",
            self.sealer.path()
        )
    }
}

impl SqliteStore {
    /// Opens the file, making it if it is not there. Blocks for a moment.
    pub fn open(path: &Path, sealer: Sealer) -> Result<Self, StoreError> {
        Self::open_as(path, sealer, Process::current()?)
    }

    fn open_as(path: &Path, sealer: Sealer, process: Process) -> Result<Self, StoreError> {
        place::prepare(path)?;
        let place = path.display().to_string();
        let opened = place::writer(path).and_then(|mut db| {
            schema::migrate(&mut db, &sealer, &place)?;
            Ok(db)
        });
        let db = opened.map_err(|trouble| trouble.at(&place, "open"))?;
        let shared = Arc::new(Shared {
            place,
            sealer,
            process,
            instances: Mutex::default(),
        });
        let (queue, jobs) = mpsc::channel(writer::QUEUE);
        let (open, writes) = watch::channel(());
        let context = shared.clone();
        std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || {
                writer::run(&db, &context, jobs);
                drop(db);
                drop(open);
            })
            .map_err(|error| StoreError::Database {
                place: shared.place.clone(),
                action: "start its writer",
                reason: error.to_string(),
            })?;
        Ok(Self {
            shared,
            queue: Mutex::new(Some(queue)),
            readers: Readers::new(path),
            writes,
        })
    }

    async fn write<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl Fn(&Session<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let failed = |reason: &str| StoreError::Database {
            place: self.shared.place.clone(),
            action,
            reason: reason.to_owned(),
        };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let queue = queue.ok_or_else(|| failed("the store is closed"))?;
        let (reply, answer) = oneshot::channel();
        let job = writer::Work {
            action,
            work,
            result: None,
            reply,
        };
        let done = async {
            let sent = queue.send(Box::new(job)).await;
            // The writer ends when nobody can bring more.
            drop(queue);
            sent.map_err(|_| failed("its writer has stopped; restart Farrier"))?;
            let gone = |_| failed("its writer stopped meanwhile; restart Farrier");
            answer.await.unwrap_or_else(|error| Err(gone(error)))
        };
        tokio::time::timeout(PATIENCE, done).await.unwrap_or_else(|_| {
            Err(failed(
                "no answer within 30 s, and the write may still happen; look for a hanging disk",
            ))
        })
    }

    async fn read<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Session<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.readers.read(self.shared.clone(), action, work);
        tokio::time::timeout(PATIENCE, done).await.unwrap_or_else(|_| {
            Err(StoreError::Database {
                place: self.shared.place.clone(),
                action,
                reason: "no answer within 30 s; look for a hanging disk".into(),
            })
        })
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create_node(&self, node: &model::Node, ports: &[Port]) -> Result<Record, StoreError> {
        let (node, ports) = (node.clone(), ports.to_vec());
        self.write("add a node", move |s| nodes::create(s, &node, &ports)).await
    }

    async fn node(&self, node: &NodeRef) -> Result<Option<Record>, StoreError> {
        let node = node.clone();
        self.read("read a node", move |s| nodes::one(s, &node)).await
    }

    async fn nodes(&self, filter: &Filter) -> Result<Vec<Record>, StoreError> {
        let filter = filter.clone();
        self.read("list nodes", move |s| nodes::list(s, &filter)).await
    }

    async fn update_node(&self, record: &Record, writer: &Writer) -> Result<Record, StoreError> {
        let (record, writer) = (record.clone(), writer.clone());
        self.write("write a node", move |s| nodes::update(s, &record, &writer))
            .await
    }

    async fn nodes_changed_after(&self, change: u64, limit: u32) -> Result<Vec<(u64, Record)>, StoreError> {
        self.read("list changed nodes", move |s| nodes::changed_after(s, change, limit))
            .await
    }

    async fn delete_node(&self, record: &Record) -> Result<(), StoreError> {
        let record = record.clone();
        self.write("remove a node", move |s| nodes::delete(s, &record)).await
    }

    async fn create_port(&self, port: &Port) -> Result<(), StoreError> {
        let port = port.clone();
        self.write("add a port", move |s| ports::create(s, &port)).await
    }

    async fn ports(&self, node: Option<&NodeId>) -> Result<Vec<Port>, StoreError> {
        let node = node.copied();
        self.read("list ports", move |s| ports::list(s, node.as_ref())).await
    }

    async fn delete_port(&self, id: &str) -> Result<(), StoreError> {
        let id = id.to_owned();
        self.write("remove a port", move |s| ports::delete(s, &id)).await
    }

    async fn node_by_macs(&self, macs: &[MacAddress]) -> Result<Option<Record>, StoreError> {
        let macs = macs.to_vec();
        self.read("find a node by its addresses", move |s| ports::node_by_macs(s, &macs))
            .await
    }

    async fn join(&self, me: &Conductor, lease: Duration) -> Result<(), StoreError> {
        let began = BootInstant::now();
        let joining = me.clone();
        let instance = self
            .write("join the conductors", move |s| leases::join(s, &joining, lease, began))
            .await?;
        let instances = self.shared.instances.lock();
        let mut instances = instances.unwrap_or_else(PoisonError::into_inner);
        instances.insert(me.name.clone(), instance);
        Ok(())
    }

    async fn keep_alive(&self, me: &ConductorName) -> Result<Duration, StoreError> {
        let began = BootInstant::now();
        let name = me.clone();
        let end = self
            .write("prolong a lease", move |s| leases::keep_alive(s, &name, began))
            .await?;
        Ok(end.since(BootInstant::now()))
    }

    async fn leave(&self, me: &ConductorName) -> Result<(), StoreError> {
        let name = me.clone();
        self.write("leave the conductors", move |s| leases::leave(s, &name))
            .await
    }

    async fn conductors(&self) -> Result<Vec<Conductor>, StoreError> {
        self.read("list conductors", leases::list).await
    }

    async fn claim(&self, node: &NodeId, me: &ConductorName) -> Result<Option<Claim>, StoreError> {
        let (node, me) = (*node, me.clone());
        self.write("claim a node", move |s| leases::claim(s, &node, &me)).await
    }

    async fn release(&self, node: &NodeId, tenure: &Tenure) -> Result<(), StoreError> {
        let (node, tenure) = (*node, tenure.clone());
        self.write("give a node back", move |s| leases::release(s, &node, &tenure))
            .await
    }

    async fn begin_effect(
        &self,
        node: &NodeId,
        tenure: &Tenure,
        action: &str,
        detail: &str,
    ) -> Result<u64, StoreError> {
        let (node, tenure) = (*node, tenure.clone());
        let (action, detail) = (action.to_owned(), detail.to_owned());
        self.write("journal an effect", move |s| {
            journal::begin(s, &node, &tenure, &action, &detail)
        })
        .await
    }

    async fn end_effect(&self, id: u64, outcome: &Outcome) -> Result<(), StoreError> {
        let outcome = outcome.clone();
        self.write("journal an outcome", move |s| journal::end(s, id, &outcome))
            .await
    }

    async fn effects(&self, node: &NodeId, limit: u32) -> Result<Vec<Effect>, StoreError> {
        let node = *node;
        self.read("read the journal", move |s| journal::list(s, &node, limit))
            .await
    }

    async fn put_artefact(&self, artefact: &ArtefactRecord, tenure: &Tenure) -> Result<(), StoreError> {
        let (artefact, tenure) = (artefact.clone(), tenure.clone());
        self.write("record an artefact", move |s| artefacts::put(s, &artefact, &tenure))
            .await
    }

    async fn artefacts(&self, node: &NodeId) -> Result<Vec<ArtefactRecord>, StoreError> {
        let node = *node;
        self.read("list artefacts", move |s| artefacts::list(s, &node)).await
    }

    async fn artefact_by_name(&self, name: &ArtefactName) -> Result<Option<ArtefactRecord>, StoreError> {
        let name = name.clone();
        self.read("find an artefact", move |s| artefacts::by_name(s, &name))
            .await
    }

    async fn remove_artefact(&self, node: &NodeId, kind: ArtefactKind, tenure: &Tenure) -> Result<(), StoreError> {
        let (node, tenure) = (*node, tenure.clone());
        self.write("forget an artefact", move |s| {
            artefacts::remove(s, &node, kind, &tenure)
        })
        .await
    }

    async fn plugin_value(&self, node: &NodeId, plugin: &str, key: &str) -> Result<Option<PluginValue>, StoreError> {
        let (node, plugin, key) = (*node, plugin.to_owned(), key.to_owned());
        self.read("read a plugin's value", move |s| values::get(s, &node, &plugin, &key))
            .await
    }

    async fn put_plugin_value(
        &self,
        node: &NodeId,
        plugin: &str,
        key: &str,
        value: &str,
        expect: Option<u64>,
    ) -> Result<u64, StoreError> {
        let (node, plugin, key) = (*node, plugin.to_owned(), key.to_owned());
        let value = value.to_owned();
        self.write("write a plugin's value", move |s| {
            values::put(s, &node, &plugin, &key, &value, expect)
        })
        .await
    }

    async fn delete_plugin_value(&self, node: &NodeId, plugin: &str, key: &str) -> Result<(), StoreError> {
        let (node, plugin, key) = (*node, plugin.to_owned(), key.to_owned());
        self.write("remove a plugin's value", move |s| {
            values::delete(s, &node, &plugin, &key)
        })
        .await
    }

    async fn append_event(
        &self,
        node: Option<&NodeId>,
        conductor: Option<&ConductorName>,
        kind: &str,
        message: &str,
    ) -> Result<u64, StoreError> {
        let (node, conductor) = (node.copied(), conductor.cloned());
        let (kind, message) = (kind.to_owned(), message.to_owned());
        self.write("record an event", move |s| {
            events::append(s, node.as_ref(), conductor.as_ref(), &kind, &message)
        })
        .await
    }

    async fn events(&self, node: Option<&NodeId>, after: u64, limit: u32) -> Result<Vec<Event>, StoreError> {
        let node = node.copied();
        self.read("list events", move |s| events::list(s, node.as_ref(), after, limit))
            .await
    }

    async fn change_number(&self) -> Result<u64, StoreError> {
        self.read("read the change number", nodes::change_number).await
    }

    async fn counts(&self) -> Result<BTreeMap<&'static str, u64>, StoreError> {
        self.read("count nodes", nodes::counts).await
    }

    /// The last connection to a file writes the journal back into it and removes that, so the readers go first.
    async fn close(&self) {
        let close = async {
            self.readers.close().await;
            drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
            // Ends with an error once the writing connection is closed.
            let _ = self.writes.clone().changed().await;
        };
        if tokio::time::timeout(PATIENCE, close).await.is_err() {
            tracing::warn!(store = %self.shared.place, "could not be closed within 30 s; look for a hanging disk");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use model::{Driver, Node};

    use super::*;

    /// A reboot: the same file and key, another boot id, a boot clock that may be anywhere.
    #[tokio::test]
    async fn after_a_reboot_every_lease_of_before_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let open = |boot_id: &str| {
            let sealer = Sealer::from_file(&folder.path().join("key")).unwrap();
            let process = Process {
                boot_id: boot_id.into(),
                ..Process::current().unwrap()
            };
            SqliteStore::open_as(&folder.path().join("db"), sealer, process).unwrap()
        };
        let conductor = |name: &str| Conductor {
            name: name.parse().unwrap(),
            group: String::new(),
            api_url: String::new(),
            images_url: String::new(),
            agent_urls: vec![format!("http://{name}")],
            alive: true,
            seen_at: SystemTime::now(),
        };
        let day = Duration::from_secs(86_400);
        let before = open("before");
        let (c1, c2) = (conductor("c1"), conductor("c2"));
        before.join(&c1, day).await.unwrap();
        let node = node();
        before.create_node(&node, &[]).await.unwrap();
        before.claim(&node.id, &c1.name).await.unwrap().unwrap();

        let after = open("after");
        assert!(!after.conductors().await.unwrap()[0].alive);
        // Its agent URLs count no more, its name is free, its node is taken over.
        after.join(&c2, day).await.unwrap();
        let claim = after.claim(&node.id, &c2.name).await.unwrap().unwrap();
        assert_eq!(claim.predecessor, Some(c1.name.clone()));
        assert_eq!(claim.predecessor_lease_left, Duration::ZERO);
        let mut same_urls = c1.clone();
        same_urls.agent_urls = c2.agent_urls.clone();
        after.join(&same_urls, day).await.unwrap();
        assert!(after.conductors().await.unwrap()[0].alive);
    }

    fn node() -> Node {
        Node::new(NodeId::random(), Driver::AgentIlo, SystemTime::now())
    }
}
