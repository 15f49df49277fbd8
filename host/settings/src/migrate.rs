//! The site file that says what these files say.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use model::Secret;

use crate::entries::{Entry, Key, Plain, Quoted};
use crate::machine::Machine;
use crate::{Files, Loaded, Origin, Overrides, Settings};

/// Where secrets go that stand in `ironic.conf` itself.
#[derive(Clone, Debug)]
pub enum Secrets {
    /// Nowhere: a file with them is not what was asked for.
    Refuse,
    /// Into the site file.
    Inline,
    /// Into files of their own in this folder, whose names the site file has.
    Folder(PathBuf),
}

/// A site file, and the files of secrets that it names.
#[derive(Clone, Debug)]
pub struct Migrated {
    /// Text of `farrier.toml`. With [`Secrets::Inline`] it holds secrets.
    pub toml: Secret,
    /// Files to write, for their owner alone.
    pub secrets: BTreeMap<PathBuf, Secret>,
}

/// The site file would hold these secrets.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{} would stand in the site file itself", .names.join(", "))]
pub struct SecretsInTheOpen {
    /// Full names of the settings.
    pub names: Vec<String>,
}

impl Loaded {
    /// A site file that alone gives the same settings on this machine.
    pub fn migrated(&self, machine: &Machine, secrets: &Secrets) -> Result<Migrated, SecretsInTheOpen> {
        let defaults = Settings::load_on(&Files::default(), &Overrides::default(), machine);
        let defaults: BTreeMap<String, Plain> = match defaults {
            Ok(loaded) => loaded.settings.entries().into_iter().collect(),
            Err(_) => BTreeMap::new(),
        };
        let is_said = |entry: &Entry| {
            let differs = defaults.get(&entry.name) != Some(&entry.value);
            entry.value != Plain::Unset && (differs || entry.origin != Origin::Default)
        };
        let entries = self.entries().into_iter().filter(is_said);
        let mut writer = Writer {
            loaded: self,
            choice: secrets,
            text: String::new(),
            section: String::new(),
            files: BTreeMap::new(),
            in_the_open: Vec::new(),
        };
        for entry in entries {
            writer.entry(&entry);
        }
        if !writer.in_the_open.is_empty() {
            return Err(SecretsInTheOpen {
                names: writer.in_the_open,
            });
        }
        Ok(Migrated {
            toml: Secret::new(writer.text),
            secrets: writer.files,
        })
    }
}

struct Writer<'a> {
    loaded: &'a Loaded,
    choice: &'a Secrets,
    text: String,
    /// The table that lines go into now: "", "images", "backend.2".
    section: String,
    files: BTreeMap<PathBuf, Secret>,
    in_the_open: Vec<String>,
}

impl Writer<'_> {
    fn entry(&mut self, entry: &Entry) {
        let parts: Vec<&str> = entry.name.split('.').collect();
        let (section, key) = match parts.as_slice() {
            [list @ ("backend" | "plugin"), place, key @ ..] => (format!("{list}.{place}"), key),
            [key] => (String::new(), std::slice::from_ref(key)),
            [section, key @ ..] => ((*section).to_owned(), key),
            [] => return,
        };
        if section != self.section {
            let header = match section.split_once('.') {
                Some((list, _)) => format!("\n[[{list}]]\n"),
                None => format!("\n[{section}]\n"),
            };
            self.text.push_str(&header);
            self.section = section;
        }
        let keys: Vec<String> = key.iter().map(|key| Key(key).to_string()).collect();
        let key = keys.join(".");
        match &entry.value {
            Plain::Secret(secret) => self.secret(entry, &key, secret),
            value => self.line(&key, value, &entry.origin),
        }
    }

    fn secret(&mut self, entry: &Entry, key: &str, secret: &Secret) {
        if let Some(file) = self.loaded.secret_files.get(&entry.name) {
            return self.line(&format!("{key}-file"), &Plain::from(file), &entry.origin);
        }
        match self.choice {
            Secrets::Refuse => self.in_the_open.push(entry.name.clone()),
            Secrets::Inline => {
                let value = Quoted(secret.expose()).to_string();
                self.push(key, &value, &entry.origin);
            }
            Secrets::Folder(folder) => {
                let file = folder.join(&entry.name);
                self.line(&format!("{key}-file"), &Plain::from(&file), &entry.origin);
                self.files.insert(file, Secret::new(format!("{}\n", secret.expose())));
            }
        }
    }

    fn line(&mut self, key: &str, value: &Plain, origin: &Origin) {
        self.push(key, &value.to_string(), origin);
    }

    fn push(&mut self, key: &str, value: &str, origin: &Origin) {
        let comment = match origin {
            Origin::Option { file, line, option } => format!("  # {}:{line} {option}", name(file)),
            Origin::File { .. } | Origin::CommandLine(_) | Origin::Default => String::new(),
        };
        // Writing into a text cannot fail.
        let _ = writeln!(self.text, "{key} = {value}{comment}");
    }
}

/// A path for a comment, which must not end early.
fn name(path: &Path) -> String {
    path.to_string_lossy().replace(|c: char| c.is_control(), "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};

    use super::*;
    use crate::ironic::table::{self, Fate};
    use crate::oslo::option::Kind;

    fn machine() -> Machine {
        Machine {
            host_name: "rack-7.example".into(),
            address: "10.1.10.30".parse().unwrap(),
        }
    }

    /// What an option could be set to, mostly sensible.
    fn value(kind: Kind) -> BoxedStrategy<String> {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            prop::sample::select(words).boxed()
        };
        match kind {
            Kind::Text | Kind::Texts => of(&[
                "rack-7",
                "/srv/x y",
                "http://10.0.0.1:8080/a/",
                "https://[2001:db8::1]/b",
                "True",
                "no",
                "10.0.0.9",
                "a \"b\" \\c %default% é",
                "11111111-2222-3333-4444-555555555555",
                "glance://11111111-2222-3333-4444-555555555555",
                "file:///srv/k",
                "password",
                "$$",
                "",
            ]),
            Kind::Choice(words) => of(words),
            Kind::Boolean => of(&["True", "false", "on"]),
            Kind::Whole(..) => of(&["0", "1", "420", "443", "900", "90", "3600", "100000", "-1", ""]),
            Kind::Fraction(_) => of(&["2.0"]),
            Kind::Uri => of(&["http://10.0.0.1/httpboot", "https://web.example:8443"]),
            Kind::Host => of(&["0.0.0.0", "10.0.0.7", "127.0.0.1", "::", "localhost"]),
            Kind::List(_) => of(&["ilo,redfish", "ilo", "ipmi", "/srv/a,/srv/b", "public,internal", ""]),
            Kind::Dict | Kind::Dicts => of(&["x86_64:http://i/k,aarch64:/srv/k", "x86_64:a b", ""]),
        }
    }

    fn assignment() -> impl Strategy<Value = String> {
        let rows: Vec<_> = table::rows()
            .filter(|row| !matches!(row.fate, Fate::Instead(_)))
            .collect();
        prop::sample::select(rows).prop_flat_map(|row| {
            let names = row.opt.others.iter().map(|other| (other.group, other.name));
            let names: Vec<_> = std::iter::once((row.opt.group, row.opt.name)).chain(names).collect();
            (prop::sample::select(names), value(row.opt.kind))
                .prop_map(|((group, name), value)| format!("[{group}]\n{name} = {value}\n"))
        })
    }

    /// Settings of a site file that may stand beside it.
    fn site() -> impl Strategy<Value = String> {
        let line = prop::sample::select(vec![
            "images.listen = '127.0.0.1:7'",
            "images.cache.max-age-minutes = 5",
            "conductor.lease-s = 20",
            "api.auth = 'none'",
            "agent.urls = []",
            "store.kind = 'sqlite'",
            "bmc.port = 8443",
            "security.allow-local-addresses = true",
            "plugin = [{ role = 'vmedia', component = '/etc/hostname', grant = { bmc = [] }, match = { 'a.b' = '1' } }]",
            "netboot.bootfile-by-arch.'x y' = 'z'",
        ]);
        prop::collection::vec(line, 0..3).prop_map(|mut lines| {
            lines.sort_unstable();
            lines.dedup();
            lines.join("\n")
        })
    }

    /// The same settings, by the site file alone.
    fn check(loaded: &Loaded, secrets: &Secrets, folder: &Path) {
        let migrated = loaded.migrated(&machine(), secrets).unwrap();
        for (path, secret) in &migrated.secrets {
            std::fs::write(path, secret.expose()).unwrap();
        }
        let file = folder.join("migrated.toml");
        std::fs::write(&file, migrated.toml.expose()).unwrap();
        let files = Files {
            site: Some(file),
            ironic: Vec::new(),
        };
        let again = Settings::load_on(&files, &Overrides::default(), &machine())
            .unwrap_or_else(|error| panic!("{error}\n{}", migrated.toml.expose()));
        assert_eq!(again.settings, loaded.settings, "\n{}", migrated.toml.expose());
        let printed = format!("{migrated:?} {:?}", again.settings);
        assert!(!printed.contains("hunter2"), "{printed}");
    }

    const CREDENTIALS: &str =
        "[swift]\nauth_url = http://10.0.0.2:5000\nusername = ironic\npassword = hunter2\\$x\nproject_name = service\n";
    const WEB: &str = "[ilo]\nuse_web_server_for_images = yes\n[deploy]\nhttp_url = http://10.0.0.3/httpboot/\n";

    #[test]
    fn a_migrated_site_file_gives_the_same_settings() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = folder.path().join("secrets");
        std::fs::create_dir(&secrets).unwrap();
        let base = prop::sample::select(vec![CREDENTIALS, WEB]);
        let cases = (base, prop::collection::vec(assignment(), 0..12), site());
        let cases_asked = std::env::var("PROPTEST_CASES").map_or(400, |cases| cases.parse().unwrap());
        let mut runner = TestRunner::new(Config::with_cases(cases_asked));
        let good = std::cell::Cell::new(0);
        let outcome = runner.run(&cases, |(base, assignments, site)| {
            let ironic = folder.path().join("ironic.conf");
            std::fs::write(&ironic, format!("{base}{}", assignments.concat())).unwrap();
            let file = folder.path().join("farrier.toml");
            std::fs::write(&file, site).unwrap();
            let files = Files {
                site: Some(file),
                ironic: vec![ironic],
            };
            match Settings::load_on(&files, &Overrides::default(), &machine()) {
                Ok(loaded) => {
                    good.set(good.get() + 1);
                    check(&loaded, &Secrets::Inline, folder.path());
                    check(&loaded, &Secrets::Folder(secrets.clone()), folder.path());
                }
                Err(error) => {
                    for problem in &error.problems {
                        prop_assert!(problem.origin.place().is_some(), "no place: {problem}");
                    }
                    prop_assert!(!error.to_string().contains("hunter2"));
                }
            }
            Ok(())
        });
        outcome.unwrap();
        assert!(
            good.get() > 100,
            "only {} of the sets of settings could be used",
            good.get()
        );
    }

    #[test]
    fn secrets_go_into_the_site_file_only_where_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let ironic = folder.path().join("ironic.conf");
        std::fs::write(&ironic, CREDENTIALS).unwrap();
        let files = Files {
            site: None,
            ironic: vec![ironic],
        };
        let loaded = Settings::load_on(&files, &Overrides::default(), &machine()).unwrap();
        let refused = loaded.migrated(&machine(), &Secrets::Refuse).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "backend.1.password would stand in the site file itself"
        );
        let there = loaded
            .migrated(&machine(), &Secrets::Folder("/etc/farrier".into()))
            .unwrap();
        assert!(
            there
                .toml
                .expose()
                .contains("password-file = \"/etc/farrier/backend.1.password\"")
        );
        assert_eq!(
            there.secrets[Path::new("/etc/farrier/backend.1.password")].expose(),
            "hunter2$x\n"
        );
    }
}
