//! What outlives the process: the bytes of versions in use, which of them decides, and which are in quarantine. Files in a
//! folder of this process's own, one JSON file for the choices; each is written whole and renamed into place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use model::Digest;
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, Role};
use crate::compiled::private_folder;
use crate::load::{Bytes, digest};
use crate::{LoadError, error::shortened};

/// Name of the file with the choices.
const CHOICES: &str = "active.json";

/// The folder.
pub(crate) struct Versions {
    folder: PathBuf,
    choices: Mutex<Choices>,
}

/// By role and entry, as `vmedia/acme.gen11-media`.
type Choices = BTreeMap<String, Choice>;

/// What is on record of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Choice {
    /// What the site file's component was when this was chosen: once it is another, that one is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    pub(crate) active: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_good: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) quarantined: BTreeMap<String, String>,
}

impl Choice {
    pub(crate) fn last_good(&self) -> Option<Digest> {
        self.last_good.as_ref()?.parse().ok()
    }

    pub(crate) fn quarantined(&self) -> BTreeMap<Digest, String> {
        let parsed = |(digest, why): (&String, &String)| Some((digest.parse().ok()?, why.clone()));
        self.quarantined.iter().filter_map(parsed).collect()
    }

    /// Which version decides, if the site file's component has this digest.
    pub(crate) fn active(&self, file: Digest) -> Digest {
        match &self.file {
            Some(then) if *then == file.to_string() => self.active.parse().unwrap_or(file),
            _ => file,
        }
    }
}

impl Versions {
    /// Opens the folder, which is made if there is none.
    pub(crate) fn open(folder: &Path) -> Result<Self, LoadError> {
        let failed = |remedy: &str, source| LoadError::Folder {
            place: folder.display().to_string(),
            remedy: remedy.to_owned(),
            source,
        };
        private_folder(folder).map_err(|error| failed("it must belong to this user alone", Some(error)))?;
        let choices = match fs::read(folder.join(CHOICES)) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let remedy = format!("{CHOICES} in it is damaged ({error}); move it away to start from the site file");
                failed(&remedy, None)
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Choices::new(),
            Err(error) => return Err(failed("it cannot be read", Some(error))),
        };
        Ok(Self {
            folder: folder.to_owned(),
            choices: Mutex::new(choices),
        })
    }

    pub(crate) fn choice(&self, role: Role, entry: &str) -> Option<Choice> {
        let choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        choices.get(&key(role, entry)).cloned()
    }

    /// The bytes of a version that was kept, if they are still what they were.
    pub(crate) fn bytes(&self, wanted: Digest) -> Option<Bytes> {
        let path = self.path(wanted);
        let bytes = fs::read(&path).ok()?;
        if digest(&bytes) != wanted {
            tracing::warn!("{} is damaged and not used", path.display());
            return None;
        }
        Some(Bytes {
            place: path.display().to_string(),
            digest: wanted,
            bytes: bytes.into(),
        })
    }

    /// Keeps the bytes of a version.
    pub(crate) fn keep(&self, version: &Bytes) -> io::Result<()> {
        let path = self.path(version.digest);
        match path.exists() {
            true => Ok(()),
            false => write(&path, &version.bytes),
        }
    }

    /// Notes what the catalog chose. Versions that nothing names any more are removed.
    pub(crate) fn note(&self, catalog: &Catalog) {
        let mut choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        let before = choices.clone();
        for entry in catalog.all().filter(|entry| !entry.active.built_in) {
            let (role, name) = (entry.config.role, &entry.name);
            let quarantined = entry.quarantined.iter();
            let choice = Choice {
                file: Some(entry.file.to_string()),
                active: entry.active.plugin.digest.to_string(),
                last_good: entry.last_good.as_ref().map(|good| good.plugin.digest.to_string()),
                quarantined: quarantined
                    .map(|(digest, why)| (digest.to_string(), shortened(why)))
                    .collect(),
            };
            choices.insert(key(role, name), choice);
        }
        if *choices == before {
            return;
        }
        let written = serde_json::to_vec_pretty(&*choices)
            .map_err(io::Error::other)
            .and_then(|json| write(&self.folder.join(CHOICES), &json));
        match written {
            Ok(()) => self.remove_others(&choices),
            Err(error) => tracing::warn!(
                "which plugin versions are used could not be noted in {}: {error}; the next start begins with the site file's",
                self.folder.display()
            ),
        }
    }

    fn remove_others(&self, choices: &Choices) {
        let named: BTreeSet<PathBuf> = choices
            .values()
            .flat_map(|choice| [Some(&choice.active), choice.last_good.as_ref(), choice.file.as_ref()])
            .flatten()
            .filter_map(|digest| digest.parse().ok())
            .map(|digest| self.path(digest))
            .collect();
        for file in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = file.path();
            if path.extension().is_some_and(|ending| ending == "wasm") && !named.contains(&path) {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn path(&self, digest: Digest) -> PathBuf {
        self.folder.join(format!("{}.wasm", digest.0))
    }
}

fn key(role: Role, entry: &str) -> String {
    format!("{role}/{entry}")
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{:08x}.new", rand::random::<u32>()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
