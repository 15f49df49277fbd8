//! How many cases a second: each is a fresh store, a call through the whole broker, and a world of its own.
//!
//! `cargo bench -p rehearsal`. Prints cases a second by kind; the budget is 5000 for cases that make one host call. With
//! `FARRIER_BENCH_STRICT` it fails below that.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench reports, and stops where a test would"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use rehearsal::Suite;
use runtime::Engine;

/// Cases of one suite.
const CASES: usize = 2000;
/// Suites of each kind, the fastest of which counts: the machine does other things too.
const ROUNDS: usize = 5;
const BUDGET: f64 = 5000.0;

const SCRIPTED: &str = "
    call: vmedia.detach
    args: {device: cdrom}
    host: [{on: bmc.eject, with: {device: cdrom}}]
    expect: {outcome: ok, calls: {bmc.eject: 1}}
";
const WORLD: &str = "
    call: vmedia.detach
    args: {device: cdrom}
    world: {cdrom: {url: \"http://images.example/x.iso\"}}
    expect: {outcome: ok, world: {cdrom: empty}}
";
const RAMDISK: &str = "
    call: vmedia.prepare-ramdisk
    node: {provision-state: deploying}
    world: {}
    expect: {outcome: ok, world: {cdrom: {artefact: boot-iso}, floppy: {artefact: floppy}}}
";
const SELECT: &str = "
    call: backend-selection.select
    args: {request: {kind: floppy, size: 1474560}, candidates: [{id: local}, {id: other}]}
    expect: {outcome: ok, result: {backend: local}}
";
const SWEPT: &str = "
suite: swept
plugin: {built-in: vmedia}
cases:
  - name: swept
    call: vmedia.prepare-ramdisk
    node: {provision-state: deploying}
    world: {}
    sweep: {faults: true, storms: 500}
    expect: {outcome: ok}
";

fn main() {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let engine = Engine::new(8).unwrap();
    let mut slowest = f64::INFINITY;
    for (kind, role, case, counts) in [
        ("a policy's choice, no host call", "backend-selection", SELECT, true),
        ("one host call from a list", "vmedia", SCRIPTED, true),
        ("one host call in a world", "vmedia", WORLD, true),
        (
            "a whole ramdisk: 11 host calls, 2 nested choices",
            "vmedia",
            RAMDISK,
            false,
        ),
    ] {
        let suite = Suite::parse(&suite(role, case), Path::new("bench.yaml")).unwrap();
        let mut best: f64 = 0.0;
        for _ in 0..ROUNDS {
            let began = Instant::now();
            let report = tokio.block_on(rehearsal::run(&engine, &suite)).unwrap();
            let rate = per_second(report.cases.len(), began);
            assert_eq!((report.cases.len(), report.failed()), (CASES, 0));
            best = best.max(rate);
        }
        println!("{kind:<50} {best:>9.0} cases/s");
        if counts {
            slowest = slowest.min(best);
        }
    }
    let suite = Suite::parse(SWEPT, Path::new("bench.yaml")).unwrap();
    let began = Instant::now();
    let report = tokio.block_on(rehearsal::run(&engine, &suite)).unwrap();
    assert_eq!(report.failed(), 0, "{:?}", report.cases[0].failures);
    // Each is followed by a clean run.
    let calls = report.sweep_runs() * 2;
    println!(
        "{:<50} {:>9.0} calls/s",
        "a sweep of it, on one core",
        per_second(calls, began)
    );
    let verdict = if slowest < BUDGET { "OVER" } else { "ok" };
    println!("slowest of one host call or none {slowest:.0}/s, budget {BUDGET:.0}/s: {verdict}");
    assert!(
        slowest >= BUDGET || std::env::var_os("FARRIER_BENCH_STRICT").is_none(),
        "fewer cases a second than the budget"
    );
}

fn suite(role: &str, case: &str) -> String {
    let mut text = format!("suite: bench\nplugin: {{built-in: {role}}}\ncases:\n");
    for number in 0..CASES {
        // Writing into a text cannot fail.
        let _ = write!(text, "  - name: c{number}{case}");
    }
    text
}

fn per_second(count: usize, began: Instant) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / began.elapsed().as_secs_f64()
}
