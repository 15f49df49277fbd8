//! Plays back a recorded dialogue: what `farrier bmc record` wrote of a real BMC answers as that BMC did.
//!
//! A recording has an order. What changes something (all but GET, HEAD and RIBCL's GET commands) is answered by the next exchange of
//! that kind behind the last one played, and takes the place in the dialogue there. What only reads is answered by the next read of that
//! kind up to the next change; a further read says the same once more, so that a client may look more often than the recorded one
//! did, or less. A login behind the last recorded one starts the dialogue again. What the recording does not hold is answered
//! 501 and an explanation, and stands in the trace.
//!
//! An exchange is found by form, method and path; RIBCL by its commands with their attributes, but for URLs, accounts and
//! passwords, which a recording does not hold. Accounts are not checked. An exchange without an answer ends the connection.

mod dialogue;
mod recording;
mod serve;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::recording::Recording;
use crate::error::SimError;
use crate::profile::TlsOffer;
use crate::replay::dialogue::Dialogue;
use crate::running::STOP_DEADLINE;
use crate::tls::Service;
use crate::trace::{Exchange, Trace, TraceFile};

/// What [`replay`] needs.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// What is played back.
    pub recording: Recording,
    /// How many servers play it, each by itself; 1 to 10 000.
    pub servers: usize,
    /// Server `i` listens on port + `i`; with port 0 each takes a free port.
    pub listen: SocketAddr,
    /// Where to append one JSON line per request.
    pub trace: Option<PathBuf>,
    /// Folder for the CA certificate.
    pub data: PathBuf,
}

/// Servers that play a recording. Dropping it ends them.
pub struct Replaying {
    players: Vec<Arc<Player>>,
    addresses: Vec<SocketAddr>,
    ca_pem: PathBuf,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// One server of a replay.
pub(crate) struct Player {
    index: usize,
    dialogue: Mutex<Dialogue>,
    speaks_raw: bool,
    trace: Trace,
    trace_file: Arc<TraceFile>,
    stop: CancellationToken,
}

/// Starts the servers; returns when each listens.
pub async fn replay(config: ReplayConfig) -> Result<Replaying, SimError> {
    if config.servers == 0 || config.servers > 10_000 {
        return Err(SimError::Config(format!(
            "{} servers asked for; between 1 and 10000 are possible",
            config.servers
        )));
    }
    let file_error = |path: &Path| {
        let path = path.to_owned();
        move |source| SimError::File { path, source }
    };
    std::fs::create_dir_all(&config.data).map_err(file_error(&config.data))?;
    // What was recorded does not tell which TLS it came by; one that any client of ours takes is offered.
    let tls = Service::generate(TlsOffer::Modern, Some(config.listen.ip()))?;
    let ca_pem = config.data.join("ca.pem");
    std::fs::write(&ca_pem, &tls.ca_pem).map_err(file_error(&ca_pem))?;
    let trace_file = Arc::new(TraceFile::open(config.trace.as_deref())?);
    let mut replaying = Replaying {
        players: Vec::new(),
        addresses: Vec::new(),
        ca_pem,
        stop: CancellationToken::new(),
        tasks: TaskTracker::new(),
    };
    for index in 0..config.servers {
        let mut address = config.listen;
        if address.port() != 0 {
            let port = u16::try_from(index)
                .ok()
                .and_then(|index| address.port().checked_add(index));
            address.set_port(port.ok_or_else(|| {
                SimError::Config(format!(
                    "{} servers from port {} on run past port 65535",
                    config.servers,
                    config.listen.port()
                ))
            })?);
        }
        let wrong = |source| SimError::Listen {
            server: index,
            address,
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(wrong)?;
        replaying.addresses.push(listener.local_addr().map_err(wrong)?);
        let player = Arc::new(Player {
            index,
            dialogue: Mutex::new(Dialogue::new(&config.recording)),
            speaks_raw: config.recording.speaks_raw(),
            trace: Trace::new(),
            trace_file: Arc::clone(&trace_file),
            stop: replaying.stop.child_token(),
        });
        replaying.players.push(Arc::clone(&player));
        replaying
            .tasks
            .spawn(serve::run(player, listener, tls.clone(), replaying.tasks.clone()));
    }
    Ok(replaying)
}

impl Replaying {
    /// `https://ADDRESS:PORT` of each server, in order.
    pub fn urls(&self) -> Vec<String> {
        self.addresses
            .iter()
            .map(|address| format!("https://{address}"))
            .collect()
    }

    /// The CA that signed their certificate, as a PEM file.
    pub fn ca_pem(&self) -> &Path {
        &self.ca_pem
    }

    /// Every request that server `index` answered, oldest first.
    pub fn trace(&self, index: usize) -> Result<Vec<Exchange>, SimError> {
        let player = self.players.get(index).ok_or(SimError::NoSuchServer(index))?;
        Ok(player.trace.snapshot())
    }

    /// Ends all servers, and waits for it.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(STOP_DEADLINE, self.tasks.wait()).await.is_err() {
            tracing::warn!("some replayed servers did not end in time");
        }
    }
}

impl Drop for Replaying {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
