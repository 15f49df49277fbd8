//! Images that ramdisks write to disks: looked at where they lie, or fetched, unpacked and served.
//!
//! A ramdisk fetches by http(s) and knows neither Glance's tokens nor gzip. What it can fetch as it is it fetches from where it
//! lies, and no byte of it passes through here, save its beginning: a raw image that is something else inside, or a qcow2 that
//! refers to files of the machine that converts it, is refused before a disk is touched. Everything else is brought into the
//! source cache and served by the conductors under a name that only this node's ramdisk is told. It is on record *before* it can
//! be fetched, so that any conductor serves it and whoever cleans up finds it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent::ImageInfo;
use conductor::{CallError, Errand, ErrorClass, WantedChecksum, WantedFormat, WantedImage};
use image::{Extent, Kind, Layout, Recipe, SourceSet as _};
use model::{ArtefactKind, ArtefactName, Node, Secret, Sha256};
use nodes::{ArtefactRecord, Store};
use serde_json::Value;
use settings::{IMAGE_DOWNLOAD_SOURCES, ImageDownloadSource};
use sha2::Digest as _;
use sources::{Checksum, DiskFormat, Fetched, GivenChecksum, Look, SourceError, Sources};
use storage::{Backend as _, Embedded, Publication, Reader};
use uuid::Uuid;

use super::errors::{fail, of_storage, of_store, with_causes};
use super::glance_urls::GlanceUrls;
use super::records::journalled;

/// On record as the place of images that every conductor serves. No backend's id holds a slash.
pub(super) const CONDUCTOR: &str = "instance-image/conductor";

/// How long a look may take.
const LOOK: Duration = Duration::from_secs(15);
/// Longest that a ramdisk may take to fetch and write an image that nobody took back.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// See the module.
pub(super) struct InstanceImages {
    pub(super) store: Arc<dyn Store>,
    pub(super) sources: Arc<Sources>,
    pub(super) embedded: Embedded,
    /// Where Glance's images are for ramdisks; `None` = the site has no Glance.
    pub(super) glance: Option<GlanceUrls>,
    /// For nodes that do not say.
    pub(super) download_source: ImageDownloadSource,
}

impl InstanceImages {
    /// What the ramdisk is told of the image.
    pub(super) async fn prepare(&self, errand: &Errand, wanted: &WantedImage) -> Result<ImageInfo, CallError> {
        let declared = wanted.format.map(|format| match format {
            WantedFormat::Raw => DiskFormat::Raw,
            WantedFormat::Qcow2 => DiskFormat::Qcow2,
            WantedFormat::Iso => DiskFormat::Iso,
        });
        let from = download_source(&errand.node)?.unwrap_or(self.download_source);
        let checksum = self.checksum(wanted).await?;
        let by_swift = match from {
            ImageDownloadSource::Swift => self.in_swift(wanted).await?,
            ImageDownloadSource::Http | ImageDownloadSource::Local => None,
        };
        let direct = match (&by_swift, from) {
            (_, ImageDownloadSource::Local) => None,
            (Some(there), _) => there.direct(),
            (None, _) => wanted.direct(),
        };
        if let Some(mut direct) = direct {
            if let Some(checksum) = checksum.as_ref().filter(|_| by_swift.is_none()) {
                direct.os_hash = Some((checksum.algorithm().to_owned(), checksum.hex()));
                direct.checksum = None;
            }
            let there = by_swift.as_ref().unwrap_or(wanted);
            match self.look(&there.source, declared).await {
                Ok(Look::Plain(disk)) => {
                    direct.format = for_agent(disk.format);
                    return Ok(direct);
                }
                Ok(Look::Packed(_)) => {}
                Err(error @ SourceError::Image { .. }) => return Err(fail(error.to_string())),
                // It may well be there for the ramdisk alone, whose network is another.
                Err(error) => {
                    tracing::warn!(node = %errand.node.id, %error, "the image cannot be looked at from here; the ramdisk is told as the node says");
                    return Ok(direct);
                }
            }
        }
        self.serve(errand, wanted, checksum, declared).await
    }

    /// An image of Glance as it lies in the Swift behind it; `None` if it is none, or if neither the node nor Glance has a digest
    /// of it that a ramdisk takes.
    async fn in_swift(&self, wanted: &WantedImage) -> Result<Option<WantedImage>, CallError> {
        let id = wanted.source.strip_prefix("glance://").unwrap_or(&wanted.source);
        let (Ok(id), Some(glance)) = (Uuid::parse_str(id), &self.glance) else {
            return Ok(None);
        };
        let image = self.sources.glance_image(id).await;
        let image = image.map_err(|error| of_source(&error))?;
        let checksum = match (&wanted.checksum, image.checksum) {
            (WantedChecksum::None, None) => return Ok(None),
            (WantedChecksum::None, Some(checksum)) => WantedChecksum::Digest {
                algorithm: checksum.algorithm(),
                hex: checksum.hex(),
            },
            (given, _) => given.clone(),
        };
        let format = match image.disk_format.as_deref() {
            _ if wanted.format.is_some() => wanted.format,
            Some("raw") => Some(WantedFormat::Raw),
            Some("qcow2") => Some(WantedFormat::Qcow2),
            Some("iso") => Some(WantedFormat::Iso),
            // What it is shows when it is looked at.
            _ => None,
        };
        let url = glance.url(id).await.map_err(of_storage)?;
        Ok(Some(WantedImage {
            source: url.expose().to_owned(),
            checksum,
            format,
            node: wanted.node,
        }))
    }

    /// A server that the ramdisk alone can reach may well swallow what is sent to it from here.
    async fn look(&self, source: &str, declared: Option<DiskFormat>) -> Result<Look, SourceError> {
        let looked = tokio::time::timeout(LOOK, self.sources.look(source, declared)).await;
        looked.unwrap_or_else(|_| {
            Err(SourceError::Timeout {
                reference: "the image".to_owned(),
                after: LOOK,
                what: "no answer came",
            })
        })
    }

    /// Nobody fetches it any more. Absent is a success.
    pub(super) async fn withdraw(&self, errand: &Errand) -> Result<(), CallError> {
        let Some(record) = self.record(errand).await? else {
            return Ok(());
        };
        let detail = format!("{} {}", record.kind, record.digest);
        let withdraw = async { self.embedded.withdraw(&record.name).await.map_err(of_storage) };
        journalled(&*self.store, errand, "storage.withdraw", &detail, withdraw).await?;
        let removed = self
            .store
            .remove_artefact(&errand.node.id, ArtefactKind::InstanceImage, &errand.tenure)
            .await;
        removed.map_err(of_store)
    }

    async fn record(&self, errand: &Errand) -> Result<Option<ArtefactRecord>, CallError> {
        let all = self.store.artefacts(&errand.node.id).await.map_err(of_store)?;
        Ok(all
            .into_iter()
            .find(|record| record.kind == ArtefactKind::InstanceImage))
    }

    /// The digest itself; of a checksum file that only the ramdisk can reach, `None`.
    async fn checksum(&self, wanted: &WantedImage) -> Result<Option<Checksum>, CallError> {
        let wrong = |error: &dyn std::error::Error| fail(format!("the image's checksum: {}", with_causes(error)));
        match &wanted.checksum {
            WantedChecksum::None => Ok(None),
            WantedChecksum::Digest { algorithm, hex } => {
                let checksum = Checksum::parse(hex, Some(algorithm)).map_err(|error| wrong(&error))?;
                Ok(Some(checksum))
            }
            WantedChecksum::File { url, algorithm } => {
                let given = GivenChecksum::File(url.clone());
                match self.sources.checksum(&wanted.source, &given).await {
                    Ok(checksum) if algorithm.is_none_or(|wanted| wanted == checksum.algorithm()) => Ok(Some(checksum)),
                    Ok(checksum) => Err(fail(format!(
                        "the checksum file lists a {}, and image_os_hash_algo is {}: correct one of them",
                        checksum.algorithm(),
                        algorithm.unwrap_or_default(),
                    ))),
                    Err(error @ SourceError::ChecksumFile { .. }) => Err(wrong(&error)),
                    Err(error) if wanted.is_on_the_web() => {
                        tracing::warn!(%error, "the checksum file cannot be read from here; the ramdisk is told where it is");
                        Ok(None)
                    }
                    Err(error) => Err(of_source(&error)),
                }
            }
        }
    }

    async fn serve(
        &self,
        errand: &Errand,
        wanted: &WantedImage,
        checksum: Option<Checksum>,
        declared: Option<DiskFormat>,
    ) -> Result<ImageInfo, CallError> {
        if checksum.is_none() && wanted.is_on_the_web() {
            return Err(fail(
                "the conductor brings this image, and its checksum file cannot be read from here: give image_os_hash_value",
            ));
        }
        let image = self.sources.disk_image(&wanted.source, checksum, declared).await;
        let image = image.map_err(|error| of_source(&error))?;
        let Fetched { sha256, len, .. } = image.fetched;
        let layout = Layout::from_extents(Kind::Other, vec![Extent::Source { sha256, offset: 0, len }]);
        let layout = layout.map_err(|error| fail(error.to_string()))?;
        let publication = Publication {
            name: name(&errand.node, &sha256)?,
            layout: Arc::new(layout),
            sources: Arc::clone(&self.sources) as _,
            reader: Reader::default(),
        };
        let url = self.publish(errand, &publication, &image.fetched).await?;
        Ok(ImageInfo {
            id: wanted.id(),
            urls: vec![url.expose().to_owned()],
            os_hash: Some(("sha256".to_owned(), sha256.to_string())),
            checksum: None,
            format: for_agent(image.disk.format),
            node: errand.node.id,
        })
    }

    /// On record first, which keeps it in the cache as well; then where the ramdisk finds it. Another image of this node goes.
    async fn publish(&self, errand: &Errand, publication: &Publication, image: &Fetched) -> Result<Secret, CallError> {
        let before = self.record(errand).await?;
        if before.is_some_and(|record| record.name != publication.name) {
            self.withdraw(errand).await?;
        }
        let broken = |error: image::RecipeError| fail(format!("the image cannot be recorded: {error}"));
        let references = BTreeMap::from([(image.sha256, image.reference.clone())]);
        let recipe = Recipe::of(&publication.layout, &references).map_err(broken)?;
        let recipe = String::from_utf8(recipe.to_json().map_err(broken)?);
        let now = SystemTime::now();
        let url = self.embedded.url(&publication.name);
        let record = ArtefactRecord {
            node: errand.node.id,
            kind: ArtefactKind::InstanceImage,
            backend: CONDUCTOR.to_owned(),
            name: publication.name.clone(),
            url: url.clone(),
            digest: publication.layout.digest(),
            size: publication.layout.size(),
            recipe: Secret::new(recipe.map_err(|_| fail("a recipe is JSON and so UTF-8"))?),
            published_by: errand.tenure.conductor.clone(),
            published_at: now,
            expires: now.checked_add(LIFETIME),
        };
        self.store
            .put_artefact(&record, &errand.tenure)
            .await
            .map_err(of_store)?;
        let detail = format!("{} {}", record.kind, record.digest);
        let publish = async {
            let published = self.embedded.publish(publication, Some(LIFETIME)).await;
            published.map(drop).map_err(of_storage)
        };
        journalled(&*self.store, errand, "storage.publish", &detail, publish).await?;
        Ok(url)
    }
}

/// Brings the content of a recorded image again, unless it is there: what its reference names may be packed, and the record
/// holds the digest of what is in it.
pub(super) async fn bring(sources: &Arc<Sources>, reference: &str, sha256: Sha256) -> Result<(), String> {
    let cache = Arc::clone(sources);
    let is_there = tokio::task::spawn_blocking(move || cache.open(&sha256).is_ok()).await;
    if is_there.unwrap_or(false) {
        return Ok(());
    }
    let image = sources.disk_image(reference, None, None).await;
    let image = image.map_err(|error| with_causes(&error))?;
    if image.fetched.sha256 == sha256 {
        return Ok(());
    }
    Err("the image that its reference names is another one by now".to_owned())
}

/// What the node says of it.
fn download_source(node: &Node) -> Result<Option<ImageDownloadSource>, CallError> {
    const KEY: &str = "image_download_source";
    for (place, fields) in [
        ("instance_info", &node.instance_info),
        ("driver_info", &node.driver_info),
    ] {
        let word = match fields.get(KEY) {
            None | Some(Value::Null) => continue,
            Some(Value::String(word)) => word.as_str(),
            Some(_) => "",
        };
        let found = IMAGE_DOWNLOAD_SOURCES.iter().find(|(known, _)| *known == word);
        return match found {
            Some((_, source)) => Ok(Some(*source)),
            None => Err(fail(format!("{place}/{KEY} must be one of: http, local, swift"))),
        };
    }
    Ok(None)
}

fn for_agent(format: DiskFormat) -> agent::DiskFormat {
    match format {
        DiskFormat::Raw | DiskFormat::Iso => agent::DiskFormat::Raw,
        DiskFormat::Qcow2 => agent::DiskFormat::Qcow2,
    }
}

fn of_source(error: &SourceError) -> CallError {
    let class = if error.is_transient() {
        ErrorClass::Retry(None)
    } else {
        ErrorClass::Fail
    };
    CallError {
        class,
        message: format!("the image for the disk: {}", with_causes(error)),
    }
}

/// The same whoever prepares it, so that a successor knows what its predecessor told the ramdisk; and known to nobody who does
/// not know the ramdisk's token.
fn name(node: &Node, sha256: &Sha256) -> Result<ArtefactName, CallError> {
    let token = node
        .agent
        .token
        .as_ref()
        .ok_or_else(|| fail("the ramdisk has no token"))?;
    let mut hash = sha2::Sha256::new();
    for part in [
        "instance-image",
        &node.id.to_string(),
        token.expose(),
        &sha256.to_string(),
    ] {
        hash.update(part);
        hash.update([0]);
    }
    let digest = Sha256(hash.finalize().into()).to_string();
    ArtefactName::parse(&format!("{}.img", &digest[..40])).ok_or_else(|| fail("an image has no name"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use model::{Driver, NodeId, Tenure};
    use nodes::{Conductor, Sealer, SqliteStore};
    use sources::SourcesConfig;
    use storage::EmbeddedConfig;

    use super::super::netboot::{Loaders, Places};
    use super::super::publications::RecallWiring;
    use super::super::readers::Readers;
    use super::*;

    /// A conductor with a cache of its own over the one store.
    fn conductor(store: &Arc<dyn Store>, folder: &Path, port: u16) -> InstanceImages {
        let sources = Arc::new(
            Sources::new(SourcesConfig {
                allowed_file_paths: vec![folder.to_owned()],
                ..SourcesConfig::new(folder.join(format!("cache-{port}")))
            })
            .unwrap(),
        );
        let base_url = format!("http://192.0.2.1:{port}");
        let recall = RecallWiring {
            store: Arc::clone(store),
            sources: Arc::clone(&sources),
            readers: Readers { only_to_bmc: true },
            embedded: Vec::new(),
            stores: Arc::default(),
            places: Places::new(&base_url, false, &Loaders::default()).unwrap(),
        };
        let recall = Arc::new(recall);
        InstanceImages {
            store: Arc::clone(store),
            sources,
            embedded: Embedded::new(EmbeddedConfig { base_url, recall }).unwrap(),
            glance: None,
            download_source: ImageDownloadSource::Http,
        }
    }

    async fn errand(store: &Arc<dyn Store>, conductor: &str) -> Errand {
        let name: model::ConductorName = conductor.parse().unwrap();
        let me = Conductor {
            name: name.clone(),
            group: String::new(),
            api_url: String::new(),
            images_url: String::new(),
            agent_urls: Vec::new(),
            alive: true,
            seen_at: SystemTime::now(),
        };
        store.join(&me, Duration::from_secs(600)).await.unwrap();
        let mut node = Node::new(NodeId::random(), Driver::AgentIlo, SystemTime::now());
        node.agent.token = Some(Secret::new("a token that only its ramdisk knows"));
        store.create_node(&node, &[]).await.unwrap();
        let claim = store.claim(&node.id, &name).await.unwrap().unwrap();
        let term = claim.record.term;
        Errand {
            node: claim.record.node,
            tenure: Tenure { conductor: name, term },
            by_operator: false,
        }
    }

    fn store(folder: &Path) -> Arc<dyn Store> {
        let sealer = Sealer::from_file(&folder.join("key")).unwrap();
        Arc::new(SqliteStore::open(&folder.join("db"), sealer).unwrap())
    }

    fn packed(folder: &Path, content: &[u8]) -> String {
        let path = folder.join("disk.img.gz");
        let file = std::fs::File::create(&path).unwrap();
        let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        packer.write_all(content).unwrap();
        packer.finish().unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn wanted(node: &Node, source: &str) -> WantedImage {
        WantedImage {
            source: source.to_owned(),
            checksum: WantedChecksum::None,
            format: Some(WantedFormat::Raw),
            node: node.id,
        }
    }

    fn bytes(served: &storage::Served) -> Vec<u8> {
        let storage::Content::Layout { layout, sources } = &served.content else {
            panic!("an image of a conductor is a layout");
        };
        let mut bytes = vec![0; usize::try_from(layout.size()).unwrap()];
        layout.read_at(&**sources, 0, &mut bytes).unwrap();
        bytes
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_image_that_a_dead_conductor_served_is_unpacked_and_served_by_another_until_it_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let store = store(folder);
        let content = b"a disk".repeat(20_000);
        let source = packed(folder, &content);
        let (alpha, beta) = (conductor(&store, folder, 1), conductor(&store, folder, 2));
        let errand = errand(&store, "alpha").await;
        let told = alpha.prepare(&errand, &wanted(&errand.node, &source)).await.unwrap();
        assert_eq!(
            alpha.prepare(&errand, &wanted(&errand.node, &source)).await.unwrap(),
            told
        );
        let name = told.urls[0].rsplit('/').next().unwrap();
        let name = ArtefactName::parse(name).unwrap();
        drop(alpha);

        let served = beta.embedded.lookup(&name).await.unwrap().unwrap();
        assert_eq!(bytes(&served), content);

        beta.withdraw(&errand).await.unwrap();
        beta.withdraw(&errand).await.unwrap();
        assert!(beta.embedded.lookup(&name).await.unwrap().is_none());
        assert!(store.artefacts(&errand.node.id).await.unwrap().is_empty());
        let effects = store.effects(&errand.node.id, 100).await.unwrap();
        assert!(effects.iter().all(|effect| effect.outcome.is_some()), "{effects:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn another_image_of_the_node_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let store = store(folder);
        let alpha = conductor(&store, folder, 1);
        let errand = errand(&store, "alpha").await;
        let mut names = Vec::new();
        for content in [b"one".repeat(20_000), b"two".repeat(20_000)] {
            let source = packed(folder, &content);
            let told = alpha.prepare(&errand, &wanted(&errand.node, &source)).await.unwrap();
            let name = told.urls[0].rsplit('/').next().unwrap();
            names.push(ArtefactName::parse(name).unwrap());
        }
        assert!(alpha.embedded.lookup(&names[0]).await.unwrap().is_none());
        assert!(alpha.embedded.lookup(&names[1]).await.unwrap().is_some());
        assert_eq!(store.artefacts(&errand.node.id).await.unwrap().len(), 1);
    }

    #[test]
    fn a_node_says_where_its_image_comes_from_in_words_that_there_are() {
        let mut node = Node::new(NodeId::random(), Driver::AgentIlo, SystemTime::now());
        assert_eq!(download_source(&node).unwrap(), None);
        node.driver_info
            .insert("image_download_source".to_owned(), "local".into());
        assert_eq!(download_source(&node).unwrap(), Some(ImageDownloadSource::Local));
        node.instance_info
            .insert("image_download_source".to_owned(), "swift".into());
        assert_eq!(download_source(&node).unwrap(), Some(ImageDownloadSource::Swift));
        node.instance_info.insert("image_download_source".to_owned(), 7.into());
        let error = download_source(&node).unwrap_err().message;
        assert!(error.starts_with("instance_info/image_download_source"), "{error}");
    }
}
