//! A running conductor with its listeners, put together from settings.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::CallbackPolicy;
use anyhow::{Context, Result, anyhow, bail};
use api::{AgentPolicy, ApiState, Auth, Users, listen};
use conductor::{Conductor, ConductorConfig, Hands, LeaseClock, Timeouts};
use model::BootInterface;
use nodes::{Sealer, SqliteStore, Store};
use runtime::live::{Live, LiveWorld, SiteBackend};
use runtime::{Engine, Runtime, World};
use settings::{BackendKind, Reinsert, Settings};
use sources::Sources;
use storage::{Embedded, EmbeddedConfig};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::backends::Backends;
use super::boot_check;
use super::boot_sources::BootSourceWiring;
use super::config_drive;
use super::glance_urls::GlanceUrls;
use super::instance_images::InstanceImages;
use super::netboot::{self, Loaders, NetbootWiring, Places};
use super::plugin_gate::Scenarios;
use super::plugin_pages::{Calls, PluginPages};
use super::plugins;
use super::policies::PolicyWiring;
use super::power::PowerWiring;
use super::publications::{PublicationWiring, RecallWiring};
use super::readers::Readers;
use super::recording;
use super::records::Records;
use super::servers::Servers;
use super::source_cache;

/// How long steps under way may take to end when the conductor is told to stop.
const DRAIN: Duration = Duration::from_secs(10);
/// Plugin calls that run at once; more wait for their turn.
const CALLS_AT_ONCE: u16 = 32;
/// How often it is noted whether this process takes part in the work.
const READY_EVERY: Duration = Duration::from_millis(500);

/// A conductor at work.
pub(crate) struct Site {
    conductor: conductor::Running,
    servers: Arc<Servers>,
    store: Arc<dyn Store>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    /// Where the API listens.
    pub(crate) api: SocketAddr,
    /// Where ramdisks' agents call in.
    pub(crate) agent: SocketAddr,
    /// Where BMCs fetch images.
    pub(crate) images: SocketAddr,
}

/// The lease as the BMC clients' fence.
struct LeaseFence(LeaseClock);

impl bmc::Fence for LeaseFence {
    fn window(&self) -> Option<Duration> {
        self.0.window()
    }
}

impl Site {
    /// Opens the store, loads the plugins, joins the site and listens. What plugins ask is recorded in a folder, if one is given.
    pub(crate) async fn start(settings: Settings, record: Option<&Path>) -> Result<Self> {
        let (boot_interfaces, default_boot_interface) = boot_interfaces(&settings.drivers)?;
        let store = open_store(&settings)?;
        let api_listener = bind(settings.api.listen, "[api] listen").await?;
        let agent_listener = bind(settings.agent.listen, "[agent] listen").await?;
        let images_listener = bind(settings.images.listen, "[images] listen").await?;
        let (agent, images) = (agent_listener.local_addr()?, images_listener.local_addr()?);
        let images_url = settings.images.external_url_at(images);
        let agent_urls = settings.agent.urls_at(agent);

        let sources = Arc::new(source_cache::open(&settings, Some(Arc::clone(&store)))?);
        let embedded_ids = settings
            .backends
            .iter()
            .filter(|backend| backend.kind == BackendKind::Embedded);
        let readers = Readers {
            only_to_bmc: settings.images.only_to_bmc,
        };
        let loaders = Loaders::read(&settings.netboot);
        let stores = Arc::default();
        let recall = RecallWiring {
            store: Arc::clone(&store),
            sources: Arc::clone(&sources),
            readers,
            embedded: embedded_ids.map(|backend| backend.id.clone()).collect(),
            stores: Arc::clone(&stores),
            places: Places::new(&images_url, settings.netboot.url.is_none(), &loaders)
                .context("[images] external-url")?,
        };
        let embedded = Embedded::new(EmbeddedConfig {
            base_url: images_url.clone(),
            recall: Arc::new(recall),
        })
        .context("[images] external-url")?;
        let Backends {
            all: backends,
            stores: opened,
        } = Backends::open(&settings, &embedded, &images_url)?;
        // Nobody has set them before: this is the one place that does.
        let _ = stores.set(opened);

        let lease = LeaseClock::new();
        let servers = Arc::new(
            Servers::new(Arc::new(LeaseFence(lease.clone())), Arc::clone(&store)).with_defaults(settings.bmc.clone()),
        );
        let calls = Arc::new(Calls::default());
        let world = world(&settings, &store, &sources, &servers, readers, &backends);
        let runtime = load_plugins(&settings, world, record, &calls).await?;

        let netboot = Arc::new(NetbootWiring {
            store: Arc::clone(&store),
            sources: Arc::clone(&sources),
            servers: Arc::clone(&servers),
            boot_sources: BootSourceWiring {
                sources: Arc::clone(&sources),
                images: settings.images.clone(),
            },
            images: settings.images.clone(),
            netboot: settings.netboot.clone(),
            shelf: netboot::shelf(&settings.netboot, &embedded, &images_url, loaders),
        });

        let policy = CallbackPolicy {
            require_tls: settings.agent.require_tls,
            networks: settings.agent.callback_networks.clone(),
        };
        let hands = Hands {
            store: Arc::clone(&store),
            policies: Arc::new(PolicyWiring {
                runtime: runtime.clone(),
                netboot: Arc::clone(&netboot),
                images: settings.images.clone(),
            }),
            power: Arc::new(PowerWiring {
                servers: Arc::clone(&servers),
                store: Arc::clone(&store),
            }),
            publications: Arc::new(PublicationWiring {
                store: Arc::clone(&store),
                instance_images: InstanceImages {
                    store: Arc::clone(&store),
                    sources: Arc::clone(&sources),
                    embedded: embedded.clone(),
                    glance: GlanceUrls::new(&settings)?,
                    download_source: settings.agent.image_download_source,
                },
                sources,
                servers: Arc::clone(&servers),
                backends,
                embedded: embedded.clone(),
                netboot: Arc::clone(&netboot),
                readers,
                http: reqwest::Client::builder()
                    .no_proxy()
                    // Whether anybody answers is all that is asked; BMCs may trust a certificate that we do not.
                    .tls_danger_accept_invalid_certs(true)
                    .redirect(reqwest::redirect::Policy::none())
                    .build()?,
                floppy_wait: plugins::callback_timeout(&settings),
                reinsert_active_now: settings.take_over.reinsert_active == Reinsert::Now,
            }),
            agents: policy.clone(),
        };
        let scheme = if settings.api.tls.is_some() { "https" } else { "http" };
        let api = api_listener.local_addr()?;
        let config = ConductorConfig {
            api_url: format!("{scheme}://{api}"),
            images_url,
            agent_urls,
            ..conductor_config(&settings)
        };
        let conductor = Conductor::start(config, hands, lease.clone()).await?;

        let ready = Arc::new(AtomicBool::new(true));
        let waker = conductor.waker();
        let site_store = Arc::clone(&store);
        let state = ApiState {
            store,
            wake: Arc::new(move |node| waker.wake(node)),
            embedded: Some(embedded.clone()),
            plugins: Some(Arc::new(PluginPages {
                runtime: runtime.clone(),
                calls,
                conductor: settings.conductor.name.clone(),
            })),
            auth: auth(&settings)?,
            agent: AgentPolicy {
                accept: Arc::new(move |node, beat, now| conductor::heartbeat::accept(node, beat, &policy, now)),
                heartbeat_timeout: settings.agent.heartbeat_timeout,
            },
            site: api::Site {
                has_deploy_ramdisk: has_deploy_ramdisk(&settings.images),
                boot_interfaces,
                default_boot_interface,
                public_url: settings.api.public_url.as_ref().map(ToString::to_string),
                tls: settings.api.tls.is_some(),
            },
            pack_config_drive: Arc::new(config_drive::pack),
            check_boot: {
                let images = settings.images.clone();
                Arc::new(move |node| {
                    boot_check::check_all(&images, node)?;
                    match node.boot_interface {
                        BootInterface::IloVirtualMedia => Ok(()),
                        BootInterface::IloIpxe => netboot.check(node),
                    }
                })
            },
            ready: Arc::clone(&ready),
        };
        let tls = match &settings.api.tls {
            Some(tls) => Some(api::tls::load(&tls.certificate, &tls.key).context("[api] tls-certificate")?),
            None => None,
        };
        let images_tls = match &settings.images.tls {
            Some(tls) => Some(api::tls::load(&tls.certificate, &tls.key).context("[images] tls-certificate")?),
            None => None,
        };
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let until = || stop.clone();
        tasks.spawn(api::images::serve(
            images_listener,
            listen::Limits::images(images_tls),
            embedded,
            until(),
        ));
        tasks.spawn(api::serve(
            agent_listener,
            listen::Limits::api(None),
            api::agent_router(state.clone()),
            until(),
        ));
        tasks.spawn(api::serve(
            api_listener,
            listen::Limits::api(tls),
            api::router(state),
            until(),
        ));
        tasks.spawn(note_readiness(lease, ready, until()));
        tasks.spawn(plugins::watch(runtime, until()));
        Ok(Self {
            conductor,
            servers,
            store: site_store,
            stop,
            tasks,
            api,
            agent,
            images,
        })
    }

    /// Lets steps under way end, gives the nodes back, stops listening and logs out of every BMC.
    pub(crate) async fn stop(mut self) {
        self.conductor.drain(DRAIN).await;
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        self.servers.close().await;
        self.store.close().await;
    }
}

fn store_path(settings: &Settings) -> Result<&Path> {
    match &settings.store {
        settings::Store::Sqlite { path } => Ok(path),
        settings::Store::Etcd { .. } => bail!("[store] kind = \"etcd\" is not in this release: use \"sqlite\""),
    }
}

/// The store as it is, beside whoever uses it; `None` if there is none yet.
pub(crate) fn existing_store(settings: &Settings) -> Result<Option<Arc<dyn Store>>> {
    let path = store_path(settings)?;
    if !path.exists() {
        return Ok(None);
    }
    let sealer = Sealer::for_store(&settings.secret_key_file, path)?;
    Ok(Some(Arc::new(SqliteStore::open(path, sealer)?)))
}

/// How the site lets nodes boot, and how those do that do not say. Names of Ironic's that this release does not know are passed
/// over where others are left.
fn boot_interfaces(drivers: &settings::Drivers) -> Result<(Vec<BootInterface>, BootInterface)> {
    let known: Vec<BootInterface> = drivers
        .boot_interfaces
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    let all = BootInterface::ALL.map(BootInterface::as_str).join(", ");
    if known.is_empty() && !drivers.boot_interfaces.is_empty() {
        let names = drivers.boot_interfaces.join(", ");
        bail!("[drivers] boot-interfaces names only what this release cannot do ({names}); it can: {all}");
    }
    let first = known.first().copied().unwrap_or_default();
    let default = match &drivers.default_boot_interface {
        None if known.contains(&BootInterface::default()) => BootInterface::default(),
        None => first,
        Some(name) => name.parse().map_err(|_| {
            anyhow!("[drivers] default-boot-interface is `{name}`, which this release cannot do; it can: {all}")
        })?,
    };
    Ok((known, default))
}

fn open_store(settings: &Settings) -> Result<Arc<dyn Store>> {
    let path = store_path(settings)?;
    make_folder(&settings.data_dir, "data-dir")?;
    if let Some(folder) = settings.secret_key_file.parent() {
        make_folder(folder, "secret-key-file")?;
    }
    let sealer = Sealer::for_store(&settings.secret_key_file, path)?;
    Ok(Arc::new(SqliteStore::open(path, sealer)?))
}

fn make_folder(path: &Path, setting: &str) -> Result<()> {
    std::fs::create_dir_all(path)
        .with_context(|| format!("could not make the folder {} (setting {setting})", path.display()))
}

async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("could not listen on {address}: is another conductor running, or is {setting} wrong?"))
}

fn world(
    settings: &Settings,
    store: &Arc<dyn Store>,
    sources: &Arc<Sources>,
    servers: &Arc<Servers>,
    readers: Readers,
    backends: &[SiteBackend],
) -> Live {
    let records = Arc::new(Records(Arc::clone(store)));
    Live(Arc::new(LiveWorld {
        journal: Arc::clone(&records) as _,
        state: Arc::clone(&records) as _,
        servers: Arc::clone(servers) as _,
        artefacts: records,
        boot_sources: Arc::new(BootSourceWiring {
            sources: Arc::clone(sources),
            images: settings.images.clone(),
        }),
        readers: Arc::new(readers),
        backends: backends.to_vec(),
    }))
}

async fn load_plugins(settings: &Settings, world: Live, record: Option<&Path>, calls: &Arc<Calls>) -> Result<Runtime> {
    let config = plugins::config(settings)?;
    let engine = Engine::cached(CALLS_AT_ONCE, &plugins::compiled(&settings.data_dir))?;
    let world: Arc<dyn World> = match record {
        None => Arc::new(world),
        Some(folder) => recording::recorded(world, folder, &config)?,
    };
    let runtime = Runtime::new(&engine, config, world, Arc::clone(calls) as _).await?;
    runtime.set_gate(Arc::new(Scenarios { engine }));
    plugins::announce(&runtime);
    Ok(runtime)
}

fn conductor_config(settings: &Settings) -> ConductorConfig {
    let given = &settings.conductor;
    let default = ConductorConfig::new(given.name.clone());
    ConductorConfig {
        group: given.group.clone(),
        lease: given.lease,
        longest_request: given.lease / 2,
        timeouts: Timeouts {
            callback: given.deploy_callback_timeout,
            clean_callback: given.clean_callback_timeout,
            prepare: given.prepare_timeout,
            fetch_alarm: given.fetch_alarm,
            power: given.power_timeout,
            soft_power_off: given.soft_power_off_timeout,
            ..Timeouts::default()
        },
        automated_clean: given.automated_clean,
        reinsert_active_now: settings.take_over.reinsert_active == Reinsert::Now,
        power_sync: given.power_sync_interval,
        workers: given.workers,
        ..default
    }
}

fn auth(settings: &Settings) -> Result<Auth> {
    Ok(match &settings.api.auth {
        settings::Auth::None => Auth::None,
        settings::Auth::HttpBasic { htpasswd } => Auth::Basic(Arc::new(Users::load(htpasswd)?)),
    })
}

/// For all servers, or for those with some processor.
fn has_deploy_ramdisk(images: &settings::Images) -> bool {
    let archs = images.by_arch.keys().map(|arch| Some(arch.as_str()));
    std::iter::once(None)
        .chain(archs)
        .any(|arch| images.deploy(arch).kernel.is_some() && images.deploy(arch).ramdisk.is_some())
}

async fn note_readiness(lease: LeaseClock, ready: Arc<AtomicBool>, stop: CancellationToken) {
    while tokio::time::timeout(READY_EVERY, stop.cancelled()).await.is_err() {
        ready.store(lease.window().is_some(), Ordering::Relaxed);
    }
}
