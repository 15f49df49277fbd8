//! The scenarios of the default plugins, run through the built-in components.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use std::path::{Path, PathBuf};

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

#[tokio::test(flavor = "multi_thread")]
async fn the_default_plugins_do_what_their_scenarios_say() {
    let engine = Engine::new(2).unwrap();
    let mut failures = String::new();
    for file in scenarios() {
        let suite = rehearsal::Suite::read(&file).unwrap_or_else(|error| panic!("{error}"));
        let report = rehearsal::run(&engine, &suite).await.unwrap();
        assert_eq!(report.cases.len(), suite.len());
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
}
