//! The running conductor: joins the site, keeps its lease alive, and works on the nodes that are its own.
//!
//! A *generation* is one hold of the lease. When the lease is lost everything of that generation stops at once, whatever it
//! was doing, and the conductor joins again as a newcomer; its nodes then have new terms or new owners.

use std::sync::Arc;
use std::time::Duration;

use agent::CallbackPolicy;
use model::{ConductorName, NodeId};
use nodes::{Store, StoreError};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::decide::Rules;
use crate::lease::BootInstant;
use crate::{LeaseClock, Policies, Power, Publications};

mod begin;
mod lease_keeper;
mod memory;
mod moves;
mod operator;
mod ramdisk;
mod scanner;
mod scheduler;
mod steps;
mod succession;
mod unread;
mod worker;

/// How long things may take before they fail.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// Checking a BMC, preparing a ramdisk's boot, setting up an instance, tearing one down: all retries included.
    pub prepare: Duration,
    /// How long a server may read nothing of what it was given to boot until its boot is repeated; `None` = for ever.
    pub fetch_alarm: Option<Duration>,
    /// From power-on until the deploy ramdisk calls back.
    pub callback: Duration,
    /// The same for the cleaning ramdisk.
    pub clean_callback: Duration,
    /// From its call-back until the image is written and flushed, or the node is clean.
    pub work: Duration,
    /// How long the agent may be silent while it is needed.
    pub agent_silence: Duration,
    /// Until a server has reached the power state that it was asked for.
    pub power: Duration,
    /// The same where its operating system is asked.
    pub soft_power_off: Duration,
    /// Cleaning up after a failure.
    pub clean_up: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            prepare: Duration::from_secs(1200),
            // Above the longest self-test of a server with much memory, which a reset would only begin anew.
            fetch_alarm: Some(Duration::from_secs(600)),
            callback: Duration::from_secs(1800),
            clean_callback: Duration::from_secs(1800),
            work: Duration::from_secs(7200),
            agent_silence: Duration::from_secs(300),
            power: Duration::from_secs(60),
            soft_power_off: Duration::from_secs(600),
            clean_up: Duration::from_secs(300),
        }
    }
}

/// What a conductor is told at its start.
#[derive(Clone, Debug)]
pub struct ConductorConfig {
    /// Its name, unique in the store.
    pub name: ConductorName,
    /// Takes only nodes of this conductor group.
    pub group: String,
    /// Where its API listens, for people.
    pub api_url: String,
    /// Where BMCs reach its embedded backend.
    pub images_url: String,
    /// Site-wide list of agent URLs.
    pub agent_urls: Vec<String>,
    /// Length of its lease.
    pub lease: Duration,
    /// Deadline of the longest request that changes something on a BMC: a successor waits this long after a lease's end.
    pub longest_request: Duration,
    /// See [`Timeouts`].
    pub timeouts: Timeouts,
    /// Nodes are cleaned before they become available.
    pub automated_clean: bool,
    /// Dead media of active nodes are inserted again at a take-over, not at the next reset.
    pub reinsert_active_now: bool,
    /// How often the store is asked for what changed.
    pub store_poll: Duration,
    /// How often an agent at work is asked how far it is.
    pub agent_poll: Duration,
    /// How often a server's power is read while it changes.
    pub power_poll: Duration,
    /// How often a settled node's power is read; it is adopted, never forced.
    pub power_sync: Duration,
    /// First pause before a step is tried again; it doubles up to sixteen times that.
    pub retry: Duration,
    /// Nodes that are worked on at the same time.
    pub workers: usize,
}

impl ConductorConfig {
    /// The defaults, for a conductor of this name.
    pub fn new(name: ConductorName) -> Self {
        Self {
            name,
            group: String::new(),
            api_url: String::new(),
            images_url: String::new(),
            agent_urls: Vec::new(),
            lease: Duration::from_secs(10),
            longest_request: Duration::from_secs(5),
            timeouts: Timeouts::default(),
            automated_clean: true,
            reinsert_active_now: false,
            store_poll: Duration::from_millis(200),
            agent_poll: Duration::from_secs(2),
            power_poll: Duration::from_secs(1),
            power_sync: Duration::from_secs(60),
            retry: Duration::from_secs(1),
            workers: 100,
        }
    }
}

/// What the conductor works through.
#[derive(Clone)]
pub struct Hands {
    /// Records, leases, journal, events.
    pub store: Arc<dyn Store>,
    /// The site's plugins.
    pub policies: Arc<dyn Policies>,
    /// The servers' BMCs.
    pub power: Arc<dyn Power>,
    /// What is published.
    pub publications: Arc<dyn Publications>,
    /// Which agents may be called.
    pub agents: CallbackPolicy,
}

/// Why a conductor did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store did not let it join; the message says what to do.
    #[error("conductor {name} could not join: {reason}")]
    Join {
        /// Its name.
        name: ConductorName,
        /// Why.
        #[source]
        reason: StoreError,
    },
    /// A setting that cannot work.
    #[error("conductor {name} cannot run with {setting}: {problem}")]
    Setting {
        /// Its name.
        name: ConductorName,
        /// Which setting.
        setting: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// What all parts of a running conductor share.
pub(crate) struct Shared {
    config: ConductorConfig,
    rules: Rules,
    hands: Hands,
    lease: LeaseClock,
    /// Begin nothing new.
    draining: CancellationToken,
    /// Give everything back and end.
    leaving: CancellationToken,
}

/// Entry point; see [`Conductor::start`].
pub struct Conductor;

impl Conductor {
    /// Joins the site and starts to work. `lease` shows from then on how long requests that change something may take; the
    /// BMC client's fence reads it.
    pub async fn start(config: ConductorConfig, hands: Hands, lease: LeaseClock) -> Result<Running, StartError> {
        check(&config)?;
        let rules = Rules {
            agent_silence: config.timeouts.agent_silence,
            automated_clean: config.automated_clean,
            fetch_alarm: config.timeouts.fetch_alarm,
        };
        let shared = Arc::new(Shared {
            config,
            rules,
            hands,
            lease: lease.clone(),
            draining: CancellationToken::new(),
            leaving: CancellationToken::new(),
        });
        let name = shared.config.name.clone();
        join(&shared)
            .await
            .map_err(|reason| StartError::Join { name, reason })?;
        let (wakes, woken) = mpsc::unbounded_channel();
        let work = tokio::spawn(supervise(shared.clone(), woken));
        Ok(Running {
            shared,
            wakes,
            work: Some(work),
        })
    }
}

fn check(config: &ConductorConfig) -> Result<(), StartError> {
    let wrong = |setting, problem| {
        let name = config.name.clone();
        Err(StartError::Setting { name, setting, problem })
    };
    if config.longest_request >= config.lease {
        return wrong(
            "lease-s",
            "a request to a BMC takes longer than the lease lasts, so none could ever be sent; lengthen the lease",
        );
    }
    if config.workers == 0 {
        return wrong("workers", "none would ever do anything");
    }
    Ok(())
}

/// A conductor at work. Dropped, it stops at once and leaves its lease to run out, as a killed process does.
pub struct Running {
    shared: Arc<Shared>,
    wakes: mpsc::UnboundedSender<NodeId>,
    work: Option<JoinHandle<()>>,
}

impl Running {
    /// Something about this node changed: look at it now rather than at the next poll of the store.
    pub fn wake(&self, node: &NodeId) {
        // Nobody listens any more only when the conductor has ended.
        let _ = self.wakes.send(*node);
    }

    /// A handle that wakes nodes, for the API.
    pub fn waker(&self) -> Waker {
        Waker {
            wakes: self.wakes.clone(),
        }
    }

    /// Begins nothing new; steps under way may end within this time. Then gives all nodes back and leaves.
    pub async fn drain(&mut self, within: Duration) {
        self.shared.draining.cancel();
        let leave = self.shared.leaving.clone();
        let timer = tokio::spawn(async move {
            tokio::time::sleep(within).await;
            leave.cancel();
        });
        self.join().await;
        timer.abort();
    }

    /// Waits until the conductor has ended.
    pub async fn join(&mut self) {
        if let Some(work) = &mut self.work {
            if let Err(error) = work.await {
                tracing::error!(%error, "the conductor ended badly");
            }
            self.work = None;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.shared.lease.revoke();
            work.abort();
        }
    }
}

/// Wakes nodes of a running conductor; cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker {
    wakes: mpsc::UnboundedSender<NodeId>,
}

impl Waker {
    /// As [`Running::wake`].
    pub fn wake(&self, node: &NodeId) {
        let _ = self.wakes.send(*node);
    }
}

/// Joins the site; the lease counts from before that was asked.
async fn join(shared: &Shared) -> Result<(), StoreError> {
    let config = &shared.config;
    let me = nodes::Conductor {
        name: config.name.clone(),
        group: config.group.clone(),
        api_url: config.api_url.clone(),
        images_url: config.images_url.clone(),
        agent_urls: config.agent_urls.clone(),
        alive: true,
        seen_at: std::time::SystemTime::now(),
    };
    let sent = BootInstant::now();
    shared.hands.store.join(&me, config.lease).await?;
    shared.lease.confirm(sent, config.lease);
    Ok(())
}

/// Runs generation after generation until the conductor leaves.
async fn supervise(shared: Arc<Shared>, mut woken: mpsc::UnboundedReceiver<NodeId>) {
    let name = &shared.config.name;
    loop {
        let end = CancellationToken::new();
        // In a set, so that it ends with this task, however that ends: nobody keeps a dead conductor's lease alive.
        let mut keeper = JoinSet::new();
        keeper.spawn(lease_keeper::run(shared.clone(), end.clone()));
        // Dropping what `run` returns has already stopped every task of the generation.
        scheduler::run(shared.clone(), &mut woken, end.clone()).await;
        end.cancel();
        let kept = keeper.join_next().await;
        shared.lease.revoke();
        if shared.draining.is_cancelled() {
            if let Err(error) = shared.hands.store.leave(name).await {
                tracing::warn!(conductor = %name, %error, "could not leave; the lease runs out by itself");
            }
            return;
        }
        if let Some(Err(error)) = kept {
            tracing::error!(conductor = %name, %error, "the lease's keeper ended badly");
        }
        tracing::error!(conductor = %name, "the lease was lost; all work stopped, joining again");
        while let Err(error) = join(&shared).await {
            tracing::warn!(conductor = %name, %error, "could not join again yet");
            tokio::select! {
                () = tokio::time::sleep(shared.config.lease / 3) => {}
                () = shared.draining.cancelled() => return,
            }
        }
    }
}
