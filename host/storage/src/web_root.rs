//! The web-root backend: files under a directory that some web server serves.
//!
//! A file appears whole or not at all ([`Unfinished`]), readable for the web server, and only files whose names are artefact
//! names are ever removed. Nothing outside the directory can be reached, whatever links lie in it.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use model::ArtefactName;

use crate::base_url::BaseUrl;
use crate::same::{SameError, same_bytes};
use crate::unfinished::{Existing, Unfinished, remove_leftovers, sync};
use crate::{Backend, Publication, Published, Renewal, Stat, StorageError};

/// Read by the web server's user.
const MODE: u32 = 0o644;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct WebRoot(Arc<Root>);

struct Root {
    dir: Dir,
    path: PathBuf,
    base_url: BaseUrl,
    mode: u32,
}

impl WebRoot {
    /// [`WebRoot::open`] with files that everybody may read.
    pub fn new(root: &Path, base_url: &str) -> Result<Self, StorageError> {
        Self::open(root, base_url, MODE)
    }

    /// Opens the directory `root`, which must exist, and removes what a crash left of unfinished files; files get the
    /// permissions `mode`. Blocks.
    pub fn open(root: &Path, base_url: &str, mode: u32) -> Result<Self, StorageError> {
        let place = place(root);
        let base_url = BaseUrl::parse(base_url, &place)?;
        let dir =
            Dir::open_ambient_dir(root, ambient_authority()).map_err(|error| StorageError::of_root(place, &error))?;
        let root = Root {
            dir,
            path: root.to_owned(),
            base_url,
            mode,
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

    async fn names(&self) -> Result<Option<Vec<ArtefactName>>, StorageError> {
        self.run("list", |root| {
            let entries = root.dir.entries().map_err(|error| root.error("list files", error))?;
            let names = entries.filter_map(|entry| ArtefactName::parse(entry.ok()?.file_name().to_str()?));
            Ok(Some(names.collect()))
        })
        .await
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
            .map_err(|error| StorageError::of_write(place(&self.path), error))?;
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
        match same_bytes(&mut file.into_std(), &publication.layout, &*publication.sources) {
            Ok(true) => Ok(true),
            Ok(false) => Err(self.conflict()),
            Err(SameError::File(error)) => Err(self.error("read", error)),
            Err(SameError::Source(error)) => Err(StorageError::Source(error)),
        }
    }

    /// A file that the web server's user may read once it appears.
    fn create(&self) -> Result<Unfinished, StorageError> {
        let file = Unfinished::create(&self.dir).map_err(|error| self.error("create a file", error))?;
        file.file()
            .set_permissions(std::fs::Permissions::from_mode(self.mode))
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
        StorageError::of_file(place(&self.path), action, source)
    }
}

fn place(root: &Path) -> String {
    format!("the web root {}", root.display())
}
