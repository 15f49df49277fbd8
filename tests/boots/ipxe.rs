//! Real machines that boot by iPXE, with the ROM that QEMU's network card has: from the conductor itself, and from a web
//! server whose folder and URL stand in `ironic.conf`.

use std::path::{Path, PathBuf};

use sim::{BootMode, BootTarget, Device};

use crate::lab;
use crate::peers::Nginx;
use crate::site::{Boot, Conductor, Modes, Site};

const BIOS: Modes = Modes {
    factory: BootMode::LegacyBios,
    asked: "bios",
};
const UEFI: Modes = Modes {
    factory: BootMode::Uefi,
    asked: "uefi",
};

/// A folder that nginx serves below /images, whose path has to be kept.
struct Web {
    root: tempfile::TempDir,
    nginx: Nginx,
}

impl Web {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let nginx = Nginx::start(root.path());
        Self { root, nginx }
    }

    /// As guests see it.
    fn url(&self) -> String {
        format!("http://10.0.2.2:{}/images", self.nginx.port)
    }

    fn root(&self) -> &Path {
        self.root.path()
    }

    /// A site that takes its web server from these lines.
    fn boot(&self, lines: &str) -> Boot {
        Boot::IronicConf {
            bootfile: format!("{}/boot.ipxe", self.url()),
            text: format!("[ilo]\nuse_web_server_for_images = True\n{lines}"),
        }
    }

    fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(self.root().join(&folder)).unwrap() {
                let path = folder.join(entry.unwrap().file_name());
                match self.root().join(&path).is_dir() {
                    true => folders.push(path),
                    false => files.push(path.to_str().unwrap().to_owned()),
                }
            }
        }
        files.sort();
        files
    }
}

/// Deploys server 0 onto its disk, over the network from its first boot to its last.
async fn deploys(site: &Site, alpha: &Conductor, modes: Modes) -> String {
    let node = site.available(alpha, 0, "agent_ilo", site.disk_image()).await;
    alpha.bring(&node, "active", "active").await;
    site.assert_deployed(0);
    site.says(0, &format!("FARRIER-DISK-BOOTED {}", modes.asked)).await;
    let console = site.console(0);
    assert!(console.contains(&format!(", firmware {} [", modes.asked)), "{console}");
    assert!(console.contains("FARRIER-RAMDISK image written to"), "{console}");
    assert!(!console.contains("parameters volume"), "{console}");
    for device in [Device::Floppy, Device::Cd] {
        let reads = site.sim.media_reads(0, device).unwrap();
        assert!(reads.is_empty(), "virtual media were used: {reads:?}");
    }
    node
}

fn card(site: &Site, index: usize) -> String {
    site.sim.server(index).unwrap().mac.replace(':', "-")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bios_machine_boots_by_ipxe_from_the_folder_of_the_deploy_options_and_leaves_nothing_there() {
    let _one = lab::machine().await;
    let web = Web::start();
    let (root, url) = (web.root().display(), web.url());
    let boot = web.boot(&format!("[deploy]\nhttp_root = {root}\nhttp_url = {url}\n"));
    let site = Site::booting(1, BIOS, boot).await;
    let alpha = site.conductor("alpha", false).await;
    let node = deploys(&site, &alpha, BIOS).await;
    let uuid = alpha.get(&format!("/v1/nodes/{node}")).await["uuid"]
        .as_str()
        .unwrap()
        .to_owned();
    // A server that boots from the network all the same is sent to its disk.
    let script = format!("pxelinux.cfg/{}", card(&site, 0));
    let mut files = vec![format!("{uuid}/config"), "boot.ipxe".to_owned(), script.clone()];
    files.sort();
    assert_eq!(web.files(), files);
    let text = std::fs::read_to_string(web.root().join(script)).unwrap();
    assert!(text.contains("sanboot"), "{text}");
    alpha.bring(&node, "deleted", "available").await;
    assert_eq!(web.files(), ["boot.ipxe"]);
    drop(alpha);
    site.sim.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_uefi_machine_boots_by_ipxe_from_the_folder_of_the_old_pxe_options_alone() {
    let _one = lab::machine().await;
    let web = Web::start();
    let (root, url) = (web.root().display(), web.url());
    let boot = web.boot(&format!("[pxe]\nhttp_root = {root}\nhttp_url = {url}/\n"));
    let site = Site::booting(1, UEFI, boot).await;
    let alpha = site.conductor("alpha", false).await;
    deploys(&site, &alpha, UEFI).await;
    let log = alpha.log();
    let warned = |line: &str| line.contains("warning") && line.contains("http_root") && line.contains("[deploy]");
    assert!(log.lines().any(warned), "{log}");
    drop(alpha);
    site.sim.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_both_the_deploy_options_win_and_an_instance_boots_its_kernel_by_ipxe_again_and_again() {
    let _one = lab::machine().await;
    let (web, old) = (Web::start(), Web::start());
    let boot = web.boot(&format!(
        "[pxe]\nhttp_root = {}\nhttp_url = {}\n[deploy]\nhttp_root = {}\nhttp_url = {}\n",
        old.root().display(),
        old.url(),
        web.root().display(),
        web.url()
    ));
    let site = Site::booting(2, BIOS, boot).await;
    let alpha = site.conductor("alpha", false).await;
    deploys(&site, &alpha, BIOS).await;

    let node = site.available(&alpha, 1, "iscsi_ilo", site.boot_iso_alone()).await;
    alpha.bring(&node, "active", "active").await;
    let line = format!("FARRIER-INSTANCE-BOOTED initrd=ramdisk BOOTIF=01-{}", card(&site, 1));
    site.says(1, &line).await;
    alpha.reboot(&node).await;
    site.says_again(1, &line).await;
    assert!(old.files().is_empty(), "{:?}", old.files());
    drop(alpha);
    site.sim.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_fetches_from_the_conductor_is_cleaned_and_deployed_and_another_boots_its_instance_after_a_restart()
 {
    let _one = lab::machine().await;
    let site = Site::booting(2, BIOS, Boot::Conductor).await;
    let alpha = site.conductor("alpha", true).await;
    deploys(&site, &alpha, BIOS).await;
    let console = site.console(0);
    assert!(
        console.contains("FARRIER-RAMDISK command clean.execute_clean_step"),
        "{console}"
    );

    let node = site.available(&alpha, 1, "iscsi_ilo", site.boot_iso_alone()).await;
    alpha.bring(&node, "active", "active").await;
    site.says(1, "FARRIER-INSTANCE-BOOTED ").await;
    let last = site.sim.last_boot(1).unwrap().unwrap();
    assert_eq!(last.device, Some(BootTarget::Pxe));
    alpha.kill().await;
    // DHCP names alpha's address, so whoever comes after it has to have it.
    let alpha = site.conductor("alpha", true).await;
    alpha.reboot(&node).await;
    site.says_again(1, "FARRIER-INSTANCE-BOOTED ").await;
    drop(alpha);
    site.sim.stop().await;
}
