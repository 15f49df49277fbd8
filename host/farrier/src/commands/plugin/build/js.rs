//! JavaScript: componentize-js puts the engine and the program into one component, with every part left out that would import WASI.

use std::process::Command;

use anyhow::{Context, Result};

use super::tool::{self, Tool};
use crate::commands::plugin::contract::world;
use crate::commands::plugin::project::Project;

const COMPONENTIZE: Tool = Tool {
    name: "componentize-js",
    beside: Some("node_modules/.bin"),
    install: "`npm install` in the project, or `npm install @bytecodealliance/componentize-js@0.23.0`,",
};

/// It is a script of Node's.
const NODE: Tool = Tool {
    name: "node",
    beside: None,
    install: "`apt-get install nodejs` (20 or newer)",
};

pub(super) fn build(project: &Project) -> Result<Vec<u8>> {
    NODE.find(&project.folder)?;
    let tool = COMPONENTIZE.find(&project.folder)?;
    let scratch = tempfile::tempdir().context("could not make a temporary folder")?;
    let made = scratch.path().join("plugin.wasm");
    let mut command = Command::new(tool);
    command
        .current_dir(&project.folder)
        .args(["src/plugin.js", "--wit", "wit", "--world-name", &world(project.role)])
        .arg("--out")
        .arg(&made)
        // The last option, since it takes all that follows.
        .args(["--disable", "stdio", "random", "clocks", "http", "fetch-event"]);
    tool::run(&mut command)?;
    std::fs::read(&made).context("componentize-js made no component")
}
