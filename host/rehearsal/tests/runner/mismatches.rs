//! What differs between scenario and plugin is reported, in words that say what to look at.

use expect_test::{Expect, expect};

use super::{one_case, run_case};

/// The failures of a case.
async fn check(case: &str, expected: &Expect) {
    let report = run_case(&one_case(case)).await;
    assert_eq!(report.passed, report.failures.is_empty());
    expected.assert_eq(&report.failures.join("\n"));
}

#[tokio::test]
async fn a_case_that_does_what_it_says_has_no_failures() {
    let detach = "
call: vmedia.detach
args: {device: cdrom}
host: [{on: bmc.eject, with: {device: cdrom}}]
expect: {outcome: ok, calls: {bmc.eject: 1, bmc.*: 1, bmc.insert: 0}, never: [power.*]}";
    check(detach, &expect![""]).await;
    let report = run_case(&one_case(detach)).await;
    assert_eq!(report.outcome, "ok");
    assert_eq!(report.calls, ["bmc.eject {device: cdrom} -> ok"]);
}

#[tokio::test]
async fn a_call_with_other_arguments_shows_what_was_expected_and_the_difference() {
    check(
        "
call: vmedia.detach
args: {device: cdrom}
host: [{on: bmc.eject, with: {device: floppy}}]
expect: {outcome: ok}",
        &expect![[r#"
            the plugin called   bmc.eject {device: cdrom}
              expected next       bmc.eject {device: floppy} (line 7)
              difference          device: wanted floppy, is cdrom
            expected outcome    ok
              it was              error not-in-scenario: the scenario has no answer to bmc.eject
            the plugin did not call  bmc.eject {device: floppy} (line 7) was never called"#]],
    )
    .await;
}

#[tokio::test]
async fn an_unlisted_call_fails_the_case_even_if_the_plugin_carries_on() {
    // Cleaning up tries each of its four calls, whatever became of the others.
    check(
        "
call: vmedia.clean-up-ramdisk
order: any-order
host:
  - {on: bmc.eject, times: 2}
  - {on: storage.withdraw, with: {kind: boot-iso}}
expect: {outcome: error}",
        &expect![[r#"
            the plugin called   storage.withdraw {kind: floppy}
              nearest entry       storage.withdraw {kind: boot-iso} (line 9)
              difference          kind: wanted boot-iso, is floppy"#]],
    )
    .await;
    let report = run_case(&one_case(
        "
call: vmedia.clean-up-ramdisk
expect: {outcome: error}",
    ))
    .await;
    assert!(
        report.failures[0].ends_with("and 3 more after it that no entry answers"),
        "{report:?}"
    );
}

#[tokio::test]
async fn an_entry_that_nobody_used_fails_the_case() {
    check(
        "
call: vmedia.detach
args: {device: cdrom}
host:
  - {on: bmc.eject, times: 3}
  - {on: storage.withdraw, with: {kind: floppy}}
expect: {outcome: ok}",
        &expect![[r#"
            the plugin did not call  bmc.eject (line 8) was called 1 of 3 times
                                     storage.withdraw {kind: floppy} (line 9) was never called"#]],
    )
    .await;
}

#[tokio::test]
async fn another_outcome_error_message_or_result_is_reported() {
    let failing = |expect: &str| {
        format!(
            "
call: vmedia.detach
args: {{device: cdrom}}
host: [{{on: bmc.eject, error: {{conflict: in POST}}}}]
expect: {expect}"
        )
    };
    check(
        &failing("{outcome: ok}"),
        &expect![[r#"
        expected outcome    ok
          it was              error conflict: in POST"#]],
    )
    .await;
    check(
        &failing("{error: timeout}"),
        &expect![[r#"
        expected error      timeout
          it was              error conflict: in POST"#]],
    )
    .await;
    check(
        &failing("{error: conflict, message: in repair}"),
        &expect![[r#"
        expected in message in repair
          it was              error conflict: in POST"#]],
    )
    .await;
    check(&failing("{error: conflict, message: POST}"), &expect![""]).await;
    let plan = "suite: s\nplugin: {built-in: take-over}\ncases:\n  - name: c\n    call: take-over.plan\n    \
        node: {provision-state: active}\n    args: {observation: {artefacts: [{kind: boot-iso, url: dead, in-slot: true}]}}\n    \
        expect: {result: [{regenerate: boot-iso}, {reinsert: boot-iso}]}\n";
    let report = run_case(plan).await;
    expect![[r#"
        the result was      [{regenerate: boot-iso}, {defer-reinsert: boot-iso}]
          difference          [1].reinsert: wanted boot-iso, is not there"#]]
    .assert_eq(&report.failures.join("\n"));
}

#[tokio::test]
async fn counts_that_differ_are_reported() {
    check(
        "
call: vmedia.detach
args: {device: cdrom}
host: [{on: bmc.eject}]
expect: {outcome: ok, calls: {bmc.eject: 2, bmc.insert: 1}, never: [bmc.*]}",
        &expect![[r#"
            `bmc.eject` must be called 2 times, and was called once
            `bmc.insert` must be called once, and was called never
            `bmc.*` must never be called, and was called once"#]],
    )
    .await;
}

#[tokio::test]
async fn handles_have_the_names_of_their_order_or_those_that_the_scenario_gives() {
    let report = run_case(&one_case(
        "
call: vmedia.prepare-instance
node: {driver: iscsi_ilo}
host:
  - {on: bmc.eject, times: 2}
  - {on: storage.withdraw, times: 2}
  - {on: image.build-boot-iso, reply: {name: image#7, size: 4096}}
  - {on: storage.publish, with: {image: image#7}}
  - {on: bmc.insert, with: {location: location#1}}
  - {on: bmc.media-state, reply: {inserted: true, artefact: boot-iso}}
  - {on: bmc.set-boot-device}
expect: {outcome: ok}",
    ))
    .await;
    assert!(report.passed, "{report:?}");
    let published = report
        .calls
        .iter()
        .find(|call| call.starts_with("storage.publish"))
        .unwrap();
    assert!(
        published.contains("image: image#7") && published.ends_with("-> location#1"),
        "{published}"
    );
}

#[tokio::test]
async fn the_same_suite_gives_the_same_trace_each_time() {
    let text = one_case(
        "
call: vmedia.clean-up-instance
host:
  - {on: bmc.eject, times: 2}
  - {on: storage.withdraw, times: 2}
expect: {outcome: ok}",
    );
    let (first, second) = (run_case(&text).await, run_case(&text).await);
    assert!(first.passed && !first.calls.is_empty());
    assert_eq!(first.calls, second.calls);
}
