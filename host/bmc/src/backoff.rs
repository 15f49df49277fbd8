//! How long to wait before asking again: longer each time, and spread by chance, so that a rack of BMCs that failed
//! together is not asked again together.

use std::time::Duration;

/// Doublings at most.
const DOUBLINGS: u32 = 2;

/// The wait before try `tries + 1`, of which `pause` is the middle of the first: between half of it and one and a half,
/// doubled with each try up to four times.
pub(crate) fn before_retry(pause: Duration, tries: u32) -> Duration {
    pause
        .saturating_mul(1 << tries.saturating_sub(1).min(DOUBLINGS))
        .mul_f64(rand::random_range(0.5..1.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_differ() {
        let pause = Duration::from_secs(2);
        for (tries, least, most) in [(0, 1, 3), (1, 1, 3), (2, 2, 6), (3, 4, 12), (50, 4, 12)] {
            let waits: Vec<Duration> = (0..50).map(|_| before_retry(pause, tries)).collect();
            assert!(
                waits
                    .iter()
                    .all(|wait| (Duration::from_secs(least)..=Duration::from_secs(most)).contains(wait)),
                "{tries}: {waits:?}"
            );
            assert!(waits.iter().any(|wait| *wait != waits[0]), "no jitter: {waits:?}");
        }
    }
}
