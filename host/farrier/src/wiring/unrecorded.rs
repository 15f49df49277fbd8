//! What a conductor published and, killed in between, never recorded: found by the journal, and taken out of the backend.
//!
//! The journal holds no names, since whoever knows one may read the artefact, but hashes of them. So the backend's own list of
//! names is gone through, and only a name is removed that a publication for this node was journalled with.

use std::collections::BTreeSet;

use conductor::{CallError, Errand};
use nodes::{Outcome, Store};
use runtime::live::{SiteBackend, journalled_name_hash, name_hash};

use super::errors::{of_storage, of_store};
use super::records::journalled;

/// Effects of a node that are looked through: more than a journal keeps.
const EFFECTS: u32 = 1000;

/// What the runtime journals a publication as.
const PUBLISH: &str = "storage.publish";

/// Takes it out of every backend and closes its journal entries; tells what was taken out.
pub(super) async fn withdraw(
    store: &dyn Store,
    backends: &[SiteBackend],
    errand: &Errand,
) -> Result<Vec<String>, CallError> {
    let node = &errand.node.id;
    let mut effects = store.effects(node, EFFECTS).await.map_err(of_store)?;
    effects.retain(|effect| effect.action == PUBLISH && effect.tenure.term < errand.tenure.term);
    let open: Vec<u64> = effects
        .iter()
        .filter(|effect| effect.outcome.is_none())
        .map(|effect| effect.id)
        .collect();
    if open.is_empty() {
        return Ok(Vec::new());
    }
    // Closed ones as well: an artefact that the one cut short was to replace may have lost its record already.
    let mut hashes: BTreeSet<&str> = effects
        .iter()
        .filter_map(|effect| journalled_name_hash(&effect.detail))
        .collect();
    let recorded = store.artefacts(node).await.map_err(of_store)?;
    for record in &recorded {
        hashes.remove(name_hash(&record.name).as_str());
    }
    let mut gone = Vec::new();
    for site in backends {
        let names = site.backend.names().await.map_err(of_storage)?.unwrap_or_default();
        for name in names {
            if !hashes.contains(name_hash(&name).as_str()) {
                continue;
            }
            let detail = format!("{name} at {}, published and not recorded", site.id);
            let withdraw = async { site.backend.withdraw(&name).await.map_err(of_storage) };
            journalled(store, errand, "storage.withdraw", &detail, withdraw).await?;
            gone.push(detail);
        }
    }
    let outcome =
        Outcome::Failed("its conductor ended before it was recorded; what there was of it is gone".to_owned());
    for effect in open {
        store.end_effect(effect, &outcome).await.map_err(of_store)?;
    }
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use image::{Extent, Kind, Layout, NoSources};
    use model::{ArtefactKind, ArtefactName, Driver, Node, NodeId, Secret, Tenure};
    use nodes::{ArtefactRecord, Conductor, Sealer, SqliteStore};
    use storage::{Publication, Reader, WebRoot};

    use super::*;

    struct Lab {
        store: SqliteStore,
        web: Vec<SiteBackend>,
        folder: tempfile::TempDir,
    }

    impl Lab {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("web");
            std::fs::create_dir(&root).unwrap();
            let sealer = Sealer::from_file(&folder.path().join("key")).unwrap();
            let store = SqliteStore::open(&folder.path().join("db"), sealer).unwrap();
            let backend = Arc::new(WebRoot::new(&root, "http://192.0.2.1/").unwrap());
            let web = SiteBackend {
                id: "web".to_owned(),
                kind: "web-root".to_owned(),
                backend,
                max_lifetime: None,
                traits: Vec::new(),
                takes: Arc::new(|_| true),
            };
            Self {
                store,
                web: vec![web],
                folder,
            }
        }

        async fn join(&self, name: &str) {
            let me = Conductor {
                name: name.parse().unwrap(),
                group: String::new(),
                api_url: String::new(),
                images_url: String::new(),
                agent_urls: Vec::new(),
                alive: true,
                seen_at: SystemTime::now(),
            };
            self.store.join(&me, Duration::from_millis(300)).await.unwrap();
        }

        async fn claim(&self, node: &Node, name: &str) -> Errand {
            let conductor = name.parse().unwrap();
            let claim = self.store.claim(&node.id, &conductor).await.unwrap().unwrap();
            let term = claim.record.term;
            Errand {
                node: claim.record.node,
                tenure: Tenure { conductor, term },
                by_operator: false,
            }
        }

        /// Publishes as the runtime does, up to the record if `recorded`, and its end if `ended`.
        async fn publish(
            &self,
            errand: &Errand,
            kind: ArtefactKind,
            token: char,
            recorded: bool,
            ended: bool,
        ) -> ArtefactName {
            let name =
                ArtefactName::parse(&format!("{}.{}", String::from(token).repeat(32), kind.extension())).unwrap();
            let detail = format!("{kind}, name hash {}", name_hash(&name));
            let begun = self
                .store
                .begin_effect(&errand.node.id, &errand.tenure, PUBLISH, &detail)
                .await
                .unwrap();
            let layout = Layout::from_extents(Kind::Other, vec![Extent::Zero(4096)]).unwrap();
            let publication = Publication {
                name: name.clone(),
                layout: Arc::new(layout),
                sources: Arc::new(NoSources),
                reader: Reader::default(),
            };
            let published = self.web[0].backend.publish(&publication, None).await.unwrap();
            if recorded {
                let record = ArtefactRecord {
                    node: errand.node.id,
                    kind,
                    backend: "web".to_owned(),
                    name: name.clone(),
                    url: published.url,
                    digest: publication.layout.digest(),
                    size: 4096,
                    recipe: Secret::new("{}"),
                    published_by: errand.tenure.conductor.clone(),
                    published_at: SystemTime::now(),
                    expires: None,
                };
                self.store.put_artefact(&record, &errand.tenure).await.unwrap();
            }
            if ended {
                self.store.end_effect(begun, &Outcome::Done).await.unwrap();
            }
            name
        }

        fn files(&self) -> BTreeSet<String> {
            let list = |folder: &Path| {
                let entries = std::fs::read_dir(folder).unwrap();
                entries
                    .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                    .collect()
            };
            list(&self.folder.path().join("web"))
        }
    }

    #[tokio::test]
    async fn a_successor_withdraws_what_was_published_and_never_recorded_and_nothing_else() {
        let lab = Lab::new().await;
        lab.join("alpha").await;
        let node = Node::new(NodeId::random(), Driver::AgentIlo, SystemTime::now());
        let other = Node::new(NodeId::random(), Driver::AgentIlo, SystemTime::now());
        for node in [&node, &other] {
            lab.store.create_node(node, &[]).await.unwrap();
        }
        let errand = lab.claim(&node, "alpha").await;
        let elsewhere = lab.claim(&other, "alpha").await;
        let floppy = lab.publish(&errand, ArtefactKind::Floppy, 'a', true, true).await;
        let late = lab.publish(&errand, ArtefactKind::BootIso, 'b', true, false).await;
        let orphan = lab.publish(&errand, ArtefactKind::Floppy, 'c', false, false).await;
        let foreign = lab.publish(&elsewhere, ArtefactKind::Floppy, 'd', false, false).await;
        std::fs::write(
            lab.folder.path().join("web").join(format!("{}.iso", "e".repeat(32))),
            b"a neighbour's",
        )
        .unwrap();
        // Whoever published it may be about to record it.
        assert_eq!(withdraw(&lab.store, &lab.web, &errand).await.unwrap(), [""; 0]);
        assert_eq!(lab.files().len(), 5);

        // Killed there; somebody else has the node once the lease is over.
        let store = &lab.store;
        let over = || async { !store.conductors().await.unwrap()[0].alive };
        while !over().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        lab.join("beta").await;
        let errand = lab.claim(&node, "beta").await;
        let gone = withdraw(&lab.store, &lab.web, &errand).await.unwrap();
        assert_eq!(gone.len(), 1, "{gone:?}");
        assert!(!gone[0].contains(orphan.expose()), "a name is told");
        let left = lab.files();
        assert_eq!(left.len(), 4);
        for kept in [&floppy, &late, &foreign] {
            assert!(left.contains(kept.expose()));
        }
        let effects = lab.store.effects(&node.id, 100).await.unwrap();
        assert!(effects.iter().all(|effect| effect.outcome.is_some()), "{effects:?}");
        assert_eq!(withdraw(&lab.store, &lab.web, &errand).await.unwrap(), [""; 0]);
    }
}
