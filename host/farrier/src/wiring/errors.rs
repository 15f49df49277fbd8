//! Errors of BMCs, backends and the store, reduced to what the conductor decides on.

use bmc::BmcError;
use conductor::{CallError, ErrorClass};
use nodes::StoreError;
use storage::StorageError;

/// What the conductor does about a BMC's error.
pub(super) fn of_bmc(error: BmcError) -> CallError {
    let class = match &error {
        BmcError::Busy { retry_after, .. } => ErrorClass::Retry(*retry_after),
        BmcError::Unreachable { .. } | BmcError::Timeout { .. } => ErrorClass::Retry(None),
        BmcError::LeaseEnding { .. } => ErrorClass::LeaseEnding,
        BmcError::Settings { .. }
        | BmcError::Login { .. }
        | BmcError::License { .. }
        | BmcError::Unsupported { .. }
        | BmcError::Refused { .. }
        | BmcError::Protocol { .. } => ErrorClass::Fail,
    };
    CallError {
        class,
        message: with_causes(&error),
    }
}

/// What the conductor does about a store's error.
pub(super) fn of_store(error: StoreError) -> CallError {
    let class = match &error {
        StoreError::StaleTerm { .. } | StoreError::LeaseLost { .. } => ErrorClass::LeaseEnding,
        StoreError::VersionConflict { .. } | StoreError::Database { .. } => ErrorClass::Retry(None),
        _ => ErrorClass::Fail,
    };
    CallError {
        class,
        message: with_causes(&error),
    }
}

/// What the conductor does about a backend's error.
pub(super) fn of_storage(error: StorageError) -> CallError {
    let class = match &error {
        StorageError::Full { .. }
        | StorageError::Unusable { .. }
        | StorageError::Timeout { .. }
        | StorageError::Io { .. } => ErrorClass::Retry(None),
        _ => ErrorClass::Fail,
    };
    CallError {
        class,
        message: with_causes(&error),
    }
}

/// A definite failure of our own.
pub(super) fn fail(message: impl Into<String>) -> CallError {
    CallError {
        class: ErrorClass::Fail,
        message: message.into(),
    }
}

/// "what: why: why", for `last_error`.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}
