//! `[store]`, `[conductor]`, `[take-over]` and `[security]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::ConductorName;

use crate::entries::{Out, word};
use crate::machine::Machine;
use crate::section::Section;
use crate::values::HttpUrl;

const DAY: u64 = 24 * 60 * 60;

/// `[store]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Store {
    /// One file, for the processes of one machine.
    Sqlite {
        /// The file: `farrier.db` in the data folder.
        path: PathBuf,
    },
    /// Many machines.
    Etcd {
        /// At least one.
        endpoints: Vec<HttpUrl>,
        /// What signed the servers' certificates; `None` = the system's authorities.
        ca: Option<PathBuf>,
        /// The client's own certificate and key.
        client: Option<crate::Tls>,
        /// Before every key.
        prefix: String,
    },
}

impl Store {
    pub(crate) fn take(mut section: Section<'_>, data_dir: &Path) -> Self {
        #[derive(Clone, Copy)]
        enum Kind {
            Sqlite,
            Etcd,
        }
        let kinds = [("sqlite", Kind::Sqlite), ("etcd", Kind::Etcd)];
        let kind = section.choice("kind", &kinds).unwrap_or(Kind::Sqlite);
        let store = match kind {
            Kind::Sqlite => Self::Sqlite {
                path: data_dir.join("farrier.db"),
            },
            Kind::Etcd => {
                let remedy = "kind = \"etcd\" needs endpoints = [\"https://10.0.0.1:2379\", …]";
                let endpoints: Vec<HttpUrl> = section.required("endpoints", remedy).unwrap_or_default();
                let certificate = section.value("certificate");
                let key = section.value("key");
                let client = match (certificate, key) {
                    (Some(certificate), Some(key)) => Some(crate::Tls { certificate, key }),
                    (None, None) => None,
                    (Some(_), None) => {
                        section.needs_beside("certificate", "key", "");
                        None
                    }
                    (None, Some(_)) => {
                        section.needs_beside("key", "certificate", "");
                        None
                    }
                };
                Self::Etcd {
                    endpoints,
                    ca: section.value("ca"),
                    client,
                    prefix: section.value("prefix").unwrap_or("/farrier/".into()),
                }
            }
        };
        section.end();
        store
    }
}

/// `[conductor]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conductor {
    /// Unique in the store; the host's name where it is not set.
    pub name: ConductorName,
    /// Takes nodes of this group only; in lower case.
    pub group: String,
    /// How long others wait before they take over its nodes.
    pub lease: Duration,
    /// How long a deploy ramdisk may take to call back.
    pub deploy_callback_timeout: Duration,
    /// How long a cleaning ramdisk may take to call back.
    pub clean_callback_timeout: Duration,
    /// How long a rescue ramdisk may take to call back.
    pub rescue_callback_timeout: Duration,
    /// How long an inspection may take.
    pub inspect_timeout: Duration,
    /// How long a step that does not work out is tried again, until a ramdisk's boot is prepared, an instance is set up or torn
    /// down, or a BMC is checked: all of it together.
    pub prepare_timeout: Duration,
    /// How long a server may read nothing of what it was given to boot until its boot is repeated, once; `None` = it never is.
    /// Nothing is known, and so nothing is repeated, where several conductors serve under one URL or a web server does.
    pub fetch_alarm: Option<Duration>,
    /// How long a server may take to reach the power state that it was asked for.
    pub power_timeout: Duration,
    /// The same where its operating system is asked.
    pub soft_power_off_timeout: Duration,
    /// Nodes that are worked on at the same time.
    pub workers: usize,
    /// Clean nodes before they become available.
    pub automated_clean: bool,
    /// How often each server's power is read. Never is no choice: stale media go back in when a server is seen off.
    pub power_sync_interval: Duration,
}

impl Conductor {
    /// The longest time that a ramdisk may take to call back.
    pub fn longest_wait(&self) -> Duration {
        let waits = [
            self.clean_callback_timeout,
            self.rescue_callback_timeout,
            self.inspect_timeout,
        ];
        waits.into_iter().fold(self.deploy_callback_timeout, Duration::max)
    }

    pub(crate) fn take(mut section: Section<'_>, machine: &Machine) -> Self {
        let conductor = Self {
            name: section.value("name").unwrap_or_else(|| host_name(&machine.host_name)),
            group: group(&mut section),
            lease: section.seconds("lease-s", 1..=3600, 10),
            deploy_callback_timeout: section.seconds("deploy-callback-timeout-s", 1..=7 * DAY, 1800),
            clean_callback_timeout: section.seconds("clean-callback-timeout-s", 1..=7 * DAY, 1800),
            rescue_callback_timeout: section.seconds("rescue-callback-timeout-s", 1..=7 * DAY, 1800),
            inspect_timeout: section.seconds("inspect-timeout-s", 1..=7 * DAY, 1800),
            prepare_timeout: section.seconds("prepare-timeout-s", 10..=DAY, 1200),
            fetch_alarm: Some(section.seconds("fetch-alarm-s", 0..=DAY, 600)).filter(|alarm| !alarm.is_zero()),
            power_timeout: section.seconds("power-timeout-s", 2..=DAY, 60),
            soft_power_off_timeout: section.seconds("soft-power-off-timeout-s", 1..=DAY, 600),
            workers: section
                .number("workers", 1..=10_000)
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(100),
            automated_clean: section.value("automated-clean").unwrap_or(true),
            power_sync_interval: section.seconds("power-sync-interval-s", 1..=DAY, 60),
        };
        section.end();
        conductor
    }
}

/// What nodes may name as well, and in lower case as theirs is kept: as in Ironic, groups have no case.
fn group(section: &mut Section<'_>) -> String {
    let group: String = section.value("group").unwrap_or_default();
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if group.len() > 255 || !group.chars().all(legal) {
        section.problem(
            "group",
            "must be at most 255 of A-Z a-z 0-9 - . _; no node could be of another group",
        );
    }
    group.to_ascii_lowercase()
}

/// A host name, reduced to what may name a conductor.
fn host_name(host: &str) -> ConductorName {
    let legal = |c: &char| c.is_ascii_alphanumeric() || "-._".contains(*c);
    let name: String = host.chars().filter(legal).take(255).collect();
    name.parse()
        .or_else(|_| "farrier".parse())
        .expect("`farrier` is a conductor's name")
}

/// `[take-over]`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakeOver {
    /// When the slot of an active node still holds a URL that nobody serves.
    pub reinsert_active: Reinsert,
}

/// See [`TakeOver`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reinsert {
    /// At its next power-off or reset: the running system notices nothing.
    AtNextReset,
    /// Now: the running system sees its medium change.
    Now,
}

const REINSERT: &[(&str, Reinsert)] = &[("at-next-reset", Reinsert::AtNextReset), ("now", Reinsert::Now)];

impl TakeOver {
    pub(crate) fn take(mut section: Section<'_>) -> Self {
        let reinsert_active = section.choice("reinsert-active", REINSERT);
        section.end();
        Self {
            reinsert_active: reinsert_active.unwrap_or(Reinsert::AtNextReset),
        }
    }
}

/// `[security]`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Security {
    /// What users, agents and BMCs make us connect to may be loopback, link-local or our own. For a laboratory on one
    /// machine.
    pub allow_local_addresses: bool,
}

impl Security {
    pub(crate) fn take(mut section: Section<'_>) -> Self {
        let allow = section.value("allow-local-addresses");
        section.end();
        Self {
            allow_local_addresses: allow.unwrap_or(false),
        }
    }
}

impl Store {
    pub(crate) fn write(&self, out: &mut Out) {
        match self {
            Self::Sqlite { path: _ } => out.put("kind", "sqlite"),
            Self::Etcd {
                endpoints,
                ca,
                client,
                prefix,
            } => {
                out.put("kind", "etcd");
                out.put(
                    "endpoints",
                    endpoints.iter().map(HttpUrl::to_string).collect::<Vec<_>>(),
                );
                out.put("ca", ca.as_ref());
                out.put("certificate", client.as_ref().map(|tls| &tls.certificate));
                out.put("key", client.as_ref().map(|tls| &tls.key));
                out.put("prefix", prefix);
            }
        }
    }
}

impl Conductor {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self {
            name,
            group,
            lease,
            deploy_callback_timeout,
            clean_callback_timeout,
            rescue_callback_timeout,
            inspect_timeout,
            prepare_timeout,
            fetch_alarm,
            power_timeout,
            soft_power_off_timeout,
            workers,
            automated_clean,
            power_sync_interval,
        } = self;
        out.put("name", name.as_str());
        out.put("group", group);
        out.put("lease-s", *lease);
        out.put("deploy-callback-timeout-s", *deploy_callback_timeout);
        out.put("clean-callback-timeout-s", *clean_callback_timeout);
        out.put("rescue-callback-timeout-s", *rescue_callback_timeout);
        out.put("inspect-timeout-s", *inspect_timeout);
        out.put("prepare-timeout-s", *prepare_timeout);
        out.put("fetch-alarm-s", fetch_alarm.unwrap_or_default());
        out.put("power-timeout-s", *power_timeout);
        out.put("soft-power-off-timeout-s", *soft_power_off_timeout);
        out.put("workers", u64::try_from(*workers).unwrap_or(u64::MAX));
        out.put("automated-clean", *automated_clean);
        out.put("power-sync-interval-s", *power_sync_interval);
    }
}

impl TakeOver {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self { reinsert_active } = self;
        out.put("reinsert-active", word(REINSERT, reinsert_active));
    }
}

impl Security {
    pub(crate) fn write(&self, out: &mut Out) {
        let Self { allow_local_addresses } = self;
        out.put("allow-local-addresses", *allow_local_addresses);
    }
}
