//! Guests that misbehave, and what a site does not grant.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::{parse, run_case};

/// Builds the hostile guest by the command that a plugin's author uses, once.
pub(super) fn hostile() -> PathBuf {
    static GUEST: OnceLock<PathBuf> = OnceLock::new();
    GUEST
        .get_or_init(|| {
            // Beside the built-in guests, so that nothing waits for the lock of the outer build.
            let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../guests");
            let mut build = Command::new("cargo");
            build
                .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
                .args(["build", "--quiet", "-p", "hostile", "--profile", "guest"])
                .args(["--target", "wasm32-unknown-unknown", "--target-dir"])
                .arg(&target)
                .env("RUSTFLAGS", "-C linker=wasm-component-ld");
            for name in ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
                build.env_remove(name);
            }
            let status = build.status().expect("cargo is on the path");
            assert!(status.success(), "the guest does not compile");
            target.join("wasm32-unknown-unknown/guest/hostile.wasm")
        })
        .clone()
}

fn suite(what: &str, more: &str) -> String {
    format!(
        "suite: s\nplugin: {}\nsettings: {{do: {what}}}\ncases:\n  - name: c\n    call: vmedia.prepare-ramdisk\n{more}",
        hostile().display()
    )
}

async fn passes(what: &str, more: &str) {
    let report = run_case(&suite(what, more)).await;
    assert!(report.passed, "{what}: {report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_spins_panics_or_hoards_ends_as_trapped_with_the_reason() {
    for (what, reason) in [
        ("spin", "cpu-budget"),
        ("panic", "trapped"),
        ("recurse", "trapped"),
        ("allocate", "memory"),
        ("storm", "host-calls"),
    ] {
        passes(what, &format!("    expect: {{outcome: trapped, reason: {reason}}}\n")).await;
    }
    let other = run_case(&suite("spin", "    expect: {outcome: trapped, reason: memory}\n")).await;
    assert_eq!(other.failures.len(), 1, "{other:?}");
    assert!(other.failures[0].contains("trapped cpu-budget"), "{other:?}");
    let surprised = run_case(&suite("panic", "    expect: {outcome: ok}\n")).await;
    assert!(
        !surprised.passed && surprised.outcome == "trapped trapped",
        "{surprised:?}"
    );
}

#[tokio::test]
async fn a_sleep_takes_the_scenarios_time_and_nobody_elses() {
    let began = std::time::Instant::now();
    // The guest sleeps for a minute.
    passes("sleep", "    expect: {outcome: ok, calls: {clock.sleep-ms: 1}}\n").await;
    passes("sleep", "    limits: {wall-s: 60}\n    expect: {outcome: timeout}\n").await;
    passes("sleep", "    limits: {wall-s: 61}\n    expect: {outcome: ok}\n").await;
    assert!(began.elapsed() < std::time::Duration::from_secs(30));
}

#[tokio::test]
async fn what_is_not_granted_is_denied_before_it_reaches_the_script() {
    let denied = "    expect: {outcome: denied, never: [bmc.*]}\n";
    passes("eject", &format!("    grants: {{}}\n{denied}")).await;
    passes(
        "eject",
        "    grants: {bmc: [eject]}\n    host: [{on: bmc.eject}]\n    expect: {outcome: ok}\n",
    )
    .await;
    passes("steal-secret", "    expect: {outcome: denied}\n").await;
    // Granted all the same: no grant goes beyond the envelope.
    passes(
        "eject",
        &format!("    grants: {{bmc: [eject]}}\n    node: {{provision-state: active}}\n{denied}"),
    )
    .await;
}

#[tokio::test]
async fn a_call_down_the_chain_is_answered_by_the_same_script() {
    passes(
        "eject-service",
        "    host: [{on: bmc.eject, with: {device: cdrom}}]\n    expect: {outcome: ok}\n",
    )
    .await;
}

#[tokio::test]
async fn a_file_that_is_no_component_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.wasm"), b"no wasm").unwrap();
    let text = "suite: s\nplugin: p.wasm\ncases: [{name: c, call: vmedia.prepare-instance, expect: {}}]\n";
    let suite = rehearsal::Suite::parse(text, &folder.path().join("s.yaml")).unwrap();
    let engine = runtime::Engine::new(1).unwrap();
    let error = rehearsal::run(&engine, &suite).await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("p.wasm"), "{cause}");
    let missing = parse(&text.replace("p.wasm", "gone.wasm")).unwrap_err();
    assert!(missing.to_string().contains("gone.wasm"), "{missing}");
}
