//! The web-root backend: files under a directory that some web server serves.
//!
//! A file appears whole or not at all (temporary file, fsync, rename, fsync of the directory), readable for everybody, and
//! only files whose names are artefact names are ever removed. Nothing outside the directory can be reached, whatever links
//! lie in it.

use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use image::WriteError;
use model::ArtefactName;
use rustix::fs::FlockOperation;

use crate::base_url::BaseUrl;
use crate::{Backend, Publication, Published, Renewal, Stat, StorageError};

/// Temporary files of ours: prefix, 16 hexadecimal digits, suffix. Hidden, so that no directory listing offers them.
const PART_PREFIX: &str = ".farrier-";
const PART_SUFFIX: &str = ".part";
/// Read by the web server's user.
const MODE: u32 = 0o644;
/// Bytes compared at a time.
const BLOCK: usize = 1 << 20;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct WebRoot(Arc<Root>);

struct Root {
    dir: Dir,
    path: PathBuf,
    base_url: BaseUrl,
}

impl WebRoot {
    /// Opens the directory `root`, which must exist, and removes what a crash left of unfinished files. Blocks.
    pub fn new(root: &Path, base_url: &str) -> Result<Self, StorageError> {
        let place = place(root);
        let base_url = BaseUrl::parse(base_url, &place)?;
        let dir = Dir::open_ambient_dir(root, ambient_authority()).map_err(|error| open_error(place, error))?;
        let root = Root {
            dir,
            path: root.to_owned(),
            base_url,
        };
        root.remove_leftovers()?;
        Ok(Self(Arc::new(root)))
    }

    /// Runs blocking work on the root.
    async fn run<T: Send + 'static>(
        &self,
        action: &'static str,
        work: impl FnOnce(&Root) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let root = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&root)).await;
        done.unwrap_or_else(|_| {
            Err(StorageError::Unusable {
                place: place(&self.0.path),
                reason: format!("the attempt to {action} was broken off; try again"),
            })
        })
    }
}

#[async_trait]
impl Backend for WebRoot {
    async fn publish(&self, publication: &Publication, _lifetime: Option<Duration>) -> Result<Published, StorageError> {
        let url = self.0.base_url.join(&publication.name);
        let publication = publication.clone();
        self.run("publish", move |root| root.publish(&publication)).await?;
        Ok(Published { url, expires: None })
    }

    async fn withdraw(&self, name: &ArtefactName) -> Result<(), StorageError> {
        let name = name.clone();
        self.run("remove", move |root| root.remove(name.expose())).await
    }

    async fn stat(&self, name: &ArtefactName) -> Result<Stat, StorageError> {
        let name = name.clone();
        self.run("stat", move |root| match root.dir.symlink_metadata(name.expose()) {
            Ok(found) if found.is_file() => Ok(Stat::Present(found.len())),
            Ok(_) => Ok(Stat::Absent),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Stat::Absent),
            Err(error) => Err(root.error("look for a file", error)),
        })
        .await
    }

    async fn renew(&self, name: &ArtefactName, _: Duration) -> Result<Renewal, StorageError> {
        Ok(match self.stat(name).await? {
            Stat::Present(_) => Renewal::Extended(None),
            Stat::Absent => Renewal::Unsupported,
        })
    }

    async fn check(&self) -> Result<(), StorageError> {
        self.run("check", |root| {
            let part = root.create_part()?;
            rustix::io::write(&part.file, b"x").map_err(|error| root.error("write", error.into()))?;
            Ok(())
        })
        .await
    }
}

/// A temporary file, locked while it is written and removed unless it was renamed.
struct Part<'a> {
    root: &'a Root,
    name: String,
    file: std::fs::File,
    kept: bool,
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // Best effort: what stays is removed at the next start.
            let _ = self.root.dir.remove_file(&self.name);
        }
    }
}

impl Root {
    fn publish(&self, publication: &Publication) -> Result<(), StorageError> {
        let name = publication.name.expose();
        if self.holds_already(publication)? {
            return Ok(());
        }
        let mut part = self.create_part()?;
        publication
            .layout
            .write_to(&*publication.sources, &part.file)
            .map_err(|error| match error {
                WriteError::Read(error) => StorageError::Source(error),
                WriteError::File(error) => self.error("write", error),
                other => self.error("write", io::Error::other(other)),
            })?;
        self.dir
            .rename(&part.name, &self.dir, name)
            .map_err(|error| self.error("rename", error))?;
        part.kept = true;
        self.sync()
    }

    /// Whether a file of that name holds these bytes. Other bytes are a conflict: a URL never changes what it means.
    fn holds_already(&self, publication: &Publication) -> Result<bool, StorageError> {
        let name = publication.name.expose();
        match self.dir.symlink_metadata(name) {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(self.conflict()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.error("look for a file", error)),
        }
        let file = self.dir.open(name).map_err(|error| self.error("read", error))?;
        match self.same_bytes(publication, &mut file.into_std())? {
            true => Ok(true),
            false => Err(self.conflict()),
        }
    }

    fn same_bytes(&self, publication: &Publication, file: &mut std::fs::File) -> Result<bool, StorageError> {
        let size = publication.layout.size();
        let found = file.metadata().map_err(|error| self.error("read", error))?;
        if found.len() != size {
            return Ok(false);
        }
        let (mut theirs, mut ours) = (vec![0; BLOCK], vec![0; BLOCK]);
        let mut at = 0;
        while at < size {
            let len = usize::try_from(size - at).map_or(BLOCK, |rest| rest.min(BLOCK));
            file.read_exact(&mut theirs[..len])
                .map_err(|error| self.error("read", error))?;
            publication
                .layout
                .read_at(&*publication.sources, at, &mut ours[..len])
                .map_err(StorageError::Source)?;
            if theirs[..len] != ours[..len] {
                return Ok(false);
            }
            at += len as u64;
        }
        Ok(true)
    }

    fn create_part(&self) -> Result<Part<'_>, StorageError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        loop {
            let chance = rand::random::<u64>();
            let name = format!("{PART_PREFIX}{chance:016x}{PART_SUFFIX}");
            let file = match self.dir.open_with(&name, &options) {
                Ok(file) => file.into_std(),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(self.error("create a file", error)),
            };
            let part = Part {
                root: self,
                name,
                file,
                kept: false,
            };
            part.file
                .set_permissions(std::fs::Permissions::from_mode(MODE))
                .map_err(|error| self.error("set the mode of a file", error))?;
            // Held until the file is closed, so that nobody who starts meanwhile takes it for a leftover. A file system
            // without locks (some network ones) loses only that protection.
            let _ = rustix::fs::flock(&part.file, FlockOperation::LockExclusive);
            let found = part.file.metadata();
            if found.map_err(|error| self.error("read", error))?.nlink() > 0 {
                return Ok(part);
            }
            // Somebody who started just now removed it between its creation and the lock.
        }
    }

    /// Removes temporary files that no live process holds.
    fn remove_leftovers(&self) -> Result<(), StorageError> {
        let entries = self.dir.entries().map_err(|error| self.error("list files", error))?;
        for entry in entries {
            let entry = entry.map_err(|error| self.error("list files", error))?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_part(name)) else {
                continue;
            };
            let Ok(file) = self.dir.open(name) else {
                continue;
            };
            let lock = FlockOperation::NonBlockingLockExclusive;
            if rustix::fs::flock(&file, lock).is_ok() {
                tracing::info!(file = name, "removing an unfinished file");
                self.remove(name)?;
            }
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        match self.dir.remove_file(name) {
            Ok(()) => self.sync(),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.error("remove a file", error)),
        }
    }

    /// Waits until names are on the disk.
    fn sync(&self) -> Result<(), StorageError> {
        // The handle that we hold may only name things (O_PATH); syncing takes one that may read.
        let dir = self.dir.open(".").map(cap_std::fs::File::into_std);
        match dir.and_then(|dir| dir.sync_all()) {
            Ok(()) => Ok(()),
            // Some file systems cannot sync a directory; there is nothing more that could be done.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => Ok(()),
            Err(error) => Err(self.error("sync", error)),
        }
    }

    fn conflict(&self) -> StorageError {
        StorageError::Conflict {
            place: place(&self.path),
        }
    }

    fn error(&self, action: &'static str, source: io::Error) -> StorageError {
        let place = place(&self.path);
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StorageError::Full {
                place,
                remedy: "free some space or raise the quota, then publish again".into(),
            },
            ErrorKind::FileTooLarge => StorageError::Full {
                place,
                remedy: "its file system or a limit refuses files that big; use another directory".into(),
            },
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StorageError::Forbidden {
                place,
                remedy: "let the user that runs farrier write there".into(),
            },
            _ => StorageError::Io { action, place, source },
        }
    }
}

fn is_part(name: &str) -> bool {
    name.strip_prefix(PART_PREFIX)
        .and_then(|rest| rest.strip_suffix(PART_SUFFIX))
        .is_some_and(|chance| chance.len() == 16 && chance.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn place(root: &Path) -> String {
    format!("the web root {}", root.display())
}

fn open_error(place: String, error: io::Error) -> StorageError {
    let reason = match error.kind() {
        ErrorKind::NotFound => "it does not exist; create it and let the web server serve it".into(),
        ErrorKind::NotADirectory => "it is not a directory".into(),
        ErrorKind::PermissionDenied => {
            return StorageError::Forbidden {
                place,
                remedy: "let the user that runs farrier read and write it".into(),
            };
        }
        _ => format!("it cannot be opened ({error})"),
    };
    StorageError::Unusable { place, reason }
}
