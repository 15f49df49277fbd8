//! The site file's plugins to the runtime's, and what the runtime reports to the API's pages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail};
use async_trait::async_trait;
use runtime::{
    CallReport, ComponentSource, Grants, Limits, Observer, Outcome, PluginConfig, Role, Runtime, RuntimeConfig,
    SiteFacts,
};
use serde_json::json;
use settings::{Mode, Reinsert, Settings};
use wire::farrier::{Plugin, PluginCall};

/// Calls that are remembered for pages.
const REMEMBERED: usize = 1000;

/// What the runtime is made of.
pub(super) fn config(settings: &Settings) -> Result<RuntimeConfig> {
    let plugins = settings.plugins.iter().map(plugin).collect::<Result<_>>()?;
    let vmedia = json!({
        "kernel-append-params": settings.images.kernel_append_params,
        "instance-kernel-append-params": settings.images.instance_kernel_append_params,
    });
    let reinsert_now = settings.take_over.reinsert_active == Reinsert::Now;
    let site_facts = SiteFacts::from([
        (
            "callback-timeout-s".to_owned(),
            callback_timeout(settings).as_secs().to_string(),
        ),
        (
            "reinsert-active".to_owned(),
            if reinsert_now { "now" } else { "at-next-reset" }.to_owned(),
        ),
    ]);
    Ok(RuntimeConfig {
        plugins,
        built_in_settings: BTreeMap::from([(Role::Vmedia, vmedia)]),
        site_facts,
        reinsert_active_now: reinsert_now,
    })
}

/// Longest time that any ramdisk may take to call back; what it boots from must live as long.
pub(super) fn callback_timeout(settings: &Settings) -> std::time::Duration {
    settings
        .conductor
        .deploy_callback_timeout
        .max(settings.conductor.clean_callback_timeout)
}

fn plugin(plugin: &settings::Plugin) -> Result<PluginConfig> {
    if plugin.mode == Mode::Shadow {
        bail!(
            "{}: this release cannot run a plugin with mode = \"shadow\"; leave the entry out",
            plugin.origin
        );
    }
    let grant = match &plugin.grant {
        None => None,
        Some(grant) => Some(
            serde_json::from_value::<Grants>(grant.clone())
                .map_err(|error| anyhow!("{}: grant: {error}", plugin.origin))?,
        ),
    };
    let role = match plugin.role {
        settings::Role::BackendSelection => Role::BackendSelection,
        settings::Role::Vmedia => Role::Vmedia,
        settings::Role::TakeOver => Role::TakeOver,
        settings::Role::Vendor => bail!(
            "{}: this release calls no plugin with role = \"vendor\"; leave the entry out",
            plugin.origin
        ),
    };
    Ok(PluginConfig {
        role,
        component: ComponentSource::File(plugin.component.clone()),
        digest: plugin.digest,
        matches: plugin.facts.clone(),
        grant,
        limits: limits(&plugin.limits).with_context(|| plugin.origin.to_string())?,
        settings: plugin.settings.clone(),
    })
}

fn limits(given: &settings::Limits) -> Result<Limits> {
    let default = Limits::default();
    Ok(Limits {
        memory: given.memory.map_or(Ok(default.memory), usize::try_from)?,
        table_entries: default.table_entries,
        cpu: given.cpu.unwrap_or(default.cpu),
        wall: given.wall.unwrap_or(default.wall),
        host_calls: given.host_calls.unwrap_or(default.host_calls),
        host_bytes: given.host_bytes.unwrap_or(default.host_bytes),
        handles: given.handles.unwrap_or(default.handles),
        log_bytes: given.log_bytes.unwrap_or(default.log_bytes),
    })
}

/// Remembers the last calls and counts all of them.
#[derive(Default)]
pub(super) struct Calls(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    last: VecDeque<PluginCall>,
    calls: BTreeMap<String, (u64, u64)>,
}

impl Observer for Calls {
    fn call_ended(&self, report: &CallReport) {
        let (outcome, message) = match &report.outcome {
            Outcome::Ok => ("ok", None),
            Outcome::Error(cause) => ("error", Some(cause.clone())),
            Outcome::Failed(cause) => (*cause, None),
        };
        let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
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
            node = %report.node, plugin = %report.plugin, function = report.function, outcome, wall_us = call.wall_us,
            guest_us = call.guest_us, host_calls = call.host_calls, "plugin call ended"
        );
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (calls, failures) = counted.calls.entry(report.plugin.clone()).or_default();
        *calls += 1;
        *failures += u64::from(matches!(report.outcome, Outcome::Failed(_)));
        counted.last.push_front(call);
        counted.last.truncate(REMEMBERED);
    }
}

/// RFC 3339 in UTC, to the millisecond.
fn rfc_3339(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map_or_else(|_| String::new(), |time| format!("{time:.3}"))
}

/// What the API shows of plugins.
pub(super) struct PluginPages {
    pub(super) runtime: Runtime,
    pub(super) calls: Arc<Calls>,
}

#[async_trait]
impl api::Plugins for PluginPages {
    async fn plugins(&self) -> Vec<Plugin> {
        let counted = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        let page = |info: runtime::PluginInfo| {
            let (calls, failures) = counted.calls.get(&info.id).copied().unwrap_or_default();
            Plugin {
                role: info.role.as_str().to_owned(),
                digest: info.digest.to_string(),
                origin: if info.built_in { "built-in" } else { "site" }.to_owned(),
                id: info.id,
                calls,
                failures,
            }
        };
        self.runtime.plugins().into_iter().map(page).collect()
    }

    async fn calls(&self, limit: usize) -> Vec<PluginCall> {
        let counted = self.calls.0.lock().unwrap_or_else(PoisonError::into_inner);
        counted.last.iter().take(limit).cloned().collect()
    }
}
