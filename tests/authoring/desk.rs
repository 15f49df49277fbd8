//! An author's desk: a folder, the binary on PATH, and package tools that fetch nothing but what the set-up fetched.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// In the place of apt-get, which only root may use: what the guide says to install must be installed.
const APT_GET: &str = r#"#!/bin/sh
[ "$1" = install ] || { echo "apt-get $1: the guide has no business with that" >&2; exit 1; }
shift
for package; do
    case $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2> /dev/null) in
    ii*) ;;
    *) echo "the Debian package $package is not installed; \`make setup\` installs it" >&2; exit 1 ;;
    esac
done
"#;

/// Where somebody writes a plugin.
pub(crate) struct Desk {
    folder: tempfile::TempDir,
    /// The tools of Python and JavaScript are on PATH, so that a project need not install them.
    tools: bool,
}

impl Desk {
    /// With nothing but the binary, and what a machine has.
    pub(crate) fn bare() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let bin = folder.path().join("bin");
        std::fs::create_dir_all(&bin).expect("a folder");
        std::fs::create_dir(folder.path().join("work")).expect("a folder");
        symlink(env!("CARGO_BIN_EXE_farrier"), bin.join("farrier")).expect("a link");
        let apt_get = bin.join("apt-get");
        std::fs::write(&apt_get, APT_GET).expect("a script");
        std::fs::set_permissions(&apt_get, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        Self { folder, tools: false }
    }

    /// With the tools of every language.
    pub(crate) fn equipped() -> Self {
        Self {
            tools: true,
            ..Self::bare()
        }
    }

    /// The folder to work in.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Folders of PATH, the binary's first.
    pub(crate) fn path(&self) -> Vec<PathBuf> {
        let mut path = vec![self.folder.path().join("bin")];
        if self.tools {
            path.extend([lab("PLUGIN_PYTHON"), lab("PLUGIN_JS")]);
        }
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        path
    }

    /// A command at the desk.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.work()).stdin(Stdio::null()).env_clear();
        for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "PYENV_ROOT"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let path = std::env::join_paths(self.path()).expect("folders without colons");
        command
            .env("PATH", path)
            .env("LC_ALL", "C.UTF-8")
            // What the workspace itself is built of is at hand.
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", target())
            .env("PIP_NO_INDEX", "1")
            .env("PIP_FIND_LINKS", lab("PLUGIN_WHEELS"))
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .env("npm_config_cache", lab("PLUGIN_NPM_CACHE"))
            .env("npm_config_offline", "true")
            .env("npm_config_update_notifier", "false");
        command
    }

    /// `farrier plugin ARGUMENTS`, whose exit code is this one; gives both outputs.
    #[track_caller]
    pub(crate) fn plugin(&self, arguments: &[&str], exit_code: i32) -> (String, String) {
        let output = self.command("farrier").arg("plugin").args(arguments).output();
        let output = output.expect("the binary starts");
        let (out, err) = both(&output);
        assert_eq!(
            output.status.code(),
            Some(exit_code),
            "plugin {arguments:?}\n{out}\n{err}"
        );
        (out, err)
    }

    /// Builds a project, looks at what was built, and rehearses it; gives what `inspect` says.
    #[track_caller]
    pub(crate) fn build_and_rehearse(&self, project: &Path, id: &str) -> Value {
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        self.plugin(&["build", &text(project)], 0);
        let component = text(&project.join(format!("{id}.wasm")));
        let (about, _) = self.plugin(&["inspect", "-o", "json", &component], 0);
        let about: Value = serde_json::from_str(&about).expect("JSON");
        assert_eq!(about["id"], id, "{about}");
        assert_eq!(about["compatible"]["loads"], true, "{about}");
        let mut scenarios: Vec<String> = std::fs::read_dir(project.join("scenarios"))
            .expect("scenarios")
            .map(|entry| text(&entry.expect("an entry").path()))
            .collect();
        scenarios.sort();
        assert_eq!(
            about["scenarios"].as_array().map(Vec::len),
            Some(scenarios.len()),
            "{about}"
        );
        let mut arguments = vec!["test"];
        arguments.extend(scenarios.iter().map(String::as_str));
        self.plugin(&arguments, 0);
        about
    }
}

/// What a command said.
pub(crate) fn both(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A place that the set-up names.
pub(crate) fn lab(key: &str) -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.lab/lab.env");
    let path = std::env::var_os("FARRIER_LAB").map_or(default, PathBuf::from);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("the lab is not set up: run `make setup` ({}: {error})", path.display()));
    let pairs: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
    let value = pairs.get(key);
    let value = value.unwrap_or_else(|| panic!("the lab is an old one without {key}: run `make setup` again"));
    PathBuf::from(value)
}

/// One for all Rust plugins of these tests, so that their dependencies are compiled once; apart from the workspace's, which the
/// outer cargo may hold.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("authoring")
}
