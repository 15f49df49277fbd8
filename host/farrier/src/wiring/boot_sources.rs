//! What a node boots: references from the node or the site, fetched and verified.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use image::{BootFile, Content, Extent, Kind, Layout, SourceFile, SourceSet};
use model::{Node, ProvisionState, Sha256};
use runtime::live::{BootMaterial, BootParts, BootSources, Material};
use runtime::{DriverError, IsoSource};
use serde_json::Value;
use settings::{Images, Ramdisk, Reference};
use sources::{Fetched, Sources};
use uuid::Uuid;

use super::boot_check::{self, Purpose};
use super::errors::with_causes;

/// Largest boot loader: its bytes are held in memory.
const MAX_BOOT_FILE: u64 = 16 << 20;

/// See [`BootSources`].
pub(super) struct BootSourceWiring {
    pub(super) sources: Arc<Sources>,
    pub(super) images: Images,
}

#[async_trait]
impl BootSources for BootSourceWiring {
    async fn resolve(&self, node: &Node, source: &IsoSource) -> Result<Material, DriverError> {
        let mut gather = Gather {
            sources: &self.sources,
            references: BTreeMap::new(),
        };
        let boot = match source {
            IsoSource::Iso(reference) => gather.ready(reference).await?,
            IsoSource::Deploy => match text(node, Place::Driver, &["deploy_iso", "ilo_deploy_iso"]) {
                Some(reference) => gather.ready(&reference).await?,
                None => self.parts(node, &mut gather, &DEPLOY).await?,
            },
            IsoSource::Rescue => match text(node, Place::Driver, &["rescue_iso"]) {
                Some(reference) => gather.ready(&reference).await?,
                None => self.parts(node, &mut gather, &RESCUE).await?,
            },
            IsoSource::Instance => {
                let node = &self.with_glance(node).await?;
                match text(node, Place::Instance, &["boot_iso", "ilo_boot_iso"]) {
                    Some(reference) => gather.ready(&reference).await?,
                    None => self.parts(node, &mut gather, &INSTANCE).await?,
                }
            }
        };
        Ok(Material {
            boot,
            references: gather.references,
            sources: Arc::clone(&self.sources) as Arc<dyn SourceSet>,
        })
    }
}

/// Which of a node's free-form fields.
#[derive(Clone, Copy)]
enum Place {
    Driver,
    Instance,
}

/// Where a pair of kernel and ramdisk is named, best first.
struct Pair {
    place: Place,
    kernel: &'static [&'static str],
    ramdisk: &'static [&'static str],
    /// What the site names where the node does not.
    site: for<'a> fn(&'a Images, &Node) -> Ramdisk<'a>,
    remedy: &'static str,
}

const DEPLOY: Pair = Pair {
    place: Place::Driver,
    kernel: &["deploy_kernel", "ilo_deploy_kernel"],
    ramdisk: &["deploy_ramdisk", "ilo_deploy_ramdisk"],
    site: |images, node| images.deploy(arch(node)),
    remedy: "set driver_info/deploy_kernel and deploy_ramdisk on the node, or [images] deploy-kernel and deploy-ramdisk in farrier.toml",
};
const RESCUE: Pair = Pair {
    kernel: &["rescue_kernel", "deploy_kernel"],
    ramdisk: &["rescue_ramdisk", "deploy_ramdisk"],
    site: |images, node| images.rescue(arch(node)),
    ..DEPLOY
};
const INSTANCE: Pair = Pair {
    place: Place::Instance,
    kernel: &["kernel"],
    ramdisk: &["ramdisk"],
    site: |images, _| Ramdisk {
        kernel: images.instance_kernel.as_ref(),
        ramdisk: images.instance_ramdisk.as_ref(),
    },
    remedy: "set instance_info/kernel and ramdisk (or boot_iso) on the node, or [images] instance-kernel and instance-ramdisk in farrier.toml",
};

/// A kernel and a ramdisk, and where each came from.
#[derive(Default)]
pub(super) struct FoundPair {
    /// Both, or none where nothing of the kind is booted.
    pub(super) files: Option<(SourceFile, SourceFile)>,
    /// By their digests.
    pub(super) references: BTreeMap<Sha256, String>,
}

impl BootSourceWiring {
    /// Kernel and ramdisk alone, for a server that boots them over the network.
    pub(super) async fn pair(&self, node: &Node, purpose: Purpose) -> Result<FoundPair, DriverError> {
        let mut gather = Gather {
            sources: &self.sources,
            references: BTreeMap::new(),
        };
        let node = &self.with_glance(node).await?;
        let (kernel, ramdisk) = self.named_pair(node, pair_for(node, purpose))?;
        let files = (gather.source(&kernel).await?, gather.source(&ramdisk).await?);
        Ok(FoundPair {
            files: Some(files),
            references: gather.references,
        })
    }

    /// Whether node or site name both.
    pub(super) fn names_pair(&self, node: &Node, purpose: Purpose) -> Result<(), String> {
        // Glance is asked when they are needed.
        if matches!(pair_for(node, purpose).place, Place::Instance) && glance_image(node).is_some() {
            return Ok(());
        }
        let named = self.named_pair(node, pair_for(node, purpose));
        named.map(drop).map_err(|error| error.to_string())
    }

    /// The node with what the properties of its Glance image say of booting it, where the node itself says nothing.
    async fn with_glance(&self, node: &Node) -> Result<Node, DriverError> {
        let mut node = node.clone();
        let says = ["boot_iso", "ilo_boot_iso", "kernel", "ramdisk"];
        if says.iter().any(|key| text(&node, Place::Instance, &[key]).is_some()) {
            return Ok(node);
        }
        let Some(id) = glance_image(&node) else {
            return Ok(node);
        };
        let image = self.sources.glance_image(id).await;
        let image = image.map_err(|error| DriverError::other("source", with_causes(&error)))?;
        for (key, value) in [
            ("boot_iso", image.boot_iso),
            ("kernel", image.kernel),
            ("ramdisk", image.ramdisk),
        ] {
            if let Some(value) = value {
                node.instance_info.insert(key.to_owned(), Value::String(value));
            }
        }
        Ok(node)
    }

    /// References of kernel and ramdisk.
    fn named_pair(&self, node: &Node, pair: &Pair) -> Result<(String, String), DriverError> {
        let site = (pair.site)(&self.images, node);
        let named = |keys: &[&str], site: Option<&Reference>, what: &str| {
            let named = text(node, pair.place, keys).or_else(|| site.map(Reference::to_string));
            named.ok_or_else(|| DriverError::NotFound(format!("there is no {what} to boot: {}", pair.remedy)))
        };
        Ok((
            named(pair.kernel, site.kernel, "kernel")?,
            named(pair.ramdisk, site.ramdisk, "ramdisk")?,
        ))
    }

    async fn parts(&self, node: &Node, gather: &mut Gather<'_>, pair: &Pair) -> Result<BootMaterial, DriverError> {
        let (kernel, ramdisk) = self.named_pair(node, pair)?;
        let purpose = match pair.place {
            Place::Driver => Purpose::Ramdisk,
            Place::Instance => Purpose::Instance,
        };
        boot_check::check(&self.images, node, purpose, None).map_err(DriverError::NotFound)?;
        let kernel = gather.source(&kernel).await?;
        let ramdisk = gather.source(&ramdisk).await?;
        let isolinux = match existing(&self.images.isolinux) {
            Some(path) => Some(gather.boot_file(&path).await?),
            None => None,
        };
        let ldlinux = self.images.ldlinux_candidates().iter().find_map(|path| existing(path));
        let ldlinux = match ldlinux.filter(|_| isolinux.is_some()) {
            Some(path) => Some(Content::from(gather.source(&path).await?)),
            None => None,
        };
        let esp = match self.images.esp_for(arch(node)) {
            Some(esp) => Some(Content::from(gather.source(&esp.to_string()).await?)),
            None => None,
        };
        Ok(BootMaterial::Parts(Box::new(BootParts {
            kernel,
            ramdisk,
            isolinux,
            ldlinux,
            esp,
            grub_config_path: self.images.grub_config_path.clone(),
        })))
    }
}

fn pair_for(node: &Node, purpose: Purpose) -> &'static Pair {
    let rescued = matches!(
        node.provision_state,
        ProvisionState::Rescuing | ProvisionState::RescueWait
    );
    match purpose {
        Purpose::Ramdisk if rescued => &RESCUE,
        Purpose::Ramdisk => &DEPLOY,
        Purpose::Instance => &INSTANCE,
    }
}

/// The Glance image that a node's disk is written with.
fn glance_image(node: &Node) -> Option<Uuid> {
    let source = node.instance_info.get("image_source")?.as_str()?;
    Uuid::try_parse(source.strip_prefix("glance://").unwrap_or(source)).ok()
}

/// What processors the server has, as far as anybody said.
pub(super) fn arch(node: &Node) -> Option<&str> {
    node.properties.get("cpu_arch").and_then(Value::as_str)
}

/// A file that may be missing, as a reference.
fn existing(path: &Path) -> Option<String> {
    path.exists().then(|| Reference::File(path.to_owned()).to_string())
}

fn text(node: &Node, place: Place, keys: &[&str]) -> Option<String> {
    let fields = match place {
        Place::Driver => &node.driver_info,
        Place::Instance => &node.instance_info,
    };
    keys.iter()
        .find_map(|key| fields.get(*key).and_then(Value::as_str).map(str::to_owned))
}

/// Fetches references and notes where each came from.
struct Gather<'a> {
    sources: &'a Arc<Sources>,
    references: BTreeMap<Sha256, String>,
}

impl Gather<'_> {
    async fn fetch(&mut self, reference: &str) -> Result<Fetched, DriverError> {
        let fetched = self
            .sources
            .fetch(reference, None)
            .await
            .map_err(|error| DriverError::other("source", with_causes(&error)))?;
        self.references.insert(fetched.sha256, fetched.reference.clone());
        Ok(fetched)
    }

    async fn source(&mut self, reference: &str) -> Result<SourceFile, DriverError> {
        Ok(self.fetch(reference).await?.file())
    }

    /// A boot loader, all of it.
    async fn boot_file(&mut self, reference: &str) -> Result<BootFile, DriverError> {
        let SourceFile { sha256, len } = self.source(reference).await?;
        if len > MAX_BOOT_FILE {
            return Err(DriverError::Invalid(format!(
                "{reference} has {len} bytes: that is no boot loader"
            )));
        }
        let sources = Arc::clone(self.sources);
        let read = tokio::task::spawn_blocking(move || {
            let source = sources.open(&sha256)?;
            let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
            source.read_at(0, &mut bytes)?;
            Ok::<_, std::io::Error>(bytes)
        });
        let bytes = match read.await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => {
                return Err(DriverError::other(
                    "source",
                    format!("could not read {reference}: {error}"),
                ));
            }
            Err(_) => {
                return Err(DriverError::other(
                    "host-panic",
                    format!("reading {reference} failed inside the host"),
                ));
            }
        };
        Ok(BootFile {
            bytes: bytes.into(),
            kept_as: Some(sha256),
        })
    }

    /// A ready ISO, as it is.
    async fn ready(&mut self, reference: &str) -> Result<BootMaterial, DriverError> {
        let SourceFile { sha256, len } = self.source(reference).await?;
        let layout = Layout::from_extents(Kind::BootIso, vec![Extent::Source { sha256, offset: 0, len }]);
        layout
            .map(BootMaterial::Ready)
            .map_err(|error| DriverError::Invalid(format!("{reference}: {error}")))
    }
}
