//! Another version takes over while calls run: verify, compile, check against role and grants, start once, run the scenarios
//! that it brings, switch. And the way back, by itself when a version fails, or when an operator asks.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Instant, SystemTime};

use async_trait::async_trait;
use model::Digest;

use crate::call::Runtime;
use crate::catalog::{Bound, Catalog, ComponentSource, Entry, Role};
use crate::change::{Change, GrantDiff, SwapError, VersionInfo};
use crate::health::is_failure;
use crate::load::{self, Bytes};
use crate::manifest::Manifest;
use crate::run::Inner;
use crate::start::{keep, named};
use crate::{CallFailure, CallReport, Grants, Limits, LoadError};

/// A version that is about to be swapped in.
#[derive(Clone, Debug)]
pub struct Trial {
    /// What it will be used for.
    pub role: Role,
    /// Its id.
    pub id: String,
    /// The component.
    pub component: Arc<[u8]>,
    /// What it says of itself, scenarios included.
    pub manifest: Option<Manifest>,
    /// What the site grants it.
    pub granted: Grants,
    /// What a call may use.
    pub limits: Limits,
    /// Its settings.
    pub settings: serde_json::Value,
}

/// Rehearses a version before it decides anything.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Runs its scenarios; the error says which do not pass and why.
    async fn check(&self, trial: &Trial) -> Result<(), String>;
}

impl Runtime {
    /// From now on, versions must pass this before they are swapped in. Only the first one that is set counts.
    pub fn set_gate(&self, gate: Arc<dyn Gate>) {
        let _ = self.inner.gate.set(gate);
    }

    /// Puts another version in the place of the one that decides. Calls that have begun keep theirs, and so does a node on
    /// its way to active. `again`: a version in quarantine is taken back. The same version changes nothing.
    pub async fn swap(
        &self,
        role: Option<Role>,
        entry: &str,
        component: ComponentSource,
        again: bool,
    ) -> Result<Option<Change>, SwapError> {
        let _one_at_a_time = self.inner.swapping.lock().await;
        let found = self.inner.entry(role, entry)?;
        let read = blocking(move || load::read(&component)).await?;
        let why = "an operator chose it";
        self.inner.swap_in(&found, read, again, why).await
    }

    /// Back to the last good version; the one that decides now goes into quarantine.
    pub async fn roll_back(&self, role: Option<Role>, entry: &str, why: &str) -> Result<Change, SwapError> {
        let _one_at_a_time = self.inner.swapping.lock().await;
        let found = self.inner.entry(role, entry)?;
        let digest = found.active.plugin.digest;
        let change = self.inner.give_up(found.config.role, &found.name, digest, why, false);
        change.ok_or_else(|| SwapError::NoGoodVersion {
            entry: entry.to_owned(),
        })
    }

    /// Looks at the files of the site's plugins and swaps those in that have changed; each with what came of it. A pinned
    /// digest is an order: such an entry is not looked at.
    pub async fn look_at_files(&self, seen: &mut SeenFiles) -> Vec<(String, Result<Option<Change>, SwapError>)> {
        let mut done = Vec::new();
        for entry in self.inner.catalog().all() {
            let ComponentSource::File(path) = &entry.config.component else {
                continue;
            };
            if entry.config.digest.is_some() || entry.active.id.starts_with("shadow:") || !seen.has_changed(path) {
                continue;
            }
            let _one_at_a_time = self.inner.swapping.lock().await;
            let name = entry.name.clone();
            let outcome = self.inner.take_file(entry.config.role, &name).await;
            if !matches!(outcome, Ok(None)) {
                done.push((name, outcome));
            }
        }
        done
    }
}

/// What the files of plugins looked like last. A file counts as changed once it has looked the same twice, so that none is
/// read half written.
#[derive(Debug, Default)]
pub struct SeenFiles(BTreeMap<std::path::PathBuf, Sight>);

#[derive(Debug, Default)]
struct Sight {
    /// Size, time of change and inode when it was last taken in, and when it was last looked at.
    taken: Option<(u64, Option<SystemTime>, u64)>,
    last: Option<(u64, Option<SystemTime>, u64)>,
}

impl SeenFiles {
    fn has_changed(&mut self, path: &std::path::Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let Ok(about) = std::fs::metadata(path) else {
            // Gone, or about to be replaced: what decides goes on.
            return false;
        };
        let now = Some((about.len(), about.modified().ok(), about.ino()));
        let sight = self.0.entry(path.to_owned()).or_default();
        let settled = sight.last == now;
        sight.last = now;
        match (settled, sight.taken) {
            (true, taken) if taken != now => {
                // The first look is at what was loaded, unless it changed since: its digest tells.
                sight.taken = now;
                true
            }
            _ => false,
        }
    }
}

impl Inner {
    fn entry(&self, role: Option<Role>, name: &str) -> Result<Arc<Entry>, SwapError> {
        let catalog = self.catalog();
        let own = |entry: &&Arc<Entry>| !entry.active.built_in && !entry.active.id.starts_with("shadow:");
        let all: Vec<&Arc<Entry>> = catalog.all().filter(own).collect();
        let of_role = |entry: &&&Arc<Entry>| role.is_none_or(|role| entry.config.role == role);
        let mut found = all.iter().filter(of_role).filter(|entry| entry.name == name);
        match (found.next(), found.next()) {
            (Some(entry), None) => Ok(Arc::clone(entry)),
            (Some(_), Some(_)) => Err(SwapError::Ambiguous { entry: name.to_owned() }),
            (None, _) => Err(SwapError::Unknown {
                entry: name.to_owned(),
                known: match all.is_empty() {
                    true => "none but the built-in ones".to_owned(),
                    false => all
                        .iter()
                        .map(|entry| entry.name.as_str())
                        .collect::<Vec<_>>()
                        .join(", "),
                },
            }),
        }
    }

    /// Swaps in what the site file's path holds now.
    async fn take_file(self: &Arc<Self>, role: Role, name: &str) -> Result<Option<Change>, SwapError> {
        let entry = self.entry(Some(role), name)?;
        let component = entry.config.component.clone();
        let read = blocking(move || load::read(&component)).await?;
        // What was chosen through the API stands until the file is another one.
        if entry.file == read.digest {
            return Ok(None);
        }
        self.switch_file(role, name, read.digest);
        self.swap_in(&entry, read, false, "its file has changed").await
    }

    async fn swap_in(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        read: Bytes,
        again: bool,
        why: &str,
    ) -> Result<Option<Change>, SwapError> {
        let (role, name) = (entry.config.role, entry.name.clone());
        if let Some(why) = entry.quarantined.get(&read.digest)
            && !again
        {
            return Err(SwapError::Quarantined {
                digest: read.digest,
                why: why.clone(),
            });
        }
        if entry.active.plugin.digest == read.digest {
            return Ok(None);
        }
        let (engine, config, version) = (self.engine.clone(), Arc::clone(&entry.config), read.clone());
        let bound = blocking(move || load::bind(&engine, &config, &version, false)).await?;
        if bound.plugin.manifest.is_some() && entry.active.plugin.manifest.is_some() && bound.id != entry.active.id {
            return Err(SwapError::OtherPlugin {
                entry: name,
                found: bound.id,
            });
        }
        // The values that it keeps for nodes stand under the id.
        let id = entry.active.id.clone();
        let bound = named(Bound { id, ..bound }, &name);
        self.try_start(&bound).await.map_err(SwapError::Refused)?;
        if let Some(gate) = self.gate.get() {
            let trial = Trial {
                role,
                id: bound.id.clone(),
                component: Arc::clone(&read.bytes),
                manifest: bound.plugin.manifest.clone(),
                granted: bound.allowed.granted.clone(),
                limits: bound.limits.clone(),
                settings: bound.settings.clone(),
            };
            if let Err(reason) = gate.check(&trial).await {
                // Not even a restart takes it in.
                self.quarantine(
                    role,
                    &name,
                    read.digest,
                    &format!("it does not pass its own scenarios: {reason}"),
                );
                self.note_soon();
                return Err(SwapError::Scenarios(reason));
            }
        }
        let change = self.switch(|catalog| {
            let current = catalog.entry(Some(role), &name)?;
            let change = change(current, &bound, why, false);
            Some((current.switched(Arc::clone(&bound)), change))
        });
        let runtime = Arc::clone(self);
        let noted = tokio::task::spawn_blocking(move || {
            keep(runtime.versions.as_ref(), &read);
            runtime.note();
        });
        let _ = noted.await;
        Ok(change)
    }

    /// A call has ended: it is told, and a failure is counted.
    pub(crate) fn ended(self: &Arc<Self>, bound: &Arc<Bound>, report: &CallReport, failure: Option<&CallFailure>) {
        self.observer.call_ended(report);
        let Some(failure) = failure.filter(|failure| is_failure(failure, report, bound)) else {
            return;
        };
        if bound.built_in || !self.health.failed(self.rollback, bound, Instant::now()) {
            return;
        }
        let why = format!(
            "it failed {} times within {} s, last in `{}` for node {}: {failure}",
            self.rollback.failures,
            self.rollback.window.as_secs(),
            report.function,
            report.node
        );
        if self
            .give_up(bound.role, &bound.entry, bound.plugin.digest, &why, true)
            .is_none()
        {
            tracing::error!(plugin = %bound.id, digest = %bound.plugin.digest, "{why}; there is no good version to go back to");
        }
    }

    /// Takes a version out of use; what decided before decides again. `None` if there is nothing else that could.
    fn give_up(self: &Arc<Self>, role: Role, name: &str, digest: Digest, why: &str, automatic: bool) -> Option<Change> {
        let change = self.switch(|catalog| {
            let current = catalog.entry(Some(role), name)?;
            if current.active.plugin.digest == digest {
                let next = current.rolled_back(why)?;
                let change = change(current, &next.active, why, automatic);
                return Some((next, change));
            }
            // An earlier version, which a node still had: no node has it any more.
            let mut next = Entry::clone(current);
            next.quarantined.insert(digest, why.to_owned());
            next.last_good = next.last_good.filter(|good| good.plugin.digest != digest);
            let change = change(current, &current.active, why, automatic);
            Some((next, change))
        });
        if change.is_some() {
            self.note_soon();
        }
        change
    }

    /// The one place where another catalog takes over.
    fn switch(&self, next: impl FnOnce(&Catalog) -> Option<(Entry, Change)>) -> Option<Change> {
        let change = {
            let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
            let (entry, change) = next(&catalog)?;
            *catalog = Arc::new(catalog.with(entry));
            change
        };
        let Change {
            entry, from, to, why, ..
        } = &change;
        match change.automatic {
            true => tracing::error!(plugin = %entry, from = %from.digest, to = %to.digest, "rolled back: {why}"),
            false => {
                tracing::info!(plugin = %entry, from = %from.digest, to = %to.digest, "another version decides: {why}")
            }
        }
        self.observer.plugin_changed(&change);
        Some(change)
    }

    /// Puts a version that never decided into quarantine.
    fn quarantine(&self, role: Role, name: &str, digest: Digest, why: &str) {
        self.edit(role, name, |entry| {
            entry.quarantined.insert(digest, why.to_owned());
        });
    }

    /// Notes which bytes the site file's component had when it was taken in: what is chosen otherwise stands until it is another.
    fn switch_file(&self, role: Role, name: &str, digest: Digest) {
        self.edit(role, name, |entry| entry.file = digest);
    }

    fn edit(&self, role: Role, name: &str, edit: impl FnOnce(&mut Entry)) {
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = catalog.entry(Some(role), name) {
            let mut entry = Entry::clone(current);
            edit(&mut entry);
            *catalog = Arc::new(catalog.with(entry));
        }
    }

    fn note_soon(self: &Arc<Self>) {
        if self.versions.is_some() {
            let runtime = Arc::clone(self);
            tokio::task::spawn_blocking(move || runtime.note());
        }
    }

    fn note(&self) {
        if let Some(versions) = &self.versions {
            versions.note(&self.catalog());
        }
    }
}

fn change(current: &Entry, to: &Arc<Bound>, why: &str, automatic: bool) -> Change {
    let info = |bound: &Bound| VersionInfo {
        digest: bound.plugin.digest,
        version: bound.plugin.manifest.as_ref().map(|manifest| manifest.version.clone()),
    };
    let asked = |bound: &'_ Arc<Bound>| (bound.allowed.requested.clone(), bound.plugin.imports.clone());
    let (old, new) = (asked(&current.active), asked(to));
    Change {
        at: SystemTime::now(),
        role: current.config.role,
        entry: current.name.clone(),
        from: info(&current.active),
        to: info(to),
        why: why.to_owned(),
        automatic,
        grants: GrantDiff::of((&old.0, &old.1), (&new.0, &new.1), &to.allowed.granted),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, SwapError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(SwapError::Refused),
        Err(error) => Err(SwapError::Host(error.to_string())),
    }
}
