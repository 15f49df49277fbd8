//! The tables of the operator's guide, made of what the reader itself goes by; the guide is held to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::ironic::table::{self, Fate, Row, UNREAD};
use crate::oslo::option::Why;
use crate::{Files, Loaded, Machine, Origin, Overrides, Plain, Settings};

mod meanings;

use meanings::MEANINGS;

/// Everything that has settings of its own: each kind of backend, of credentials and of store.
const EVERY_KIND: [&str; 4] = [
    r#"
        images.by-arch.ARCH = {}
        netboot.bootfile-by-arch.ARCH = "x"
        [[backend]]
        id = "embedded"
        kind = "embedded"
        [[backend]]
        id = "web-root"
        kind = "web-root"
        root = "/httpboot"
        url = "http://web"
        [[backend]]
        id = "swift"
        kind = "swift"
        auth-url = "http://keystone"
        username = "farrier"
        password = "x"
        project = "service"
        [[backend]]
        id = "s3"
        kind = "s3"
        endpoint = "http://s3"
        bucket = "b"
        [[plugin]]
        role = "vmedia"
        component = "/etc/hostname"
        [glance]
        auth-url = "http://keystone"
        username = "farrier"
        password = "x"
        project = "service"
    "#,
    r#"
        [store]
        kind = "etcd"
        endpoints = ["http://etcd"]
        [[backend]]
        id = "swift"
        kind = "swift"
        auth-type = "application-credential"
        auth-url = "http://keystone"
        application-credential-name = "farrier"
        application-credential-secret = "x"
        username = "farrier"
        [glance]
        auth-type = "application-credential"
        auth-url = "http://keystone"
        application-credential-name = "farrier"
        application-credential-secret = "x"
        username = "farrier"
    "#,
    r#"
        [api]
        auth = "http_basic"
        htpasswd = "/etc/hostname"
    "#,
    "",
];

fn machine() -> Machine {
    Machine {
        host_name: "HOSTNAME".into(),
        address: "192.0.2.1".parse().unwrap(),
    }
}

fn load(text: &str) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("farrier.toml");
    std::fs::write(&file, text).unwrap();
    let files = Files {
        site: Some(file),
        ironic: Vec::new(),
    };
    Settings::load_on(&files, &Overrides::default(), &machine()).unwrap_or_else(|error| panic!("{error}"))
}

/// A name without the place in a list and the kind of processor.
fn general(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    match parts.as_slice() {
        [list @ ("backend" | "plugin"), _, rest @ ..] => format!("{list}.{}", rest.join(".")),
        _ => name.to_owned(),
    }
}

/// What the reader asks a site file for.
fn asked() -> BTreeSet<String> {
    let loaded = EVERY_KIND
        .iter()
        .flat_map(|text| load(text).origins.into_keys().collect::<Vec<_>>());
    // A table with names of the site's own is taken as a whole.
    let whole = "plugin.match".to_owned();
    loaded.map(|name| general(&name)).chain([whole]).collect()
}

/// What settings are where nobody set them.
fn defaults() -> BTreeMap<String, String> {
    let mut defaults = BTreeMap::new();
    for text in EVERY_KIND {
        for entry in load(text).entries() {
            if entry.origin == Origin::Default && entry.value != Plain::Unset {
                defaults.insert(general(&entry.name), entry.value.to_string());
            }
        }
    }
    defaults
}

fn settings_table() -> String {
    let defaults = defaults();
    let mut text = String::new();
    let mut section = None;
    for (name, meaning) in MEANINGS {
        let (of, key) = match name.split_once('.') {
            Some((section, key)) => (section, key),
            None => ("", *name),
        };
        if section != Some(of) {
            let heading = match of {
                "" => "At the top".to_owned(),
                "backend" | "plugin" => format!("`[[{of}]]`"),
                of => format!("`[{of}]`"),
            };
            let _ = write!(text, "\n### {heading}\n\n| setting | default | what |\n|---|---|---|\n");
            section = Some(of);
        }
        let default = defaults
            .get(*name)
            .map_or("–".to_owned(), |default| format!("`{default}`"));
        let _ = writeln!(text, "| `{key}` | {default} | {meaning} |");
    }
    text
}

fn options_table() -> String {
    let mut text = String::new();
    let mut group = None;
    for row in table::rows() {
        if group != Some(row.opt.group) && !text.contains(&format!("### `[{}]`", row.opt.group)) {
            let _ = write!(
                text,
                "\n### `[{}]`\n\n| option | default | setting of farrier.toml | notes |\n|---|---|---|---|\n",
                row.opt.group
            );
            group = Some(row.opt.group);
            for row in table::rows().filter(|row| group == Some(row.opt.group)) {
                option(&mut text, row);
            }
        }
    }
    text
}

fn option(text: &mut String, row: &Row) {
    let opt = &row.opt;
    let (settings, mut notes) = match row.fate {
        Fate::Becomes { settings, how } => (settings, how.to_owned()),
        Fate::Always(value, instead) => {
            let other = if value { "False" } else { "True" };
            ("", format!("{other} has no effect: {instead}"))
        }
        Fate::Instead(instead) => ("", format!("no effect: {instead}")),
    };
    for other in opt.others {
        let name = match other.group == opt.group {
            true => format!("`{}`", other.name),
            false => format!("`[{}] {}`", other.group, other.name),
        };
        let says = match other.why {
            Why::Equal => format!("also written {name}"),
            Why::Renamed | Why::Former => format!("{name} is deprecated"),
        };
        notes = match notes.is_empty() {
            true => says,
            false => format!("{notes}; {says}"),
        };
    }
    let settings: Vec<_> = settings
        .split(", ")
        .filter(|name| !name.is_empty())
        .map(|name| format!("`{name}`"))
        .collect();
    let default = match (row.fate, opt.default) {
        (Fate::Instead(_), _) | (_, None) => "–".to_owned(),
        (_, Some("")) => "empty".to_owned(),
        (_, Some(default)) => format!("`{default}`"),
    };
    let settings = if settings.is_empty() {
        "–".to_owned()
    } else {
        settings.join(", ")
    };
    let _ = writeln!(text, "| `{}` | {default} | {settings} | {notes} |", opt.name);
}

fn sections_table() -> String {
    let mut text = "\n| section | instead |\n|---|---|\n".to_owned();
    for unread in UNREAD {
        let _ = writeln!(text, "| `[{}]` | {} |", unread.group, unread.instead);
    }
    text
}

fn guide(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// The part of a page between `<!-- made: NAME -->` and `<!-- end -->` is this; UPDATE_EXPECT=1 writes it.
fn check(page: &str, name: &str, expected: &str) {
    let path = guide(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let begin = format!("<!-- made: {name} -->\n");
    let (before, rest) = text
        .split_once(&begin)
        .unwrap_or_else(|| panic!("docs/{page} has no line {begin}"));
    let (there, after) = rest
        .split_once("<!-- end -->")
        .unwrap_or_else(|| panic!("docs/{page}: {name} does not end"));
    let expected = format!("{expected}\n");
    if there == expected {
        return;
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, format!("{before}{begin}{expected}<!-- end -->{after}")).unwrap();
        return;
    }
    panic!("docs/{page} is not what the reader does; run UPDATE_EXPECT=1 cargo test -p settings");
}

#[test]
fn every_setting_that_is_read_has_a_meaning_and_no_other() {
    let asked = asked();
    let explained: BTreeSet<String> = MEANINGS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(MEANINGS.len(), explained.len(), "one is there twice");
    let missing: Vec<_> = asked.difference(&explained).collect();
    let strange: Vec<_> = explained.difference(&asked).collect();
    assert!(
        missing.is_empty() && strange.is_empty(),
        "without a meaning: {missing:#?}; not read: {strange:#?}"
    );
    // What may be shown must have been asked for.
    for text in EVERY_KIND {
        for entry in load(text).entries() {
            let name = general(&entry.name);
            assert!(asked.contains(&name), "{name} is shown and not read");
        }
    }
}

#[test]
fn settings_that_options_become_are_settings() {
    let asked = asked();
    for row in table::rows() {
        if let Fate::Becomes { settings, .. } = row.fate {
            for name in settings.split(", ").filter(|name| !name.is_empty()) {
                let is_one = name == "backend" || name == "netboot.bootfile-by-arch" || asked.contains(name);
                assert!(is_one, "{} becomes {name}", row.opt.label());
            }
        }
    }
}

#[test]
fn the_guide_has_every_setting_and_every_option() {
    check("settings.md", "settings", &settings_table());
    check("ironic-conf.md", "options", &options_table());
    check("ironic-conf.md", "sections", &sections_table());
}
