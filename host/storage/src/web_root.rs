//! The web-root backend: files under a directory that some web server serves.
//!
//! A file appears whole or not at all ([`Unfinished`]), readable for everybody, and only files whose names are artefact names are ever removed. Nothing outside the directory can be reached, whatever links
//! lie in it.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use image::WriteError;
use model::ArtefactName;

use crate::base_url::BaseUrl;
use crate::unfinished::{Existing, Unfinished, remove_leftovers, sync};
use crate::{Backend, Publication, Published, Renewal, Stat, StorageError};

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
        remove_leftovers(&root.dir).map_err(|error| root.error("list files", error))?;
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
            let file = root.create()?;
            rustix::io::write(file.file(), b"x").map_err(|error| root.error("write", error.into()))?;
            Ok(())
        })
        .await
    }
}

impl Root {
    fn publish(&self, publication: &Publication) -> Result<(), StorageError> {
        let name = publication.name.expose();
        if self.holds_already(publication)? {
            return Ok(());
        }
        let file = self.create()?;
        file.write(&publication.layout, &*publication.sources, &mut |_| ())
            .map_err(|error| match error {
                WriteError::Read(error) => StorageError::Source(error),
                WriteError::File(error) => self.error("write", error),
                other => self.error("write", io::Error::other(other)),
            })?;
        match file.appear(OsStr::new(name), Existing::Keep) {
            // Another conductor published it meanwhile.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match self.holds_already(publication)? {
                true => Ok(()),
                false => Err(self.error("name a file", error)),
            },
            appeared => appeared.map_err(|error| self.error("name a file", error)),
        }
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

    /// A file that the web server's user may read once it appears.
    fn create(&self) -> Result<Unfinished, StorageError> {
        let file = Unfinished::create(&self.dir).map_err(|error| self.error("create a file", error))?;
        file.file()
            .set_permissions(std::fs::Permissions::from_mode(MODE))
            .map_err(|error| self.error("set the mode of a file", error))?;
        Ok(file)
    }

    fn remove(&self, name: &str) -> Result<(), StorageError> {
        match self.dir.remove_file(name) {
            Ok(()) => sync(&self.dir).map_err(|error| self.error("sync", error)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.error("remove a file", error)),
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
