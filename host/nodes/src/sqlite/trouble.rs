//! What SQLite says, turned into what an operator can act on.

use rusqlite::ErrorCode;

use crate::StoreError;

/// How a piece of work on the database ended badly.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// We refused it; the transaction it ran in is sound.
    Refused(StoreError),
    /// SQLite failed.
    Failed(rusqlite::Error),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error)
    }
}

impl Trouble {
    /// The error for the caller, who wanted to `action` the store at `place`.
    pub(crate) fn at(self, place: &str, action: &'static str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Failed(error) => explain(&error, place, action),
        }
    }
}

fn explain(error: &rusqlite::Error, place: &str, action: &'static str) -> StoreError {
    let database = |reason: String| StoreError::Database {
        place: place.to_owned(),
        action,
        reason,
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt {
            place: place.to_owned(),
            reason: format!(
                "the file is damaged ({error}); stop every conductor, keep the file aside, and restore a backup"
            ),
        },
        Some(ErrorCode::DiskFull) => {
            database("its disk is full, and nothing of this was written; free space there and try again".into())
        }
        Some(ErrorCode::SystemIoFailure) => database(format!(
            "the file system failed ({error}), and nothing of this was written; look for a full quota, a file size limit or a dying disk"
        )),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => database(
            "another process held it too long; look for a stopped or hanging `farrier` or `sqlite3` that has it open"
                .into(),
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => database(format!(
            "{error}; the file and its folder must be writable for the user that Farrier runs as, and the file system must not be read-only"
        )),
        _ => database(error.to_string()),
    }
}
