//! Why a simulator could not start or could not do what its owner asked.

use std::io;
use std::path::PathBuf;

/// A failure of the simulator itself. What a simulated BMC refuses is a Redfish reply, not one of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The configuration cannot work as given.
    #[error("simulator configuration: {0}")]
    Config(String),
    /// A BMC profile that cannot be read or understood.
    #[error("BMC profile: {0}")]
    Profile(String),
    /// A fault file that cannot be read or understood.
    #[error("fault file: {0}")]
    Faults(String),
    /// A recorded dialogue that cannot be read or understood.
    #[error("{}: {reason}", place(.file, *.line))]
    Recording {
        /// Which file.
        file: String,
        /// Which line, from 1; 0: none in particular.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A socket that a server should listen on is not available.
    #[error("server {server} cannot listen on {address}; choose another --listen or port 0")]
    Listen {
        /// Index of the server.
        server: usize,
        /// Where it should listen.
        address: std::net::SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file of the data folder, or the trace, could not be written.
    #[error("cannot write {path}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Certificates could not be made.
    #[error("cannot make the certificates of the simulated BMCs: {0}")]
    Certificates(String),
    /// A server index that was never started.
    #[error("there is no simulated server {0}")]
    NoSuchServer(usize),
    /// A real machine could not be started or steered.
    #[error("QEMU of server {server}: {reason}")]
    Qemu {
        /// Index of the server.
        server: usize,
        /// What went wrong.
        reason: String,
    },
}

fn place(file: &str, line: usize) -> String {
    match line {
        0 => format!("recording {file}"),
        line => format!("recording {file}, line {line}"),
    }
}
