//! The contract with plugins as this binary carries it: for new projects, and to tell what a component asks for and gives.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use runtime::Role;
use wit_component::DecodedWasm;
use wit_parser::{Resolve, WorldItem, WorldKey};

/// The files of `wit/`.
pub(super) const FILES: [(&str, &str); 10] = [
    ("README.md", include_str!("../../../../../wit/README.md")),
    ("always.wit", include_str!("../../../../../wit/always.wit")),
    (
        "backend-selection.wit",
        include_str!("../../../../../wit/backend-selection.wit"),
    ),
    ("bmc.wit", include_str!("../../../../../wit/bmc.wit")),
    ("image.wit", include_str!("../../../../../wit/image.wit")),
    ("state.wit", include_str!("../../../../../wit/state.wit")),
    ("take-over.wit", include_str!("../../../../../wit/take-over.wit")),
    ("types.wit", include_str!("../../../../../wit/types.wit")),
    ("vendor.wit", include_str!("../../../../../wit/vendor.wit")),
    ("vmedia.wit", include_str!("../../../../../wit/vmedia.wit")),
];

/// The file that names the worlds; apart, since a project of one role may do without the others.
pub(super) const WORLDS: (&str, &str) = ("worlds.wit", include_str!("../../../../../wit/worlds.wit"));

/// Interfaces whose functions are granted; the others are always there, or only hold types.
const GRANTED: [&str; 7] = ["state", "image", "storage", "bmc", "power", "bmc-raw", "vmedia-service"];

/// The world of a role.
pub(super) fn world(role: Role) -> String {
    format!("{role}-plugin")
}

/// What a component imports and exports.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Surface {
    /// Imported interfaces with their versions ("farrier:driver/bmc@0.1.0"), and functions outside of any.
    pub(super) imports: Vec<String>,
    /// Exported ones.
    pub(super) exports: Vec<String>,
    /// Imported functions that a site grants, by their whole names ("bmc.eject").
    pub(super) functions: Vec<String>,
}

impl Surface {
    /// Reads it off a component.
    pub(super) fn of(component: &[u8]) -> Result<Self> {
        let decoded = wit_component::decode(component).map_err(|error| anyhow!("{}", first_line(&error)))?;
        let DecodedWasm::Component(resolve, world) = decoded else {
            bail!("it holds WIT and nothing that runs");
        };
        let world = &resolve.worlds[world];
        let names = |items: &mut dyn Iterator<Item = &WorldKey>| -> Vec<String> {
            items.map(|key| resolve.name_world_key(key)).collect()
        };
        let mut surface = Self {
            imports: names(&mut world.imports.keys()),
            exports: names(&mut world.exports.keys()),
            functions: Vec::new(),
        };
        for (key, item) in &world.imports {
            let name = resolve.name_world_key(key);
            if let (Some(interface), WorldItem::Interface { id, .. }) = (own_interface(&name), item)
                && GRANTED.contains(&interface)
            {
                // Methods of handles ("[method]image.size") come with the handle.
                let functions = resolve.interfaces[*id].functions.keys();
                let free = functions.filter(|function| !function.starts_with('['));
                surface
                    .functions
                    .extend(free.map(|function| format!("{interface}.{function}")));
            }
        }
        Ok(surface)
    }

    /// Interfaces of WASI that it wants.
    pub(super) fn wasi(&self) -> Vec<&str> {
        let imports = self.imports.iter().map(String::as_str);
        imports.filter(|name| name.starts_with("wasi:")).collect()
    }

    /// The role whose interface it exports.
    pub(super) fn role(&self) -> Option<Role> {
        self.exports
            .iter()
            .find_map(|name| own_interface(name).and_then(Role::parse))
    }
}

/// "bmc" of "farrier:driver/bmc@0.1.0".
fn own_interface(name: &str) -> Option<&str> {
    let rest = name.strip_prefix("farrier:driver/")?;
    rest.split('@').next()
}

/// The contract in a project's `wit` folder.
pub(super) fn read(folder: &Path) -> Result<(Resolve, wit_parser::PackageId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_path(folder)
        .map_err(|error| anyhow!("{error:#}"))
        .with_context(|| format!("{} does not hold the contract (farrier:driver)", folder.display()))?;
    Ok((resolve, package))
}

fn first_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_carries_all_of_the_contract() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let mut there = Vec::new();
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                there.push(entry.file_name().into_string().unwrap());
            }
        }
        there.sort();
        let mut carried: Vec<&str> = FILES.iter().map(|(name, _)| *name).chain([WORLDS.0]).collect();
        carried.sort_unstable();
        assert_eq!(there, carried);
    }

    #[test]
    fn every_role_has_its_world() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let (resolve, package) = read(&folder).unwrap();
        for role in Role::ALL {
            resolve.select_world(&[package], Some(&world(role))).unwrap();
        }
    }

    #[test]
    fn a_surface_tells_functions_of_handles_and_granted_ones_apart() {
        let component = wat::parse_str(
            r#"(component
                 (import "farrier:driver/log@0.1.0" (instance (export "event" (func))))
                 (import "farrier:driver/storage@0.1.0" (instance
                   (export "location" (type (sub resource)))
                   (export "find" (func))))
                 (import "wasi:cli/exit@0.2.0" (instance (export "exit" (func)))))"#,
        )
        .unwrap();
        let surface = Surface::of(&component).unwrap();
        assert_eq!(surface.functions, ["storage.find"]);
        assert_eq!(surface.wasi(), ["wasi:cli/exit@0.2.0"]);
        assert_eq!(surface.role(), None);
        assert!(Surface::of(b"no wasm").is_err());
    }
}
