//! What every language's build ends with: a component without WASI for the right world, with its manifest.

use anyhow::{Context, Result, anyhow, bail};
use runtime::Grants;
use runtime::manifest::{self, Format, Manifest};
use wit_component::ComponentEncoder;

use crate::commands::plugin::contract::{Surface, world};
use crate::commands::plugin::project::{FILE, Language, Project};
use crate::output;

/// Begin of a core module; a component has another layer.
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// Makes the component that is written of what the tool chain gave: a core module with the types of its world, or a component.
pub(super) fn finish(project: &Project, built: Vec<u8>) -> Result<Vec<u8>> {
    let component = if built.starts_with(CORE_MODULE) {
        encode(project.language, &built)?
    } else {
        built
    };
    let surface = Surface::of(&component).context("what the tools made is no component")?;
    check(project, &surface)?;
    let manifest = manifest(project, &surface)?;
    Ok(manifest::write(&component, &manifest)?)
}

fn encode(language: Language, module: &[u8]) -> Result<Vec<u8>> {
    let encoded = ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(ComponentEncoder::encode);
    encoded.map_err(|error| {
        let reason = format!("{error:#}");
        // The C library's own name for it, by which wit-component finds nothing.
        match reason.contains("wasi_snapshot_preview1") {
            true => no_wasi(language, &reason),
            false => anyhow!("{reason}")
                .context("what was compiled does not fit the contract in wit/: is each function of the role exported?"),
        }
    })
}

/// Why a plugin that wants WASI is none, and what to do.
fn no_wasi(language: Language, imports: &str) -> anyhow::Error {
    let remedy = match language {
        Language::Rust => "leave out crates that use clocks, files, sockets or the environment",
        Language::Python => "leave out modules that use clocks, files or sockets",
        Language::Js => "leave out what needs clocks, files or sockets",
        Language::C => "leave out <stdio.h>, <time.h> and whatever else talks to a system",
    };
    anyhow!("the plugin wants WASI, which no host offers: {remedy} ({imports})")
}

fn check(project: &Project, surface: &Surface) -> Result<()> {
    let wasi = surface.wasi();
    if !wasi.is_empty() {
        return Err(no_wasi(project.language, &wasi.join(", ")));
    }
    match surface.role() {
        Some(role) if role == project.role => Ok(()),
        Some(role) => bail!(
            "the component is for the role `{role}`, and {FILE} says `{}`: correct one of them",
            project.role
        ),
        None => bail!(
            "the component exports no role: it must be built for the world `{}`",
            world(project.role)
        ),
    }
}

/// The manifest: what `farrier-plugin.toml` says, and what can be read off the component.
fn manifest(project: &Project, surface: &Surface) -> Result<Manifest> {
    let mut required = project.required.clone().unwrap_or_default();
    let mut optional = project.optional.clone().unwrap_or_default();
    if project.language.imports_what_it_calls() {
        let said = required.union(&optional).functions();
        for function in &surface.functions {
            if !said.contains(function) {
                required.add(function).map_err(|reason| {
                    anyhow!("the plugin calls {function}, and {FILE} does not ask for it: {reason}, under [required]")
                })?;
            }
        }
        for function in said.iter().filter(|function| !surface.functions.contains(function)) {
            output::note(format_args!(
                "note: {FILE} asks for {function}, which the plugin does not call"
            ));
        }
    } else if project.required.is_none() && project.optional.is_none() {
        optional = Grants::default_of(project.role);
    }
    Ok(Manifest {
        format: Format,
        id: project.id.clone(),
        version: project.version.clone(),
        role: project.role,
        description: project.description.clone(),
        required,
        optional,
        scenarios: project.scenarios()?,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use runtime::Role;

    use super::*;

    fn project(language: Language) -> Project {
        Project {
            folder: PathBuf::from("/nowhere"),
            id: "acme.slots".to_owned(),
            version: "0.1.0".to_owned(),
            role: Role::Vmedia,
            language,
            description: None,
            required: None,
            optional: None,
        }
    }

    fn surface(imports: &[&str], exports: &[&str], functions: &[&str]) -> Surface {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Surface {
            imports: owned(imports),
            exports: owned(exports),
            functions: owned(functions),
        }
    }

    fn grants(json: &str) -> Option<Grants> {
        Some(serde_json::from_str(json).unwrap())
    }

    #[test]
    fn wasi_and_another_role_are_refused_with_the_remedy() {
        let vmedia = "farrier:driver/vmedia@0.1.0";
        let refused = |surface: &Surface| check(&project(Language::C), surface).unwrap_err().to_string();
        let wasi = refused(&surface(&["wasi:io/streams@0.2.0"], &[vmedia], &[]));
        assert!(
            wasi.contains("wasi:io/streams@0.2.0") && wasi.contains("<stdio.h>"),
            "{wasi}"
        );
        let other = refused(&surface(&[], &["farrier:driver/vendor@0.1.0"], &[]));
        assert!(other.contains("`vendor`") && other.contains("`vmedia`"), "{other}");
        assert!(refused(&surface(&[], &[], &[])).contains("world `vmedia-plugin`"));
        check(&project(Language::C), &surface(&[], &[vmedia], &[])).unwrap();
    }

    #[test]
    fn what_rust_and_c_call_is_required_unless_the_project_says_otherwise() {
        let calls = surface(&[], &[], &["bmc.eject", "state.get", "bmc-raw.ribcl"]);
        let mut project = project(Language::Rust);
        let error = manifest(&project, &calls).unwrap_err().to_string();
        assert!(error.contains("calls bmc-raw.ribcl"), "{error}");
        project.optional = grants(r#"{"state":["get"],"bmc-raw":{"ribcl":["GET_VM_STATUS"]}}"#);
        let made = manifest(&project, &calls).unwrap();
        assert_eq!(made.required.functions(), ["bmc.eject"]);
        assert_eq!(made.optional.functions(), ["state.get", "bmc-raw.ribcl"]);
    }

    #[test]
    fn python_and_javascript_ask_for_what_the_project_says_or_for_all_that_the_role_has() {
        let all = surface(&[], &[], &["bmc.eject", "bmc-raw.redfish"]);
        let mut project = project(Language::Python);
        let made = manifest(&project, &all).unwrap();
        assert!(made.required.is_empty());
        assert_eq!(made.optional, Grants::default_of(Role::Vmedia));
        project.required = grants(r#"{"bmc":["eject"]}"#);
        let made = manifest(&project, &all).unwrap();
        assert_eq!(made.required.functions(), ["bmc.eject"]);
        assert!(made.optional.is_empty());
    }
}
