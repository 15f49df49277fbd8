//! The scenarios of the default plugins, run through the built-in components.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use std::path::{Path, PathBuf};

use rehearsal::SuiteReport;
use runtime::Engine;

fn scenarios() -> Vec<PathBuf> {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    let mut files = Vec::new();
    for plugin in ["backend-selection", "take-over", "vmedia"] {
        let folder = plugins.join(plugin).join("scenarios");
        let found = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let before = files.len();
        files.extend(found.map(|entry| entry.unwrap().path()));
        assert!(files.len() > before, "{plugin} has no scenarios");
    }
    files
}

/// Runs all of them, side by side.
async fn reports() -> Vec<SuiteReport> {
    let engine = Engine::new(8).unwrap();
    let mut reports = Vec::new();
    for file in scenarios() {
        let suite = rehearsal::Suite::read(&file).unwrap_or_else(|error| panic!("{error}"));
        let report = rehearsal::run(&engine, &suite).await.unwrap();
        assert_eq!(report.cases.len(), suite.len());
        reports.push(report);
    }
    reports
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_plugins_do_what_their_scenarios_say_whatever_fails_and_every_error_is_met() {
    let reports = reports().await;
    let mut failures = String::new();
    for report in &reports {
        for case in report.cases.iter().filter(|case| !case.passed) {
            failures.push_str(&format!(
                "{}:{} {}\n{}\n",
                report.file,
                case.line,
                case.name,
                case.failures.join("\n")
            ));
        }
    }
    assert!(failures.is_empty(), "{failures}");
    let coverage = rehearsal::coverage(&reports);
    let plugins: Vec<(&str, usize)> = coverage.iter().map(|one| (&*one.plugin, one.pairs)).collect();
    // The two that decide without effects import nothing that can fail; the third all but `state`, `find` and `renew`.
    assert_eq!(
        plugins,
        [
            ("built-in:backend-selection", 0),
            ("built-in:take-over", 0),
            ("built-in:vmedia", 13 * 9)
        ]
    );
    for one in &coverage {
        assert!(one.missing.is_empty(), "{} never met {:?}", one.plugin, one.missing);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_function_of_the_virtual_media_policy_is_swept() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/vmedia/scenarios/world.yaml");
    let suite = rehearsal::Suite::read(&file).unwrap();
    let report = rehearsal::run(&Engine::new(8).unwrap(), &suite).await.unwrap();
    assert!(report.sweep_runs() > 1500, "{}", report.sweep_runs());
    let text = std::fs::read_to_string(&file).unwrap();
    for function in [
        "prepare-ramdisk",
        "clean-up-ramdisk",
        "prepare-instance",
        "clean-up-instance",
        "attach",
        "detach",
        "boot-into-iso",
    ] {
        assert!(text.contains(&format!("call: vmedia.{function}\n")), "{function}");
    }
}
