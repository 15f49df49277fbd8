//! The one thread of a process that writes.
//!
//! What queues up while a transaction is synced to the disk goes into the next one together, each piece of work in a savepoint
//! of its own. Nobody hears of a success before the transaction is on the disk. If a piece breaks the transaction, the others
//! are done again one by one, so that nobody fails by a neighbour's fault.
//!
//! A transaction runs on this thread from its beginning to its end and waits for nothing but the disk: a process that is
//! stopped (SIGSTOP, a debugger) keeps others from writing only if that hits one of those milliseconds.

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{mpsc, oneshot};

use super::trouble::Trouble;
use super::{Session, Shared};
use crate::StoreError;

/// So many at most share a transaction: a keep-alive that comes after them does not wait long.
const TOGETHER: usize = 256;

/// Work that may wait before those who bring more have to wait.
pub(super) const QUEUE: usize = 1024;

/// A piece of work on its way through the writer.
pub(super) trait Job: Send {
    /// Does the work; `true` = keep what it wrote. May be called again if the transaction was lost.
    fn run(&mut self, session: &Session<'_>) -> bool;
    /// Tells the caller, after the transaction ended: how the work ended, or why the transaction failed.
    fn conclude(self: Box<Self>, transaction: Result<(), StoreError>);
    /// What the caller wanted, for messages.
    fn action(&self) -> &'static str;
}

/// See [`Job`].
pub(super) struct Work<T, F> {
    pub(super) action: &'static str,
    pub(super) work: F,
    pub(super) result: Option<Result<T, StoreError>>,
    pub(super) reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Work<T, F>
where
    T: Send,
    F: Fn(&Session<'_>) -> Result<T, Trouble> + Send,
{
    fn run(&mut self, session: &Session<'_>) -> bool {
        let result = (self.work)(session);
        let result = result.map_err(|trouble| trouble.at(&session.shared.place, self.action));
        self.result.insert(result).is_ok()
    }

    fn conclude(self: Box<Self>, transaction: Result<(), StoreError>) {
        let result = match (transaction, self.result) {
            // A refusal stands whatever became of the transaction.
            (_, Some(Err(refusal))) => Err(refusal),
            (Err(error), _) => Err(error),
            (Ok(()), Some(done)) => done,
            (Ok(()), None) => never_ran(self.action),
        };
        // Nobody waits any more: the write stands all the same.
        let _ = self.reply.send(result);
    }

    fn action(&self) -> &'static str {
        self.action
    }
}

fn never_ran<T>(action: &'static str) -> Result<T, StoreError> {
    Err(StoreError::Database {
        place: "the writer".into(),
        action,
        reason: "it ended before its turn; try again".into(),
    })
}

/// Writes until the store is dropped.
pub(super) fn run(db: &Connection, shared: &Shared, mut queue: mpsc::Receiver<Box<dyn Job>>) {
    while let Some(first) = queue.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < TOGETHER {
            match queue.try_recv() {
                Ok(next) => batch.push(next),
                Err(_) => break,
            }
        }
        commit(db, shared, batch);
    }
}

fn commit(db: &Connection, shared: &Shared, mut batch: Vec<Box<dyn Job>>) {
    match attempt(db, shared, &mut batch) {
        Ok(()) => batch.into_iter().for_each(|job| job.conclude(Ok(()))),
        Err(error) if batch.len() == 1 || is_busy(&error) => {
            for job in batch {
                let error = Trouble::Failed(copy(&error)).at(&shared.place, job.action());
                job.conclude(Err(error));
            }
        }
        Err(_) => {
            for job in batch {
                commit(db, shared, vec![job]);
            }
        }
    }
}

/// One transaction over all of the batch; an error = nothing of it was written.
fn attempt(db: &Connection, shared: &Shared, batch: &mut [Box<dyn Job>]) -> Result<(), rusqlite::Error> {
    let run = |sql: &str| db.prepare_cached(sql)?.execute([]).map(drop);
    run("BEGIN IMMEDIATE")?;
    let session = Session { db, shared };
    let mut all = || {
        for job in batch.iter_mut() {
            run("SAVEPOINT work")?;
            let keep = job.run(&session);
            if db.is_autocommit() {
                // SQLite gave the whole transaction up (disk full, I/O error).
                let why = "the transaction was rolled back".to_owned();
                return Err(rusqlite::Error::SqliteFailure(
                    rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT_ROLLBACK),
                    Some(why),
                ));
            }
            if !keep {
                run("ROLLBACK TO work")?;
            }
            run("RELEASE work")?;
        }
        run("COMMIT")
    };
    let result = all();
    if !db.is_autocommit() {
        // A rollback that fails leaves the next BEGIN to say so.
        let _ = run("ROLLBACK");
    }
    result
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// The same error for everybody in the batch; `rusqlite::Error` cannot be cloned.
fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => rusqlite::Error::SqliteFailure(*code, message.clone()),
        other => rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
            Some(other.to_string()),
        ),
    }
}
