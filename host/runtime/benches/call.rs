//! What one call of a plugin costs: fresh store, instantiation, host calls through the broker with every limit on, drop.
//!
//! `cargo bench -p runtime`. Prints percentiles and fails over the budgets: p50 ≤ 30 µs and p99 ≤ 200 µs for a call that
//! reads a setting and a fact.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench reports, and stops where a test would"
)]

#[path = "../tests/runtime/support.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod support;
#[path = "../tests/runtime/world.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod world;

use std::time::{Duration, Instant};

use model::ProvisionState;

const WARM_UP: usize = 2_000;
const CALLS: usize = 20_000;

fn main() {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let reads = tokio.block_on(measure("read"));
    let write = tokio.block_on(measure("write"));
    report("2 reads", &reads);
    report("1 read, 1 journalled write", &write);
    let budgets = [(50, Duration::from_micros(30)), (99, Duration::from_micros(200))];
    // Budgets hold for a release build on a machine that does nothing else; elsewhere the figures are for reading.
    let strict = std::env::var_os("FARRIER_BENCH_STRICT").is_some();
    for (percent, budget) in budgets {
        let measured = percentile(&reads, percent);
        let over = measured > budget;
        println!(
            "p{percent} {measured:?}, budget {budget:?}: {}",
            if over { "OVER" } else { "ok" }
        );
        assert!(!(over && strict), "p{percent} is over its budget");
    }
}

async fn measure(what: &str) -> Vec<Duration> {
    let world = support::world();
    let runtime = support::with_plugins(&world, vec![support::hostile(what)])
        .await
        .unwrap();
    let context = support::context(support::node(ProvisionState::Deploying));
    let mut times = Vec::with_capacity(CALLS);
    for call in 0..WARM_UP + CALLS {
        let began = Instant::now();
        let called = runtime.clean_up_ramdisk(&context).await;
        let took = began.elapsed();
        called.result.unwrap();
        if call >= WARM_UP {
            times.push(took);
        }
        if call % 256 == 0 {
            let mut model = world.model();
            (model.asked, model.journal, model.reports) = Default::default();
        }
    }
    times.sort_unstable();
    times
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

fn report(name: &str, sorted: &[Duration]) {
    let [p50, p90, p99] = [50, 90, 99].map(|percent| percentile(sorted, percent));
    println!("{name}: p50 {p50:?}, p90 {p90:?}, p99 {p99:?}, {} calls", sorted.len());
}
