//! Worlds with a memory: what calls leave behind, and what sweeps, storms and matrices find.

use expect_test::expect;

use super::guests::hostile;
use super::{one_case, run, run_case};

#[tokio::test]
async fn a_world_remembers_what_was_done_and_is_compared_by_what_is_named() {
    let ramdisk = "
call: vmedia.prepare-ramdisk
node: {provision-state: deploying}
world: {cdrom: {url: \"http://elsewhere.example/left.iso\"}, power: off}
expect:
  outcome: ok
  world: {cdrom: {artefact: boot-iso}, floppy: {artefact: floppy}, power: off, boot-device: {device: cdrom}}";
    let report = run_case(&one_case(ramdisk)).await;
    assert!(report.passed, "{report:?}");
    let wrong = ramdisk.replace("floppy: {artefact: floppy}", "floppy: empty, power: on");
    let wrong = wrong.replace(", power: off, boot-device", ", boot-device");
    let report = run_case(&one_case(&wrong)).await;
    expect![[r#"
        the world is otherwise afterwards
          difference          floppy: wanted empty, is {artefact: floppy}
          difference          power: wanted on, is off"#]]
    .assert_eq(&report.failures.join("\n"));
}

#[tokio::test]
async fn a_server_in_post_is_busy_until_the_scenarios_clock_has_passed_it() {
    let text = format!(
        "suite: s\nplugin: {}\nsettings: {{do: sleep-and-eject}}\ncases:\n  - name: c\n    call: vmedia.prepare-ramdisk\n    \
        world: {{post-s: 30}}\n    expect: {{error: bmc-busy, message: POST}}\n",
        hostile().display()
    );
    let busy = run_case(&text.replace("sleep-and-eject", "eject")).await;
    assert!(busy.passed, "{busy:?}");
    let text = text.replace("expect: {error: bmc-busy, message: POST}", "expect: {outcome: ok}");
    // The guest sleeps for a minute first.
    let after = run_case(&text).await;
    assert!(after.passed, "{after:?}");
}

fn swept(what: &str, more: &str) -> String {
    format!(
        "suite: s\nplugin: {}\nsettings: {{do: {what}}}\ncases:\n  - name: c\n    call: vmedia.prepare-ramdisk\n    \
        world: {{cdrom: {{url: \"http://a.example/x.iso\"}}}}\n{more}",
        hostile().display()
    )
}

#[tokio::test]
async fn the_fault_sweep_tries_every_call_with_every_cause_and_lost_answers() {
    let sweep = "    sweep: {faults: true}\n    expect: {outcome: ok}\n";
    let report = run(&swept("eject-twice", sweep)).await;
    assert_eq!(report.failed(), 0, "{report:?}");
    // Two calls, nine causes; three of them may also come after an effect is done.
    assert_eq!(report.sweep_runs(), 24);
    let coverage = rehearsal::coverage(std::slice::from_ref(&report));
    assert_eq!(coverage.len(), 1);
    assert!(!coverage[0].missing.contains_key("bmc.eject"), "{coverage:?}");
    assert!(
        coverage[0].missing.contains_key("bmc.insert") && coverage[0].met == 9,
        "{coverage:?}"
    );
}

#[tokio::test]
async fn the_fault_sweep_finds_a_plugin_that_gives_up_and_one_that_counts_twice() {
    let sweep = "    sweep: {faults: true}\n    expect: {outcome: ok}\n";
    let report = run_case(&swept("eject-or-panic", sweep)).await;
    assert_eq!((report.sweeps[0].runs, report.sweeps[0].failed), (12, 12));
    assert!(
        report.failures[0].starts_with("sweep of faults: call 1 (bmc.eject) answered `denied`\n  the call had no typed outcome: it was trapped trapped"),
        "{report:?}"
    );
    assert_eq!(report.failures.last().unwrap(), "sweep of faults: 2 more runs failed");
    let report = run_case(&swept("count", sweep)).await;
    expect![[r#"
        sweep of faults: call 2 (state.put) answered `timeout`, though it was done
          a clean run after it ends elsewhere: state.n: wanted x, is xx
        sweep of faults: call 2 (state.put) answered `unreachable`, though it was done
          a clean run after it ends elsewhere: state.n: wanted x, is xx
        sweep of faults: call 2 (state.put) answered `other`, though it was done
          a clean run after it ends elsewhere: state.n: wanted x, is xx"#]]
    .assert_eq(&report.failures.join("\n"));
    let told = "    sweep: {faults: true, re-run: false}\n    expect: {outcome: ok}\n";
    assert!(run_case(&swept("count", told)).await.passed);
}

#[tokio::test]
async fn storms_are_the_same_each_time_and_follow_the_seed() {
    let storm = |seed: u32| {
        let more = format!("    seed: {seed}\n    sweep: {{storms: 12}}\n    expect: {{outcome: ok}}\n");
        swept("count", &more)
    };
    let (first, again, other) = (
        run_case(&storm(1)).await,
        run_case(&storm(1)).await,
        run_case(&storm(2)).await,
    );
    assert_eq!(first.sweeps[0].runs, 12);
    assert!(!first.failures.is_empty(), "{first:?}");
    assert_eq!(first.failures, again.failures);
    assert_ne!(first.failures, other.failures);
}

#[tokio::test]
async fn the_grant_sweep_takes_each_grant_away_and_gives_all_back_for_the_clean_run() {
    let more = "    grants: {bmc: [eject, insert]}\n    sweep: {grants: true}\n    expect: {outcome: ok}\n";
    let report = run_case(&swept("eject", more)).await;
    assert!(report.passed, "{report:?}");
    // Without `eject`, without `insert`, without any.
    assert_eq!((report.sweeps[0].kind, report.sweeps[0].runs), ("grants", 3));
    let report = run_case(&swept("eject-or-panic", more)).await;
    assert_eq!(report.sweeps[0].failed, 2, "{report:?}");
    assert!(
        report.failures[0].starts_with("sweep of grants: without `bmc.eject`\n  the call had no typed outcome"),
        "{report:?}"
    );
}

#[tokio::test]
async fn a_case_that_fails_is_not_swept() {
    let report = run_case(&swept(
        "eject",
        "    sweep: {faults: true}\n    expect: {outcome: denied}\n",
    ))
    .await;
    assert!(!report.passed && report.sweeps.is_empty(), "{report:?}");
}

#[tokio::test]
async fn a_matrix_makes_a_case_of_each_combination() {
    let report = run(&one_case(
        "
call: vmedia.prepare-instance
node: {provision-state: deploying}
world: {}
matrix: {driver: [agent_ilo, iscsi_ilo], facts.vendor: [HPE, Other]}
expect: {outcome: ok, world: {boot-device: {device: disk}}}",
    ))
    .await;
    let passed: Vec<(&str, bool)> = report.cases.iter().map(|case| (&*case.name, case.passed)).collect();
    assert_eq!(
        passed,
        [
            ("c [driver=agent_ilo, facts.vendor=HPE]", true),
            ("c [driver=agent_ilo, facts.vendor=Other]", true),
            ("c [driver=iscsi_ilo, facts.vendor=HPE]", false),
            ("c [driver=iscsi_ilo, facts.vendor=Other]", false),
        ]
    );
}

#[tokio::test]
async fn two_versions_are_compared_by_what_they_decide() {
    let text = "suite: s\nplugin: {built-in: vmedia}\ncases:\n  - name: a\n    call: vmedia.prepare-ramdisk\n    world: {}\n    \
        expect: {}\n  - name: b\n    call: vmedia.detach\n    args: {device: cdrom}\n    world: {}\n    expect: {}\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.yaml");
    std::fs::write(&path, text).unwrap();
    let new = rehearsal::Suite::read(&path).unwrap();
    let old = rehearsal::Suite::read_for(&path, runtime::ComponentSource::File(hostile())).unwrap();
    let engine = runtime::Engine::new(2).unwrap();
    let same = rehearsal::compare(&engine, &new, &new).await.unwrap();
    assert_eq!((same.cases, same.differences.len(), same.old == same.new), (2, 0, true));
    let found = rehearsal::compare(&engine, &old, &new).await.unwrap();
    assert_ne!(found.old, found.new);
    // The guest hands `detach` down to the built-in policy, which is no difference; it prepares nothing.
    let names: Vec<&str> = found.differences.iter().map(|one| one.case.as_str()).collect();
    assert_eq!(names, ["a"]);
    let lines = &found.differences[0].lines;
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("+ bmc.insert {device: floppy")),
        "{lines:?}"
    );
    assert!(
        lines.iter().any(|line| line.starts_with("- outcome error")),
        "{lines:?}"
    );
}
