//! Starting the simulator, and what its owner can see and do while it runs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{BootKind, SimConfig};
use crate::error::SimError;
use crate::faults::Faults;
use crate::machine;
use crate::media::MediaReads;
use crate::profile::Device;
use crate::serve;
use crate::server::{LastBoot, PowerCommand, PowerState, Server, ServerParts};
use crate::tls::{self, Service, Trust};
use crate::trace::{Exchange, TraceFile};

/// Power verbs that wait for their turn.
const COMMANDS: usize = 16;
/// How long stopping waits for tasks before it leaves them to their own end.
pub(crate) const STOP_DEADLINE: Duration = Duration::from_secs(15);

/// A running simulator. Dropping it ends its servers and their QEMU processes.
pub struct Running {
    servers: Vec<Arc<Server>>,
    infos: Vec<ServerInfo>,
    ca_pem: PathBuf,
    faults: Faults,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Where one simulated server is.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// `https://ADDRESS:PORT` of its BMC, without a path.
    pub url: String,
    /// Where the BMC listens.
    pub address: SocketAddr,
    /// MAC address of its one network card.
    pub mac: String,
    /// The CA that signed its certificate, as a PEM file.
    pub ca_pem: PathBuf,
    /// System UUID.
    pub uuid: String,
    /// Its disk, a raw image.
    pub disk: PathBuf,
    /// What a real machine wrote to its serial port.
    pub serial_log: PathBuf,
}

/// Starts the servers; returns when each listens.
pub async fn start(config: SimConfig) -> Result<Running, SimError> {
    config.check()?;
    let config = Arc::new(config);
    let file_error = |path: &Path| {
        let path = path.to_owned();
        move |source| SimError::File { path, source }
    };
    std::fs::create_dir_all(&config.data).map_err(file_error(&config.data))?;
    let service = Service::generate(config.profile.tls.offer, Some(config.listen.ip()))?;
    let ca_pem = config.data.join("ca.pem");
    std::fs::write(&ca_pem, &service.ca_pem).map_err(file_error(&ca_pem))?;
    let trace_file = Arc::new(TraceFile::open(config.trace.as_deref())?);
    let media_tls = tls::client(Trust::Anything)?;
    let media_tls_strict = tls::client(Trust::Only(""))?;
    let mut running = Running {
        servers: Vec::new(),
        infos: Vec::new(),
        ca_pem,
        faults: config.faults.clone(),
        stop: CancellationToken::new(),
        tasks: TaskTracker::new(),
    };
    for index in 0..config.servers {
        let (power, commands) = mpsc::channel(COMMANDS);
        let server = Arc::new(Server::new(ServerParts {
            index,
            config: Arc::clone(&config),
            trace_file: Arc::clone(&trace_file),
            power,
            stop: running.stop.child_token(),
            media_tls: Arc::clone(&media_tls),
            media_tls_strict: Arc::clone(&media_tls_strict),
        }));
        let files = &server.files;
        std::fs::create_dir_all(&files.folder).map_err(file_error(&files.folder))?;
        make_disk(&files.disk, config.disk_bytes).map_err(file_error(&files.disk))?;
        let listener = listen(&config, index).await?;
        let address = listener.local_addr().map_err(|source| SimError::Listen {
            server: index,
            address: config.listen,
            source,
        })?;
        running.infos.push(ServerInfo {
            url: format!("https://{address}"),
            address,
            mac: server.mac.clone(),
            ca_pem: running.ca_pem.clone(),
            uuid: server.uuid.clone(),
            disk: files.disk.clone(),
            serial_log: files.serial.clone(),
        });
        running.tasks.spawn(machine::run(Arc::clone(&server), commands));
        running.tasks.spawn(serve::run(
            Arc::clone(&server),
            listener,
            service.clone(),
            running.tasks.clone(),
        ));
        if config.powered_on {
            // The channel is new and empty.
            let _ = server.power.try_send(PowerCommand::On);
        }
        running.servers.push(server);
    }
    Ok(running)
}

/// A sparse disk of that size; one that is there keeps its content.
fn make_disk(path: &Path, bytes: u64) -> std::io::Result<()> {
    let file = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)?;
    if file.metadata()?.len() < bytes {
        file.set_len(bytes)?;
    }
    Ok(())
}

async fn listen(config: &SimConfig, index: usize) -> Result<TcpListener, SimError> {
    let mut address = config.listen;
    if address.port() != 0 {
        let offset = u16::try_from(index).unwrap_or(u16::MAX);
        address.set_port(address.port().saturating_add(offset));
    }
    TcpListener::bind(address).await.map_err(|source| SimError::Listen {
        server: index,
        address,
        source,
    })
}

impl Running {
    /// Where each server is, in order.
    pub fn servers(&self) -> &[ServerInfo] {
        &self.infos
    }

    /// Where server `index` is.
    pub fn server(&self, index: usize) -> Result<&ServerInfo, SimError> {
        self.infos.get(index).ok_or(SimError::NoSuchServer(index))
    }

    /// The CA that signed the BMCs' certificate, as a PEM file.
    pub fn ca_pem(&self) -> &Path {
        &self.ca_pem
    }

    /// The fault rules; they can be added to and cleared while servers run.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Every request that the BMC of server `index` answered, oldest first.
    pub fn trace(&self, index: usize) -> Result<Vec<Exchange>, SimError> {
        Ok(self.find(index)?.trace.snapshot())
    }

    /// What was read of each image inserted into the slot of `device`, oldest insert first.
    pub fn media_reads(&self, index: usize, device: Device) -> Result<Vec<MediaReads>, SimError> {
        let server = self.find(index)?;
        let records: Vec<_> = server.state().reads.iter().cloned().collect();
        let mut reads: Vec<_> = records.iter().map(|record| record.snapshot()).collect();
        reads.retain(|reads| reads.device == device);
        Ok(reads)
    }

    /// The URL in the slot of `device`, if one is really inserted.
    pub fn inserted(&self, index: usize, device: Device) -> Result<Option<String>, SimError> {
        let server = self.find(index)?;
        let state = server.state();
        let mut inserted = state.slots.iter().filter_map(|slot| slot.inserted.as_ref());
        Ok(inserted
            .find(|inserted| inserted.device == device)
            .map(|inserted| inserted.image.clone()))
    }

    /// Whether server `index` has power.
    pub fn power(&self, index: usize) -> Result<PowerState, SimError> {
        Ok(self.find(index)?.state().power)
    }

    /// How many sessions are open at the BMC of server `index`.
    pub fn sessions(&self, index: usize) -> Result<usize, SimError> {
        Ok(self.find(index)?.state().sessions.len())
    }

    /// What the latest boot of server `index` led to; none before the first has got that far.
    pub fn last_boot(&self, index: usize) -> Result<Option<LastBoot>, SimError> {
        Ok(self.find(index)?.state().last_boot.clone())
    }

    /// Bytes of the image that the agent of this boot has written to the disk of server `index`.
    pub fn written(&self, index: usize) -> Result<u64, SimError> {
        Ok(self.find(index)?.state().agent_written)
    }

    /// Call-back address of the agent of this boot. With QEMU it is known before the agent runs.
    pub fn agent_url(&self, index: usize) -> Result<Option<String>, SimError> {
        Ok(self.find(index)?.state().agent_url.clone())
    }

    /// Keeps the agent of server `index` from calling, or lets it call again. A protocol agent that is held sends
    /// neither lookup nor heartbeat; a QEMU machine is held before its firmware at its next boot.
    pub fn hold_agent(&self, index: usize, hold: bool) -> Result<(), SimError> {
        self.find(index)?.agent_held.send_replace(hold);
        Ok(())
    }

    /// Whether server `index` is a real machine.
    pub fn is_qemu(&self, index: usize) -> Result<bool, SimError> {
        Ok(matches!(self.find(index)?.boot, BootKind::Qemu(_)))
    }

    /// Ends all servers and their QEMU processes, and waits for it.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_DEADLINE, self.tasks.wait()).await.is_err() {
            tracing::warn!("some simulated servers did not end in time");
        }
    }

    fn find(&self, index: usize) -> Result<&Arc<Server>, SimError> {
        self.servers.get(index).ok_or(SimError::NoSuchServer(index))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
