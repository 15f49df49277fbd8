//! C: the bindings are generated here, clang compiles them with the program, and the linker leaves out what is not called.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use runtime::Role;
use wit_bindgen_core::Files;

use super::tool::{self, Tool};
use crate::commands::plugin::contract::{self, world};
use crate::commands::plugin::project::Project;

const INSTALL: &str = "`apt-get install clang lld wasi-libc`";
const CLANG: Tool = Tool {
    name: "clang",
    beside: None,
    install: INSTALL,
};
/// Which clang starts by itself.
const LINKER: Tool = Tool {
    name: "wasm-ld",
    beside: None,
    install: INSTALL,
};
/// Where Debian puts the C library for WebAssembly: below include/wasm32-wasi and lib/wasm32-wasi.
const SYSROOT: &str = "/usr";

pub(super) fn build(project: &Project) -> Result<Vec<u8>> {
    let clang = CLANG.find(&project.folder)?;
    LINKER.find(&project.folder)?;
    let sysroot = std::env::var_os("WASI_SYSROOT").map_or_else(|| PathBuf::from(SYSROOT), PathBuf::from);
    if !sysroot.join("include/wasm32-wasi/stdlib.h").exists() {
        bail!(
            "there is no C library for WebAssembly below {}; {INSTALL} installs it, and WASI_SYSROOT names another place",
            sysroot.display()
        );
    }
    let bindings = write_bindings(&project.folder, project.role)?;
    let sources = sources(&project.folder)?;
    let scratch = tempfile::tempdir().context("could not make a temporary folder")?;
    let made = scratch.path().join("plugin.wasm");
    let mut sysroot_option = std::ffi::OsString::from("--sysroot=");
    sysroot_option.push(&sysroot);
    let mut command = Command::new(clang);
    command
        .current_dir(&project.folder)
        .arg("--target=wasm32-wasi")
        .arg(sysroot_option)
        // A reactor: it has no main function and is called many times. Of the C library only what is called is linked.
        .args(["-mexec-model=reactor", "-nostdlib", "-Wl,--no-entry", "-Wl,--strip-all"])
        .args([
            "-std=c11",
            "-Oz",
            "-Wall",
            "-Wextra",
            "-Wno-unused-parameter",
            "-I",
            "bindings",
        ])
        .args(&bindings)
        .args(&sources)
        .args(["-lc", "-o"])
        .arg(&made);
    tool::run(&mut command)?;
    std::fs::read(&made).context("clang made no module")
}

/// Writes `bindings/` of a project: header, source, and an object with the types of the world. Gives the two that are linked.
pub(in crate::commands::plugin) fn write_bindings(project: &Path, role: Role) -> Result<Vec<PathBuf>> {
    let wit = project.join("wit");
    let (mut resolve, package) = contract::read(&wit)?;
    let world = resolve
        .select_world(&[package], Some(&world(role)))
        .map_err(|error| anyhow!("{}: {error:#}", wit.display()))?;
    let options = wit_bindgen_c::Opts {
        // A borrowed handle is given back when the function returns, without a line for it in each.
        autodrop_borrows: wit_bindgen_c::Enabled::Yes,
        ..wit_bindgen_c::Opts::default()
    };
    let mut files = Files::default();
    options
        .build()
        .generate(&mut resolve, world, &mut files)
        .map_err(|error| anyhow!("no C can be made of {}: {error:#}", wit.display()))?;
    let folder = project.join("bindings");
    std::fs::create_dir_all(&folder).with_context(|| format!("could not make {}", folder.display()))?;
    let mut linked = Vec::new();
    for (name, bytes) in files.iter() {
        let path = folder.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("could not write {}", path.display()))?;
        if !name.ends_with(".h") {
            linked.push(Path::new("bindings").join(name));
        }
    }
    Ok(linked)
}

/// The C files in `src/`, relative to the project.
fn sources(project: &Path) -> Result<Vec<PathBuf>> {
    let folder = project.join("src");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("could not read {}", folder.display()))?;
    let mut sources = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("could not read {}", folder.display()))?;
        if Path::new(&entry.file_name()).extension() == Some(OsStr::new("c")) {
            sources.push(Path::new("src").join(entry.file_name()));
        }
    }
    if sources.is_empty() {
        bail!("there is no C file in {}", folder.display());
    }
    sources.sort();
    Ok(sources)
}
