//! Why an artefact could not be published or removed.

use std::io::{self, ErrorKind};

use image::WriteError;

use std::time::Duration;

fn seconds(time: &Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// One variant per thing that a caller does differently.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// No room, or a quota.
    #[error("no room left in {place}: {remedy}")]
    Full {
        /// Which directory or container.
        place: String,
        /// What to do.
        remedy: String,
    },
    /// Not allowed to write there.
    #[error("may not write to {place}: {remedy}")]
    Forbidden {
        /// Which directory or container.
        place: String,
        /// What to do.
        remedy: String,
    },
    /// The place cannot be reached or does not exist.
    #[error("{place} is not usable: {reason}")]
    Unusable {
        /// Which directory or service.
        place: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A service did not answer, or took nothing, for too long.
    #[error("{place} did not go on with {action} for {}; look at that service, then try again", seconds(.after))]
    Timeout {
        /// Which service.
        place: String,
        /// "an upload", …
        action: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// A source of the artefact cannot be read.
    #[error("could not read a source of the artefact while publishing it")]
    Source(#[source] image::ReadError),
    /// Something else went wrong with a file.
    #[error("could not {action} in {place}")]
    Io {
        /// "write", "rename", …
        action: &'static str,
        /// Which directory.
        place: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The name is taken by other bytes.
    #[error("{place} already holds other bytes under that name; publish under a fresh name")]
    Conflict {
        /// Which backend.
        place: String,
    },
}

impl StorageError {
    /// What went wrong with a file, as far as an operator can do something about it.
    pub(crate) fn of_file(place: String, action: &'static str, source: io::Error) -> Self {
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full {
                place,
                remedy: "free some space or raise the quota, then publish again".into(),
            },
            ErrorKind::FileTooLarge => Self::Full {
                place,
                remedy: "its file system or a limit refuses files that big; use another directory".into(),
            },
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::Forbidden {
                place,
                remedy: "let the user that runs farrier write there".into(),
            },
            _ => Self::Io { action, place, source },
        }
    }

    /// Why a web server's directory cannot be opened.
    pub(crate) fn of_root(place: String, error: &io::Error) -> Self {
        let reason = match error.kind() {
            ErrorKind::NotFound => "it does not exist; create it and let the web server serve it".into(),
            ErrorKind::NotADirectory => "it is not a directory".into(),
            ErrorKind::PermissionDenied => {
                return Self::Forbidden {
                    place,
                    remedy: "let the user that runs farrier read and write it".into(),
                };
            }
            _ => format!("it cannot be opened ({error})"),
        };
        Self::Unusable { place, reason }
    }

    /// Why an image could not be written into a file.
    pub(crate) fn of_write(place: String, error: WriteError) -> Self {
        match error {
            WriteError::Read(error) => Self::Source(error),
            WriteError::File(error) => Self::of_file(place, "write", error),
            other => Self::of_file(place, "write", io::Error::other(other)),
        }
    }
}
