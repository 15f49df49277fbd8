//! Python: componentize-py puts the interpreter and the program into one component, with every import of WASI stubbed out.

use std::process::Command;

use anyhow::{Context, Result};

use super::tool::{self, Tool};
use crate::commands::plugin::contract::world;
use crate::commands::plugin::project::Project;

const COMPONENTIZE: Tool = Tool {
    name: "componentize-py",
    beside: Some(".venv/bin"),
    install: "`python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1` in the project",
};

pub(super) fn build(project: &Project) -> Result<Vec<u8>> {
    let tool = COMPONENTIZE.find(&project.folder)?;
    let scratch = tempfile::tempdir().context("could not make a temporary folder")?;
    let made = scratch.path().join("plugin.wasm");
    let mut command = Command::new(tool);
    command
        .current_dir(&project.folder)
        // The author's mistakes are no faults of the tool, whose own stack is of no use to them.
        .env("RUST_BACKTRACE", "0")
        .args(["--wit-path", "wit", "--world", &world(project.role)])
        .args(["componentize", "--stub-wasi", "app", "--output"])
        .arg(&made);
    tool::run(&mut command)?;
    std::fs::read(&made).context("componentize-py made no component")
}
