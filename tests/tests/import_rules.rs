//! Who may import whom: the table in ARCHITECTURE.md, checked against the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each room with the rooms that it may import, as ARCHITECTURE.md has it. `farrier` alone may import all: it wires one
/// room's trait to another's type.
fn may_import(rooms: &BTreeSet<String>) -> BTreeMap<String, BTreeSet<String>> {
    let path = root().join("ARCHITECTURE.md");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| crate | may import"));
    let mut table = BTreeMap::new();
    for row in rows.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [importers, imports] = cells[..] else {
            panic!("not two cells: {row}");
        };
        // What comes after `;` is about traits.
        let imports = imports.split_once(';').map_or(imports, |(rooms, _)| rooms);
        let imports = imports.split(',').map(str::trim);
        let imports: BTreeSet<String> = imports
            .filter(|name| rooms.contains(*name))
            .map(str::to_owned)
            .collect();
        for importer in importers.split(',').map(str::trim) {
            table.insert(importer.to_owned(), imports.clone());
        }
    }
    table
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the workspace")
}

fn manifest(path: &Path) -> toml::Table {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn imports(manifest: &toml::Table, rooms: &BTreeSet<String>) -> BTreeSet<String> {
    let dependencies = manifest.get("dependencies").and_then(|table| table.as_table());
    let names = dependencies.into_iter().flat_map(|table| table.keys().cloned());
    names.filter(|name| rooms.contains(name)).collect()
}

#[test]
fn every_room_imports_only_what_the_table_allows() {
    let root = root();
    let rooms: BTreeMap<String, toml::Table> = std::fs::read_dir(root.join("host"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, manifest(&entry.path().join("Cargo.toml")))
        })
        .collect();
    let names: BTreeSet<String> = rooms.keys().cloned().collect();
    let table = may_import(&names);
    for (room, manifest) in &rooms {
        assert_eq!(
            manifest["package"]["name"].as_str(),
            Some(room.as_str()),
            "folder name = crate name"
        );
        if room == "farrier" {
            continue;
        }
        let allowed = table.get(room);
        let allowed = allowed.unwrap_or_else(|| panic!("host/{room} is not in the table of ARCHITECTURE.md"));
        for import in imports(manifest, &names) {
            assert!(allowed.contains(&import), "{room} may not import {import}");
        }
    }
}

#[test]
fn plugins_and_examples_import_no_room() {
    let root = root();
    let rooms: BTreeSet<String> = std::fs::read_dir(root.join("host"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut seen = 0;
    for folder in ["plugins", "examples"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path().join("Cargo.toml");
            if path.exists() {
                seen += 1;
                let found = imports(&manifest(&path), &rooms);
                assert!(found.is_empty(), "{} imports {found:?}", path.display());
            }
        }
    }
    assert!(
        seen >= 4,
        "three default plugins and at least one example, found {seen}"
    );
}

#[test]
fn dependency_versions_stand_in_the_root_manifest_only() {
    let root = root();
    for folder in ["host", "plugins", "examples"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path().join("Cargo.toml");
            if !path.exists() {
                continue;
            }
            let manifest = manifest(&path);
            // A project as an author has it, outside this workspace.
            if manifest.contains_key("workspace") {
                continue;
            }
            for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
                let Some(table) = manifest.get(section).and_then(|table| table.as_table()) else {
                    continue;
                };
                for (name, value) in table {
                    let workspace = value.get("workspace").and_then(|flag| flag.as_bool());
                    assert_eq!(workspace, Some(true), "{}: {name}", path.display());
                }
            }
        }
    }
}
