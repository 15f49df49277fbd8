//! Nodes, conductors and stores for the tests.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use model::{ArtefactKind, ArtefactName, ConductorName, Driver, Node, NodeId, Secret, Tenure};
use nodes::{ArtefactRecord, Conductor, Sealer, SqliteStore, Store, StoreError};

/// Long enough for a slow machine, short enough to wait for its end.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("farrier.db")
    }

    /// A store object, as another process would have it.
    pub(crate) fn open(&self) -> SqliteStore {
        open(self.folder.path()).unwrap()
    }
}

pub(crate) fn open(folder: &Path) -> Result<SqliteStore, StoreError> {
    let sealer = Sealer::from_file(&folder.join("secret.key"))?;
    SqliteStore::open(&folder.join("farrier.db"), sealer)
}

pub(crate) fn node(name: &str) -> Node {
    Node {
        name: (!name.is_empty()).then(|| name.parse().unwrap()),
        ..Node::new(NodeId::random(), Driver::AgentIlo, SystemTime::now())
    }
}

pub(crate) fn name(text: &str) -> ConductorName {
    text.parse().unwrap()
}

pub(crate) fn conductor(text: &str) -> Conductor {
    Conductor {
        name: name(text),
        group: String::new(),
        api_url: "http://127.0.0.1:6385".into(),
        images_url: "http://127.0.0.1:6386".into(),
        agent_urls: vec!["http://127.0.0.1:6387".into()],
        alive: true,
        seen_at: SystemTime::now(),
    }
}

pub(crate) fn tenure(conductor: &str, term: u64) -> Tenure {
    Tenure {
        conductor: name(conductor),
        term,
    }
}

/// Joins and takes a fresh node.
pub(crate) async fn holding(store: &SqliteStore, who: &str, lease: Duration) -> (NodeId, Tenure) {
    store.join(&conductor(who), lease).await.unwrap();
    let node = node("");
    store.create_node(&node, &[]).await.unwrap();
    let claim = store.claim(&node.id, &name(who)).await.unwrap().unwrap();
    (node.id, tenure(who, claim.record.term))
}

pub(crate) fn artefact(node: NodeId, kind: ArtefactKind, token: &str) -> ArtefactRecord {
    let file = format!("{token:a<25}.{}", kind.extension());
    ArtefactRecord {
        node,
        kind,
        backend: "local".into(),
        name: ArtefactName::parse(&file).unwrap(),
        url: Secret::new(format!("http://127.0.0.1:6386/{file}")),
        digest: format!("sha256:{}", "ab".repeat(32)).parse().unwrap(),
        size: 1_474_560,
        recipe: Secret::new("{\"writer\":1}"),
        published_by: name("c1"),
        published_at: SystemTime::now(),
        expires: None,
    }
}

/// Waits for a condition, with a bound.
pub(crate) async fn until(what: &str, mut met: impl AsyncFnMut() -> bool) {
    let patience = Instant::now() + LONG;
    while !met().await {
        assert!(Instant::now() < patience, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
