//! Which node is worked on when: one task a node at most, a bounded number of tasks, idle nodes cost nothing.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use model::{NodeId, Tenure};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::memory::Memory;
use super::scanner::{self, Found};
use super::worker::{Ended, Worker};

/// Longest rest of a node: a leap of the wall clock, on which deadlines are kept, is noticed after this at the latest.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Runs one generation: until `end`, or until a drain is done. No task of it is left when this returns.
pub(super) async fn run(shared: Arc<Shared>, woken: &mut mpsc::UnboundedReceiver<NodeId>, end: CancellationToken) {
    let (sender, mut found) = mpsc::channel(1024);
    let look = Arc::new(Notify::new());
    let mut scanner = JoinSet::new();
    scanner.spawn(scanner::run(shared.clone(), sender, look.clone()));
    let mut scheduler = Scheduler {
        shared: shared.clone(),
        slots: HashMap::new(),
        ready: VecDeque::new(),
        queued: HashSet::new(),
        timers: BinaryHeap::new(),
        tasks: JoinSet::new(),
        running: HashMap::new(),
    };
    loop {
        if shared.draining.is_cancelled() && scheduler.tasks.is_empty() {
            break;
        }
        scheduler.start_ready();
        let timer = scheduler.next_timer();
        tokio::select! {
            biased;
            () = end.cancelled() => break,
            () = shared.leaving.cancelled() => break,
            () = shared.draining.cancelled(), if !shared.draining.is_cancelled() => {}
            ended = scheduler.tasks.join_next(), if !scheduler.tasks.is_empty() => match ended {
                Some(Ok((id, memory, Ended::LeaseLost))) => {
                    tracing::error!(node = %id, term = memory.tenure.term, "a write was refused: the lease is lost");
                    end.cancel();
                }
                Some(Ok((id, memory, ended))) => scheduler.ended(id, memory, ended).await,
                Some(Err(error)) => scheduler.panicked(&error),
                None => {}
            },
            Some(found) = found.recv() => scheduler.found(found).await,
            Some(id) = woken.recv() => {
                if !scheduler.wake(id) {
                    look.notify_one();
                }
            }
            () = tokio::time::sleep_until(timer) => scheduler.fire(),
        }
    }
    // Aborts what runs, and waits until it is gone: nothing of this generation may act any more.
    scheduler.tasks.shutdown().await;
    scanner.shutdown().await;
}

/// A node that this conductor holds.
struct Slot {
    /// `None` while a task works with it.
    memory: Option<Memory>,
    tenure: Tenure,
    /// Look at it again after the task that runs.
    again: bool,
    /// Version that somebody wrote while the task ran.
    changed: u64,
    /// Tells the task that runs of either.
    knock: Arc<Notify>,
    /// Nothing is under way: it may be given to another conductor.
    settled: bool,
    /// It belongs to another live conductor.
    misplaced: bool,
    /// Which timer counts; older ones are void.
    timer: u64,
}

struct Scheduler {
    shared: Arc<Shared>,
    slots: HashMap<NodeId, Slot>,
    ready: VecDeque<NodeId>,
    queued: HashSet<NodeId>,
    timers: BinaryHeap<Reverse<(Instant, u64, NodeId)>>,
    tasks: JoinSet<(NodeId, Memory, Ended)>,
    running: HashMap<tokio::task::Id, NodeId>,
}

impl Scheduler {
    fn start_ready(&mut self) {
        while self.tasks.len() < self.shared.config.workers && !self.shared.draining.is_cancelled() {
            let Some(id) = self.ready.pop_front() else {
                return;
            };
            self.queued.remove(&id);
            let Some(slot) = self.slots.get_mut(&id) else {
                continue;
            };
            let Some(memory) = slot.memory.take() else {
                continue;
            };
            let worker = Worker::new(self.shared.clone(), id, memory, slot.knock.clone());
            let task = self.tasks.spawn(worker.run());
            self.running.insert(task.id(), id);
        }
    }

    /// Puts the node in the queue; a node that a task works on is looked at again afterwards. False = not ours.
    fn wake(&mut self, id: NodeId) -> bool {
        let Some(slot) = self.slots.get_mut(&id) else {
            return false;
        };
        if slot.memory.is_none() {
            slot.again = true;
            slot.knock.notify_one();
        } else if self.queued.insert(id) {
            self.ready.push_back(id);
        }
        true
    }

    async fn ended(&mut self, id: NodeId, memory: Memory, ended: Ended) {
        self.running.retain(|_, node| *node != id);
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        if slot.tenure != memory.tenure {
            // It was lost and claimed anew while the old task ended; the new memory is in the slot.
            return;
        }
        match ended {
            Ended::Rest { pause, settled } => {
                let again = slot.again || slot.changed > memory.version;
                slot.settled = settled;
                slot.memory = Some(memory);
                slot.again = false;
                if settled && slot.misplaced {
                    self.give_back(id).await;
                } else if again {
                    self.wake(id);
                } else {
                    self.set_timer(id, pause);
                }
            }
            Ended::Lost => {
                tracing::info!(node = %id, "the node is no longer this conductor's");
                self.slots.remove(&id);
            }
            Ended::LeaseLost => {}
        }
    }

    /// A defect in the work on one node must neither stop the others nor leave that one alone for ever.
    fn panicked(&mut self, error: &tokio::task::JoinError) {
        let Some(id) = self.running.remove(&error.id()) else {
            return;
        };
        tracing::error!(node = %id, %error, "the work on the node ended in a panic; it goes on in a minute");
        if let Some(slot) = self.slots.get_mut(&id) {
            let tenure = slot.tenure.clone();
            slot.memory = Some(Memory::new(&id, tenure, &self.shared.config, SystemTime::now()));
            self.set_timer(id, Some(LONGEST_REST));
        }
    }

    async fn found(&mut self, found: Found) {
        match found {
            Found::Claimed(claim) => {
                let id = claim.record.node.id;
                let known = self.slots.get(&id).map(|slot| slot.tenure.term);
                if known == Some(claim.record.term) {
                    return;
                }
                let memory = Memory::of(&claim, &self.shared.config, SystemTime::now());
                let slot = Slot {
                    tenure: memory.tenure.clone(),
                    memory: Some(memory),
                    again: false,
                    changed: 0,
                    knock: Arc::new(Notify::new()),
                    settled: false,
                    misplaced: false,
                    timer: 0,
                };
                self.slots.insert(id, slot);
                self.wake(id);
            }
            Found::Changed(id, version) => {
                let Some(slot) = self.slots.get_mut(&id) else {
                    return;
                };
                match &slot.memory {
                    Some(memory) if memory.version >= version => {}
                    Some(_) => {
                        self.wake(id);
                    }
                    None => {
                        slot.changed = slot.changed.max(version);
                        slot.knock.notify_one();
                    }
                }
            }
            Found::Misplaced(id) => self.give_back(id).await,
            Found::Foreign(id) => {
                // A task that works on it finds out by itself.
                if self.slots.get(&id).is_some_and(|slot| slot.memory.is_some()) {
                    self.slots.remove(&id);
                }
            }
        }
    }

    /// Gives a settled node to the conductor that it belongs to. One that is worked on, or for which something is published, is
    /// given back some other time.
    async fn give_back(&mut self, id: NodeId) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        slot.misplaced = true;
        if slot.memory.is_none() || !slot.settled || self.queued.contains(&id) {
            return;
        }
        let store = &self.shared.hands.store;
        match store.artefacts(&id).await {
            Ok(published) if published.is_empty() => {}
            // Perhaps only this conductor serves it; whoever had the node would not notice when that ends.
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(node = %id, %error, "the node could not be given back");
                return;
            }
        }
        match store.release(&id, &slot.tenure).await {
            Ok(()) => {
                self.slots.remove(&id);
            }
            Err(error) => tracing::warn!(node = %id, %error, "the node could not be given back"),
        }
    }

    fn set_timer(&mut self, id: NodeId, pause: Option<Duration>) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        slot.timer += 1;
        if let Some(pause) = pause {
            let at = Instant::now() + pause.min(LONGEST_REST);
            self.timers.push(Reverse((at, slot.timer, id)));
        }
    }

    fn next_timer(&self) -> Instant {
        let next = self.timers.peek().map(|Reverse((at, ..))| *at);
        next.unwrap_or_else(|| Instant::now() + LONGEST_REST)
    }

    fn fire(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((at, timer, id))) = self.timers.peek().copied() {
            if at > now {
                return;
            }
            self.timers.pop();
            if self.slots.get(&id).is_some_and(|slot| slot.timer == timer) {
                self.wake(id);
            }
        }
    }
}
