//! Waiting for a condition, with a bound.

use std::time::{Duration, Instant};

/// Nothing in a story takes longer, even on a machine that does other things too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// Looks again and again until `look` finds something; panics, naming `what` was waited for, when [`PATIENCE`] is over.
#[track_caller]
pub(crate) fn until<T, L>(what: &str, look: L) -> impl Future<Output = T>
where
    L: AsyncFnMut() -> Option<T>,
{
    let caller = std::panic::Location::caller();
    until_within(format!("{what} (waited for at {caller})"), PATIENCE, look)
}

async fn until_within<T>(what: String, bound: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < bound, "not within {} s: {what}", bound.as_secs());
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
