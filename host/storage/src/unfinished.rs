//! A file that nobody can find until it is whole: how every image that is written gets its name.
//!
//! Where the file system knows files without names (`O_TMPFILE`: ext4, XFS, btrfs, tmpfs) nothing is left behind however
//! the process ends. Elsewhere it is a hidden file, locked while it is written, which the next one who writes there removes
//! if nobody holds it any more.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use image::{Layout, SourceSet, WriteError, Written};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RawDir, RenameFlags};
use rustix::io::Errno;

/// Names of files that are not whole: prefix, 16 hexadecimal digits, suffix. Hidden, so that no listing offers them.
const PREFIX: &str = ".farrier-";
const SUFFIX: &str = ".part";
/// Where files without a name can be named through; absent in some sandboxes.
const OPEN_FILES: &str = "/proc/self/fd";

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It stays, and the new one does not appear: `AlreadyExists`.
    Keep,
    /// The new one takes its place in one step.
    Replace,
}

/// See the module. Dropped before [`Unfinished::appear`], it is gone.
#[derive(Debug)]
pub struct Unfinished {
    folder: OwnedFd,
    file: File,
    /// Its hidden name, where the file system wants one.
    hidden: Option<String>,
}

impl Unfinished {
    /// Begins an empty file in `folder`, readable and writable as far as the process's umask lets it be.
    pub fn create(folder: impl AsFd) -> io::Result<Self> {
        let folder = folder.as_fd().try_clone_to_owned()?;
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        if Path::new(OPEN_FILES).exists() {
            match rustix::fs::openat(&folder, ".", flags, mode()) {
                Ok(file) => {
                    let file = file.into();
                    lock(&file);
                    return Ok(Self {
                        folder,
                        file,
                        hidden: None,
                    });
                }
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Self::create_hidden(folder)
    }

    fn create_hidden(folder: OwnedFd) -> io::Result<Self> {
        remove_leftovers(&folder)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let name = chance_name();
            let file: File = match rustix::fs::openat(&folder, &name, flags, mode()) {
                Ok(file) => file.into(),
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            };
            let unfinished = Self {
                folder: folder.try_clone()?,
                file,
                hidden: Some(name),
            };
            lock(&unfinished.file);
            if unfinished.file.metadata()?.nlink() > 0 {
                return Ok(unfinished);
            }
            // Somebody removed it between its creation and the lock.
        }
    }

    /// The file, to be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Fills it with an image and waits until that is on the disk. `progress` hears how many bytes are in it.
    pub fn write(
        &self,
        layout: &Layout,
        sources: &dyn SourceSet,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Written, WriteError> {
        layout.write_with(sources, &self.file, progress)
    }

    /// Gives it its name in its folder, for good: the name is on the disk when this returns. What [`Unfinished::write`]
    /// wrote is on the disk already.
    pub fn appear(mut self, name: &OsStr, existing: Existing) -> io::Result<()> {
        self.name(name, existing)?;
        self.hidden = None;
        sync(&self.folder)
    }

    fn name(&mut self, name: &OsStr, existing: Existing) -> io::Result<()> {
        if self.hidden.is_none() {
            match self.link(name) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && existing == Existing::Replace => {}
                done => return done,
            }
            // A link takes nobody's place; a rename does.
            loop {
                let hidden = chance_name();
                match self.link(OsStr::new(&hidden)) {
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                    done => done?,
                }
                self.hidden = Some(hidden);
                break;
            }
        }
        let hidden = self.hidden.as_deref().expect("it was named just now if it had no name");
        let flags = match existing {
            Existing::Replace => RenameFlags::empty(),
            Existing::Keep => RenameFlags::NOREPLACE,
        };
        match rustix::fs::renameat_with(&self.folder, hidden, &self.folder, name, flags) {
            // File systems that cannot rename so may know links, which take nobody's place either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if existing == Existing::Keep => {
                rustix::fs::linkat(&self.folder, hidden, &self.folder, name, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(&self.folder, hidden, AtFlags::empty())?)
            }
            done => Ok(done?),
        }
    }

    /// Gives the file a name, or one more.
    fn link(&self, name: &OsStr) -> io::Result<()> {
        // open(2), O_TMPFILE: how a file without a name gets one.
        let unnamed = format!("{OPEN_FILES}/{}", self.file.as_raw_fd());
        Ok(rustix::fs::linkat(
            CWD,
            unnamed,
            &self.folder,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )?)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // Best effort: what stays is removed by the next one who writes here.
            let _ = rustix::fs::unlinkat(&self.folder, hidden.as_str(), AtFlags::empty());
        }
    }
}

/// Held until the file is closed, so that nobody takes its hidden name for a leftover. A file system without locks (some
/// network ones) loses only that protection.
fn lock(file: &File) {
    let _ = rustix::fs::flock(file, FlockOperation::LockExclusive);
}

/// Removes hidden files of writers that are gone.
pub(crate) fn remove_leftovers(folder: impl AsFd) -> io::Result<()> {
    let listed = rustix::fs::openat(
        &folder,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        mode(),
    )?;
    let mut buffer = Vec::with_capacity(8192);
    let mut entries = RawDir::new(&listed, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().ok().filter(|name| is_hidden(name)) else {
            continue;
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(&folder, name, flags, mode()) else {
            continue;
        };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            tracing::info!(file = name, "removing an unfinished file");
            match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Waits until the names in a folder are on the disk.
pub(crate) fn sync(folder: impl AsFd) -> io::Result<()> {
    // The handle may only name things (O_PATH); syncing takes one that may read.
    let folder = rustix::fs::openat(
        &folder,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        mode(),
    )?;
    match rustix::fs::fsync(&folder) {
        // Some file systems cannot sync a directory; there is nothing more that could be done.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn mode() -> Mode {
    Mode::from_raw_mode(0o666)
}

fn chance_name() -> String {
    format!("{PREFIX}{:016x}{SUFFIX}", rand::random::<u64>())
}

fn is_hidden(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX))
        .is_some_and(|chance| chance.len() == 16 && chance.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn both(folder: &Path) -> [Unfinished; 2] {
        let open = File::open(folder).unwrap();
        let hidden = Unfinished::create_hidden(open.try_clone().unwrap().into()).unwrap();
        [Unfinished::create(&open).unwrap(), hidden]
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_file_appears_whole_whether_or_not_it_had_a_name() {
        let folder = tempfile::tempdir().unwrap();
        for (existing, name) in [(Existing::Replace, "one"), (Existing::Keep, "two")] {
            for (content, unfinished) in ["first", "second"].into_iter().zip(both(folder.path())) {
                let path = folder.path().join(name);
                unfinished.file().write_all(content.as_bytes()).unwrap();
                let appeared = unfinished.appear(OsStr::new(name), existing);
                let expected = match (existing, content) {
                    (Existing::Keep, "second") => {
                        assert_eq!(appeared.unwrap_err().kind(), ErrorKind::AlreadyExists);
                        "first"
                    }
                    _ => content,
                };
                assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
            }
        }
        let mut names = names(folder.path());
        names.sort();
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn an_unfinished_file_is_gone_when_its_writer_is() {
        let folder = tempfile::tempdir().unwrap();
        let [unnamed, hidden] = both(folder.path());
        assert_eq!(names(folder.path()).len(), 1);
        drop((unnamed, hidden));
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn what_a_dead_writer_left_is_removed_and_what_a_live_one_holds_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(".farrier-0123456789abcdef.part");
        std::fs::write(&left, "x").unwrap();
        std::fs::write(folder.path().join(".farrier-mine.part"), "x").unwrap();
        let open = File::open(folder.path()).unwrap();
        let first = Unfinished::create_hidden(open.try_clone().unwrap().into()).unwrap();
        assert!(!left.exists());
        let second = Unfinished::create_hidden(open.into()).unwrap();
        assert_eq!(names(folder.path()).len(), 3);
        for (name, unfinished) in [("a", first), ("b", second)] {
            unfinished.appear(OsStr::new(name), Existing::Keep).unwrap();
        }
        assert_eq!(names(folder.path()).len(), 3);
    }
}
