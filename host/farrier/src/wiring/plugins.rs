//! The site file's plugins to the runtime's: which there are, what is printed of them at the start, and the watch over their files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use runtime::{
    ComponentSource, Grants, Limits, PluginConfig, PluginInfo, Role, Runtime, RuntimeConfig, SeenFiles, SiteFacts,
};
use serde_json::json;
use settings::{Mode, Reinsert, Settings};
use tokio_util::sync::CancellationToken;

/// How often the files of plugins are looked at. One is taken in once it has looked the same twice.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What the runtime is made of.
pub(super) fn config(settings: &Settings) -> Result<RuntimeConfig> {
    let of_mode = |mode: Mode| -> Result<Vec<PluginConfig>> {
        let entries = settings.plugins.iter().filter(|entry| entry.mode == mode);
        entries.map(plugin).collect()
    };
    let (plugins, shadows) = (of_mode(Mode::Enforce)?, of_mode(Mode::Shadow)?);
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
        shadows,
        folder: Some(folder(&settings.data_dir)),
        ..RuntimeConfig::default()
    })
}

/// Where versions in use are kept over restarts.
fn folder(data_dir: &Path) -> PathBuf {
    data_dir.join("plugins")
}

/// Where compiled components are kept over restarts.
pub(super) fn compiled(data_dir: &Path) -> PathBuf {
    folder(data_dir).join("compiled")
}

/// Tells which plugins were loaded and what each may do.
pub(super) fn announce(runtime: &Runtime) {
    for plugin in runtime.plugins() {
        let PluginInfo {
            entry,
            role,
            digest,
            version,
            ..
        } = &plugin;
        let version = version.as_deref().unwrap_or("-");
        let shadow = plugin.shadow;
        tracing::info!(plugin = %entry, %role, version, %digest, shadow, "plugin loaded");
        if plugin.built_in {
            continue;
        }
        let mut both = plugin.granted.clone();
        if let Some(requested) = &plugin.requested {
            both.keep_only(requested);
        }
        let origin = match plugin.granted_by_default {
            true => "the role's default, since its entry has no `grant`",
            false => "its `grant`",
        };
        let may = both.functions().join(" ");
        let may = if may.is_empty() { "nothing" } else { &may };
        tracing::info!(plugin = %entry, "may call, by {origin}: {may}");
        let asked = plugin.requested.as_ref();
        let denied = asked.map(|asked| asked.gaps(&plugin.granted)).unwrap_or_default();
        if !denied.is_empty() {
            tracing::warn!(plugin = %entry, "asks for what it is not granted, and is denied: {}", denied.join(", "));
        }
    }
}

/// Swaps changed files in, until it is told to stop.
pub(super) async fn watch(runtime: Runtime, stop: CancellationToken) {
    let mut seen = SeenFiles::default();
    while tokio::time::timeout(LOOK_EVERY, stop.cancelled()).await.is_err() {
        for (entry, outcome) in runtime.look_at_files(&mut seen).await {
            if let Err(error) = outcome {
                let error = anyhow::Error::new(error);
                tracing::error!(plugin = %entry, "the changed file is not used, what decided goes on: {error:#}");
            }
        }
    }
}

/// Longest time that any ramdisk may take to call back; what it boots from must live as long.
pub(super) fn callback_timeout(settings: &Settings) -> std::time::Duration {
    settings
        .conductor
        .deploy_callback_timeout
        .max(settings.conductor.clean_callback_timeout)
}

fn plugin(plugin: &settings::Plugin) -> Result<PluginConfig> {
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
        settings::Role::Vendor => Role::Vendor,
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
