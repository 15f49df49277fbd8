//! Files of Ironic, good and bad: what becomes of them, and every word that an operator is told about them.
#![expect(clippy::unwrap_used, reason = "a test fails where it fails")]

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use expect_test::Expect;
use settings::{Files, Loaded, Machine, Origin, Overrides, Settings, SettingsError};

mod backends;
mod hostile;
mod places;
mod samples;
mod several;
mod words;

/// Credentials, for tests of something else: without, there is nowhere to publish to.
const SWIFT: &str =
    "[swift]\nauth_url = http://10.0.0.2:5000\nusername = ironic\npassword = hunter2\nproject_name = service\n";

fn machine() -> Machine {
    Machine {
        host_name: "rack-7.example".into(),
        address: "10.1.10.30".parse::<IpAddr>().unwrap(),
    }
}

/// A folder with settings files in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn load(&self, site: Option<&str>, ironic: &[&str]) -> Result<Loaded, SettingsError> {
        let files = Files {
            site: site.map(|name| self.path(name)),
            ironic: ironic.iter().map(|name| self.path(name)).collect(),
        };
        Settings::load_on(&files, &Overrides::default(), &machine())
    }

    /// A text of ours without the name of the folder.
    fn plain(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.0.path().display()), "")
    }
}

fn load(text: &str) -> Result<Loaded, SettingsError> {
    let folder = Folder::new();
    folder.write("ironic.conf", text);
    folder.load(None, &["ironic.conf"])
}

fn good(text: &str) -> Loaded {
    load(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str, expected: Expect) {
    let folder = Folder::new();
    folder.write("ironic.conf", text);
    let error = folder.load(None, &["ironic.conf"]).unwrap_err();
    expected.assert_eq(&folder.plain(&error.to_string()));
}

/// The warnings, but for those that every such site gets.
fn warned(text: &str, expected: Expect) {
    let folder = Folder::new();
    folder.write("ironic.conf", text);
    let loaded = folder.load(None, &["ironic.conf"]).unwrap();
    expected.assert_eq(&folder.plain(&warnings(&loaded)));
}

fn warnings(loaded: &Loaded) -> String {
    let own = loaded
        .warnings
        .iter()
        .filter(|warning| warning.origin != Origin::Default);
    own.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// One setting: what it is, and where it came from.
fn entry(loaded: &Loaded, name: &str) -> String {
    let found = loaded.entries().into_iter().find(|entry| entry.name == name);
    let entry = found.unwrap_or_else(|| panic!("there is no setting {name}"));
    let place = match &entry.origin {
        Origin::Option { line, option, .. } => format!("line {line}, {option}"),
        other => other.to_string(),
    };
    format!("{} ({place})", entry.value)
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ironic").join(name)
}
