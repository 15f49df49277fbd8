//! `farrier plugin test` as its users see it: exit codes, tables, JSON, JUnit.

#![expect(clippy::unwrap_used, reason = "a failed set-up fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn farrier(args: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farrier"));
    command.args(["plugin", "test"]).args(args);
    command.output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// Two cases; the second expects another device than the plugin empties.
const MIXED: &str = "
suite: slots
plugin: {built-in: vmedia}
cases:
  - name: right
    call: vmedia.detach
    args: {device: cdrom}
    host: [{on: bmc.eject, with: {device: cdrom}}]
    expect: {outcome: ok}
  - name: wrong
    call: vmedia.detach
    args: {device: cdrom}
    host: [{on: bmc.eject, with: {device: floppy}}]
    expect: {outcome: ok}
";

#[test]
fn a_suite_that_passes_exits_with_0_and_shows_its_cases() {
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/vmedia/scenarios/ramdisk.yaml");
    let output = farrier(&[&suite]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(
        table.contains("the floppy goes in before the CD") && !table.contains("FAILED"),
        "{table}"
    );
}

#[test]
fn a_case_that_fails_exits_with_1_and_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let suite = file(folder.path(), "s.yaml", MIXED);
    let junit = folder.path().join("junit.xml");
    let output = farrier(&[&suite, Path::new("--junit"), &junit]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("1 of 2 cases failed"), "{}", stderr(&output));
    let shown = stdout(&output);
    for part in [
        "passed",
        "FAILED",
        "s.yaml:10: wrong",
        "wanted floppy, is cdrom",
        "bmc.eject {device: cdrom} -> error",
    ] {
        assert!(shown.contains(part), "no {part} in {shown}");
    }
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(xml.contains("tests=\"2\" failures=\"1\""), "{xml}");
    let output = farrier(&[&suite, Path::new("-o"), Path::new("json")]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json[0]["cases"][0]["passed"], true);
    assert_eq!(json[0]["cases"][1]["passed"], false);
    assert_eq!(json[0]["plugin"], "built-in:vmedia");
}

#[test]
fn a_file_that_is_wrong_exits_with_2_before_any_case_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), "good.yaml", MIXED);
    let slip = file(folder.path(), "slip.yaml", &MIXED.replace("expect:", "exepct:"));
    let missing = folder.path().join("missing.yaml");
    let output = farrier(&[&good, &slip, &missing]);
    assert_eq!(output.status.code(), Some(2));
    let complaint = stderr(&output);
    assert!(
        complaint.contains("did you mean `expect`?") && complaint.contains("missing.yaml"),
        "{complaint}"
    );
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
    let junk = file(folder.path(), "p.wasm", "no wasm");
    let refused = file(
        folder.path(),
        "refused.yaml",
        &MIXED.replace("{built-in: vmedia}", &junk.display().to_string()),
    );
    let output = farrier(&[&refused]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("p.wasm"), "{}", stderr(&output));
    assert_eq!(farrier(&[]).status.code(), Some(2));
}

#[test]
fn the_scenario_file_in_the_help_is_one() {
    let output = farrier(&[Path::new("--help")]);
    let help = stdout(&output);
    let example = help.split_once("A scenario file:\n").unwrap().1;
    let example = example.split_once("Outcomes:").unwrap().0;
    let example = example
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .filter(|line| !line.starts_with("grants:") && !line.starts_with("limits:"))
        .collect::<Vec<_>>()
        .join("\n")
        .replace("../acme.wasm ", "{built-in: vmedia} ");
    let folder = tempfile::tempdir().unwrap();
    let output = farrier(&[&file(folder.path(), "s.yaml", &example)]);
    // The built-in policy does what the example says of a plugin.
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn a_folder_stands_for_its_files_and_coverage_can_be_a_rule() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("suites");
    std::fs::create_dir(&inner).unwrap();
    let swept = MIXED.split("  - name: wrong").next().unwrap().replace(
        "host: [{on: bmc.eject, with: {device: cdrom}}]",
        "world: {}\n    sweep: {faults: true}",
    );
    file(&inner, "b.yaml", &swept);
    file(&inner, "a.yml", &swept.replace("suite: slots", "suite: others"));
    file(&inner, "notes.txt", "no scenario");
    let output = farrier(&[
        &inner,
        Path::new("--coverage"),
        Path::new("--min-coverage"),
        Path::new("7"),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    // One function of thirteen, with each of nine causes.
    assert!(shown.contains("met 9 of 117 errors (7.7 %)"), "{shown}");
    assert!(
        shown.contains("others") && shown.contains("bmc.insert never answered: denied"),
        "{shown}"
    );
    let output = farrier(&[&inner, Path::new("--min-coverage"), Path::new("8")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("8 % are wanted"), "{}", stderr(&output));
    let output = farrier(&[&inner, Path::new("--coverage"), Path::new("-o"), Path::new("json")]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(json["coverage"][0]["met"], 9);
    assert_eq!(json["suites"][0]["cases"][0]["sweeps"][0]["failed"], 0);
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let output = farrier(&[&empty]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("holds no scenario file"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_default_plugins_meet_every_error_by_the_command_that_ci_runs() {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    let folders = ["backend-selection", "take-over", "vmedia"].map(|plugin| plugins.join(plugin).join("scenarios"));
    let mut arguments: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    arguments.extend(["--min-coverage", "100"].map(Path::new));
    let output = farrier(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn watching_runs_again_when_a_file_is_saved() {
    use std::io::{BufRead as _, BufReader};

    let folder = tempfile::tempdir().unwrap();
    let suite = file(folder.path(), "s.yaml", MIXED);
    let mut child = Command::new(env!("CARGO_BIN_EXE_farrier"))
        .args(["plugin", "test", "--watch"])
        .arg(&suite)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let (send, lines) = std::sync::mpsc::channel();
    let told = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || {
        for line in told.lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    let wait_for = |text: &str| loop {
        let line = lines
            .recv_timeout(std::time::Duration::from_secs(120))
            .unwrap_or_else(|_| panic!("never told: {text}"));
        if line.contains(text) {
            return;
        }
    };
    wait_for("1 of 2 cases failed");
    wait_for("waiting for a change");
    std::fs::write(&suite, MIXED.replace("{device: floppy}", "{device: cdrom}")).unwrap();
    wait_for("passed; waiting for a change");
    std::fs::write(&suite, "suite: [").unwrap();
    wait_for("no case was run");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn two_components_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let suite = file(folder.path(), "s.yaml", MIXED);
    let Some(runtime::ComponentSource::Bytes { bytes, .. }) = runtime::built_in(runtime::Role::Vmedia) else {
        panic!("the policy is built in");
    };
    let old = folder.path().join("old.wasm");
    std::fs::write(&old, &bytes).unwrap();
    let compare = |old: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_farrier"));
        command
            .args(["plugin", "compare"])
            .arg(&suite)
            .arg("--compare")
            .arg(old);
        command.output().expect("the binary starts")
    };
    let output = compare(&old);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("the two decide alike in all 2 cases"),
        "{}",
        stderr(&output)
    );
    let output = compare(&file(folder.path(), "junk.wasm", "no wasm"));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    // The component that is tested may be another one than the file names.
    let output = farrier(&[&suite, Path::new("--component"), &old]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}
