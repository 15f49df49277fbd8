//! Images that ramdisks write to disks: looked at where they lie, or fetched, unpacked and served.
//!
//! A ramdisk fetches by http(s) and knows neither Glance's tokens nor gzip. What it can fetch as it is it fetches from where it
//! lies, and no byte of it passes through here, save its beginning: a raw image that is something else inside, or a qcow2 that
//! refers to files of the machine that converts it, is refused before a disk is touched. Everything else is brought into the
//! source cache and served by the embedded backend under a name that only this node's ramdisk is told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agent::ImageInfo;
use conductor::{CallError, ErrorClass, WantedChecksum, WantedFormat, WantedImage};
use image::{Extent, Kind, Layout};
use model::{ArtefactName, Node, NodeId, Sha256};
use sha2::Digest as _;
use sources::{Checksum, DiskFormat, Fetched, GivenChecksum, Look, SourceError, Sources};
use storage::{Backend as _, Embedded, Publication, Reader};

use super::errors::{fail, of_storage, with_causes};

/// How long a look may take.
const LOOK: Duration = Duration::from_secs(15);
/// Longest that a ramdisk may take to fetch and write an image that nobody took back.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// See the module.
pub(super) struct InstanceImages {
    sources: Arc<Sources>,
    embedded: Embedded,
    /// What is being served: it stays in the cache for as long.
    served: Mutex<HashMap<NodeId, (ArtefactName, Fetched)>>,
}

impl InstanceImages {
    pub(super) fn new(sources: Arc<Sources>, embedded: Embedded) -> Self {
        Self {
            sources,
            embedded,
            served: Mutex::default(),
        }
    }

    /// What the ramdisk is told of the image.
    pub(super) async fn prepare(&self, node: &Node, wanted: &WantedImage) -> Result<ImageInfo, CallError> {
        let declared = wanted.format.map(|format| match format {
            WantedFormat::Raw => DiskFormat::Raw,
            WantedFormat::Qcow2 => DiskFormat::Qcow2,
            WantedFormat::Iso => DiskFormat::Iso,
        });
        let checksum = self.checksum(wanted).await?;
        if let Some(mut direct) = wanted.direct() {
            if let Some(checksum) = &checksum {
                direct.os_hash = Some((checksum.algorithm().to_owned(), checksum.hex()));
                direct.checksum = None;
            }
            match self.look(&wanted.source, declared).await {
                Ok(Look::Plain(disk)) => {
                    direct.format = for_agent(disk.format);
                    return Ok(direct);
                }
                Ok(Look::Packed(_)) => {}
                Err(error @ SourceError::Image { .. }) => return Err(fail(error.to_string())),
                // It may well be there for the ramdisk alone, whose network is another.
                Err(error) => {
                    tracing::warn!(node = %node.id, %error, "the image cannot be looked at from here; the ramdisk is told as the node says");
                    return Ok(direct);
                }
            }
        }
        self.serve(node, wanted, checksum, declared).await
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

    /// Nobody fetches it any more.
    pub(super) async fn release(&self, node: &NodeId) {
        let served = self.served().remove(node);
        if let Some((name, _)) = served
            && let Err(error) = self.embedded.withdraw(&name).await
        {
            tracing::warn!(%node, %error, "an image that was written is still served");
        }
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
        node: &Node,
        wanted: &WantedImage,
        checksum: Option<Checksum>,
        declared: Option<DiskFormat>,
    ) -> Result<ImageInfo, CallError> {
        if checksum.is_none() && wanted.is_on_the_web() {
            return Err(fail(
                "a compressed image is unpacked here, and its checksum file cannot be read from here: give image_os_hash_value",
            ));
        }
        let image = self.sources.disk_image(&wanted.source, checksum, declared).await;
        let image = image.map_err(|error| of_source(&error))?;
        let Fetched { sha256, len, .. } = image.fetched;
        let name = name(node, &sha256)?;
        let layout = Layout::from_extents(Kind::Other, vec![Extent::Source { sha256, offset: 0, len }]);
        let publication = Publication {
            name: name.clone(),
            layout: Arc::new(layout.map_err(|error| fail(error.to_string()))?),
            sources: Arc::clone(&self.sources) as _,
            reader: Reader::default(),
        };
        let published = self
            .embedded
            .publish(&publication, Some(LIFETIME))
            .await
            .map_err(of_storage)?;
        self.served().insert(node.id, (name, image.fetched));
        Ok(ImageInfo {
            id: wanted.id(),
            urls: vec![published.url.expose().to_owned()],
            os_hash: Some(("sha256".to_owned(), sha256.to_string())),
            checksum: None,
            format: for_agent(image.disk.format),
            node: node.id,
        })
    }

    fn served(&self) -> std::sync::MutexGuard<'_, HashMap<NodeId, (ArtefactName, Fetched)>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
