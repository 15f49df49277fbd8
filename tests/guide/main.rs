//! The operator's guide is true: every command on its pages is run, in the order of the page, on a machine of its own.

mod page;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use page::{Page, guide};

/// Longest time for a page; they take seconds.
const SECONDS: &str = "300";

/// Runs a page, which must be true.
fn run(name: &str) {
    let page = Page::read(name);
    assert!(page.has_blocks(), "docs/{name} has no command");
    let output = output_of(&page);
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "docs/{name}: {} (the last line with == is where)\n{}\n{}",
        output.status,
        said(&output.stdout),
        said(&output.stderr)
    );
}

/// Runs a page in namespaces of its own; see `world.sh`.
fn output_of(page: &Page) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("page.sh");
    std::fs::write(&script, page.script()).expect("the script");
    // The page says `farrier`.
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).expect("a folder");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_farrier"), bin.join("farrier")).expect("a link");

    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let lab = lab();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("timeout");
    command.args([
        "--kill-after=5",
        SECONDS,
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ]);
    if !rustix::process::getuid().is_root() {
        command.arg("--map-root-user");
    }
    command
        .arg(here.join("guide/world.sh"))
        .arg(&script)
        .args(&page.needs)
        .env_clear()
        .env("PATH", format!("{}:{path}:/usr/sbin:/sbin", bin.display()))
        .env("HOME", "/root")
        .env("LC_ALL", "C.UTF-8")
        .env("GUIDE", here.join("guide"))
        .env("LAB_SCRIPTS", here.join("lab"))
        .envs(lab)
        .stdin(Stdio::null());
    command
        .output()
        .unwrap_or_else(|error| panic!("timeout (Debian package coreutils) is needed: {error}"))
}

/// What the set-up names of what pages need beside them. No more: nginx, for one, takes a variable `NGINX` for its own.
fn lab() -> Vec<(String, String)> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.lab/lab.env");
    let path = std::env::var_os("FARRIER_LAB").map_or(default, PathBuf::from);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("the lab is not set up: run `make setup` ({}: {error})", path.display()));
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let needed = pairs.filter(|(key, _)| ["KEYSTONE", "OPENSTACK_PYTHON"].contains(key));
    needed.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Pages with commands, each a test below.
const RUN: [&str; 10] = [
    "from-ironic.md",
    "images.md",
    "ipxe.md",
    "ironic-conf.md",
    "rehearsal.md",
    "s3.md",
    "settings.md",
    "simulator.md",
    "swift.md",
    "web-server.md",
];

#[test]
fn every_page_with_commands_is_run() {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(guide()).expect("docs/") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        if name.ends_with(".md") && Page::read(&name).has_blocks() {
            pages.push(name);
        }
    }
    pages.sort();
    assert_eq!(pages, RUN);
}

#[test]
fn no_command_stands_where_it_is_not_run() {
    let commands = ["farrier ", "curl ", "systemctl ", "nginx", "$ ", "# "];
    for entry in std::fs::read_dir(guide()).expect("docs/") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        if !name.ends_with(".md") {
            continue;
        }
        for (number, line) in Page::read(&name).other_code {
            let is_command = commands.iter().any(|command| line.starts_with(command));
            assert!(!is_command, "docs/{name}:{number}: a command that nobody runs: {line}");
        }
    }
}

#[test]
fn pages_name_pages_that_there_are() {
    for entry in std::fs::read_dir(guide()).expect("docs/") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a page");
        for (place, _) in text.match_indices("](") {
            let link = text[place + 2..].split(')').next().unwrap_or_default();
            if !link.contains("://") {
                assert!(guide().join(link).exists(), "{}: there is no {link}", path.display());
            }
        }
    }
}

#[test]
fn a_command_that_fails_fails_its_page_and_is_found_by_its_line() {
    let page = Page::parse(
        "x.md",
        "text\n\n```sh\ntrue\n```\n\n```sh\necho reached\nfalse | cat\necho not reached\n```\n",
    );
    let output = output_of(&page);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "reached\n");
    assert!(
        String::from_utf8_lossy(&output.stderr).ends_with("== docs/x.md:7\n"),
        "{output:?}"
    );
}

#[test]
fn settings_can_be_checked_and_shown() {
    run("settings.md");
}

#[test]
fn a_policy_is_rehearsed_by_hand() {
    run("rehearsal.md");
}

#[test]
fn one_can_practise_on_simulated_bmcs() {
    run("simulator.md");
}

#[test]
fn ironic_conf_is_read_with_its_folder() {
    run("ironic-conf.md");
}

#[test]
fn farrier_starts_in_ironics_place_and_leaves_it() {
    run("from-ironic.md");
}

#[test]
fn a_web_server_serves_images() {
    run("web-server.md");
}

#[test]
fn images_are_made_read_changed_and_served_by_hand() {
    run("images.md");
}

#[test]
fn swift_keeps_images() {
    run("swift.md");
}

#[test]
fn s3_keeps_images() {
    run("s3.md");
}

#[test]
fn nodes_can_be_told_to_boot_by_ipxe() {
    run("ipxe.md");
}
