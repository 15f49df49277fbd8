//! JavaScript: componentize-qjs puts the engine and the program into one component, with every import of WASI stubbed out.

use std::process::Command;

use anyhow::{Context, Result};

use super::tool::{self, Tool};
use crate::commands::plugin::contract::world;
use crate::commands::plugin::project::Project;

const COMPONENTIZE: Tool = Tool {
    name: "componentize-qjs",
    beside: Some("node_modules/.bin"),
    install: "`npm install` in the project, or `npm install componentize-qjs@0.4.5`,",
};

/// It is a script of Node's.
const NODE: Tool = Tool {
    name: "node",
    beside: None,
    install: "`apt-get install nodejs` (18 or newer)",
};

pub(super) fn build(project: &Project) -> Result<Vec<u8>> {
    NODE.find(&project.folder)?;
    let tool = COMPONENTIZE.find(&project.folder)?;
    let scratch = tempfile::tempdir().context("could not make a temporary folder")?;
    let made = scratch.path().join("plugin.wasm");
    let mut command = Command::new(tool);
    command
        .current_dir(&project.folder)
        .args(["--wit", "wit", "--world", &world(project.role)])
        // Without `--sync` the component would want a feature that makes every call dearer, and that the host leaves off.
        .args(["--js", "src/plugin.js", "--stub-wasi", "--sync", "--output"])
        .arg(&made);
    tool::run(&mut command)?;
    std::fs::read(&made).context("componentize-qjs made no component")
}
