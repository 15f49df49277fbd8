//! `[store]`, `[conductor]`, `[images]`, `[take-over]` and `[security]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::ConductorName;

use crate::machine::Machine;
use crate::section::Section;
use crate::values::{HttpUrl, Reference, Size};

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
                        section.problem("certificate", "needs key beside it");
                        None
                    }
                    (None, Some(_)) => {
                        section.problem("key", "needs certificate beside it");
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
    /// Clean nodes before they become available.
    pub automated_clean: bool,
    /// How often each server's power is read. Never is no choice: stale media go back in when a server is seen off.
    pub power_sync_interval: Duration,
}

impl Conductor {
    pub(crate) fn take(mut section: Section<'_>, machine: &Machine) -> Self {
        let conductor = Self {
            name: section.value("name").unwrap_or_else(|| host_name(&machine.host_name)),
            group: group(&mut section),
            lease: section.seconds("lease-s", 1..=3600, 10),
            deploy_callback_timeout: section.seconds("deploy-callback-timeout-s", 1..=7 * DAY, 1800),
            clean_callback_timeout: section.seconds("clean-callback-timeout-s", 1..=7 * DAY, 1800),
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

/// `[images]`: what nodes boot, and where BMCs fetch it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Images {
    /// Where the embedded backend listens.
    pub listen: SocketAddr,
    /// Its URL as BMCs see it; `None` = this machine's own address. See [`Images::external_url_at`].
    pub external_url: Option<HttpUrl>,
    /// Kernels, ramdisks and images that were fetched.
    pub cache: Cache,
    /// `isolinux.bin`, for BIOS.
    pub isolinux: PathBuf,
    /// `ldlinux.c32` of the same version. See [`Images::ldlinux_candidates`].
    pub ldlinux: Option<PathBuf>,
    /// EFI system partition image, for UEFI; a site without one boots BIOS only.
    pub esp: Option<PathBuf>,
    /// Where the ESP's GRUB looks for its configuration inside the ISO.
    pub grub_config_path: String,
    /// Kernel of the deploy ramdisk, for nodes that name none.
    pub deploy_kernel: Option<Reference>,
    /// The deploy ramdisk.
    pub deploy_ramdisk: Option<Reference>,
    /// After our own parameters on every ramdisk's kernel line.
    pub kernel_append_params: String,
    /// Kernel of instance boot ISOs, for nodes whose `instance_info` names none.
    pub instance_kernel: Option<Reference>,
    /// Ramdisk of instance boot ISOs.
    pub instance_ramdisk: Option<Reference>,
    /// Kernel line of instance boot ISOs.
    pub instance_kernel_append_params: String,
    machine: Machine,
}

/// `[images] cache`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cache {
    /// `cache` in the data folder.
    pub folder: PathBuf,
    /// Least recently used files go beyond this.
    pub max_bytes: u64,
    /// Files unused for so long go.
    pub max_age: Duration,
}

impl Images {
    pub(crate) fn take(mut section: Section<'_>, data_dir: &Path, machine: &Machine) -> Self {
        let mut cache = section.section("cache");
        let kept = Cache {
            folder: data_dir.join("cache"),
            max_bytes: cache.value("max-bytes").unwrap_or(Size(20 << 30)).0,
            max_age: Duration::from_secs(DAY * cache.number("max-age-days", 1..=3650).unwrap_or(7)),
        };
        cache.end();
        let images = Self {
            listen: section.value("listen").unwrap_or((Ipv4Addr::UNSPECIFIED, 6386).into()),
            external_url: section.value("external-url"),
            cache: kept,
            isolinux: section
                .value("isolinux")
                .unwrap_or("/usr/lib/ISOLINUX/isolinux.bin".into()),
            ldlinux: section.value("ldlinux"),
            esp: section.value("esp"),
            grub_config_path: section
                .value("grub-config-path")
                .unwrap_or("EFI/debian/grub.cfg".into()),
            deploy_kernel: section.value("deploy-kernel"),
            deploy_ramdisk: section.value("deploy-ramdisk"),
            kernel_append_params: section
                .value("kernel-append-params")
                .unwrap_or("nofb vga=normal".into()),
            instance_kernel: section.value("instance-kernel"),
            instance_ramdisk: section.value("instance-ramdisk"),
            instance_kernel_append_params: section.value("instance-kernel-append-params").unwrap_or_default(),
            machine: machine.clone(),
        };
        if images.deploy_kernel.is_some() != images.deploy_ramdisk.is_some() {
            let (there, missing) = if images.deploy_kernel.is_some() {
                ("deploy-kernel", "deploy-ramdisk")
            } else {
                ("deploy-ramdisk", "deploy-kernel")
            };
            section.problem(there, &format!("needs {missing} beside it: they are booted together"));
        }
        section.end();
        images
    }

    /// The URL that BMCs see, when the listener is bound there (port 0 in `listen` takes any free port).
    pub fn external_url_at(&self, bound: SocketAddr) -> String {
        match &self.external_url {
            Some(url) => url.to_string(),
            None => self.machine.url_of(bound),
        }
    }

    /// Where `ldlinux.c32` may be, in the order to look: as set, beside `isolinux.bin`, where distributions put it.
    pub fn ldlinux_candidates(&self) -> Vec<PathBuf> {
        match &self.ldlinux {
            Some(set) => vec![set.clone()],
            None => ldlinux_for(&self.isolinux),
        }
    }
}

/// Where the `ldlinux.c32` of an `isolinux.bin` may be: beside it, where distributions put it.
pub fn ldlinux_for(isolinux: &Path) -> Vec<PathBuf> {
    vec![
        isolinux.with_file_name("ldlinux.c32"),
        // Debian and Ubuntu; Fedora, RHEL and SUSE; Arch.
        "/usr/lib/syslinux/modules/bios/ldlinux.c32".into(),
        "/usr/share/syslinux/ldlinux.c32".into(),
        "/usr/lib/syslinux/bios/ldlinux.c32".into(),
    ]
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

impl TakeOver {
    pub(crate) fn take(mut section: Section<'_>) -> Self {
        let choices = [("at-next-reset", Reinsert::AtNextReset), ("now", Reinsert::Now)];
        let reinsert_active = section.choice("reinsert-active", &choices);
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
