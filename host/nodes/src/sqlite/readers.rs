//! A few connections that read, each on a blocking thread while it works. In WAL mode readers never wait for a writer.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::trouble::Trouble;
use super::{Session, Shared, place};
use crate::StoreError;

/// More would only compete for the same two or four cores.
const CONNECTIONS: usize = 4;

pub(super) struct Readers {
    path: PathBuf,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    /// Connections are opened when they are first needed.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            permits: Arc::new(Semaphore::new(CONNECTIONS)),
            idle: Arc::default(),
        }
    }

    /// Waits for those that read, and closes their connections.
    pub(super) async fn close(&self) {
        let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX);
        // Fails only if it was closed before.
        let permits = self.permits.acquire_many(all).await;
        self.permits.close();
        drop(permits);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        shared: Arc<Shared>,
        action: &'static str,
        work: impl FnOnce(&Session<'_>) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let stopped = |reason: String| StoreError::Database {
            place: shared.place.clone(),
            action,
            reason,
        };
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|_| stopped("the store is closed".into()))?;
        let idle = self.idle.clone();
        let path = self.path.clone();
        let context = shared.clone();
        let done = tokio::task::spawn_blocking(move || {
            // Held until the connection is back.
            let _permit = permit;
            let lock = || idle.lock().unwrap_or_else(PoisonError::into_inner);
            let ready = lock().pop();
            let result = ready.map_or_else(|| place::reader(&path), Ok).and_then(|db| {
                let result = work(&Session {
                    db: &db,
                    shared: &context,
                });
                // One that failed is not used again: it may sit on a file that was replaced.
                if !matches!(result, Err(Trouble::Failed(_))) {
                    lock().push(db);
                }
                result
            });
            result.map_err(|trouble| trouble.at(&context.place, action))
        });
        done.await.unwrap_or_else(|error| Err(stopped(error.to_string())))
    }
}
