//! The plugins in examples/: each is built as its README says, and passes its rehearsal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::desk::{Desk, both};

fn examples() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    folder.canonicalize().expect("examples/")
}

/// Builds an example where it lies, and rehearses it.
fn check(name: &str) {
    Desk::equipped().build_and_rehearse(&examples().join(name), name);
    let readme = std::fs::read_to_string(examples().join(name).join("README.md")).expect("a README");
    assert!(
        readme.contains(&format!("farrier plugin build examples/{name}")),
        "{name}: its README does not say how"
    );
    assert!(readme.contains("?*"), "{name}: its README answers no question");
    assert!(
        site_entry(&readme).contains_key("plugin"),
        "{name}: its README does not say how a site uses it"
    );
}

/// The first block of TOML.
fn site_entry(readme: &str) -> toml::Table {
    let block = readme
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    block.unwrap_or_default().parse().expect("TOML")
}

#[test]
fn an_example_in_rust_chooses_backends_by_size_and_site() {
    check("backend-by-size");
}

#[test]
fn an_example_in_rust_boots_once_by_the_bmcs_own_flag() {
    check("vmedia-boot-once");
}

#[test]
fn an_example_in_python_takes_over_with_care() {
    check("take-over-careful");
}

#[test]
fn an_example_in_javascript_spreads_nodes() {
    check("backend-spread");
}

#[test]
fn an_example_in_c_adds_a_vendors_method() {
    check("vendor-reset-bmc");
}

#[test]
fn every_example_is_in_the_guide_and_tested_here() {
    let here = include_str!("examples.rs");
    let guide = std::fs::read_to_string(examples().join("README.md")).expect("the guide");
    let mut languages = BTreeSet::new();
    for entry in std::fs::read_dir(examples()).expect("examples/") {
        let path = entry.expect("an entry").path();
        let Ok(project) = std::fs::read_to_string(path.join("farrier-plugin.toml")) else {
            continue;
        };
        let project: toml::Table = project.parse().expect("TOML");
        let name = project["id"].as_str().expect("an id").to_owned();
        assert_eq!(Some(name.as_str()), path.file_name().and_then(|name| name.to_str()));
        assert!(here.contains(&format!("check(\"{name}\")")), "{name} is not tested");
        assert!(
            guide.contains(&format!("]({name}/README.md)")),
            "{name} is not in the guide"
        );
        languages.insert(project["language"].as_str().expect("a language").to_owned());
    }
    assert_eq!(Vec::from_iter(languages), ["c", "js", "python", "rust"]);
}

#[test]
fn rust_of_templates_and_examples_is_formatted() {
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates/rust");
    let mut files = vec![examples().join("backend-by-size/src/lib.rs")];
    for entry in std::fs::read_dir(templates).expect("templates/rust") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    assert!(files.len() > 4, "{files:?}");
    let desk = Desk::bare();
    let mut rustfmt = desk.command("rustfmt");
    rustfmt
        .args(["--check", "--edition", "2024", "--config", "max_width=120"])
        .args(files);
    let output = rustfmt.output().expect("rustfmt, a component of the toolchain");
    assert!(output.status.success(), "{}{}", both(&output).0, both(&output).1);
}
