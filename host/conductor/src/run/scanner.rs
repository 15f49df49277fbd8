//! Watches the store: who is alive, which nodes changed, which nobody works on; claims what is this conductor's own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{ConductorName, NodeId};
use nodes::{Claim, Conductor, Filter, Record, StoreError};
use tokio::sync::{Notify, mpsc};

use super::Shared;
use crate::schedule::home;

/// Nodes that are read at once.
const PAGE: u32 = 500;

/// What the scanner found.
pub(super) enum Found {
    /// A node that is now ours.
    Claimed(Box<Claim>),
    /// A node of ours was written by somebody, us included.
    Changed(NodeId, u64),
    /// A node of ours that belongs to another live conductor.
    Misplaced(NodeId),
    /// Somebody else holds the node.
    Foreign(NodeId),
}

/// Reports until nobody listens any more. `now` asks for a look at once.
pub(super) async fn run(shared: Arc<Shared>, found: mpsc::Sender<Found>, now: Arc<Notify>) {
    let mut scanner = Scanner {
        shared,
        found,
        conductors: Vec::new(),
        change: None,
        held: HashMap::new(),
        members_due: Instant::now(),
    };
    loop {
        match scanner.round().await {
            Ok(()) => {}
            Err(Trouble::Gone) => return,
            Err(Trouble::Store(error)) => {
                tracing::warn!(conductor = %scanner.me(), %error, "the store could not be watched");
            }
        }
        let pause = scanner.shared.config.store_poll;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = now.notified() => {}
        }
    }
}

enum Trouble {
    Gone,
    Store(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

struct Scanner {
    shared: Arc<Shared>,
    found: mpsc::Sender<Found>,
    conductors: Vec<Conductor>,
    /// Changes up to this one have been looked at; `None` = all nodes have to be.
    change: Option<u64>,
    /// Nodes that were claimed, with their terms.
    held: HashMap<NodeId, u64>,
    members_due: Instant,
}

impl Scanner {
    fn me(&self) -> &ConductorName {
        &self.shared.config.name
    }

    async fn round(&mut self) -> Result<(), Trouble> {
        let store = self.shared.hands.store.clone();
        if self.members_due <= Instant::now() {
            let conductors = store.conductors().await?;
            if living(&conductors) != living(&self.conductors) {
                self.change = None;
            }
            self.conductors = conductors;
            let pause = (self.shared.config.lease / 10).min(Duration::from_secs(1));
            self.members_due = Instant::now() + pause;
        }
        let newest = store.change_number().await?;
        let Some(mut seen) = self.change else {
            // What changes while all nodes are read is looked at again afterwards.
            self.all().await?;
            self.change = Some(newest);
            return Ok(());
        };
        while seen < newest {
            let page = store.nodes_changed_after(seen, PAGE).await?;
            let Some((last, _)) = page.last() else {
                seen = newest;
                break;
            };
            seen = *last;
            for (_, record) in &page {
                self.consider(record).await?;
            }
        }
        self.change = Some(seen);
        Ok(())
    }

    async fn all(&mut self) -> Result<(), Trouble> {
        let store = self.shared.hands.store.clone();
        let mut filter = Filter {
            limit: Some(PAGE),
            ..Filter::default()
        };
        loop {
            let page = store.nodes(&filter).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            filter.after = Some(last.node.id);
            for record in &page {
                self.consider(record).await?;
            }
        }
    }

    async fn consider(&mut self, record: &Record) -> Result<(), Trouble> {
        let id = record.node.id;
        let group = &record.node.conductor_group;
        let live = self.conductors.iter().filter(|one| one.alive && one.group == *group);
        let home = home(&id, live.map(|conductor| &conductor.name));
        let is_home = home == Some(self.me());
        let has_other_home = !is_home && home.is_some();
        let is_alive = |name: &ConductorName| {
            let known = self.conductors.iter().find(|conductor| conductor.name == *name);
            known.is_some_and(|conductor| conductor.alive)
        };
        match &record.owner {
            Some(owner) if owner == self.me() => {
                // What an earlier run of this conductor held has to be taken over from it.
                if self.held.get(&id) != Some(&record.term) {
                    self.claim(&id, false).await?;
                }
                self.tell(Found::Changed(id, record.version)).await?;
                if has_other_home {
                    self.tell(Found::Misplaced(id)).await?;
                }
                Ok(())
            }
            Some(owner) if is_alive(owner) => {
                self.held.remove(&id);
                self.tell(Found::Foreign(id)).await
            }
            owner if is_home && !self.shared.draining.is_cancelled() => self.claim(&id, owner.is_none()).await,
            _ => {
                self.held.remove(&id);
                Ok(())
            }
        }
    }

    /// `given_back`: nobody held it. What its last conductor published was perhaps served by that conductor alone, so it has to
    /// be looked after as if that had died.
    async fn claim(&mut self, id: &NodeId, given_back: bool) -> Result<(), Trouble> {
        let store = self.shared.hands.store.clone();
        match store.claim(id, self.me()).await {
            Ok(Some(mut claim)) => {
                if given_back && claim.predecessor.is_none() {
                    let published = store.artefacts(id).await?;
                    claim.predecessor = published.into_iter().next().map(|artefact| artefact.published_by);
                }
                self.held.insert(*id, claim.record.term);
                self.tell(Found::Claimed(Box::new(claim))).await
            }
            Ok(None) => self.tell(Found::Foreign(*id)).await,
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn tell(&self, found: Found) -> Result<(), Trouble> {
        self.found.send(found).await.map_err(|_| Trouble::Gone)
    }
}

fn living(conductors: &[Conductor]) -> BTreeSet<(&ConductorName, &str)> {
    let live = conductors.iter().filter(|conductor| conductor.alive);
    live.map(|conductor| (&conductor.name, conductor.group.as_str()))
        .collect()
}
