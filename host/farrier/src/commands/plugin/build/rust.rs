//! Rust: cargo makes a core module; its types are in it, since `wit_bindgen::generate!` puts them there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::tool::{self, Tool};
use crate::commands::plugin::project::Project;

const TARGET: &str = "wasm32-unknown-unknown";

/// The one kind of cargo's messages that is read.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

pub(super) fn build(project: &Project) -> Result<Vec<u8>> {
    let rustup = "https://rustup.rs";
    let tool = |name| Tool {
        name,
        beside: None,
        install: rustup,
    };
    let cargo = tool("cargo").find(&project.folder)?;
    check_target(&tool("rustc").find(&project.folder)?, &project.folder)?;
    let mut command = Command::new(cargo);
    command
        .current_dir(&project.folder)
        .args(["build", "--release", "--target", TARGET, "--message-format"])
        .arg("json-render-diagnostics");
    let messages = tool::run(&mut command)?;
    let module = module(&messages).context("cargo built no module: is `crate-type` of the library [\"cdylib\"]?")?;
    std::fs::read(&module).with_context(|| format!("could not read {}", module.display()))
}

/// cargo's own words for a missing target do not say what to do about it.
fn check_target(rustc: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new(rustc);
    command
        .current_dir(folder)
        .args(["--print", "target-libdir", "--target", TARGET]);
    let libraries = String::from_utf8(tool::run(&mut command)?).context("rustc names a folder that is no UTF-8")?;
    if !Path::new(libraries.trim()).is_dir() {
        bail!("the Rust toolchain lacks the target {TARGET}; `rustup target add {TARGET}` installs it");
    }
    Ok(())
}

/// The module among what cargo says that it made; the last one is the package's own.
fn module(messages: &[u8]) -> Option<PathBuf> {
    let lines = messages.split(|byte| *byte == b'\n');
    let made = lines.filter_map(|line| serde_json::from_slice::<Message>(line).ok());
    let made = made.filter(|message| message.reason == "compiler-artifact");
    made.flat_map(|message| message.filenames)
        .rfind(|file| file.extension().is_some_and(|ending| ending == "wasm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_found_among_cargos_messages() {
        let messages = br#"{"reason":"compiler-artifact","filenames":["/t/libserde.rlib"]}
not json
{"reason":"compiler-artifact","filenames":["/t/slots.wasm"]}
{"reason":"build-finished","success":true}"#;
        assert_eq!(module(messages), Some(PathBuf::from("/t/slots.wasm")));
        assert_eq!(module(b"{}"), None);
    }
}
