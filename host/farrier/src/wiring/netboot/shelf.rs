//! Where boot files lie: with the conductors themselves, or in a folder that a web server serves.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use image::SourceSet;
use model::ArtefactName;
use netboot::{NetbootPath, Pack, PackedFile};
use storage::{Backend as _, Embedded, NamedFile, Publication, StorageError, WebFolder};

/// On record as the place of boot files that every conductor serves. No backend's id holds a slash.
pub(super) const CONDUCTOR: &str = "netboot/conductor";
/// The same for those in the web server's folder.
const FOLDER: &str = "netboot/folder";

/// See the module.
#[derive(Clone)]
pub(in crate::wiring) struct Shelf {
    embedded: Embedded,
    base_url: String,
    folder: Option<Arc<Folder>>,
}

/// Opened when it is first needed: a site whose nodes all boot from virtual media need not have it.
struct Folder {
    root: PathBuf,
    opened: OnceLock<WebFolder>,
}

impl Shelf {
    /// Conductors serve the files at their image listeners.
    pub(super) fn conductor(embedded: &Embedded, images_url: &str) -> Self {
        Self {
            embedded: embedded.clone(),
            base_url: images_url.trim_end_matches('/').to_owned(),
            folder: None,
        }
    }

    /// Files are written below `root`, and fetched below `url`.
    pub(super) fn folder(root: &Path, url: &str, embedded: &Embedded) -> Self {
        let folder = Folder {
            root: root.to_owned(),
            opened: OnceLock::new(),
        };
        Self {
            embedded: embedded.clone(),
            base_url: url.trim_end_matches('/').to_owned(),
            folder: Some(Arc::new(folder)),
        }
    }

    /// What stands on record as the place.
    pub(super) fn id(&self) -> &'static str {
        match self.folder {
            None => CONDUCTOR,
            Some(_) => FOLDER,
        }
    }

    /// What names of files are appended to.
    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The place that a record names, which need not be the one that the site uses now.
    pub(super) fn of(&self, id: &str) -> Result<Self, String> {
        match (id, &self.folder) {
            (CONDUCTOR, _) => Ok(Self {
                folder: None,
                ..self.clone()
            }),
            (FOLDER, Some(_)) => Ok(self.clone()),
            (FOLDER, None) => Err(
                "boot files of this node lie in a web server's folder, and [netboot] root and url (or [deploy] http_root and \
                 http_url) are not set any more: put them back until the node is undeployed"
                    .to_owned(),
            ),
            _ => Err(format!("boot files of this node lie at `{id}`, which this release does not know")),
        }
    }

    /// Whether files could be put there.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        match &self.folder {
            None => Ok(()),
            Some(folder) => folder.open().map(drop),
        }
    }

    /// Makes all of it fetchable, the site's entry script with it.
    pub(super) async fn put(&self, publication: &Publication, pack: &Pack) -> Result<(), StorageError> {
        let Some(folder) = &self.folder else {
            return self.embedded.publish(publication, None).await.map(drop);
        };
        let entry = Pack::entry(&self.base_url).map_err(unusable)?;
        let mut files = named(&entry, entry.files())?;
        files.extend(named(pack, pack.files())?);
        folder.open()?.put(files, Arc::clone(&publication.sources)).await
    }

    /// Takes all of it away but the entry script, which is everybody's. The scripts go first, and one that is another
    /// node's by now stays.
    pub(super) async fn remove(
        &self,
        name: &ArtefactName,
        pack: &Pack,
        sources: Arc<dyn SourceSet>,
    ) -> Result<(), StorageError> {
        let Some(folder) = &self.folder else {
            return self.embedded.withdraw(name).await;
        };
        let folder = folder.open()?;
        let mut paths = Vec::new();
        for file in pack.files().iter().rev() {
            let ours = match file.path {
                NetbootPath::Entry => false,
                NetbootPath::Node(..) => true,
                NetbootPath::Card(_) => {
                    let script = named(pack, std::slice::from_ref(file))?;
                    folder.holds(script, Arc::clone(&sources)).await?
                }
            };
            if ours {
                paths.push(file.path.to_string());
            }
        }
        folder.remove(paths).await
    }
}

impl Folder {
    fn open(&self) -> Result<WebFolder, StorageError> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened.clone());
        }
        let opened = WebFolder::open(&self.root)?;
        Ok(self.opened.get_or_init(|| opened).clone())
    }
}

fn named(pack: &Pack, files: &[PackedFile]) -> Result<Vec<NamedFile>, StorageError> {
    let named = |file: &PackedFile| {
        let layout = pack.part(file.range.clone()).map_err(unusable)?;
        let path = file.path.to_string();
        Ok(NamedFile { path, layout })
    };
    files.iter().map(named).collect()
}

fn unusable(error: netboot::PackError) -> StorageError {
    StorageError::Unusable {
        place: "[netboot] url".to_owned(),
        reason: error.to_string(),
    }
}
