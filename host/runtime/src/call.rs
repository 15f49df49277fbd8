//! The runtime's face: one method for each function that a plugin exports, and how a single call runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, RwLock};

use model::{Device, Secret};
use tokio::time::timeout_at;

use crate::broker::Broker;
use crate::calls::Parameter;
use crate::catalog::{PluginConfig, PluginInfo, Role};
use crate::engine::Engine;
use crate::health::{Health, RollbackRule};
use crate::pins::Pins;
use crate::report::{CallReport, Observer, Outcome};
use crate::run::{Answer, Entry, Inner, Nested, failed, failure_of};
use crate::start;
use crate::take_over::{self, Observation, Step};
use crate::world::{CallContext, Candidate, Choice, Location, Request, World};
use crate::{CallError, CallFailure, LoadError, SiteFacts};

/// What a [`Runtime`] is made of.
#[derive(Clone, Debug, Default)]
pub struct RuntimeConfig {
    /// The site's plugins, in the order of the site file.
    pub plugins: Vec<PluginConfig>,
    /// Settings of the built-in plugins by role (a JSON object each), where the site has any.
    pub built_in_settings: BTreeMap<Role, serde_json::Value>,
    /// Facts that hold for the whole site; plugins see them under `site.`.
    pub site_facts: SiteFacts,
    /// Dead media of active servers are replaced at once (`[take-over] reinsert-active = "now"`).
    pub reinsert_active_now: bool,
    /// Plugins whose answers are only compared with those of the ones that decide.
    pub shadows: Vec<PluginConfig>,
    /// A folder of this process's own, where versions in use and their compiled code are kept over restarts.
    pub folder: Option<PathBuf>,
    /// When a version that fails is given up.
    pub rollback: RollbackRule,
}

/// A method that a vendor plugin adds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VendorMethod {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// HTTP methods by which it may be called.
    pub http_methods: Vec<String>,
    /// It may take long: the caller is answered before it ends.
    pub asynchronous: bool,
    /// JSON Schema of its arguments.
    pub arguments: String,
}

/// What a call gave, and what it cost.
#[derive(Debug)]
pub struct Called<T> {
    /// What the plugin answered, or why it was stopped.
    pub result: Result<T, CallError>,
    /// What the call cost.
    pub report: CallReport,
}

/// The site's plugins, ready to be called. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) inner: Arc<Inner>,
}

impl Runtime {
    /// Loads, checks and compiles every plugin, the built-in ones last, and starts each once to see that it can be.
    pub async fn new(
        engine: &Engine,
        config: RuntimeConfig,
        world: Arc<dyn World>,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, LoadError> {
        let RuntimeConfig {
            site_facts,
            reinsert_active_now,
            rollback,
            ..
        } = config.clone();
        let compiler = engine.clone();
        // Compiling takes a fraction of a second a plugin, too long for a thread that serves.
        let loading = tokio::task::spawn_blocking(move || start::catalog(&compiler, config));
        let (catalog, versions) = loading.await.map_err(|error| LoadError::Engine(error.to_string()))??;
        let catalog = Arc::new(catalog);
        let inner = Arc::new(Inner {
            engine: engine.clone(),
            catalog: RwLock::new(Arc::clone(&catalog)),
            pins: Pins::default(),
            health: Health::default(),
            rollback,
            versions,
            gate: OnceLock::new(),
            swapping: tokio::sync::Mutex::default(),
            calls: AtomicU64::new(1),
            world,
            observer,
            site_facts,
            reinsert_active_now,
        });
        for entry in catalog.all() {
            inner.try_start(&entry.active).await?;
        }
        Ok(Self { inner })
    }

    /// The same plugins over another world, told to another observer. What one learns of versions the other does not.
    pub fn in_world(&self, world: Arc<dyn World>, observer: Arc<dyn Observer>, site_facts: SiteFacts) -> Self {
        let inner = &self.inner;
        let reinsert_now = site_facts.get("reinsert-active").map(|choice| choice == "now");
        Self {
            inner: Arc::new(Inner {
                engine: inner.engine.clone(),
                catalog: RwLock::new(inner.catalog()),
                pins: Pins::default(),
                health: Health::default(),
                rollback: inner.rollback,
                versions: None,
                gate: OnceLock::new(),
                swapping: tokio::sync::Mutex::default(),
                calls: AtomicU64::new(1),
                world,
                observer,
                site_facts,
                reinsert_active_now: reinsert_now.unwrap_or(inner.reinsert_active_now),
            }),
        }
    }

    /// Every plugin, by role, in the order in which they are asked.
    pub fn plugins(&self) -> Vec<PluginInfo> {
        self.inner.catalog().list()
    }

    /// The plugin that decides for this node in this role.
    pub fn plugin_for(&self, role: Role, node: &model::Node) -> Option<String> {
        let catalog = self.inner.catalog();
        let (_, entry) = catalog.find(role, 0, node, &self.inner.site_facts)?;
        Some(entry.active.id.clone())
    }

    /// Media in and boot device set for a ramdisk with these parameters. Power is the caller's.
    pub async fn prepare_ramdisk(&self, context: &Arc<CallContext>, parameters: &[Parameter]) -> Called<()> {
        self.vmedia(context, |_| Entry::PrepareRamdisk(parameters.to_vec()))
            .await
    }

    /// Media out, floppy withdrawn.
    pub async fn clean_up_ramdisk(&self, context: &Arc<CallContext>) -> Called<()> {
        self.vmedia(context, |_| Entry::CleanUpRamdisk).await
    }

    /// Makes the deployed instance boot.
    pub async fn prepare_instance(&self, context: &Arc<CallContext>) -> Called<()> {
        self.vmedia(context, |_| Entry::PrepareInstance).await
    }

    /// Undoes that.
    pub async fn clean_up_instance(&self, context: &Arc<CallContext>) -> Called<()> {
        self.vmedia(context, |_| Entry::CleanUpInstance).await
    }

    /// Puts what the caller names into a device.
    pub async fn attach(&self, context: &Arc<CallContext>, device: Device, url: &Secret) -> Called<()> {
        self.vmedia(context, |broker| Entry::Attach(device, broker.accept(external(url))))
            .await
    }

    /// Empties a device.
    pub async fn detach(&self, context: &Arc<CallContext>, device: Device) -> Called<()> {
        self.vmedia(context, |_| Entry::Detach(device)).await
    }

    /// Boots an ISO that the caller names, once. Power is the caller's.
    pub async fn boot_into_iso(&self, context: &Arc<CallContext>, url: &Secret) -> Called<()> {
        self.vmedia(context, |broker| Entry::BootIntoIso(broker.accept(external(url))))
            .await
    }

    /// What a successor should do about the node. A plan that would touch an active server counts as a failure.
    pub async fn plan_take_over(&self, context: &Arc<CallContext>, observation: &Observation) -> Called<Vec<Step>> {
        let entry = Entry::Plan(observation.clone());
        let state = context.node.provision_state;
        let now = self.inner.reinsert_active_now;
        let check = |answer| match answer {
            Answer::Steps(steps) => take_over::check(&steps, observation, state, now).map(|()| steps),
            _ => Err(of_another_type()),
        };
        built_in(self.root(Role::TakeOver, context, |_| entry, check).await)
    }

    /// Which backend takes an artefact.
    pub async fn select_backend(
        &self,
        context: &Arc<CallContext>,
        request: &Request,
        candidates: &[Candidate],
    ) -> Called<Choice> {
        let entry = Entry::Select(request.clone(), candidates.to_vec());
        let check = |answer| match answer {
            Answer::Choice(choice) if candidates.iter().any(|candidate| candidate.id == choice.backend) => Ok(choice),
            Answer::Choice(_) => Err(CallFailure::Unusable(
                "it chose a backend that was not offered".to_owned(),
            )),
            _ => Err(of_another_type()),
        };
        built_in(self.root(Role::BackendSelection, context, |_| entry, check).await)
    }

    /// Methods that the node's vendor plugin adds; `None` if it has no such plugin.
    pub async fn vendor_methods(&self, context: &Arc<CallContext>) -> Option<Called<Vec<VendorMethod>>> {
        let check = |answer| match answer {
            Answer::Methods(methods) => Ok(methods),
            _ => Err(of_another_type()),
        };
        self.root(Role::Vendor, context, |_| Entry::Methods, check).await
    }

    /// Calls one of them; arguments and answer are JSON texts. `None` if the node has no vendor plugin.
    pub async fn vendor_call(
        &self,
        context: &Arc<CallContext>,
        method: &str,
        arguments: &str,
    ) -> Option<Called<serde_json::Value>> {
        let entry = Entry::Vendor {
            method: method.to_owned(),
            arguments: arguments.to_owned(),
        };
        let check = |answer| match answer {
            Answer::Text(text) => {
                serde_json::from_str(&text).map_err(|error| CallFailure::Unusable(format!("it is no JSON: {error}")))
            }
            _ => Err(of_another_type()),
        };
        self.root(Role::Vendor, context, |_| entry, check).await
    }

    async fn vmedia(&self, context: &Arc<CallContext>, entry: impl FnOnce(&mut Broker) -> Entry + Send) -> Called<()> {
        built_in(self.root(Role::Vmedia, context, entry, |_| Ok(())).await)
    }

    /// A call that no other led to: it takes a permit and sets the deadline for all that follow from it. `check` says
    /// whether the answer can be used. `None` if no plugin of this role matches the node.
    async fn root<T>(
        &self,
        role: Role,
        context: &Arc<CallContext>,
        entry: impl FnOnce(&mut Broker) -> Entry + Send,
        check: impl FnOnce(Answer) -> Result<T, CallFailure> + Send,
    ) -> Option<Called<T>> {
        let inner = &self.inner;
        let catalog = inner.catalog();
        let (number, found) = catalog.find(role, 0, &context.node, &inner.site_facts)?;
        let bound = inner.pins.choose(found, &context.node);
        let root = inner.root(Arc::clone(&catalog), &bound.limits);
        let permit = timeout_at(root.deadline, inner.engine.0.permits.acquire()).await;
        let mut called = match permit {
            Ok(Ok(_permit)) => {
                let nested = Nested { root, depth: 0, number };
                let (context, bound) = (Arc::clone(context), Arc::clone(&bound));
                Arc::clone(inner).run(context, bound, nested, entry).await
            }
            _ => inner.not_run(context, &bound, root.id),
        };
        let result = called.result.and_then(|answer| {
            check(answer).map_err(|failure| {
                called.report.outcome = Outcome::Failed(failure.cause());
                failed(&called.report.plugin, called.report.function, failure)
            })
        });
        inner.ended(&bound, &called.report, failure_of(&result));
        Some(Called {
            result,
            report: called.report,
        })
    }
}

fn built_in<T>(called: Option<Called<T>>) -> Called<T> {
    called.expect("the built-in plugin of each of these roles matches every node")
}

fn of_another_type() -> CallFailure {
    CallFailure::Unusable("it is of another type than the function's".to_owned())
}

fn external(url: &Secret) -> Location {
    Location {
        backend: None,
        kind: None,
        url: url.clone(),
        digest: None,
        expires: None,
    }
}
