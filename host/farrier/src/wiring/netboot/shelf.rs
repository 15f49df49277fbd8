//! Where boot files lie: with the conductors themselves, or in a folder that a web server serves.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use image::SourceSet;
use model::ArtefactName;
use netboot::{NetbootPath, Pack, PackedFile};
use storage::{Backend as _, Embedded, NamedFile, Publication, StorageError, WebFolder};

use super::loaders::{Loader, Loaders};

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
    loaders: Loaders,
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
    pub(super) fn folder(root: &Path, url: &str, embedded: &Embedded, loaders: Loaders) -> Self {
        let folder = Folder {
            root: root.to_owned(),
            loaders,
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

    /// Makes all of it fetchable, the site's boot loaders and entry script with it.
    pub(super) async fn put(&self, publication: &Publication, pack: &Pack) -> Result<(), StorageError> {
        let Some(folder) = &self.folder else {
            return self.embedded.publish(publication, None).await.map(drop);
        };
        let entry = Pack::entry(&self.base_url).map_err(unusable)?;
        // Somebody may have put an iPXE of the site's own there.
        let is_ours = |loader: &&Loader| loader.is_set || folder.root.join(&loader.name).symlink_metadata().is_err();
        let loader = |loader: &Loader| NamedFile {
            path: loader.name.clone(),
            layout: loader.layout.clone(),
        };
        let mut files: Vec<NamedFile> = folder.loaders.iter().filter(is_ours).map(loader).collect();
        files.extend(named(&entry, entry.files())?);
        files.extend(named(pack, pack.files())?);
        folder.open()?.put(files, Arc::clone(&publication.sources)).await
    }

    /// Takes all of it away but the boot loaders and the entry script, which are everybody's. The scripts go first, and one that is another
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

#[cfg(test)]
mod tests {
    use model::{MacAddress, NodeId};
    use netboot::Boot;
    use storage::{EmbeddedConfig, NoRecords, Reader};

    use super::*;

    fn publication(pack: &Pack, token: &str) -> Publication {
        Publication {
            name: ArtefactName::parse(&format!("{}.img", token.repeat(32))).unwrap(),
            layout: Arc::new(pack.layout().clone()),
            sources: Arc::new(image::NoSources),
            reader: Reader::default(),
        }
    }

    fn embedded() -> Embedded {
        let base_url = "http://192.0.2.1:6386".to_owned();
        let recall = Arc::new(NoRecords);
        Embedded::new(EmbeddedConfig { base_url, recall }).unwrap()
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<_> = ["", "pxelinux.cfg"]
            .iter()
            .filter_map(|folder| std::fs::read_dir(root.join(folder)).ok())
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_card_that_went_to_another_server_keeps_that_servers_script() {
        let root = tempfile::tempdir().unwrap();
        let shelf = Shelf::folder(root.path(), "http://192.0.2.1/boot/", &embedded(), Loaders::default());
        let card: MacAddress = "52:54:00:00:00:01".parse().unwrap();
        let [first, second] = [NodeId::random(), NodeId::random()];
        let pack = |node| Pack::new(node, &[card], &Boot::Disk).unwrap();
        let [old, new] = [pack(first), pack(second)];
        for (pack, token) in [(&old, "a"), (&new, "b")] {
            shelf.put(&publication(pack, token), pack).await.unwrap();
        }
        let remove = async |pack: &Pack, token: &str| {
            let name = publication(pack, token).name;
            shelf.remove(&name, pack, Arc::new(image::NoSources)).await.unwrap();
        };
        remove(&old, "a").await;
        let card = "52-54-00-00-00-01".to_owned();
        let mut left = vec![
            "boot.ipxe".to_owned(),
            "pxelinux.cfg".to_owned(),
            card,
            second.to_string(),
        ];
        left.sort();
        assert_eq!(names(root.path()), left);
        remove(&new, "b").await;
        remove(&new, "b").await;
        assert_eq!(names(root.path()), ["boot.ipxe"]);
    }

    #[tokio::test]
    async fn boot_loaders_lie_beside_the_entry_script_and_an_operators_own_stays() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("boot");
        std::fs::create_dir(&root).unwrap();
        let loader = folder.path().join("ipxe-snponly-x86_64.efi");
        std::fs::write(&loader, b"MZ one").unwrap();
        let settings = |loaders: &str| {
            let file = folder.path().join("farrier.toml");
            let data = folder.path();
            let text = format!(
                "data-dir = {data:?}\n[netboot]\nuefi-bootfile = \"none.efi\"\nbios-bootfile = \"none.pxe\"\n{loaders}\n"
            );
            std::fs::write(&file, text).unwrap();
            let files = settings::Files {
                site: Some(file),
                ironic: Vec::new(),
            };
            let loaded = settings::Settings::load(&files, &settings::Overrides::default()).unwrap();
            loaded.settings.netboot
        };
        let named = settings(&format!("loaders = [\"ipxe.efi:{}\"]", loader.display()));
        let put = async |loaders: Loaders| {
            let shelf = Shelf::folder(&root, "http://192.0.2.1/boot", &embedded(), loaders);
            let pack = Pack::new(NodeId::random(), &["52:54:00:00:00:02".parse().unwrap()], &Boot::Disk).unwrap();
            shelf.put(&publication(&pack, "c"), &pack).await.unwrap();
        };
        put(Loaders::read(&named)).await;
        let there = || std::fs::read(root.join("ipxe.efi")).unwrap();
        assert_eq!(there(), b"MZ one");
        // What the site names is kept as it is; what was found by chance gives way.
        std::fs::write(root.join("ipxe.efi"), b"MZ own").unwrap();
        let mut found = Loaders::read(&named);
        found.forget_settings();
        put(found).await;
        assert_eq!(there(), b"MZ own");
        std::fs::write(&loader, b"MZ two").unwrap();
        put(Loaders::read(&named)).await;
        assert_eq!(there(), b"MZ two");
        std::fs::write(&loader, b"").unwrap();
        assert_eq!(Loaders::read(&named).iter().count(), 0);
    }

    #[tokio::test]
    async fn files_are_looked_for_where_the_record_says_whatever_the_site_uses_now() {
        let root = tempfile::tempdir().unwrap();
        let folder = Shelf::folder(root.path(), "http://192.0.2.1/boot", &embedded(), Loaders::default());
        let conductor = Shelf::conductor(&embedded(), "http://192.0.2.1:6386/");
        assert_eq!((folder.id(), conductor.id()), (FOLDER, CONDUCTOR));
        assert_eq!(conductor.base_url(), "http://192.0.2.1:6386");
        assert_eq!(folder.of(CONDUCTOR).unwrap().id(), CONDUCTOR);
        assert_eq!(folder.of(FOLDER).unwrap().id(), FOLDER);
        let error = conductor.of(FOLDER).err().unwrap();
        assert!(error.contains("put them back"), "{error}");
        assert!(conductor.of("local").is_err());
        let missing = Shelf::folder(
            &root.path().join("missing"),
            "http://192.0.2.1/boot",
            &embedded(),
            Loaders::default(),
        );
        assert!(missing.check().unwrap_err().to_string().contains("create it"));
    }
}
