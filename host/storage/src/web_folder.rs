//! Files under given names in a folder that some web server serves: what servers boot over the network.
//!
//! Unlike artefacts, these names can be guessed and their bytes change: a server always asks for the same ones. A file
//! appears whole or not at all, and takes the place of an older one in one step. Nothing outside the folder can be reached,
//! whatever links lie in it.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use image::{Layout, SourceSet};
use rustix::fs::{AtFlags, Mode};

use crate::StorageError;
use crate::same::{SameError, same_bytes};
use crate::unfinished::{Existing, Unfinished, remove_leftovers, sync};

/// Files and folders are read by the web server's user.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// A file to be put there.
#[derive(Clone, Debug)]
pub struct NamedFile {
    /// `NAME` or `FOLDER/NAME`, of letters, digits and `.-_`, neither part hidden.
    pub path: String,
    /// Its bytes.
    pub layout: Layout,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct WebFolder(Arc<Root>);

struct Root {
    dir: Dir,
    path: PathBuf,
}

impl WebFolder {
    /// Opens the folder, which must exist. Blocks.
    pub fn open(root: &Path) -> Result<Self, StorageError> {
        let dir = Dir::open_ambient_dir(root, ambient_authority())
            .map_err(|error| StorageError::of_root(place(root), &error))?;
        let path = root.to_owned();
        Ok(Self(Arc::new(Root { dir, path })))
    }

    /// Puts the files there, one after the other; what has the right bytes already stays as it is.
    pub async fn put(&self, files: Vec<NamedFile>, sources: Arc<dyn SourceSet>) -> Result<(), StorageError> {
        self.run("write the files that servers boot", move |root| {
            files.iter().try_for_each(|file| root.put(file, &*sources))
        })
        .await
    }

    /// Whether each of the files is there with its bytes.
    pub async fn holds(&self, files: Vec<NamedFile>, sources: Arc<dyn SourceSet>) -> Result<bool, StorageError> {
        self.run("read the files that servers boot", move |root| {
            for file in &files {
                if !root.holds(file, &*sources)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await
    }

    /// Removes files, one after the other, and folders that this leaves empty. Absent is a success.
    pub async fn remove(&self, paths: Vec<String>) -> Result<(), StorageError> {
        self.run("remove the files that servers booted", move |root| {
            paths.iter().try_for_each(|path| root.remove(path))
        })
        .await
    }

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

impl Root {
    fn put(&self, file: &NamedFile, sources: &dyn SourceSet) -> Result<(), StorageError> {
        if self.holds(file, sources)? {
            return Ok(());
        }
        let (folder, name) = self.split(&file.path)?;
        let made;
        let dir = match folder {
            None => &self.dir,
            Some(folder) => {
                made = self.make(folder)?;
                &made
            }
        };
        let unfinished = Unfinished::create(dir).map_err(|error| self.error("create a file", error))?;
        let mode = std::fs::Permissions::from_mode(FILE_MODE);
        let set = unfinished.file().set_permissions(mode);
        set.map_err(|error| self.error("set the mode of a file", error))?;
        unfinished
            .write(&file.layout, sources, &mut |_| ())
            .map_err(|error| StorageError::of_write(place(&self.path), error))?;
        let named = unfinished.appear(OsStr::new(name), Existing::Replace);
        named.map_err(|error| self.error("name a file", error))
    }

    /// A link of that name does not count, wherever it leads.
    fn holds(&self, file: &NamedFile, sources: &dyn SourceSet) -> Result<bool, StorageError> {
        self.split(&file.path)?;
        match self.dir.symlink_metadata(&file.path) {
            Ok(found) if found.is_file() && found.len() == file.layout.size() => {}
            Ok(_) => return Ok(false),
            Err(error) if is_absent(&error) => return Ok(false),
            Err(error) => return Err(self.error("look for a file", error)),
        }
        let there = match self.dir.open(&file.path) {
            Ok(there) => there,
            Err(error) if is_absent(&error) => return Ok(false),
            Err(error) => return Err(self.error("read", error)),
        };
        match same_bytes(&mut there.into_std(), &file.layout, sources) {
            Ok(same) => Ok(same),
            Err(SameError::File(error)) => Err(self.error("read", error)),
            Err(SameError::Source(error)) => Err(StorageError::Source(error)),
        }
    }

    /// A folder for files, made if it is not there.
    fn make(&self, folder: &str) -> Result<Dir, StorageError> {
        match self.dir.create_dir(folder) {
            Ok(()) => {
                // What was made under a strict umask could not be read by the web server.
                let mode = Mode::from_raw_mode(FOLDER_MODE);
                rustix::fs::chmodat(&self.dir, folder, mode, AtFlags::empty())
                    .map_err(|error| self.error("set the mode of a folder", error.into()))?;
                sync(&self.dir).map_err(|error| self.error("sync", error))?;
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(self.error("make a folder", error)),
        }
        let dir = self.dir.open_dir(folder);
        dir.map_err(|error| self.error("open a folder", error))
    }

    fn remove(&self, path: &str) -> Result<(), StorageError> {
        let (folder, _) = self.split(path)?;
        match self.dir.remove_file(path) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(self.error("remove a file", error)),
        }
        let Some(folder) = folder else {
            return sync(&self.dir).map_err(|error| self.error("sync", error));
        };
        let dir = match self.dir.open_dir(folder) {
            Ok(dir) => dir,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(self.error("open a folder", error)),
        };
        // What a writer left that was killed must not keep the folder there.
        remove_leftovers(&dir).map_err(|error| self.error("list files", error))?;
        let emptied = match self.dir.remove_dir(folder) {
            Ok(()) => sync(&self.dir),
            // Others' files are in it, or somebody else removed it.
            Err(_) => sync(&dir),
        };
        emptied.map_err(|error| self.error("sync", error))
    }

    /// Folder and name of a path of ours.
    fn split<'a>(&self, path: &'a str) -> Result<(Option<&'a str>, &'a str), StorageError> {
        let legal = |part: &str| {
            let byte = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
            !part.is_empty() && part.len() <= 255 && !part.starts_with('.') && part.bytes().all(byte)
        };
        let parts = match path.split_once('/') {
            None => (None, path),
            Some((folder, name)) => (Some(folder), name),
        };
        if !parts.0.is_none_or(legal) || !legal(parts.1) {
            return Err(StorageError::Unusable {
                place: place(&self.path),
                reason: "a file that servers boot was given a name that is none".into(),
            });
        }
        Ok(parts)
    }

    fn error(&self, action: &'static str, source: io::Error) -> StorageError {
        StorageError::of_file(place(&self.path), action, source)
    }
}

/// Nothing of that name, or of its folder's.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn place(root: &Path) -> String {
    format!("the folder {}", root.display())
}
