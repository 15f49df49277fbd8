//! What the demo boots and deploys: the set-up's kernel, ramdisk and disk image for a real machine; made-up bytes where no
//! CPU will ever run them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use api::listen::Limits;
use image::{EspSpec, Extent, FileSource, Kind, Layout, NoSources, SourceMap};
use model::{ArtefactName, Sha256};
use sha2::Digest as _;
use storage::{Backend, Embedded, EmbeddedConfig, NoRecords, Publication, Reader};

use tokio_util::sync::{CancellationToken, DropGuard};

use super::conductor::BootFiles;
use crate::lab::{Boot, LabArgs};

/// What the test disk prints on the serial port once it runs.
const DISK_MARKER: &str = "FARRIER-DISK-BOOTED";

pub(super) struct Files {
    pub(super) boot: BootFiles,
    pub(super) disk_image: PathBuf,
}

impl Files {
    pub(super) fn prepare(boot: Boot, lab: &LabArgs, data: &Path) -> Result<Self> {
        match boot {
            Boot::Qemu => Self::of_lab(lab, data),
            Boot::Protocol => Self::made_up(data),
        }
    }

    fn of_lab(args: &LabArgs, data: &Path) -> Result<Self> {
        let lab = args.lab()?;
        let grub = std::fs::read(lab.file("GRUB_EFI")?).context("could not read the GRUB binary")?;
        let spec = EspSpec {
            files: vec![("EFI/BOOT/BOOTX64.EFI".to_owned(), bytes::Bytes::from(grub).into())],
        };
        let esp = data.join("esp.img");
        let file = std::fs::File::create_new(&esp)?;
        image::esp(&spec)?.write_to(&NoSources, &file)?;
        let boot = BootFiles {
            kernel: lab.file("DEPLOY_KERNEL_CLOUD")?,
            ramdisk: lab.file("DEPLOY_RAMDISK_CLOUD")?,
            isolinux: lab.file("ISOLINUX")?,
            esp: Some(esp),
        };
        Ok(Self {
            boot,
            disk_image: lab.file("DISK_IMAGE")?,
        })
    }

    /// Bytes that only the simulator reads. A protocol server looks at the CD's boot catalogue and configuration and reads
    /// parts of kernel and ramdisk; it does not run them.
    fn made_up(data: &Path) -> Result<Self> {
        let make = |name: &str, len: usize| -> Result<PathBuf> {
            let path = data.join(name);
            let mut content = name.as_bytes().repeat(len / name.len() + 1);
            content.truncate(len);
            std::fs::write(&path, content)?;
            Ok(path)
        };
        let disk_image = make("disk.img", 1 << 20)?;
        let mut content = std::fs::read(&disk_image)?;
        content[510..512].copy_from_slice(&[0x55, 0xAA]);
        std::fs::write(&disk_image, content)?;
        let boot = BootFiles {
            kernel: make("vmlinuz", 8 << 20)?,
            ramdisk: make("initrd", 32 << 20)?,
            isolinux: make("isolinux.bin", 40 << 10)?,
            esp: None,
        };
        Ok(Self { boot, disk_image })
    }

    /// The disk starts with the image, byte for byte.
    pub(super) fn check_disk(&self, disk: &Path) -> Result<()> {
        use std::io::Read as _;
        let image = std::fs::read(&self.disk_image)?;
        let mut start = Vec::new();
        std::fs::File::open(disk)?
            .take(image.len() as u64)
            .read_to_end(&mut start)?;
        ensure!(
            start == image,
            "{} does not hold the image that was deployed to it",
            disk.display()
        );
        Ok(())
    }

    /// Waits until the deployed system says on the serial port that it runs.
    pub(super) async fn wait_for_disk_boot(&self, serial: &Path, patience: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let log = std::fs::read(serial).unwrap_or_default();
            if String::from_utf8_lossy(&log).contains(DISK_MARKER) {
                return Ok(());
            }
            if start.elapsed() > patience {
                bail!(
                    "the machine did not boot from its disk; its serial console is in {}",
                    serial.display()
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Serves the disk image to the deploy agents.
pub(super) struct DiskServer {
    url: String,
    sha256: Sha256,
    _stop: DropGuard,
}

impl DiskServer {
    pub(super) async fn start(image: &Path) -> Result<Self> {
        let content = std::fs::read(image).with_context(|| format!("could not read {}", image.display()))?;
        let sha256 = Sha256(sha2::Sha256::digest(&content).into());
        let len = content.len() as u64;
        let mut sources = SourceMap::default();
        sources.insert(sha256, Arc::new(FileSource::open(image)?));
        let layout = Layout::from_extents(Kind::Other, vec![Extent::Source { sha256, offset: 0, len }])?;
        let listener = tokio::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        // Simulated servers see this host at 10.0.2.2.
        let base_url = format!("http://10.0.2.2:{}", listener.local_addr()?.port());
        let embedded = Embedded::new(EmbeddedConfig {
            base_url,
            recall: Arc::new(NoRecords),
        })?;
        let token = uuid::Uuid::new_v4().simple();
        let name = ArtefactName::parse(&format!("{token}.img")).context("a random name")?;
        let publication = Publication {
            name,
            layout: Arc::new(layout),
            sources: Arc::new(sources),
            reader: Reader::default(),
        };
        let url = embedded.publish(&publication, None).await?.url.expose().to_owned();
        let stop = CancellationToken::new();
        tokio::spawn(api::images::serve(
            listener,
            Limits::images(None),
            embedded,
            stop.clone(),
        ));
        Ok(Self {
            url,
            sha256,
            _stop: stop.drop_guard(),
        })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn sha256(&self) -> String {
        self.sha256.to_string()
    }
}
