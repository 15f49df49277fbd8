//! What the runtime reports, kept for the API's pages, and what the API asks of the runtime.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use api::{PluginRefusal, VendorMethod};
use async_trait::async_trait;
use model::{ConductorName, Node, Tenure};
use nodes::Record;
use runtime::{
    CallContext, CallError, CallFailure, CallReport, Change, ComponentSource, DriverError, Explanation, Observer,
    Outcome, Role, Runtime, ShadowReport, SwapError, Verdict,
};
use serde_json::Value;
use wire::farrier::{NodeRole, Plugin, PluginCall, PluginChange, PluginRule, ShadowRun};

/// Calls that are remembered for pages.
const REMEMBERED: usize = 1000;
/// Changes and differing shadow runs that are.
const FEW: usize = 200;

/// Remembers the last calls and counts all of them.
#[derive(Default)]
pub(super) struct Calls(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    last: VecDeque<PluginCall>,
    calls: BTreeMap<String, Totals>,
    changes: VecDeque<PluginChange>,
    shadows: VecDeque<ShadowRun>,
    compared: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Of one plugin, all versions together.
#[derive(Clone, Copy, Default)]
struct Totals {
    calls: u64,
    failures: u64,
    guest: Duration,
    host: Duration,
    memory: usize,
}

impl Calls {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Observer for Calls {
    fn call_ended(&self, report: &CallReport) {
        let (outcome, message) = match &report.outcome {
            Outcome::Ok => ("ok", None),
            Outcome::Error(cause) => ("error", Some(cause.clone())),
            Outcome::Failed(cause) => (*cause, None),
        };
        let began = SystemTime::now()
            .checked_sub(report.wall)
            .unwrap_or(SystemTime::UNIX_EPOCH);
        let call = PluginCall {
            at: rfc_3339(began),
            plugin: report.plugin.clone(),
            function: report.function.to_owned(),
            node: Some(report.node.to_string()),
            outcome: outcome.to_owned(),
            message,
            wall_us: micros(report.wall),
            guest_us: micros(report.cpu),
            host_calls: u64::from(report.host_calls),
            memory_bytes: report.memory_high_water as u64,
        };
        tracing::debug!(
            node = %report.node, plugin = %report.plugin, call = report.call, function = report.function, outcome,
            wall_us = call.wall_us, guest_us = call.guest_us, host_calls = call.host_calls, "plugin call ended"
        );
        let mut counted = self.counted();
        let totals = counted.calls.entry(report.plugin.clone()).or_default();
        totals.calls += 1;
        totals.failures += u64::from(matches!(report.outcome, Outcome::Failed(_)));
        totals.guest += report.cpu;
        totals.host += report.wall.saturating_sub(report.cpu);
        totals.memory = totals.memory.max(report.memory_high_water);
        counted.last.push_front(call);
        counted.last.truncate(REMEMBERED);
    }

    fn plugin_changed(&self, change: &Change) {
        let mut counted = self.counted();
        counted.changes.push_front(changed(change));
        counted.changes.truncate(FEW);
    }

    fn shadow_ended(&self, report: &ShadowReport) {
        let (verdict, detail) = match &report.verdict {
            Verdict::Same => ("same", vec![]),
            Verdict::Differs(found) => ("differs", found.clone()),
            Verdict::Diverged(function) => ("diverged", vec![function.clone()]),
            Verdict::Failed(why) => ("failed", vec![why.clone()]),
        };
        let mut counted = self.counted();
        let compared = counted.compared.entry(report.shadow.clone()).or_default();
        *compared.entry(verdict.to_owned()).or_default() += 1;
        if report.verdict == Verdict::Same {
            return;
        }
        counted.shadows.push_front(ShadowRun {
            at: rfc_3339(report.at),
            call: report.call,
            node: report.node.to_string(),
            function: report.function.to_owned(),
            active: report.active.clone(),
            shadow: report.shadow.clone(),
            verdict: verdict.to_owned(),
            detail,
        });
        counted.shadows.truncate(FEW);
    }
}

fn changed(change: &Change) -> PluginChange {
    PluginChange {
        at: rfc_3339(change.at),
        role: change.role.as_str().to_owned(),
        entry: change.entry.clone(),
        from: change.from.digest.to_string(),
        from_version: change.from.version.clone(),
        to: change.to.digest.to_string(),
        to_version: change.to.version.clone(),
        why: change.why.clone(),
        automatic: change.automatic,
        more: change.grants.more.clone(),
        less: change.grants.less.clone(),
        denied: change.grants.denied.clone(),
    }
}

/// RFC 3339 in UTC, to the millisecond.
fn rfc_3339(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

/// What the API shows of plugins and does with them.
pub(super) struct PluginPages {
    pub(super) runtime: Runtime,
    pub(super) calls: Arc<Calls>,
    /// This conductor: a vendor's method runs where its node is held.
    pub(super) conductor: ConductorName,
}

#[async_trait]
impl api::Plugins for PluginPages {
    async fn plugins(&self) -> Vec<Plugin> {
        let counted = self.calls.counted();
        let page = |info: runtime::PluginInfo| {
            let totals = counted.calls.get(&info.id).copied().unwrap_or_default();
            let quarantined = info.quarantined.iter();
            Plugin {
                role: info.role.as_str().to_owned(),
                digest: info.digest.to_string(),
                origin: if info.built_in { "built-in" } else { "site" }.to_owned(),
                calls: totals.calls,
                failures: totals.failures,
                entry: info.entry,
                version: info.version,
                shadow: info.shadow,
                matches: info.matches,
                last_good: info.last_good.map(|digest| digest.to_string()),
                quarantined: quarantined
                    .map(|(digest, why)| (digest.to_string(), why.clone()))
                    .collect(),
                guest_us: micros(totals.guest),
                host_us: micros(totals.host),
                memory_bytes: totals.memory as u64,
                compared: counted.compared.get(&info.id).cloned().unwrap_or_default(),
                id: info.id,
            }
        };
        self.runtime.plugins().into_iter().map(page).collect()
    }

    async fn calls(&self, limit: usize) -> Vec<PluginCall> {
        self.calls.counted().last.iter().take(limit).cloned().collect()
    }

    async fn changes(&self) -> Vec<PluginChange> {
        self.calls.counted().changes.iter().cloned().collect()
    }

    async fn shadows(&self) -> Vec<ShadowRun> {
        self.calls.counted().shadows.iter().cloned().collect()
    }

    async fn explain(&self, node: &Node) -> Vec<NodeRole> {
        self.runtime.explain(node).into_iter().map(explained).collect()
    }

    async fn swap(
        &self,
        entry: &str,
        role: Option<&str>,
        component: Vec<u8>,
        again: bool,
    ) -> Result<Option<PluginChange>, PluginRefusal> {
        let role = parse(role)?;
        let component = ComponentSource::Bytes {
            name: format!("for `{}`", entry.escape_debug()),
            bytes: component.into(),
        };
        let change = self.runtime.swap(role, entry, component, again).await;
        change.map(|change| change.as_ref().map(changed)).map_err(refused)
    }

    async fn roll_back(&self, entry: &str, role: Option<&str>, why: &str) -> Result<PluginChange, PluginRefusal> {
        let change = self.runtime.roll_back(parse(role)?, entry, why).await;
        change.map(|change| changed(&change)).map_err(refused)
    }

    async fn vendor_methods(&self, record: &Record) -> Result<Vec<VendorMethod>, PluginRefusal> {
        // What it can is the same for whoever asks; nothing is done to the node.
        let tenure = Tenure {
            conductor: self.conductor.clone(),
            term: record.term,
        };
        let Some(called) = self.runtime.vendor_methods(&context(record, tenure)).await else {
            return Ok(Vec::new());
        };
        let methods = called.result.map_err(failed)?;
        let method = |method: runtime::VendorMethod| VendorMethod {
            name: method.name,
            description: method.description,
            http_methods: method
                .http_methods
                .iter()
                .map(|name| name.to_ascii_uppercase())
                .collect(),
            asynchronous: method.asynchronous,
            arguments: method.arguments,
        };
        Ok(methods.into_iter().map(method).collect())
    }

    async fn vendor_call(&self, record: &Record, method: &str, arguments: &str) -> Result<Value, PluginRefusal> {
        let node = &record.node;
        match &record.owner {
            Some(owner) if *owner == self.conductor => {}
            Some(owner) => {
                let text = format!("node {} is held by the conductor {owner}: ask there", node.id);
                return Err(PluginRefusal::Conflict(text));
            }
            None => return Err(PluginRefusal::Busy(format!("no conductor holds node {} yet", node.id))),
        }
        if node.wish.is_some() || node.step.is_some() || node.provision_state.is_busy() {
            let text = format!("something else is under way with node {}: ask again later", node.id);
            return Err(PluginRefusal::Conflict(text));
        }
        let tenure = Tenure {
            conductor: self.conductor.clone(),
            term: record.term,
        };
        let called = self
            .runtime
            .vendor_call(&context(record, tenure), method, arguments)
            .await;
        let none = || PluginRefusal::NotFound(format!("node {} has no vendor plugin", node.id));
        called.ok_or_else(none)?.result.map_err(failed)
    }
}

fn context(record: &Record, tenure: Tenure) -> Arc<CallContext> {
    Arc::new(CallContext {
        node: record.node.clone(),
        tenure,
        by_operator: true,
    })
}

fn explained(seen: Explanation) -> NodeRole {
    let rule = |rule: runtime::Rule| PluginRule {
        entry: rule.entry,
        matches: rule.matches,
        unmet: rule.unmet,
    };
    let mut role = NodeRole {
        role: seen.role.as_str().to_owned(),
        rules: seen.rules.into_iter().map(rule).collect(),
        active_node: seen.active_node,
        ..NodeRole::default()
    };
    if let Some(decides) = seen.decides {
        let rights = decides.functions.into_iter();
        role.functions = rights
            .map(|one| (one.function, one.right.as_str().to_owned()))
            .collect();
        role.granted = serde_json::to_value(&decides.granted).unwrap_or_default();
        role.requested = decides
            .requested
            .and_then(|requested| serde_json::to_value(requested).ok());
        role.granted_by_default = decides.granted_by_default;
        role.pinned = decides.pinned;
        role.digest = Some(decides.digest.to_string());
        role.version = decides.version;
        role.plugin = Some(decides.id);
        role.entry = Some(decides.entry);
    }
    role
}

fn parse(role: Option<&str>) -> Result<Option<Role>, PluginRefusal> {
    let Some(text) = role else {
        return Ok(None);
    };
    let known = Role::ALL.map(Role::as_str).join(", ");
    let unknown = || PluginRefusal::Invalid(format!("`role` is one of {known}"));
    Role::parse(text).map(Some).ok_or_else(unknown)
}

fn refused(error: SwapError) -> PluginRefusal {
    let kind = match &error {
        SwapError::Unknown { .. } => PluginRefusal::NotFound,
        SwapError::Quarantined { .. } | SwapError::NoGoodVersion { .. } => PluginRefusal::Conflict,
        SwapError::Host(_) => PluginRefusal::Busy,
        _ => PluginRefusal::Invalid,
    };
    // With its causes: they are what an operator can act on.
    kind(format!("{:#}", anyhow::Error::new(error)))
}

/// Why a vendor's method gave nothing.
fn failed(error: CallError) -> PluginRefusal {
    let text = error.to_string();
    match error {
        CallError::Answered(DriverError::NotFound(_)) => PluginRefusal::NotFound(text),
        CallError::Answered(DriverError::Conflict(_) | DriverError::Timeout(_) | DriverError::Unreachable(_))
        | CallError::Failed {
            failure: CallFailure::Busy { .. },
            ..
        } => PluginRefusal::Busy(text),
        CallError::Answered(_) => PluginRefusal::Invalid(text),
        CallError::Failed { .. } => PluginRefusal::Conflict(text),
    }
}
