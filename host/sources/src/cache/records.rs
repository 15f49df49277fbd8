//! What is known of references, and of content by other digests than its name. Losing any of it costs a fetch.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Sha256;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use super::{Cache, Hold};
use crate::Checksum;

/// Biggest record that is read.
const RECORD_CAP: u64 = 64 << 10;

/// What is known of a reference.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    sha256: String,
    pub(crate) len: u64,
    /// The reference without its secrets, for people.
    #[serde(default)]
    shown: String,
    pub(crate) proof: Proof,
}

/// What shows that a reference still means the same content.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Proof {
    /// The file's identity and times.
    File {
        device: u64,
        inode: u64,
        modified: (i64, i64),
        changed: (i64, i64),
    },
    /// The server's validators, and when it was last asked (seconds since 1970).
    Http {
        etag: Option<String>,
        last_modified: Option<String>,
        checked: u64,
    },
    /// It was made from content that never changes.
    Derived,
}

impl Record {
    pub(crate) fn new(sha256: Sha256, len: u64, shown: &str, proof: Proof) -> Self {
        Self {
            sha256: sha256.to_string(),
            len,
            shown: shown.to_owned(),
            proof,
        }
    }

    pub(crate) fn sha256(&self) -> Option<Sha256> {
        self.sha256.parse().ok()
    }
}

impl Cache {
    fn record_path(&self, reference: &str) -> PathBuf {
        let name = Sha256(sha2::Sha256::digest(reference).into());
        self.dir.join("references").join(name.to_string())
    }

    /// What is known of a reference; only if its content is still there, and whole.
    pub(crate) fn record(&self, reference: &str) -> Option<(Record, Sha256, Arc<Hold>)> {
        let record = read_record(&self.record_path(reference))?;
        let sha256 = record.sha256()?;
        let hold = self.hold(&sha256).ok()??;
        (hold.len == record.len).then(|| (record, sha256, Arc::new(hold)))
    }

    /// Writes down what is known.
    pub(crate) fn note(&self, reference: &str, record: &Record) {
        let text = serde_json::to_vec(record).unwrap_or_default();
        self.write(&self.record_path(reference), &text);
    }

    fn digest_path(&self, checksum: &Checksum) -> PathBuf {
        self.dir
            .join("digests")
            .join(format!("{}-{}", checksum.algorithm(), checksum.hex()))
    }

    /// Which content has this checksum, as far as that is known.
    pub(crate) fn by_checksum(&self, checksum: &Checksum) -> Option<Sha256> {
        match checksum {
            Checksum::Sha256(sha256) => Some(*sha256),
            Checksum::Sha512(_) => {
                let text = read_small(&self.digest_path(checksum)).ok()?;
                std::str::from_utf8(&text).ok()?.trim().parse().ok()
            }
        }
    }

    /// Writes down that content has a checksum.
    pub(crate) fn note_checksum(&self, checksum: &Checksum, sha256: &Sha256) {
        if matches!(checksum, Checksum::Sha512(_)) {
            self.write(&self.digest_path(checksum), sha256.to_string().as_bytes());
        }
    }

    fn write(&self, path: &Path, text: &[u8]) {
        let write = || -> Result<(), String> {
            let mut file = self.temporary().map_err(|error| error.to_string())?;
            file.write_all(text).map_err(|error| error.to_string())?;
            file.persist(path).map_err(|error| error.error.to_string())?;
            Ok(())
        };
        if let Err(error) = write() {
            tracing::warn!(path = %path.display(), error, "a source will be fetched again next time");
        }
    }

    /// By what each content was fetched, without secrets.
    pub(crate) fn origins(&self) -> HashMap<Sha256, Vec<String>> {
        let mut origins: HashMap<Sha256, Vec<String>> = HashMap::new();
        let records = fs::read_dir(self.dir.join("references"));
        for record in records
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| read_record(&entry.path()))
        {
            if let Some(sha256) = record.sha256() {
                origins.entry(sha256).or_default().push(record.shown);
            }
        }
        for shown in origins.values_mut() {
            shown.sort();
            shown.dedup();
        }
        origins
    }

    /// Forgets what led to content that is gone.
    pub(super) fn forget_lost(&self) {
        let files = |folder| fs::read_dir(self.dir.join(folder)).into_iter().flatten().flatten();
        let lost = |sha256: Option<Sha256>| !sha256.is_some_and(|sha256| self.object(&sha256).exists());
        for path in files("references").map(|entry| entry.path()) {
            if lost(read_record(&path).and_then(|record| record.sha256())) {
                // Whoever could not remove it comes by again.
                let _removed = fs::remove_file(path);
            }
        }
        for path in files("digests").map(|entry| entry.path()) {
            let sha256 = read_small(&path)
                .ok()
                .and_then(|text| String::from_utf8(text).ok()?.trim().parse().ok());
            if lost(sha256) {
                let _removed = fs::remove_file(path);
            }
        }
    }
}

fn read_record(path: &Path) -> Option<Record> {
    serde_json::from_slice(&read_small(path).ok()?).ok()
}

fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    super::open(path)?.take(RECORD_CAP).read_to_end(&mut text)?;
    Ok(text)
}
