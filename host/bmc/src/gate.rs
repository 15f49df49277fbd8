//! One conversation at a time with each BMC, each within its deadline; and none at all for a while with one that does not
//! answer. Every transport to the same BMC goes through the same gate.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use model::BmcAddress;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::{BmcError, Deadlines};

/// Verbs in a row that failed to get through before the BMC is left alone.
const FAILURES: u32 = 3;
/// Doublings of the rest at most.
const DOUBLINGS: u32 = 4;

/// The gate to one BMC.
#[derive(Debug)]
pub(crate) struct Gate {
    address: BmcAddress,
    turn: Semaphore,
    breaker: Mutex<Breaker>,
}

/// What became of the verbs before this one.
#[derive(Default, Debug)]
struct Breaker {
    failures: u32,
    /// Of the last failure, for whoever is turned away.
    reason: String,
    /// Nobody is let through before; then one at a time is, since verbs take turns anyway.
    rest_until: Option<Instant>,
}

impl Gate {
    pub(crate) fn new(address: BmcAddress) -> Self {
        Self {
            address,
            turn: Semaphore::new(1),
            breaker: Mutex::default(),
        }
    }

    /// Runs one verb in its turn and ends it at its deadline. `work` is told when that is. A caller that goes away takes the
    /// verb with it and the turn passes on.
    pub(crate) async fn run<T, W>(
        &self,
        action: &'static str,
        deadlines: &Deadlines,
        work: impl FnOnce(Instant) -> W,
    ) -> Result<T, BmcError>
    where
        W: Future<Output = Result<T, BmcError>>,
    {
        let until = Instant::now() + deadlines.verb;
        let Ok(Ok(_turn)) = timeout_at(until, self.turn.acquire()).await else {
            return Err(BmcError::Busy {
                address: self.address.clone(),
                action,
                reason: format!(
                    "an earlier request of this conductor still runs after {:.0?}",
                    deadlines.verb
                ),
                retry_after: None,
            });
        };
        self.rested(action)?;
        // On the heap: verbs are deep, and their callers nest them deeper.
        let result = timeout_at(until, Box::pin(work(until))).await.unwrap_or_else(|_| {
            Err(BmcError::Timeout {
                address: self.address.clone(),
                action,
                after: deadlines.verb,
            })
        });
        self.learn(&result, deadlines.rest);
        result
    }

    fn rested(&self, action: &'static str) -> Result<(), BmcError> {
        let breaker = self.breaker();
        let left = breaker
            .rest_until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(());
        }
        Err(BmcError::Unreachable {
            address: self.address.clone(),
            action,
            reason: format!(
                "left alone for {:.0?} more, since it failed {} times in a row, the last time so: {}",
                left.max(Duration::from_secs(1)),
                breaker.failures,
                breaker.reason
            ),
        })
    }

    fn learn<T>(&self, result: &Result<T, BmcError>, rest: Duration) {
        let mut breaker = self.breaker();
        // Wrong credentials count too: BMCs lock accounts and delay logins after a few.
        let failure = match result {
            Err(error @ (BmcError::Unreachable { .. } | BmcError::Timeout { .. } | BmcError::Login { .. })) => error,
            // Nothing was sent, so nothing is known.
            Err(BmcError::LeaseEnding { .. } | BmcError::Settings { .. }) => return,
            // Whatever else it says, it answers.
            Ok(_) | Err(_) => {
                *breaker = Breaker::default();
                return;
            }
        };
        breaker.failures = breaker.failures.saturating_add(1);
        breaker.reason = failure.to_string();
        if let Some(over) = breaker.failures.checked_sub(FAILURES) {
            let rest = rest.saturating_mul(1 << over.min(DOUBLINGS));
            breaker.rest_until = Some(Instant::now() + rest.mul_f64(rand::random_range(0.75..1.25)));
        }
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        // Each critical section leaves a whole value, whatever panics later.
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(8);

    fn gate() -> (Gate, Deadlines) {
        let deadlines = Deadlines {
            rest: REST,
            ..Deadlines::default()
        };
        (Gate::new(BmcAddress("https://192.0.2.1".into())), deadlines)
    }

    fn silence() -> BmcError {
        BmcError::Unreachable {
            address: BmcAddress("https://192.0.2.1".into()),
            action: "answer",
            reason: "nobody home".into(),
        }
    }

    /// Whether a verb gets through to the BMC.
    async fn asked(gate: &Gate, deadlines: &Deadlines, answer: Result<(), BmcError>) -> bool {
        let mut asked = false;
        let _ = gate
            .run("answer", deadlines, |_| {
                asked = true;
                async { answer }
            })
            .await;
        asked
    }

    #[tokio::test(start_paused = true)]
    async fn a_bmc_that_fails_three_times_is_left_alone_for_a_while_that_grows() {
        let (gate, deadlines) = gate();
        for _ in 0..3 {
            assert!(asked(&gate, &deadlines, Err(silence())).await);
        }
        assert!(!asked(&gate, &deadlines, Ok(())).await);
        let error = gate.run("answer", &deadlines, |_| async { Ok(()) }).await.unwrap_err();
        assert!(error.to_string().contains("nobody home"), "{error}");
        tokio::time::advance(REST.mul_f64(1.25)).await;
        assert!(asked(&gate, &deadlines, Err(silence())).await, "one is let through");
        tokio::time::advance(REST.mul_f64(1.25)).await;
        assert!(!asked(&gate, &deadlines, Ok(())).await, "the second rest is longer");
        tokio::time::advance(REST.mul_f64(1.5)).await;
        assert!(asked(&gate, &deadlines, Ok(())).await);
        for _ in 0..3 {
            assert!(
                asked(&gate, &deadlines, Err(silence())).await,
                "an answer wipes the slate"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bmc_that_answers_no_is_not_left_alone() {
        let (gate, deadlines) = gate();
        for _ in 0..10 {
            let no = BmcError::Refused {
                address: BmcAddress("https://192.0.2.1".into()),
                action: "answer",
                reason: "no".into(),
            };
            assert!(asked(&gate, &deadlines, Err(no)).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_goes_away_passes_the_turn_on() {
        let (gate, deadlines) = gate();
        let stuck = gate.run("hang", &deadlines, |_| std::future::pending::<Result<(), BmcError>>());
        assert!(tokio::time::timeout(Duration::from_secs(1), stuck).await.is_err());
        assert!(asked(&gate, &deadlines, Ok(())).await);
    }
}
