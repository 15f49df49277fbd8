//! How a single call runs: its store, its limits, and what its end means.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use model::Device;
use tokio::time::timeout_at;
use wasmtime::{CallHook, Store, Trap, UpdateDeadline};

use crate::abi::v0_1 as abi;
use crate::broker::{Broker, HostError, Root};
use crate::calls::{LocationHandle, Parameter};
use crate::catalog::{Bound, Catalog, Role};
use crate::engine::{DEPTH, Engine, Stopped};
use crate::error::shortened;
use crate::grants::Allowed;
use crate::health::{Health, RollbackRule};
use crate::limits::{Meter, Stopwatch};
use crate::pins::Pins;
use crate::report::{CallReport, Observer, Outcome};
use crate::shadow::EchoSession;
use crate::shadow::Recording;
use crate::swap::Gate;
use crate::take_over::{Observation, Step};
use crate::versions::Versions;
use crate::watched::Watched;
use crate::world::{CallContext, Candidate, Choice, Location, Request, World};
use crate::{CallError, CallFailure, Called, DriverError, Limits, LoadError, SiteFacts, VendorMethod};

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    /// What decides now. A call keeps the one with which it began.
    pub(crate) catalog: RwLock<Arc<Catalog>>,
    pub(crate) pins: Pins,
    pub(crate) health: Health,
    pub(crate) rollback: RollbackRule,
    pub(crate) versions: Option<Versions>,
    /// What a version must pass before it is swapped in.
    pub(crate) gate: OnceLock<Arc<dyn Gate>>,
    /// Held while a version is loaded to be swapped in: one at a time.
    pub(crate) swapping: tokio::sync::Mutex<()>,
    pub(crate) calls: AtomicU64,
    pub(crate) world: Arc<dyn World>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) site_facts: SiteFacts,
    pub(crate) reinsert_active_now: bool,
}

/// What belongs to one call of a guest.
pub(crate) struct CallState {
    pub(crate) broker: Broker,
    meter: Meter,
    watch: Stopwatch,
}

/// An exported function with its arguments.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    PrepareRamdisk(Vec<Parameter>),
    CleanUpRamdisk,
    PrepareInstance,
    CleanUpInstance,
    Attach(Device, LocationHandle),
    Detach(Device),
    BootIntoIso(LocationHandle),
    Select(Request, Vec<Candidate>),
    Plan(Observation),
    Methods,
    Vendor { method: String, arguments: String },
}

impl Entry {
    /// The name in the contract.
    pub(crate) fn function(&self) -> &'static str {
        match self {
            Self::PrepareRamdisk(_) => "prepare-ramdisk",
            Self::CleanUpRamdisk => "clean-up-ramdisk",
            Self::PrepareInstance => "prepare-instance",
            Self::CleanUpInstance => "clean-up-instance",
            Self::Attach(..) => "attach",
            Self::Detach(_) => "detach",
            Self::BootIntoIso(_) => "boot-into-iso",
            Self::Select(..) => "select",
            Self::Plan(_) => "plan",
            Self::Methods => "methods",
            Self::Vendor { .. } => "call",
        }
    }
}

/// What an exported function gave.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Answer {
    Done,
    Choice(Choice),
    Steps(Vec<Step>),
    Methods(Vec<VendorMethod>),
    Text(String),
}

/// How a call stands to the one that led to it.
pub(crate) struct Nested {
    pub(crate) root: Arc<Root>,
    pub(crate) depth: u8,
    pub(crate) number: usize,
}

/// A call made by another plugin, boxed since it may lead to further ones.
type Nesting<'a, T> = Pin<Box<dyn Future<Output = Result<T, HostError>> + Send + 'a>>;

impl Inner {
    /// The plugins as they are now.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What all calls that one root call leads to share.
    pub(crate) fn root(&self, catalog: Arc<Catalog>, limits: &Limits) -> Arc<Root> {
        let id = self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Arc::new(Root::new(id, catalog, limits))
    }

    /// Asks which backend takes an artefact, on behalf of a plugin that publishes one.
    pub(crate) fn nested_select(
        self: Arc<Self>,
        context: &Arc<CallContext>,
        request: Request,
        candidates: Vec<Candidate>,
        nested: Nested,
    ) -> Nesting<'static, Choice> {
        let context = Arc::clone(context);
        Box::pin(async move {
            let offered: Vec<String> = candidates.iter().map(|candidate| candidate.id.clone()).collect();
            let entry = move |_: &mut Broker| Entry::Select(request, candidates);
            let check = move |answer: &Answer| match answer {
                Answer::Choice(choice) if offered.contains(&choice.backend) => Ok(()),
                Answer::Choice(choice) => Err(format!(
                    "the backend-selection plugin chose `{}`, which was not offered",
                    shortened(&choice.backend)
                )),
                _ => Err("the backend-selection plugin gave no choice".to_owned()),
            };
            let answer = self.nested(Role::BackendSelection, 0, context, nested, entry, check);
            match answer.await? {
                Answer::Choice(choice) => Ok(choice),
                _ => Err(bad_choice("the backend-selection plugin gave no choice".to_owned()).into()),
            }
        })
    }

    /// Calls the vmedia plugin from number `from` on that matches the node.
    pub(crate) fn nested_vmedia(
        self: Arc<Self>,
        context: &Arc<CallContext>,
        from: usize,
        entry: Entry,
        location: Option<Location>,
        nested: Nested,
    ) -> Nesting<'static, ()> {
        let context = Arc::clone(context);
        Box::pin(async move {
            let entry = move |broker: &mut Broker| match (entry, location) {
                (Entry::Attach(device, _), Some(location)) => Entry::Attach(device, broker.accept(location)),
                (Entry::BootIntoIso(_), Some(location)) => Entry::BootIntoIso(broker.accept(location)),
                (entry, _) => entry,
            };
            let any = |_: &Answer| Ok(());
            self.nested(Role::Vmedia, from, context, nested, entry, any)
                .await
                .map(drop)
        })
    }

    async fn nested(
        self: Arc<Self>,
        role: Role,
        from: usize,
        context: Arc<CallContext>,
        mut nested: Nested,
        entry: impl FnOnce(&mut Broker) -> Entry + Send,
        check: impl FnOnce(&Answer) -> Result<(), String> + Send,
    ) -> Result<Answer, HostError> {
        if nested.depth >= DEPTH {
            return Err(DriverError::Budget("depth of calls".to_owned()).into());
        }
        let found = nested.root.catalog.find(role, from, &context.node, &self.site_facts);
        let Some((number, found)) = found else {
            return Err(DriverError::Unsupported(format!("no `{role}` plugin is left to ask")).into());
        };
        let bound = self.pins.choose(found, &context.node);
        nested.number = number;
        let called = Arc::clone(&self).run(context, Arc::clone(&bound), nested, entry).await;
        let Called { result, mut report } = called;
        let wrong = result.as_ref().ok().and_then(|answer| check(answer).err());
        if let Some(reason) = wrong {
            let failure = CallFailure::Unusable(reason.clone());
            report.outcome = Outcome::Failed(failure.cause());
            self.ended(&bound, &report, Some(&failure));
            return Err(bad_choice(reason).into());
        }
        self.ended(&bound, &report, failure_of(&result));
        result.map_err(|error| match error {
            CallError::Answered(error) => error.into(),
            // Not this guest's fault: it may act on it.
            CallError::Failed { .. } => DriverError::other("plugin-failed", error.to_string()).into(),
        })
    }

    /// Runs one call in a store of its own. Whatever ends it, the store is dropped here and no effect is.
    pub(crate) async fn run(
        self: Arc<Self>,
        context: Arc<CallContext>,
        bound: Arc<Bound>,
        nested: Nested,
        entry: impl FnOnce(&mut Broker) -> Entry + Send,
    ) -> Called<Answer> {
        let began = Instant::now();
        let (depth, number) = (nested.depth, nested.number);
        let root = Arc::clone(&nested.root);
        let session = self.world.open(&context, &bound.id);
        let recorder = (depth == 0 && session.records()).then(|| Arc::clone(&session));
        // It runs along with the plugin that decides, not with those down the chain.
        let decides = |_: &&Arc<Bound>| {
            let first = root.catalog.find(bound.role, 0, &context.node, &self.site_facts);
            first.is_some_and(|(first, _)| first == number)
        };
        let shadow = root.catalog.shadow(bound.role, &context.node, &self.site_facts);
        let shadow = shadow.filter(decides).cloned();
        let recording = shadow.is_some().then(|| Recording::new(session.now()));
        let mut broker = Broker::new(
            Arc::clone(&self),
            Arc::clone(&context),
            Arc::clone(&bound),
            nested,
            session,
        );
        broker.recording = recording;
        let entry = entry(&mut broker);
        let function = entry.function();
        if let Entry::PrepareRamdisk(parameters) = &entry {
            broker.give_secrets(parameters);
        }
        if let Some(recorder) = &recorder {
            let (function, arguments) = entry.told();
            recorder.entered(&function, arguments);
        }
        let mut store = self.store(broker, &bound.limits);
        let answer = timeout_at(root.deadline, async {
            let instance = bound.plugin.pre.instantiate_async(&mut store).await?;
            abi::enter(&mut store, &instance, &bound.plugin.exports, &entry).await
        })
        .await;
        let result = match answer {
            Ok(Ok(Ok(answer))) => Ok(answer),
            Ok(Ok(Err(error))) => Err(CallError::Answered(error)),
            Ok(Err(error)) => Err(failed(&bound.id, function, failure(&error, &bound.limits))),
            Err(_) => Err(failed(&bound.id, function, CallFailure::WallBudget(root.wall))),
        };
        if let Some(recorder) = recorder {
            recorder.left(result.as_ref().map(Answer::told));
        }
        let state = store.data_mut();
        let recording = state.broker.recording.take();
        let report = CallReport {
            call: root.id,
            plugin: bound.id.clone(),
            digest: bound.plugin.digest,
            function,
            node: context.node.id,
            wall: began.elapsed(),
            cpu: state.watch.spent(),
            host_calls: state.broker.usage.host_calls,
            host_bytes: state.broker.usage.host_bytes,
            memory_high_water: state.meter.memory_high_water(),
            depth,
            outcome: outcome(&result),
        };
        if let Err(CallError::Failed { failure, .. }) = &result {
            let (plugin, node, call) = (&report.plugin, &report.node, report.call);
            tracing::warn!(%plugin, %node, call, function, "plugin stopped: {failure}");
        }
        if let (Some(shadow), Some(recording)) = (shadow, recording) {
            let given = store.data().broker.given().clone();
            let watched = Watched {
                context,
                entry,
                recording: Arc::new(recording),
                given,
                result: result.clone(),
                report: report.clone(),
            };
            self.run_shadow(shadow, watched);
        }
        Called { result, report }
    }

    pub(crate) fn store(&self, broker: Broker, limits: &Limits) -> Store<CallState> {
        let cpu = limits.cpu;
        let state = CallState {
            broker,
            meter: Meter::new(limits),
            watch: Stopwatch::new(),
        };
        let mut store = Store::new(&self.engine.0.wasmtime, state);
        store.limiter(|state| &mut state.meter);
        store.call_hook(|mut context, hook: CallHook| {
            context.data_mut().watch.hook(hook);
            Ok(())
        });
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |context| {
            if context.data().watch.spent() > cpu {
                return Err(Stopped(CallFailure::CpuBudget(cpu)).into());
            }
            // Others run now: a spinning guest must not keep a thread of the async runtime.
            Ok(UpdateDeadline::Yield(1))
        });
        store.set_hostcall_fuel(usize::try_from(limits.host_bytes).unwrap_or(usize::MAX));
        // A backstop: the broker counts images and locations, this counts borrowed nodes and what a guest makes itself too.
        store.set_max_component_handles(usize::try_from(limits.handles).unwrap_or(usize::MAX).saturating_add(64));
        store
    }

    /// Starts a plugin once, in a store with all its limits, and checks the types of its exports.
    pub(crate) async fn try_start(self: &Arc<Self>, bound: &Arc<Bound>) -> Result<(), LoadError> {
        let known = |started: &Vec<Limits>| started.contains(&bound.limits);
        let started = &bound.plugin.started;
        if known(&started.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let context = Arc::new(nobody());
        let root = self.root(Arc::default(), &bound.limits);
        let unprivileged = Bound {
            allowed: Allowed::default(),
            ..Bound::clone(bound)
        };
        let nested = Nested {
            root: Arc::clone(&root),
            depth: DEPTH,
            number: 0,
        };
        let session = Arc::new(EchoSession::new(std::time::UNIX_EPOCH));
        let broker = Broker::new(Arc::clone(self), context, Arc::new(unprivileged), nested, session);
        let mut store = self.store(broker, &bound.limits);
        let start = |error: &wasmtime::Error| LoadError::Start {
            place: bound.place.clone(),
            reason: failure(error, &bound.limits).to_string(),
        };
        let instance = timeout_at(root.deadline, bound.plugin.pre.instantiate_async(&mut store))
            .await
            .map_err(|_| LoadError::Start {
                place: bound.place.clone(),
                reason: CallFailure::WallBudget(root.wall).to_string(),
            })?
            .map_err(|error| start(&error))?;
        bound
            .plugin
            .exports
            .check(&mut store, &instance, bound.role)
            .map_err(|error| LoadError::Types {
                place: bound.place.clone(),
                reason: shortened(&format!("{error:#}")),
            })?;
        let mut started = started.lock().unwrap_or_else(PoisonError::into_inner);
        started.push(bound.limits.clone());
        // As many sets of limits as a site has entries of one component.
        started.truncate(64);
        Ok(())
    }

    /// What a call gives for which there was no permit in time.
    pub(crate) fn not_run(&self, context: &CallContext, bound: &Bound, call: u64) -> Called<Answer> {
        let failure = CallFailure::Busy {
            permits: self.engine.0.calls_at_once,
        };
        let report = CallReport {
            call,
            plugin: bound.id.clone(),
            digest: bound.plugin.digest,
            function: "admission",
            node: context.node.id,
            wall: bound.limits.wall,
            cpu: std::time::Duration::ZERO,
            host_calls: 0,
            host_bytes: 0,
            memory_high_water: 0,
            depth: 0,
            outcome: Outcome::Failed(failure.cause()),
        };
        Called {
            result: Err(failed(&bound.id, "admission", failure)),
            report,
        }
    }
}

fn bad_choice(reason: String) -> DriverError {
    DriverError::other("bad-choice", reason)
}

/// Why a call was stopped, if it was.
pub(crate) fn failure_of<T>(result: &Result<T, CallError>) -> Option<&CallFailure> {
    match result {
        Err(CallError::Failed { failure, .. }) => Some(failure),
        Ok(_) | Err(CallError::Answered(_)) => None,
    }
}

pub(crate) fn failed(plugin: &str, function: &'static str, failure: CallFailure) -> CallError {
    CallError::Failed {
        plugin: plugin.to_owned(),
        function,
        failure,
    }
}

/// On whose behalf a plugin is started when it is loaded.
fn nobody() -> CallContext {
    let node = model::Node::new(model::NodeId::random(), model::Driver::AgentIlo, std::time::UNIX_EPOCH);
    let conductor = "load".parse().expect("a lower-case word is a conductor's name");
    CallContext {
        node,
        tenure: model::Tenure { conductor, term: 0 },
        by_operator: false,
    }
}

/// What Wasmtime's error means.
pub(crate) fn failure(error: &wasmtime::Error, limits: &Limits) -> CallFailure {
    if let Some(Stopped(failure)) = error.downcast_ref::<Stopped>() {
        return failure.clone();
    }
    // Wasmtime has no type for this one; a test watches over the text.
    if error.root_cause().to_string().contains("fuel allocated for hostcalls") {
        return CallFailure::HostBytes(limits.host_bytes);
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::UnreachableCodeReached) => {
            CallFailure::Trapped(format!("it panicked or reached unreachable code{}", place(error)))
        }
        Some(trap) => CallFailure::Trapped(format!("{trap}{}", place(error))),
        None => CallFailure::Trapped(shortened(&error.root_cause().to_string())),
    }
}

/// Where in the guest, in one line.
fn place(error: &wasmtime::Error) -> String {
    let frame = error.downcast_ref::<wasmtime::WasmBacktrace>().and_then(|trace| {
        trace
            .frames()
            .iter()
            .find_map(|frame| frame.func_name().map(str::to_owned))
    });
    frame.map_or_else(String::new, |name| format!(" (in {})", shortened(&name)))
}

fn outcome<T>(result: &Result<T, CallError>) -> Outcome {
    match result {
        Ok(_) => Outcome::Ok,
        Err(CallError::Answered(error)) => Outcome::Error(error.cause().to_owned()),
        Err(CallError::Failed { failure, .. }) => Outcome::Failed(failure.cause()),
    }
}
