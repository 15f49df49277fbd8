//! Sources fetched from real files and from a server that says exactly what a test tells it to say.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod bounds;
mod files;
mod hostile;
mod images;
mod openstack;
mod openstack_sources;
#[path = "../../../../tests/support/peers.rs"]
mod peers;
mod processes;
mod real_openstack;
mod resume;
mod server;
mod tls;
mod web;

use std::path::{Path, PathBuf};

use image::SourceSet;
use model::Sha256;
use sources::{Sources, SourcesConfig};
use tempfile::TempDir;

/// A folder with the cache in `cache` and files that may be read in `files`.
pub(crate) struct Site {
    pub(crate) folder: TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("files")).unwrap();
        Self { folder }
    }

    pub(crate) fn config(&self) -> SourcesConfig {
        SourcesConfig {
            allowed_file_paths: vec![self.files()],
            allow_local_addresses: true,
            stall: std::time::Duration::from_millis(500),
            ..SourcesConfig::new(self.cache())
        }
    }

    pub(crate) fn sources(&self) -> Sources {
        Sources::new(self.config()).unwrap()
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    /// Writes a file that may be read, and returns its path as a reference.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.files().join(name);
        std::fs::write(&path, content).unwrap();
        text(&path)
    }

    /// What lies in the cache's folder for fetches under way.
    pub(crate) fn under_way(&self) -> usize {
        std::fs::read_dir(self.cache().join("tmp")).unwrap().count()
    }
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

pub(crate) fn sha256(content: &[u8]) -> Sha256 {
    use sha2::Digest;
    Sha256(sha2::Sha256::digest(content).into())
}

pub(crate) fn content(sources: &Sources, sha256: &Sha256) -> Vec<u8> {
    let source = sources.open(sha256).unwrap();
    let mut bytes = vec![0; usize::try_from(source.len()).unwrap()];
    source.read_at(0, &mut bytes).unwrap();
    bytes
}
