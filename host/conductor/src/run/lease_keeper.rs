//! Keeps the lease alive, in a task of its own so that no work can delay it.

use std::sync::Arc;

use nodes::StoreError;
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::lease::BootInstant;

/// Prolongs the lease until `end` is cancelled; cancels it itself once the lease is lost or cannot be prolonged any more.
pub(super) async fn run(shared: Arc<Shared>, end: CancellationToken) {
    let config = &shared.config;
    let mut pause = config.lease / 3;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = end.cancelled() => return,
        }
        let Some(window) = shared.lease.window() else {
            break;
        };
        let sent = BootInstant::now();
        // An answer after the lease's end would be of no use.
        match tokio::time::timeout(window, shared.hands.store.keep_alive(&config.name)).await {
            Ok(Ok(left)) => {
                // The store counts from its own beginning of the call; ours was earlier.
                shared.lease.confirm(sent, left);
                pause = config.lease / 3;
            }
            Ok(Err(StoreError::LeaseLost { .. })) | Err(_) => break,
            Ok(Err(error)) => {
                tracing::warn!(conductor = %config.name, %error, "the lease could not be prolonged; trying again");
                pause = config.lease / 20;
            }
        }
    }
    shared.lease.revoke();
    end.cancel();
}
