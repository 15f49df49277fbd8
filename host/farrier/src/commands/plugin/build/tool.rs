//! Finding a tool and running it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use crate::output;

/// Most lines of a failed tool's words that are shown.
const MAX_LINES: usize = 60;

/// A tool and how one gets it.
pub(super) struct Tool {
    /// Its command.
    pub(super) name: &'static str,
    /// Where it is looked for before PATH: below the project or a folder above it.
    pub(super) beside: Option<&'static str>,
    /// How to install it.
    pub(super) install: &'static str,
}

impl Tool {
    /// Where it is.
    pub(super) fn find(&self, project: &Path) -> Result<PathBuf> {
        let project = project
            .canonicalize()
            .with_context(|| format!("could not find {}", project.display()))?;
        let beside = self.beside.iter().flat_map(|beside| {
            let at = move |folder: &Path| folder.join(beside).join(self.name);
            project.ancestors().map(at).collect::<Vec<_>>()
        });
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).map(|folder| folder.join(self.name));
        beside.chain(on_path).find(|path| is_program(path)).ok_or_else(|| {
            let places = match self.beside {
                Some(beside) => format!("neither in {beside} of the project nor on PATH"),
                None => "not on PATH".to_owned(),
            };
            anyhow!("`{}` is {places}; {} installs it", self.name, self.install)
        })
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Runs a command to its end and gives what it wrote to standard output; if it fails, what it said is shown.
pub(super) fn run(command: &mut Command) -> Result<Vec<u8>> {
    let name = Path::new(command.get_program()).file_name();
    let name = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let output = command
        .stdin(std::process::Stdio::null())
        .output()
        .with_context(|| format!("could not start {name}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().collect();
    for line in &lines[lines.len().saturating_sub(MAX_LINES)..] {
        output::note(line);
    }
    bail!("{name} failed ({}); what it said stands above", output.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: Tool = Tool {
        name: "farrier-no-such-tool",
        beside: Some("bin"),
        install: "`make tool`",
    };

    #[test]
    fn a_tool_that_is_missing_is_named_with_how_to_get_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = NOWHERE.find(folder.path()).unwrap_err().to_string();
        assert_eq!(
            error,
            "`farrier-no-such-tool` is neither in bin of the project nor on PATH; `make tool` installs it"
        );
    }

    #[test]
    fn a_tool_is_found_beside_the_project_and_above_it_if_it_can_be_run() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("plugins/slots");
        std::fs::create_dir_all(&project).unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        let tool = folder.path().join("bin").join(NOWHERE.name);
        std::fs::write(&tool, "").unwrap();
        assert!(NOWHERE.find(&project).is_err(), "nobody may run it");
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(NOWHERE.find(&project).unwrap(), tool.canonicalize().unwrap());
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_its_name() {
        assert_eq!(run(Command::new("echo").arg("a")).unwrap(), b"a\n");
        let error = run(&mut Command::new("false")).unwrap_err().to_string();
        assert!(error.starts_with("false failed (exit status: 1)"), "{error}");
    }
}
