//! Why an artefact could not be published or removed.

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
