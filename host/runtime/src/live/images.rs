//! Building images. Layouts are made on a blocking thread; their bytes stay where they are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use image::{BootIsoSpec, Content, Firmware, FloppySpec, Layout, NoSources, SourceSet};
use model::{ArtefactKind, ArtefactName, Sha256};

use super::session::LiveSession;
use super::{BootMaterial, BootParts};
use crate::DriverError;
use crate::calls::{self, ImageInfo, Parameter, Reply, SmallFile, Value};

/// An image of this call.
pub(super) struct Image {
    pub(super) kind: ArtefactKind,
    pub(super) layout: Arc<Layout>,
    pub(super) sources: Arc<dyn SourceSet>,
    pub(super) references: BTreeMap<Sha256, String>,
    /// The name under which it will be published, once that is known.
    pub(super) name: Mutex<Option<ArtefactName>>,
}

impl Image {
    fn new(
        kind: ArtefactKind,
        layout: Layout,
        sources: Arc<dyn SourceSet>,
        references: BTreeMap<Sha256, String>,
    ) -> Self {
        Self {
            kind,
            layout: Arc::new(layout),
            sources,
            references,
            name: Mutex::new(None),
        }
    }

    pub(super) fn info(&self) -> ImageInfo {
        ImageInfo {
            kind: self.kind,
            digest: self.layout.digest().to_string(),
            size: self.layout.size(),
        }
    }
}

impl LiveSession {
    pub(super) async fn build_floppy(&self, spec: &calls::FloppySpec) -> Result<Reply, DriverError> {
        let default = FloppySpec::default();
        let spec = FloppySpec {
            label: spec.label.clone().unwrap_or(default.label),
            parameters: self.parameters(&spec.parameters)?,
            files: files(&spec.files),
            size: None,
        };
        let layout = blocking(move || image::floppy(&spec).map_err(invalid)).await?;
        Ok(self.keep_image(Image::new(
            ArtefactKind::Floppy,
            layout,
            Arc::new(NoSources),
            BTreeMap::new(),
        )))
    }

    pub(super) async fn build_boot_iso(&self, spec: &calls::BootIsoSpec) -> Result<Reply, DriverError> {
        let material = self
            .world
            .boot_sources
            .resolve(&self.context.node, &spec.source)
            .await?;
        let layout = match material.boot {
            BootMaterial::Ready(layout) => {
                let changed = !spec.parameters.is_empty() || !spec.files.is_empty() || spec.kernel_arguments.is_some();
                if changed {
                    let message =
                        "a ready ISO is taken as it is: put parameters on the floppy, or give kernel and ramdisk";
                    return Err(DriverError::Unsupported(message.to_owned()));
                }
                layout
            }
            BootMaterial::Parts(parts) => {
                let spec = self.boot_iso_spec(*parts, spec)?;
                blocking(move || image::boot_iso(&spec).map_err(invalid)).await?
            }
        };
        Ok(self.keep_image(Image::new(
            ArtefactKind::BootIso,
            layout,
            material.sources,
            material.references,
        )))
    }

    fn boot_iso_spec(&self, parts: BootParts, wanted: &calls::BootIsoSpec) -> Result<BootIsoSpec, DriverError> {
        let firmware = firmware(
            wanted.boot_modes.as_deref(),
            parts.isolinux.is_some(),
            parts.esp.is_some(),
        )?;
        let mut spec = BootIsoSpec::new(parts.kernel, parts.ramdisk, firmware);
        spec.label = wanted.label.clone().unwrap_or(spec.label);
        spec.isolinux = parts.isolinux;
        spec.ldlinux = parts.ldlinux;
        spec.esp = parts.esp;
        spec.grub_config_path = parts.grub_config_path;
        spec.kernel_arguments = wanted.kernel_arguments.clone().unwrap_or_default();
        spec.parameters = self.parameters(&wanted.parameters)?;
        spec.files = files(&wanted.files);
        Ok(spec)
    }

    /// Puts secrets in by name. A BMC's credentials have no name here.
    fn parameters(&self, parameters: &[Parameter]) -> Result<Vec<(String, String)>, DriverError> {
        let text = |parameter: &Parameter| match &parameter.value {
            Value::Plain(text) => Ok((parameter.key.clone(), text.clone())),
            Value::Secret(name) if name == "agent-token" => match &self.context.node.agent.token {
                Some(token) => Ok((parameter.key.clone(), token.expose().to_owned())),
                None => Err(DriverError::NotFound("the node has no agent token yet".to_owned())),
            },
            Value::Secret(name) => {
                let name: String = name.chars().take(64).collect();
                Err(DriverError::NotFound(format!(
                    "there is no secret `{name}`; known is: agent-token"
                )))
            }
        };
        parameters.iter().map(text).collect()
    }
}

/// Which firmware can boot it: what was asked for, else all that the boot loaders at hand allow.
fn firmware(wanted: Option<&[String]>, bios: bool, uefi: bool) -> Result<Firmware, DriverError> {
    let has = |mode: &str| wanted.is_none_or(|wanted| wanted.iter().any(|wanted| wanted == mode));
    if let Some(unknown) =
        wanted.and_then(|wanted| wanted.iter().find(|mode| !matches!(mode.as_str(), "bios" | "uefi")))
    {
        return Err(DriverError::Invalid(format!(
            "boot mode `{unknown}` is unknown; known are: bios, uefi"
        )));
    }
    match (
        has("bios") && (bios || wanted.is_some()),
        has("uefi") && (uefi || wanted.is_some()),
    ) {
        (true, true) => Ok(Firmware::Both),
        (true, false) => Ok(Firmware::Bios),
        (false, true) => Ok(Firmware::Uefi),
        (false, false) => Err(DriverError::NotFound(
            "there is no boot loader for a boot ISO: set [images] isolinux or esp in farrier.toml".to_owned(),
        )),
    }
}

fn files(files: &[SmallFile]) -> Vec<(String, Content)> {
    files
        .iter()
        .map(|file| (file.path.clone(), Content::Literal(file.content.clone().into())))
        .collect()
}

/// The messages of `image` name what is wrong and never a value.
fn invalid(error: impl std::error::Error) -> DriverError {
    DriverError::Invalid(error.to_string())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DriverError> + Send + 'static,
) -> Result<T, DriverError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(DriverError::other(
            "host-panic",
            "building an image failed inside the host: report this",
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_iso_boots_with_every_loader_at_hand_unless_asked_otherwise() {
        let modes = |list: &[&str]| list.iter().map(|mode| (*mode).to_owned()).collect::<Vec<_>>();
        assert_eq!(firmware(None, true, true).unwrap(), Firmware::Both);
        assert_eq!(firmware(None, true, false).unwrap(), Firmware::Bios);
        assert_eq!(firmware(None, false, true).unwrap(), Firmware::Uefi);
        assert_eq!(firmware(Some(&modes(&["uefi"])), true, true).unwrap(), Firmware::Uefi);
        // What is asked for and not at hand is the writer's error, which names the file.
        assert_eq!(firmware(Some(&modes(&["uefi"])), true, false).unwrap(), Firmware::Uefi);
        assert!(firmware(None, false, false).is_err());
        assert!(firmware(Some(&modes(&["efi"])), true, true).is_err());
    }
}
