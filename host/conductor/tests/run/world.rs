//! Servers, media and policies in memory; everything that is done to them is noted.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use conductor::{CallError, Errand, ErrorClass};
use model::take_over::PlanStep;
use model::{ArtefactKind, NodeId, PowerState, Secret};
use nodes::{NodeRef, Store};
use tokio::sync::Notify;

use crate::agent_sim::Boot;

/// One server and what is published for it.
pub(crate) struct Server {
    pub(crate) power: PowerState,
    pub(crate) published: BTreeMap<&'static str, Published>,
    /// Published, and never recorded.
    pub(crate) unrecorded: Vec<String>,
    /// The token that stands on the published floppy.
    pub(crate) floppy_token: Option<Secret>,
    /// Does not boot its ramdisk.
    pub(crate) mute: bool,
    /// Its firmware skips virtual media, at so many boots from now on.
    pub(crate) blind: u32,
    /// Percents of its boot ISO that were read, all reads together.
    pub(crate) read: u64,
    pub(crate) image_fails: bool,
    pub(crate) ignores_power_off: bool,
    /// Boots its instance, not the ramdisk.
    pub(crate) instance: bool,
    /// A call is under way.
    busy: bool,
    pub(crate) boot: Option<Boot>,
}

/// An artefact in the world.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) by: String,
    pub(crate) in_slot: bool,
    pub(crate) dead: bool,
}

/// Where a conductor is to be killed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gate {
    pub(crate) effect: String,
    pub(crate) after: bool,
}

pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) me: Weak<World>,
    servers: Mutex<HashMap<NodeId, Server>>,
    notes: Mutex<Vec<(NodeId, String)>>,
    violations: Mutex<Vec<String>>,
    errors: Mutex<HashMap<String, VecDeque<CallError>>>,
    gate: Mutex<Option<Gate>>,
    pub(crate) reached: Notify,
    killed: Mutex<HashSet<String>>,
    pub(crate) plan: Mutex<Option<Vec<PlanStep>>>,
}

impl World {
    pub(crate) fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            store,
            me: me.clone(),
            servers: Mutex::default(),
            notes: Mutex::default(),
            violations: Mutex::default(),
            errors: Mutex::default(),
            gate: Mutex::default(),
            reached: Notify::new(),
            killed: Mutex::default(),
            plan: Mutex::default(),
        })
    }

    pub(crate) fn add(&self, node: NodeId) {
        let server = Server {
            power: PowerState::Off,
            published: BTreeMap::new(),
            unrecorded: Vec::new(),
            floppy_token: None,
            mute: false,
            blind: 0,
            read: 0,
            image_fails: false,
            ignores_power_off: false,
            instance: false,
            busy: false,
            boot: None,
        };
        self.servers.lock().unwrap().insert(node, server);
    }

    pub(crate) fn lock(&self, node: &NodeId) -> impl std::ops::DerefMut<Target = Server> + '_ {
        struct Locked<'a>(MutexGuard<'a, HashMap<NodeId, Server>>, NodeId);
        impl std::ops::Deref for Locked<'_> {
            type Target = Server;
            fn deref(&self) -> &Server {
                self.0.get(&self.1).unwrap()
            }
        }
        impl std::ops::DerefMut for Locked<'_> {
            fn deref_mut(&mut self) -> &mut Server {
                self.0.get_mut(&self.1).unwrap()
            }
        }
        Locked(self.servers.lock().unwrap(), *node)
    }

    pub(crate) fn note(&self, node: &NodeId, what: &str) {
        self.notes.lock().unwrap().push((*node, what.to_owned()));
    }

    /// What was done to a node, in order; heartbeats and reads are not in it.
    pub(crate) fn notes(&self, node: &NodeId) -> Vec<String> {
        let notes = self.notes.lock().unwrap();
        notes
            .iter()
            .filter(|(id, _)| id == node)
            .map(|(_, what)| what.clone())
            .collect()
    }

    pub(crate) fn count(&self, node: &NodeId, what: &str) -> usize {
        self.notes(node).iter().filter(|note| note.starts_with(what)).count()
    }

    pub(crate) fn violation(&self, node: &NodeId, what: &str) {
        self.violations.lock().unwrap().push(format!("{node}: {what}"));
    }

    #[track_caller]
    pub(crate) fn assert_no_violations(&self) {
        let violations = self.violations.lock().unwrap();
        assert!(violations.is_empty(), "{violations:#?}");
    }

    /// The error that a call of this name is to fail with now, if one.
    pub(crate) fn planned_error(&self, call: &str) -> Option<CallError> {
        self.errors.lock().unwrap().get_mut(call).and_then(VecDeque::pop_front)
    }

    /// The next calls of this name fail so.
    pub(crate) fn fail(&self, call: &str, class: ErrorClass, times: usize) {
        let error = CallError {
            class,
            message: format!("{call} went wrong"),
        };
        let mut errors = self.errors.lock().unwrap();
        errors.entry(call.to_owned()).or_default().extend(vec![error; times]);
    }

    /// From the given effect on the conductor hangs, to be killed there.
    pub(crate) fn hang_at(&self, effect: &str, after: bool) {
        let effect = effect.to_owned();
        *self.gate.lock().unwrap() = Some(Gate { effect, after });
    }

    pub(crate) async fn before(&self, _: &NodeId, effect: &str) {
        self.pass(effect, false).await;
    }

    pub(crate) async fn after(&self, _: &NodeId, effect: &str) {
        self.pass(effect, true).await;
    }

    async fn pass(&self, effect: &str, after: bool) {
        let effect = effect.to_owned();
        let here = Some(Gate { effect, after });
        let hangs = {
            let mut gate = self.gate.lock().unwrap();
            let hangs = *gate == here;
            if hangs {
                *gate = None;
            }
            hangs
        };
        if hangs {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
    }

    /// The ramdisk powers its server off, soon after it has said so.
    pub(crate) fn power_fails(&self, node: NodeId) {
        let world = self.me.upgrade().unwrap();
        self.lock(&node).power = PowerState::Off;
        let boot = self.lock(&node).boot.take();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop((boot, world));
        });
    }

    /// The ramdisk is gone, the server stays on.
    pub(crate) fn lose_ramdisk(&self, node: &NodeId) {
        let boot = self.lock(node).boot.take();
        drop(boot);
    }

    /// What this conductor served is served no more, and a call by it is a violation.
    pub(crate) fn killed(&self, name: &str) {
        self.killed.lock().unwrap().insert(name.to_owned());
        for server in self.servers.lock().unwrap().values_mut() {
            for published in server.published.values_mut().filter(|published| published.by == name) {
                published.dead = true;
            }
        }
    }

    /// A call that changes something: who calls must hold the node, alone, and may touch an active server only for an
    /// operator.
    pub(crate) async fn enter(&self, errand: &Errand, effect: &str) -> Result<Call<'_>, CallError> {
        let id = errand.node.id;
        let record = self.store.node(&NodeRef::Id(id)).await.unwrap().unwrap();
        let holds = record.owner.as_ref() == Some(&errand.tenure.conductor) && record.term == errand.tenure.term;
        if !holds || self.killed.lock().unwrap().contains(errand.tenure.conductor.as_str()) {
            self.violation(
                &id,
                &format!("{effect} by {} who does not hold the node", errand.tenure.conductor),
            );
        }
        if record.node.provision_state.is_active() && !errand.by_operator && effect != "regenerate" {
            let harmless =
                effect.starts_with("reinsert") || effect.starts_with("renew") || effect == "withdraw unrecorded";
            if !harmless {
                self.violation(&id, &format!("{effect} on an active node"));
            }
        }
        if std::mem::replace(&mut self.lock(&id).busy, true) {
            self.violation(&id, &format!("{effect} while another call runs"));
        }
        let call = Call {
            world: self,
            node: id,
            effect: effect.to_owned(),
        };
        self.pass(effect, false).await;
        let planned = self.planned_error(effect);
        match planned {
            Some(error) => Err(error),
            None => {
                self.note(&id, effect);
                Ok(call)
            }
        }
    }

    pub(crate) fn take_media_out(&self, node: &NodeId, effect: &str) {
        let mut server = self.lock(node);
        let runs = server.power == PowerState::On;
        for published in server.published.values_mut() {
            published.in_slot = false;
        }
        server.published.remove("floppy");
        drop(server);
        if runs {
            self.violation(node, &format!("{effect} while the server runs"));
        }
    }

    pub(crate) fn publish(&self, errand: &Errand, kind: ArtefactKind) {
        let published = Published {
            by: errand.tenure.conductor.to_string(),
            in_slot: true,
            dead: false,
        };
        self.lock(&errand.node.id).published.insert(kind.as_str(), published);
    }
}

/// A call under way.
pub(crate) struct Call<'a> {
    world: &'a World,
    node: NodeId,
    effect: String,
}

impl Call<'_> {
    pub(crate) async fn leave(self) {
        self.world.pass(&self.effect, true).await;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.world.lock(&self.node).busy = false;
    }
}

/// Waits until something is so, at most half a minute.
pub(crate) async fn until<T, F: std::future::Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}
