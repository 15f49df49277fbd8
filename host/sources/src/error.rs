//! Why a source could not be had.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::ChecksumError;
use crate::disk::ImageError;
use crate::openstack::OpenStackError;

/// One variant per thing that a caller does differently. `source` fields name the reference without credentials and query.
/// Clones are for all who wait for one fetch.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SourceError {
    /// The text is no reference.
    #[error(
        "`{reference}` is no source: {reason}; give an absolute path, file:///PATH, http(s)://…, an image's UUID (glance://UUID) or swift://CONTAINER/OBJECT"
    )]
    Reference {
        /// As given, without credentials.
        reference: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A path that this site does not let files be taken from.
    #[error(
        "{} may not be read: put the file under one of `file-url-allowed-paths` ({allowed}) or add its folder there; links are resolved first",
        path.display()
    )]
    NotAllowed {
        /// The path with its links resolved, as far as it exists.
        path: PathBuf,
        /// The folders that are allowed, or "none".
        allowed: String,
    },
    /// A host that resolves to this machine or its link.
    #[error(
        "{reference} was not fetched: {host} is {address}, which is this machine, its link or no host at all; set [security] allow-local-addresses = true if that is meant"
    )]
    LocalAddress {
        /// What was to be fetched.
        reference: String,
        /// Host in it, or in a redirect.
        host: String,
        /// What it resolves to.
        address: IpAddr,
    },
    /// There is no such file or resource.
    #[error("{reference} does not exist: {reason}")]
    NotFound {
        /// What was to be fetched.
        reference: String,
        /// Who says so.
        reason: String,
    },
    /// The server cannot be reached or broke the connection.
    #[error("{reference} could not be fetched: {reason}")]
    Unreachable {
        /// What was to be fetched.
        reference: String,
        /// Down to the failing layer.
        reason: String,
    },
    /// The server will not give it.
    #[error("{reference} was refused: {reason}")]
    Refused {
        /// What was to be fetched.
        reference: String,
        /// What it answered and what that asks for.
        reason: String,
    },
    /// It took too long.
    #[error("{reference} was not fetched within {after:.0?}: {what}")]
    Timeout {
        /// What was to be fetched.
        reference: String,
        /// The deadline.
        after: Duration,
        /// What was waited for.
        what: &'static str,
    },
    /// Bigger than allowed.
    #[error("{reference} is bigger than {max} bytes, the most that a source may have")]
    TooBig {
        /// What was to be fetched.
        reference: String,
        /// The limit.
        max: u64,
    },
    /// The connection ended before the content did.
    #[error("{reference} came incomplete: {got} of {expected} bytes; nothing of it was kept, fetch it again")]
    Truncated {
        /// What was to be fetched.
        reference: String,
        /// Bytes that came.
        got: u64,
        /// Bytes that were announced.
        expected: u64,
    },
    /// It is something else than was asked for.
    #[error("{reference} has {algorithm} {actual} and {expected} is asked for: correct the checksum or the file")]
    Checksum {
        /// What was fetched.
        reference: String,
        /// `sha256` or `sha512`.
        algorithm: &'static str,
        /// Asked for.
        expected: String,
        /// Found.
        actual: String,
    },
    /// A checksum that cannot be relied on, or is none.
    #[error("the checksum of {reference} {source}")]
    BadChecksum {
        /// What it is to vouch for.
        reference: String,
        /// What is wrong with it. Part of the message, so that it stands in the sentence.
        source: ChecksumError,
    },
    /// A checksum file that does not have it.
    #[error("the checksum file {file} is of no use for {reference}: {reason}")]
    ChecksumFile {
        /// The file.
        file: String,
        /// What it is to vouch for.
        reference: String,
        /// What it lacks.
        reason: &'static str,
    },
    /// A disk image that is not what it is said to be, or is none.
    #[error("{reference} is not written to a disk: {reason}")]
    Image {
        /// The image.
        reference: String,
        /// What its bytes say.
        reason: ImageError,
    },
    /// A compressed image that cannot be unpacked.
    #[error(
        "{reference} cannot be unpacked: it is a damaged {how} file, or one that asks for more than 128 MiB of memory ({reason})"
    )]
    Packed {
        /// The image.
        reference: String,
        /// `gzip`, `xz` or `zstd`.
        how: &'static str,
        /// What the decoder says.
        reason: String,
    },
    /// A reference to Glance or Swift on a site without OpenStack.
    #[error(
        "{reference} was not fetched: this site has no access to that service of OpenStack; set it up ([glance], or a swift backend), or give a URL or a path"
    )]
    NoOpenStack {
        /// What was to be fetched.
        reference: String,
    },
    /// OpenStack was of no help.
    #[error("{reference} was not fetched from OpenStack")]
    OpenStack {
        /// What was to be fetched.
        reference: String,
        /// Why.
        #[source]
        source: Arc<OpenStackError>,
    },
    /// The file was written to while it was read.
    #[error("{reference} changed while it was read: use it once it is whole (write elsewhere, then rename)")]
    Changed {
        /// What was to be read.
        reference: String,
    },
    /// No room in the cache's file system.
    #[error(
        "no room for {reference} in {}: it needs {} and there are {free} bytes free; free some space, or lower the cache's max-bytes",
        dir.display(),
        needs(.needed)
    )]
    DiskFull {
        /// What was to be kept.
        reference: String,
        /// The cache.
        dir: PathBuf,
        /// Bytes that it needs, where that is known.
        needed: Option<u64>,
        /// Bytes that are free.
        free: u64,
    },
    /// A source file cannot be read.
    #[error("{reference} cannot be read")]
    Read {
        /// What was to be read.
        reference: String,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// The cache itself fails.
    #[error("the source cache cannot {action} {}", path.display())]
    Cache {
        /// What was tried.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// A setting is wrong.
    #[error("the source cache cannot be used: {reason}")]
    Settings {
        /// Which, and what a right one looks like.
        reason: String,
    },
}

impl SourceError {
    /// Whether the same might work later without anybody's doing.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Truncated { .. } | Self::Changed { .. } => true,
            Self::OpenStack { source, .. } => source.is_transient(),
            _ => false,
        }
    }
}

fn needs(needed: &Option<u64>) -> String {
    match needed {
        Some(bytes) => format!("{bytes} bytes"),
        None => "more".to_owned(),
    }
}
