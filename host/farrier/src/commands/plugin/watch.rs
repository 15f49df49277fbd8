//! Waits until one of some files changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_millis(250);

/// Files, or folders, as they were seen.
#[derive(Default)]
pub(super) struct Watch(BTreeMap<PathBuf, Option<Seen>>);

/// What changes when a file is written or put in place of another.
#[derive(PartialEq)]
struct Seen {
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
}

impl Watch {
    /// This one too.
    pub(super) fn also(&mut self, path: &Path) {
        self.0.entry(path.to_owned()).or_insert_with(|| see(path));
    }

    /// Returns once one of them is not as it was seen, and has stopped changing.
    pub(super) async fn changed(&self) {
        while self.0.iter().all(|(path, seen)| see(path) == *seen) {
            tokio::time::sleep(INTERVAL).await;
        }
        // A compiler writes a component in pieces: what is half there is not looked at yet.
        loop {
            let before: Vec<Option<Seen>> = self.0.keys().map(|path| see(path)).collect();
            tokio::time::sleep(INTERVAL).await;
            if self.0.keys().map(|path| see(path)).eq(before) {
                return;
            }
        }
    }
}

fn see(path: &Path) -> Option<Seen> {
    use std::os::unix::fs::MetadataExt as _;

    let about = std::fs::metadata(path).ok()?;
    Some(Seen {
        modified: about.modified().ok(),
        size: about.len(),
        inode: about.ino(),
    })
}
