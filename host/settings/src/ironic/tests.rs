//! Ironic itself is asked: which options it declares, and what it makes of settings files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use super::table::{self, Fate, Row, UNREAD};
use crate::oslo::files;
use crate::oslo::lookup::Conf;
use crate::oslo::option::{Kind, Why};
use crate::oslo::oracle::{as_json, ask};

/// Defaults that Ironic takes from the machine that it runs on, or from where it is installed.
const OF_THE_MACHINE: &[(&str, &str)] = &[
    ("DEFAULT", "host"),
    ("DEFAULT", "my_ip"),
    ("DEFAULT", "pybasedir"),
    ("DEFAULT", "bindir"),
    ("DEFAULT", "state_path"),
];

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ironic").join(name)
}

fn theirs(files: &[PathBuf]) -> BTreeMap<(String, String), Json> {
    let answer = ask("registry.py", &json!({ "files": files }));
    let text = |option: &Json, key: &str| option[key].as_str().unwrap().to_owned();
    let options = answer["options"].as_array().unwrap();
    let keyed = options
        .iter()
        .map(|option| ((text(option, "group"), text(option, "name")), option.clone()));
    keyed.collect()
}

fn row(group: &str, name: &str) -> Option<&'static Row> {
    table::rows().find(|row| row.opt.group == group && row.opt.name == name)
}

/// The first word of what the script says of a type.
fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "text",
        Kind::Choice(_) => "choice",
        Kind::Boolean => "boolean",
        Kind::Whole(..) => "whole",
        Kind::Fraction(_) => "fraction",
        Kind::Uri => "uri",
        Kind::Host => "host",
        Kind::List(_) => "list",
        Kind::Dict => "dict",
        Kind::Texts => "texts",
        Kind::Dicts => "dicts",
    }
}

#[test]
fn every_section_of_ironic_is_known_and_every_option_of_those_that_are_read() {
    let theirs = theirs(&[]);
    let read: BTreeSet<&str> = table::rows().map(|row| row.opt.group).collect();
    let mut strange = Vec::new();
    for (group, name) in theirs.keys() {
        let is_known = match read.contains(group.as_str()) {
            true => row(group, name).is_some(),
            false => UNREAD.iter().any(|unread| unread.group == group),
        };
        if !is_known {
            strange.push(format!("[{group}] {name}"));
        }
    }
    assert_eq!(strange, [] as [String; 0]);
    assert!(theirs.len() > 700);
}

#[test]
fn options_that_are_read_have_the_type_the_default_and_the_other_names_that_ironic_gives_them() {
    let theirs = theirs(&[]);
    let conf = Conf::new(Vec::new(), table::rows().map(|row| &row.opt));
    let mut checked = 0;
    for row in table::rows().filter(|row| !matches!(row.fate, Fate::Instead(_))) {
        let opt = &row.opt;
        let label = opt.label();
        let Some(theirs) = theirs.get(&(opt.group.to_owned(), opt.name.to_owned())) else {
            // Of a former release, or of a library that declares it while the service starts.
            continue;
        };
        checked += 1;
        assert_eq!(theirs["kind"][0], kind(opt.kind), "{label}");
        match opt.kind {
            Kind::Choice(words) => assert_eq!(theirs["kind"].as_array().unwrap()[1..], *words, "{label}"),
            Kind::Whole(least, most) => {
                let bound = |place: usize| theirs["kind"][place].as_f64();
                #[expect(clippy::cast_precision_loss, reason = "the bounds are small numbers")]
                let ours = [least.map(|n| n as f64), most.map(|n| n as f64)];
                assert_eq!([bound(1), bound(2)], ours, "{label}");
            }
            _ => {}
        }
        if !OF_THE_MACHINE.contains(&(opt.group, opt.name)) && opt.group != "swift" && opt.group != "glance" {
            let ours = as_json(&conf.value(opt).unwrap().value);
            assert_eq!(theirs["value"], ours, "{label}");
        }
        let renamed = opt.others.iter().filter(|other| other.why == Why::Renamed);
        let renamed: BTreeSet<_> = renamed
            .map(|other| json!([other.group, other.name]).to_string())
            .collect();
        let named = theirs["others"]
            .as_array()
            .unwrap()
            .iter()
            .map(Json::to_string)
            .collect();
        assert_eq!(renamed, named, "{label}");
        if theirs["secret"] == true {
            assert!(opt.secret, "{label} is a secret");
        }
    }
    assert!(checked > 80, "{checked}");
}

#[test]
fn ironic_makes_the_same_of_whole_files() {
    for names in [
        &["standalone.conf"][..],
        &["swift.conf"],
        &["former.conf"],
        &["spec-names.conf"],
        &["standalone.conf", "swift.conf"],
        &["swift.conf", "former.conf", "standalone.conf"],
    ] {
        let paths: Vec<PathBuf> = names.iter().map(|name| sample(name)).collect();
        let theirs = theirs(&paths);
        let (files, problems) = files::read(&paths);
        assert_eq!(problems, []);
        let conf = Conf::new(files, table::rows().map(|row| &row.opt));
        let mut set = 0;
        for row in table::rows().filter(|row| !matches!(row.fate, Fate::Instead(_))) {
            let opt = &row.opt;
            let found = conf.value(opt).unwrap();
            let by_their_name = found
                .at
                .as_ref()
                .is_some_and(|at| !matches!(at.why, Some(Why::Former | Why::Equal)));
            if let Some(theirs) = theirs.get(&(opt.group.to_owned(), opt.name.to_owned()))
                && by_their_name
            {
                set += 1;
                assert_eq!(theirs["value"], as_json(&found.value), "{names:?}: {}", opt.label());
            }
        }
        assert!(set > 0 || names == ["spec-names.conf"], "{names:?}");
    }
}

#[test]
fn the_table_names_each_option_and_each_section_once() {
    let mut names = BTreeSet::new();
    for row in table::rows() {
        assert!(
            names.insert((row.opt.group, row.opt.name)),
            "{} is there twice",
            row.opt.label()
        );
    }
    for row in table::rows() {
        for other in row.opt.others {
            assert!(
                names.insert((other.group, other.name)),
                "[{}] {} is there twice",
                other.group,
                other.name
            );
        }
    }
    let sections: Vec<&str> = UNREAD.iter().map(|unread| unread.group).collect();
    assert!(sections.is_sorted(), "{sections:?}");
    assert!(
        sections
            .iter()
            .all(|section| table::rows().all(|row| row.opt.group != *section))
    );
}
