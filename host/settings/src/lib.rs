//! `farrier.toml` and `ironic.conf` to one typed [`Settings`]. The only crate that reads configuration.
//!
//! ```no_run
//! # use settings::{Files, Overrides, Settings, SettingsError};
//! # fn example() -> Result<(), SettingsError> {
//! let files = Files {
//!     site: Some("/etc/farrier/farrier.toml".into()),
//!     ironic: vec!["/etc/ironic/ironic.conf".into()],
//! };
//! let loaded = Settings::load(&files, &Overrides::default())?;
//! for warning in &loaded.warnings {
//!     eprintln!("{warning}");
//! }
//! println!("{}", loaded.settings.api.listen);
//! # Ok(())
//! # }
//! ```
//!
//! A reader turns a file into a tree of items, each with its [`Origin`]: [`toml_file`] as it stands there, [`ironic`] by what
//! each of Ironic's options becomes. What `farrier.toml` sets is laid over what `ironic.conf` sets; the sections take what
//! they know out of the tree, check it and note where it came from; what is left over is unknown. Every setting has a
//! default, and no file at all is a working site. All problems of all files are reported at once, each with file, line and
//! remedy.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

mod backends;
mod bmc;
mod checks;
mod drivers;
mod entries;
mod glance;
mod images;
mod ironic;
mod machine;
mod migrate;
mod nearest;
mod netboot;
mod openstack;
mod oslo;
mod plugins;
mod problem;
#[cfg(test)]
mod reference;
mod rooms;
mod secret_file;
mod section;
mod serving;
mod toml_file;
mod tree;
mod values;

pub use backends::{AccessKey, Backend, BackendKind, Delivery, DriverFamily, S3, Swift};
pub use bmc::{Bmc, BmcTrust};
pub use drivers::Drivers;
pub use entries::{Entry, Plain};
pub use glance::{Glance, GlanceSwift};
pub use images::{
    Account, ArchImages, Cache, DefaultBootMode, ImageServers, Images, Ramdisk, expand_default, ldlinux_for,
};
pub use machine::Machine;
pub use migrate::{Migrated, Secrets, SecretsInTheOpen};
pub use netboot::Netboot;
pub use openstack::{ApplicationCredential, Credential, Interface, Member, Named, OpenStack};
pub use plugins::{Limits, Mode, Plugin, Role};
pub use problem::{Problem, SettingsError, Warning};
pub use rooms::{Conductor, Reinsert, Security, Store, TakeOver};
pub use serving::{Agent, Api, Auth, IMAGE_DOWNLOAD_SOURCES, ImageDownloadSource, Tls};
pub use tree::Origin;
pub use values::{HttpUrl, Reference};

use entries::Out;
use section::{Report, Section};

/// Where a site keeps its data if nothing says otherwise.
const DATA_DIR: &str = "/var/lib/farrier";
/// Where its key is then.
const SECRET_KEY_FILE: &str = "/etc/farrier/secret.key";

/// Everything that a site sets.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Store, caches and, unless it is set, the secret key.
    pub data_dir: PathBuf,
    /// The key that secrets are sealed with; made at first start. Where it is not set: `/etc/farrier/secret.key` for the
    /// data folder `/var/lib/farrier`, and `secret.key` in any other data folder, so that such a site is all in one place.
    pub secret_key_file: PathBuf,
    /// `file:` references must lie under one of these.
    pub file_url_allowed_paths: Vec<PathBuf>,
    /// `[api]`
    pub api: Api,
    /// `[agent]`
    pub agent: Agent,
    /// `[store]`
    pub store: Store,
    /// `[conductor]`
    pub conductor: Conductor,
    /// `[images]`
    pub images: Images,
    /// `[[backend]]`: never empty, their ids differ.
    pub backends: Vec<Backend>,
    /// `[bmc]`
    pub bmc: Bmc,
    /// `[drivers]`
    pub drivers: Drivers,
    /// `[glance]`; `None` = no image may be named by its Glance identifier.
    pub glance: Option<Glance>,
    /// `[netboot]`
    pub netboot: Netboot,
    /// `[take-over]`
    pub take_over: TakeOver,
    /// `[[plugin]]`, in the order of the file: the first that matches wins.
    pub plugins: Vec<Plugin>,
    /// `[security]`
    pub security: Security,
}

/// Which files to read.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// `farrier.toml`; beats every `ironic.conf`.
    pub site: Option<PathBuf>,
    /// `ironic.conf`s and folders of them, the later ones winning.
    pub ironic: Vec<PathBuf>,
}

/// What the command line says; it beats every file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--data`
    pub data_dir: Option<PathBuf>,
    /// `--listen`
    pub api_listen: Option<SocketAddr>,
}

/// Settings, and what to tell the operator about them.
#[derive(Clone, PartialEq, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// What works, but perhaps not as meant.
    pub warnings: Vec<Warning>,
    /// Where each setting came from, by its name ("api.listen", "backend.2.url").
    pub origins: BTreeMap<String, Origin>,
    /// Which secrets came from a file of their own ("backend.1.password"), and from which.
    pub(crate) secret_files: BTreeMap<String, PathBuf>,
}

impl Settings {
    /// Reads the files; without any, everything has its default.
    pub fn load(files: &Files, overrides: &Overrides) -> Result<Loaded, SettingsError> {
        Self::load_on(files, overrides, &Machine::here())
    }

    /// [`Settings::load`] with the defaults that this machine would give.
    pub fn load_on(files: &Files, overrides: &Overrides, machine: &Machine) -> Result<Loaded, SettingsError> {
        let report = Report::default();
        let mut tree = tree::Table::default();
        let mut is_whole = true;
        match files.site.as_deref().map(toml_file::read) {
            Some(Ok(site)) => tree = site,
            Some(Err(error)) => {
                report.problems(error.problems);
                is_whole = false;
            }
            None => {}
        }
        if !files.ironic.is_empty() {
            let mut below = ironic::read(&files.ironic, &tree, machine, &report);
            below.overlay(tree);
            tree = below;
        }
        if !is_whole {
            // What the site file would have said is not guessed at.
            let notes = report.into_notes();
            return Err(SettingsError {
                problems: notes.problems,
                warnings: notes.warnings,
            });
        }
        tree.override_with(overrides);
        let settings = Self::take(Section::root(tree, &report), machine, &report);
        checks::check(&settings, machine, &report);
        let notes = report.into_notes();
        if notes.problems.is_empty() {
            Ok(Loaded {
                settings,
                warnings: notes.warnings,
                origins: notes.origins,
                secret_files: notes.secret_files,
            })
        } else {
            Err(SettingsError {
                problems: notes.problems,
                warnings: notes.warnings,
            })
        }
    }

    fn take(mut root: Section<'_>, machine: &Machine, report: &Report) -> Self {
        let data_dir: PathBuf = root.value("data-dir").unwrap_or_else(|| DATA_DIR.into());
        let secret_key_file = root.value("secret-key-file").unwrap_or_else(|| {
            if data_dir == Path::new(DATA_DIR) {
                SECRET_KEY_FILE.into()
            } else {
                data_dir.join("secret.key")
            }
        });
        let file_url_allowed_paths = root
            .value("file-url-allowed-paths")
            .unwrap_or_else(|| vec![data_dir.join("images")]);
        let conductor = Conductor::take(root.section("conductor"), machine);
        let images = Images::take(root.section("images"), &data_dir, machine);
        let mut backends = backends::take(root.sections("backend"));
        backends::outlast(&mut backends, conductor.longest_wait(), report);
        let settings = Self {
            secret_key_file,
            file_url_allowed_paths,
            api: Api::take(root.section("api")),
            agent: Agent::take(root.section("agent"), machine),
            store: Store::take(root.section("store"), &data_dir),
            bmc: Bmc::take(root.section("bmc")),
            drivers: Drivers::take(root.section("drivers")),
            glance: Glance::take(root.section("glance")),
            netboot: Netboot::take(root.section("netboot"), &backends, &images.kernel_append_params),
            conductor,
            images,
            backends,
            take_over: TakeOver::take(root.section("take-over")),
            plugins: plugins::take(root.sections("plugin")),
            security: Security::take(root.section("security")),
            data_dir,
        };
        root.end();
        settings
    }

    /// Every setting by its full name, as a site file writes it.
    fn entries(&self) -> Vec<(String, Plain)> {
        let Self {
            data_dir,
            secret_key_file,
            file_url_allowed_paths,
            api,
            agent,
            store,
            conductor,
            images,
            backends,
            bmc,
            drivers,
            glance,
            netboot,
            take_over,
            plugins,
            security,
        } = self;
        let mut out = Out::default();
        out.put("data-dir", data_dir);
        out.put("secret-key-file", secret_key_file);
        let paths = file_url_allowed_paths
            .iter()
            .map(|path| path.to_string_lossy().into_owned());
        out.put("file-url-allowed-paths", paths.collect::<Vec<_>>());
        out.section("api", |out| api.write(out));
        out.section("agent", |out| agent.write(out));
        out.section("store", |out| store.write(out));
        out.section("conductor", |out| conductor.write(out));
        out.section("images", |out| images.write(out));
        for (place, backend) in (1..).zip(backends) {
            out.section(&format!("backend.{place}"), |out| backend.write(out));
        }
        out.section("netboot", |out| netboot.write(out));
        out.section("bmc", |out| bmc.write(out));
        out.section("drivers", |out| drivers.write(out));
        if let Some(glance) = glance {
            out.section("glance", |out| glance.write(out));
        }
        out.section("take-over", |out| take_over.write(out));
        for (place, plugin) in (1..).zip(plugins) {
            out.section(&format!("plugin.{place}"), |out| plugin.write(out));
        }
        out.section("security", |out| security.write(out));
        out.into_entries()
    }
}

impl Loaded {
    /// Every setting, in the order of a site file.
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |(name, value): (String, Plain)| Entry {
            origin: self.origin(&name),
            name,
            value,
        };
        self.settings.entries().into_iter().map(entry).collect()
    }

    /// Where a setting came from; a secret, perhaps from a file of its own.
    fn origin(&self, name: &str) -> Origin {
        let own = self.origins.get(name).filter(|origin| **origin != Origin::Default);
        let file = || self.origins.get(&format!("{name}-file"));
        own.or_else(file).cloned().unwrap_or(Origin::Default)
    }
}
